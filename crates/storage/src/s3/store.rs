//! Conditional writes whose outcome is known even where the answer was lost.

use bytes::Bytes;
use garret_core::{Content, Error, Result, WsPath};

use super::Shared;
use super::bucket::{Condition, CopyCall, Object};
use super::locate::failed;
use super::metadata::Metadata;
use super::multipart;
use super::options::Writers;
use super::wire::failure::Failure;

/// Content over this is sent in parts.
pub(super) const ONE_PIECE: u64 = 8 * 1024 * 1024;
/// How often a write that lost against nothing that can be seen is tried again.
const MAX_TRIES: u32 = 12;

/// Why a write did not happen.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The condition does not hold; what is there now.
    Conflict(Option<Box<Object>>),
    /// The request failed.
    Failed(Failure),
}

impl Refusal {
    /// The error where a conflict was not to be expected.
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

/// What is written.
#[derive(Debug, Clone)]
pub(super) enum Source<'a> {
    /// Content of ours.
    Content(&'a Content),
    /// An object on the server, with the ETag that it must have.
    Copy { key: &'a str, object: &'a Object },
    /// The large object that is replaced, and what comes after it.
    Longer { object: &'a Object, content: &'a Bytes },
}

impl Shared {
    /// Refuses to begin a write where an answer has contradicted the probe: the server may ignore the condition of the write.
    pub(super) fn check_server(&self) -> Result<(), Failure> {
        match self.bucket.wire.identity().is_contradicted() {
            true => Err(Failure::ServerChanged),
            false => Ok(()),
        }
    }

    /// Writes an object under a condition. Its metadata carries an id of this write: where the server refuses the condition, a look tells
    /// whether that is because the write had happened already and only its answer was lost.
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
            let now = match self.bucket.head(key).await {
                Ok(now) => now,
                // Whether it was this write that changed the object cannot be seen: no conflict is claimed.
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
        self.bucket.wire.identity().contradict();
        Err(Refusal::Failed(Failure::Unreachable(
            "the server keeps refusing a write whose condition holds",
        )))
    }

    /// Removes what was a directory at `key` once and keeps its name taken, on a server that has such; `false` where it is still one.
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
        // Each is found after the one that holds it, and goes before it.
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

    /// The condition as far as the server honours it; what it does not is looked at first.
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
        match condition.holds(self.bucket.head(key).await?.as_ref()) {
            true => Ok(Condition::Any),
            false => Err(Failure::Precondition),
        }
    }

    /// Removes an object that must still be as it was; `Ok(false)` where it is not.
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

/// Whether the write may have happened all the same.
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

/// What is written, read as far as it must be.
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

    /// A copy is refused, too, where its source is no longer what it was.
    async fn check_source(&self, shared: &Shared) -> Result<(), Refusal> {
        let Self::Copy { key, object } = self else {
            return Ok(());
        };
        let now = shared.bucket.head(key).await?;
        match Condition::Tag(&object.tag).holds(now.as_ref()) {
            true => Ok(()),
            false => Err(Refusal::Failed(Failure::NotFound)),
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

/// Reads content that is small enough for memory; a source may block, so it is read elsewhere.
async fn read_all(content: &Content) -> Result<Bytes, Refusal> {
    if let Some(bytes) = content.as_bytes() {
        return Ok(bytes.clone());
    }
    let content = content.clone();
    let read = tokio::task::spawn_blocking(move || content.to_bytes()).await;
    read.expect("reading does not panic")
        .map_err(|error| Refusal::Failed(Failure::Local(error)))
}
