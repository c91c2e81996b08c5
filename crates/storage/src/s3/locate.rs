//! Finding the entry at a path.
//!
//! The key of an object is its whole path, so a path without links takes one request. Only if there is no object at the
//! key does it matter what lies above: a directory, a link that leads elsewhere, or a file in the way.

use futures::FutureExt;
use garret_core::{Error, Follow, Result, WsPath};

use super::Shared;
use super::at_once::try_all;
use super::bucket::{ListCall, Object, PAGE};
use super::keys::Layout;
use super::known::Children;
use super::wire::failure::Failure;
use super::wire::xml::Page;

const MAX_LINKS: usize = 40;

/// Whether a link in the last component of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Followed,
    Kept,
}

/// The rules by which the links of a path are followed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) last: Last,
    pub(super) follow: Follow,
}

/// The entry at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing; `has_parent` says whether its directory exists.
    Nothing { has_parent: bool },
    /// Nothing, and nothing can be there: a file is above it.
    Blocked,
    /// A file.
    File(Object),
    /// A link, with its target in the metadata.
    Link(Object),
    /// A directory; `has_marker` says whether it has a marker.
    Directory { has_marker: bool },
}

/// A real path and the entry there.
#[derive(Debug, Clone)]
pub(super) struct Located {
    pub(super) path: WsPath,
    pub(super) found: Found,
}

impl Located {
    /// Returns the error for an operation that needs an entry here.
    pub(super) fn missing(&self) -> Error {
        match self.found {
            Found::Blocked => Error::not_a_directory(&self.path),
            _ => Error::not_found(&self.path),
        }
    }
}

/// Converts an object into an entry.
pub(super) fn found(object: Object) -> Found {
    if object.metadata.target.is_some() && object.size == 0 {
        Found::Link(object)
    } else {
        Found::File(object)
    }
}

impl Shared {
    /// Finds the entry at `path`.
    pub(super) async fn locate(&self, path: &WsPath, way: Way) -> Result<Located> {
        super::keys::refuse_reserved(path)?;
        match self.look(path).await? {
            Found::Link(_) if way.last == Last::Followed => self.follow(path, way).await,
            Found::Nothing { .. } => self.locate_missing(path, way).await,
            found => Ok(Located {
                path: path.clone(),
                found,
            }),
        }
    }

    /// Finds out why there is no object at the key of `path`: a missing directory, a link or a file above it.
    async fn locate_missing(&self, path: &WsPath, way: Way) -> Result<Located> {
        let located = |found| {
            Ok(Located {
                path: path.clone(),
                found,
            })
        };
        let parent = path.parent().unwrap_or_else(WsPath::root);
        if self.has_directory(&parent).await? {
            return located(Found::Nothing { has_parent: true });
        }
        match self.first_above(path).await? {
            None => located(Found::Nothing { has_parent: false }),
            Some(Found::Link(_)) => self.follow(path, way).await,
            Some(_) => located(Found::Blocked),
        }
    }

    /// Finds the entry at the key of `path` itself, without following links.
    pub(super) async fn look(&self, path: &WsPath) -> Result<Found> {
        if path.is_root() {
            return Ok(Found::Directory { has_marker: false });
        }
        let object = self.head(path).await?;
        if let Some(object) = object {
            self.known.met(path, &object);
            return Ok(found(object));
        }
        self.look_for_directory(path).await
    }

    async fn look_for_directory(&self, path: &WsPath) -> Result<Found> {
        let prefix = self.layout.directory(path);
        let first = self
            .first_below(&prefix)
            .await
            .map_err(|failure| failed(path, failure))?;
        Ok(match first {
            Some(key) => Found::Directory {
                has_marker: key == prefix,
            },
            None => Found::Nothing { has_parent: false },
        })
    }

    pub(super) async fn first_below(&self, prefix: &str) -> Result<Option<String>, Failure> {
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
        let prefix = self.layout.directory(path);
        let first = self
            .first_below(&prefix)
            .await
            .map_err(|failure| failed(path, failure))?;
        Ok(first.is_some())
    }

    /// Returns the first file or link among the ancestors of `path`, from the top.
    async fn first_above(&self, path: &WsPath) -> Result<Option<Found>> {
        let above: Vec<_> = path.ancestry().filter(|above| above != path).collect();
        let looks = above.iter().map(|above| self.head(above).boxed());
        let objects = try_all(looks.collect()).await?;
        Ok(objects.into_iter().flatten().next().map(found))
    }

    /// Sends a HEAD request for the object of a file or link.
    async fn head(&self, path: &WsPath) -> Result<Option<Object>> {
        let key = self.layout.file(path)?;
        self.bucket.head(&key).await.map_err(|failure| failed(path, failure))
    }

    /// Follows the links of `path` one component at a time, and finds the entry at their end.
    async fn follow(&self, path: &WsPath, way: Way) -> Result<Located> {
        let real = self.walk(path, way).await?;
        let found = match self.look(&real).await? {
            Found::Nothing { .. } => {
                let parent = real.parent().unwrap_or_else(WsPath::root);
                let has_parent = self.has_directory(&parent).await?;
                if has_parent || self.first_above(&real).await?.is_none() {
                    Found::Nothing { has_parent }
                } else {
                    Found::Blocked
                }
            }
            found => found,
        };
        Ok(Located { path: real, found })
    }

    async fn walk(&self, path: &WsPath, way: Way) -> Result<WsPath> {
        let mut todo: Vec<String> = path.components().rev().map(str::to_owned).collect();
        let mut real = WsPath::root();
        let mut followed = 0;
        while let Some(name) = todo.pop() {
            if name == ".." {
                real = real.parent().ok_or_else(|| Error::path_escape(path))?;
                continue;
            }
            let next = real.child(&name)?;
            let is_kept = way.last == Last::Kept && todo.is_empty();
            let Some(target) = (if is_kept { None } else { self.target_at(&next).await? }) else {
                real = next;
                continue;
            };
            followed += 1;
            if target.starts_with('/') || way.follow == Follow::Never {
                return Err(Error::path_escape(path));
            }
            if followed > MAX_LINKS {
                return Err(Error::invalid(format!("{} goes through too many symbolic links", path.quoted())).at(path));
            }
            let parts = target.split('/').rev();
            todo.extend(parts.filter(|part| !part.is_empty() && *part != ".").map(str::to_owned));
        }
        Ok(real)
    }

    async fn target_at(&self, path: &WsPath) -> Result<Option<String>> {
        let object = self.head(path).await?;
        Ok(object
            .filter(|object| object.size == 0)
            .and_then(|object| object.metadata.target))
    }

    /// Finds the entry at `path` for a write, with the help of the handle's memory.
    pub(super) async fn locate_for_write(&self, path: &WsPath, way: Way, parents: bool) -> Result<Located> {
        super::keys::refuse_reserved(path)?;
        let nothing = |has_parent| Located {
            path: path.clone(),
            found: Found::Nothing { has_parent },
        };
        // No request at all: the write is conditional on the name being free, so a stale memory does no harm.
        if self.known.is_free(path) {
            return Ok(nothing(true));
        }
        if parents && self.known.is_in_new_directory(path) {
            return Ok(nothing(false));
        }
        let Some((parent, name)) = path.parent().zip(path.name()) else {
            return self.locate(path, way).await;
        };
        let object = self.head(path).await?;
        if let Some(object) = object {
            self.known.met(path, &object);
            return match found(object) {
                Found::Link(_) if way.last == Last::Followed => self.follow(path, way).await,
                found => Ok(Located {
                    path: path.clone(),
                    found,
                }),
            };
        }
        let children = self.learn(&parent, name).await?;
        if children.directories.contains(name) || !children.covers(name) {
            match self.look_for_directory(path).await? {
                Found::Nothing { .. } => {}
                found => {
                    return Ok(Located {
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
    async fn learn(&self, directory: &WsPath, name: &str) -> Result<Children> {
        if let Some(children) = self.known.children(directory).filter(|children| children.covers(name)) {
            return Ok(children);
        }
        let mark = self.known.mark();
        let prefix = self.layout.directory(directory);
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
            .map_err(|failure| failed(directory, failure))?;
        let mut children = children(&self.layout, &prefix, &page);
        // The marker of the directory itself is a file without a name here. If there is no other file, a server with
        // ghosts may show only a directory that no longer exists.
        let has_file = children.files.iter().any(|name| !name.is_empty());
        let is_doubtful = self.abilities.shows_ghosts && !has_file && !directory.is_root();
        if is_doubtful && !self.has_directory(directory).await? {
            children = Children::default();
        }
        self.known.learned(directory, children.clone(), mark);
        Ok(children)
    }
}

/// Returns the names in a page of a list whose keys begin with `prefix`.
pub(super) fn children(layout: &Layout, prefix: &str, page: &Page) -> Children {
    let inside = |key: &str| key.strip_prefix(prefix).map(|name| layout.plain(name));
    let last = page.objects.iter().map(|object| object.key.as_str());
    let last = last.chain(page.prefixes.iter().map(String::as_str)).max();
    let directories = page.prefixes.iter().filter_map(|prefix| inside(prefix));
    let mut children = Children::default();
    children.until = page.next.as_ref().and(last).and_then(inside);
    children.files = page.objects.iter().filter_map(|object| inside(&object.key)).collect();
    children.directories = directories.map(|name| name.trim_end_matches('/').to_owned()).collect();
    children
}

/// Converts a failed request for `path` into an error.
pub(super) fn failed(path: &WsPath, failure: Failure) -> Error {
    match failure {
        Failure::NotFound => Error::not_found(path),
        failure => failure.into_error().at(path),
    }
}
