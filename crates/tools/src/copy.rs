//! `copy`: copies a file or a directory.

use garret_workspace::{TransferResult, Workspace};

use crate::tool::{Tool, ToolResult};
use crate::{Annotations, AnswerLimits, transfer};

pub(crate) struct CopyTool;

impl Tool for CopyTool {
    type Arguments = transfer::Arguments;
    type Data = TransferResult;

    const NAME: &'static str = "copy";
    const SHORT: &'static str = "copy";
    const TITLE: &'static str = "Copy a file or directory";
    const DESCRIPTION: &'static str = "Copies a file, or a directory with everything in it.";
    const ANNOTATIONS: Annotations = Annotations::REPLACES;

    async fn run(workspace: &Workspace, arguments: Self::Arguments, _limits: &AnswerLimits) -> ToolResult<Self> {
        let copied = workspace
            .copy(&arguments.src, &arguments.dest, arguments.options())
            .await?;
        Ok(transfer::format_outcome("copied", copied))
    }
}
