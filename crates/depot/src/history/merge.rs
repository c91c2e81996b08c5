//! The inputs of a merge: the base, which is the newest point that both sides contain, and the changes of each side
//! since.
//!
//! A state contains the changes of its own workspace, of the points it was forked from, and of the points it has
//! merged; and, through each of them, the changes that those contain. Each workspace has one line of changes, so one
//! number for each workspace describes all changes that a state contains. Two states have the smaller number of each
//! workspace in common, and the newest of those points is the base.

use std::collections::BTreeMap;
use std::sync::Arc;

use garret_core::path::quote;
use garret_core::{EntryPath, Error, ErrorKind, MergePoint, Merging, Result, Side};

use super::diff::{Differing, differing_as_held};
use super::point::now;
use super::types::path_change;
use crate::depot::{check_open, find, find_open};
use crate::metadata::{Level, MoveRow, Session, WorkspaceRow};
use crate::workspace::DepotWorkspace;

/// For every workspace of which a state contains changes, the number of the newest such change.
type Known = BTreeMap<i64, i64>;

impl DepotWorkspace {
    /// Returns the inputs of a merge of the workspace `other` (by name or id) into this one.
    pub async fn merging(&self, other: &str) -> Result<Merging> {
        self.shared().database.read(|session| {
            let own = find_open(session, self.id())?;
            let asked = other;
            let other = find(session, asked).map_err(|_| stranger(asked))?;
            if own.id == other.id {
                let message = format!("{} cannot be merged into itself", quote(name_of(&own)));
                return Err(Error::invalid(message).hint("name another workspace"));
            }
            let (ours, theirs) = (now(session, own.id)?, now(session, other.id)?);
            let base = base(session, ours, theirs)?.ok_or_else(|| stranger(asked))?;
            // After `base`: an unrelated workspace is a stranger, whether it is deleted or not.
            check_open(&other, asked)?;
            Ok(Merging {
                base: Arc::new(self.view(base)),
                ours: self.side(session, &own, base, ours)?,
                theirs: self.side(session, &other, base, theirs)?,
                point: MergePoint {
                    workspace: other.uid,
                    change: theirs.at.unsigned_abs(),
                },
            })
        })
    }

    fn side(&self, session: Session<'_>, row: &WorkspaceRow, base: Level, point: Level) -> Result<Side> {
        let changes = differing_as_held(session, base, point)?;
        let shown = |one: Differing| path_change(one.path, one.before.as_ref(), one.after.as_ref());
        Ok(Side {
            name: name_of(row).to_owned(),
            files: Arc::new(self.view(point)),
            changes: changes.into_iter().map(shown).collect(),
            moves: moves(session, base, point)?,
        })
    }
}

fn name_of(row: &WorkspaceRow) -> &str {
    row.name.as_deref().unwrap_or(&row.uid)
}

/// Returns the error for a workspace that does not exist or shares no history. One error for both, so that it does not
/// reveal which workspaces exist.
fn stranger(asked: &str) -> Error {
    let message = format!("no workspace {} shares history with this one", quote(asked));
    Error::new(ErrorKind::NotFound, message).hint(
        "merge a branch of this workspace, the workspace that it was branched from, or another that shares its history",
    )
}

/// Returns the newest change of each workspace that the state at `point` contains.
fn known(session: Session<'_>, point: Level) -> Result<Known> {
    let mut known = Known::new();
    let mut todo = vec![point];
    while let Some(level) = todo.pop() {
        if known.get(&level.workspace).is_some_and(|at| *at >= level.at) {
            continue;
        }
        // A workspace that was collected as garbage has no changes any more.
        let Some(row) = session.workspace(level.workspace)? else {
            continue;
        };
        known.insert(level.workspace, level.at);
        todo.extend(row.fork);
        todo.extend(session.merges(level)?);
    }
    Ok(known)
}

/// Returns the newest point that both states contain. If there are several, none of which contains another, the one
/// with the latest change.
fn base(session: Session<'_>, ours: Level, theirs: Level) -> Result<Option<Level>> {
    let (our_known, their_known) = (known(session, ours)?, known(session, theirs)?);
    let common = our_known.iter().filter_map(|(workspace, at)| {
        let other = their_known.get(workspace)?;
        Some(Level {
            workspace: *workspace,
            at: *at.min(other),
        })
    });
    let mut best: Option<(Level, Known, i64)> = None;
    for level in common {
        let (knows, time) = (known(session, level)?, time_of(session, level)?);
        let is_better = best.as_ref().is_none_or(|(best, best_knows, best_time)| {
            let (knows_best, is_known) = (has(&knows, *best), has(best_knows, level));
            knows_best && !is_known || knows_best == is_known && time > *best_time
        });
        if is_better {
            best = Some((level, knows, time));
        }
    }
    Ok(best.map(|(level, ..)| level))
}

fn has(known: &Known, point: Level) -> bool {
    known.get(&point.workspace).is_some_and(|at| *at >= point.at)
}

/// Returns the time of the state: that of its change, or of the creation of its workspace.
fn time_of(session: Session<'_>, level: Level) -> Result<i64> {
    let change = session.change(level.workspace, level.at)?.map(|row| row.at);
    let workspace = session.workspace(level.workspace)?.map(|row| row.created);
    Ok(change.or(workspace).unwrap_or_default())
}

/// Returns the moves of the changes from `base` to `point`, in the order of time.
fn moves(session: Session<'_>, base: Level, point: Level) -> Result<Vec<(EntryPath, EntryPath)>> {
    let (before, after) = (known(session, base)?, known(session, point)?);
    let mut moves: Vec<MoveRow> = Vec::new();
    for (workspace, upto) in after {
        let since = before.get(&workspace).copied().unwrap_or(0);
        moves.extend(session.moves_between(workspace, since, upto)?);
    }
    // The moves come from several workspaces. Ids decide between changes of the same time.
    moves.sort_by(|one, other| (one.at, &one.change).cmp(&(other.at, &other.change)));
    let path = EntryPath::from_bytes;
    Ok(moves
        .into_iter()
        .map(|row| (path(row.source), path(row.place)))
        .collect())
}
