//! `garret restore`

use clap::Args;
use garret::path::printable;
use garret::{Error, Point, RestoreRequest, Result, Workspace};

use crate::home;
use crate::output::{Failure, Outcome, Report};
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
pub(crate) struct Restore {
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
}

impl Restore {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let first = self.first().map_err(Failure::usage)?;
        if let Some(version) = &self.version {
            let workspace = session.with_history("fs").await?;
            let change = workspace.restore_version(first, version).await?;
            return Ok(Report::done(history::restored(change.as_ref()), change));
        }
        let workspace = session.with_history("snapshot").await?;
        match &self.into {
            Some(name) => make_new(session, &workspace, first, name).await,
            None => self.in_place(&workspace, first).await,
        }
    }

    /// Returns the point, or with --version the path.
    fn first(&self) -> Result<&str> {
        let missing = || match self.version {
            Some(_) => {
                Error::invalid("the path of the file is missing").hint("write `garret restore --version VERSION PATH`")
            }
            None => Error::invalid("the point to restore is missing").hint("write `garret restore POINT [PATH]`"),
        };
        self.first.as_deref().ok_or_else(missing)
    }

    async fn in_place(&self, workspace: &Workspace, point: &str) -> Outcome {
        let request = RestoreRequest {
            point: Point::or_now(Some(point)),
            path: self.path.clone(),
        };
        let change = workspace.restore(request).await?;
        Ok(Report::done(history::restored(change.as_ref()), change))
    }
}

async fn make_new(session: &Session, workspace: &Workspace, point: &str, name: &str) -> Outcome {
    check_home(session)?;
    let branch = workspace.branch(name, &Point::or_now(Some(point))).await?;
    let text = format!("created {} at {}", printable(name), printable(point));
    Ok(Report::done(text, branch))
}

/// Refuses to make a workspace that nobody could open again.
pub(crate) fn check_home(session: &Session) -> Result<(), Failure> {
    let is_memory = session.global().workspace.as_deref() == Some("memory:");
    if session.home().is_none() {
        return Err(Failure::usage(home::missing()));
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
