//! Rolls back the newest changes of a workspace as if they had never been made. Used when a power failure has destroyed
//! a part of relaxed changes, so that the rest of them is removed as well.

use std::collections::BTreeMap;

use garret_core::Result;
use rusqlite::params;

use super::MetadataSession;
use crate::content::PieceAddress;

/// The queries and removals that take back the newest changes of a workspace.
#[derive(Clone, Copy)]
pub(crate) struct RollbackQueries<'c> {
    pub(super) session: MetadataSession<'c>,
}

impl RollbackQueries<'_> {
    /// Returns the workspaces with an entry that refers to `address`, each with the first change that did; 0 for a row
    /// that a flattened branch began with.
    pub(crate) fn first_references(self, address: PieceAddress) -> Result<Vec<(i64, i64)>> {
        let sql = "SELECT workspace, min(since) FROM entry WHERE hash = ?1 GROUP BY workspace";
        self.session
            .query_all(sql, [address], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Returns the workspaces that were branched off at the change `from` of `workspace` or a later one.
    pub(crate) fn branches_from(self, workspace: i64, from: i64) -> Result<Vec<i64>> {
        // A branch has a larger number than its parent. The condition keeps a damaged lineage from causing endless
        // recursion.
        let sql = "SELECT id FROM workspace WHERE parent = ?1 AND fork >= ?2 AND id > ?1";
        self.session.query_all(sql, [workspace, from], |row| row.get(0))
    }

    /// Rolls back the change `from` of a workspace and all later ones, with their snapshots. No branch may begin at any
    /// of them.
    pub(crate) fn roll_back(self, workspace: i64, from: i64) -> Result<()> {
        for sql in [
            "DELETE FROM entry WHERE workspace = ?1 AND since >= ?2",
            "UPDATE entry SET until = 9223372036854775807
             WHERE workspace = ?1 AND until >= ?2 AND until < 9223372036854775807",
            "DELETE FROM change WHERE workspace = ?1 AND seq >= ?2",
            "DELETE FROM reversal WHERE workspace = ?1 AND seq >= ?2",
            "DELETE FROM move WHERE workspace = ?1 AND seq >= ?2",
            "DELETE FROM merge WHERE workspace = ?1 AND seq >= ?2",
            "DELETE FROM merge WHERE source = ?1 AND point >= ?2",
            "DELETE FROM snapshot WHERE point_workspace = ?1 AND point_seq >= ?2",
        ] {
            self.session.execute(sql, [workspace, from])?;
        }
        self.session.workspaces().set_head(workspace, from - 1)?;
        self.recompute_undone(workspace)
    }

    /// Computes again which changes are undone: those that are reversed by a change which is not undone itself.
    fn recompute_undone(self, workspace: i64) -> Result<()> {
        let sql = "UPDATE change SET undone_by = NULL WHERE workspace = ?1 AND undone_by IS NOT NULL";
        self.session.execute(sql, [workspace])?;
        let sql = "SELECT seq, target FROM reversal WHERE workspace = ?1 ORDER BY seq DESC";
        let reversals: Vec<(i64, i64)> = self
            .session
            .query_all(sql, [workspace], |row| Ok((row.get(0)?, row.get(1)?)))?;
        // Newest first: a reversal can only be undone by a newer one, so its own state is known when it is reached.
        let mut undone = BTreeMap::new();
        for (seq, target) in reversals {
            if !undone.contains_key(&seq) {
                undone.entry(target).or_insert(seq);
            }
        }
        undone
            .into_iter()
            .try_for_each(|(target, seq)| self.session.changes().set_undone_by(workspace, target, Some(seq)))
    }

    /// Removes the row of a piece of content, whatever the date of its last reference.
    pub(crate) fn remove_content_row(self, address: PieceAddress) -> Result<()> {
        self.session
            .execute("DELETE FROM content WHERE hash = ?1", params![address])?;
        self.session.contents().remove_unsynced(address)
    }
}
