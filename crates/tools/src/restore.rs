//! `restore`: restores the workspace, or a part of it, to a point.

use garret_core::Point;
use garret_workspace::{HistoryOperationResult, RestoreRequest, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::point;
use crate::tool::{Tool, ToolResult};
use crate::{Annotations, AnswerLimits, change_text};

pub(crate) struct RestoreTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Snapshot label, change, or time.
    #[serde(deserialize_with = "point::required")]
    to: String,
    /// Only this file or directory.
    #[serde(default)]
    path: String,
    dry_run: Option<bool>,
}

/// The answer to a restore if nothing differs.
pub(crate) const NOTHING_TO_RESTORE: &str = "nothing to restore: the files are already in that state";

impl Tool for RestoreTool {
    type Arguments = Arguments;
    type Data = HistoryOperationResult;

    const NAME: &'static str = "restore";
    const SHORT: &'static str = "restore";
    const TITLE: &'static str = "Restore a snapshot";
    const DESCRIPTION: &'static str = "Restores the workspace, or one path, to a point, as one change.";
    const ANNOTATIONS: Annotations = Annotations::REPLACES;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
        let request = RestoreRequest {
            point: Point::parse_or_now(Some(&arguments.to)),
            path: Some(arguments.path).filter(|path| !path.is_empty()),
        };
        let result = if arguments.dry_run.unwrap_or(false) {
            workspace.plan_restore(request).await?
        } else {
            workspace.restore(request).await?
        };
        Ok(change_text::format_result(result, NOTHING_TO_RESTORE, None, limits))
    }
}
