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
use garret_core::{EntryPath, Error, ErrorKind, MergeInput, MergePoint, MergeSide, Result};

use super::conversions::path_change;
use super::diff::{PathDifference, find_held_differences};
use super::point::newest_level;
use crate::depot::{check_open, find_open_workspace, find_workspace};
use crate::metadata::{LineageLevel, MetadataSession, MoveRow, WorkspaceRow};
use crate::workspace::DepotWorkspace;

/// For every workspace of which a state contains changes, the number of the newest such change.
type ContainedChanges = BTreeMap<i64, i64>;

impl DepotWorkspace {
    /// Returns the inputs of a merge of the workspace `other` (by name or id) into this one.
    pub async fn merging(&self, other: &str) -> Result<MergeInput> {
        self.shared().database.read(|session| {
            let own = find_open_workspace(session, self.id())?;
            let asked = other;
            let other = find_workspace(session, asked).map_err(|_| unrelated_error(asked))?;
            if own.id == other.id {
                let message = format!("{} cannot be merged into itself", quote(displayed_name(&own)));
                return Err(Error::invalid(message).hint("name another workspace"));
            }
            let (ours, theirs) = (newest_level(session, own.id)?, newest_level(session, other.id)?);
            let base = find_merge_base(session, ours, theirs)?.ok_or_else(|| unrelated_error(asked))?;
            // After `base`: an unrelated workspace is a stranger, whether it is deleted or not.
            check_open(&other, asked)?;
            Ok(MergeInput {
                base: Arc::new(self.view_at(base)),
                ours: self.merge_side(session, &own, base, ours)?,
                theirs: self.merge_side(session, &other, base, theirs)?,
                point: MergePoint {
                    workspace: other.uid,
                    change: theirs.at.unsigned_abs(),
                },
            })
        })
    }

    fn merge_side(
        &self,
        session: MetadataSession<'_>,
        row: &WorkspaceRow,
        base: LineageLevel,
        point: LineageLevel,
    ) -> Result<MergeSide> {
        let changes = find_held_differences(session, base, point)?;
        let shown = |one: PathDifference| path_change(one.path, one.before.as_ref(), one.after.as_ref());
        Ok(MergeSide {
            name: displayed_name(row).to_owned(),
            files: Arc::new(self.view_at(point)),
            changes: changes.into_iter().map(shown).collect(),
            moves: find_moves(session, base, point)?,
        })
    }
}

fn displayed_name(row: &WorkspaceRow) -> &str {
    row.name.as_deref().unwrap_or(&row.uid)
}

/// Returns the error for a workspace that does not exist or shares no history. One error for both, so that it does not
/// reveal which workspaces exist.
fn unrelated_error(asked: &str) -> Error {
    let message = format!("no workspace {} shares history with this one", quote(asked));
    Error::new(ErrorKind::NotFound, message).hint(
        "merge a branch of this workspace, the workspace that it was branched from, or another that shares its history",
    )
}

/// Returns the newest change of each workspace that the state at `point` contains.
fn contained_changes(session: MetadataSession<'_>, point: LineageLevel) -> Result<ContainedChanges> {
    let mut known = ContainedChanges::new();
    let mut todo = vec![point];
    while let Some(level) = todo.pop() {
        if known.get(&level.workspace).is_some_and(|at| *at >= level.at) {
            continue;
        }
        // A workspace that was collected as garbage has no changes any more.
        let Some(row) = session.workspaces().workspace(level.workspace)? else {
            continue;
        };
        known.insert(level.workspace, level.at);
        todo.extend(row.fork);
        todo.extend(session.merges().merged_points(level)?);
    }
    Ok(known)
}

/// Returns the newest point that both states contain. If there are several, none of which contains another, the one
/// with the latest change.
fn find_merge_base(
    session: MetadataSession<'_>,
    ours: LineageLevel,
    theirs: LineageLevel,
) -> Result<Option<LineageLevel>> {
    let (our_known, their_known) = (contained_changes(session, ours)?, contained_changes(session, theirs)?);
    let common = our_known.iter().filter_map(|(workspace, at)| {
        let other = their_known.get(workspace)?;
        Some(LineageLevel {
            workspace: *workspace,
            at: *at.min(other),
        })
    });
    let mut best: Option<(LineageLevel, ContainedChanges, i64)> = None;
    for level in common {
        let (knows, time) = (contained_changes(session, level)?, state_time(session, level)?);
        let is_better = best.as_ref().is_none_or(|(best, best_knows, best_time)| {
            let (knows_best, is_known) = (contains_point(&knows, *best), contains_point(best_knows, level));
            knows_best && !is_known || knows_best == is_known && time > *best_time
        });
        if is_better {
            best = Some((level, knows, time));
        }
    }
    Ok(best.map(|(level, ..)| level))
}

fn contains_point(known: &ContainedChanges, point: LineageLevel) -> bool {
    known.get(&point.workspace).is_some_and(|at| *at >= point.at)
}

/// Returns the time of the state: that of its change, or of the creation of its workspace.
fn state_time(session: MetadataSession<'_>, level: LineageLevel) -> Result<i64> {
    let change = session.changes().change(level.workspace, level.at)?.map(|row| row.at);
    let workspace = session.workspaces().workspace(level.workspace)?.map(|row| row.created);
    Ok(change.or(workspace).unwrap_or_default())
}

/// Returns the moves of the changes from `base` to `point`, in the order of time.
fn find_moves(
    session: MetadataSession<'_>,
    base: LineageLevel,
    point: LineageLevel,
) -> Result<Vec<(EntryPath, EntryPath)>> {
    let (before, after) = (contained_changes(session, base)?, contained_changes(session, point)?);
    let mut moves: Vec<MoveRow> = Vec::new();
    for (workspace, upto) in after {
        let since = before.get(&workspace).copied().unwrap_or(0);
        moves.extend(session.merges().moves_between(workspace, since, upto)?);
    }
    // The moves come from several workspaces. Ids decide between changes of the same time.
    moves.sort_by(|one, other| (one.at, &one.change).cmp(&(other.at, &other.change)));
    let path = EntryPath::from_bytes;
    Ok(moves
        .into_iter()
        .map(|row| (path(row.source), path(row.place)))
        .collect())
}
