//! `restore_version`: restores one file to an earlier version.

use garret_workspace::{HistoryOperationResult, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::point;
use crate::restore::NOTHING_TO_RESTORE;
use crate::tool::{Tool, ToolResult};
use crate::{Annotations, AnswerLimits, change_text};

pub(crate) struct RestoreVersionTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// May be a deleted file.
    path: String,
    /// From history with `versions`, or a change.
    #[serde(deserialize_with = "point::required")]
    version: String,
    dry_run: Option<bool>,
}

impl Tool for RestoreVersionTool {
    type Arguments = Arguments;
    type Data = HistoryOperationResult;

    const NAME: &'static str = "restore_version";
    const SHORT: &'static str = "restore_version";
    const TITLE: &'static str = "Restore a version of a file";
    const DESCRIPTION: &'static str = "Restores one file to an earlier version.";
    const ANNOTATIONS: Annotations = Annotations::REPLACES;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
        let Arguments { path, version, dry_run } = arguments;
        let result = if dry_run.unwrap_or(false) {
            workspace.plan_restore_version(&path, &version).await?
        } else {
            workspace.restore_version(&path, &version).await?
        };
        Ok(change_text::format_result(result, NOTHING_TO_RESTORE, None, limits))
    }
}
