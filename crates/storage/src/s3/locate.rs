//! Finding the entry at a path.
//!
//! The key of an object is its whole path, so a path without links takes one request. Only if there is no object at the
//! key does it matter what lies above: a directory, a link that leads elsewhere, or a file in the way.

use futures::FutureExt;
use garret_core::{Error, Follow, Result, WsPath};

use super::S3Context;
use super::bucket::{ListCall, PAGE, S3Object};
use super::bucket_memory::DirectoryChildren;
use super::concurrent::run_concurrently;
use super::keys::KeyLayout;
use super::wire::failure::S3RequestError;
use super::wire::xml::S3ListPage;

const MAX_LINKS: usize = 40;

/// Whether a link in the last component of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum S3FinalLink {
    Followed,
    Kept,
}

/// The rules by which the links of a path are followed.
#[derive(Debug, Clone, Copy)]
pub(super) struct S3LinkRules {
    pub(super) last: S3FinalLink,
    pub(super) follow: Follow,
}

/// The entry at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum S3FoundEntry {
    /// Nothing; `has_parent` says whether its directory exists.
    Nothing { has_parent: bool },
    /// Nothing, and nothing can be there: a file is above it.
    Blocked,
    /// A file.
    File(S3Object),
    /// A link, with its target in the metadata.
    Link(S3Object),
    /// A directory; `has_marker` says whether it has a marker.
    Directory { has_marker: bool },
}

/// A real path and the entry there.
#[derive(Debug, Clone)]
pub(super) struct S3EntryLocation {
    pub(super) path: WsPath,
    pub(super) found: S3FoundEntry,
}

impl S3EntryLocation {
    /// Returns the error for an operation that needs an entry here.
    pub(super) fn missing_error(&self) -> Error {
        match self.found {
            S3FoundEntry::Blocked => Error::not_a_directory(&self.path),
            _ => Error::not_found(&self.path),
        }
    }
}

/// Converts an object into an entry.
pub(super) fn entry_of_object(object: S3Object) -> S3FoundEntry {
    if object.metadata.target.is_some() && object.size == 0 {
        S3FoundEntry::Link(object)
    } else {
        S3FoundEntry::File(object)
    }
}

impl S3Context {
    /// Finds the entry at `path`.
    pub(super) async fn locate_entry(&self, path: &WsPath, way: S3LinkRules) -> Result<S3EntryLocation> {
        super::keys::refuse_reserved(path)?;
        match self.look_up_key(path).await? {
            S3FoundEntry::Link(_) if way.last == S3FinalLink::Followed => self.follow_links(path, way).await,
            S3FoundEntry::Nothing { .. } => self.locate_missing(path, way).await,
            found => Ok(S3EntryLocation {
                path: path.clone(),
                found,
            }),
        }
    }

    /// Finds out why there is no object at the key of `path`: a missing directory, a link or a file above it.
    async fn locate_missing(&self, path: &WsPath, way: S3LinkRules) -> Result<S3EntryLocation> {
        let located = |found| {
            Ok(S3EntryLocation {
                path: path.clone(),
                found,
            })
        };
        let parent = path.parent().unwrap_or_else(WsPath::root);
        if self.has_directory(&parent).await? {
            return located(S3FoundEntry::Nothing { has_parent: true });
        }
        match self.first_object_above(path).await? {
            None => located(S3FoundEntry::Nothing { has_parent: false }),
            Some(S3FoundEntry::Link(_)) => self.follow_links(path, way).await,
            Some(_) => located(S3FoundEntry::Blocked),
        }
    }

    /// Finds the entry at the key of `path` itself, without following links.
    pub(super) async fn look_up_key(&self, path: &WsPath) -> Result<S3FoundEntry> {
        if path.is_root() {
            return Ok(S3FoundEntry::Directory { has_marker: false });
        }
        let object = self.head_file(path).await?;
        if let Some(object) = object {
            self.known.remember_object(path, &object);
            return Ok(entry_of_object(object));
        }
        self.look_up_directory(path).await
    }

    async fn look_up_directory(&self, path: &WsPath) -> Result<S3FoundEntry> {
        let prefix = self.layout.directory_key(path);
        let first = self
            .first_key_below(&prefix)
            .await
            .map_err(|failure| error_at_path(path, failure))?;
        Ok(match first {
            Some(key) => S3FoundEntry::Directory {
                has_marker: key == prefix,
            },
            None => S3FoundEntry::Nothing { has_parent: false },
        })
    }

    pub(super) async fn first_key_below(&self, prefix: &str) -> Result<Option<String>, S3RequestError> {
        let list = ListCall {
            prefix,
            limit: 1,
            ..ListCall::default()
        };
        Ok(self
            .bucket
            .list(&list)
            .await?
            .objects
            .into_iter()
            .next()
            .map(|object| object.key))
    }

    /// Asks the server whether a directory is at `path`.
    pub(super) async fn has_directory(&self, path: &WsPath) -> Result<bool> {
        if path.is_root() {
            return Ok(true);
        }
        let prefix = self.layout.directory_key(path);
        let first = self
            .first_key_below(&prefix)
            .await
            .map_err(|failure| error_at_path(path, failure))?;
        Ok(first.is_some())
    }

    /// Returns the first file or link among the ancestors of `path`, from the top.
    async fn first_object_above(&self, path: &WsPath) -> Result<Option<S3FoundEntry>> {
        let above: Vec<_> = path.ancestry().filter(|above| above != path).collect();
        let looks = above.iter().map(|above| self.head_file(above).boxed());
        let objects = run_concurrently(looks.collect()).await?;
        Ok(objects.into_iter().flatten().next().map(entry_of_object))
    }

    /// Sends a HEAD request for the object of a file or link.
    async fn head_file(&self, path: &WsPath) -> Result<Option<S3Object>> {
        let key = self.layout.file_key(path)?;
        self.bucket
            .head(&key)
            .await
            .map_err(|failure| error_at_path(path, failure))
    }

    /// Follows the links of `path` one component at a time, and finds the entry at their end.
    async fn follow_links(&self, path: &WsPath, way: S3LinkRules) -> Result<S3EntryLocation> {
        let real = self.resolve_links(path, way).await?;
        let found = match self.look_up_key(&real).await? {
            S3FoundEntry::Nothing { .. } => {
                let parent = real.parent().unwrap_or_else(WsPath::root);
                let has_parent = self.has_directory(&parent).await?;
                if has_parent || self.first_object_above(&real).await?.is_none() {
                    S3FoundEntry::Nothing { has_parent }
                } else {
                    S3FoundEntry::Blocked
                }
            }
            found => found,
        };
        Ok(S3EntryLocation { path: real, found })
    }

    async fn resolve_links(&self, path: &WsPath, way: S3LinkRules) -> Result<WsPath> {
        let mut todo: Vec<String> = path.components().rev().map(str::to_owned).collect();
        let mut real = WsPath::root();
        let mut followed = 0;
        while let Some(name) = todo.pop() {
            if name == ".." {
                real = real.parent().ok_or_else(|| Error::path_escape(path))?;
                continue;
            }
            let next = real.child(&name)?;
            let is_kept = way.last == S3FinalLink::Kept && todo.is_empty();
            let Some(target) = (if is_kept {
                None
            } else {
                self.link_target_at(&next).await?
            }) else {
                real = next;
                continue;
            };
            followed += 1;
            if target.starts_with('/') || way.follow == Follow::Never {
                return Err(Error::path_escape(path));
            }
            if followed > MAX_LINKS {
                return Err(
                    Error::invalid(format!("{} goes through too many symbolic links", path.to_quoted())).at_path(path),
                );
            }
            let parts = target.split('/').rev();
            todo.extend(parts.filter(|part| !part.is_empty() && *part != ".").map(str::to_owned));
        }
        Ok(real)
    }

    async fn link_target_at(&self, path: &WsPath) -> Result<Option<String>> {
        let object = self.head_file(path).await?;
        Ok(object
            .filter(|object| object.size == 0)
            .and_then(|object| object.metadata.target))
    }

    /// Finds the entry at `path` for a write, with the help of the handle's memory.
    pub(super) async fn locate_for_write(
        &self,
        path: &WsPath,
        way: S3LinkRules,
        parents: bool,
    ) -> Result<S3EntryLocation> {
        super::keys::refuse_reserved(path)?;
        let nothing = |has_parent| S3EntryLocation {
            path: path.clone(),
            found: S3FoundEntry::Nothing { has_parent },
        };
        // No request at all: the write is conditional on the name being free, so a stale memory does no harm.
        if self.known.is_free(path) {
            return Ok(nothing(true));
        }
        if parents && self.known.is_in_new_directory(path) {
            return Ok(nothing(false));
        }
        let Some((parent, name)) = path.parent().zip(path.name()) else {
            return self.locate_entry(path, way).await;
        };
        let object = self.head_file(path).await?;
        if let Some(object) = object {
            self.known.remember_object(path, &object);
            return match entry_of_object(object) {
                S3FoundEntry::Link(_) if way.last == S3FinalLink::Followed => self.follow_links(path, way).await,
                found => Ok(S3EntryLocation {
                    path: path.clone(),
                    found,
                }),
            };
        }
        let children = self.learn_children(&parent, name).await?;
        if children.directories.contains(name) || !children.covers(name) {
            match self.look_up_directory(path).await? {
                S3FoundEntry::Nothing { .. } => {}
                found => {
                    return Ok(S3EntryLocation {
                        path: path.clone(),
                        found,
                    });
                }
            }
        }
        if parent.is_root() || !children.is_empty() {
            Ok(nothing(true))
        } else {
            self.locate_missing(path, way).await
        }
    }

    /// Returns the names in `directory`, as far as they are needed to know of `name`.
    async fn learn_children(&self, directory: &WsPath, name: &str) -> Result<DirectoryChildren> {
        if let Some(children) = self.known.children(directory).filter(|children| children.covers(name)) {
            return Ok(children);
        }
        let mark = self.known.current_mark();
        let prefix = self.layout.directory_key(directory);
        let list = ListCall {
            prefix: &prefix,
            is_shallow: true,
            limit: PAGE,
            ..ListCall::default()
        };
        let page = self
            .bucket
            .list(&list)
            .await
            .map_err(|failure| error_at_path(directory, failure))?;
        let mut children = children_of_page(&self.layout, &prefix, &page);
        // The marker of the directory itself is a file without a name here. If there is no other file, a server with
        // ghosts may show only a directory that no longer exists.
        let has_file = children.files.iter().any(|name| !name.is_empty());
        let is_doubtful = self.abilities.shows_ghosts && !has_file && !directory.is_root();
        if is_doubtful && !self.has_directory(directory).await? {
            children = DirectoryChildren::default();
        }
        self.known.remember_children(directory, children.clone(), mark);
        Ok(children)
    }
}

/// Returns the names in a page of a list whose keys begin with `prefix`.
pub(super) fn children_of_page(layout: &KeyLayout, prefix: &str, page: &S3ListPage) -> DirectoryChildren {
    let inside = |key: &str| key.strip_prefix(prefix).map(|name| layout.spell_as_path(name));
    let last = page.objects.iter().map(|object| object.key.as_str());
    let last = last.chain(page.prefixes.iter().map(String::as_str)).max();
    let directories = page.prefixes.iter().filter_map(|prefix| inside(prefix));
    let mut children = DirectoryChildren::default();
    children.until = page.next.as_ref().and(last).and_then(inside);
    children.files = page.objects.iter().filter_map(|object| inside(&object.key)).collect();
    children.directories = directories.map(|name| name.trim_end_matches('/').to_owned()).collect();
    children
}

/// Converts a failed request for `path` into an error.
pub(super) fn error_at_path(path: &WsPath, failure: S3RequestError) -> Error {
    match failure {
        S3RequestError::NotFound => Error::not_found(path),
        failure => failure.into_error().at_path(path),
    }
}
