//! Moving and copying, on the server.

use garret_core::{Error, ErrorKind, MutationOutcome, Result, WsPath};

use super::batch::S3BatchRun;
use super::bucket::S3Object;
use super::conditional_write::{ObjectSource, ObjectWriteError};
use super::locate::{S3EntryLocation, S3FinalLink, S3FoundEntry, error_at_path};
use super::metadata::ObjectMetadata;
use super::stat::not_a_file;
use super::undo::SavedObject;
use super::write::{ObjectWrite, applied_object, require_parent};

const MAX_ROUNDS: u32 = 50;

impl S3BatchRun<'_> {
    pub(super) async fn rename(
        &self,
        from: &WsPath,
        to: &WsPath,
        overwrite: bool,
        parents: bool,
    ) -> Result<MutationOutcome> {
        for round in 1..=MAX_ROUNDS {
            if let Some(applied) = self.rename_once(from, to, overwrite, parents).await? {
                return Ok(applied);
            }
            self.shared.known.forget_tree(&WsPath::root());
            self.shared.bucket.wire.pause_before_retry(round.min(4)).await;
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("other programs keep changing {}", from.to_quoted()),
        )
        .at_path(from))
    }

    /// Tries the move once; returns `None`, with nothing changed, if another program interfered.
    async fn rename_once(
        &self,
        from: &WsPath,
        to: &WsPath,
        overwrite: bool,
        parents: bool,
    ) -> Result<Option<MutationOutcome>> {
        let from = self
            .shared
            .locate_entry(from, self.link_rules(S3FinalLink::Kept))
            .await?;
        if from.path.is_root() {
            return Err(Error::root_denied("moved"));
        }
        if matches!(from.found, S3FoundEntry::Nothing { .. } | S3FoundEntry::Blocked) {
            return Err(from.missing_error());
        }
        let to = self.shared.locate_entry(to, self.link_rules(S3FinalLink::Kept)).await?;
        if from.path == to.path {
            return Ok(Some(applied_unmoved(&from)));
        }
        if to.path.is_within(&from.path) {
            let message = format!("{} cannot be moved into itself", from.path.to_quoted());
            return Err(Error::invalid(message).at_path(&from.path));
        }
        let is_directory = matches!(from.found, S3FoundEntry::Directory { .. });
        self.check_replaceable(&to, is_directory, overwrite).await?;
        require_parent(&to, parents)?;
        match &from.found {
            S3FoundEntry::File(object) | S3FoundEntry::Link(object) => self.move_object(&from.path, object, &to).await,
            _ => self.move_directory(&from.path, &to).await.map(Some),
        }
    }

    async fn move_object(
        &self,
        from: &WsPath,
        object: &S3Object,
        to: &S3EntryLocation,
    ) -> Result<Option<MutationOutcome>> {
        let Some(moved) = self.copy_object(from, object, to, object.metadata.clone()).await? else {
            return Ok(None);
        };
        // Before the removal: in between, the directory would not exist.
        self.preserve_parent(from).await?;
        let saved = SavedObject::moved_to(
            object.metadata.clone(),
            self.shared.layout.file_key(&to.path)?,
            moved.clone(),
        );
        if self.discard_saved(from, object, saved).await? {
            let created = object_at(to).is_none();
            return Ok(Some(applied_object(&moved, created)));
        }
        // The source was changed or removed while it was copied, so the copy is outdated.
        self.take_back_copy(to, &moved).await?;
        Ok(None)
    }

    /// Copies an object to `to` on the condition that `to` is still as it was found; `None` if it is not.
    async fn copy_object(
        &self,
        from: &WsPath,
        object: &S3Object,
        to: &S3EntryLocation,
        metadata: ObjectMetadata,
    ) -> Result<Option<S3Object>> {
        let key = self.shared.layout.file_key(from)?;
        let put = ObjectWrite {
            path: &to.path,
            source: ObjectSource::Copy { key: &key, object },
            metadata,
            before: object_at(to),
        };
        match self.put_object(put).await {
            Ok(object) => Ok(Some(object)),
            Err(ObjectWriteError::Conflict(_)) => Ok(None),
            Err(ObjectWriteError::Failed(super::wire::failure::S3RequestError::NotFound)) => Ok(None),
            Err(ObjectWriteError::Failed(failure)) => Err(error_at_path(&to.path, failure)),
        }
    }

    async fn take_back_copy(&self, to: &S3EntryLocation, moved: &S3Object) -> Result<()> {
        // The copy has replaced another file, so removing it would leave nothing there.
        if object_at(to).is_some() {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("the source was changed while it replaced {}", to.path.to_quoted()),
            )
            .at_path(&to.path)
            .hint("check both files"));
        }
        let key = self.shared.layout.file_key(&to.path)?;
        let outcome = self.shared.discard_if_unchanged(&key, moved).await;
        self.shared.known.forget_tree(&to.path);
        outcome.map(|_| ()).map_err(|failure| error_at_path(&to.path, failure))
    }

    pub(super) async fn copy(
        &self,
        from: &WsPath,
        to: &WsPath,
        overwrite: bool,
        parents: bool,
    ) -> Result<MutationOutcome> {
        for round in 1..=MAX_ROUNDS {
            let from = self
                .shared
                .locate_entry(from, self.link_rules(S3FinalLink::Followed))
                .await?;
            let S3FoundEntry::File(object) = &from.found else {
                return Err(not_a_file(&from));
            };
            let to = self.shared.locate_entry(to, self.link_rules(S3FinalLink::Kept)).await?;
            if from.path == to.path {
                return Ok(applied_object(object, false));
            }
            self.check_replaceable(&to, false, overwrite).await?;
            require_parent(&to, parents)?;
            // A copy is a new file, so it gets a new creation time.
            let metadata = ObjectMetadata {
                created: Some(self.shared.clock.now()),
                ..object.metadata.clone()
            };
            if let Some(copied) = self.copy_object(&from.path, object, &to, metadata).await? {
                return Ok(applied_object(&copied, object_at(&to).is_none()));
            }
            self.shared.known.forget_tree(&WsPath::root());
            self.shared.bucket.wire.pause_before_retry(round.min(4)).await;
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            format!("other programs keep changing {}", from.to_quoted()),
        )
        .at_path(from))
    }

    /// Checks that an entry may be put at `to`.
    async fn check_replaceable(&self, to: &S3EntryLocation, is_directory: bool, overwrite: bool) -> Result<()> {
        if to.path.is_root() {
            return Err(Error::already_exists(&to.path));
        }
        let there = match to.found {
            S3FoundEntry::Nothing { .. } | S3FoundEntry::Blocked => return Ok(()),
            S3FoundEntry::Directory { .. } => true,
            S3FoundEntry::File(_) | S3FoundEntry::Link(_) => false,
        };
        if !overwrite {
            return Err(Error::already_exists(&to.path).hint("set `overwrite` to replace it"));
        }
        match (is_directory, there) {
            (true, true) => self.need_empty(&to.path).await,
            (true, false) => Err(Error::not_a_directory(&to.path)),
            (false, true) => Err(Error::is_a_directory(&to.path)),
            (false, false) => Ok(()),
        }
    }

    async fn need_empty(&self, path: &WsPath) -> Result<()> {
        let marker = self.shared.layout.directory_key(path);
        let objects = self.list_objects_below(path).await?;
        if objects.iter().any(|object| object.key != marker) {
            Err(Error::not_empty(path))
        } else {
            Ok(())
        }
    }
}

fn object_at(located: &S3EntryLocation) -> Option<&S3Object> {
    match &located.found {
        S3FoundEntry::File(object) | S3FoundEntry::Link(object) => Some(object),
        _ => None,
    }
}

fn applied_unmoved(located: &S3EntryLocation) -> MutationOutcome {
    object_at(located).map_or(
        MutationOutcome {
            version: None,
            size: 0,
            created: false,
            change: None,
        },
        |object| applied_object(object, false),
    )
}
