//! Undo and redo: the reversal of changes, as a change of its own.
//!
//! A change is reversed path by path: if a path is still in the state that the change left, it returns to the state
//! before the change. If it is not, the path clashes, and then nothing is changed at all. Several changes are reversed
//! newest first, and each sees the states that the reversals before it restored, so that the last five can be undone
//! together although they touch the same file.

mod plan;

use garret_core::path::quote;
use garret_core::{ChangeKind, Error, ErrorKind, Making, Origin, Result, Reversed, Selection};

use super::types::change_of;
use crate::change::Changing;
use crate::depot::Shared;
use crate::error::damaged;
use crate::metadata::{ChangeRow, Session, Standing};
use crate::workspace::DepotWorkspace;
use plan::{Plan, plan};

impl DepotWorkspace {
    /// Reverses the selected changes as one change. An empty selection is `not_found`.
    pub async fn undo(&self, selection: Selection, making: impl Into<Making>) -> Result<Reversed> {
        self.reverse(making.into(), move |session, workspace| {
            selected(session, workspace, &selection)
        })
        .await
    }

    /// Reverses the newest undo, unless new changes were made since. If there is no such undo, that is `not_found`.
    pub async fn redo(&self, making: impl Into<Making>) -> Result<Reversed> {
        self.reverse(making.into(), |session, workspace| {
            Ok(session.redoable(workspace)?.into_iter().collect())
        })
        .await
    }

    async fn reverse(
        &self,
        making: Making,
        select: impl FnOnce(Session<'_>, i64) -> Result<Vec<ChangeRow>> + Send + 'static,
    ) -> Result<Reversed> {
        let (shared, number, durability) = (self.shared().clone(), self.number, self.durability);
        let work = move |session: Session<'_>| {
            let targets = select(session, number)?;
            if targets.is_empty() {
                let error = Error::new(ErrorKind::NotFound, "there is no change to undo or redo");
                return Err(error.hint("list the history to see the changes"));
            }
            let changing = Changing::begin(session, &shared, number, durability)?;
            reverse(session, &shared, changing, &targets, making)
        };
        self.write(work).await
    }
}

fn selected(session: Session<'_>, workspace: i64, selection: &Selection) -> Result<Vec<ChangeRow>> {
    match selection {
        Selection::Last(count) => session.standing(workspace, Standing::Last(*count)),
        Selection::Session(name) => session.standing(workspace, Standing::Session(name)),
        Selection::ToolCall { call, session: of } => {
            let mut rows = session.standing(workspace, Standing::ToolCall(call))?;
            rows.retain(|row| of.is_none() || row.session == *of);
            let sessions = rows.iter().map(|row| row.session.clone()).collect();
            Selection::check_one_session(call, &sessions)?;
            Ok(rows)
        }
        Selection::Change(id) => Ok(vec![undoable(session, workspace, id)?]),
        Selection::Changes(ids) => {
            let found = ids.iter().map(|id| undoable(session, workspace, id));
            let mut rows = found.collect::<Result<Vec<_>>>()?;
            rows.sort_by_key(|row| std::cmp::Reverse(row.seq));
            rows.dedup_by_key(|row| row.seq);
            Ok(rows)
        }
    }
}

/// Returns the change with the id or the number `id`, which must not be undone.
fn undoable(session: Session<'_>, workspace: i64, id: &str) -> Result<ChangeRow> {
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
fn reverse(
    session: Session<'_>,
    shared: &Shared,
    mut changing: Changing<'_>,
    targets: &[ChangeRow],
    making: Making,
) -> Result<Reversed> {
    let workspace = changing.workspace();
    let entries = match plan(session, &changing, targets)? {
        Plan::Clashes(clashes) => return Ok(Reversed::Clashed(clashes)),
        Plan::Entries(entries) => entries,
    };
    for (path, node) in entries {
        changing.set(&path, node)?;
    }
    for target in targets {
        for (source, place) in session.moves(workspace, target.seq)?.into_iter().rev() {
            changing.note_move(&place, &source)?;
        }
    }
    let seq = changing.seq();
    // A change of the journal even if no path differs: the undo itself must be visible, and the targets must count as
    // undone.
    changing.touch();
    let making = Making {
        origin: described(targets, making.origin),
        ..making
    };
    changing.finish(shared, kind_of(targets), making)?;
    for target in targets {
        session.add_reversal(workspace, seq, target.seq)?;
        hold(session, workspace, target.seq, seq)?;
    }
    let row = session
        .change(workspace, seq)?
        .ok_or_else(|| damaged("a change is missing from the journal"))?;
    Ok(Reversed::Done(Box::new(change_of(session, row)?)))
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

fn described(targets: &[ChangeRow], origin: Origin) -> Origin {
    let verb = kind_of(targets).as_str();
    let summary = match targets {
        _ if !origin.summary.is_empty() => origin.summary,
        // The summary names the original change, without the words of earlier reversals: "undo: redo: undo: …" would
        // grow without end.
        [one] => format!("{verb}: {}", plain(&one.summary)),
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
fn plain(mut summary: &str) -> &str {
    while let Some(rest) = summary
        .strip_prefix("undo: ")
        .or_else(|| summary.strip_prefix("redo: "))
    {
        summary = rest;
    }
    summary
}

/// An update of a change's mark, after another change was reversed.
enum Step {
    /// Marks `seq` as undone by `by`. If `seq` was in effect until now, the changes that it reverses are released.
    Hold { seq: i64, by: i64 },
    /// Releases `seq`: it is in effect again, unless another change that is in effect reverses it, too. If it is in
    /// effect, it holds again the changes that it reverses.
    Release(i64),
}

/// Marks `seq` as undone by `by`, and updates the marks of the changes that this affects.
fn hold(session: Session<'_>, workspace: i64, seq: i64, by: i64) -> Result<()> {
    // A stack instead of recursion: undos of undos can form a chain as long as the journal.
    let mut steps = vec![Step::Hold { seq, by }];
    while let Some(step) = steps.pop() {
        let following = follow(session, workspace, &step)?;
        steps.extend(following.into_iter().rev());
    }
    Ok(())
}

fn follow(session: Session<'_>, workspace: i64, step: &Step) -> Result<Vec<Step>> {
    match *step {
        Step::Hold { seq, by } => {
            let row = session.change(workspace, seq)?;
            session.set_undone_by(workspace, seq, Some(by))?;
            if row.is_none_or(|row| row.undone_by.is_some()) {
                return Ok(Vec::new());
            }
            let held = session.reversals(workspace, seq)?;
            Ok(held.into_iter().map(Step::Release).collect())
        }
        Step::Release(seq) => {
            let other = session.standing_reversal(workspace, seq)?;
            session.set_undone_by(workspace, seq, other)?;
            if other.is_some() {
                return Ok(Vec::new());
            }
            let held = session.reversals(workspace, seq)?;
            Ok(held
                .into_iter()
                .map(|target| Step::Hold { seq: target, by: seq })
                .collect())
        }
    }
}
