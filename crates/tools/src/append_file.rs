//! `append_file`: adds content at the end of a file.

use garret_core::Precondition;
use garret_core::path::quote;
use garret_workspace::{AppendOptions, Encoding, Workspace, WriteResult};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{content_bytes, unless_empty};
use crate::text::{format_bytes, version_note};
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct AppendFileTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    path: String,
    /// Added byte for byte, with no newline.
    content: String,
    #[serde(default, deserialize_with = "unless_empty")]
    encoding: Option<Encoding>,
    /// Create a missing file; default true.
    create: Option<bool>,
    /// Only if it still has this version, or is `absent`.
    #[serde(default, deserialize_with = "unless_empty")]
    if_version: Option<String>,
}

impl Tool for AppendFileTool {
    type Arguments = Arguments;
    type Data = WriteResult;

    const NAME: &'static str = "append_file";
    const SHORT: &'static str = "append";
    const TITLE: &'static str = "Append to a file";
    const DESCRIPTION: &'static str = "Adds content at the end of a file. Concurrent appends are all kept.";
    const ANNOTATIONS: Annotations = Annotations::CREATES;

    async fn run(workspace: &Workspace, arguments: Arguments, _limits: &AnswerLimits) -> ToolResult<Self> {
        let options = AppendOptions {
            precondition: Precondition::from_argument(arguments.if_version.as_deref()),
            create: arguments.create.unwrap_or(true),
        };
        let content = content_bytes(arguments.content, arguments.encoding)?;
        let added = format_bytes(content.len() as u64);
        let written = workspace.append(&arguments.path, content, options).await?;
        let done = if written.created { "created" } else { "appended to" };
        let text = format!(
            "{done} {} ({added} added, {} in all{})",
            quote(&written.path),
            format_bytes(written.size),
            version_note(written.version.as_ref())
        );
        Ok(ToolOutput::new(text, written))
    }
}
