//! `delete_code_context`: ends a context.

use garret_workspace::{ContextStatus, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct DeleteCodeContextTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    context: String,
}

impl Tool for DeleteCodeContextTool {
    type Arguments = Arguments;
    type Data = ContextStatus;

    const NAME: &'static str = "delete_code_context";
    const SHORT: &'static str = "delete_context";
    const TITLE: &'static str = "End a context for code";
    const DESCRIPTION: &'static str = "Ends a context with everything that its code started. Files stay.";
    const ANNOTATIONS: Annotations = Annotations::REPLACES;

    async fn run(workspace: &Workspace, arguments: Arguments, _limits: &AnswerLimits) -> ToolResult<Self> {
        let context = workspace.delete_code_context(&arguments.context).await?;
        let how = context.ended.as_deref().unwrap_or("it ends");
        let text = format!("the context `{}` has ended: {how}", context.id);
        Ok(ToolOutput::new(text, context))
    }
}
