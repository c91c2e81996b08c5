//! `garret branch`

use clap::{Args, Subcommand};
use garret::path::{escape_unprintable, quote};
use garret::{
    Branch, BranchListRequest, BranchSummary, Error, ErrorKind, Garret, Point, StorageConfig, Workspace, WorkspaceName,
};

use crate::commands::restore::check_can_branch;
use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::progress::ProgressLine;
use crate::session::Session;
use crate::{render, time, transfer_files};

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret -w notes branch create try --from before
  garret -w try write a.txt hello
  garret -w notes merge try
  garret -w notes branch create work --checkout path/to/work
A branch is a workspace of the home: `garret list` shows it, and -w takes its name.";

#[derive(Debug, Args)]
pub(crate) struct BranchArgs {
    #[command(subcommand)]
    action: BranchAction,
}

#[derive(Debug, Subcommand)]
enum BranchAction {
    /// Create a workspace that begins at a point of this one; later changes in one do not affect the other
    Create {
        /// The name of the new workspace
        name: String,
        /// The point: a snapshot, a change (its number or id) or a time [default: now]
        #[arg(long, value_name = "POINT")]
        from: Option<String>,
        /// Keep its files in this directory (new or empty), so that other programs can work on them
        #[arg(long, value_name = "DIR")]
        checkout: Option<String>,
    },
    /// List the branches of this workspace
    List {
        /// Show sizes, and the size of content that only this branch holds; reads the whole home
        #[arg(short, long)]
        long: bool,
    },
    /// Delete a branch; `garret recover` brings it back until `garret gc` collects it
    Delete {
        /// The name of the branch
        name: String,
    },
}

impl BranchAction {
    /// Returns the capabilities of which the workspace must declare one. Commands make branches without `snapshot`, so
    /// a user who may run commands may also list and delete these branches.
    fn capabilities(&self) -> &'static [&'static str] {
        match self {
            Self::List { .. } => &["snapshot", "shell", "code"],
            Self::Delete { name } if garret::is_branch_of_command(name) => &["snapshot", "shell", "code"],
            Self::Create { .. } | Self::Delete { .. } => &["snapshot"],
        }
    }
}

impl BranchArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        if let BranchAction::Create { name, .. } = &self.action
            && matches!(session.history_in_home().await, Ok(None))
        {
            // To open a directory for the first time records it in the home, so the name is checked before.
            check_name_free(session, name).await?;
        }
        let workspace = session.open_history(self.action.capabilities()).await?;
        match &self.action {
            BranchAction::Create { name, from, checkout } => {
                check_can_branch(session)?;
                // Before the branch is made, so that a wrong directory leaves no branch behind.
                if let Some(directory) = checkout {
                    transfer_files::make_empty_directory(directory)?;
                }
                let made = workspace.branch(name, &Point::parse_or_now(from.as_deref())).await?;
                let mut text = format!("branch {} begins at change {}", escape_unprintable(name), made.fork);
                if let Some(directory) = checkout {
                    let place = local_storage(directory)?;
                    let checked_out = session.garret().check_out(name, &place).await;
                    if let Err(error) = checked_out {
                        delete_new_branch(session, &made.id).await?;
                        return Err(checkout_error(error, directory).into());
                    }
                    text.push_str(&format!("; its files are in {}", escape_unprintable(directory)));
                }
                let note = if made.incomplete {
                    "incomplete: files that the history had not captured by then are missing from the branch\n"
                } else {
                    ""
                };
                Ok(CliReport::success(text, made).with_note(note))
            }
            BranchAction::List { long } => {
                let garret = if *long {
                    session.garret_with_home()?
                } else {
                    session.garret()
                };
                let progress = long.then(|| ProgressLine::start("counting"));
                let request = BranchListRequest { with_sizes: *long };
                let list = garret.list_branches(&workspace, request).await?;
                drop(progress);
                let text = render::format_table(list.branches.iter().map(table_cells));
                Ok(CliReport::success(text, list))
            }
            BranchAction::Delete { name } => delete_branch(session, &workspace, name).await,
        }
    }
}

/// Refuses a name that a workspace of the home has.
async fn check_name_free(session: &Session, name: &str) -> Result<(), CliFailure> {
    if session
        .known_workspaces(None)
        .await
        .home
        .iter()
        .any(|known| known == name)
    {
        let message = format!("the name {} is taken", quote(name));
        Err(Error::new(ErrorKind::AlreadyExists, message)
            .hint("choose another name; `garret list` shows those that are taken")
            .into())
    } else {
        Ok(())
    }
}

/// Deletes a branch that was just made.
async fn delete_new_branch(session: &Session, id: &str) -> Result<(), CliFailure> {
    let depot = session.open_depot().await?;
    // Renamed to its id first, so that its name is free for the next try.
    depot.rename(id, id).await?;
    Ok(depot.delete(id).await?)
}

/// Makes the error for a branch whose files were not all written to the directory.
fn checkout_error(error: Error, directory: &str) -> Error {
    let hint = error.hint_text().to_owned();
    let directory = quote(directory);
    error.hint(format!(
        "{hint}; no branch was created; remove {directory}, which has some of its files"
    ))
}

/// Returns the storage on a directory.
fn local_storage(directory: &str) -> Result<StorageConfig, CliFailure> {
    Ok(Garret::config_of_dir(directory)
        .map_err(CliFailure::wrong_usage)?
        .storage)
}

/// Deletes a branch of this workspace; refuses any other workspace.
async fn delete_branch(session: &Session, workspace: &Workspace, name: &str) -> CliOutcome {
    let branches = workspace.branches().await?;
    let is_meant = |branch: &&Branch| branch.name.as_deref() == Some(name) || branch.id == name;
    let branch = branches.iter().find(is_meant).ok_or_else(|| {
        Error::new(
            ErrorKind::NotFound,
            format!("this workspace has no branch {}", quote(name)),
        )
        .hint("`garret branch list` shows its branches; `garret delete` deletes any workspace")
    })?;
    let deleted = session.garret_with_home()?.delete(&branch.id).await?;
    Ok(CliReport::success(
        format!("deleted branch {}", escape_unprintable(name)),
        WorkspaceName {
            name: name.to_owned(),
            ..deleted
        },
    ))
}

fn table_cells(listed: &BranchSummary) -> Vec<String> {
    let branch = &listed.branch;
    let mut cells = vec![
        escape_unprintable(branch.name.as_deref().unwrap_or(&branch.id)).into_owned(),
        time::format_time(&branch.at.to_string()),
        format!("from change {}", branch.fork),
        render::format_count(branch.change_count, "change"),
    ];
    cells.extend(listed.usage.iter().flat_map(render::usage::usage_cells));
    cells
}
