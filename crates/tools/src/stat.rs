//! `stat`: describes the entry at a path, without reading it.

use garret_core::path::escape_unprintable;
use garret_workspace::{FileStat, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::point::{self, text_or_number};
use crate::text::{format_bytes, kind_name};
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct StatTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    path: String,
    #[serde(default, deserialize_with = "text_or_number")]
    at: Option<String>,
}

impl Tool for StatTool {
    type Arguments = Arguments;
    type Data = FileStat;

    const NAME: &'static str = "stat";
    const SHORT: &'static str = "stat";
    const TITLE: &'static str = "Describe a file or directory";
    const DESCRIPTION: &'static str =
        "Tells type, size, permissions, times and version (for `if_version`) of a file, directory or link.";
    const ANNOTATIONS: Annotations = Annotations::READS;

    async fn run(workspace: &Workspace, arguments: Arguments, _limits: &AnswerLimits) -> ToolResult<Self> {
        let viewed = point::view_at(workspace, arguments.at.as_deref()).await?;
        let stat = viewed.stat(&arguments.path).await?;
        Ok(ToolOutput::new(format_stat(&stat), stat))
    }
}

fn format_stat(stat: &FileStat) -> String {
    // The path of the root is empty.
    let path = if stat.path.is_empty() { "/" } else { &stat.path };
    let lines = [
        ("path", Some(escape_unprintable(path).into_owned())),
        ("type", Some(kind_name(stat.r#type).to_owned())),
        (
            "target",
            stat.target
                .as_deref()
                .map(|target| escape_unprintable(target).into_owned()),
        ),
        ("size", Some(format_bytes(stat.size))),
        ("mode", stat.mode.clone()),
        ("created", stat.created_at.clone()),
        ("modified", stat.modified_at.clone()),
        ("version", stat.version.as_ref().map(ToString::to_string)),
    ];
    let known = lines
        .into_iter()
        .filter_map(|(key, value)| value.map(|value| format!("{key}: {value}")));
    known.collect::<Vec<_>>().join("\n")
}
