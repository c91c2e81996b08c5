//! `garret restore`

use clap::Args;
use garret::path::escape_unprintable;
use garret::{Error, HistoryOperationResult, Point, RestoreRequest, Result, Workspace};

use crate::home;
use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::render::history;
use crate::session::Session;

pub(crate) const USAGE: &str = "\
garret restore [OPTIONS] <POINT> [PATH]
       garret restore [OPTIONS] --version <VERSION> <PATH>";

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret -w notes restore before                  everything, as it was at the snapshot `before`
  garret -w notes restore before docs/a.md        one path, with everything below it
  garret -w notes restore before --into trial     into a new workspace; this one stays unchanged
  garret -w notes restore --version VERSION a.txt one file, from `garret versions a.txt`
A restore is one change, and `garret undo` takes it back.";

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// A snapshot, a change (its number or id) or a time; with --version, the path
    #[arg(value_name = "POINT")]
    first: Option<String>,
    /// Only this path, with everything below it
    path: Option<String>,
    /// Restore this version of one file, even if the file had another name then
    #[arg(long, value_name = "VERSION", conflicts_with = "path")]
    version: Option<String>,
    /// Create a new workspace at the point, and leave this one unchanged
    #[arg(long, value_name = "NAME", conflicts_with_all = ["path", "version"])]
    into: Option<String>,
    /// Show what would change, and change nothing
    #[arg(long, conflicts_with = "into")]
    dry_run: bool,
}

impl RestoreArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let first = self.first_argument().map_err(CliFailure::wrong_usage)?;
        if let Some(version) = &self.version {
            let workspace = session.open_history(&["fs"]).await?;
            let result = if self.dry_run {
                workspace.plan_restore_version(first, version).await?
            } else {
                workspace.restore_version(first, version).await?
            };
            return Ok(restore_report(result));
        }
        let workspace = session.open_history(&["snapshot"]).await?;
        match &self.into {
            Some(name) => restore_into_new(session, &workspace, first, name).await,
            None => self.restore_in_place(&workspace, first).await,
        }
    }

    /// Returns the point, or with --version the path.
    fn first_argument(&self) -> Result<&str> {
        let missing = || match self.version {
            Some(_) => {
                Error::invalid("the path of the file is missing").hint("write `garret restore --version VERSION PATH`")
            }
            None => Error::invalid("the point to restore is missing").hint("write `garret restore POINT [PATH]`"),
        };
        self.first.as_deref().ok_or_else(missing)
    }

    async fn restore_in_place(&self, workspace: &Workspace, point: &str) -> CliOutcome {
        let request = RestoreRequest {
            point: Point::parse_or_now(Some(point)),
            path: self.path.clone(),
        };
        let result = if self.dry_run {
            workspace.plan_restore(request).await?
        } else {
            workspace.restore(request).await?
        };
        Ok(restore_report(result))
    }
}

fn restore_report(result: HistoryOperationResult) -> CliReport {
    CliReport::success(history::describe_result(&result, "no differences"), result)
}

async fn restore_into_new(session: &Session, workspace: &Workspace, point: &str, name: &str) -> CliOutcome {
    check_can_branch(session)?;
    let branch = workspace.branch(name, &Point::parse_or_now(Some(point))).await?;
    let text = format!("created {} at {}", escape_unprintable(name), escape_unprintable(point));
    Ok(CliReport::success(text, branch))
}

/// Refuses to make a workspace that nobody could open again.
pub(crate) fn check_can_branch(session: &Session) -> Result<(), CliFailure> {
    let is_memory = session.global().workspace.as_deref() == Some("memory:");
    if session.home().is_none() {
        return Err(CliFailure::wrong_usage(home::missing_home_error()));
    }
    if is_memory {
        Err(
            Error::invalid("a branch of `memory:` would be lost when this command ends")
                .hint("create a workspace that is kept: `garret create NAME`")
                .into(),
        )
    } else {
        Ok(())
    }
}
