//! Conditional writes whose outcome is known even if the answer was lost.

use bytes::Bytes;
use garret_core::{Content, Error, Result, WsPath};

use super::Shared;
use super::bucket::{Condition, CopyCall, Object};
use super::locate::failed;
use super::metadata::Metadata;
use super::multipart;
use super::options::Writers;
use super::wire::failure::Failure;

/// The size up to which content is sent in one piece; larger content is sent in parts.
pub(super) const ONE_PIECE: u64 = 8 * 1024 * 1024;
/// The number of attempts of a write that is refused although its condition holds.
const MAX_TRIES: u32 = 12;

/// The reason why a write did not happen.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The condition does not hold; holds the object that is there now.
    Conflict(Option<Box<Object>>),
    /// The request failed.
    Failed(Failure),
}

impl Refusal {
    /// Converts the refusal into an error, for callers that do not handle a conflict themselves.
    pub(super) fn into_error(self, path: &WsPath) -> Error {
        match self {
            Self::Conflict(now) => Error::conflict(path, now.map(|now| super::stat::version(&now))),
            Self::Failed(failure) => failed(path, failure),
        }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The source of an object's new content.
#[derive(Debug, Clone)]
pub(super) enum Source<'a> {
    /// Content from this process.
    Content(&'a Content),
    /// An object on the server, which must still have its ETag.
    Copy { key: &'a str, object: &'a Object },
    /// The large object that is replaced, and bytes to append to it.
    Longer { object: &'a Object, content: &'a Bytes },
}

impl Shared {
    /// Refuses to begin a write after an answer has contradicted the probe: the server may ignore the condition of the
    /// write.
    pub(super) fn check_server(&self) -> Result<(), Failure> {
        if self.bucket.wire.identity().is_contradicted() {
            Err(Failure::ServerChanged)
        } else {
            Ok(())
        }
    }

    /// Writes an object under a condition. Its metadata carries an id of this write, so that a write whose answer was
    /// lost is recognized.
    pub(super) async fn store(
        &self,
        key: &str,
        source: Source<'_>,
        metadata: Metadata,
        condition: Condition<'_>,
    ) -> Result<Object, Refusal> {
        let id = self.ids.next();
        let metadata = metadata.written(&id);
        let prepared = prepare(source).await?;
        for attempt in 1..=MAX_TRIES {
            let failure = match self.store_once(key, &prepared, &metadata, condition).await {
                Ok(tag) => {
                    return Ok(Object {
                        tag,
                        size: prepared.size(),
                        modified: None,
                        metadata,
                    });
                }
                Err(failure) => failure,
            };
            if !is_doubtful(&failure) {
                return Err(Refusal::Failed(failure));
            }
            // A refusal may mean that this write happened in an earlier attempt and only its answer was lost: the ids
            // in the metadata decide.
            let now = match self.bucket.head(key).await {
                Ok(now) => now,
                // It is unknown whether this write changed the object, so no conflict may be reported.
                Err(unseen) if matches!(failure, Failure::Precondition) => return Err(Refusal::Failed(unseen)),
                Err(_) => return Err(Refusal::Failed(failure)),
            };
            match now {
                Some(now) if now.metadata.has_write(&id) => return Ok(now),
                now if !condition.holds(now.as_ref()) => return Err(Refusal::Conflict(now.map(Box::new))),
                _ if !matches!(failure, Failure::Precondition | Failure::NoUpload) => {
                    return Err(Refusal::Failed(failure));
                }
                _ => prepared.check_source(self).await?,
            }
            if condition == Condition::Absent && !self.bury(key).await? {
                return Err(Refusal::Conflict(None));
            }
            self.bucket.wire.pause(attempt).await;
        }
        // A server that honours conditions does not do this, so its probe no longer holds.
        self.bucket.wire.identity().contradict();
        Err(Refusal::Failed(Failure::Unreachable(
            "the server keeps refusing a write whose condition holds",
        )))
    }

    /// Removes the ghost of a directory that occupies `key`; returns `false` if the directory still exists.
    async fn bury(&self, key: &str) -> Result<bool, Failure> {
        if !self.abilities.shows_ghosts {
            return Ok(true);
        }
        let top = format!("{key}/");
        if self.first_below(&top).await?.is_some() {
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
        source: &Prepared<'_>,
        metadata: &Metadata,
        condition: Condition<'_>,
    ) -> Result<String, Failure> {
        let condition = self.condition_to_send(key, source, condition).await?;
        match source {
            Prepared::Bytes(bytes) => self.bucket.put(key, bytes.clone(), metadata, condition).await,
            Prepared::Parts(content) => multipart::upload(&self.bucket, key, content, metadata, condition).await,
            Prepared::Longer { object, content } => {
                let tail = multipart::Tail { object, content };
                multipart::copy(&self.bucket, key, tail, key, metadata, condition).await
            }
            Prepared::Copy { key: from, object } if object.size > multipart::MAX_COPY => {
                let tail = multipart::Tail {
                    object,
                    content: &Bytes::new(),
                };
                multipart::copy(&self.bucket, from, tail, key, metadata, condition).await
            }
            Prepared::Copy { key: from, object } => {
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
        source: &Prepared<'_>,
        condition: Condition<'c>,
    ) -> Result<Condition<'c>, Failure> {
        let is_copy = matches!(source, Prepared::Copy { .. });
        let is_honoured = match self.options.writers {
            Writers::Single => false,
            Writers::Many => !is_copy || self.abilities.conditional_copy,
        };
        if is_honoured || condition == Condition::Any {
            return Ok(condition);
        }
        if condition.holds(self.bucket.head(key).await?.as_ref()) {
            Ok(Condition::Any)
        } else {
            Err(Failure::Precondition)
        }
    }

    /// Removes an object if it is unchanged; returns `Ok(false)` if it is not.
    pub(super) async fn discard(&self, key: &str, object: &Object) -> Result<bool, Failure> {
        let is_honoured = self.options.writers == Writers::Many && self.abilities.conditional_delete;
        if is_honoured {
            return match self.bucket.delete(key, Some(&object.tag)).await {
                Ok(()) => Ok(true),
                Err(Failure::Precondition | Failure::NotFound) => Ok(false),
                Err(failure) => Err(failure),
            };
        }
        let now = self.bucket.head(key).await?;
        if !Condition::Tag(&object.tag).holds(now.as_ref()) {
            return Ok(false);
        }
        self.bucket.delete(key, None).await.map(|()| true)
    }
}

/// Returns whether the write may have happened although it failed.
fn is_doubtful(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Precondition
            | Failure::NoUpload
            | Failure::Busy { .. }
            | Failure::TimedOut(_)
            | Failure::Unreachable(_)
    )
}

/// The source of a write, with small content read into memory.
enum Prepared<'a> {
    Bytes(Bytes),
    Parts(&'a Content),
    Copy { key: &'a str, object: &'a Object },
    Longer { object: &'a Object, content: &'a Bytes },
}

impl Prepared<'_> {
    fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Parts(content) => content.len(),
            Self::Copy { object, .. } => object.size,
            Self::Longer { object, content } => object.size + content.len() as u64,
        }
    }

    /// Checks that the source of a copy is unchanged.
    async fn check_source(&self, shared: &Shared) -> Result<(), Refusal> {
        let Self::Copy { key, object } = self else {
            return Ok(());
        };
        // The server refuses a copy with the same status if its source has changed, not only its target.
        let now = shared.bucket.head(key).await?;
        if Condition::Tag(&object.tag).holds(now.as_ref()) {
            Ok(())
        } else {
            Err(Refusal::Failed(Failure::NotFound))
        }
    }
}

async fn prepare(source: Source<'_>) -> Result<Prepared<'_>, Refusal> {
    match source {
        Source::Copy { key, object } => Ok(Prepared::Copy { key, object }),
        Source::Longer { object, content } => Ok(Prepared::Longer { object, content }),
        Source::Content(content) if content.len() > ONE_PIECE => Ok(Prepared::Parts(content)),
        Source::Content(content) => read_all(content).await.map(Prepared::Bytes),
    }
}

/// Reads content that is small enough for memory.
async fn read_all(content: &Content) -> Result<Bytes, Refusal> {
    if let Some(bytes) = content.as_bytes() {
        return Ok(bytes.clone());
    }
    let content = content.clone();
    // The content may come from a file, so it is read on a thread that may block.
    let read = tokio::task::spawn_blocking(move || content.to_bytes()).await;
    read.expect("reading does not panic")
        .map_err(|error| Refusal::Failed(Failure::Local(error)))
}
