//! `garret merge`

use clap::Args;
use garret::path::{escape_unprintable, quote};
use garret::{Conflict, Error, ErrorKind, MergeOptions, MergeResult, OnConflict};

use crate::output::{CliOutcome, CliReport};
use crate::render;
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret -w notes merge try --dry-run
  garret -w notes merge try
  garret -w notes merge try --markers
A merge is one change, and `garret undo` takes it back. On a conflict without --markers, --ours or
--theirs, nothing is written and the exit code is 1.";

/// The most paths that are named to a person.
const MAX_NAMED: usize = 50;

#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The workspace to merge: a branch of this one, the one that it was branched from, or another that shares its history
    branch: String,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    conflicts: OnConflictChoice,
}

/// The treatment of files that both sides changed differently.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct OnConflictChoice {
    /// On a conflict, write both versions: texts with conflict markers, other files side by side
    #[arg(long)]
    markers: bool,
    /// On a conflict, keep the version of this workspace
    #[arg(long)]
    ours: bool,
    /// On a conflict, take the version of the branch
    #[arg(long)]
    theirs: bool,
}

impl OnConflictChoice {
    fn on_conflict(&self) -> OnConflict {
        match (self.markers, self.ours, self.theirs) {
            (true, ..) => OnConflict::Markers,
            (_, true, _) => OnConflict::Ours,
            (.., true) => OnConflict::Theirs,
            _ => OnConflict::Report,
        }
    }
}

impl MergeArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        // Commands make branches without `snapshot`, so a user who may run commands may also merge these branches.
        let workspace = if garret::is_branch_of_command(&self.branch) {
            session.open_history(&["snapshot", "shell", "code"]).await?
        } else {
            session.open_history(&["snapshot"]).await?
        };
        let options = MergeOptions {
            on_conflict: self.conflicts.on_conflict(),
            dry_run: self.dry_run,
        };
        let merged = match workspace.merge(&self.branch, options).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(self.name_owner(session, error).await.into());
            }
            merged => merged?,
        };
        let text = merge_text(&self.branch, &merged, options.on_conflict);
        match self.conflict_error(&merged, options.on_conflict) {
            Some(error) => Ok(CliReport::refusal(text, merged, error)),
            None => Ok(CliReport::success(text, merged)),
        }
    }

    /// Adds the workspace of the home that the branch belongs to, if there is one, to the error.
    async fn name_owner(&self, session: &Session, error: Error) -> Error {
        let all = match session.open_depot().await {
            Ok(depot) => depot.workspaces().await.unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        let branch = all
            .iter()
            .find(|one| one.name.as_deref() == Some(&self.branch) && one.deleted.is_none());
        let fork = branch.and_then(|branch| branch.fork.as_ref());
        let owner = fork.and_then(|fork| all.iter().find(|one| one.id == fork.workspace));
        match owner.and_then(|owner| owner.name.as_deref()) {
            Some(owner) => error.hint(format!(
                "{} is a branch of {}: `garret -w {} merge {}`",
                quote(&self.branch),
                quote(owner),
                render::shell_word(owner),
                render::shell_word(&self.branch)
            )),
            None => error,
        }
    }

    fn conflict_error(&self, merged: &MergeResult, on_conflict: OnConflict) -> Option<Error> {
        let is_refused = on_conflict == OnConflict::Report && !merged.conflicts.is_empty();
        let count = render::format_count(merged.conflict_count, "conflict");
        is_refused.then(|| {
            let message = format!("{count} with {}, and nothing was written", quote(&self.branch));
            Error::new(ErrorKind::Conflict, message).hint("merge again with --markers, --ours or --theirs")
        })
    }
}

/// Describes the result of a merge of `branch`, or of its dry run.
pub(crate) fn merge_text(branch: &str, merged: &MergeResult, on_conflict: OnConflict) -> String {
    let conflicts = merged.conflicts.iter().map(conflict_line);
    let paths = merged
        .outcome
        .paths()
        .iter()
        .map(|path| format!("  {}", render::display_path(&path.to_string())));
    let all: Vec<_> = conflicts.chain(paths).collect();
    let count = merged.conflict_count + merged.outcome.path_count();
    let left = count - all.len().min(MAX_NAMED) as u64;
    let more = (left > 0).then(|| format!("  and {left} more"));
    let named = all.into_iter().take(MAX_NAMED).chain(more);
    let lines = merge_headline(branch, merged, on_conflict).into_iter().chain(named);
    lines.collect::<Vec<_>>().join("\n")
}

fn merge_headline(branch: &str, merged: &MergeResult, on_conflict: OnConflict) -> Option<String> {
    let branch = escape_unprintable(branch);
    let paths = render::format_count(merged.outcome.path_count(), "path");
    match &merged.outcome.change {
        Some(change) => Some(format!("change {}: merged {branch}, {paths}", change.number)),
        None if merged.outcome.path_count() > 0 => Some(format!("would merge {branch}, {paths}")),
        None if merged.conflicts.is_empty() => Some(format!(
            "nothing to merge from {branch}: this workspace has all of its changes"
        )),
        None if on_conflict == OnConflict::Report => None,
        None => {
            let settled = if merged.outcome.is_dry_run() {
                "would resolve"
            } else {
                "resolved"
            };
            let conflicts = render::format_count(merged.conflict_count, "conflict");
            Some(format!(
                "{settled} {conflicts} with {branch}: all files of this workspace stay unchanged"
            ))
        }
    }
}

fn conflict_line(conflict: &Conflict) -> String {
    format!(
        "  conflict  {}: {}",
        render::display_path(&conflict.path),
        conflict.kind.description()
    )
}
