//! `append_file`: adds content at the end of a file.

use garret_core::path::quote;
use garret_core::{Precondition, Result};
use garret_workspace::{AppendOptions, Encoding, Workspace, Written};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Annotations;
use crate::arguments::{content_bytes, unless_empty};
use crate::limits::Limits;
use crate::text::{bytes, version_note};
use crate::tool::{Output, Tool};

pub(crate) struct AppendFile;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    path: String,
    /// Added byte for byte, with no newline.
    content: String,
    #[serde(default, deserialize_with = "unless_empty")]
    encoding: Option<Encoding>,
    /// Create a missing file; default true.
    #[serde(default)]
    create: Option<bool>,
    /// Only if it still has this version, or is `absent`.
    #[serde(default, deserialize_with = "unless_empty")]
    if_version: Option<String>,
}

impl Tool for AppendFile {
    type Arguments = Arguments;
    type Data = Written;

    const NAME: &'static str = "append_file";
    const SHORT: &'static str = "append";
    const TITLE: &'static str = "Append to a file";
    const DESCRIPTION: &'static str = "Adds content at the end of a file. Concurrent appends are all kept.";
    const ANNOTATIONS: Annotations = Annotations {
        read_only: false,
        destructive: false,
        idempotent: false,
    };

    async fn run(workspace: &Workspace, arguments: Arguments, _limits: &Limits) -> Result<Output<Written>> {
        let options = AppendOptions {
            precondition: Precondition::from_argument(arguments.if_version.as_deref()),
            create: arguments.create.unwrap_or(true),
        };
        let content = content_bytes(arguments.content, arguments.encoding)?;
        let added = bytes(content.len() as u64);
        let written = workspace.append(&arguments.path, content, options).await?;
        let done = if written.created { "created" } else { "appended to" };
        let text = format!(
            "{done} {} ({added} added, {} in all{})",
            quote(&written.path),
            bytes(written.size),
            version_note(written.version.as_ref())
        );
        Ok(Output::new(text, written))
    }
}
