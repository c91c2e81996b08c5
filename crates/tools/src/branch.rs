//! `branch`: makes a second workspace that begins at a point of this one.

use garret_core::path::quote;
use garret_core::{Branch, Point};
use garret_workspace::Workspace;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::point::text_or_number;
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct BranchTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Name of the new workspace.
    name: String,
    /// Snapshot label, change, or time; default now.
    #[serde(default, deserialize_with = "text_or_number")]
    from: Option<String>,
}

impl Tool for BranchTool {
    type Arguments = Arguments;
    type Data = Branch;

    const NAME: &'static str = "branch";
    const SHORT: &'static str = "branch";
    const TITLE: &'static str = "Make a branch";
    const DESCRIPTION: &'static str = "Makes a new workspace that begins with the files of this one. These tools stay on this workspace; merge brings the work of the branch back.";
    const ANNOTATIONS: Annotations = Annotations::CREATES;

    async fn run(workspace: &Workspace, arguments: Arguments, _limits: &AnswerLimits) -> ToolResult<Self> {
        let from = Point::parse_or_now(arguments.from.as_deref());
        let branch = workspace.branch(&arguments.name, &from).await?;
        let name = quote(branch.name.as_deref().unwrap_or(&branch.id));
        let lacking = if branch.incomplete {
            "; files that the history had not captured by then are missing"
        } else {
            ""
        };
        let text = format!(
            "branch {name} begins at change #{} (id {}){lacking}",
            branch.fork, branch.id
        );
        Ok(ToolOutput::new(text, branch))
    }
}
