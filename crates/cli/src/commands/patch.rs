//! `garret patch`

use clap::Args;
use garret::{Error, PatchOptions, Patched, PatchedFile};

use crate::output::{Failure, Outcome, Report};
use crate::session::Session;
use crate::{input, render};

pub(crate) const EXAMPLES: &str = "\
Examples:
  git diff | garret -w other patch
  garret patch change.diff --dry-run";

#[derive(Debug, Args)]
pub(crate) struct Patch {
    /// The file with the unified diff, on this machine [default, or `-`: standard input]
    file: Option<String>,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Patch {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let workspace = session.workspace().await?;
        let diff = input::file(self.file.as_deref()).map_err(Failure::of_input)?;
        let diff = String::from_utf8(diff).map_err(|_| Error::invalid("the patch is not UTF-8 text"))?;
        let patched = workspace
            .apply_patch(&diff, PatchOptions { dry_run: self.dry_run })
            .await?;
        Ok(Report::done(summary(&patched), patched))
    }
}

fn summary(patched: &Patched) -> String {
    let would = if patched.dry_run { "would " } else { "" };
    let lines: Vec<_> = patched
        .files
        .iter()
        .map(|file| format!("{would}{}", line(file)))
        .collect();
    lines.join("\n")
}

fn line(file: &PatchedFile) -> String {
    let from = file
        .old_path
        .as_deref()
        .map_or_else(String::new, |old| format!("{} -> ", render::shown(old)));
    format!(
        "{} {from}{} (+{} -{})",
        file.action,
        render::shown(&file.path),
        file.added,
        file.removed
    )
}
