//! `restore`: restores the workspace, or a part of it, to a point.

use garret_core::{Point, Result};
use garret_workspace::{HistoryOperationResult, RestoreRequest, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::answer_limits::AnswerLimits;
use crate::point;
use crate::tool::{Tool, ToolOutput};
use crate::{Annotations, change_text};

pub(crate) struct RestoreTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// Snapshot label, change, or time.
    #[serde(deserialize_with = "point::required")]
    to: String,
    /// Only this file or directory.
    #[serde(default)]
    path: String,
    #[serde(default)]
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

    async fn run(
        workspace: &Workspace,
        arguments: Arguments,
        limits: &AnswerLimits,
    ) -> Result<ToolOutput<HistoryOperationResult>> {
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
