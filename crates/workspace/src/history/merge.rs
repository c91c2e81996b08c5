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

use std::collections::BTreeSet;

use garret_core::{ChangePlan, EntryKind, EntryPath, Error, ErrorKind, MergeInput, PathChange, PutBatch, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ChangeShown;
use super::changes::mark_paths;
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
            let history = self.files.history()?;
            let input = history.merge_input(other, self.shared.neighbours.as_deref()).await?;
            history.merge_workspace(input, options).await
        };
        self.run_operation("merge", &[], |_| 0, work).await
    }
}

impl HistoryAccess<'_> {
    async fn merge_workspace(&self, merging: MergeInput, options: MergeOptions) -> Result<MergeReport> {
        let may_read = |path: &EntryPath| self.files.view.is_recorded_path_visible(path);
        let plan = plan::plan_merge(&merging, options.on_conflict, &may_read).await?;
        if plan.is_hiding {
            let message = "the merge has conflicts in files that this view may not read";
            return Err(Error::new(ErrorKind::Denied, message).hint("merge from a view that may read them"));
        }
        let is_blocked = !plan.conflicts.is_empty() && options.on_conflict == OnConflict::Report;
        let mut merged = MergeReport {
            change: None,
            paths: Vec::new(),
            conflicts: plan.conflicts,
            dry_run: options.dry_run,
        };
        if is_blocked {
            return Ok(merged);
        }
        let _turns = self.files.view.take_quota_turns().await;
        let paths = self.journal.plan_put(&plan.puts).await?;
        let planned = ChangePlan {
            left_alone: self.excluded_paths(&plan.puts, &paths),
            paths,
            ..ChangePlan::default()
        };
        // A trial must refuse every merge that would be refused when it is written.
        self.files.measure_plan_limits().await?.check_changes(&planned.paths)?;
        merged.paths = mark_paths(&self.files.view.visible_path_changes(planned.paths.clone())).collect();
        if options.dry_run {
            return Ok(merged);
        }
        let summary = format!("merge {}", garret_core::path::quote(&merging.theirs.name));
        let origin = self.files.change_origin("merge", summary);
        if let Some(change) = self.journal.put(plan.puts, origin).await? {
            merged.change = Some(self.show_made_change(change, planned).await?);
        }
        Ok(merged)
    }

    /// Returns the excluded paths that the history leaves out of its plan `paths` for the puts of a merge.
    fn excluded_paths(&self, puts: &PutBatch, paths: &[PathChange]) -> Vec<EntryPath> {
        let planned: BTreeSet<_> = paths.iter().map(|one| &one.path).collect();
        let left = puts.puts.iter().filter(|put| !planned.contains(&put.path));
        let excluded = left.filter_map(|put| {
            let top = self
                .files
                .source
                .exclusions
                .excluded_ancestor(put.path.as_bytes(), true)?;
            Some(EntryPath::from_bytes(top.to_vec()))
        });
        let tops: BTreeSet<_> = excluded.collect();
        tops.into_iter().collect()
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
