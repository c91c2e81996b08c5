//! The temporal tree, one level at a time. What a lineage shows is put together from levels by [`crate::tree`].

use garret_core::{EntryKind, Result};
use rusqlite::{Row, params};

use super::{ContentRow, HEAD, Level, Listed, Session};
use crate::content::Address;

const LIVE: i64 = i64::MAX;

/// An entry of the tree, whatever its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) kind: EntryKind,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    /// The content of a file.
    pub(crate) content: Option<Address>,
    /// Where a link points.
    pub(crate) target: Option<String>,
    pub(crate) created: i64,
    pub(crate) modified: i64,
}

impl Node {
    /// What stands in the columns of a row that says that nothing is there.
    fn nothing() -> Self {
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

    /// Whether the two are the same to a user: kind, content, mode, target. Times do not count.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let of = |node: &Self| (node.kind, node.mode, node.content, node.target.clone());
        of(self) == of(other)
    }
}

/// What one level says of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Held {
    /// Something is there.
    Node(Node),
    /// Nothing is there, whatever the lineage shows.
    Hidden,
}

impl Held {
    /// What is there.
    pub(crate) fn node(self) -> Option<Node> {
        match self {
            Self::Node(node) => Some(node),
            Self::Hidden => None,
        }
    }
}

/// What was found nearest to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Nearest {
    /// Something at the path.
    Itself(Node),
    /// Nothing at the path, and this right above it.
    Above(Node),
}

/// What becomes of a row that has the place of a new one.
#[derive(Debug, Clone, Copy)]
enum Insert {
    /// It is replaced.
    Any,
    /// It stays, and the new one is not added.
    New,
}

/// How a new row is found, and what it finds.
#[derive(Debug, Clone, Copy, Default)]
struct Finding {
    /// Whether the change it begins with names its path.
    is_listed: bool,
    /// The number of its content, where that is at hand.
    place: Option<i64>,
}

/// A row of the temporal tree.
#[derive(Debug, Clone)]
pub(crate) struct EntryRow {
    pub(crate) path: Vec<u8>,
    pub(crate) since: i64,
    pub(crate) until: i64,
    pub(crate) held: Held,
}

const COLUMNS: &str = "kind, mode, size, hash, target, created, modified";

/// The entries of a workspace that live, in the order of their paths.
pub(super) const ALIVE: &str = "entry WHERE workspace = ?1 AND until = 9223372036854775807";
/// Those that have ended, in the order of their paths and beginnings.
pub(super) const PAST: &str = "entry INDEXED BY entry_past WHERE workspace = ?1 AND until < 9223372036854775807";

impl Session<'_> {
    /// What the level `workspace` itself says of `path` at the point `at`.
    pub(crate) fn entry(self, workspace: i64, path: &[u8], at: i64) -> Result<Option<Held>> {
        let live = self.first(
            "SELECT kind, mode, size, hash, target, created, modified, since FROM entry
             WHERE workspace = ?1 AND until = 9223372036854775807 AND path = ?2",
            params![workspace, path],
            |row| Ok((held(row, 0)?, row.get::<_, i64>(7)?)),
        )?;
        match live {
            Some((held, since)) if since <= at => Ok(Some(held)),
            _ if at == HEAD => Ok(None),
            _ => self.past_entry(workspace, path, at),
        }
    }

    /// What the level says now of `path`, or else of `above`, the path right above it, in one look. `None` says only that a closer look
    /// is needed.
    pub(crate) fn entry_or_above(self, level: Level, path: &[u8], above: &[u8]) -> Result<Option<Nearest>> {
        if level.at != HEAD {
            return Ok(None);
        }
        let found = self.first(
            "SELECT kind, mode, size, hash, target, created, modified, 1 FROM entry
             WHERE workspace = ?1 AND until = 9223372036854775807 AND path = ?2
             UNION ALL SELECT kind, mode, size, hash, target, created, modified, 0 FROM entry
             WHERE workspace = ?1 AND until = 9223372036854775807 AND path = ?3",
            params![level.workspace, path, above],
            |row| Ok((held(row, 0)?, row.get::<_, bool>(7)?)),
        )?;
        Ok(found.and_then(|(held, is_itself)| match is_itself {
            true => held.node().map(Nearest::Itself),
            false => held.node().map(Nearest::Above),
        }))
    }

    /// The same where what the level said at `at` has ended since.
    fn past_entry(self, workspace: i64, path: &[u8], at: i64) -> Result<Option<Held>> {
        let found = self.first(
            &format!(
                "SELECT {COLUMNS}, until FROM {PAST} AND path = ?2 AND since <= ?3
                 ORDER BY since DESC LIMIT 1"
            ),
            params![workspace, path, at],
            |row| Ok((held(row, 0)?, row.get::<_, i64>(7)?)),
        )?;
        Ok(found.filter(|(_, until)| *until > at).map(|(held, _)| held))
    }

    /// What the level says of `path` now, as [`Session::entry`] does, with the piece of content that a file there is found by: most
    /// reads of small files are this one look.
    pub(crate) fn entry_with_content(self, workspace: i64, path: &[u8]) -> Result<Option<(Held, Option<ContentRow>)>> {
        self.first(
            "SELECT kind, mode, entry.size, entry.hash, target, created, modified, content.size, data
             FROM entry LEFT JOIN content ON content.hash = entry.hash
             AND number = coalesce(place, (SELECT number FROM content WHERE content.hash = entry.hash))
             WHERE workspace = ?1 AND until = 9223372036854775807 AND path = ?2",
            params![workspace, path],
            |row| {
                let size: Option<i64> = row.get(7)?;
                let data = row.get(8)?;
                let content = size.map(|size| ContentRow {
                    size: size.unsigned_abs(),
                    data,
                });
                Ok((held(row, 0)?, content))
            },
        )
    }

    /// The first `limit` paths from `from` up to `end` (left out) of which the level says something at `at`, in order.
    pub(crate) fn entries(
        self,
        workspace: i64,
        at: i64,
        from: &[u8],
        end: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, Held)>> {
        // An open end has a statement of its own, since nothing is smaller than NULL.
        let below = if end.is_some() { "path < ?4" } else { "?4 IS NULL" };
        let of = |rows: &str| format!("SELECT path, {COLUMNS} FROM {rows} AND path >= ?2 AND {below} AND since <= ?3");
        // At the head only what lives is asked, so that a list does not wade through versions that are gone.
        let selected = match at {
            HEAD => of(ALIVE),
            _ => format!("{} UNION ALL {} AND until > ?3", of(ALIVE), of(PAST)),
        };
        self.all(
            &format!("{selected} ORDER BY path LIMIT ?5"),
            params![workspace, from, at, end, limit as i64],
            |row| Ok((row.get(0)?, held(row, 1)?)),
        )
    }

    /// Makes `held` what the level says of `path` from the change `seq` on; `None` for saying nothing. `place` is the number of its
    /// content, where that is at hand; `listed` is what the change names in its own row.
    pub(crate) fn put_entry(
        self,
        workspace: i64,
        path: &[u8],
        seq: i64,
        held: Option<&Held>,
        place: Option<i64>,
        listed: &mut Listed,
    ) -> Result<()> {
        let key = params![workspace, path, seq];
        self.execute(
            "UPDATE entry SET until = ?3
             WHERE workspace = ?1 AND until = 9223372036854775807 AND path = ?2 AND since < ?3",
            key,
        )?;
        // An earlier step of the same change may have put one: it is replaced or taken away.
        match held {
            Some(held) => {
                let finding = Finding {
                    is_listed: listed.add(path),
                    place,
                };
                self.insert_row(Insert::Any, workspace, path, (seq, LIVE), held, finding)
                    .map(|_| ())
            }
            None => {
                listed.remove(path);
                let sql = "DELETE FROM entry
                           WHERE workspace = ?1 AND until = 9223372036854775807 AND path = ?2 AND since = ?3";
                self.execute(sql, key).map(|_| ())
            }
        }
    }

    /// The same for a path of which the level says nothing, as far as is known: most often it is one row to add and nothing to end.
    pub(crate) fn put_new_entry(
        self,
        workspace: i64,
        path: &[u8],
        seq: i64,
        held: &Held,
        place: Option<i64>,
        listed: &mut Listed,
    ) -> Result<()> {
        let finding = Finding {
            is_listed: listed.add(path),
            place,
        };
        match self.insert_row(Insert::New, workspace, path, (seq, LIVE), held, finding)? {
            0 => self.put_entry(workspace, path, seq, Some(held), place, listed),
            _ => Ok(()),
        }
    }

    /// Adds what the level says of `path` between two points, which no change names in its own row.
    pub(crate) fn insert_entry(self, workspace: i64, path: &[u8], valid: (i64, i64), held: &Held) -> Result<()> {
        self.insert_row(Insert::Any, workspace, path, valid, held, Finding::default())
            .map(|_| ())
    }

    /// Gives how many rows were added.
    fn insert_row(
        self,
        insert: Insert,
        workspace: i64,
        path: &[u8],
        valid: (i64, i64),
        held: &Held,
        finding: Finding,
    ) -> Result<usize> {
        let sql = match insert {
            Insert::Any => {
                "INSERT OR REPLACE INTO entry
                 (workspace, until, path, since, listed, kind, mode, size, hash, place, target, created, modified)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,
                         coalesce(?13, (SELECT number FROM content WHERE content.hash = ?9)), ?10, ?11, ?12)"
            }
            Insert::New => {
                "INSERT OR IGNORE INTO entry
                 (workspace, until, path, since, listed, kind, mode, size, hash, place, target, created, modified)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,
                         coalesce(?13, (SELECT number FROM content WHERE content.hash = ?9)), ?10, ?11, ?12)"
            }
        };
        let (since, until) = valid;
        let nothing = Node::nothing();
        let (kind, node) = match held {
            Held::Hidden => (0, &nothing),
            Held::Node(node) => (number_of(node.kind), node),
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
        self.execute(sql, row)
    }

    /// The paths that the changes after `after` up to `upto` touched on this level, in order.
    pub(crate) fn touched(self, workspace: i64, after: i64, upto: i64) -> Result<Vec<Vec<u8>>> {
        let mut paths = self.touched_by_entries(workspace, after, upto)?;
        let sql = "SELECT began FROM change WHERE workspace = ?1 AND seq > ?2 AND seq <= ?3 AND began IS NOT NULL";
        let began = self.all(sql, [workspace, after, upto], |row| row.get(0).map(Listed::of_row))?;
        paths.extend(began.iter().flat_map(Listed::paths).map(<[u8]>::to_vec));
        paths.sort_unstable();
        paths.dedup();
        Ok(paths)
    }

    /// The same as far as the entries tell, without the paths that a change names itself.
    fn touched_by_entries(self, workspace: i64, after: i64, upto: i64) -> Result<Vec<Vec<u8>>> {
        self.all(
            "SELECT path FROM entry INDEXED BY entry_since
             WHERE workspace = ?1 AND since > ?2 AND since <= ?3 AND listed = 0 AND since > 0
             UNION ALL SELECT path FROM entry
             WHERE workspace = ?1 AND until > ?2 AND until <= ?3 AND until < 9223372036854775807",
            params![workspace, after, upto],
            |row| row.get(0),
        )
    }

    /// The paths that the change `seq`, which is under way, has touched so far, in order.
    pub(crate) fn touched_yet(self, workspace: i64, seq: i64, listed: &Listed) -> Result<Vec<Vec<u8>>> {
        let mut paths = self.touched_by_entries(workspace, seq - 1, seq)?;
        paths.extend(listed.paths().map(<[u8]>::to_vec));
        paths.sort_unstable();
        paths.dedup();
        Ok(paths)
    }

    /// The entries that are said to be named by the change they began with although it does not, each with that change.
    pub(crate) fn unnamed_entries(self, workspace: i64) -> Result<Vec<(Vec<u8>, i64)>> {
        self.all(
            "SELECT path, since FROM entry WHERE workspace = ?1 AND listed = 1 AND NOT EXISTS
             (SELECT 1 FROM change WHERE change.workspace = ?1 AND seq = since
              AND instr(CAST(x'00' || began AS BLOB), CAST(x'00' || path || x'00' AS BLOB)))
             ORDER BY path, since",
            [workspace],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    }

    /// Has the entry at `path` that began with the change `since` found without that change's row.
    pub(crate) fn unlist(self, workspace: i64, path: &[u8], since: i64) -> Result<()> {
        for sql in [
            "UPDATE entry SET listed = 0
             WHERE workspace = ?1 AND until = 9223372036854775807 AND path = ?2 AND since = ?3",
            "UPDATE entry INDEXED BY entry_past SET listed = 0
             WHERE workspace = ?1 AND until < 9223372036854775807 AND path = ?2 AND since = ?3",
        ] {
            self.execute(sql, params![workspace, path, since])?;
        }
        Ok(())
    }

    /// The first change after which the level says something of `path`.
    pub(crate) fn first_since(self, workspace: i64, path: &[u8]) -> Result<Option<i64>> {
        self.first(
            &format!(
                "SELECT since FROM {ALIVE} AND path = ?2 UNION ALL SELECT since FROM {PAST} AND path = ?2
                 ORDER BY since LIMIT 1"
            ),
            params![workspace, path],
            |row| row.get(0),
        )
    }

    /// What the level said of `path` up to `at`, newest first, each with the change that began it.
    pub(crate) fn entry_history(self, workspace: i64, path: &[u8], at: i64) -> Result<Vec<(i64, i64, Held)>> {
        self.all(
            &format!(
                "SELECT since, until, {COLUMNS} FROM {ALIVE} AND path = ?2 AND since <= ?3
                 UNION ALL SELECT since, until, {COLUMNS} FROM {PAST} AND path = ?2 AND since <= ?3
                 ORDER BY since DESC"
            ),
            params![workspace, path, at],
            |row| Ok((row.get(0)?, row.get(1)?, held(row, 2)?)),
        )
    }

    /// The first `limit` rows of a level after the one of `after`, in the order of paths and then of time.
    pub(crate) fn rows_after(self, workspace: i64, after: (&[u8], i64), limit: usize) -> Result<Vec<EntryRow>> {
        self.all(
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
                    held: held(row, 3)?,
                })
            },
        )
    }

    /// Notes that the change `seq` moved, as its `step`th move, `source` to `place`.
    pub(crate) fn add_move(self, change: (i64, i64), step: i64, source: &[u8], place: &[u8]) -> Result<()> {
        let sql = "INSERT INTO move (workspace, seq, step, source, place) VALUES (?1, ?2, ?3, ?4, ?5)";
        self.execute(sql, params![change.0, change.1, step, source, place])
            .map(|_| ())
    }

    /// What the change `seq` moved, from and to, in the order in which it did.
    pub(crate) fn moves(self, workspace: i64, seq: i64) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.all(
            "SELECT source, place FROM move WHERE workspace = ?1 AND seq = ?2 ORDER BY step",
            params![workspace, seq],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    }
}

fn held(row: &Row<'_>, first: usize) -> rusqlite::Result<Held> {
    let kind = match row.get(first)? {
        0 => return Ok(Held::Hidden),
        1 => EntryKind::File,
        2 => EntryKind::Directory,
        3 => EntryKind::Symlink,
        other => return Err(rusqlite::Error::IntegralValueOutOfRange(first, other)),
    };
    Ok(Held::Node(Node {
        kind,
        mode: row.get(first + 1)?,
        size: row.get::<_, i64>(first + 2)?.unsigned_abs(),
        content: row.get(first + 3)?,
        target: row.get(first + 4)?,
        created: row.get(first + 5)?,
        modified: row.get(first + 6)?,
    }))
}

fn number_of(kind: EntryKind) -> i64 {
    match kind {
        EntryKind::File => 1,
        EntryKind::Directory => 2,
        EntryKind::Symlink => 3,
        EntryKind::Other => unreachable!("a depot makes no fifo, socket or device"),
    }
}
