//! `garret edit`

use clap::Args;
use garret::{EditOptions, Edited, Error, Precondition, Result};
use serde_json::json;

use crate::output::{Failure, Outcome, Report};
use crate::session::Session;
use crate::{input, render};

#[derive(Debug, Args)]
pub(crate) struct Edit {
    /// The file
    path: String,
    /// The text to replace, exactly; it must be there once, unless --replace-all or --expect is given
    #[arg(allow_hyphen_values = true, required_unless_present = "edits")]
    old: Option<String>,
    /// The text to put in its place
    #[arg(allow_hyphen_values = true, required_unless_present = "edits")]
    new: Option<String>,
    /// Replace every place
    #[arg(long)]
    replace_all: bool,
    /// Replace every place, of which there must be this many
    #[arg(long, value_name = "NUMBER")]
    expect: Option<usize>,
    /// Several edits at once, as JSON: '[{"old_text": "a", "new_text": "b"}]'; `-` for standard input, @FILE for a file
    #[arg(long, value_name = "JSON", conflicts_with_all = ["old", "new", "replace_all", "expect"])]
    edits: Option<String>,
    /// Edit only this version
    #[arg(long, value_name = "VERSION")]
    if_version: Option<String>,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Edit {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let edits = self.list().map_err(Failure::usage)?;
        let options = EditOptions { precondition: Precondition::from_argument(self.if_version.as_deref()), dry_run: self.dry_run };
        let edited = session.workspace().await?.edit(&self.path, &edits, options).await?;
        Ok(Report::done(summary(&edited), edited))
    }

    fn list(&self) -> Result<Vec<garret::Edit>> {
        let value = match &self.edits {
            Some(edits) => input::json(edits)?,
            None => json!([{
                "old_text": self.old, "new_text": self.new, "replace_all": self.replace_all || self.expect.is_some(),
                "expected_replacements": self.expect,
            }]),
        };
        let edits: Vec<garret::Edit> = garret::shape::from_value(value)?;
        if edits.is_empty() { Err(Error::invalid("there is no edit in the list")) } else { Ok(edits) }
    }
}

fn summary(edited: &Edited) -> String {
    let what = if edited.dry_run { "would edit" } else { "edited" };
    let places = if edited.replacements == 1 { "place" } else { "places" };
    let head = format!("{what} {} in {} {places}", render::shown(&edited.path), edited.replacements);
    match &edited.diff {
        Some(diff) => format!("{head}\n{diff}"),
        None => head,
    }
}
