//! Undo and redo: the reversal of changes, as a change of its own.
//!
//! A change is reversed path by path: if a path is still in the state that the change left, it returns to the state
//! before the change. If it is not, the path clashes, and then nothing is changed at all. Several changes are reversed
//! newest first, and each sees the states that the reversals before it restored, so that the last five can be undone
//! together although they touch the same file.

mod plan;

use std::collections::BTreeSet;
use std::ops::Bound;

use garret_core::path::quote;
use garret_core::{
    ChangeKind, ChangePlan, EntryPath, Error, ErrorKind, History, Origin, PathClash, PutBatch, Result, ReversalOutcome,
    UndoSelection,
};

use super::point::newest_level;
use super::restore::plan_of_entries;
use crate::metadata::{ChangeRow, MetadataSession, UndoCandidates};
use crate::tree::DepotTree;
use crate::workspace::DepotWorkspace;
use plan::{UndoPlan, plan_reversal};

impl DepotWorkspace {
    /// Reverses the selected changes as one change. An empty selection is `not_found`.
    pub async fn undo(&self, selection: UndoSelection, origin: Origin) -> Result<ReversalOutcome> {
        History::undo(self, selection, origin).await
    }

    /// Reverses the newest undo, unless new changes were made since. If there is no such undo, that is `not_found`.
    pub async fn redo(&self, origin: Origin) -> Result<ReversalOutcome> {
        History::redo(self, origin).await
    }
}

/// The changes that an undo reverses.
#[derive(Debug, Default)]
struct UndoTargets {
    /// The selected changes, newest first.
    selected: Vec<ChangeRow>,
    /// The changes of derived files among which they were found.
    stepped_over: Vec<ChangeRow>,
}

/// Plans the reversal of the selected changes. An empty selection is `not_found`.
///
/// If the selected changes cannot be reversed because of later changes of derived files, those in the way are reversed
/// with them: a package that a command installed cannot be removed while the directory has a cache of a later run.
pub(super) fn plan_undo(session: MetadataSession<'_>, workspace: i64, selection: &UndoSelection) -> Result<ChangePlan> {
    let UndoTargets {
        selected: mut targets,
        mut stepped_over,
    } = select_changes(session, workspace, selection)?;
    if targets.is_empty() && !stepped_over.is_empty() {
        return Err(UndoSelection::only_derived_error(&numbers_of(&stepped_over)));
    }
    loop {
        let plan = plan_targets(session, workspace, &targets)?;
        // With more targets, other derived changes can be in the way.
        let (in_the_way, rest) = find_in_the_way(session, workspace, stepped_over, &plan.clashes)?;
        if in_the_way.is_empty() {
            return Ok(ChangePlan {
                stepped_over: numbers_of(&rest),
                ..plan
            });
        }
        targets.extend(in_the_way);
        targets.sort_by_key(|row| std::cmp::Reverse(row.seq));
        stepped_over = rest;
    }
}

fn numbers_of(rows: &[ChangeRow]) -> Vec<u64> {
    rows.iter().map(|row| row.seq.unsigned_abs()).collect()
}

/// Parts `candidates` into the changes that touched a path of `clashes`, or a directory above one, and the others.
fn find_in_the_way(
    session: MetadataSession<'_>,
    workspace: i64,
    candidates: Vec<ChangeRow>,
    clashes: &[PathClash],
) -> Result<(Vec<ChangeRow>, Vec<ChangeRow>)> {
    let clashes: BTreeSet<_> = clashes.iter().map(|clash| clash.path.as_bytes()).collect();
    let (mut in_the_way, mut others) = (Vec::new(), Vec::new());
    for row in candidates {
        // Without a clash nothing is in the way, and no paths need to be read.
        let touched = if clashes.is_empty() {
            Vec::new()
        } else {
            session.entries().touched_paths(workspace, row.seq - 1, row.seq)?
        };
        let part = if touched.iter().any(|path| has_at_or_below(&clashes, path)) {
            &mut in_the_way
        } else {
            &mut others
        };
        part.push(row);
    }
    Ok((in_the_way, others))
}

fn has_at_or_below(paths: &BTreeSet<&[u8]>, path: &[u8]) -> bool {
    let inside = [path, b"/"].concat();
    let mut following = paths.range::<[u8], _>((Bound::Included(&inside[..]), Bound::Unbounded));
    paths.contains(path) || following.next().is_some_and(|next| next.starts_with(&inside))
}

/// Plans the reversal of the newest undo, unless new changes were made since. If there is no such undo, that is
/// `not_found`.
pub(super) fn plan_redo(session: MetadataSession<'_>, workspace: i64) -> Result<ChangePlan> {
    let targets: Vec<_> = session.changes().redoable_undo(workspace)?.into_iter().collect();
    plan_targets(session, workspace, &targets)
}

/// Plans the reversal of `targets`, newest first.
fn plan_targets(session: MetadataSession<'_>, workspace: i64, targets: &[ChangeRow]) -> Result<ChangePlan> {
    if targets.is_empty() {
        let error = Error::new(ErrorKind::NotFound, "there is no change to undo or redo");
        return Err(error.hint("list the history to see the changes"));
    }
    let tree = DepotTree::at_point(session, newest_level(session, workspace)?)?;
    let entries = match plan_reversal(session, &tree, targets)? {
        UndoPlan::Clashes(clashes) => {
            return Ok(ChangePlan {
                clashes,
                ..ChangePlan::default()
            });
        }
        UndoPlan::Entries(entries) => entries,
    };
    let mut moves = Vec::new();
    for target in targets {
        for (source, place) in session
            .entries()
            .moves_of_change(workspace, target.seq)?
            .into_iter()
            .rev()
        {
            moves.push((EntryPath::from_bytes(place), EntryPath::from_bytes(source)));
        }
    }
    let kind = kind_of(targets);
    let batch = PutBatch {
        moves,
        kind,
        reverses: targets.iter().map(|target| target.seq.unsigned_abs()).collect(),
        summary: summarize_reversal(kind, targets),
        ..PutBatch::default()
    };
    Ok(plan_of_entries(entries, batch))
}

fn select_changes(session: MetadataSession<'_>, workspace: i64, selection: &UndoSelection) -> Result<UndoTargets> {
    let selected = match selection {
        UndoSelection::Last(count) => return select_newest(session, workspace, *count),
        UndoSelection::Changes { chosen, stepped_over } => {
            return Ok(UndoTargets {
                selected: find_all_undoable(session, workspace, chosen)?,
                stepped_over: find_all_undoable(session, workspace, stepped_over)?,
            });
        }
        UndoSelection::Session(name) => session
            .changes()
            .undoable_changes(workspace, UndoCandidates::Session(name))?,
        UndoSelection::ToolCall { call, session: of } => {
            let mut rows = session
                .changes()
                .undoable_changes(workspace, UndoCandidates::ToolCall(call))?;
            rows.retain(|row| of.is_none() || row.session == *of);
            let sessions = rows.iter().map(|row| row.session.clone()).collect();
            UndoSelection::check_one_session(call, &sessions)?;
            rows
        }
        UndoSelection::Change(id) => vec![find_undoable(session, workspace, id)?],
    };
    Ok(UndoTargets {
        selected,
        ..UndoTargets::default()
    })
}

/// Selects the newest `count` changes that are new work, and the changes of derived files after the oldest of them.
fn select_newest(session: MetadataSession<'_>, workspace: i64, count: usize) -> Result<UndoTargets> {
    let changes = session.changes();
    let selected = changes.undoable_changes(workspace, UndoCandidates::Last(count))?;
    let oldest = selected.last().map_or(0, |row| row.seq);
    Ok(UndoTargets {
        selected,
        stepped_over: changes.derived_changes_after(workspace, oldest)?,
    })
}

/// Returns the changes with the ids or numbers `ids`, newest first. None may be undone.
fn find_all_undoable(session: MetadataSession<'_>, workspace: i64, ids: &[String]) -> Result<Vec<ChangeRow>> {
    let found = ids.iter().map(|id| find_undoable(session, workspace, id));
    let mut rows = found.collect::<Result<Vec<_>>>()?;
    rows.sort_by_key(|row| std::cmp::Reverse(row.seq));
    rows.dedup_by_key(|row| row.seq);
    Ok(rows)
}

/// Returns the change with the id or the number `id`, which must not be undone.
fn find_undoable(session: MetadataSession<'_>, workspace: i64, id: &str) -> Result<ChangeRow> {
    let found = match id.parse() {
        Ok(number) => session.changes().change(workspace, number)?,
        Err(_) => session
            .changes()
            .change_by_id(id)?
            .filter(|row| row.workspace == workspace),
    };
    let row = found.ok_or_else(|| {
        Error::new(
            ErrorKind::NotFound,
            format!("this workspace has made no change {}", quote(id)),
        )
        .hint("list the history to see the ids of its changes")
    })?;
    match row.undone_by {
        None => Ok(row),
        Some(_) => {
            Err(Error::invalid(format!("the change {} is undone already", quote(id))).hint("redo brings it back"))
        }
    }
}

/// Checks that no change of `reverses` is undone already.
///
/// Later changes of other paths do not matter: they commute with the reversal, so the result is that of a reversal at
/// the time of its plan, which reversed the changes that were the newest then.
pub(super) fn check_reversal(session: MetadataSession<'_>, workspace: i64, puts: &PutBatch) -> Result<()> {
    let mut is_stale = false;
    for seq in &puts.reverses {
        let row = session.changes().change(workspace, seq.cast_signed())?;
        is_stale |= row.is_none_or(|row| row.undone_by.is_some());
    }
    if !is_stale {
        return Ok(());
    }
    let message = "a change to reverse was undone by others since this was planned";
    Err(Error::new(ErrorKind::Conflict, message).hint("nothing was changed; try again"))
}

/// Records that the change `by` reverses the changes `reverses`.
pub(super) fn record_reversal(session: MetadataSession<'_>, workspace: i64, by: i64, reverses: &[u64]) -> Result<()> {
    reverses.iter().map(|seq| seq.cast_signed()).try_for_each(|seq| {
        session.changes().add_reversal(workspace, by, seq)?;
        mark_undone(session, workspace, seq, by)
    })
}

/// Returns the kind of a reversal: the reversal of an undo is a redo; that of anything else, a redo included, is an
/// undo.
fn kind_of(targets: &[ChangeRow]) -> ChangeKind {
    let is_undo = |row: &ChangeRow| row.kind == ChangeKind::Undo.as_str();
    if targets.iter().all(is_undo) {
        ChangeKind::Redo
    } else {
        ChangeKind::Undo
    }
}

fn summarize_reversal(kind: ChangeKind, targets: &[ChangeRow]) -> String {
    let verb = kind.as_str();
    let is_derived = |row: &&ChangeRow| row.kind == ChangeKind::Derived.as_str();
    let (derived, others): (Vec<_>, Vec<_>) = targets.iter().partition(is_derived);
    match (&others[..], &derived[..]) {
        // The summary names the original change, without the words of earlier reversals: "undo: redo: undo: …" would
        // grow without end.
        ([one], []) | ([], [one]) => format!("{verb}: {}", original_summary(&one.summary)),
        ([one], [_]) => format!(
            "{verb}: {}, with 1 change of derived files",
            original_summary(&one.summary)
        ),
        ([one], many) => format!(
            "{verb}: {}, with {} changes of derived files",
            original_summary(&one.summary),
            many.len()
        ),
        _ => format!("{verb} {} changes", targets.len()),
    }
}

/// Returns the summary of the original change, without the prefixes of its reversals.
fn original_summary(mut summary: &str) -> &str {
    while let Some(rest) = summary
        .strip_prefix("undo: ")
        .or_else(|| summary.strip_prefix("redo: "))
    {
        summary = rest;
    }
    summary
}

/// An update of a change's mark, after another change was reversed.
enum ReversalStep {
    /// Marks `seq` as undone by `by`. If `seq` was in effect until now, the changes that it reverses are released.
    Hold { seq: i64, by: i64 },
    /// Releases `seq`: it is in effect again, unless another change that is in effect reverses it, too. If it is in
    /// effect, it holds again the changes that it reverses.
    Release(i64),
}

/// Marks `seq` as undone by `by`, and updates the marks of the changes that this affects.
fn mark_undone(session: MetadataSession<'_>, workspace: i64, seq: i64, by: i64) -> Result<()> {
    // A stack instead of recursion: undos of undos can form a chain as long as the journal.
    let mut steps = vec![ReversalStep::Hold { seq, by }];
    while let Some(step) = steps.pop() {
        let following = apply_reversal_step(session, workspace, &step)?;
        steps.extend(following.into_iter().rev());
    }
    Ok(())
}

fn apply_reversal_step(session: MetadataSession<'_>, workspace: i64, step: &ReversalStep) -> Result<Vec<ReversalStep>> {
    match *step {
        ReversalStep::Hold { seq, by } => {
            let row = session.changes().change(workspace, seq)?;
            session.changes().set_undone_by(workspace, seq, Some(by))?;
            if row.is_none_or(|row| row.undone_by.is_some()) {
                return Ok(Vec::new());
            }
            let held = session.changes().reversed_changes(workspace, seq)?;
            Ok(held.into_iter().map(ReversalStep::Release).collect())
        }
        ReversalStep::Release(seq) => {
            let other = session.changes().standing_reversal(workspace, seq)?;
            session.changes().set_undone_by(workspace, seq, other)?;
            if other.is_some() {
                return Ok(Vec::new());
            }
            let held = session.changes().reversed_changes(workspace, seq)?;
            Ok(held
                .into_iter()
                .map(|target| ReversalStep::Hold { seq: target, by: seq })
                .collect())
        }
    }
}
