//! `move`: moves or renames a file or a directory.

use garret_workspace::{TransferResult, Workspace};

use crate::tool::{Tool, ToolResult};
use crate::{Annotations, AnswerLimits, transfer};

pub(crate) struct MoveTool;

impl Tool for MoveTool {
    type Arguments = transfer::Arguments;
    type Data = TransferResult;

    const NAME: &'static str = "move";
    const SHORT: &'static str = "move";
    const TITLE: &'static str = "Move or rename a file or directory";
    const DESCRIPTION: &'static str = "Moves or renames a file or directory.";
    const ANNOTATIONS: Annotations = Annotations::CHANGES;

    async fn run(workspace: &Workspace, arguments: Self::Arguments, _limits: &AnswerLimits) -> ToolResult<Self> {
        let moved = workspace
            .rename(&arguments.src, &arguments.dest, arguments.options())
            .await?;
        Ok(transfer::format_outcome("moved", moved))
    }
}
