//! `garret branch`

use clap::{Args, Subcommand};
use garret::path::{printable, quote};
use garret::{Branch as Made, Error, ErrorKind, Workspace};
use serde_json::json;

use crate::commands::restore::check_home;
use crate::output::{Outcome, Report};
use crate::session::Session;
use crate::{point, render};

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret -w notes branch create try --from before
  garret -w try write a.txt hello
  garret -w notes merge try
A branch is a workspace of the home: `garret list` shows it, and -w takes its name.";

#[derive(Debug, Args)]
pub(crate) struct Branch {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a workspace that begins at a point of this one; neither ever disturbs the other
    Create {
        /// The name of the new workspace
        name: String,
        /// The point: a snapshot, a change (its number or id) or a time [default: now]
        #[arg(long, value_name = "POINT")]
        from: Option<String>,
    },
    /// List the workspaces that were branched off this one
    List,
    /// Delete a branch; `garret recover` brings it back until the garbage is collected
    Delete {
        /// The name of the branch
        name: String,
    },
}

impl Branch {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let workspace = session.with_history("snapshot").await?;
        match &self.action {
            Action::Create { name, from } => {
                check_home(session)?;
                let made = workspace.branch(name, &point::or_now(from.as_deref())).await?;
                let text = format!("branch {} begins at change {}", printable(name), made.fork);
                Ok(Report::done(text, made))
            }
            Action::List => {
                let all = workspace.branches().await?;
                Ok(Report::done(
                    render::table(all.iter().map(cells)),
                    json!({"branches": all}),
                ))
            }
            Action::Delete { name } => delete(session, &workspace, name).await,
        }
    }
}

/// Deletes a branch of this workspace, and no workspace besides.
async fn delete(session: &Session, workspace: &Workspace, name: &str) -> Outcome {
    let branches = workspace.branches().await?;
    let is_meant = |branch: &&Made| branch.name.as_deref() == Some(name) || branch.id == name;
    let branch = branches.iter().find(is_meant).ok_or_else(|| {
        Error::new(
            ErrorKind::NotFound,
            format!("this workspace has no branch {}", quote(name)),
        )
        .hint("`garret branch list` shows its branches; `garret delete` deletes any workspace")
    })?;
    session.depot().await?.delete(&branch.id).await?;
    Ok(Report::done(
        format!("deleted branch {}", printable(name)),
        json!({"id": branch.id, "name": name}),
    ))
}

fn cells(branch: &Made) -> Vec<String> {
    vec![
        printable(branch.name.as_deref().unwrap_or(&branch.id)).into_owned(),
        branch.created.to_string(),
        format!("from change {}", branch.fork),
        render::counted(branch.changes, "change"),
    ]
}
