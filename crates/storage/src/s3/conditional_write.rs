//! Conditional writes whose outcome is known even if the answer was lost.

use bytes::Bytes;
use garret_core::{Content, Error, Result, WsPath};

use super::S3Context;
use super::bucket::{CopyCall, S3Object, WriteCondition};
use super::locate::error_at_path;
use super::metadata::ObjectMetadata;
use super::multipart;
use super::options::WriterMode;
use super::wire::failure::S3RequestError;

/// The size up to which content is sent in one piece; larger content is sent in parts.
pub(super) const ONE_PIECE: u64 = 8 * 1024 * 1024;
/// The number of attempts of a write that is refused although its condition holds.
const MAX_TRIES: u32 = 12;

/// The reason why a write did not happen.
#[derive(Debug)]
pub(super) enum ObjectWriteError {
    /// The condition does not hold; holds the object that is there now.
    Conflict(Option<Box<S3Object>>),
    /// The request failed.
    Failed(S3RequestError),
}

impl ObjectWriteError {
    /// Converts the refusal into an error, for callers that do not handle a conflict themselves.
    pub(super) fn into_error(self, path: &WsPath) -> Error {
        match self {
            Self::Conflict(now) => Error::conflict(path, now.map(|now| super::stat::version_of(&now))),
            Self::Failed(failure) => error_at_path(path, failure),
        }
    }
}

impl From<S3RequestError> for ObjectWriteError {
    fn from(failure: S3RequestError) -> Self {
        Self::Failed(failure)
    }
}

/// The source of an object's new content.
#[derive(Debug, Clone)]
pub(super) enum ObjectSource<'a> {
    /// Content from this process.
    Content(&'a Content),
    /// An object on the server, which must still have its ETag.
    Copy { key: &'a str, object: &'a S3Object },
    /// The large object that is replaced, and bytes to append to it.
    Extended { object: &'a S3Object, content: &'a Bytes },
}

impl S3Context {
    /// Refuses to begin a write after an answer has contradicted the probe: the server may ignore the condition of the
    /// write.
    pub(super) fn check_server(&self) -> Result<(), S3RequestError> {
        if self.bucket.wire.identity().is_contradicted() {
            Err(S3RequestError::ServerChanged)
        } else {
            Ok(())
        }
    }

    /// Writes an object under a condition. Its metadata carries an id of this write, so that a write whose answer was
    /// lost is recognized.
    pub(super) async fn store_object(
        &self,
        key: &str,
        source: ObjectSource<'_>,
        metadata: ObjectMetadata,
        condition: WriteCondition<'_>,
    ) -> Result<S3Object, ObjectWriteError> {
        let id = self.ids.next_id();
        let metadata = metadata.with_write(&id);
        let prepared = prepare_source(source).await?;
        for attempt in 1..=MAX_TRIES {
            let failure = match self.store_once(key, &prepared, &metadata, condition).await {
                Ok(tag) => {
                    return Ok(S3Object {
                        tag,
                        size: prepared.size(),
                        modified: None,
                        metadata,
                    });
                }
                Err(failure) => failure,
            };
            if !is_doubtful(&failure) {
                return Err(ObjectWriteError::Failed(failure));
            }
            // A refusal may mean that this write happened in an earlier attempt and only its answer was lost: the ids
            // in the metadata decide.
            let now = match self.bucket.head(key).await {
                Ok(now) => now,
                // It is unknown whether this write changed the object, so no conflict may be reported.
                Err(unseen) if matches!(failure, S3RequestError::Precondition) => {
                    return Err(ObjectWriteError::Failed(unseen));
                }
                Err(_) => return Err(ObjectWriteError::Failed(failure)),
            };
            match now {
                Some(now) if now.metadata.has_write(&id) => return Ok(now),
                now if !condition.holds_for(now.as_ref()) => return Err(ObjectWriteError::Conflict(now.map(Box::new))),
                _ if !matches!(failure, S3RequestError::Precondition | S3RequestError::NoUpload) => {
                    return Err(ObjectWriteError::Failed(failure));
                }
                _ => prepared.check_source(self).await?,
            }
            if condition == WriteCondition::Absent && !self.remove_ghosts(key).await? {
                return Err(ObjectWriteError::Conflict(None));
            }
            self.bucket.wire.pause_before_retry(attempt).await;
        }
        // A server that honours conditions does not do this, so its probe no longer holds.
        self.bucket.wire.identity().mark_contradicted();
        Err(ObjectWriteError::Failed(S3RequestError::Unreachable(
            "the server keeps refusing a write whose condition holds",
        )))
    }

    /// Removes the ghost of a directory that occupies `key`; returns `false` if the directory still exists.
    async fn remove_ghosts(&self, key: &str) -> Result<bool, S3RequestError> {
        if !self.abilities.shows_ghosts {
            return Ok(true);
        }
        let top = format!("{key}/");
        if self.first_key_below(&top).await?.is_some() {
            return Ok(false);
        }
        let mut ghosts = vec![top];
        let mut at = 0;
        while let Some(ghost) = ghosts.get(at) {
            let below = self.bucket.list_all(ghost, true).await?.prefixes;
            ghosts.extend(below);
            at += 1;
        }
        // Each ghost was found after its parent, and must be removed before it.
        for ghost in ghosts.iter().rev() {
            self.bucket.delete(ghost, None).await?;
        }
        Ok(true)
    }

    async fn store_once(
        &self,
        key: &str,
        source: &PreparedSource<'_>,
        metadata: &ObjectMetadata,
        condition: WriteCondition<'_>,
    ) -> Result<String, S3RequestError> {
        let condition = self.condition_to_send(key, source, condition).await?;
        match source {
            PreparedSource::Bytes(bytes) => self.bucket.put(key, bytes.clone(), metadata, condition).await,
            PreparedSource::Parts(content) => {
                multipart::upload_content(&self.bucket, key, content, metadata, condition).await
            }
            PreparedSource::Extended { object, content } => {
                let tail = multipart::ObjectWithTail { object, content };
                multipart::copy_in_parts(&self.bucket, key, tail, key, metadata, condition).await
            }
            PreparedSource::Copy { key: from, object } if object.size > multipart::MAX_COPY => {
                let tail = multipart::ObjectWithTail {
                    object,
                    content: &Bytes::new(),
                };
                multipart::copy_in_parts(&self.bucket, from, tail, key, metadata, condition).await
            }
            PreparedSource::Copy { key: from, object } => {
                let copy = CopyCall {
                    from,
                    tag: &object.tag,
                    to: key,
                    metadata,
                    condition,
                };
                self.bucket.copy(copy).await
            }
        }
    }

    /// Returns the condition to send. A condition that the server does not honour is checked here first, and not sent.
    async fn condition_to_send<'c>(
        &self,
        key: &str,
        source: &PreparedSource<'_>,
        condition: WriteCondition<'c>,
    ) -> Result<WriteCondition<'c>, S3RequestError> {
        let is_copy = matches!(source, PreparedSource::Copy { .. });
        let is_honoured = match self.options.writers {
            WriterMode::Single => false,
            WriterMode::Many => !is_copy || self.abilities.conditional_copy,
        };
        if is_honoured || condition == WriteCondition::Any {
            return Ok(condition);
        }
        if condition.holds_for(self.bucket.head(key).await?.as_ref()) {
            Ok(WriteCondition::Any)
        } else {
            Err(S3RequestError::Precondition)
        }
    }

    /// Removes an object if it is unchanged; returns `Ok(false)` if it is not.
    pub(super) async fn discard_if_unchanged(&self, key: &str, object: &S3Object) -> Result<bool, S3RequestError> {
        let is_honoured = self.options.writers == WriterMode::Many && self.abilities.conditional_delete;
        if is_honoured {
            return match self.bucket.delete(key, Some(&object.tag)).await {
                Ok(()) => Ok(true),
                Err(S3RequestError::Precondition | S3RequestError::NotFound) => Ok(false),
                Err(failure) => Err(failure),
            };
        }
        let now = self.bucket.head(key).await?;
        if !WriteCondition::Tag(&object.tag).holds_for(now.as_ref()) {
            return Ok(false);
        }
        self.bucket.delete(key, None).await.map(|()| true)
    }
}

/// Returns whether the write may have happened although it failed.
fn is_doubtful(failure: &S3RequestError) -> bool {
    matches!(
        failure,
        S3RequestError::Precondition
            | S3RequestError::NoUpload
            | S3RequestError::Busy { .. }
            | S3RequestError::TimedOut(_)
            | S3RequestError::Unreachable(_)
    )
}

/// The source of a write, with small content read into memory.
enum PreparedSource<'a> {
    Bytes(Bytes),
    Parts(&'a Content),
    Copy { key: &'a str, object: &'a S3Object },
    Extended { object: &'a S3Object, content: &'a Bytes },
}

impl PreparedSource<'_> {
    fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Parts(content) => content.len(),
            Self::Copy { object, .. } => object.size,
            Self::Extended { object, content } => object.size + content.len() as u64,
        }
    }

    /// Checks that the source of a copy is unchanged.
    async fn check_source(&self, shared: &S3Context) -> Result<(), ObjectWriteError> {
        let Self::Copy { key, object } = self else {
            return Ok(());
        };
        // The server refuses a copy with the same status if its source has changed, not only its target.
        let now = shared.bucket.head(key).await?;
        if WriteCondition::Tag(&object.tag).holds_for(now.as_ref()) {
            Ok(())
        } else {
            Err(ObjectWriteError::Failed(S3RequestError::NotFound))
        }
    }
}

async fn prepare_source(source: ObjectSource<'_>) -> Result<PreparedSource<'_>, ObjectWriteError> {
    match source {
        ObjectSource::Copy { key, object } => Ok(PreparedSource::Copy { key, object }),
        ObjectSource::Extended { object, content } => Ok(PreparedSource::Extended { object, content }),
        ObjectSource::Content(content) if content.len() > ONE_PIECE => Ok(PreparedSource::Parts(content)),
        ObjectSource::Content(content) => read_all(content).await.map(PreparedSource::Bytes),
    }
}

/// Reads content that is small enough for memory.
async fn read_all(content: &Content) -> Result<Bytes, ObjectWriteError> {
    if let Some(bytes) = content.as_bytes() {
        return Ok(bytes.clone());
    }
    let content = content.clone();
    // The content may come from a file, so it is read on a thread that may block.
    let read = garret_handles::run_blocking(move || content.to_bytes()).await;
    read.map_err(|error| ObjectWriteError::Failed(S3RequestError::Local(error)))
}
