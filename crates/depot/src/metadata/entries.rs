//! The temporal tree, one level at a time. What a lineage shows is put together from levels by [`crate::tree`].

use garret_core::{EntryKind, Result};
use rusqlite::{Row, params};

use super::{ContentRow, HEAD, Session};
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

/// A row of the temporal tree.
#[derive(Debug, Clone)]
pub(crate) struct EntryRow {
    pub(crate) path: Vec<u8>,
    pub(crate) since: i64,
    pub(crate) until: i64,
    pub(crate) held: Held,
}

const COLUMNS: &str = "kind, mode, size, hash, target, created, modified";

impl Session<'_> {
    /// What the level `workspace` itself says of `path` at the point `at`.
    pub(crate) fn entry(self, workspace: i64, path: &[u8], at: i64) -> Result<Option<Held>> {
        let found = self.first(
            &format!(
                "SELECT {COLUMNS}, until FROM entry WHERE workspace = ?1 AND path = ?2 AND since <= ?3
                 ORDER BY since DESC LIMIT 1"
            ),
            params![workspace, path, at],
            |row| Ok((held(row, 0)?, row.get::<_, i64>(7)?)),
        )?;
        Ok(found.filter(|(_, until)| *until > at).map(|(held, _)| held))
    }

    /// What the level says of `path`, as [`Session::entry`] does, with the piece of content that a file there is found by: most reads of
    /// small files are this one look.
    pub(crate) fn entry_with_content(
        self,
        workspace: i64,
        path: &[u8],
        at: i64,
    ) -> Result<Option<(Held, Option<ContentRow>)>> {
        let found = self.first(
            "SELECT kind, mode, entry.size, hash, target, created, modified, until, content.size, data
             FROM entry LEFT JOIN content USING (hash)
             WHERE workspace = ?1 AND path = ?2 AND since <= ?3 ORDER BY since DESC LIMIT 1",
            params![workspace, path, at],
            |row| {
                let until: i64 = row.get(7)?;
                let size: Option<i64> = row.get(8)?;
                let data = row.get(9)?;
                let content = size.map(|size| ContentRow {
                    size: size.unsigned_abs(),
                    data,
                });
                Ok((until, held(row, 0)?, content))
            },
        )?;
        let found = found.filter(|(until, _, _)| *until > at);
        Ok(found.map(|(_, held, content)| (held, content)))
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
        // At the head the index of what lives is used, so that a list does not wade through versions that are gone. An open end has a
        // statement of its own, since nothing is smaller than NULL.
        let (table, valid) = match at {
            HEAD => ("entry INDEXED BY entry_live", "until = 9223372036854775807 AND ?3 = ?3"),
            _ => ("entry", "since <= ?3 AND until > ?3"),
        };
        let below = if end.is_some() { "path < ?4" } else { "?4 IS NULL" };
        self.all(
            &format!(
                "SELECT path, {COLUMNS} FROM {table} WHERE workspace = ?1 AND path >= ?2 AND {below} AND {valid}
                 ORDER BY path LIMIT ?5"
            ),
            params![workspace, from, at, end, limit as i64],
            |row| Ok((row.get(0)?, held(row, 1)?)),
        )
    }

    /// Makes `held` what the level says of `path` from the change `seq` on; `None` for saying nothing.
    pub(crate) fn put_entry(self, workspace: i64, path: &[u8], seq: i64, held: Option<&Held>) -> Result<()> {
        let key = params![workspace, path, seq];
        self.execute(
            "UPDATE entry SET until = ?3
             WHERE workspace = ?1 AND path = ?2 AND until = 9223372036854775807 AND since < ?3",
            key,
        )?;
        // An earlier step of the same change may have put one: it is replaced or taken away.
        match held {
            Some(held) => self.insert_entry(workspace, path, (seq, LIVE), held),
            None => {
                let sql = "DELETE FROM entry WHERE workspace = ?1 AND path = ?2 AND since = ?3";
                self.execute(sql, key).map(|_| ())
            }
        }
    }

    /// Adds what the level says of `path` between two points.
    pub(crate) fn insert_entry(self, workspace: i64, path: &[u8], valid: (i64, i64), held: &Held) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO entry (workspace, path, since, until, kind, mode, size, hash, target, created, modified)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        let (since, until) = valid;
        match held {
            Held::Hidden => {
                let nothing = params![
                    workspace,
                    path,
                    since,
                    until,
                    0,
                    0,
                    0,
                    None::<Address>,
                    None::<String>,
                    0,
                    0
                ];
                self.execute(sql, nothing)
            }
            Held::Node(node) => self.execute(
                sql,
                params![
                    workspace,
                    path,
                    since,
                    until,
                    number_of(node.kind),
                    node.mode,
                    node.size as i64,
                    node.content,
                    node.target,
                    node.created,
                    node.modified
                ],
            ),
        }?;
        Ok(())
    }

    /// The paths that the changes after `after` up to `upto` touched on this level, in order.
    pub(crate) fn touched(self, workspace: i64, after: i64, upto: i64) -> Result<Vec<Vec<u8>>> {
        self.all(
            "SELECT path FROM entry WHERE workspace = ?1 AND since > ?2 AND since <= ?3
             UNION SELECT path FROM entry
             WHERE workspace = ?1 AND until > ?2 AND until <= ?3 AND until < 9223372036854775807
             ORDER BY path",
            params![workspace, after, upto],
            |row| row.get(0),
        )
    }

    /// The first change after which the level says something of `path`.
    pub(crate) fn first_since(self, workspace: i64, path: &[u8]) -> Result<Option<i64>> {
        self.first(
            "SELECT since FROM entry WHERE workspace = ?1 AND path = ?2 ORDER BY since LIMIT 1",
            params![workspace, path],
            |row| row.get(0),
        )
    }

    /// What the level said of `path` up to `at`, newest first, each with the change that began it.
    pub(crate) fn entry_history(self, workspace: i64, path: &[u8], at: i64) -> Result<Vec<(i64, i64, Held)>> {
        self.all(
            &format!(
                "SELECT since, until, {COLUMNS} FROM entry WHERE workspace = ?1 AND path = ?2 AND since <= ?3
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
                "SELECT path, since, until, {COLUMNS} FROM entry WHERE workspace = ?1 AND (path, since) > (?2, ?3)
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

pub(super) fn held(row: &Row<'_>, first: usize) -> rusqlite::Result<Held> {
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
