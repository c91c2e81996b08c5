//! `delete_code_context`: ends a context.

use garret_core::Result;
use garret_workspace::{ContextShown, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Annotations;
use crate::limits::Limits;
use crate::tool::{Output, Tool};

pub(crate) struct DeleteCodeContext;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    context: String,
}

impl Tool for DeleteCodeContext {
    type Arguments = Arguments;
    type Data = ContextShown;

    const NAME: &'static str = "delete_code_context";
    const SHORT: &'static str = "delete_context";
    const TITLE: &'static str = "End a context for code";
    const DESCRIPTION: &'static str = "Ends a context with everything that its code started. Files stay.";
    const ANNOTATIONS: Annotations = Annotations {
        read_only: false,
        destructive: true,
        idempotent: true,
    };

    async fn run(workspace: &Workspace, arguments: Arguments, _limits: &Limits) -> Result<Output<ContextShown>> {
        let context = workspace.delete_code_context(&arguments.context).await?;
        let how = context.ended.as_deref().unwrap_or("it ends");
        let text = format!("the context `{}` has ended: {how}", context.id);
        Ok(Output::new(text, context))
    }
}
