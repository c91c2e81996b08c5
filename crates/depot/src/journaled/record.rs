//! The records of a log: intents, their outcome, and entries that other programs changed.

mod coding;

use bytes::Bytes;
use garret_core::{ChangeActor, ChangeKind, EntryKind, Follow, Mutation, Origin, Puts, Restore, Selection};

use crate::content::Address;

/// One record of the log.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Record {
    /// A change that is about to be made.
    Intent(Intent),
    /// The intent with this number was carried out.
    Closed {
        id: u64,
        /// The present state of the paths that it touched.
        seen: Vec<Seen>,
    },
    /// The intent with this number was refused, and nothing was changed.
    Aborted { id: u64 },
    /// Entries that differ from the journal.
    Found(Found),
}

/// A change that is about to be made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Intent {
    pub(super) id: u64,
    pub(super) by: Authorship,
    pub(super) work: Work,
}

/// The work of an intent.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Work {
    /// A batch of mutations. Preconditions are left out, because they held.
    Batch { follow: Follow, steps: Vec<LoggedStep> },
    /// An operation of the history.
    Operation(Operation),
}

/// An operation of the history.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operation {
    Undo(Selection),
    Redo,
    Restore(Restore),
    Put(Puts),
}

/// A mutation whose content, if it has any, is beside it or in the depot.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LoggedStep {
    pub(super) mutation: Mutation,
    pub(super) content: Option<Held>,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Held {
    /// The content is in the record itself.
    Inline(Bytes),
    /// The content is in the depot.
    Stored { address: Address, size: u64 },
}

/// The author and the time of a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Authorship {
    /// The id of the change.
    pub(super) change: String,
    /// The time, in stored form.
    pub(super) at: i64,
    pub(super) operation: String,
    pub(super) summary: String,
    pub(super) actor: ChangeActor,
}

impl Authorship {
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
pub(super) struct Found {
    pub(super) id: u64,
    pub(super) by: Authorship,
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
    pub(super) thing: Option<Thing>,
}

/// An entry of a storage, with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Thing {
    pub(super) known: Known,
    /// The content, if it is a file.
    pub(super) content: Option<Held>,
}

/// The metadata of an entry, as a storage reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
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
pub(super) struct Seen {
    pub(super) path: Vec<u8>,
    /// `None` if nothing is there.
    pub(super) known: Option<Known>,
}
