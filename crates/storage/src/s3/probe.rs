//! The abilities of a server, tried out when it is first used (`probe_memory` remembers them for a day).
//!
//! Some servers answer 200 to a conditional write and ignore the condition; some honour it for one request at a time
//! but not in a race. No list of names and versions tells which, so a few objects are written below the reserved
//! directory, and removed again.

use bytes::Bytes;
use futures::future::join_all;
use garret_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::bucket::{Bucket, CopyCall, ListCall, PAGE, WriteCondition};
use super::keys::KeyLayout;
use super::list_order::ListOrder;
use super::metadata::ObjectMetadata;
use super::options::WriterMode;
use super::wire::failure::S3RequestError;

/// The number of concurrent writes of which only one may succeed.
const RACERS: usize = 4;
/// An ETag that no object has.
const NOBODY: &str = "00000000000000000000000000000000";

/// The abilities of a server beyond those of every server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Abilities {
    /// Whether a copy can be conditional on an absent target.
    pub(super) conditional_copy: bool,
    /// Whether a removal can be conditional on the ETag.
    pub(super) conditional_delete: bool,
    /// Whether a list with a delimiter shows directories that are empty by now (ghosts).
    pub(super) shows_ghosts: bool,
    /// Whether a backslash in a key is taken for a slash.
    pub(super) takes_backslash: bool,
    /// The order of its lists.
    pub(super) order: ListOrder,
}

/// The objects of one probe.
struct ServerProbe<'a> {
    bucket: &'a Bucket,
    first: String,
    inner: String,
    race: String,
    backslash: String,
    base: String,
}

/// Probes the server. Refuses one that does not enforce preconditions, unless this handle is the only writer.
pub(super) async fn probe_server(
    bucket: &Bucket,
    layout: &KeyLayout,
    id: &str,
    writers: WriterMode,
) -> Result<Abilities> {
    let base = layout.reserved_key(&format!("probe/{id}/"));
    let trial = ServerProbe {
        bucket,
        first: format!("{base}a-"),
        inner: format!("{base}a/x"),
        race: format!("{base}race"),
        backslash: format!("{base}b\\c"),
        base,
    };
    let outcome = trial.run_probe(writers).await;
    if outcome.is_err() {
        trial.remove_objects().await;
    }
    outcome
}

impl ServerProbe<'_> {
    async fn run_probe(&self, writers: WriterMode) -> Result<Abilities> {
        let (first, inner, backslash) = futures::join!(
            self.put_object(&self.first, WriteCondition::Absent),
            self.put_object(&self.inner, WriteCondition::Any),
            self.put_object(&self.backslash, WriteCondition::Any)
        );
        inner.map_err(S3RequestError::into_error)?;
        let tag = match first {
            Ok(tag) => Ok(tag),
            // No other program writes there, so an earlier attempt succeeded and its answer was lost.
            Err(S3RequestError::Precondition) => self.tag_of_first().await,
            Err(S3RequestError::Unsupported) if writers == WriterMode::Single => self
                .put_object(&self.first, WriteCondition::Any)
                .await
                .map_err(S3RequestError::into_error),
            Err(S3RequestError::Unsupported) => Err(unsafe_for_many("refuses")),
            Err(failure) => Err(failure.into_error()),
        }?;
        let (read, order) = futures::join!(self.read_back(), self.find_list_order());
        read?;
        let order = order?;
        if writers == WriterMode::Many {
            self.check_conditions(&tag).await?;
        }
        let conditional_copy = self.refuses_copy().await;
        let conditional_delete = self.refuses_delete().await?;
        let directories = self.directories_left().await?;
        self.remove_objects().await;
        // A server that refuses such a key altogether needs the other spelling, too.
        let takes_backslash = backslash.is_err() || directories.contains(&format!("{}b/", self.base));
        Ok(Abilities {
            conditional_copy,
            conditional_delete,
            shows_ghosts: directories.contains(&format!("{}a/", self.base)),
            takes_backslash,
            order: match order {
                // The other spelling of a backslash sorts differently, so the order of keys is not that of paths.
                ListOrder::Keys if takes_backslash => ListOrder::Unknown,
                order => order,
            },
        })
    }

    async fn put_object(&self, key: &str, condition: WriteCondition<'_>) -> Result<String, S3RequestError> {
        let body = Bytes::from_static(b"a trial");
        self.bucket.put(key, body, &ObjectMetadata::default(), condition).await
    }

    async fn tag_of_first(&self) -> Result<String> {
        let object = self
            .bucket
            .head(&self.first)
            .await
            .map_err(S3RequestError::into_error)?;
        object
            .map(|object| object.tag)
            .ok_or_else(|| unsafe_for_many("confuses"))
    }

    /// Checks the permission to read.
    async fn read_back(&self) -> Result<()> {
        // The server refuses before it sends a byte, so the body need not be read.
        let got = self.bucket.get(&self.first, None, None).await;
        got.map(drop).map_err(S3RequestError::into_error)
    }

    /// Finds out in which order `a-` and `a/x` are listed.
    async fn find_list_order(&self) -> Result<ListOrder> {
        let list = ListCall {
            prefix: &self.base,
            limit: PAGE,
            ..ListCall::default()
        };
        let page = self.bucket.list(&list).await.map_err(S3RequestError::into_error)?;
        let place = |key: &str| page.objects.iter().position(|object| object.key == key);
        Ok(match (place(&self.first), place(&self.inner)) {
            (Some(first), Some(inner)) if first < inner => ListOrder::Keys,
            (Some(_), Some(_)) => ListOrder::Tree,
            _ => ListOrder::Unknown,
        })
    }

    /// Checks that conditions are enforced: one that fails, one that holds, and one of several at once.
    async fn check_conditions(&self, tag: &str) -> Result<()> {
        let (again, other) = futures::join!(
            self.put_object(&self.first, WriteCondition::Absent),
            self.put_object(&self.first, WriteCondition::Tag(NOBODY))
        );
        must_be_refused(again)?;
        must_be_refused(other)?;
        match self.put_object(&self.first, WriteCondition::Tag(tag)).await {
            // Refused is fine, too: an earlier attempt of this write may have changed the tag and lost its answer.
            Ok(_) | Err(S3RequestError::Precondition) => {}
            Err(S3RequestError::Unsupported) => return Err(unsafe_for_many("refuses")),
            Err(failure) => return Err(failure.into_error()),
        }
        self.check_race().await
    }

    async fn check_race(&self) -> Result<()> {
        let outcomes = join_all((0..RACERS).map(|_| self.put_object(&self.race, WriteCondition::Absent))).await;
        let mut winners = 0;
        for outcome in outcomes {
            match outcome {
                Ok(_) => winners += 1,
                Err(S3RequestError::Precondition) => {}
                Err(failure) => return Err(failure.into_error()),
            }
        }
        match winners {
            0 | 1 => Ok(()),
            _ => Err(unsafe_for_many("does not enforce, for concurrent writes,")),
        }
    }

    async fn refuses_copy(&self) -> bool {
        let Ok(Some(first)) = self.bucket.head(&self.first).await else {
            return false;
        };
        let copy = CopyCall {
            from: &self.first,
            tag: &first.tag,
            to: &self.inner,
            metadata: &ObjectMetadata::default(),
            condition: WriteCondition::Absent,
        };
        matches!(self.bucket.copy(copy).await, Err(S3RequestError::Precondition))
    }

    async fn refuses_delete(&self) -> Result<bool> {
        match self.bucket.delete(&self.inner, Some(NOBODY)).await {
            Ok(()) => Ok(false),
            Err(S3RequestError::Precondition) => Ok(true),
            Err(failure @ S3RequestError::Refused { .. }) => Err(failure.into_error()),
            Err(_) => Ok(false),
        }
    }

    /// Returns the directories that a list shows after `a` has become empty.
    async fn directories_left(&self) -> Result<Vec<String>> {
        self.bucket
            .delete(&self.inner, None)
            .await
            .map_err(S3RequestError::into_error)?;
        let list = ListCall {
            prefix: &self.base,
            is_shallow: true,
            limit: PAGE,
            ..ListCall::default()
        };
        let page = self.bucket.list(&list).await.map_err(S3RequestError::into_error)?;
        Ok(page.prefixes)
    }

    async fn remove_objects(&self) {
        let keys = [&self.first, &self.inner, &self.race, &self.backslash];
        // An object that stays is hidden and does no harm.
        let _ = join_all(keys.map(|key| self.bucket.delete(key, None))).await;
    }
}

fn must_be_refused(outcome: Result<String, S3RequestError>) -> Result<()> {
    match outcome {
        Err(S3RequestError::Precondition) => Ok(()),
        Ok(_) => Err(unsafe_for_many("ignores")),
        Err(S3RequestError::Unsupported) => Err(unsafe_for_many("refuses")),
        Err(failure) => Err(failure.into_error()),
    }
}

fn unsafe_for_many(how: &str) -> Error {
    let message = format!(
        "the server {how} preconditions (If-None-Match, If-Match): writers would overwrite each other's changes"
    );
    Error::new(ErrorKind::Unsupported, message).hint(
        "open with `writers = \"single\"` if no other program writes there, or use a server that enforces preconditions",
    )
}
