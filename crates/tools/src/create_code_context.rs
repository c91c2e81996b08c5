//! `create_code_context`: a place where pieces of code share what they define.

use std::collections::BTreeMap;

use garret_core::{Language, Result};
use garret_workspace::{ContextRequest, ContextShown, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::unless_empty;
use crate::limits::Limits;
use crate::tool::{Output, Tool};
use crate::{Annotations, languages};

pub(crate) struct CreateCodeContext;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The language of the code that runs in it.
    language: Language,
    /// The directory that it begins in, relative to the workspace root. Left out, the root.
    #[serde(default, deserialize_with = "unless_empty")]
    cwd: Option<String>,
    /// Variables to add to its environment.
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
}

impl Tool for CreateCodeContext {
    type Arguments = Arguments;
    type Data = ContextShown;

    const NAME: &'static str = "create_code_context";
    const SHORT: &'static str = "create_context";
    const TITLE: &'static str = "Make a context for code";
    const DESCRIPTION: &'static str = "Makes a context: an interpreter that stays, so that pieces of code run in it one after the other keep variables, \
        imports, functions and the current directory. Its id is for `run_in_code_context`. It ends when it is deleted, when its code exits or \
        times out, or when nobody used it for long.";
    const ANNOTATIONS: Annotations = Annotations {
        read_only: false,
        destructive: false,
        idempotent: false,
    };

    fn narrow(schema: &mut Value, workspace: &Workspace) {
        languages::narrow(schema, workspace);
    }

    async fn run(workspace: &Workspace, arguments: Arguments, _limits: &Limits) -> Result<Output<ContextShown>> {
        let request = ContextRequest {
            cwd: arguments.cwd.unwrap_or_default(),
            env: arguments.env.unwrap_or_default(),
            ..ContextRequest::new(arguments.language)
        };
        let context = workspace.create_code_context(request).await?;
        let text = format!("the context `{}` runs {}", context.id, context.language.as_str());
        Ok(Output::new(text, context))
    }
}
