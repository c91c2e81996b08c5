//! `garret patch`

use clap::Args;
use garret::{Error, PatchOptions, PatchResult, PatchedFile};

use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::session::Session;
use crate::{input, render};

pub(crate) const EXAMPLES: &str = "\
Examples:
  git diff | garret -w other patch
  garret patch change.diff --dry-run";

#[derive(Debug, Args)]
pub(crate) struct PatchArgs {
    /// The file with the unified diff, on this machine [default, or `-`: standard input]
    file: Option<String>,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl PatchArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let workspace = session.open_workspace().await?;
        let diff = input::read_file(self.file.as_deref()).map_err(CliFailure::wrong_input)?;
        let diff = String::from_utf8(diff).map_err(|_| Error::invalid("the patch is not UTF-8 text"))?;
        let patched = workspace
            .apply_patch(&diff, PatchOptions { dry_run: self.dry_run })
            .await?;
        Ok(CliReport::success(patch_summary(&patched), patched))
    }
}

fn patch_summary(patched: &PatchResult) -> String {
    let would = if patched.dry_run { "would " } else { "" };
    let lines: Vec<_> = patched
        .files
        .iter()
        .map(|file| format!("{would}{}", file_line(file)))
        .collect();
    lines.join("\n")
}

fn file_line(file: &PatchedFile) -> String {
    let from = file
        .old_path
        .as_deref()
        .map_or_else(String::new, |old| format!("{} -> ", render::display_path(old)));
    format!(
        "{} {from}{} (+{} -{})",
        file.status.as_str(),
        render::display_path(&file.path),
        file.insertions,
        file.deletions
    )
}
