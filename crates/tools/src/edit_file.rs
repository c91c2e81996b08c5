//! `edit_file`: exact replacements in one file, all or none.

use garret_core::path::quote;
use garret_core::{Error, Precondition, Result};
use garret_workspace::{Edit, EditOptions, Edited, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Annotations;
use crate::arguments::unless_empty;
use crate::limits::Limits;
use crate::text::{bounded, bytes, count, version_note};
use crate::tool::{Output, Tool};

pub(crate) struct EditFile;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    /// The file, relative to the workspace root.
    path: String,
    /// The text to replace, exactly as it is in the file, without line numbers. It must occur once, unless `replace_all` or
    /// `expected_replacements` says otherwise.
    #[serde(default)]
    old_text: Option<String>,
    /// The text to put in its place, taken literally. Empty to delete.
    #[serde(default)]
    new_text: Option<String>,
    /// Replace every occurrence. Holds for every edit of `edits` that does not say otherwise. Default false.
    #[serde(default)]
    replace_all: Option<bool>,
    /// How many occurrences there must be; 0 or left out leaves it open. Holds for every edit of `edits` that does not say otherwise.
    #[serde(default)]
    expected_replacements: Option<usize>,
    /// Several edits in one atomic call, applied in order, each on the result of the one before. Where `old_text` is given too, that edit
    /// is the first.
    #[serde(default)]
    edits: Vec<EditArguments>,
    /// Only try: answer with the difference and write nothing. Default false.
    #[serde(default)]
    dry_run: Option<bool>,
    /// Edit only if the file still has this version (from an earlier answer).
    #[serde(default, deserialize_with = "unless_empty")]
    if_version: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditArguments {
    /// The text to replace.
    old_text: String,
    /// The text to put in its place.
    new_text: String,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: Option<bool>,
    /// How many occurrences there must be.
    #[serde(default)]
    expected_replacements: Option<usize>,
}

impl Tool for EditFile {
    type Arguments = Arguments;
    type Data = Edited;

    const NAME: &'static str = "edit_file";
    const SHORT: &'static str = "edit";
    const TITLE: &'static str = "Edit a file";
    const DESCRIPTION: &'static str = "Replaces exact text in a file: one place with `old_text` and `new_text`, or several with `edits`; all \
        of them or none. Line endings are kept. When the text is not found, the answer shows the nearest lines of the file and how they \
        differ.";
    const ANNOTATIONS: Annotations = Annotations {
        read_only: false,
        destructive: true,
        idempotent: false,
    };

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &Limits) -> Result<Output<Edited>> {
        let options = EditOptions {
            precondition: Precondition::from_argument(arguments.if_version.as_deref()),
            dry_run: arguments.dry_run.unwrap_or(false),
        };
        let path = arguments.path.clone();
        let edited = workspace.edit(&path, &edits(arguments)?, options).await?;
        Ok(show(edited, limits))
    }
}

/// The edits that the arguments mean. A pair of empty texts is a filled-in nothing, and a pair that `edits` begins with is said once.
fn edits(arguments: Arguments) -> Result<Vec<Edit>> {
    let (all, expected) = (arguments.replace_all.unwrap_or(false), arguments.expected_replacements);
    let is_meant = |edit: &EditArguments| !(edit.old_text.is_empty() && edit.new_text.is_empty());
    let listed = arguments.edits.into_iter().filter(is_meant).map(|edit| Edit {
        old_text: edit.old_text,
        new_text: edit.new_text,
        replace_all: edit.replace_all.unwrap_or(all),
        expected_replacements: edit.expected_replacements.or(expected),
    });
    let mut edits: Vec<Edit> = listed.collect();
    let old_text = arguments.old_text.unwrap_or_default();
    if old_text.is_empty() && !edits.is_empty() {
        return Ok(edits);
    }
    let new_text = arguments.new_text.ok_or_else(|| missing(&old_text))?;
    let is_repeated = edits
        .first()
        .is_some_and(|first| first.old_text == old_text && first.new_text == new_text);
    if !is_repeated {
        let first = Edit {
            old_text,
            new_text,
            replace_all: all,
            expected_replacements: expected,
        };
        edits.insert(0, first);
    }
    Ok(edits)
}

fn missing(old_text: &str) -> Error {
    let shape = "pass `old_text` and `new_text` (empty to delete), or `edits: [{old_text, new_text}]`";
    let what = if old_text.is_empty() {
        "no edit is given"
    } else {
        "`old_text` is given without `new_text`"
    };
    Error::invalid(what).hint(shape)
}

/// The outcome with its difference; a difference larger than an answer is left out of the data.
fn show(mut edited: Edited, limits: &Limits) -> Output<Edited> {
    let places = count(edited.replacements as u64, "replacement", "replacements");
    let path = quote(&edited.path);
    let size = bytes(edited.size);
    let head = if edited.dry_run {
        format!("would edit {path}: {places} ({size} then); nothing is written")
    } else {
        format!(
            "edited {path}: {places} ({size}{})",
            version_note(edited.version.as_ref())
        )
    };
    let text = match &edited.diff {
        Some(diff) => bounded(&format!("{head}\n{diff}"), limits),
        None => head,
    };
    edited.diff = edited.diff.filter(|diff| diff.len() <= limits.bytes);
    Output::new(text, edited)
}
