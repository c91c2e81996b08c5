//! The kept range of a journal, and the removal of rows outside it.

use garret_core::Result;
use rusqlite::params;

use super::{LineageLevel, ListedPaths, MetadataSession};
use crate::content::PieceAddress;

/// The beginning of the kept part of a journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct JournalStart {
    /// The first state that is kept; the changes after it are kept too.
    pub(crate) seq: i64,
    /// The time of that state.
    pub(crate) at: i64,
}

/// A row of the temporal tree that has ended.
#[derive(Debug, Clone)]
pub(crate) struct EndedRow {
    pub(crate) path: Vec<u8>,
    pub(crate) since: i64,
    pub(crate) until: i64,
    pub(crate) hash: Option<PieceAddress>,
}

impl EndedRow {
    /// Returns the key from which a scan of [`MetadataSession::ended_rows`] continues after this row.
    pub(crate) fn key(&self) -> (i64, Vec<u8>) {
        (self.until, self.path.clone())
    }
}

/// The queries and removals of retention, over several tables.
#[derive(Clone, Copy)]
pub(crate) struct RetentionQueries<'c> {
    pub(super) session: MetadataSession<'c>,
}

impl RetentionQueries<'_> {
    /// Returns the beginning of the kept part of a journal.
    pub(crate) fn journal_start(self, workspace: i64) -> Result<JournalStart> {
        let sql = "SELECT oldest, at FROM retention WHERE workspace = ?1";
        let found = self.session.query_first(sql, [workspace], |row| {
            Ok(JournalStart {
                seq: row.get(0)?,
                at: row.get(1)?,
            })
        })?;
        Ok(found.unwrap_or_default())
    }

    /// Sets the beginning of the kept part of a journal.
    pub(crate) fn set_journal_start(self, workspace: i64, oldest: JournalStart) -> Result<()> {
        let sql = "INSERT INTO retention (workspace, oldest, at) VALUES (?1, ?2, ?3)
                   ON CONFLICT (workspace) DO UPDATE SET oldest = excluded.oldest, at = excluded.at";
        self.session
            .execute(sql, [workspace, oldest.seq, oldest.at])
            .map(|_| ())
    }

    /// Returns the retention limits of a workspace, in their text form.
    pub(crate) fn retention_limits(self, workspace: i64) -> Result<Option<String>> {
        let sql = "SELECT keep FROM retention WHERE workspace = ?1";
        self.session
            .query_first(sql, [workspace], |row| row.get(0))
            .map(Option::flatten)
    }

    /// Sets the retention limits of a workspace; `None` to keep everything.
    pub(crate) fn set_retention_limits(self, workspace: i64, keep: Option<&str>) -> Result<()> {
        let sql = "INSERT INTO retention (workspace, keep) VALUES (?1, ?2)
                   ON CONFLICT (workspace) DO UPDATE SET keep = excluded.keep";
        self.session.execute(sql, params![workspace, keep]).map(|_| ())
    }

    /// Returns the states of a workspace that retention never drops, in order: the points of snapshots, the forks of
    /// its branches, its own beginning if it is a branch, and the points that other workspaces have merged, which are
    /// the bases of their next merges.
    pub(crate) fn held_points(self, workspace: i64) -> Result<Vec<i64>> {
        self.session.query_all(
            "SELECT point_seq FROM snapshot WHERE point_workspace = ?1
             UNION SELECT fork FROM workspace WHERE parent = ?1
             UNION SELECT 0 FROM workspace WHERE id = ?1 AND parent IS NOT NULL
             UNION SELECT point FROM merge WHERE source = ?1
             ORDER BY 1",
            [workspace],
            |row| row.get(0),
        )
    }

    /// Returns whether the state at `level` can be read.
    pub(crate) fn is_kept(self, level: LineageLevel) -> Result<bool> {
        Ok(level.at >= self.journal_start(level.workspace)?.seq
            || self.held_points(level.workspace)?.contains(&level.at))
    }

    /// Returns the first `limit` rows after the key `after` that ended at `upto` or before, in the order of their ends.
    pub(crate) fn ended_rows(
        self,
        workspace: i64,
        upto: i64,
        after: &(i64, Vec<u8>),
        limit: usize,
    ) -> Result<Vec<EndedRow>> {
        self.session.query_all(
            "SELECT path, since, until, hash FROM entry
             WHERE workspace = ?1 AND until < 9223372036854775807 AND until >= ?3 AND until <= ?2
             AND (until, path) > (?3, ?4)
             ORDER BY until, path LIMIT ?5",
            params![workspace, upto, after.0, after.1, limit as i64],
            |row| {
                Ok(EndedRow {
                    path: row.get(0)?,
                    since: row.get(1)?,
                    until: row.get(2)?,
                    hash: row.get(3)?,
                })
            },
        )
    }

    /// Returns the contents of the files that the change `seq` replaced or removed.
    pub(crate) fn contents_ended_by(self, workspace: i64, seq: i64) -> Result<Vec<PieceAddress>> {
        self.session.query_all(
            "SELECT hash FROM entry
             WHERE workspace = ?1 AND until = ?2 AND until < 9223372036854775807 AND hash IS NOT NULL",
            [workspace, seq],
            |row| row.get(0),
        )
    }

    /// Returns the contents of the live files of a workspace's level.
    pub(crate) fn live_contents(self, workspace: i64) -> Result<Vec<PieceAddress>> {
        self.session.query_all(
            "SELECT DISTINCT hash FROM entry
             WHERE workspace = ?1 AND until = 9223372036854775807 AND hash IS NOT NULL",
            [workspace],
            |row| row.get(0),
        )
    }

    /// Returns the contents of the files of a workspace's level, at any point.
    pub(crate) fn contents_of(self, workspace: i64) -> Result<Vec<PieceAddress>> {
        let sql = "SELECT DISTINCT hash FROM entry WHERE workspace = ?1 AND hash IS NOT NULL";
        self.session.query_all(sql, [workspace], |row| row.get(0))
    }

    /// Returns a path whose file has the content at `address`: of the workspace itself if it has one, else of any other
    /// workspace.
    pub(crate) fn path_with_content(self, workspace: i64, address: PieceAddress) -> Result<Option<Vec<u8>>> {
        let sql = "SELECT path FROM entry WHERE hash = ?2 ORDER BY workspace != ?1 LIMIT 1";
        self.session
            .query_first(sql, params![workspace, address], |row| row.get(0))
    }

    /// Returns the number of files that a workspace's level has at `at`, and their bytes.
    pub(crate) fn file_totals(self, workspace: i64, at: i64) -> Result<(u64, u64)> {
        let sql = "SELECT count(*), coalesce(sum(size), 0) FROM entry
                   WHERE workspace = ?1 AND since <= ?2 AND until > ?2 AND kind = 1";
        let found = self.session.query_first(sql, [workspace, at], |row| {
            Ok((
                row.get::<_, i64>(0)?.unsigned_abs(),
                row.get::<_, i64>(1)?.unsigned_abs(),
            ))
        })?;
        Ok(found.unwrap_or_default())
    }

    /// Removes a row of the temporal tree that has ended.
    pub(crate) fn remove_ended_row(self, workspace: i64, row: &EndedRow) -> Result<()> {
        let sql = "DELETE FROM entry WHERE workspace = ?1 AND until = ?2 AND path = ?3";
        self.session
            .execute(sql, params![workspace, row.until, row.path])
            .map(|_| ())
    }

    /// Re-dates content, so that garbage collection spares it for the grace.
    pub(crate) fn redate_content(self, address: PieceAddress, now: i64) -> Result<()> {
        let sql = "UPDATE content SET touched = max(touched, ?2) WHERE hash = ?1";
        self.session.execute(sql, params![address, now]).map(|_| ())
    }

    /// Counts the changes up to `upto`.
    pub(crate) fn count_changes(self, workspace: i64, upto: i64) -> Result<u64> {
        let sql = "SELECT count(*) FROM change WHERE workspace = ?1 AND seq <= ?2";
        let found = self
            .session
            .query_first(sql, [workspace, upto], |row| row.get::<_, i64>(0))?;
        Ok(found.unwrap_or_default().unsigned_abs())
    }

    /// Removes at most `limit` changes up to `upto`, with their moves and reversals; returns the number of removed
    /// changes.
    pub(crate) fn remove_changes(self, workspace: i64, upto: i64, limit: usize) -> Result<usize> {
        let sql =
            "SELECT seq, coalesce(began, x'') FROM change WHERE workspace = ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3";
        let changes: Vec<(i64, ListedPaths)> =
            self.session
                .query_all(sql, params![workspace, upto, limit as i64], |row| {
                    Ok((row.get(0)?, ListedPaths::of_row(row.get(1)?)))
                })?;
        let Some((last, _)) = changes.last() else { return Ok(0) };
        // Entries that began with these changes and are still live must be found without the rows of the changes.
        for (seq, listed) in &changes {
            listed
                .paths()
                .try_for_each(|path| self.session.entries().mark_unlisted(workspace, path, *seq))?;
        }
        for table in ["change", "move", "reversal"] {
            let sql = format!("DELETE FROM {table} WHERE workspace = ?1 AND seq <= ?2");
            self.session.execute(&sql, [workspace, *last])?;
        }
        Ok(changes.len())
    }

    /// Returns the first change made at the time `at` or after.
    pub(crate) fn first_change_since(self, workspace: i64, at: i64) -> Result<Option<i64>> {
        let sql = "SELECT seq FROM change WHERE workspace = ?1 AND at >= ?2 ORDER BY seq LIMIT 1";
        self.session.query_first(sql, [workspace, at], |row| row.get(0))
    }

    /// Hides a workspace while it is imported or removed.
    pub(crate) fn hide_workspace(self, workspace: i64, is_removing: bool, now: i64) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO unseen (workspace, removing, since) VALUES (?1, ?2, ?3)";
        self.session
            .execute(sql, params![workspace, is_removing, now])
            .map(|_| ())
    }

    /// Shows a workspace that was hidden for an import. Returns `false` if it was not hidden any more, or is being
    /// removed.
    pub(crate) fn unhide_workspace(self, workspace: i64) -> Result<bool> {
        let sql = "DELETE FROM unseen WHERE workspace = ?1 AND removing = 0";
        self.session.execute(sql, [workspace]).map(|count| count > 0)
    }

    /// Returns whether the workspace is hidden.
    pub(crate) fn is_hidden(self, workspace: i64) -> Result<bool> {
        let found = self
            .session
            .query_first("SELECT 1 FROM unseen WHERE workspace = ?1", [workspace], |_| Ok(()))?;
        Ok(found.is_some())
    }

    /// Returns the hidden workspaces to remove: those whose removal began, with `true`, and those whose import began
    /// before `before`, with `false`.
    pub(crate) fn hidden_workspaces(self, before: i64) -> Result<Vec<(i64, bool)>> {
        let sql = "SELECT workspace, removing FROM unseen WHERE removing = 1 OR since < ?1 ORDER BY workspace";
        self.session
            .query_all(sql, [before], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Removes at most `limit` rows of a workspace from each of its large tables; returns whether there may be more.
    pub(crate) fn remove_workspace_slice(self, workspace: i64, limit: usize) -> Result<bool> {
        let mut has_more = false;
        for (table, key) in [
            ("entry", "until, path"),
            ("change", "seq"),
            ("move", "seq, step"),
            ("reversal", "seq, target"),
            ("seen", "path"),
        ] {
            let sql = format!(
                "DELETE FROM {table} WHERE workspace = ?1 AND ({key}) IN
                 (SELECT {key} FROM {table} WHERE workspace = ?1 LIMIT ?2)"
            );
            has_more |= self.session.execute(&sql, params![workspace, limit as i64])? == limit;
        }
        Ok(has_more)
    }
}
