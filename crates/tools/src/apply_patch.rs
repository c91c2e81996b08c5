//! `apply_patch`: a unified diff over several files, all or nothing.

use garret_core::path::escape_unprintable;
use garret_workspace::{PatchOptions, PatchResult, PatchedFile, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::text::{bound_text, format_count};
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct ApplyPatchTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Unified diff as by `git diff`; `/dev/null` creates or deletes, `rename from`/`rename to` renames.
    diff: String,
    dry_run: Option<bool>,
}

impl Tool for ApplyPatchTool {
    type Arguments = Arguments;
    type Data = PatchResult;

    const NAME: &'static str = "apply_patch";
    const SHORT: &'static str = "patch";
    const TITLE: &'static str = "Apply a patch";
    const DESCRIPTION: &'static str = "Applies a unified diff to one or more files, all or nothing. Hunks must match the content; line numbers may be off.";
    const ANNOTATIONS: Annotations = Annotations::CHANGES;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
        let options = PatchOptions {
            dry_run: arguments.dry_run.unwrap_or(false),
        };
        let patched = workspace.apply_patch(&arguments.diff, options).await?;
        Ok(ToolOutput::new(format_patch(&patched, limits), patched))
    }
}

fn format_patch(patched: &PatchResult, limits: &AnswerLimits) -> String {
    let files = format_count(patched.files.len() as u64, "file", "files");
    let head = if patched.dry_run {
        format!("the patch applies to {files}; nothing is written")
    } else {
        format!("patched {files}")
    };
    let lines = patched.files.iter().map(file_line);
    bound_text(&[head].into_iter().chain(lines).collect::<Vec<_>>().join("\n"), limits)
}

fn file_line(file: &PatchedFile) -> String {
    let path = escape_unprintable(&file.path);
    let names = match &file.old_path {
        Some(old) => format!("{} -> {path}", escape_unprintable(old)),
        None => path.into_owned(),
    };
    format!(
        "{} {names} (+{} -{})",
        file.status.as_str(),
        file.insertions,
        file.deletions
    )
}
