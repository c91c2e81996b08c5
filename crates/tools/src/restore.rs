//! `restore`: restores the workspace, or a part of it, to a point.

use garret_core::{Point, Result};
use garret_workspace::{RestoreRequest, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::answer_limits::AnswerLimits;
use crate::point;
use crate::tool::{Tool, ToolOutput};
use crate::{Annotations, restore_outcome};

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

impl Tool for RestoreTool {
    type Arguments = Arguments;
    type Data = restore_outcome::RestoreData;

    const NAME: &'static str = "restore";
    const SHORT: &'static str = "restore";
    const TITLE: &'static str = "Restore a snapshot";
    const DESCRIPTION: &'static str =
        "Restores the workspace, or one path, to a point, as one change that undo takes back.";
    const ANNOTATIONS: Annotations = Annotations::REPLACES;

    async fn run(
        workspace: &Workspace,
        arguments: Arguments,
        limits: &AnswerLimits,
    ) -> Result<ToolOutput<restore_outcome::RestoreData>> {
        let request = RestoreRequest {
            point: Point::parse_or_now(Some(&arguments.to)),
            path: Some(arguments.path).filter(|path| !path.is_empty()),
        };
        if arguments.dry_run.unwrap_or(false) {
            let planned = workspace.plan_restore(request).await?;
            return Ok(restore_outcome::format_plan(planned, limits));
        }
        let change = workspace.restore(request).await?;
        Ok(restore_outcome::format_outcome(change, limits))
    }
}
