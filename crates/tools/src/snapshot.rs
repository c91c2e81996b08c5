//! `snapshot`: names the state of the workspace.

use garret_core::path::quote;
use garret_core::{Point, Snapshot, SnapshotOptions};
use garret_workspace::Workspace;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::point::text_or_number;
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct SnapshotTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Unique name for the state.
    label: String,
    /// Point to name; default now.
    #[serde(default, deserialize_with = "text_or_number")]
    at: Option<String>,
    /// Do not read files that history has not captured; they cannot be restored.
    lazy: Option<bool>,
}

impl Tool for SnapshotTool {
    type Arguments = Arguments;
    type Data = Snapshot;

    const NAME: &'static str = "snapshot";
    const SHORT: &'static str = "snapshot";
    const TITLE: &'static str = "Take a snapshot";
    const DESCRIPTION: &'static str = "Names the state of the workspace, to compare with, restore or branch from later. Costs almost nothing: take one before risky work.";
    const ANNOTATIONS: Annotations = Annotations::CREATES;

    async fn run(workspace: &Workspace, arguments: Arguments, _limits: &AnswerLimits) -> ToolResult<Self> {
        let options = SnapshotOptions {
            point: Point::parse_or_now(arguments.at.as_deref()),
            is_lazy: arguments.lazy.unwrap_or(false),
        };
        let snapshot = workspace.snapshot(&arguments.label, options).await?;
        let text = format!("snapshot {} names change #{}", quote(&snapshot.label), snapshot.number);
        Ok(ToolOutput::new(text, snapshot))
    }
}
