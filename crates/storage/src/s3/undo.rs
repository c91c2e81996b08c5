//! Reverting a batch that failed.

use bytes::Bytes;
use garret_core::{Content, Error, ErrorKind, Result, WsPath};

use super::batch::Work;
use super::bucket::{Condition, Object};
use super::locate::failed;
use super::metadata::Metadata;
use super::read;
use super::store::Source;
use super::wire::failure::Failure;

/// The size up to which content is saved in memory; larger content is saved by a copy on the server.
const IN_MEMORY: u64 = 1024 * 1024;

/// A step that was done, with the data to revert it.
#[derive(Debug)]
pub(super) enum Undo {
    /// An object was made.
    Made { key: String, object: Object },
    /// An object was replaced.
    Replaced { key: String, object: Object, before: Saved },
    /// An object was removed.
    Removed { key: String, before: Saved },
}

/// The saved state of an object.
#[derive(Debug)]
pub(super) struct Saved {
    metadata: Metadata,
    content: SavedContent,
}

#[derive(Debug)]
enum SavedContent {
    Here(Bytes),
    There {
        key: String,
        object: Object,
    },
    /// The object was moved to this key, and is still there when this step is reverted.
    Moved {
        key: String,
        object: Object,
    },
}

impl Saved {
    /// Returns the saved state of an object that was moved to `key` and is `object` there.
    pub(super) fn moved(metadata: Metadata, key: String, object: Object) -> Self {
        let content = if key.ends_with('/') {
            // A marker has no content to copy back, and some servers cannot copy one.
            SavedContent::Here(Bytes::new())
        } else {
            SavedContent::Moved { key, object }
        };
        Self { metadata, content }
    }
}

impl Work<'_> {
    /// Saves an object that is about to be replaced or removed; `None` if no later step can fail.
    pub(super) async fn save(&self, path: &WsPath, key: &str, object: &Object) -> Result<Option<Saved>> {
        if !self.saves {
            return Ok(None);
        }
        let content = self.save_content(key, object).await;
        let content = content.map_err(|failure| failed(path, failure))?;
        Ok(Some(Saved {
            metadata: object.metadata.clone(),
            content,
        }))
    }

    async fn save_content(&self, key: &str, object: &Object) -> Result<SavedContent, Failure> {
        if object.size == 0 {
            return Ok(SavedContent::Here(Bytes::new()));
        }
        if object.size <= IN_MEMORY {
            let got = self.shared.bucket.get(key, None, Some(&object.tag)).await?;
            return Ok(SavedContent::Here(read::take(self.shared, key, got, 0).await?));
        }
        let place = self.shared.layout.reserved(&format!("undo/{}", self.shared.ids.next()));
        let source = Source::Copy { key, object };
        let stored = self
            .shared
            .store(&place, source, object.metadata.clone(), Condition::Any)
            .await;
        match stored {
            Ok(object) => Ok(SavedContent::There { key: place, object }),
            Err(super::store::Refusal::Failed(failure)) => Err(failure),
            Err(super::store::Refusal::Conflict(_)) => Err(Failure::Precondition),
        }
    }

    /// Reverts all steps, the last first. If a step cannot be reverted, the error says so.
    pub(super) async fn take_back(self, error: Error) -> Error {
        let undo = std::mem::take(&mut *self.undo.lock().expect("no holder panics"));
        let mut lost = 0;
        for step in undo.iter().rev() {
            if self.take_back_step(step).await.is_err() {
                lost += 1;
            }
        }
        // The memory describes the state that was just reverted.
        self.shared.known.forget(&WsPath::root());
        self.remove_saved(&undo).await;
        if lost == 0 {
            return error;
        }
        let message = format!("{}; {lost} earlier changes could not be reverted", error.message());
        let told = Error::new(ErrorKind::Unavailable, message).hint("check the files before you try again");
        match error.path() {
            Some(path) => told.at_text(path),
            None => told,
        }
    }

    async fn take_back_step(&self, step: &Undo) -> Result<(), Failure> {
        match step {
            Undo::Made { key, object } => self.shared.discard(key, object).await.map(|_| ()),
            Undo::Replaced { key, object, before } => self.put_back(key, before, Condition::Tag(&object.tag)).await,
            // A server with directories of its own may show a marker that was never written, so the write is
            // unconditional.
            Undo::Removed { key, before } if key.ends_with('/') => self.put_back(key, before, Condition::Any).await,
            Undo::Removed { key, before } => self.put_back(key, before, Condition::Absent).await,
        }
    }

    async fn put_back(&self, key: &str, saved: &Saved, condition: Condition<'_>) -> Result<(), Failure> {
        let content;
        let source = match &saved.content {
            SavedContent::Here(bytes) => {
                content = Content::from(bytes.clone());
                Source::Content(&content)
            }
            SavedContent::There { key, object } | SavedContent::Moved { key, object } => Source::Copy { key, object },
        };
        match self.shared.store(key, source, saved.metadata.clone(), condition).await {
            Ok(_) => Ok(()),
            // Another program has changed the object since, and its version must stay.
            Err(super::store::Refusal::Conflict(_)) => Ok(()),
            Err(super::store::Refusal::Failed(failure)) => Err(failure),
        }
    }

    /// Removes the copies that were saved on the server.
    pub(super) async fn tidy(self) {
        let undo = std::mem::take(&mut *self.undo.lock().expect("no holder panics"));
        self.remove_saved(&undo).await;
    }

    async fn remove_saved(&self, undo: &[Undo]) {
        for step in undo {
            if let Undo::Replaced { before, .. } | Undo::Removed { before, .. } = step
                && let SavedContent::There { key, .. } = &before.content
            {
                // A copy that stays is hidden, and an opening on another day removes it.
                let _ = self.shared.bucket.delete(key, None).await;
            }
        }
    }
}
