//! The journal: the rows of changes, and which of them are in effect.

use garret_core::Result;
use rusqlite::{Row, params};

use super::change_id::decode_change_id;
use super::entries::{ALIVE, PAST};
use super::{ListedPaths, MetadataSession};
use crate::tree::span_below;

/// A change without its paths, which are found through the entries.
#[derive(Debug, Clone)]
pub struct ChangeRow {
    /// The number of the workspace in the depot.
    pub workspace: i64,
    /// The number of the change in the workspace.
    pub seq: i64,
    /// The id.
    pub id: String,
    /// The time of the change, in microseconds since 1970.
    pub at: i64,
    /// The text form of a `ChangeKind`.
    pub kind: String,
    /// The operation that made the change.
    pub operation: String,
    /// The summary.
    pub summary: String,
    /// The agent that made the change.
    pub agent: Option<String>,
    /// The session of the agent.
    pub session: Option<String>,
    /// The tool call of the agent.
    pub tool_call: Option<String>,
    /// The front door through which the change came.
    pub door: String,
    /// The command line, if a command made the change.
    pub command: Option<String>,
    /// The number of the change that undid this one, if it is undone.
    pub undone_by: Option<i64>,
}

/// A selection among the changes that an undo may reverse.
#[derive(Debug, Clone, Copy)]
pub(crate) enum UndoCandidates<'a> {
    /// The newest changes, this many.
    Last(usize),
    /// All changes of one session.
    Session(&'a str),
    /// All changes of one tool call.
    ToolCall(&'a str),
}

const COLUMNS: &str =
    "workspace, seq, id, at, kind, operation, summary, agent, session, tool_call, door, command, undone_by";

/// The condition for new work that is not undone ([`garret_core::ChangeKind::is_new_work`]).
const IS_NEW_WORK: &str = "kind IN ('change', 'restore', 'merge') AND undone_by IS NULL";

/// The condition for the work of a session or a tool call that is not undone
/// ([`garret_core::ChangeKind::is_own_work`]).
const IS_OWN_WORK: &str = "kind IN ('change', 'restore', 'merge', 'derived') AND undone_by IS NULL";

/// The changes of all workspaces, and the changes that they reverse.
#[derive(Clone, Copy)]
pub(crate) struct ChangeTable<'c> {
    pub(super) session: MetadataSession<'c>,
}

impl ChangeTable<'_> {
    /// Adds a change, with the paths that are listed in its own row.
    pub(crate) fn add_change(self, row: &ChangeRow, listed: &ListedPaths) -> Result<()> {
        self.session
            .execute(
                "INSERT INTO change
             (workspace, seq, id, at, kind, operation, summary, agent, session, tool_call, door, command, began,
              indexed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
                params![
                    row.workspace,
                    row.seq,
                    row.id,
                    row.at,
                    row.kind,
                    row.operation,
                    row.summary,
                    row.agent,
                    row.session,
                    row.tool_call,
                    row.door,
                    row.command,
                    listed.as_row(),
                    decode_change_id(&row.id) != Some((row.workspace, row.seq))
                ],
            )
            .map(|_| ())
    }

    /// Returns the change `seq` of a workspace.
    pub(crate) fn change(self, workspace: i64, seq: i64) -> Result<Option<ChangeRow>> {
        let sql = format!("SELECT {COLUMNS} FROM change WHERE workspace = ?1 AND seq = ?2");
        self.session.query_first(&sql, [workspace, seq], change_row)
    }

    /// Returns the change with the id `id`, in any workspace.
    pub(crate) fn change_by_id(self, id: &str) -> Result<Option<ChangeRow>> {
        if let Some((workspace, seq)) = decode_change_id(id)
            && let Some(row) = self.change(workspace, seq)?.filter(|row| row.id == id)
        {
            return Ok(Some(row));
        }
        let sql = format!("SELECT {COLUMNS} FROM change WHERE id = ?1 AND indexed = 1");
        self.session.query_first(&sql, [id], change_row)
    }

    /// Returns the newest `limit` changes before `before`, newest first.
    pub(crate) fn changes_before(self, workspace: i64, before: i64, limit: usize) -> Result<Vec<ChangeRow>> {
        let sql = format!("SELECT {COLUMNS} FROM change WHERE workspace = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3");
        self.session
            .query_all(&sql, params![workspace, before, limit as i64], change_row)
    }

    /// Returns the newest `limit` changes up to `upto` that touched `path` or a path below it, newest first; for the
    /// root, all changes.
    pub(crate) fn changes_of_path(
        self,
        workspace: i64,
        upto: i64,
        path: &[u8],
        limit: usize,
    ) -> Result<Vec<ChangeRow>> {
        if path.is_empty() {
            return self.changes_before(workspace, upto + 1, limit);
        }
        let (start, end) = span_below(path);
        let of = |seq: &str, rows: &str| {
            format!(
                "SELECT {seq} FROM {rows} AND path = ?3
                 UNION SELECT {seq} FROM {rows} AND path >= ?4 AND path < ?5"
            )
        };
        let sql = format!(
            "SELECT {COLUMNS} FROM change WHERE workspace = ?1 AND seq <= ?2 AND seq IN ({} UNION {} UNION {})
             ORDER BY seq DESC LIMIT ?6",
            of("since", ALIVE),
            of("since", PAST),
            of("until", PAST)
        );
        self.session.query_all(
            &sql,
            params![workspace, upto, path, start, end, limit as i64],
            change_row,
        )
    }

    /// Returns the number of the newest change, up to `upto`, made at or before the time `at`.
    pub(crate) fn change_at_time(self, workspace: i64, upto: i64, at: i64) -> Result<Option<i64>> {
        let sql = "SELECT seq FROM change WHERE workspace = ?1 AND seq <= ?2 AND at <= ?3 ORDER BY seq DESC LIMIT 1";
        self.session.query_first(sql, [workspace, upto, at], |row| row.get(0))
    }

    /// Returns the changes that an undo of `which` reverses, newest first.
    pub(crate) fn undoable_changes(self, workspace: i64, which: UndoCandidates<'_>) -> Result<Vec<ChangeRow>> {
        // `INDEXED BY` keeps SQLite from walking the whole journal of a workspace for the few changes of one session.
        let (table, kinds, condition) = match which {
            UndoCandidates::Last(_) => ("change", IS_NEW_WORK, "ORDER BY seq DESC LIMIT ?2"),
            UndoCandidates::Session(_) => (
                "change INDEXED BY change_session",
                IS_OWN_WORK,
                "AND session = ?2 ORDER BY seq DESC",
            ),
            UndoCandidates::ToolCall(_) => (
                "change INDEXED BY change_tool_call",
                IS_OWN_WORK,
                "AND tool_call = ?2 ORDER BY seq DESC",
            ),
        };
        let sql = format!("SELECT {COLUMNS} FROM {table} WHERE workspace = ?1 AND {kinds} {condition}");
        match which {
            UndoCandidates::Last(count) => self
                .session
                .query_all(&sql, params![workspace, count as i64], change_row),
            UndoCandidates::Session(name) | UndoCandidates::ToolCall(name) => {
                self.session.query_all(&sql, params![workspace, name], change_row)
            }
        }
    }

    /// Returns the changes of derived files after the change `seq` that are not undone, newest first.
    pub(crate) fn derived_changes_after(self, workspace: i64, seq: i64) -> Result<Vec<ChangeRow>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM change WHERE workspace = ?1 AND seq > ?2 AND kind = 'derived' AND undone_by IS NULL
             ORDER BY seq DESC"
        );
        self.session.query_all(&sql, [workspace, seq], change_row)
    }

    /// Returns the newest undo that is not undone itself and has no new work after it.
    pub(crate) fn redoable_undo(self, workspace: i64) -> Result<Option<ChangeRow>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM change WHERE workspace = ?1 AND kind = 'undo' AND undone_by IS NULL
             AND seq > coalesce((SELECT seq FROM change WHERE workspace = ?1 AND kind IN ('change', 'restore', 'merge')
                                 ORDER BY seq DESC LIMIT 1), 0)
             ORDER BY seq DESC LIMIT 1"
        );
        self.session.query_first(&sql, [workspace], change_row)
    }

    /// Returns the count of a workspace's changes, and the number of the newest.
    pub(crate) fn change_count(self, workspace: i64) -> Result<(i64, i64)> {
        let sql = "SELECT count(*), coalesce(max(seq), 0) FROM change WHERE workspace = ?1";
        let found = self
            .session
            .query_first(sql, [workspace], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(found.unwrap_or_default())
    }

    /// Sets the change that undid `seq`; `None` if it is in effect.
    pub(crate) fn set_undone_by(self, workspace: i64, seq: i64, by: Option<i64>) -> Result<()> {
        let sql = "UPDATE change SET undone_by = ?3 WHERE workspace = ?1 AND seq = ?2";
        self.session.execute(sql, params![workspace, seq, by]).map(|_| ())
    }

    /// Records that the change `seq` reverses the change `target`.
    pub(crate) fn add_reversal(self, workspace: i64, seq: i64, target: i64) -> Result<()> {
        let sql = "INSERT INTO reversal (workspace, seq, target) VALUES (?1, ?2, ?3)";
        self.session.execute(sql, [workspace, seq, target]).map(|_| ())
    }

    /// Returns the newest change that reverses `target` and is not undone itself.
    pub(crate) fn standing_reversal(self, workspace: i64, target: i64) -> Result<Option<i64>> {
        // `CROSS JOIN` fixes the order: first the few reversals of the target, not all changes that are in effect.
        let sql = "SELECT reversal.seq FROM reversal CROSS JOIN change USING (workspace, seq)
                   WHERE reversal.workspace = ?1 AND target = ?2 AND undone_by IS NULL
                   ORDER BY reversal.seq DESC LIMIT 1";
        self.session.query_first(sql, [workspace, target], |row| row.get(0))
    }

    /// Returns the changes that the change `seq` reverses, newest first.
    pub(crate) fn reversed_changes(self, workspace: i64, seq: i64) -> Result<Vec<i64>> {
        let sql = "SELECT target FROM reversal WHERE workspace = ?1 AND seq = ?2 ORDER BY target DESC";
        self.session.query_all(sql, [workspace, seq], |row| row.get(0))
    }
}

fn change_row(row: &Row<'_>) -> rusqlite::Result<ChangeRow> {
    Ok(ChangeRow {
        workspace: row.get(0)?,
        seq: row.get(1)?,
        id: row.get(2)?,
        at: row.get(3)?,
        kind: row.get(4)?,
        operation: row.get(5)?,
        summary: row.get(6)?,
        agent: row.get(7)?,
        session: row.get(8)?,
        tool_call: row.get(9)?,
        door: row.get(10)?,
        command: row.get(11)?,
        undone_by: row.get(12)?,
    })
}
