//! The one function through which every mutation of a workspace goes: batches of file operations, undo, redo, restore,
//! merges, and the effects of commands.
//!
//! A change is planned as data, reviewed once, and committed on the condition that the states before it still hold. If
//! they do not, it is planned again. The background processes are paused from before the plan until after the commit,
//! so that their own effects do not come between.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{
    Batch, Change, ChangeKind, DerivedFiles, Error, ErrorKind, Follow, Mutation, MutationOutcome, NewBranch, Origin,
    PathChange, Point, PutBatch, Result, Storage,
};

use crate::file_access::FileAccess;
use crate::history::left_alone::drop_excluded;
use crate::quota::QuotaTurns;
use crate::shell::background::live_layer::{ForeseenChange, ProcessPause};
use crate::shell::effects::effects_plan::add_missing_directories;

/// The most times that a change is planned because the files changed between the plan and the commit.
const MAX_ATTEMPTS: usize = 5;

/// Plans a change by the present files.
#[async_trait]
pub(crate) trait ChangePlanner: Send {
    /// Plans the change. `conflict` is the error of the last plan, whose states no longer held when it was committed;
    /// `None` the first time. An error ends the commit.
    async fn plan_change(&mut self, files: &FileAccess, conflict: Option<Error>) -> Result<CommitPlan>;
}

/// A planned change: everything that it would do, as data.
pub(crate) struct CommitPlan {
    pub(crate) work: CommitWork,
    /// The state of each path before and after. `None` if the planner does not know them: those of entries for the
    /// history are then read from it, and mutations of admitted paths are looked at only as far as a limit needs it.
    pub(crate) paths: Option<Vec<PathChange>>,
}

/// The work of a planned change.
pub(crate) enum CommitWork {
    /// Mutations of the files, on the conditions that they carry.
    Mutations(Batch),
    /// Entries for the history, on the conditions that they carry.
    Puts(PutBatch, Origin),
    /// Entries for the history of a branch that does not exist yet.
    Branch(PutBatch, Origin, BranchStart),
}

/// The beginning of a new branch.
pub(crate) struct BranchStart {
    pub(crate) new: NewBranch,
    /// The number of the change after which it begins.
    pub(crate) base: u64,
    /// The files at that change.
    pub(crate) files: Arc<dyn Storage>,
}

/// How a change is committed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CommitOptions {
    /// Whether the change is reviewed and not made.
    pub(crate) dry_run: bool,
    /// Whether the caller holds the turns of the quotas already: to wait for those would never end.
    pub(crate) has_quota_turns: bool,
}

/// The report on a change that was to be committed.
pub(crate) struct CommitReport {
    /// The state of each path before and after; empty for mutations of admitted paths without limits.
    pub(crate) paths: Vec<PathChange>,
    pub(crate) outcome: CommitOutcome,
}

/// The outcome of a change that was to be committed.
pub(crate) enum CommitOutcome {
    /// The review refused it.
    Refused(Error),
    /// The review allowed it, and it was only tried.
    Reviewed,
    /// The mutations are applied.
    Applied(Vec<MutationOutcome>),
    /// The entries are in the history, or on the new branch, by this change; `None` if nothing differed.
    Changed(Option<Box<Change>>),
}

impl CommitReport {
    /// Returns the paths and the change of a plan for the history; the error if the review refused it.
    pub(crate) fn into_change(self) -> Result<(Vec<PathChange>, Option<Change>)> {
        match self.outcome {
            CommitOutcome::Refused(error) => Err(error),
            CommitOutcome::Changed(change) => Ok((self.paths, change.map(|change| *change))),
            _ => Ok((self.paths, None)),
        }
    }
}

/// A change that is planned already. It is not planned again: its conditions are those of the caller.
#[async_trait]
impl ChangePlanner for Option<CommitPlan> {
    async fn plan_change(&mut self, _: &FileAccess, conflict: Option<Error>) -> Result<CommitPlan> {
        let planned = self.take();
        planned.ok_or_else(|| conflict.expect("a plan is asked for again only after a conflict"))
    }
}

impl FileAccess {
    /// Applies the mutations as one atomic change. Their paths are admitted already.
    pub(crate) async fn commit_mutations(
        &self,
        operation: impl Into<Cow<'static, str>>,
        mutations: Vec<Mutation>,
        follow: Follow,
    ) -> Result<Vec<MutationOutcome>> {
        let operation = operation.into();
        let summary = summary_of(&operation, &mutations);
        let origin = self.change_origin(operation, summary);
        self.commit_with_origin(origin, mutations, follow).await
    }

    /// Applies the mutations as one atomic change with the given origin, for a caller whose summary says more than the
    /// mutations do.
    pub(crate) async fn commit_with_origin(
        &self,
        origin: Origin,
        mutations: Vec<Mutation>,
        follow: Follow,
    ) -> Result<Vec<MutationOutcome>> {
        let batch = Batch {
            mutations,
            follow,
            origin,
        };
        let work = CommitWork::Mutations(batch);
        let mut planned = Some(CommitPlan { work, paths: None });
        match self
            .commit_change(&mut planned, CommitOptions::default())
            .await?
            .outcome
        {
            CommitOutcome::Refused(error) => Err(error),
            CommitOutcome::Applied(outcomes) => Ok(outcomes),
            _ => Ok(Vec::new()),
        }
    }

    /// Plans a change, reviews it, and commits it unless it is only tried; plans it again if the files changed between
    /// the plan and the commit. Every mutation goes through this function.
    pub(crate) async fn commit_change(
        &self,
        planner: &mut dyn ChangePlanner,
        options: CommitOptions,
    ) -> Result<CommitReport> {
        // Held until the change is made, so that no other operation takes the room that the review finds.
        let mut turns = if options.has_quota_turns {
            self.view.held_quota_turns()
        } else {
            self.view.take_quota_turns().await
        };
        let mut pause = self.pause_processes().await?;
        if pause.has_committed() {
            turns.forget_counts();
        }
        let done = self
            .plan_and_commit(planner, options.dry_run, &mut turns, &mut pause)
            .await;
        let is_made = matches!(&done, Ok(report) if report.outcome.is_made());
        pause.end(is_made).await;
        if is_made {
            turns.mark_applied();
        }
        done
    }

    async fn plan_and_commit(
        &self,
        planner: &mut dyn ChangePlanner,
        dry_run: bool,
        turns: &mut QuotaTurns<'_>,
        pause: &mut ProcessPause<'_>,
    ) -> Result<CommitReport> {
        let (mut conflict, mut attempt) = (None, 1);
        loop {
            let plan = planner.plan_change(self, conflict.take()).await?;
            match self.commit_plan(plan, dry_run, turns, pause).await {
                Err(error) if error.kind() == ErrorKind::Conflict && attempt < MAX_ATTEMPTS => {
                    (conflict, attempt) = (Some(error), attempt + 1);
                }
                done => return done,
            }
        }
    }

    async fn commit_plan(
        &self,
        plan: CommitPlan,
        dry_run: bool,
        turns: &mut QuotaTurns<'_>,
        pause: &mut ProcessPause<'_>,
    ) -> Result<CommitReport> {
        let CommitPlan { mut work, paths } = plan;
        let is_admitted = paths.is_none();
        let mut paths = match (paths, &work) {
            (Some(paths), _) => paths,
            (None, CommitWork::Mutations(batch)) => self.preview_batch(batch).await?,
            (None, CommitWork::Puts(puts, _) | CommitWork::Branch(puts, ..)) => self.journal()?.plan_put(puts).await?,
        };
        if let CommitWork::Puts(puts, _) = &mut work {
            drop_excluded(&self.source.exclusions, puts, &mut paths);
        }
        if let CommitWork::Puts(puts, _) | CommitWork::Branch(puts, ..) = &mut work {
            mark_derived(&self.source.derived, puts, &paths);
        }
        let admitted = match &work {
            CommitWork::Mutations(batch) if is_admitted => Some(batch),
            _ => None,
        };
        let reviewed = match &work {
            // The count of the files says nothing about those of the branch.
            CommitWork::Branch(.., start) => {
                let mut turns = self.view.held_quota_turns();
                self.review_change(&paths, admitted, &*start.files, &mut turns).await
            }
            _ => self.review_change(&paths, admitted, self.storage(), turns).await,
        };
        let outcome = match reviewed {
            Err(refusal) => CommitOutcome::Refused(refusal),
            Ok(()) if dry_run => CommitOutcome::Reviewed,
            Ok(()) => {
                let foreseen = || match &work {
                    CommitWork::Mutations(batch) => ForeseenChange::from_mutations(&batch.mutations),
                    CommitWork::Puts(..) => ForeseenChange::from_path_changes(&paths),
                    CommitWork::Branch(..) => ForeseenChange::default(),
                };
                pause.prepare_change(foreseen).await?;
                self.carry_out(work, paths.is_empty()).await?
            }
        };
        Ok(CommitReport { paths, outcome })
    }

    async fn carry_out(&self, work: CommitWork, is_empty: bool) -> Result<CommitOutcome> {
        match work {
            CommitWork::Mutations(batch) if batch.mutations.is_empty() => Ok(CommitOutcome::Applied(Vec::new())),
            CommitWork::Mutations(batch) => self.storage().apply(batch).await.map(CommitOutcome::Applied),
            CommitWork::Puts(puts, _) if is_empty && puts.reverses.is_empty() && puts.merged.is_none() => {
                Ok(CommitOutcome::Changed(None))
            }
            CommitWork::Puts(puts, origin) => {
                let change = self.journal()?.put(puts, origin).await?;
                Ok(CommitOutcome::Changed(change.map(Box::new)))
            }
            CommitWork::Branch(mut puts, origin, start) => {
                let journal = self.journal()?;
                let made = journal.branch(start.new, &Point::Number(start.base)).await?;
                let branch = journal.branch_history(&made.id).await?;
                add_missing_directories(&*branch.open_view(&Point::Now).await?, &mut puts).await?;
                let change = branch.put(puts, origin).await?;
                Ok(CommitOutcome::Changed(change.map(Box::new)))
            }
        }
    }

    /// Returns the origin of a change of this workspace: the operation, its summary and the actor.
    pub(crate) fn change_origin(&self, operation: impl Into<Cow<'static, str>>, summary: String) -> Origin {
        Origin {
            operation: operation.into(),
            summary,
            actor: (*self.actor).clone(),
            command: None,
        }
    }
}

impl CommitOutcome {
    /// Whether the files of the workspace were changed.
    fn is_made(&self) -> bool {
        matches!(self, Self::Applied(_) | Self::Changed(Some(_)))
    }
}

/// Marks the effects of a command or code as a change of derived files if they touch nothing else.
fn mark_derived(derived: &DerivedFiles, puts: &mut PutBatch, paths: &[PathChange]) {
    // Undo, redo and restore have kinds of their own, and a merge has its point: every other put is of effects.
    let is_of_effects = puts.kind == ChangeKind::Change && puts.merged.is_none();
    if is_of_effects && derived.cover_changes(paths) {
        puts.kind = ChangeKind::Derived;
    }
}

/// Returns a summary for operations whose mutations would describe them wrongly: an edit is stored as a write. Empty
/// for the others.
fn summary_of(operation: &str, mutations: &[Mutation]) -> String {
    let verb = match operation {
        "edit_file" => "edit",
        "apply_patch" => "patch",
        _ => return String::new(),
    };
    match mutations {
        [] => String::new(),
        [one] => format!("{verb} {}", one.path().to_quoted()),
        [first, rest @ ..] => format!("{verb} {} and {} more", first.path().to_quoted(), rest.len()),
    }
}
