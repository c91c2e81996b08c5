//! Converts rows of the metadata to the types of the history contract.

use garret_core::{Actor, Change, ChangeKind, ContentAddress, EntryPath, PathChange, PathImage, Result};

use super::journal::images_of;
use crate::content::PieceAddress;
use crate::metadata::{ChangeRow, EntryNode, LineageLevel, MetadataSession, time_of};
use crate::tree::version_of;

/// Returns the image of an entry, as a user sees it.
pub(crate) fn image_of(node: &EntryNode) -> PathImage {
    PathImage {
        kind: node.kind,
        mode: node.mode,
        size: node.size,
        version: version_of(node),
        target: node.target.clone(),
        content: node.content.map(|address| ContentAddress(address.0)),
    }
}

/// Returns the entry that restores `image`, created at the time `now`.
pub(crate) fn node_of(image: &PathImage, now: i64) -> EntryNode {
    EntryNode {
        kind: image.kind,
        mode: image.mode,
        size: image.size,
        content: image.content.map(|address| PieceAddress(address.0)),
        target: image.target.clone(),
        created: now,
        modified: now,
    }
}

/// Returns the change of a path from `before` to `after`.
pub(crate) fn path_change(path: Vec<u8>, before: Option<&EntryNode>, after: Option<&EntryNode>) -> PathChange {
    PathChange {
        path: EntryPath::from_bytes(path),
        before: before.map(image_of),
        after: after.map(image_of),
    }
}

/// Returns a change with the first of its paths.
pub(crate) fn change_of(session: MetadataSession<'_>, row: ChangeRow) -> Result<Change> {
    let kind = ChangeKind::parse(&row.kind).unwrap_or(ChangeKind::Change);
    let reverses = match kind {
        ChangeKind::Undo | ChangeKind::Redo => session.changes().reversed_changes(row.workspace, row.seq)?,
        _ => Vec::new(),
    };
    let mut touched = session.entries().touched_paths(row.workspace, row.seq - 1, row.seq)?;
    let path_count = touched.len() as u64;
    touched.truncate(Change::SHOWN_PATHS);
    let level = LineageLevel {
        workspace: row.workspace,
        at: row.seq,
    };
    let paths = images_of(session, level, touched)?;
    Ok(Change {
        id: row.id,
        number: row.seq.unsigned_abs(),
        at: time_of(row.at),
        kind,
        operation: row.operation,
        summary: row.summary,
        actor: Actor {
            agent: row.agent,
            session: row.session,
            tool_call: row.tool_call,
            door: row.door.into(),
            command: row.command,
        },
        paths: paths.iter().map(PathChange::to_changed_path).collect(),
        path_count,
        reverses: reverses.into_iter().map(i64::unsigned_abs).collect(),
        undone_by: row.undone_by.map(i64::unsigned_abs),
    })
}
