//! The records of the journal in a portable file, one for each line.

use garret_core::path::check_target;
use garret_core::{ChangeKind, EntryKind, EntryPath, Result};
use garret_depot::transfer::{ChangeRow, EntryNode, HistoryEntry, HistoryRecord, PieceAddress};
use serde::{Deserialize, Serialize};

use super::portable_file::damaged_file;
use crate::trees::permission_bits;

/// The most bytes in a path.
const LONGEST_PATH: usize = 64 << 10;

/// One record.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum PortableRecord {
    Change(ChangeRecord),
    Entry(EntryRecord),
    Move {
        change: i64,
        step: i64,
        from: String,
        to: String,
    },
    Reversal {
        change: i64,
        target: i64,
    },
    Snapshot {
        label: String,
        change: i64,
        at: i64,
        lazy: bool,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ChangeRecord {
    pub(super) number: i64,
    pub(super) id: String,
    pub(super) at: i64,
    kind: String,
    operation: String,
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call: Option<String>,
    door: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) undone_by: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct EntryRecord {
    path: String,
    pub(super) since: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<i64>,
    kind: EntryKind,
    mode: u32,
    #[serde(default)]
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    created: i64,
    modified: i64,
}

impl PortableRecord {
    /// Returns the record of a portable file for a record of the depot.
    pub(super) fn from_record(record: HistoryRecord) -> Self {
        let token = |path: Vec<u8>| EntryPath::from_bytes(path).to_token();
        match record {
            HistoryRecord::Change(row) => Self::Change(ChangeRecord::from_row(row)),
            HistoryRecord::Entry(entry) => Self::Entry(EntryRecord::from_entry(entry)),
            HistoryRecord::Move { change, step, from, to } => Self::Move {
                change,
                step,
                from: token(from),
                to: token(to),
            },
            HistoryRecord::Reversal { change, target } => Self::Reversal { change, target },
            HistoryRecord::Snapshot {
                label,
                change,
                at,
                is_lazy,
            } => Self::Snapshot {
                label,
                change,
                at,
                lazy: is_lazy,
            },
        }
    }

    /// Returns the record of the depot. Invalid values are `corrupt`.
    pub(super) fn into_record(self) -> Result<HistoryRecord> {
        Ok(match self {
            Self::Change(change) => HistoryRecord::Change(change.into_row()?),
            Self::Entry(entry) => HistoryRecord::Entry(entry.into_entry()?),
            Self::Move { change, step, from, to } => HistoryRecord::Move {
                change,
                step,
                from: parse_record_path(&from)?,
                to: parse_record_path(&to)?,
            },
            Self::Reversal { change, target } => HistoryRecord::Reversal { change, target },
            Self::Snapshot {
                label,
                change,
                at,
                lazy,
            } => HistoryRecord::Snapshot {
                label,
                change,
                at,
                is_lazy: lazy,
            },
        })
    }
}

impl ChangeRecord {
    fn from_row(row: ChangeRow) -> Self {
        Self {
            number: row.seq,
            id: row.id,
            at: row.at,
            kind: row.kind,
            operation: row.operation,
            summary: row.summary,
            agent: row.agent,
            session: row.session,
            tool_call: row.tool_call,
            door: row.door,
            command: row.command,
            undone_by: row.undone_by,
        }
    }

    /// Returns the row of the change, without its workspace. Invalid values are `corrupt`.
    pub(super) fn into_row(self) -> Result<ChangeRow> {
        ChangeKind::parse(&self.kind).ok_or_else(|| damaged_file("a change is of an unknown kind"))?;
        if self.id.is_empty()
            || ![&self.id, &self.operation, &self.door]
                .into_iter()
                .all(|text| is_safe_word(text))
        {
            return Err(damaged_file("the id of a change is not valid"));
        }
        Ok(ChangeRow {
            workspace: 0,
            seq: self.number,
            id: self.id,
            at: self.at,
            kind: self.kind,
            operation: self.operation,
            summary: self.summary,
            agent: self.agent,
            session: self.session,
            tool_call: self.tool_call,
            door: self.door,
            command: self.command,
            undone_by: self.undone_by,
        })
    }
}

impl EntryRecord {
    fn from_entry(entry: HistoryEntry) -> Self {
        let node = entry.node;
        Self {
            path: EntryPath::from_bytes(entry.path).to_token(),
            since: entry.since,
            until: entry.until,
            kind: node.kind,
            mode: node.mode,
            size: node.size,
            content: node.content.map(PieceAddress::to_hex),
            target: node.target,
            created: node.created,
            modified: node.modified,
        }
    }

    /// Returns the address of the content that the entry names.
    pub(super) fn content_address(&self) -> Result<Option<PieceAddress>> {
        let address = |digits: &String| {
            PieceAddress::from_hex(digits).ok_or_else(|| damaged_file("a content address is not valid"))
        };
        self.content.as_ref().map(address).transpose()
    }

    /// Returns the entry with its life. An entry that no workspace could contain is refused.
    pub(super) fn into_entry(self) -> Result<HistoryEntry> {
        let content = self.content_address()?;
        let fits = match self.kind {
            EntryKind::File => content.is_some() && self.target.is_none(),
            EntryKind::Directory => content.is_none() && self.target.is_none(),
            EntryKind::Symlink => content.is_none() && self.target.is_some(),
            EntryKind::Other => false,
        };
        let path = parse_record_path(&self.path)?;
        if let Some(target) = &self.target {
            let shown = EntryPath::from_bytes(path.clone()).display_path();
            check_target(target).map_err(|_| damaged_file("the target of a link is not valid").at_path_text(shown))?;
        }
        if !fits {
            return Err(damaged_file("an entry is of an unknown kind"));
        }
        let node = EntryNode {
            kind: self.kind,
            // The file may come from anywhere; set-user-id bits must not enter a workspace.
            mode: permission_bits(self.mode),
            size: self.size,
            content,
            target: self.target,
            created: self.created,
            modified: self.modified,
        };
        Ok(HistoryEntry {
            path,
            since: self.since,
            until: self.until,
            node,
        })
    }
}

/// Returns whether a text is safe for an id, a tool or a door, because these are printed as they are.
fn is_safe_word(text: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    text.len() <= 200 && text.bytes().all(is_usual)
}

/// Returns the path of a record; the root and paths that are not in normal form are refused.
pub(super) fn parse_record_path(token: &str) -> Result<Vec<u8>> {
    let path = EntryPath::from_token(token).map_err(|_| damaged_file("a path is not valid"))?;
    if is_portable_path(path.as_bytes()) {
        Ok(path.as_bytes().to_vec())
    } else {
        Err(damaged_file("a path is not valid"))
    }
}

/// Returns whether a path in normal form can be in a portable file. A path that was found in a directory of the host
/// may be longer than the paths that tools accept.
pub(super) fn is_portable_path(path: &[u8]) -> bool {
    let is_name = |name: &[u8]| (1..=255).contains(&name.len()) && !name.contains(&0);
    path.len() <= LONGEST_PATH && path.split(|byte| *byte == b'/').all(is_name)
}
