//! The workspaces of a depot and their lineage.

use garret_core::Result;
use rusqlite::{Row, params};

use super::{HEAD, MetadataSession};
use crate::error;

/// The tables with rows that belong to a workspace.
pub(super) const OF_WORKSPACES: [&str; 10] = [
    "entry",
    "change",
    "reversal",
    "move",
    "merge",
    "snapshot",
    "retention",
    "unseen",
    "journal",
    "seen",
];

/// A point on one level of a lineage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineageLevel {
    pub(crate) workspace: i64,
    pub(crate) at: i64,
}

/// The row of a workspace.
#[derive(Debug, Clone)]
pub(crate) struct WorkspaceRow {
    pub(crate) id: i64,
    pub(crate) uid: String,
    pub(crate) name: Option<String>,
    pub(crate) kind: String,
    pub(crate) config: String,
    /// The point of another workspace at which this one begins.
    pub(crate) fork: Option<LineageLevel>,
    /// Whether it has its own copy of all rows that it inherited.
    pub(crate) is_flat: bool,
    /// The number of its newest change.
    pub(crate) head: i64,
    pub(crate) created: i64,
    pub(crate) deleted: Option<i64>,
}

/// The number of the newest change: that of the newest row in `change`, or `head` if that is newer because retention
/// removed its row.
pub(super) const HEAD_OF: &str =
    "max(head, coalesce((SELECT max(seq) FROM change WHERE change.workspace = workspace.id), 0))";

fn workspace_columns() -> String {
    format!("id, uid, name, kind, config, parent, fork, flat, {HEAD_OF}, created, deleted")
}

/// The condition that leaves out workspaces which are being imported or removed; those have no name either.
const IS_SEEN: &str = "id NOT IN (SELECT workspace FROM unseen)";

/// The workspaces, their heads and their lineage.
#[derive(Clone, Copy)]
pub(crate) struct WorkspaceTable<'c> {
    pub(super) session: MetadataSession<'c>,
}

impl WorkspaceTable<'_> {
    /// Returns the id of this depot, which no other depot has.
    pub(crate) fn depot_id(self) -> Result<Option<String>> {
        self.session
            .query_first("SELECT id FROM identity", [], |row| row.get(0))
    }

    /// Adds a workspace and returns its number.
    pub(crate) fn add_workspace(self, row: &WorkspaceRow) -> Result<i64> {
        self.session.execute(
            "INSERT INTO workspace (uid, name, kind, config, parent, fork, created) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                row.uid,
                row.name,
                row.kind,
                row.config,
                row.fork.map(|fork| fork.workspace),
                row.fork.map(|fork| fork.at),
                row.created
            ],
        )?;
        Ok(self.session.connection.last_insert_rowid())
    }

    /// Returns the workspace with the number `id`.
    pub(crate) fn workspace(self, id: i64) -> Result<Option<WorkspaceRow>> {
        self.session.query_first(
            &format!("SELECT {} FROM workspace WHERE id = ?1", workspace_columns()),
            [id],
            workspace_row,
        )
    }

    /// Returns the number of the newest change of the workspace `id`, and the levels of its newest state; `None` if it
    /// is deleted. Every change begins with this query, so it reads no more of the row.
    pub(crate) fn head_and_levels(self, id: i64) -> Result<Option<(i64, Vec<LineageLevel>)>> {
        let sql = "SELECT max(head, coalesce((SELECT max(seq) FROM change WHERE change.workspace = ?1), 0)),
                   iif(flat, NULL, parent), fork FROM workspace WHERE id = ?1 AND deleted IS NULL";
        let found = self.session.query_first(sql, [id], |row| {
            let (parent, fork): (Option<i64>, Option<i64>) = (row.get(1)?, row.get(2)?);
            Ok((row.get(0)?, parent.zip(fork)))
        })?;
        let Some((head, fork)) = found else { return Ok(None) };
        let own = LineageLevel {
            workspace: id,
            at: HEAD,
        };
        let Some((workspace, at)) = fork else {
            return Ok(Some((head, vec![own])));
        };
        let parent = LineageLevel { workspace, at };
        check_older(&[own], parent)?;
        Ok(Some((head, [vec![own], self.levels(parent)?].concat())))
    }

    /// Returns the workspace with the unique id `uid`.
    pub(crate) fn workspace_by_uid(self, uid: &str) -> Result<Option<WorkspaceRow>> {
        self.session.query_first(
            &format!(
                "SELECT {} FROM workspace WHERE uid = ?1 AND {IS_SEEN}",
                workspace_columns()
            ),
            [uid],
            workspace_row,
        )
    }

    /// Returns the workspace with the name `name`.
    pub(crate) fn workspace_by_name(self, name: &str) -> Result<Option<WorkspaceRow>> {
        self.session.query_first(
            &format!("SELECT {} FROM workspace WHERE name = ?1", workspace_columns()),
            [name],
            workspace_row,
        )
    }

    /// Returns every workspace that is not hidden, in the order of names, those without a name last.
    pub(crate) fn list_workspaces(self) -> Result<Vec<WorkspaceRow>> {
        let sql = format!(
            "SELECT {} FROM workspace WHERE {IS_SEEN} ORDER BY name IS NULL, name, id",
            workspace_columns()
        );
        self.session.query_all(&sql, [], workspace_row)
    }

    /// Sets or removes the name of a workspace.
    pub(crate) fn set_name(self, id: i64, name: Option<&str>) -> Result<()> {
        let sql = "UPDATE workspace SET name = ?2 WHERE id = ?1";
        self.session.execute(sql, params![id, name]).map(|_| ())
    }

    /// Sets the kind of storage that holds the files of a workspace.
    pub(crate) fn set_kind(self, id: i64, kind: &str) -> Result<()> {
        let sql = "UPDATE workspace SET kind = ?2 WHERE id = ?1";
        self.session.execute(sql, params![id, kind]).map(|_| ())
    }

    /// Sets the configuration of a workspace.
    pub(crate) fn set_config(self, id: i64, config: &str) -> Result<()> {
        let sql = "UPDATE workspace SET config = ?2 WHERE id = ?1";
        self.session.execute(sql, params![id, config]).map(|_| ())
    }

    /// Sets the time of a workspace's deletion; `None` if it is not deleted.
    pub(crate) fn set_deleted(self, id: i64, deleted: Option<i64>) -> Result<()> {
        let sql = "UPDATE workspace SET deleted = ?2 WHERE id = ?1";
        self.session.execute(sql, params![id, deleted]).map(|_| ())
    }

    /// Sets the head of a workspace other than by adding a change: the number counts as the newest change even if that
    /// change has no row.
    pub(crate) fn set_head(self, id: i64, head: i64) -> Result<()> {
        let sql = "UPDATE workspace SET head = ?2 WHERE id = ?1";
        self.session.execute(sql, params![id, head]).map(|_| ())
    }

    /// Marks a workspace as flat: its lookups no longer go through its lineage.
    pub(crate) fn set_flat(self, id: i64) -> Result<()> {
        self.session
            .execute("UPDATE workspace SET flat = 1 WHERE id = ?1", [id])
            .map(|_| ())
    }

    /// Removes a workspace with its journal, its entries and its snapshots.
    pub(crate) fn remove_workspace(self, id: i64) -> Result<()> {
        for table in OF_WORKSPACES {
            self.session
                .execute(&format!("DELETE FROM {table} WHERE workspace = ?1"), [id])?;
        }
        self.session.execute("DELETE FROM merge WHERE source = ?1", [id])?;
        self.session
            .execute("DELETE FROM workspace WHERE id = ?1", [id])
            .map(|_| ())
    }

    /// Returns the workspaces that were branched off this one, without those that are being removed.
    pub(crate) fn branches_of(self, id: i64) -> Result<Vec<i64>> {
        let sql = "SELECT id FROM workspace WHERE parent = ?1
                   AND id NOT IN (SELECT workspace FROM unseen WHERE removing = 1)";
        self.session.query_all(sql, [id], |row| row.get(0))
    }

    /// Returns the levels that a lookup at `point` goes through, nearest first.
    pub(crate) fn levels(self, point: LineageLevel) -> Result<Vec<LineageLevel>> {
        let mut levels = vec![point];
        let mut next = self.inherited_level(point.workspace)?;
        while let Some(level) = next {
            check_older(&levels, level)?;
            levels.push(level);
            next = self.inherited_level(level.workspace)?;
        }
        Ok(levels)
    }

    /// Returns the point from which `workspace` inherits entries; `None` if it is flat or no branch.
    fn inherited_level(self, workspace: i64) -> Result<Option<LineageLevel>> {
        let sql = "SELECT parent, fork FROM workspace WHERE id = ?1 AND flat = 0 AND parent IS NOT NULL";
        self.session.query_first(sql, [workspace], |row| {
            Ok(LineageLevel {
                workspace: row.get(0)?,
                at: row.get(1)?,
            })
        })
    }
}

/// Checks that `next` belongs to an older workspace than the last of `lineage`, so that a damaged lineage cannot form a
/// cycle. A branch has a larger number than its parent.
pub(crate) fn check_older(lineage: &[LineageLevel], next: LineageLevel) -> Result<()> {
    if lineage.last().is_none_or(|last| next.workspace < last.workspace) {
        Ok(())
    } else {
        Err(error::circular_lineage())
    }
}

fn workspace_row(row: &Row<'_>) -> rusqlite::Result<WorkspaceRow> {
    let (parent, fork): (Option<i64>, Option<i64>) = (row.get(5)?, row.get(6)?);
    Ok(WorkspaceRow {
        id: row.get(0)?,
        uid: row.get(1)?,
        name: row.get(2)?,
        kind: row.get(3)?,
        config: row.get(4)?,
        fork: parent.zip(fork).map(|(workspace, at)| LineageLevel { workspace, at }),
        is_flat: row.get(7)?,
        head: row.get(8)?,
        created: row.get(9)?,
        deleted: row.get(10)?,
    })
}
