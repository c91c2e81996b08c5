//! The rows of merges: the points of other workspaces that a workspace has merged.

use garret_core::Result;
use rusqlite::params;

use super::{LineageLevel, MetadataSession};

/// A move in the journal of a workspace.
#[derive(Debug, Clone)]
pub(crate) struct MoveRow {
    /// The time of its change.
    pub(crate) at: i64,
    /// The id of its change; ids are in the order of time.
    pub(crate) change: String,
    pub(crate) source: Vec<u8>,
    pub(crate) place: Vec<u8>,
}

/// The merges between workspaces, and the moves that a merge follows.
#[derive(Clone, Copy)]
pub(crate) struct MergeTable<'c> {
    pub(super) session: MetadataSession<'c>,
}

impl MergeTable<'_> {
    /// Records that `into` has merged everything up to `source`.
    pub(crate) fn add_merge(self, into: LineageLevel, source: LineageLevel) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO merge (workspace, seq, source, point) VALUES (?1, ?2, ?3, ?4)";
        self.session
            .execute(sql, params![into.workspace, into.at, source.workspace, source.at])
            .map(|_| ())
    }

    /// Returns the points that `level` has merged, the newest of each workspace. A merge that was undone by then does
    /// not count.
    pub(crate) fn merged_points(self, level: LineageLevel) -> Result<Vec<LineageLevel>> {
        self.session.query_all(
            "SELECT source, max(point) FROM merge LEFT JOIN change USING (workspace, seq)
             WHERE merge.workspace = ?1 AND merge.seq <= ?2
               AND NOT (kind = 'merge' AND undone_by IS NOT NULL AND undone_by <= ?2)
             GROUP BY source",
            params![level.workspace, level.at],
            |row| {
                Ok(LineageLevel {
                    workspace: row.get(0)?,
                    at: row.get(1)?,
                })
            },
        )
    }

    /// Returns the moves of the changes after `after` up to `upto`, in the order in which they were made.
    pub(crate) fn moves_between(self, workspace: i64, after: i64, upto: i64) -> Result<Vec<MoveRow>> {
        self.session.query_all(
            "SELECT change.at, change.id, source, place FROM move JOIN change USING (workspace, seq)
             WHERE workspace = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq, step",
            params![workspace, after, upto],
            |row| {
                Ok(MoveRow {
                    at: row.get(0)?,
                    change: row.get(1)?,
                    source: row.get(2)?,
                    place: row.get(3)?,
                })
            },
        )
    }
}
