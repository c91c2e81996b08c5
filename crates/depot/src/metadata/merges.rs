//! Merges: which point of another workspace a workspace has taken in.

use garret_core::Result;
use rusqlite::params;

use super::{Level, Session};

/// A move, as the journal of a workspace has it.
#[derive(Debug, Clone)]
pub(crate) struct MoveRow {
    /// When it was made.
    pub(crate) at: i64,
    /// The change that made it; ids are in the order of time.
    pub(crate) change: String,
    pub(crate) source: Vec<u8>,
    pub(crate) place: Vec<u8>,
}

impl Session<'_> {
    /// Notes that `into` has taken in everything up to `source`.
    pub(crate) fn add_merge(self, into: Level, source: Level) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO merge (workspace, seq, source, point) VALUES (?1, ?2, ?3, ?4)";
        self.execute(sql, params![into.workspace, into.at, source.workspace, source.at])
            .map(|_| ())
    }

    /// The points that `level` has taken in, of every workspace the newest: a merge that was undone by then took in nothing.
    pub(crate) fn merges(self, level: Level) -> Result<Vec<Level>> {
        self.all(
            "SELECT source, max(point) FROM merge LEFT JOIN change USING (workspace, seq)
             WHERE merge.workspace = ?1 AND merge.seq <= ?2
               AND NOT (kind = 'merge' AND undone_by IS NOT NULL AND undone_by <= ?2)
             GROUP BY source",
            params![level.workspace, level.at],
            |row| {
                Ok(Level {
                    workspace: row.get(0)?,
                    at: row.get(1)?,
                })
            },
        )
    }

    /// What the changes after `after` up to `upto` moved, in the order in which they did.
    pub(crate) fn moves_between(self, workspace: i64, after: i64, upto: i64) -> Result<Vec<MoveRow>> {
        self.all(
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
