//! The rows of snapshots, which are labels of points.

use garret_core::Result;
use rusqlite::{Row, params};

use super::{LineageLevel, MetadataSession};

/// A label and its point.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotRow {
    pub(crate) label: String,
    pub(crate) point: LineageLevel,
    pub(crate) at: i64,
    /// Whether the snapshot covers only the files that the depot had captured.
    pub(crate) is_lazy: bool,
}

const COLUMNS: &str = "label, point_workspace, point_seq, at, lazy";

/// The named points of all workspaces.
#[derive(Clone, Copy)]
pub(crate) struct SnapshotTable<'c> {
    pub(super) session: MetadataSession<'c>,
}

impl SnapshotTable<'_> {
    /// Adds a snapshot.
    pub(crate) fn add_snapshot(self, workspace: i64, row: &SnapshotRow) -> Result<()> {
        self.session.execute(
            "INSERT INTO snapshot (workspace, label, point_workspace, point_seq, at, lazy) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![workspace, row.label, row.point.workspace, row.point.at, row.at, row.is_lazy],
        )
        .map(|_| ())
    }

    /// Returns the snapshot `label` of a workspace.
    pub(crate) fn snapshot(self, workspace: i64, label: &str) -> Result<Option<SnapshotRow>> {
        let sql = format!("SELECT {COLUMNS} FROM snapshot WHERE workspace = ?1 AND label = ?2");
        self.session.query_first(&sql, params![workspace, label], snapshot_row)
    }

    /// Returns the snapshots of a workspace, oldest first.
    pub(crate) fn list_snapshots(self, workspace: i64) -> Result<Vec<SnapshotRow>> {
        let sql = format!("SELECT {COLUMNS} FROM snapshot WHERE workspace = ?1 ORDER BY at, label");
        self.session.query_all(&sql, [workspace], snapshot_row)
    }

    /// Removes a snapshot; returns whether it existed.
    pub(crate) fn remove_snapshot(self, workspace: i64, label: &str) -> Result<bool> {
        let sql = "DELETE FROM snapshot WHERE workspace = ?1 AND label = ?2";
        self.session
            .execute(sql, params![workspace, label])
            .map(|count| count > 0)
    }
}

fn snapshot_row(row: &Row<'_>) -> rusqlite::Result<SnapshotRow> {
    Ok(SnapshotRow {
        label: row.get(0)?,
        point: LineageLevel {
            workspace: row.get(1)?,
            at: row.get(2)?,
        },
        at: row.get(3)?,
        is_lazy: row.get(4)?,
    })
}
