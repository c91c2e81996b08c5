//! The records of a log: intents, their outcome, and entries that other programs changed.

mod encoding;

use bytes::Bytes;
use garret_core::{
    Actor, ChangeActor, ChangeKind, EntryKind, Follow, HistoryOperation, Mutation, Origin, PutBatch, Timestamp,
};

use crate::content::PieceAddress;
use crate::metadata::stored_time;

/// One record of the log.
#[derive(Debug, Clone, PartialEq)]
pub enum LogRecord {
    /// A change that is about to be made.
    Intent(ChangeIntent),
    /// The intent with this number was carried out.
    Closed {
        /// The number of the intent.
        id: u64,
        /// The present state of the paths that it touched.
        seen: Vec<ObservedEntry>,
    },
    /// The intent with this number was refused, and nothing was changed.
    Aborted {
        /// The number of the intent.
        id: u64,
    },
    /// Entries that differ from the journal.
    Found(FoundChange),
}

/// A change that is about to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeIntent {
    /// The number of the record.
    pub id: u64,
    /// The author and the time.
    pub by: ChangeAuthorship,
    /// The work.
    pub work: IntentWork,
}

/// The work of an intent.
#[derive(Debug, Clone, PartialEq)]
pub enum IntentWork {
    /// A batch of mutations. Preconditions are left out, because they held.
    Batch {
        /// Whether links are followed.
        follow: Follow,
        /// The mutations.
        steps: Vec<LoggedStep>,
    },
    /// Entries to put at paths. New content is in the depot.
    Put(PutBatch),
    /// An operation that is not planned: a log of an earlier version may have one.
    Operation(HistoryOperation),
}

/// A mutation whose content, if it has any, is beside it or in the depot.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedStep {
    /// The mutation.
    pub mutation: Mutation,
    /// The content of a write.
    pub content: Option<RecordContent>,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordContent {
    /// The content is in the record itself.
    Inline(Bytes),
    /// The content is in the depot.
    Stored {
        /// The address of the content.
        address: PieceAddress,
        /// The number of its bytes.
        size: u64,
    },
}

/// The author and the time of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeAuthorship {
    /// The id of the change.
    pub change: String,
    /// The time, in microseconds since 1970.
    pub at: i64,
    /// The operation.
    pub operation: String,
    /// The summary.
    pub summary: String,
    /// The actor.
    pub actor: ChangeActor,
}

impl ChangeAuthorship {
    /// Returns the authorship of the change `change` that `origin` makes at the time `at`.
    pub fn new(change: String, at: Timestamp, origin: Origin) -> Self {
        let actor = origin.actor;
        Self {
            change,
            at: stored_time(at),
            operation: origin.operation.into_owned(),
            summary: origin.summary,
            actor: ChangeActor {
                agent: actor.agent,
                session: actor.session,
                tool_call: actor.tool_call,
                door: actor.door.into_owned(),
                command: origin.command,
            },
        }
    }

    /// Returns the origin of the change.
    pub(super) fn into_origin(self) -> Origin {
        Origin {
            operation: self.operation.into(),
            summary: self.summary,
            actor: Actor {
                agent: self.actor.agent,
                session: self.actor.session,
                tool_call: self.actor.tool_call,
                door: self.actor.door.into(),
            },
            command: self.actor.command,
        }
    }
}

/// Entries that differ from the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundChange {
    /// The number of the record.
    pub id: u64,
    /// The author and the time.
    pub by: ChangeAuthorship,
    /// [`ChangeKind::Outside`] or [`ChangeKind::Capture`].
    pub kind: ChangeKind,
    /// The entries, sorted by path.
    pub entries: Vec<FoundEntry>,
    /// Whether every file was compared.
    pub is_whole: bool,
}

/// An entry that was found at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundEntry {
    /// The path.
    pub path: Vec<u8>,
    /// The entry; `None` if nothing is there.
    pub thing: Option<CapturedEntry>,
}

impl FoundEntry {
    /// Returns whether a directory was found.
    pub fn is_directory(&self) -> bool {
        let thing = self.thing.as_ref();
        thing.is_some_and(|thing| thing.known.kind == EntryKind::Directory)
    }
}

/// An entry of a storage, with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedEntry {
    /// Its metadata.
    pub known: KnownEntry,
    /// The content, if it is a file.
    pub content: Option<RecordContent>,
}

/// The metadata of an entry, as a storage reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownEntry {
    /// The kind.
    pub kind: EntryKind,
    /// The permission bits.
    pub mode: u32,
    /// The number of bytes of a file.
    pub size: u64,
    /// The target of a link.
    pub target: Option<String>,
    /// The storage's own version of a file; `None` if the file must be read to compare it.
    pub token: Option<String>,
}

/// The present entry at a path that a change touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedEntry {
    /// The path.
    pub path: Vec<u8>,
    /// The entry; `None` if nothing is there.
    pub known: Option<KnownEntry>,
}
