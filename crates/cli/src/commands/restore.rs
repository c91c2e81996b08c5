//! `garret restore`

use clap::Args;
use garret::path::printable;
use garret::{Error, Point, RestoreRequest, Result, Workspace};

use crate::output::{Failure, Outcome, Report};
use crate::render::history;
use crate::session::Session;

pub(crate) const USAGE: &str = "\
garret restore [OPTIONS] <POINT> [PATH]
       garret restore [OPTIONS] --version <VERSION> <PATH>";

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret -w notes restore before                  everything, as it was at the snapshot `before`
  garret -w notes restore before docs/a.md        one path, with what lies below it
  garret -w notes restore before --into trial     into a new workspace; this one stays as it is
  garret -w notes restore --version VERSION a.txt one file, from `garret versions a.txt`
A restore is one change, and `garret undo` takes it back.";

#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// A snapshot, a change (its number or id) or a time; with --version, the path
    #[arg(value_name = "POINT")]
    first: Option<String>,
    /// Only this path, with everything below it
    path: Option<String>,
    /// Put back this version of one file, whatever it was called then
    #[arg(long, value_name = "VERSION", conflicts_with = "path")]
    version: Option<String>,
    /// Leave this workspace alone and make a new one that begins at the point
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

    /// The point, or with --version the path.
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
    let text = format!("made {} as of {}", printable(name), printable(point));
    Ok(Report::done(text, branch))
}

/// Refuses to make a workspace that nobody could open again.
pub(crate) fn check_home(session: &Session) -> Result<(), Failure> {
    let is_memory = session.global().workspace.as_deref() == Some("memory:");
    match is_memory {
        true => Err(Error::invalid("a branch of `memory:` would be gone with this command")
            .hint("make a workspace that stays: `garret create NAME`")
            .into()),
        false => Ok(()),
    }
}
