//! The records of a log: what is about to be done, what came of it, and what was found.

mod coding;

use bytes::Bytes;
use garret_core::{ChangeActor, ChangeKind, EntryKind, Follow, Mutation, Origin, Puts, Restore, Selection};

use crate::content::Address;

/// One record.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Record {
    /// A change that is about to be made.
    Intent(Intent),
    /// The intent with this number was done.
    Closed {
        id: u64,
        /// What is there now at the paths that it touched.
        seen: Vec<Seen>,
    },
    /// The intent with this number was refused, and nothing was touched.
    Aborted { id: u64 },
    /// What was found at paths, other than the journal knew.
    Found(Found),
}

/// A change that is about to be made.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Intent {
    pub(super) id: u64,
    pub(super) by: Authorship,
    pub(super) work: Work,
}

/// What an intent does.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Work {
    /// A batch of mutations. Preconditions are left out: they held.
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

/// A mutation whose content, where it has one, is with it or in the depot.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LoggedStep {
    pub(super) mutation: Mutation,
    pub(super) content: Option<Held>,
}

/// Content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Held {
    /// In the record itself.
    Inline(Bytes),
    /// In the depot.
    Stored { address: Address, size: u64 },
}

/// Who made a change, and when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Authorship {
    /// The id of the change.
    pub(super) change: String,
    /// As it is stored.
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
            operation: origin.operation.to_owned(),
            summary: origin.summary,
            actor: ChangeActor {
                agent: actor.agent,
                session: actor.session,
                tool_call: actor.tool_call,
                door: actor.door.to_owned(),
                command: origin.command,
            },
        }
    }
}

/// What was found at paths, other than the journal knew.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) id: u64,
    pub(super) by: Authorship,
    /// [`ChangeKind::Outside`] or [`ChangeKind::Capture`].
    pub(super) kind: ChangeKind,
    pub(super) entries: Vec<FoundEntry>,
    /// Whether every file was looked at.
    pub(super) is_whole: bool,
}

/// What was found at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundEntry {
    pub(super) path: Vec<u8>,
    /// `None` for nothing.
    pub(super) thing: Option<Thing>,
}

/// Something in a storage, with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Thing {
    pub(super) known: Known,
    /// The content of a file.
    pub(super) content: Option<Held>,
}

/// What a storage tells of an entry without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) kind: EntryKind,
    pub(super) mode: u32,
    pub(super) size: u64,
    /// Where a link points.
    pub(super) target: Option<String>,
    /// The storage's own version of a file; `None` where it must be read to be known.
    pub(super) token: Option<String>,
}

/// What is there now at a path that a change touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) path: Vec<u8>,
    /// `None` for nothing.
    pub(super) known: Option<Known>,
}
