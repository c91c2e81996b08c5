//! Removing files, links and directories.

use futures::FutureExt;
use garret_core::{Error, ErrorKind, MutationOutcome, Precondition, Result, WsPath};

use super::batch::S3BatchRun;
use super::bucket::{ListCall, S3Object, WriteCondition};
use super::concurrent::run_concurrently;
use super::keys::KeyMeaning;
use super::locate::{S3FinalLink, S3FoundEntry, error_at_path};
use super::metadata::ObjectMetadata;
use super::stat::version_of;
use super::undo::{S3UndoStep, SavedObject};
use super::wire::xml::ListedObject;

const MAX_ROUNDS: u32 = 50;

pub(super) const GONE: MutationOutcome = MutationOutcome {
    version: None,
    size: 0,
    created: false,
    change: None,
};

impl S3BatchRun<'_> {
    pub(super) async fn remove(
        &self,
        path: &WsPath,
        recursive: bool,
        precondition: &Precondition,
    ) -> Result<MutationOutcome> {
        if path.is_root() {
            return Err(Error::root_denied("removed"));
        }
        for round in 1..=MAX_ROUNDS {
            let located = self
                .shared
                .locate_entry(path, self.link_rules(S3FinalLink::Kept))
                .await?;
            let real = &located.path;
            let object = match &located.found {
                S3FoundEntry::Nothing { .. } | S3FoundEntry::Blocked => return Err(located.missing_error()),
                S3FoundEntry::Directory { .. } if *precondition != Precondition::Any => {
                    return Err(Error::conflict(real, None));
                }
                S3FoundEntry::Directory { .. } => return self.remove_directory(real, recursive).await,
                S3FoundEntry::Link(_) if *precondition != Precondition::Any => return Err(Error::conflict(real, None)),
                S3FoundEntry::Link(object) => object,
                S3FoundEntry::File(object) => {
                    precondition.check_version(real, Some(&version_of(object)))?;
                    object
                }
            };
            self.preserve_parent(real).await?;
            if self.discard_object(real, object).await? {
                return Ok(GONE);
            }
            self.shared.bucket.wire.pause_before_retry(round.min(4)).await;
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("other programs keep changing {}", path.to_quoted()),
        )
        .at_path(path))
    }

    /// Refuses to begin a write after an answer has contradicted the probe.
    pub(super) fn check_server(&self, path: &WsPath) -> Result<()> {
        self.shared
            .check_server()
            .map_err(|failure| error_at_path(path, failure))
    }

    /// Removes the object at `path` if it is still this one, and records how to restore it.
    pub(super) async fn discard_object(&self, path: &WsPath, object: &S3Object) -> Result<bool> {
        let key = self.shared.layout.file_key(path)?;
        self.check_server(path)?;
        let saved = self.save_object(path, &key, object).await?;
        let outcome = self.shared.discard_if_unchanged(&key, object).await;
        let is_gone = outcome.map_err(|failure| error_at_path(path, failure))?;
        self.shared.known.forget_file(path);
        if let (true, Some(before)) = (is_gone, saved) {
            self.record_undo(S3UndoStep::Removed { key, before });
        }
        Ok(is_gone)
    }

    /// Removes the object at `path` if it is still this one and a copy of it exists already; `before` restores it from
    /// the copy.
    pub(super) async fn discard_saved(&self, path: &WsPath, object: &S3Object, before: SavedObject) -> Result<bool> {
        let key = self.shared.layout.file_key(path)?;
        let outcome = self.shared.discard_if_unchanged(&key, object).await;
        let is_gone = outcome.map_err(|failure| error_at_path(path, failure))?;
        self.shared.known.forget_file(path);
        if is_gone {
            self.record_undo(S3UndoStep::Removed { key, before });
        }
        Ok(is_gone)
    }

    /// Makes sure that the directory of `path` stays when `path` is removed: a directory without another key gets a
    /// marker.
    pub(super) async fn preserve_parent(&self, path: &WsPath) -> Result<()> {
        let Some(parent) = path.parent().filter(|parent| !parent.is_root()) else {
            return Ok(());
        };
        let prefix = self.shared.layout.directory_key(&parent);
        let own = [
            self.shared.layout.file_key(path)?,
            self.shared.layout.directory_key(path),
        ];
        // A shallow list shows `path` as at most two items, the file and the directory, so four items are enough to see
        // any other.
        let list = ListCall {
            prefix: &prefix,
            is_shallow: true,
            limit: 4,
            ..ListCall::default()
        };
        let page = self.shared.bucket.list(&list).await;
        let page = page.map_err(|failure| error_at_path(&parent, failure))?;
        let stays = |key: &str| !own.iter().any(|own| own == key);
        let is_held = page.objects.iter().any(|object| stays(&object.key));
        // A prefix may be a ghost, a directory that the server still shows although it is empty.
        let by_directory = page.prefixes.iter().any(|prefix| stays(prefix)) && !self.shared.abilities.shows_ghosts;
        if is_held || by_directory {
            return Ok(());
        }
        self.put_marker(&parent, ObjectMetadata::new(self.shared.clock.now()))
            .await
    }

    /// Writes the marker of a directory that has none.
    pub(super) async fn put_marker(&self, path: &WsPath, metadata: ObjectMetadata) -> Result<()> {
        self.check_server(path)?;
        let key = self.shared.layout.directory_key(path);
        let tag = self
            .shared
            .bucket
            .put(&key, bytes::Bytes::new(), &metadata, WriteCondition::Any)
            .await
            .map_err(|failure| error_at_path(path, failure))?;
        self.shared.known.remember_directory(path);
        self.record_undo(S3UndoStep::Made {
            key,
            object: S3Object {
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
        before: S3Object,
        metadata: ObjectMetadata,
    ) -> Result<()> {
        self.check_server(path)?;
        let saved = self.save_object(path, key, &before).await?;
        let put = self
            .shared
            .bucket
            .put(key, bytes::Bytes::new(), &metadata, WriteCondition::Any);
        let tag = put.await.map_err(|failure| error_at_path(path, failure))?;
        let object = S3Object {
            tag,
            metadata,
            ..before
        };
        if let Some(before) = saved {
            let key = key.to_owned();
            self.record_undo(S3UndoStep::Replaced { key, object, before });
        }
        Ok(())
    }

    async fn remove_directory(&self, path: &WsPath, recursive: bool) -> Result<MutationOutcome> {
        let objects = self.list_objects_below(path).await?;
        let marker = self.shared.layout.directory_key(path);
        if !recursive && objects.iter().any(|object| object.key != marker) {
            return Err(Error::not_empty(path).hint("set `recursive` to remove it with everything in it"));
        }
        self.preserve_parent(path).await?;
        self.discard_all(path, &objects).await?;
        Ok(GONE)
    }

    /// Returns every object below a directory, its marker included. Refuses a directory that holds a key that is no
    /// path.
    pub(super) async fn list_objects_below(&self, path: &WsPath) -> Result<Vec<ListedObject>> {
        let prefix = self.shared.layout.directory_key(path);
        let page = self.shared.bucket.list_all(&prefix, false).await;
        let objects = page.map_err(|failure| error_at_path(path, failure))?.objects;
        let is_odd =
            |object: &&ListedObject| matches!(self.shared.layout.classify_key(&object.key), KeyMeaning::NotAPath(_));
        let odd = objects.iter().filter(is_odd).count();
        // No list shows these keys, so the caller cannot know that they would be removed or moved.
        if odd > 0 {
            let message = format!(
                "{} holds {odd} objects whose keys are not valid paths",
                path.to_quoted()
            );
            return Err(Error::new(ErrorKind::NotEmpty, message)
                .at_path(path)
                .hint("`garret fsck` lists them; remove them with another S3 tool"));
        }
        Ok(objects)
    }

    /// Removes many objects, several at once.
    pub(super) async fn discard_all(&self, path: &WsPath, objects: &[ListedObject]) -> Result<()> {
        self.check_server(path)?;
        let removals = objects.iter().map(|listed| self.discard_listed(path, listed).boxed());
        let outcome = run_concurrently(removals.collect()).await;
        self.shared.known.forget_tree(path);
        outcome.map(|_| ())
    }

    async fn discard_listed(&self, path: &WsPath, listed: &ListedObject) -> Result<()> {
        let failed = |failure| error_at_path(path, failure);
        if self.saves {
            // A list shows no metadata, and without it the object could not be restored.
            let Some(object) = self.shared.bucket.head(&listed.key).await.map_err(failed)? else {
                return Ok(());
            };
            let saved = self.save_object(path, &listed.key, &object).await?;
            self.shared.bucket.delete(&listed.key, None).await.map_err(failed)?;
            if let Some(before) = saved {
                self.record_undo(S3UndoStep::Removed {
                    key: listed.key.clone(),
                    before,
                });
            }
            return Ok(());
        }
        self.shared.bucket.delete(&listed.key, None).await.map_err(failed)
    }
}
