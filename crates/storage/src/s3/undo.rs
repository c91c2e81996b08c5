//! Reverting a batch that failed.

use bytes::Bytes;
use garret_core::{Content, Error, ErrorKind, Result, WsPath};

use super::batch::S3BatchRun;
use super::bucket::{S3Object, WriteCondition};
use super::conditional_write::ObjectSource;
use super::locate::error_at_path;
use super::metadata::ObjectMetadata;
use super::read;
use super::wire::failure::S3RequestError;

/// The size up to which content is saved in memory; larger content is saved by a copy on the server.
const IN_MEMORY: u64 = 1024 * 1024;

/// A step that was done, with the data to revert it.
#[derive(Debug)]
pub(super) enum S3UndoStep {
    /// An object was made.
    Made { key: String, object: S3Object },
    /// An object was replaced.
    Replaced {
        key: String,
        object: S3Object,
        before: SavedObject,
    },
    /// An object was removed.
    Removed { key: String, before: SavedObject },
}

/// The saved state of an object.
#[derive(Debug)]
pub(super) struct SavedObject {
    metadata: ObjectMetadata,
    content: SavedContent,
}

#[derive(Debug)]
enum SavedContent {
    InMemory(Bytes),
    OnServer {
        key: String,
        object: S3Object,
    },
    /// The object was moved to this key, and is still there when this step is reverted.
    Moved {
        key: String,
        object: S3Object,
    },
}

impl SavedObject {
    /// Returns the saved state of an object that was moved to `key` and is `object` there.
    pub(super) fn moved_to(metadata: ObjectMetadata, key: String, object: S3Object) -> Self {
        let content = if key.ends_with('/') {
            // A marker has no content to copy back, and some servers cannot copy one.
            SavedContent::InMemory(Bytes::new())
        } else {
            SavedContent::Moved { key, object }
        };
        Self { metadata, content }
    }
}

impl S3BatchRun<'_> {
    /// Saves an object that is about to be replaced or removed; `None` if no later step can fail.
    pub(super) async fn save_object(&self, path: &WsPath, key: &str, object: &S3Object) -> Result<Option<SavedObject>> {
        if !self.saves {
            return Ok(None);
        }
        let content = self.save_content(key, object).await;
        let content = content.map_err(|failure| error_at_path(path, failure))?;
        Ok(Some(SavedObject {
            metadata: object.metadata.clone(),
            content,
        }))
    }

    async fn save_content(&self, key: &str, object: &S3Object) -> Result<SavedContent, S3RequestError> {
        if object.size == 0 {
            return Ok(SavedContent::InMemory(Bytes::new()));
        }
        if object.size <= IN_MEMORY {
            let got = self.shared.bucket.get(key, None, Some(&object.tag)).await?;
            return Ok(SavedContent::InMemory(read::read_body(self.shared, key, got, 0).await?));
        }
        let place = self
            .shared
            .layout
            .reserved_key(&format!("undo/{}", self.shared.ids.next_id()));
        let source = ObjectSource::Copy { key, object };
        let stored = self
            .shared
            .store_object(&place, source, object.metadata.clone(), WriteCondition::Any)
            .await;
        match stored {
            Ok(object) => Ok(SavedContent::OnServer { key: place, object }),
            Err(super::conditional_write::ObjectWriteError::Failed(failure)) => Err(failure),
            Err(super::conditional_write::ObjectWriteError::Conflict(_)) => Err(S3RequestError::Precondition),
        }
    }

    /// Reverts all steps, the last first. If a step cannot be reverted, the error says so.
    pub(super) async fn revert_batch(self, error: Error) -> Error {
        let undo = std::mem::take(&mut *self.undo.lock().expect("no holder panics"));
        let mut lost = 0;
        for step in undo.iter().rev() {
            if self.revert_step(step).await.is_err() {
                lost += 1;
            }
        }
        // The memory describes the state that was just reverted.
        self.shared.known.forget_tree(&WsPath::root());
        self.remove_saved(&undo).await;
        if lost == 0 {
            return error;
        }
        let message = format!("{}; {lost} earlier changes could not be reverted", error.message());
        let told = Error::new(ErrorKind::Unavailable, message).hint("check the files before you try again");
        match error.path() {
            Some(path) => told.at_path_text(path),
            None => told,
        }
    }

    async fn revert_step(&self, step: &S3UndoStep) -> Result<(), S3RequestError> {
        match step {
            S3UndoStep::Made { key, object } => self.shared.discard_if_unchanged(key, object).await.map(|_| ()),
            S3UndoStep::Replaced { key, object, before } => {
                self.restore_object(key, before, WriteCondition::Tag(&object.tag)).await
            }
            // A server with directories of its own may show a marker that was never written, so the write is
            // unconditional.
            S3UndoStep::Removed { key, before } if key.ends_with('/') => {
                self.restore_object(key, before, WriteCondition::Any).await
            }
            S3UndoStep::Removed { key, before } => self.restore_object(key, before, WriteCondition::Absent).await,
        }
    }

    async fn restore_object(
        &self,
        key: &str,
        saved: &SavedObject,
        condition: WriteCondition<'_>,
    ) -> Result<(), S3RequestError> {
        let content;
        let source = match &saved.content {
            SavedContent::InMemory(bytes) => {
                content = Content::from(bytes.clone());
                ObjectSource::Content(&content)
            }
            SavedContent::OnServer { key, object } | SavedContent::Moved { key, object } => {
                ObjectSource::Copy { key, object }
            }
        };
        match self
            .shared
            .store_object(key, source, saved.metadata.clone(), condition)
            .await
        {
            Ok(_) => Ok(()),
            // Another program has changed the object since, and its version must stay.
            Err(super::conditional_write::ObjectWriteError::Conflict(_)) => Ok(()),
            Err(super::conditional_write::ObjectWriteError::Failed(failure)) => Err(failure),
        }
    }

    /// Removes the copies that were saved on the server.
    pub(super) async fn remove_saved_copies(self) {
        let undo = std::mem::take(&mut *self.undo.lock().expect("no holder panics"));
        self.remove_saved(&undo).await;
    }

    async fn remove_saved(&self, undo: &[S3UndoStep]) {
        for step in undo {
            if let S3UndoStep::Replaced { before, .. } | S3UndoStep::Removed { before, .. } = step
                && let SavedContent::OnServer { key, .. } = &before.content
            {
                // A copy that stays is hidden, and an opening on another day removes it.
                let _ = self.shared.bucket.delete(key, None).await;
            }
        }
    }
}
