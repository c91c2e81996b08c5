//! `write_file`: writes a whole file at once.

use garret_core::Precondition;
use garret_core::path::quote;
use garret_workspace::{Encoding, Workspace, WriteOptions, WriteResult};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{content_bytes, mode_bits, unless_empty};
use crate::text::{format_bytes, version_note};
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct WriteFileTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    path: String,
    content: String,
    #[serde(default, deserialize_with = "unless_empty")]
    encoding: Option<Encoding>,
    /// Only if it still has this version, or is `absent`.
    #[serde(default, deserialize_with = "unless_empty")]
    if_version: Option<String>,
    /// Octal permissions, such as "755".
    #[serde(default, deserialize_with = "unless_empty")]
    mode: Option<String>,
}

impl Tool for WriteFileTool {
    type Arguments = Arguments;
    type Data = WriteResult;

    const NAME: &'static str = "write_file";
    const SHORT: &'static str = "write";
    const TITLE: &'static str = "Write a file";
    const DESCRIPTION: &'static str =
        "Creates a file or replaces all of its content, atomically. To change a part of a file, edit it instead.";
    const ANNOTATIONS: Annotations = Annotations::REPLACES;

    async fn run(workspace: &Workspace, arguments: Arguments, _limits: &AnswerLimits) -> ToolResult<Self> {
        let options = WriteOptions {
            precondition: Precondition::from_argument(arguments.if_version.as_deref()),
            mode: mode_bits(arguments.mode.as_deref())?,
        };
        let content = content_bytes(arguments.content, arguments.encoding)?;
        let written = workspace.write(&arguments.path, content, options).await?;
        let done = if written.created { "created" } else { "replaced" };
        let text = format!(
            "{done} {} ({}{})",
            quote(&written.path),
            format_bytes(written.size),
            version_note(written.version.as_ref())
        );
        Ok(ToolOutput::new(text, written))
    }
}
