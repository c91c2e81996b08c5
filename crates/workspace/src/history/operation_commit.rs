//! Commits undo, redo and restore, and shows the outcome.

use async_trait::async_trait;
use garret_core::{Change, EntryPath, Error, HistoryOperation, Origin, PathChange, Result};

use super::left_alone::excluded_paths;
use crate::commit::{ChangePlanner, CommitOptions, CommitPlan, CommitWork};
use crate::file_access::FileAccess;
use crate::history::HistoryAccess;
use crate::{HistoryOperationResult, PathsLeftAlone, SteppedOverChanges};

/// The outcome of an operation of the history, or of its dry run.
pub(crate) struct OperationOutcome {
    /// The state of each path before and after.
    pub(crate) paths: Vec<PathChange>,
    /// The excluded paths that the operation left as they are.
    pub(crate) left_alone: Vec<EntryPath>,
    /// The numbers of the changes of derived files that an undo stepped over.
    pub(crate) stepped_over: Vec<u64>,
    /// The change; none if nothing differs, and in a dry run.
    pub(crate) change: Option<Change>,
    pub(crate) dry_run: bool,
}

/// Plans an operation of the history.
struct OperationPlanner<'a> {
    operation: &'a HistoryOperation,
    origin: Origin,
    /// The excluded paths that the history left out of the last plan.
    left_alone: Vec<EntryPath>,
    /// The numbers of the changes that the last plan steps over.
    stepped_over: Vec<u64>,
    /// The paths of its puts.
    planned: Vec<EntryPath>,
}

#[async_trait]
impl ChangePlanner for OperationPlanner<'_> {
    async fn plan_change(&mut self, files: &FileAccess, _conflict: Option<Error>) -> Result<CommitPlan> {
        let plan = files.journal()?.plan(self.operation).await?;
        if !plan.clashes.is_empty() {
            return Err(files.view.clash_error(&plan.clashes));
        }
        self.left_alone = plan.left_alone;
        self.stepped_over = plan.stepped_over;
        self.planned = plan.puts.puts.iter().map(|put| put.path.clone()).collect();
        Ok(CommitPlan {
            work: CommitWork::Puts(plan.puts, self.origin.clone()),
            paths: Some(plan.paths),
        })
    }
}

impl HistoryAccess<'_> {
    /// Commits `operation` unless it is only tried.
    pub(crate) async fn commit_operation(
        &self,
        operation: &HistoryOperation,
        name: &'static str,
        dry_run: bool,
    ) -> Result<OperationOutcome> {
        let mut planner = OperationPlanner {
            operation,
            origin: self.files.change_origin(name, String::new()),
            left_alone: Vec::new(),
            stepped_over: Vec::new(),
            planned: Vec::new(),
        };
        let options = CommitOptions {
            dry_run,
            ..CommitOptions::default()
        };
        let (paths, change) = self.files.commit_change(&mut planner, options).await?.into_change()?;
        let mut left_alone = planner.left_alone;
        left_alone.extend(excluded_paths(&self.files.source.exclusions, &planner.planned, &paths));
        Ok(OperationOutcome {
            paths,
            left_alone,
            stepped_over: planner.stepped_over,
            change,
            dry_run,
        })
    }

    /// Commits `operation` unless it is only tried, and returns the result as this view shows it.
    pub(crate) async fn run_history_operation(
        &self,
        operation: &HistoryOperation,
        name: &'static str,
        dry_run: bool,
    ) -> Result<HistoryOperationResult> {
        let outcome = self.commit_operation(operation, name, dry_run).await?;
        self.show_outcome(outcome).await
    }

    /// Returns the result of an operation as this view shows it.
    pub(crate) async fn show_outcome(&self, outcome: OperationOutcome) -> Result<HistoryOperationResult> {
        let shown = match outcome.change {
            Some(change) => self.visible_change(change.clone()).await?.unwrap_or(change).into(),
            None => {
                let paths = self.files.view.visible_path_changes(outcome.paths);
                HistoryOperationResult::from_plan(&paths, outcome.dry_run)
            }
        };
        let left_alone = PathsLeftAlone::of_plan(&self.files.view, &outcome.left_alone);
        Ok(HistoryOperationResult {
            left_alone,
            stepped_over: SteppedOverChanges::from_numbers(&outcome.stepped_over),
            ..shown
        })
    }
}
