//! Removing files, links and directories.

use futures::FutureExt;
use garret_core::{Applied, Error, ErrorKind, Precondition, Result, WsPath};

use super::at_once::try_all;
use super::batch::Work;
use super::bucket::{Condition, ListCall, Object};
use super::keys::Meaning;
use super::locate::{Found, Last, failed};
use super::metadata::Metadata;
use super::stat::version;
use super::undo::{Saved, Undo};
use super::wire::xml::Listed;

const MAX_ROUNDS: u32 = 50;

pub(super) const GONE: Applied = Applied {
    version: None,
    size: 0,
    created: false,
};

impl Work<'_> {
    pub(super) async fn remove(&self, path: &WsPath, recursive: bool, precondition: &Precondition) -> Result<Applied> {
        if path.is_root() {
            return Err(root_is_kept("removed"));
        }
        for round in 1..=MAX_ROUNDS {
            let located = self.shared.locate(path, self.way(Last::Kept)).await?;
            let real = &located.path;
            let object = match &located.found {
                Found::Nothing { .. } | Found::Blocked => return Err(located.missing()),
                Found::Directory { .. } if *precondition != Precondition::Any => {
                    return Err(Error::conflict(real, None));
                }
                Found::Directory { .. } => return self.remove_directory(real, recursive).await,
                Found::Link(_) if *precondition != Precondition::Any => return Err(Error::conflict(real, None)),
                Found::Link(object) => object,
                Found::File(object) => {
                    precondition.check(real, Some(&version(object)))?;
                    object
                }
            };
            self.keep_parent(real).await?;
            if self.discard(real, object).await? {
                return Ok(GONE);
            }
            self.shared.bucket.wire.pause(round.min(4)).await;
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("other programs keep changing {}", path.quoted()),
        )
        .at(path))
    }

    /// Refuses to begin a write after an answer has contradicted the probe.
    pub(super) fn check_server(&self, path: &WsPath) -> Result<()> {
        self.shared.check_server().map_err(|failure| failed(path, failure))
    }

    /// Removes the object at `path` if it is still this one, and records how to restore it.
    pub(super) async fn discard(&self, path: &WsPath, object: &Object) -> Result<bool> {
        let key = self.shared.layout.file(path)?;
        self.check_server(path)?;
        let saved = self.save(path, &key, object).await?;
        let outcome = self.shared.discard(&key, object).await;
        let is_gone = outcome.map_err(|failure| failed(path, failure))?;
        self.shared.known.removed(path);
        if let (true, Some(before)) = (is_gone, saved) {
            self.note(Undo::Removed { key, before });
        }
        Ok(is_gone)
    }

    /// Removes the object at `path` if it is still this one and a copy of it exists already; `before` restores it from
    /// the copy.
    pub(super) async fn discard_saved(&self, path: &WsPath, object: &Object, before: Saved) -> Result<bool> {
        let key = self.shared.layout.file(path)?;
        let outcome = self.shared.discard(&key, object).await;
        let is_gone = outcome.map_err(|failure| failed(path, failure))?;
        self.shared.known.removed(path);
        if is_gone {
            self.note(Undo::Removed { key, before });
        }
        Ok(is_gone)
    }

    /// Makes sure that the directory of `path` stays when `path` is removed: a directory without another key gets a
    /// marker.
    pub(super) async fn keep_parent(&self, path: &WsPath) -> Result<()> {
        let Some(parent) = path.parent().filter(|parent| !parent.is_root()) else {
            return Ok(());
        };
        let prefix = self.shared.layout.directory(&parent);
        let own = [self.shared.layout.file(path)?, self.shared.layout.directory(path)];
        // A shallow list shows `path` as at most two items, the file and the directory, so four items are enough to see
        // any other.
        let list = ListCall {
            prefix: &prefix,
            is_shallow: true,
            limit: 4,
            ..ListCall::default()
        };
        let page = self.shared.bucket.list(&list).await;
        let page = page.map_err(|failure| failed(&parent, failure))?;
        let stays = |key: &str| !own.iter().any(|own| own == key);
        let is_held = page.objects.iter().any(|object| stays(&object.key));
        // A prefix may be a ghost, a directory that the server still shows although it is empty.
        let by_directory = page.prefixes.iter().any(|prefix| stays(prefix)) && !self.shared.abilities.shows_ghosts;
        if is_held || by_directory {
            return Ok(());
        }
        self.put_marker(&parent, Metadata::new(self.shared.clock.now())).await
    }

    /// Writes the marker of a directory that has none.
    pub(super) async fn put_marker(&self, path: &WsPath, metadata: Metadata) -> Result<()> {
        self.check_server(path)?;
        let key = self.shared.layout.directory(path);
        let tag = self
            .shared
            .bucket
            .put(&key, bytes::Bytes::new(), &metadata, Condition::Any)
            .await
            .map_err(|failure| failed(path, failure))?;
        self.shared.known.made(path);
        self.note(Undo::Made {
            key,
            object: Object {
                tag,
                size: 0,
                modified: None,
                metadata,
            },
        });
        Ok(())
    }

    /// Overwrites the marker of a directory.
    pub(super) async fn replace_marker(
        &self,
        path: &WsPath,
        key: &str,
        before: Object,
        metadata: Metadata,
    ) -> Result<()> {
        self.check_server(path)?;
        let saved = self.save(path, key, &before).await?;
        let put = self
            .shared
            .bucket
            .put(key, bytes::Bytes::new(), &metadata, Condition::Any);
        let tag = put.await.map_err(|failure| failed(path, failure))?;
        let object = Object {
            tag,
            metadata,
            ..before
        };
        if let Some(before) = saved {
            let key = key.to_owned();
            self.note(Undo::Replaced { key, object, before });
        }
        Ok(())
    }

    async fn remove_directory(&self, path: &WsPath, recursive: bool) -> Result<Applied> {
        let objects = self.objects_of(path).await?;
        let marker = self.shared.layout.directory(path);
        if !recursive && objects.iter().any(|object| object.key != marker) {
            return Err(Error::not_empty(path).hint("set `recursive` to remove it with everything in it"));
        }
        self.keep_parent(path).await?;
        self.discard_all(path, &objects).await?;
        Ok(GONE)
    }

    /// Returns every object below a directory, its marker included. Refuses a directory that holds a key that is no
    /// path.
    pub(super) async fn objects_of(&self, path: &WsPath) -> Result<Vec<Listed>> {
        let prefix = self.shared.layout.directory(path);
        let page = self.shared.bucket.list_all(&prefix, false).await;
        let objects = page.map_err(|failure| failed(path, failure))?.objects;
        let is_odd = |object: &&Listed| matches!(self.shared.layout.meaning(&object.key), Meaning::Odd(_));
        let odd = objects.iter().filter(is_odd).count();
        // No list shows these keys, so the caller cannot know that they would be removed or moved.
        if odd > 0 {
            let message = format!("{} holds {odd} objects whose keys are not valid paths", path.quoted());
            return Err(Error::new(ErrorKind::NotEmpty, message)
                .at(path)
                .hint("`garret fsck` lists them; remove them with another S3 tool"));
        }
        Ok(objects)
    }

    /// Removes many objects, several at once.
    pub(super) async fn discard_all(&self, path: &WsPath, objects: &[Listed]) -> Result<()> {
        self.check_server(path)?;
        let removals = objects.iter().map(|listed| self.discard_listed(path, listed).boxed());
        let outcome = try_all(removals.collect()).await;
        self.shared.known.forget(path);
        outcome.map(|_| ())
    }

    async fn discard_listed(&self, path: &WsPath, listed: &Listed) -> Result<()> {
        let failed = |failure| failed(path, failure);
        if self.saves {
            // A list shows no metadata, and without it the object could not be restored.
            let Some(object) = self.shared.bucket.head(&listed.key).await.map_err(failed)? else {
                return Ok(());
            };
            let saved = self.save(path, &listed.key, &object).await?;
            self.shared.bucket.delete(&listed.key, None).await.map_err(failed)?;
            if let Some(before) = saved {
                self.note(Undo::Removed {
                    key: listed.key.clone(),
                    before,
                });
            }
            return Ok(());
        }
        self.shared.bucket.delete(&listed.key, None).await.map_err(failed)
    }
}

pub(super) fn root_is_kept(what: &str) -> Error {
    Error::new(ErrorKind::Denied, format!("the root of the workspace cannot be {what}"))
        .at(&WsPath::root())
        .hint("name an entry inside the workspace")
}
