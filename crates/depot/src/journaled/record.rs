//! The records of a log: intents, their outcome, and entries that other programs changed.

mod encoding;

use bytes::Bytes;
use garret_core::{ChangeActor, ChangeKind, EntryKind, Follow, HistoryOperation, Mutation, Origin, PutBatch};

use crate::content::PieceAddress;

/// One record of the log.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum LogRecord {
    /// A change that is about to be made.
    Intent(ChangeIntent),
    /// The intent with this number was carried out.
    Closed {
        id: u64,
        /// The present state of the paths that it touched.
        seen: Vec<ObservedEntry>,
    },
    /// The intent with this number was refused, and nothing was changed.
    Aborted { id: u64 },
    /// Entries that differ from the journal.
    Found(FoundChange),
}

/// A change that is about to be made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChangeIntent {
    pub(super) id: u64,
    pub(super) by: ChangeAuthorship,
    pub(super) work: IntentWork,
}

/// The work of an intent.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum IntentWork {
    /// A batch of mutations. Preconditions are left out, because they held.
    Batch { follow: Follow, steps: Vec<LoggedStep> },
    /// Entries to put at paths. New content is in the depot.
    Put(PutBatch),
    /// An operation that is not planned: a log of an earlier version may have one.
    Operation(HistoryOperation),
}

/// A mutation whose content, if it has any, is beside it or in the depot.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LoggedStep {
    pub(super) mutation: Mutation,
    pub(super) content: Option<RecordContent>,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RecordContent {
    /// The content is in the record itself.
    Inline(Bytes),
    /// The content is in the depot.
    Stored { address: PieceAddress, size: u64 },
}

/// The author and the time of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ChangeAuthorship {
    /// The id of the change.
    pub(super) change: String,
    /// The time, in stored form.
    pub(super) at: i64,
    pub(super) operation: String,
    pub(super) summary: String,
    pub(super) actor: ChangeActor,
}

impl ChangeAuthorship {
    pub(super) fn new(change: String, at: i64, origin: Origin) -> Self {
        let actor = origin.actor;
        Self {
            change,
            at,
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
}

/// Entries that differ from the journal.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FoundChange {
    pub(super) id: u64,
    pub(super) by: ChangeAuthorship,
    /// [`ChangeKind::Outside`] or [`ChangeKind::Capture`].
    pub(super) kind: ChangeKind,
    pub(super) entries: Vec<FoundEntry>,
    /// Whether every file was compared.
    pub(super) is_whole: bool,
}

/// An entry that was found at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundEntry {
    pub(super) path: Vec<u8>,
    /// `None` if nothing is there.
    pub(super) thing: Option<CapturedEntry>,
}

/// An entry of a storage, with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CapturedEntry {
    pub(super) known: KnownEntry,
    /// The content, if it is a file.
    pub(super) content: Option<RecordContent>,
}

/// The metadata of an entry, as a storage reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownEntry {
    pub(super) kind: EntryKind,
    pub(super) mode: u32,
    pub(super) size: u64,
    /// The target of a link.
    pub(super) target: Option<String>,
    /// The storage's own version of a file; `None` if the file must be read to compare it.
    pub(super) token: Option<String>,
}

/// The present entry at a path that a change touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObservedEntry {
    pub(super) path: Vec<u8>,
    /// `None` if nothing is there.
    pub(super) known: Option<KnownEntry>,
}
