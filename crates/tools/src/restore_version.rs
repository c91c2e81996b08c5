//! `restore_version`: restores one file to an earlier version.

use garret_core::Result;
use garret_workspace::Workspace;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::answer_limits::AnswerLimits;
use crate::point;
use crate::tool::{Tool, ToolOutput};
use crate::{Annotations, restore_outcome};

pub(crate) struct RestoreVersionTool;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// May be a deleted file.
    path: String,
    /// From history with `versions`, or a change.
    #[serde(deserialize_with = "point::required")]
    version: String,
    #[serde(default)]
    dry_run: Option<bool>,
}

impl Tool for RestoreVersionTool {
    type Arguments = Arguments;
    type Data = restore_outcome::RestoreData;

    const NAME: &'static str = "restore_version";
    const SHORT: &'static str = "restore_version";
    const TITLE: &'static str = "Restore a version of a file";
    const DESCRIPTION: &'static str = "Restores one file to an earlier version.";
    const ANNOTATIONS: Annotations = Annotations::REPLACES;

    async fn run(
        workspace: &Workspace,
        arguments: Arguments,
        limits: &AnswerLimits,
    ) -> Result<ToolOutput<restore_outcome::RestoreData>> {
        if arguments.dry_run.unwrap_or(false) {
            let planned = workspace
                .plan_restore_version(&arguments.path, &arguments.version)
                .await?;
            return Ok(restore_outcome::format_plan(planned, limits));
        }
        let change = workspace.restore_version(&arguments.path, &arguments.version).await?;
        Ok(restore_outcome::format_outcome(change, limits))
    }
}
