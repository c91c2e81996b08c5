//! `edit_file`: makes exact replacements in one file, all or none.

use garret_core::path::quote;
use garret_core::{Error, Precondition, Result};
use garret_workspace::{Edit, EditOptions, EditResult, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::unless_empty;
use crate::text::{bound_text, format_bytes, format_count, version_note};
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

pub(crate) struct EditFileTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    path: String,
    /// Exact text to replace, without line numbers. It must occur once, unless an argument says otherwise.
    old_text: Option<String>,
    /// What to put in its place; empty to delete.
    new_text: Option<String>,
    /// Replace every occurrence.
    replace_all: Option<bool>,
    /// How many occurrences there must be.
    expected_replacements: Option<usize>,
    /// Replace at most this many occurrences, from the first on.
    max_replacements: Option<usize>,
    /// Several edits, each on the result of the one before; all or none.
    #[serde(default)]
    edits: Vec<EditArguments>,
    /// Show the difference and write nothing.
    dry_run: Option<bool>,
    /// Only if it still has this version.
    #[serde(default, deserialize_with = "unless_empty")]
    if_version: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct EditArguments {
    old_text: String,
    new_text: String,
    replace_all: Option<bool>,
    expected_replacements: Option<usize>,
    max_replacements: Option<usize>,
}

impl Tool for EditFileTool {
    type Arguments = Arguments;
    type Data = EditResult;

    const NAME: &'static str = "edit_file";
    const SHORT: &'static str = "edit";
    const TITLE: &'static str = "Edit a file";
    const DESCRIPTION: &'static str = "Replaces exact text in a file: one place with `old_text` and `new_text`, or several with `edits`. Line endings are kept.";
    const ANNOTATIONS: Annotations = Annotations::CHANGES;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
        let options = EditOptions {
            precondition: Precondition::from_argument(arguments.if_version.as_deref()),
            dry_run: arguments.dry_run.unwrap_or(false),
        };
        let path = arguments.path.clone();
        let edited = workspace.edit(&path, &collect_edits(arguments)?, options).await?;
        Ok(format_outcome(edited, limits))
    }
}

/// Returns the edits that the arguments mean.
fn collect_edits(arguments: Arguments) -> Result<Vec<Edit>> {
    let (all, expected) = (arguments.replace_all.unwrap_or(false), arguments.expected_replacements);
    let most = arguments.max_replacements;
    // Models may fill both texts with nothing, or repeat the first of `edits` in `old_text` and `new_text`: neither is
    // one more edit.
    let is_meant = |edit: &EditArguments| !(edit.old_text.is_empty() && edit.new_text.is_empty());
    let listed = arguments.edits.into_iter().filter(is_meant).map(|edit| Edit {
        old_text: edit.old_text,
        new_text: edit.new_text,
        replace_all: edit.replace_all.unwrap_or(all),
        expected_replacements: edit.expected_replacements.or(expected),
        max_replacements: edit.max_replacements.or(most),
    });
    let mut edits: Vec<Edit> = listed.collect();
    let old_text = arguments.old_text.unwrap_or_default();
    if old_text.is_empty() && !edits.is_empty() {
        return Ok(edits);
    }
    let new_text = arguments.new_text.ok_or_else(|| missing_edit_error(&old_text))?;
    let is_repeated = edits
        .first()
        .is_some_and(|first| first.old_text == old_text && first.new_text == new_text);
    if !is_repeated {
        let first = Edit {
            old_text,
            new_text,
            replace_all: all,
            expected_replacements: expected,
            max_replacements: most,
        };
        edits.insert(0, first);
    }
    Ok(edits)
}

fn missing_edit_error(old_text: &str) -> Error {
    let shape = "pass `old_text` and `new_text` (empty to delete), or `edits: [{old_text, new_text}]`";
    let what = if old_text.is_empty() {
        "no edit is given"
    } else {
        "`old_text` is given without `new_text`"
    };
    Error::invalid(what).hint(shape)
}

/// Returns the outcome with its difference; the data leaves out a difference larger than an answer.
fn format_outcome(mut edited: EditResult, limits: &AnswerLimits) -> ToolOutput<EditResult> {
    let mut places = format_count(edited.replacements, "replacement", "replacements");
    if edited.occurrences_left > 0 {
        let left = format_count(edited.occurrences_left, "occurrence", "occurrences");
        places.push_str(&format!(", {left} left"));
    }
    let path = quote(&edited.path);
    let size = format_bytes(edited.size);
    let head = if edited.dry_run {
        format!("would edit {path}: {places} ({size} then); nothing is written")
    } else {
        format!(
            "edited {path}: {places} ({size}{})",
            version_note(edited.version.as_ref())
        )
    };
    let text = match &edited.diff {
        Some(diff) => bound_text(&format!("{head}\n{diff}"), limits),
        None => head,
    };
    edited.diff = edited.diff.filter(|diff| diff.len() <= limits.bytes);
    ToolOutput::new(text, edited)
}
