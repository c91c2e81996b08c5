//! What the history tells, as data.

use garret_core::{EntryKind, EntryPath, Result, Timestamp, Version};
use serde::Serialize;

use crate::metadata::{ChangeRow, Node, Session, time_of};
use crate::tree::version_of;

/// One atomic, attributed, reversible mutation of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Unique for ever, in the order of time.
    pub id: String,
    /// Its place in the journal of its workspace, from 1.
    pub number: u64,
    /// When it was made.
    pub at: Timestamp,
    /// What sort of change it is.
    pub kind: ChangeKind,
    /// The operation that made it, by the canonical name of its tool; empty where none was named.
    pub operation: String,
    /// What was done, in a few words.
    pub summary: String,
    /// Who did it.
    pub actor: ChangeActor,
    /// The numbers of the changes that it reverses, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reverses: Vec<u64>,
    /// The number of the change that holds it reversed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_by: Option<u64>,
}

/// What sort of change it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// New work.
    Change,
    /// The reversal of other changes.
    Undo,
    /// The reversal of an undo.
    Redo,
    /// Files put back to what they were at a point.
    Restore,
}

/// Who made a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ChangeActor {
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The run of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The model's call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<String>,
    /// The front door: `api`, `cli`, `mcp`, …
    pub door: String,
    /// The command that did it, where one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// What a path was before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathChange {
    /// The path.
    pub path: EntryPath,
    /// What was there; `None` for nothing.
    pub before: Option<Image>,
    /// What is there afterwards; `None` for nothing.
    pub after: Option<Image>,
}

/// What was at a path at some point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Image {
    /// What it was.
    pub kind: EntryKind,
    /// Its permission bits; those of a link mean nothing.
    pub mode: u32,
    /// Bytes of content.
    pub size: u64,
    /// The version of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Where a link points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl Image {
    pub(crate) fn of(node: &Node) -> Self {
        Self {
            kind: node.kind,
            mode: node.mode,
            size: node.size,
            version: version_of(node),
            target: node.target.clone(),
        }
    }
}

impl PathChange {
    pub(crate) fn new(path: Vec<u8>, before: Option<&Node>, after: Option<&Node>) -> Self {
        Self {
            path: EntryPath::from_bytes(path),
            before: before.map(Image::of),
            after: after.map(Image::of),
        }
    }
}

impl Change {
    pub(crate) fn of(session: Session<'_>, row: ChangeRow) -> Result<Self> {
        let kind = ChangeKind::parse(&row.kind);
        let reverses = match kind {
            ChangeKind::Undo | ChangeKind::Redo => session.reversals(row.workspace, row.seq)?,
            _ => Vec::new(),
        };
        Ok(Self {
            id: row.id,
            number: row.seq.unsigned_abs(),
            at: time_of(row.at),
            kind,
            operation: row.operation,
            summary: row.summary,
            actor: ChangeActor {
                agent: row.agent,
                session: row.session,
                tool_call: row.tool_call,
                door: row.door,
                command: row.command,
            },
            reverses: reverses.into_iter().map(i64::unsigned_abs).collect(),
            undone_by: row.undone_by.map(i64::unsigned_abs),
        })
    }
}

impl ChangeKind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Undo => "undo",
            Self::Redo => "redo",
            Self::Restore => "restore",
        }
    }

    fn parse(text: &str) -> Self {
        let all = [Self::Undo, Self::Redo, Self::Restore];
        all.into_iter()
            .find(|kind| kind.as_str() == text)
            .unwrap_or(Self::Change)
    }
}
