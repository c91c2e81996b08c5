//! Finds rows that contradict other rows, and corrects them from those.

use garret_core::Result;
use rusqlite::params;

use super::MetadataSession;
use super::workspaces::{HEAD_OF, OF_WORKSPACES, WorkspaceRow};
use crate::content::PieceAddress;

/// Returns the condition for a snapshot whose point does not exist: in a missing workspace, or after its newest change.
fn dangling_snapshot_condition() -> String {
    format!("NOT EXISTS (SELECT 1 FROM workspace WHERE id = point_workspace AND {HEAD_OF} >= point_seq)")
}

/// The queries and corrections of a repair, over several tables.
#[derive(Clone, Copy)]
pub(crate) struct RepairQueries<'c> {
    pub(super) session: MetadataSession<'c>,
}

impl RepairQueries<'_> {
    /// Rebuilds every index from its table.
    pub(crate) fn rebuild_indexes(self) -> Result<()> {
        self.session.execute("REINDEX", []).map(|_| ())
    }

    /// Counts the rows of workspaces that do not exist.
    pub(crate) fn stray_rows(self) -> Result<i64> {
        let mut count = 0;
        for table in OF_WORKSPACES {
            let sql = format!("SELECT count(*) FROM {table} WHERE workspace NOT IN (SELECT id FROM workspace)");
            count += self
                .session
                .query_first(&sql, [], |row| row.get::<_, i64>(0))?
                .unwrap_or(0);
        }
        Ok(count)
    }

    /// Removes the rows of workspaces that do not exist.
    pub(crate) fn remove_stray_rows(self) -> Result<()> {
        OF_WORKSPACES.iter().try_for_each(|table| {
            let sql = format!("DELETE FROM {table} WHERE workspace NOT IN (SELECT id FROM workspace)");
            self.session.execute(&sql, []).map(|_| ())
        })
    }

    /// Returns the numbers of the workspaces without a row that have entries or changes, each with the time of its
    /// first change.
    pub(crate) fn lost_workspaces(self) -> Result<Vec<(i64, i64)>> {
        let sql = "SELECT number, coalesce((SELECT min(at) FROM change WHERE workspace = number), 0)
                   FROM (SELECT workspace AS number FROM entry UNION SELECT workspace FROM change)
                   WHERE number NOT IN (SELECT id FROM workspace) AND number NOT IN (SELECT workspace FROM unseen)
                   AND number > 0 ORDER BY number";
        self.session.query_all(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Adds the row of a lost workspace again, with its old number. If its files lived outside the depot, their place
    /// is forgotten: from now on its files are those that the depot has.
    pub(crate) fn remake_workspace(self, row: &WorkspaceRow) -> Result<()> {
        let sql = "INSERT INTO workspace (id, uid, name, kind, config, created) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        self.session.execute(
            sql,
            params![row.id, row.uid, row.name, row.kind, row.config, row.created],
        )?;
        self.session
            .execute("DELETE FROM journal WHERE workspace = ?1", [row.id])?;
        self.session
            .execute("DELETE FROM seen WHERE workspace = ?1", [row.id])
            .map(|_| ())
    }

    /// Returns the numbers of changes after `newest` that rows other than the journal of a workspace refer to, in
    /// order.
    pub(crate) fn referenced_after(self, workspace: i64, newest: i64) -> Result<Vec<i64>> {
        let sql = "SELECT since AS seq FROM entry WHERE workspace = ?1
                   UNION SELECT until FROM entry WHERE workspace = ?1 AND until < 9223372036854775807
                   UNION SELECT seq FROM move WHERE workspace = ?1
                   UNION SELECT seq FROM merge WHERE workspace = ?1
                   UNION SELECT seq FROM reversal WHERE workspace = ?1
                   UNION SELECT point_seq FROM snapshot WHERE point_workspace = ?1
                   UNION SELECT fork FROM workspace WHERE parent = ?1
                   UNION SELECT point FROM merge WHERE source = ?1
                   ORDER BY seq";
        let told = self.session.query_all(sql, [workspace], |row| row.get::<_, i64>(0))?;
        Ok(told.into_iter().filter(|seq| *seq > newest).collect())
    }

    /// Returns the blobs that are listed as unsynced although they have no content row.
    pub(crate) fn dangling_unsynced(self) -> Result<Vec<PieceAddress>> {
        let sql = "SELECT hash FROM unsynced WHERE hash NOT IN (SELECT hash FROM content)";
        self.session.query_all(sql, [], |row| row.get(0))
    }

    /// Returns the labels of a workspace's snapshots whose point does not exist.
    pub(crate) fn dangling_snapshots(self, workspace: i64) -> Result<Vec<String>> {
        let sql = format!(
            "SELECT label FROM snapshot WHERE workspace = ?1 AND {} ORDER BY label",
            dangling_snapshot_condition()
        );
        self.session.query_all(&sql, [workspace], |row| row.get(0))
    }

    /// Returns the changes of a workspace that are marked as undone by a change that does not exist.
    pub(crate) fn wrongly_undone(self, workspace: i64) -> Result<Vec<i64>> {
        let sql = "SELECT seq FROM change AS target WHERE workspace = ?1 AND undone_by IS NOT NULL AND NOT EXISTS
                   (SELECT 1 FROM change WHERE workspace = ?1 AND seq = target.undone_by) ORDER BY seq";
        self.session.query_all(sql, [workspace], |row| row.get(0))
    }

    /// Returns the addresses that entries refer to and that have no content row.
    pub(crate) fn unknown_contents(self) -> Result<Vec<PieceAddress>> {
        let sql = "SELECT DISTINCT hash FROM entry WHERE hash IS NOT NULL
                   AND NOT EXISTS (SELECT 1 FROM content WHERE content.hash = entry.hash)";
        self.session.query_all(sql, [], |row| row.get(0))
    }

    /// Corrects the row of a piece; `sizes` are the content bytes and the stored bytes. `is_blob` removes the bytes
    /// from the row, since they are in the blob store.
    pub(crate) fn correct_content(
        self,
        address: PieceAddress,
        is_list: bool,
        sizes: (u64, u64),
        is_blob: bool,
    ) -> Result<()> {
        self.session
            .execute(
                "UPDATE content SET list = ?2, size = ?3, stored = ?4, data = iif(?5, NULL, data) WHERE hash = ?1",
                params![address, is_list, sizes.0 as i64, sizes.1 as i64, is_blob],
            )
            .map(|_| ())
    }

    /// Corrects the size of the files with the content `address`; returns the number of corrected rows.
    pub(crate) fn correct_sizes(self, address: PieceAddress, size: u64) -> Result<usize> {
        let sql = "UPDATE entry SET size = ?2 WHERE hash = ?1 AND size != ?2";
        self.session.execute(sql, params![address, size as i64])
    }

    /// Returns the contents whose size differs from the size in an entry, each with the size of the content.
    pub(crate) fn contents_with_wrong_size(self) -> Result<Vec<(PieceAddress, u64)>> {
        let sql = "SELECT DISTINCT content.hash, content.size FROM entry JOIN content USING (hash)
                   WHERE entry.size != content.size";
        self.session
            .query_all(sql, [], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))
    }

    /// Removes the fork of a workspace, so that it is no branch any more.
    pub(crate) fn clear_fork(self, workspace: i64) -> Result<()> {
        let sql = "UPDATE workspace SET parent = NULL, fork = NULL WHERE id = ?1";
        self.session.execute(sql, [workspace]).map(|_| ())
    }
}
