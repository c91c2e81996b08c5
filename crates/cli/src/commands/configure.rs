//! `garret configure`

use clap::Args;
use garret::path::escape_unprintable;
use garret::{Error, OptionEdit, OptionValue, WorkspaceOptions};

use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret configure box                                  show every option and its value
  garret configure box shell.limits.timeout_s=600       ten minutes for each command
  garret configure box shell.network=full exclude=target/,node_modules/
  garret configure box 'shell.denied_commands=[\"git push\"]' env.CI=1 keep=30d
  garret configure box shell.network= --unset keep      return to the defaults
The change takes effect when the workspace is opened next. docs/reference/config.md lists all options. For a
workspace of a garret.toml, edit that file.";

#[derive(Debug, Args)]
pub(crate) struct ConfigureArgs {
    /// The workspace (may be given with -w instead), and the options to set. A value is TOML; a bare word is a string, or
    /// a list with commas; `KEY=` returns to the default [default: show all options]
    #[arg(value_name = "NAME KEY=VALUE")]
    words: Vec<String>,
    /// Return the option to its default; may be given several times
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,
}

impl ConfigureArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        // Only an option has `=`, and no name of a workspace.
        let (name, assignments) = match self.words.split_first() {
            Some((first, rest)) if !first.contains('=') => (Some(first.as_str()), rest),
            _ => (None, &self.words[..]),
        };
        let name = session.workspace_name(name)?;
        let edits = parse_edits(assignments, &self.unset).map_err(CliFailure::wrong_usage)?;
        session.check_configured_in_home(&name)?;
        let configured = session.garret_with_home()?.configure(&name, &edits).await?;
        Ok(CliReport::success(format_options(&configured, &edits), configured))
    }
}

/// Reads the edits of a command line.
pub(crate) fn parse_edits(assignments: &[String], unset: &[String]) -> Result<Vec<OptionEdit>, Error> {
    let set = assignments.iter().map(|text| OptionEdit::parse(text));
    let reset = unset.iter().map(|key| OptionEdit::reset(key));
    set.chain(reset).collect()
}

/// Returns a line for each option that was edited; without edits, for every option.
fn format_options(configured: &WorkspaceOptions, edits: &[OptionEdit]) -> String {
    let is_shown = |option: &&OptionValue| edits.is_empty() || edits.iter().any(|edit| edit.touches(&option.key));
    let shown: Vec<_> = configured.options.iter().filter(is_shown).collect();
    let lines = shown.iter().map(|option| {
        if option.value.is_null() {
            return format!("{} is not set", option.key);
        }
        let value = escape_unprintable(&option.value_as_toml()).into_owned();
        let default = if option.is_default { "  (default)" } else { "" };
        format!("{} = {value}{default}", option.key)
    });
    lines.collect::<Vec<_>>().join("\n")
}
