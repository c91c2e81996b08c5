//! The rows about files that live outside the depot: their place, the progress of their log into the journal, and the
//! version of each file that was seen last.

use garret_core::Result;
use rusqlite::params;

use super::{HEAD, LevelEntry, MetadataSession};

/// The progress of a journal of files that live outside the depot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalRow {
    /// The number of the newest log record that is in the journal.
    pub(crate) ingested: i64,
    /// The first change from which on every file was captured.
    pub(crate) whole: Option<i64>,
}

/// A path with a row on a level, with the storage's own version of it.
pub(crate) type SeenEntry = (Vec<u8>, LevelEntry, Option<String>);

/// The workspaces whose files live elsewhere, and the versions seen there.
#[derive(Clone, Copy)]
pub(crate) struct OutsideFileTable<'c> {
    pub(super) session: MetadataSession<'c>,
}

impl OutsideFileTable<'_> {
    /// Records that the files of `workspace` live at `place` of `kind`.
    pub(crate) fn add_journal(self, workspace: i64, kind: &str, place: Option<&str>) -> Result<()> {
        let sql = "INSERT INTO journal (workspace, kind, place) VALUES (?1, ?2, ?3)";
        self.session.execute(sql, params![workspace, kind, place]).map(|_| ())
    }

    /// Returns the workspace whose files live at `place` of `kind`.
    pub(crate) fn workspace_at(self, kind: &str, place: &str) -> Result<Option<i64>> {
        let sql = "SELECT workspace FROM journal WHERE kind = ?1 AND place = ?2";
        self.session.query_first(sql, params![kind, place], |row| row.get(0))
    }

    /// Returns every workspace whose files live outside the depot, with the kind and the place.
    pub(crate) fn placed_journals(self) -> Result<Vec<(i64, String, String)>> {
        let sql = "SELECT workspace, kind, place FROM journal WHERE place IS NOT NULL";
        self.session
            .query_all(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
    }

    /// Returns the kind and the place of the files of `workspace`; `None` if it has no place, or another workspace took
    /// it.
    pub(crate) fn place_of_files(self, workspace: i64) -> Result<Option<(String, String)>> {
        let sql = "SELECT kind, place FROM journal WHERE workspace = ?1 AND place IS NOT NULL";
        self.session
            .query_first(sql, [workspace], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    /// Sets the place of the files of `workspace`; `None` frees the place for another workspace.
    pub(crate) fn set_place(self, workspace: i64, place: Option<&str>) -> Result<()> {
        let sql = "UPDATE journal SET place = ?2 WHERE workspace = ?1";
        self.session.execute(sql, params![workspace, place]).map(|_| ())
    }

    /// Returns the progress of the journal of `workspace`; `None` if its files live in the depot.
    pub(crate) fn journal(self, workspace: i64) -> Result<Option<JournalRow>> {
        let sql = "SELECT ingested, whole FROM journal WHERE workspace = ?1";
        self.session.query_first(sql, [workspace], |row| {
            Ok(JournalRow {
                ingested: row.get(0)?,
                whole: row.get(1)?,
            })
        })
    }

    /// Records that the log records up to `record` are in the journal.
    pub(crate) fn set_ingested(self, workspace: i64, record: i64) -> Result<()> {
        let sql = "UPDATE journal SET ingested = max(ingested, ?2) WHERE workspace = ?1";
        self.session.execute(sql, [workspace, record]).map(|_| ())
    }

    /// Records that every file was captured from the change `seq` on.
    pub(crate) fn set_complete_since(self, workspace: i64, seq: i64) -> Result<()> {
        let sql = "UPDATE journal SET whole = coalesce(whole, ?2) WHERE workspace = ?1";
        self.session.execute(sql, [workspace, seq]).map(|_| ())
    }

    /// Records the storage's own version of the file at `path`; `None` removes it.
    pub(crate) fn set_seen_version(self, workspace: i64, path: &[u8], token: Option<&str>) -> Result<()> {
        match token {
            Some(token) => self.session.execute(
                "INSERT INTO seen (workspace, path, token) VALUES (?1, ?2, ?3)
                 ON CONFLICT (workspace, path) DO UPDATE SET token = excluded.token",
                params![workspace, path, token],
            ),
            None => self.session.execute(
                "DELETE FROM seen WHERE workspace = ?1 AND path = ?2",
                params![workspace, path],
            ),
        }
        .map(|_| ())
    }

    /// Returns the storage's own version of the file at `path` when it was last seen.
    pub(crate) fn seen_version(self, workspace: i64, path: &[u8]) -> Result<Option<String>> {
        let sql = "SELECT token FROM seen WHERE workspace = ?1 AND path = ?2";
        self.session
            .query_first(sql, params![workspace, path], |row| row.get(0))
    }

    /// Returns the first `limit` paths from `from` up to `end` (exclusive) with a live row on this level, in order,
    /// each with the version that was last seen.
    pub(crate) fn seen_entries(
        self,
        workspace: i64,
        from: &[u8],
        end: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<SeenEntry>> {
        let entries = self.session.entries().list_entries(workspace, HEAD, from, end, limit)?;
        let Some((last, _)) = entries.last() else {
            return Ok(Vec::new());
        };
        // Both tables are read in the order of paths and merged here: looking up every path would take several times as
        // long.
        let sql = "SELECT path, token FROM seen WHERE workspace = ?1 AND path >= ?2 AND path <= ?3 ORDER BY path";
        let seen = self.session.query_all(sql, params![workspace, from, last], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        let mut seen = seen.into_iter().peekable();
        let token_of = |path: &Vec<u8>| {
            while seen.next_if(|(seen, _): &(Vec<u8>, String)| seen < path).is_some() {}
            seen.next_if(|(seen, _)| seen == path).map(|(_, token)| token)
        };
        Ok(with_tokens(entries, token_of))
    }

    /// Returns whether `path` ever had an entry on this level.
    pub(crate) fn had_entry(self, workspace: i64, path: &[u8]) -> Result<bool> {
        Ok(self.session.entries().first_since(workspace, path)?.is_some())
    }
}

fn with_tokens(
    entries: Vec<(Vec<u8>, LevelEntry)>,
    mut token_of: impl FnMut(&Vec<u8>) -> Option<String>,
) -> Vec<SeenEntry> {
    let with_token = |(path, held): (Vec<u8>, LevelEntry)| {
        let token = token_of(&path);
        (path, held, token)
    };
    entries.into_iter().map(with_token).collect()
}
