//! Merging: brings the changes of another workspace, made since both last had the same files, into this one as one
//! change.
//!
//! Files are merged by path, across renames, and by line if they are text. A change of one side is taken; equal changes
//! of both sides are no conflict; all other changes are conflicts, and by default nothing is touched then. The plan is
//! made here from data alone; the history applies it as one change, or refuses it if a path has changed since the plan
//! was made.
//!
//! If conflicts are to be written, both sides are kept. In a text, both versions and the base stand between markers. A
//! file that one side deleted and the other changed stays as it was changed. If two versions cannot be in one file, or
//! a name is taken, our side keeps the name and theirs is put beside it, as `NAME~THEIRS`. A merge that would make a
//! path that no tool can open is refused.

mod content_merge;
mod decision;
mod forest;
mod moves;
mod plan;
mod puts;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use garret_core::{EntryPath, Error, ErrorKind, MergeInput, PutBatch, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::left_alone::excluded_paths;
use super::operation_commit::OperationOutcome;
use crate::commit::{ChangePlanner, CommitOptions, CommitPlan, CommitWork};
use crate::file_access::FileAccess;
use crate::history::HistoryAccess;
use crate::{Conflict, MergeResult, NeighbourWorkspaces, Workspace};

/// How conflicts, which are entries that both sides changed differently, are resolved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    /// It is reported, and nothing is touched.
    #[default]
    Report,
    /// Both sides are written: texts with markers, anything else side by side.
    Markers,
    /// This workspace wins if both versions cannot be kept.
    Ours,
    /// The other workspace wins if both versions cannot be kept.
    Theirs,
}

/// How to merge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MergeOptions {
    /// How conflicts are resolved.
    pub on_conflict: OnConflict,
    /// Whether the merge is only planned, and nothing is written.
    pub dry_run: bool,
}

impl Workspace {
    /// Merges the workspace `other`, by name or id, into this one, as one change that can be undone. If there is a
    /// conflict, nothing is touched, unless `options` say how conflicts are resolved. A merge that would change a file
    /// which this view may not write is `denied`, and nothing is touched either. Changes that other programs made to
    /// the files of `other` are merged, too.
    pub async fn merge(&self, other: &str, options: MergeOptions) -> Result<MergeResult> {
        let work = async {
            self.files.view.check_whole()?;
            let planner = MergePlanner {
                other,
                options,
                neighbours: self.shared.neighbours.as_deref(),
                conflicts: Vec::new(),
                planned: Vec::new(),
            };
            self.files.history()?.commit_merge(planner).await
        };
        self.run_operation("merge", &[], |_| 0, work).await
    }
}

/// Plans a merge.
struct MergePlanner<'a> {
    other: &'a str,
    options: MergeOptions,
    neighbours: Option<&'a dyn NeighbourWorkspaces>,
    /// The conflicts of the last plan.
    conflicts: Vec<Conflict>,
    /// The paths of its puts.
    planned: Vec<EntryPath>,
}

#[async_trait]
impl ChangePlanner for MergePlanner<'_> {
    async fn plan_change(&mut self, files: &FileAccess, _conflict: Option<Error>) -> Result<CommitPlan> {
        let merging = files.history()?.merge_input(self.other, self.neighbours).await?;
        let may_read = |path: &EntryPath| files.view.is_recorded_path_visible(path);
        let plan = plan::plan_merge(&merging, self.options.on_conflict, &may_read).await?;
        if plan.is_hiding {
            let message = "the merge has conflicts in files that this view may not read";
            return Err(Error::new(ErrorKind::Denied, message).hint("merge from a view that may read them"));
        }
        let is_blocked = !plan.conflicts.is_empty() && self.options.on_conflict == OnConflict::Report;
        self.conflicts = plan.conflicts;
        let summary = format!("merge {}", garret_core::path::quote(&merging.theirs.name));
        let puts = if is_blocked { PutBatch::default() } else { plan.puts };
        self.planned = puts.puts.iter().map(|put| put.path.clone()).collect();
        Ok(CommitPlan {
            work: CommitWork::Puts(puts, files.change_origin("merge", summary)),
            paths: is_blocked.then(Vec::new),
        })
    }
}

impl HistoryAccess<'_> {
    async fn commit_merge(&self, mut planner: MergePlanner<'_>) -> Result<MergeResult> {
        let dry_run = planner.options.dry_run;
        let options = CommitOptions {
            dry_run,
            ..CommitOptions::default()
        };
        let (paths, change) = self.files.commit_change(&mut planner, options).await?.into_change()?;
        let outcome = OperationOutcome {
            left_alone: excluded_paths(&self.files.source.exclusions, &planner.planned, &paths),
            stepped_over: Vec::new(),
            paths,
            change,
            dry_run,
        };
        Ok(MergeResult {
            outcome: self.show_outcome(outcome).await?,
            conflict_count: planner.conflicts.len() as u64,
            conflicts: planner.conflicts,
        })
    }

    /// Returns the base and both sides of a merge, with the changes that other programs made to the files of `other`.
    async fn merge_input(&self, other: &str, neighbours: Option<&dyn NeighbourWorkspaces>) -> Result<MergeInput> {
        let merging = self.journal.merge_input(other).await?;
        // Only after the history has found it: files of an unrelated workspace must not be read for this one.
        let id = &merging.point.workspace;
        match neighbours {
            Some(neighbours) if neighbours.record_outside_changes(id).await? => self.journal.merge_input(id).await,
            _ => Ok(merging),
        }
    }
}
