//! Commits undo, redo and restore.

use async_trait::async_trait;
use garret_core::{Change, Error, HistoryOperation, Origin, PathChange, Result};

use crate::commit::{ChangePlanner, CommitOptions, CommitPlan, CommitWork};
use crate::file_access::FileAccess;
use crate::history::HistoryAccess;

/// Plans an operation of the history.
struct OperationPlanner<'a> {
    operation: &'a HistoryOperation,
    origin: Origin,
}

#[async_trait]
impl ChangePlanner for OperationPlanner<'_> {
    async fn plan_change(&mut self, files: &FileAccess, _conflict: Option<Error>) -> Result<CommitPlan> {
        let plan = files.journal()?.plan(self.operation).await?;
        if !plan.clashes.is_empty() {
            return Err(files.view.clash_error(&plan.clashes));
        }
        Ok(CommitPlan {
            work: CommitWork::Puts(plan.puts, self.origin.clone()),
            paths: Some(plan.paths),
        })
    }
}

impl HistoryAccess<'_> {
    /// Commits `operation` unless it is only tried. Returns the paths and the change; no change if nothing differs.
    pub(crate) async fn commit_operation(
        &self,
        operation: &HistoryOperation,
        name: &'static str,
        dry_run: bool,
    ) -> Result<(Vec<PathChange>, Option<Change>)> {
        let mut planner = OperationPlanner {
            operation,
            origin: self.files.change_origin(name, String::new()),
        };
        let options = CommitOptions {
            dry_run,
            ..CommitOptions::default()
        };
        self.files.commit_change(&mut planner, options).await?.into_change()
    }
}
