//! Undo and redo: the reversal of changes, as a change of its own.
//!
//! A change is reversed path by path: if a path is still in the state that the change left, it returns to the state
//! before the change. If it is not, the path clashes, and then nothing is changed at all. Several changes are reversed
//! newest first, and each sees the states that the reversals before it restored, so that the last five can be undone
//! together although they touch the same file.

mod plan;

use garret_core::path::quote;
use garret_core::{ChangeKind, ChangeRequest, Error, ErrorKind, Origin, Result, ReversalOutcome, UndoSelection};

use super::conversions::change_of;
use crate::change::ChangeBuilder;
use crate::depot::DepotShared;
use crate::error::damaged_content;
use crate::metadata::{ChangeRow, MetadataSession, UndoCandidates};
use crate::workspace::DepotWorkspace;
use plan::{UndoPlan, plan_reversal};

impl DepotWorkspace {
    /// Reverses the selected changes as one change. An empty selection is `not_found`.
    pub async fn undo(&self, selection: UndoSelection, making: impl Into<ChangeRequest>) -> Result<ReversalOutcome> {
        self.reverse_selected(making.into(), move |session, workspace| {
            select_changes(session, workspace, &selection)
        })
        .await
    }

    /// Reverses the newest undo, unless new changes were made since. If there is no such undo, that is `not_found`.
    pub async fn redo(&self, making: impl Into<ChangeRequest>) -> Result<ReversalOutcome> {
        self.reverse_selected(making.into(), |session, workspace| {
            Ok(session.redoable_undo(workspace)?.into_iter().collect())
        })
        .await
    }

    async fn reverse_selected(
        &self,
        making: ChangeRequest,
        select: impl FnOnce(MetadataSession<'_>, i64) -> Result<Vec<ChangeRow>> + Send + 'static,
    ) -> Result<ReversalOutcome> {
        let (shared, number, durability) = (self.shared().clone(), self.number, self.durability);
        let work = move |session: MetadataSession<'_>| {
            let targets = select(session, number)?;
            if targets.is_empty() {
                let error = Error::new(ErrorKind::NotFound, "there is no change to undo or redo");
                return Err(error.hint("list the history to see the changes"));
            }
            let changing = ChangeBuilder::begin(session, &shared, number, durability)?;
            reverse_changes(session, &shared, changing, &targets, making)
        };
        self.write_with_epilogue(work).await
    }
}

fn select_changes(session: MetadataSession<'_>, workspace: i64, selection: &UndoSelection) -> Result<Vec<ChangeRow>> {
    match selection {
        UndoSelection::Last(count) => session.undoable_changes(workspace, UndoCandidates::Last(*count)),
        UndoSelection::Session(name) => session.undoable_changes(workspace, UndoCandidates::Session(name)),
        UndoSelection::ToolCall { call, session: of } => {
            let mut rows = session.undoable_changes(workspace, UndoCandidates::ToolCall(call))?;
            rows.retain(|row| of.is_none() || row.session == *of);
            let sessions = rows.iter().map(|row| row.session.clone()).collect();
            UndoSelection::check_one_session(call, &sessions)?;
            Ok(rows)
        }
        UndoSelection::Change(id) => Ok(vec![find_undoable(session, workspace, id)?]),
        UndoSelection::Changes(ids) => {
            let found = ids.iter().map(|id| find_undoable(session, workspace, id));
            let mut rows = found.collect::<Result<Vec<_>>>()?;
            rows.sort_by_key(|row| std::cmp::Reverse(row.seq));
            rows.dedup_by_key(|row| row.seq);
            Ok(rows)
        }
    }
}

/// Returns the change with the id or the number `id`, which must not be undone.
fn find_undoable(session: MetadataSession<'_>, workspace: i64, id: &str) -> Result<ChangeRow> {
    let found = match id.parse() {
        Ok(number) => session.change(workspace, number)?,
        Err(_) => session.change_by_id(id)?.filter(|row| row.workspace == workspace),
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

/// Reverses `targets`, newest first.
fn reverse_changes(
    session: MetadataSession<'_>,
    shared: &DepotShared,
    mut changing: ChangeBuilder<'_>,
    targets: &[ChangeRow],
    making: ChangeRequest,
) -> Result<ReversalOutcome> {
    let workspace = changing.workspace();
    let entries = match plan_reversal(session, &changing, targets)? {
        UndoPlan::Clashes(clashes) => return Ok(ReversalOutcome::Clashed(clashes)),
        UndoPlan::Entries(entries) => entries,
    };
    for (path, node) in entries {
        changing.set_entry(&path, node)?;
    }
    for target in targets {
        for (source, place) in session.moves_of_change(workspace, target.seq)?.into_iter().rev() {
            changing.note_move(&place, &source)?;
        }
    }
    let seq = changing.seq();
    // A change of the journal even if no path differs: the undo itself must be visible, and the targets must count as
    // undone.
    changing.mark_touched();
    let making = ChangeRequest {
        origin: describe_reversal(targets, making.origin),
        ..making
    };
    changing.finish(shared, kind_of(targets), making)?;
    for target in targets {
        session.add_reversal(workspace, seq, target.seq)?;
        mark_undone(session, workspace, target.seq, seq)?;
    }
    let row = session
        .change(workspace, seq)?
        .ok_or_else(|| damaged_content("a change is missing from the journal"))?;
    Ok(ReversalOutcome::Done(Box::new(change_of(session, row)?)))
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

fn describe_reversal(targets: &[ChangeRow], origin: Origin) -> Origin {
    let verb = kind_of(targets).as_str();
    let summary = match targets {
        _ if !origin.summary.is_empty() => origin.summary,
        // The summary names the original change, without the words of earlier reversals: "undo: redo: undo: …" would
        // grow without end.
        [one] => format!("{verb}: {}", original_summary(&one.summary)),
        many => format!("{verb} {} changes", many.len()),
    };
    let operation = if origin.operation.is_empty() {
        verb.into()
    } else {
        origin.operation
    };
    Origin {
        summary,
        operation,
        ..origin
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
            let row = session.change(workspace, seq)?;
            session.set_undone_by(workspace, seq, Some(by))?;
            if row.is_none_or(|row| row.undone_by.is_some()) {
                return Ok(Vec::new());
            }
            let held = session.reversed_changes(workspace, seq)?;
            Ok(held.into_iter().map(ReversalStep::Release).collect())
        }
        ReversalStep::Release(seq) => {
            let other = session.standing_reversal(workspace, seq)?;
            session.set_undone_by(workspace, seq, other)?;
            if other.is_some() {
                return Ok(Vec::new());
            }
            let held = session.reversed_changes(workspace, seq)?;
            Ok(held
                .into_iter()
                .map(|target| ReversalStep::Hold { seq: target, by: seq })
                .collect())
        }
    }
}
