//! The rows of the temporal tree, for one workspace (a level) at a time. [`crate::tree`] combines the levels of a
//! lineage.

use garret_core::{EntryKind, Result};
use rusqlite::{Row, params};

use super::{ContentRow, HEAD, LineageLevel, ListedPaths, MetadataSession};
use crate::content::PieceAddress;

const LIVE: i64 = i64::MAX;

/// An entry of the tree, without its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryNode {
    /// The kind of entry.
    pub kind: EntryKind,
    /// The permissions.
    pub mode: u32,
    /// The bytes of a file or of a link's target.
    pub size: u64,
    /// The content of a file.
    pub content: Option<PieceAddress>,
    /// The target of a link.
    pub target: Option<String>,
    /// The time of creation, in microseconds since 1970.
    pub created: i64,
    /// The time of the last modification, in microseconds since 1970.
    pub modified: i64,
}

impl EntryNode {
    /// Returns the values for the columns of a row that hides a path.
    fn hidden_placeholder() -> Self {
        Self {
            kind: EntryKind::Directory,
            mode: 0,
            size: 0,
            content: None,
            target: None,
            created: 0,
            modified: 0,
        }
    }

    /// Returns whether two entries are the same to a user: kind, content, mode and target. Times do not count.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let of = |node: &Self| (node.kind, node.mode, node.content, node.target.clone());
        of(self) == of(other)
    }
}

/// The row of one level for a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LevelEntry {
    /// The path has this entry.
    Node(EntryNode),
    /// The path has no entry, whatever the lineage has.
    Hidden,
}

impl LevelEntry {
    /// Returns the entry, if there is one.
    pub(crate) fn into_node(self) -> Option<EntryNode> {
        match self {
            Self::Node(node) => Some(node),
            Self::Hidden => None,
        }
    }
}

/// The result of a combined lookup of a path and its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NearestEntry {
    /// The entry at the path.
    Itself(EntryNode),
    /// No entry at the path; this is the entry of its parent.
    Above(EntryNode),
}

/// The treatment of an existing row with the key of a new one.
#[derive(Debug, Clone, Copy)]
enum InsertMode {
    /// The existing row is replaced.
    Replace,
    /// The existing row stays, and the new one is not added.
    KeepExisting,
}

/// The shortcuts of a new row: from its change to it, and from it to its content.
#[derive(Debug, Clone, Copy, Default)]
struct EntryShortcuts {
    /// Whether the row of its change lists its path, so that no index of entries is needed.
    is_listed: bool,
    /// The number of its content's row, if the caller knows it.
    place: Option<i64>,
}

/// A row of the temporal tree.
#[derive(Debug, Clone)]
pub(crate) struct EntryRow {
    pub(crate) path: Vec<u8>,
    pub(crate) since: i64,
    pub(crate) until: i64,
    pub(crate) held: LevelEntry,
}

const COLUMNS: &str = "kind, mode, size, hash, target, created, modified";

/// The live entries of a workspace, in the order of their paths.
pub(super) const ALIVE: &str = "entry WHERE workspace = ?1 AND until = 9223372036854775807";
/// The ended entries of a workspace, in the order of their paths and beginnings.
pub(super) const PAST: &str = "entry INDEXED BY entry_past WHERE workspace = ?1 AND until < 9223372036854775807";

/// The entries of all workspaces, at every point of their history.
#[derive(Clone, Copy)]
pub(crate) struct EntryTable<'c> {
    pub(super) session: MetadataSession<'c>,
}

impl EntryTable<'_> {
    /// Returns the row of the level `workspace` for `path` at the point `at`.
    pub(crate) fn entry(self, workspace: i64, path: &[u8], at: i64) -> Result<Option<LevelEntry>> {
        let live = self.session.query_first(
            "SELECT kind, mode, size, hash, target, created, modified, since FROM entry
             WHERE workspace = ?1 AND until = 9223372036854775807 AND path = ?2",
            params![workspace, path],
            |row| Ok((level_entry_of_row(row, 0)?, row.get::<_, i64>(7)?)),
        )?;
        // Most lookups are answered by the live row; ended rows are in another index.
        match live {
            Some((held, since)) if since <= at => Ok(Some(held)),
            _ if at == HEAD => Ok(None),
            _ => self.past_entry(workspace, path, at),
        }
    }

    /// Returns the live entry of `path`, or else of its parent `above`, with one statement. `None` means only that a
    /// full lookup is needed.
    pub(crate) fn entry_or_above(self, level: LineageLevel, path: &[u8], above: &[u8]) -> Result<Option<NearestEntry>> {
        if level.at != HEAD {
            return Ok(None);
        }
        let found = self.session.query_first(
            "SELECT kind, mode, size, hash, target, created, modified, 1 FROM entry
             WHERE workspace = ?1 AND until = 9223372036854775807 AND path = ?2
             UNION ALL SELECT kind, mode, size, hash, target, created, modified, 0 FROM entry
             WHERE workspace = ?1 AND until = 9223372036854775807 AND path = ?3",
            params![level.workspace, path, above],
            |row| Ok((level_entry_of_row(row, 0)?, row.get::<_, bool>(7)?)),
        )?;
        Ok(found.and_then(|(held, is_itself)| {
            if is_itself {
                held.into_node().map(NearestEntry::Itself)
            } else {
                held.into_node().map(NearestEntry::Above)
            }
        }))
    }

    /// Returns the row of a level for `path` at the point `at`, if that row has ended since.
    fn past_entry(self, workspace: i64, path: &[u8], at: i64) -> Result<Option<LevelEntry>> {
        let found = self.session.query_first(
            &format!(
                "SELECT {COLUMNS}, until FROM {PAST} AND path = ?2 AND since <= ?3
                 ORDER BY since DESC LIMIT 1"
            ),
            params![workspace, path, at],
            |row| Ok((level_entry_of_row(row, 0)?, row.get::<_, i64>(7)?)),
        )?;
        Ok(found.filter(|(_, until)| *until > at).map(|(held, _)| held))
    }

    /// Returns the row of the level `workspace` for `path` at the point `at`, together with the row of its content, if
    /// that row is still live. Most reads of small files are this one statement.
    pub(crate) fn entry_with_content(
        self,
        workspace: i64,
        path: &[u8],
        at: i64,
    ) -> Result<Option<(LevelEntry, Option<ContentRow>)>> {
        self.session.query_first(
            "SELECT kind, mode, entry.size, entry.hash, target, created, modified, content.size, data
             FROM entry LEFT JOIN content ON content.hash = entry.hash
             AND number = coalesce(place, (SELECT number FROM content WHERE content.hash = entry.hash))
             WHERE workspace = ?1 AND until = 9223372036854775807 AND path = ?2 AND since <= ?3",
            params![workspace, path, at],
            |row| {
                let size: Option<i64> = row.get(7)?;
                let data = row.get(8)?;
                let content = size.map(|size| ContentRow {
                    size: size.unsigned_abs(),
                    data,
                });
                Ok((level_entry_of_row(row, 0)?, content))
            },
        )
    }

    /// Returns the first `limit` paths from `from` up to `end` (exclusive) for which the level has a row at `at`, in
    /// order.
    pub(crate) fn list_entries(
        self,
        workspace: i64,
        at: i64,
        from: &[u8],
        end: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, LevelEntry)>> {
        // An open end needs a statement of its own, since no path compares as smaller than NULL.
        let below = if end.is_some() { "path < ?4" } else { "?4 IS NULL" };
        let of = |rows: &str| format!("SELECT path, {COLUMNS} FROM {rows} AND path >= ?2 AND {below} AND since <= ?3");
        // At the head only live rows are read, so that a list does not scan the older versions.
        let selected = match at {
            HEAD => of(ALIVE),
            _ => format!("{} UNION ALL {} AND until > ?3", of(ALIVE), of(PAST)),
        };
        self.session.query_all(
            &format!("{selected} ORDER BY path LIMIT ?5"),
            params![workspace, from, at, end, limit as i64],
            |row| Ok((row.get(0)?, level_entry_of_row(row, 1)?)),
        )
    }

    /// Makes `held` the row of the level for `path` from the change `seq` on; `None` leaves the path without a row.
    /// `place` is the number of the content's row, if the caller knows it; `listed` collects the paths for the change's
    /// own row.
    pub(crate) fn put_entry(
        self,
        workspace: i64,
        path: &[u8],
        seq: i64,
        held: Option<&LevelEntry>,
        place: Option<i64>,
        listed: &mut ListedPaths,
    ) -> Result<()> {
        let key = params![workspace, path, seq];
        self.session.execute(
            "UPDATE entry SET until = ?3
             WHERE workspace = ?1 AND until = 9223372036854775807 AND path = ?2 AND since < ?3",
            key,
        )?;
        // An earlier step of the same change may have added a row: it is replaced or removed.
        match held {
            Some(held) => {
                let finding = EntryShortcuts {
                    is_listed: listed.add(path),
                    place,
                };
                self.insert_row(InsertMode::Replace, workspace, path, (seq, LIVE), held, finding)
                    .map(|_| ())
            }
            None => {
                listed.remove(path);
                let sql = "DELETE FROM entry
                           WHERE workspace = ?1 AND until = 9223372036854775807 AND path = ?2 AND since = ?3";
                self.session.execute(sql, key).map(|_| ())
            }
        }
    }

    /// Makes `held` the row of the level for `path` from the change `seq` on, for a path that is believed to have no
    /// row. If that is right, one statement is enough; if not, the existing row is ended as in [`MetadataSession::put_entry`].
    pub(crate) fn put_new_entry(
        self,
        workspace: i64,
        path: &[u8],
        seq: i64,
        held: &LevelEntry,
        place: Option<i64>,
        listed: &mut ListedPaths,
    ) -> Result<()> {
        let finding = EntryShortcuts {
            is_listed: listed.add(path),
            place,
        };
        match self.insert_row(InsertMode::KeepExisting, workspace, path, (seq, LIVE), held, finding)? {
            0 => self.put_entry(workspace, path, seq, Some(held), place, listed),
            _ => Ok(()),
        }
    }

    /// Adds a row for `path` that is valid between two points and that no change lists in its own row.
    pub(crate) fn insert_entry(self, workspace: i64, path: &[u8], valid: (i64, i64), held: &LevelEntry) -> Result<()> {
        self.insert_row(
            InsertMode::Replace,
            workspace,
            path,
            valid,
            held,
            EntryShortcuts::default(),
        )
        .map(|_| ())
    }

    /// Adds a row; returns the number of rows added, 0 or 1.
    fn insert_row(
        self,
        insert: InsertMode,
        workspace: i64,
        path: &[u8],
        valid: (i64, i64),
        held: &LevelEntry,
        finding: EntryShortcuts,
    ) -> Result<usize> {
        let sql = match insert {
            InsertMode::Replace => {
                "INSERT OR REPLACE INTO entry
                 (workspace, until, path, since, listed, kind, mode, size, hash, place, target, created, modified)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,
                         coalesce(?13, (SELECT number FROM content WHERE content.hash = ?9)), ?10, ?11, ?12)"
            }
            InsertMode::KeepExisting => {
                "INSERT OR IGNORE INTO entry
                 (workspace, until, path, since, listed, kind, mode, size, hash, place, target, created, modified)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,
                         coalesce(?13, (SELECT number FROM content WHERE content.hash = ?9)), ?10, ?11, ?12)"
            }
        };
        let (since, until) = valid;
        let nothing = EntryNode::hidden_placeholder();
        let (kind, node) = match held {
            LevelEntry::Hidden => (0, &nothing),
            LevelEntry::Node(node) => (kind_number(node.kind), node),
        };
        let row = params![
            workspace,
            until,
            path,
            since,
            finding.is_listed,
            kind,
            node.mode,
            node.size as i64,
            node.content,
            node.target,
            node.created,
            node.modified,
            finding.place
        ];
        self.session.execute(sql, row)
    }

    /// Returns the paths that the changes after `after` up to `upto` touched on this level, in order.
    pub(crate) fn touched_paths(self, workspace: i64, after: i64, upto: i64) -> Result<Vec<Vec<u8>>> {
        let mut paths = self.touched_by_entries(workspace, after, upto)?;
        let sql = "SELECT began FROM change WHERE workspace = ?1 AND seq > ?2 AND seq <= ?3 AND began IS NOT NULL";
        let began = self
            .session
            .query_all(sql, [workspace, after, upto], |row| row.get(0).map(ListedPaths::of_row))?;
        paths.extend(began.iter().flat_map(ListedPaths::paths).map(<[u8]>::to_vec));
        paths.sort_unstable();
        paths.dedup();
        Ok(paths)
    }

    /// Returns the paths that the changes after `after` up to `upto` touched, without those that a change lists in its
    /// own row.
    fn touched_by_entries(self, workspace: i64, after: i64, upto: i64) -> Result<Vec<Vec<u8>>> {
        self.session.query_all(
            "SELECT path FROM entry INDEXED BY entry_since
             WHERE workspace = ?1 AND since > ?2 AND since <= ?3 AND listed = 0 AND since > 0
             UNION ALL SELECT path FROM entry
             WHERE workspace = ?1 AND until > ?2 AND until <= ?3 AND until < 9223372036854775807",
            params![workspace, after, upto],
            |row| row.get(0),
        )
    }

    /// Returns the paths that the change `seq`, which is under way, has touched so far, in order.
    pub(crate) fn touched_so_far(self, workspace: i64, seq: i64, listed: &ListedPaths) -> Result<Vec<Vec<u8>>> {
        let mut paths = self.touched_by_entries(workspace, seq - 1, seq)?;
        paths.extend(listed.paths().map(<[u8]>::to_vec));
        paths.sort_unstable();
        paths.dedup();
        Ok(paths)
    }

    /// Returns the entries that are marked as listed in the row of their change although they are not, each with that
    /// change.
    pub(crate) fn wrongly_listed_entries(self, workspace: i64) -> Result<Vec<(Vec<u8>, i64)>> {
        self.session.query_all(
            "SELECT path, since FROM entry WHERE workspace = ?1 AND listed = 1 AND NOT EXISTS
             (SELECT 1 FROM change WHERE change.workspace = ?1 AND seq = since
              AND instr(CAST(x'00' || began AS BLOB), CAST(x'00' || path || x'00' AS BLOB)))
             ORDER BY path, since",
            [workspace],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    }

    /// Marks the entry at `path` that began with the change `since` as not listed, so that it is found without that
    /// change's row.
    pub(crate) fn mark_unlisted(self, workspace: i64, path: &[u8], since: i64) -> Result<()> {
        for sql in [
            "UPDATE entry SET listed = 0
             WHERE workspace = ?1 AND until = 9223372036854775807 AND path = ?2 AND since = ?3",
            "UPDATE entry INDEXED BY entry_past SET listed = 0
             WHERE workspace = ?1 AND until < 9223372036854775807 AND path = ?2 AND since = ?3",
        ] {
            self.session.execute(sql, params![workspace, path, since])?;
        }
        Ok(())
    }

    /// Returns the first change that gave `path` a row on this level.
    pub(crate) fn first_since(self, workspace: i64, path: &[u8]) -> Result<Option<i64>> {
        self.session.query_first(
            &format!(
                "SELECT since FROM {ALIVE} AND path = ?2 UNION ALL SELECT since FROM {PAST} AND path = ?2
                 ORDER BY since LIMIT 1"
            ),
            params![workspace, path],
            |row| row.get(0),
        )
    }

    /// Returns the rows of the level for `path` that began up to `at`, newest first, each with the changes that began
    /// and ended it.
    pub(crate) fn entry_history(self, workspace: i64, path: &[u8], at: i64) -> Result<Vec<(i64, i64, LevelEntry)>> {
        self.session.query_all(
            &format!(
                "SELECT since, until, {COLUMNS} FROM {ALIVE} AND path = ?2 AND since <= ?3
                 UNION ALL SELECT since, until, {COLUMNS} FROM {PAST} AND path = ?2 AND since <= ?3
                 ORDER BY since DESC"
            ),
            params![workspace, path, at],
            |row| Ok((row.get(0)?, row.get(1)?, level_entry_of_row(row, 2)?)),
        )
    }

    /// Returns the first `limit` rows of a level after the key `after`, in the order of paths and then of time.
    pub(crate) fn rows_after(self, workspace: i64, after: (&[u8], i64), limit: usize) -> Result<Vec<EntryRow>> {
        self.session.query_all(
            &format!(
                "SELECT path, since, until, {COLUMNS} FROM {ALIVE} AND (path, since) > (?2, ?3)
                 UNION ALL SELECT path, since, until, {COLUMNS} FROM {PAST} AND (path, since) > (?2, ?3)
                 ORDER BY path, since LIMIT ?4"
            ),
            params![workspace, after.0, after.1, limit as i64],
            |row| {
                Ok(EntryRow {
                    path: row.get(0)?,
                    since: row.get(1)?,
                    until: row.get(2)?,
                    held: level_entry_of_row(row, 3)?,
                })
            },
        )
    }

    /// Records that `change`, a workspace and a number, moved `source` to `place` as its `step`th move.
    pub(crate) fn add_move(self, change: (i64, i64), step: i64, source: &[u8], place: &[u8]) -> Result<()> {
        let sql = "INSERT INTO move (workspace, seq, step, source, place) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.session
            .execute(sql, params![change.0, change.1, step, source, place])
            .map(|_| ())
    }

    /// Returns the moves of the change `seq` as pairs of old and new path, in the order in which they were made.
    pub(crate) fn moves_of_change(self, workspace: i64, seq: i64) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.session.query_all(
            "SELECT source, place FROM move WHERE workspace = ?1 AND seq = ?2 ORDER BY step",
            params![workspace, seq],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    }
}

fn level_entry_of_row(row: &Row<'_>, first: usize) -> rusqlite::Result<LevelEntry> {
    let kind = match row.get(first)? {
        0 => return Ok(LevelEntry::Hidden),
        1 => EntryKind::File,
        2 => EntryKind::Directory,
        3 => EntryKind::Symlink,
        other => return Err(rusqlite::Error::IntegralValueOutOfRange(first, other)),
    };
    Ok(LevelEntry::Node(EntryNode {
        kind,
        mode: row.get(first + 1)?,
        size: row.get::<_, i64>(first + 2)?.unsigned_abs(),
        content: row.get(first + 3)?,
        target: row.get(first + 4)?,
        created: row.get(first + 5)?,
        modified: row.get(first + 6)?,
    }))
}

fn kind_number(kind: EntryKind) -> i64 {
    match kind {
        EntryKind::File => 1,
        EntryKind::Directory => 2,
        EntryKind::Symlink => 3,
        EntryKind::Other => unreachable!("a depot makes no fifo, socket or device"),
    }
}
