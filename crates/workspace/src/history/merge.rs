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
use garret_core::{EntryKind, EntryPath, Error, ErrorKind, MergeInput, PutBatch, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ChangeShown;
use super::changes::mark_paths;
use crate::commit::{ChangePlanner, CommitOptions, CommitPlan, CommitWork};
use crate::file_access::FileAccess;
use crate::history::HistoryAccess;
use crate::{NeighbourWorkspaces, Workspace};

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

/// The result of a merge, or of its trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MergeReport {
    /// The change that it made; absent if nothing was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<ChangeShown>,
    /// The paths that it changed here, or would change, in order, each after `+` (created), `~` (changed) or `-`
    /// (deleted); none if conflicts keep it from being written.
    pub paths: Vec<String>,
    /// The entries that both sides changed differently.
    pub conflicts: Vec<Conflict>,
    /// Set if the merge was only tried.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// Something that both sides changed differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Conflict {
    /// The path in this workspace, or in the other one if it does not exist here.
    pub path: String,
    /// The kind of the conflict.
    pub kind: ConflictKind,
    /// Conflicting regions of the text; 0 if the conflict is not about lines.
    pub hunks: usize,
    /// The common entry before both changes; absent if it did not exist or was not captured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<ConflictSide>,
    /// The entry in this workspace; absent if it does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours: Option<ConflictSide>,
    /// The entry in the other workspace; absent if it does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theirs: Option<ConflictSide>,
}

/// The kind of a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConflictKind {
    /// Both changed the content, or where a link points.
    Content,
    /// Each has something else at the path, which neither had before.
    BothAdded,
    /// It was deleted here and changed there.
    DeletedByUs,
    /// It was changed here and deleted there.
    DeletedByThem,
    /// Each gave it another name.
    RenameRename,
    /// One renamed it and the other deleted it.
    RenameDelete,
    /// One changed it and the other made something else of it.
    Type,
    /// Each gave it other permission bits.
    Mode,
    /// One has a file or link where the other has a directory.
    DirectoryFile,
}

impl ConflictKind {
    /// Returns the meaning of the conflict, in a few words that follow a path.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Content => "both sides changed it",
            Self::BothAdded => "both sides added it with different content",
            Self::DeletedByUs => "deleted in this workspace, changed in the branch",
            Self::DeletedByThem => "changed in this workspace, deleted in the branch",
            Self::RenameRename => "both sides renamed it differently",
            Self::RenameDelete => "one side renamed it, the other deleted it",
            Self::Type => "one side changed it, the other changed its type",
            Self::Mode => "both sides changed its permissions differently",
            Self::DirectoryFile => "a file on one side, a directory on the other",
        }
    }
}

/// The entry of one side in a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConflictSide {
    /// Its path there.
    pub path: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    /// Its permission bits, in octal digits.
    pub mode: String,
    /// Bytes of content.
    pub size: u64,
    /// Where a link points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Its text; absent if it is not text, is long, or may not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Workspace {
    /// Merges the workspace `other`, by name or id, into this one, as one change that can be undone. If there is a
    /// conflict, nothing is touched, unless `options` say how conflicts are resolved. A merge that would change a file
    /// which this view may not write is `denied`, and nothing is touched either. Changes that other programs made to
    /// the files of `other` are merged, too.
    pub async fn merge(&self, other: &str, options: MergeOptions) -> Result<MergeReport> {
        let work = async {
            self.files.view.check_whole()?;
            let planner = MergePlanner {
                other,
                options,
                neighbours: self.shared.neighbours.as_deref(),
                report: MergeReport {
                    change: None,
                    paths: Vec::new(),
                    conflicts: Vec::new(),
                    dry_run: options.dry_run,
                },
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
    /// The report, with the conflicts of the last plan.
    report: MergeReport,
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
        self.report.conflicts = plan.conflicts;
        let summary = format!("merge {}", garret_core::path::quote(&merging.theirs.name));
        let puts = if is_blocked { PutBatch::default() } else { plan.puts };
        Ok(CommitPlan {
            work: CommitWork::Puts(puts, files.change_origin("merge", summary)),
            paths: is_blocked.then(Vec::new),
        })
    }
}

impl HistoryAccess<'_> {
    async fn commit_merge(&self, mut planner: MergePlanner<'_>) -> Result<MergeReport> {
        let options = CommitOptions {
            dry_run: planner.options.dry_run,
            ..CommitOptions::default()
        };
        let (paths, change) = self.files.commit_change(&mut planner, options).await?.into_change()?;
        let mut merged = planner.report;
        merged.paths = mark_paths(&self.files.view.visible_path_changes(paths.clone())).collect();
        if let Some(change) = change {
            merged.change = Some(self.show_made_change(change, paths).await?);
        }
        Ok(merged)
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
