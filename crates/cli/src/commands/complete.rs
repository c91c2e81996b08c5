//! `garret __complete`: the names that a shell completes. It makes nothing, asks no server, and never fails aloud.

use clap::{Args, ValueEnum};
use garret::History as _;

use crate::config_file;
use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    /// What is named
    kind: NameKind,
}

/// The kind of names to complete.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum NameKind {
    /// Workspaces of the home and of the configuration
    Workspaces,
    /// Workspaces that can be recovered
    Deleted,
    /// Snapshots of the workspace
    Snapshots,
    /// Branches of the workspace
    Branches,
}

/// Whether every shell takes a name as one word, without quotes.
fn is_plain_word(name: &str) -> bool {
    // Others may have written the names in a found configuration and of snapshots, and a shell must not run a command
    // in them.
    let is_plain = |c: char| c.is_alphanumeric() || "-_.+@%:,/".contains(c);
    !name.starts_with('-') && name.chars().all(is_plain)
}

impl CompleteArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        // The user presses a key in the middle of a line, and an error would be printed into that line.
        let mut names = self.find_names(session).await.unwrap_or_default();
        names.retain(|name| is_plain_word(name));
        names.sort();
        names.dedup();
        let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
        Ok(CliReport::success(lines, names))
    }

    async fn find_names(&self, session: &Session) -> Result<Vec<String>, CliFailure> {
        match self.kind {
            NameKind::Workspaces => {
                let file = config_file::load_given_or_found(session.global().config.as_deref())
                    .ok()
                    .flatten();
                let configured = file.iter().flat_map(|file| file.config.workspaces.keys().cloned());
                let known = session.known_workspaces(None).await;
                Ok(configured.chain(known.home).collect())
            }
            NameKind::Deleted => Ok(session.known_workspaces(None).await.deleted),
            NameKind::Snapshots => {
                let Some(workspace) = session.history_in_home().await? else {
                    return Ok(Vec::new());
                };
                let snapshots = workspace.snapshots().await?;
                Ok(snapshots.into_iter().map(|one| one.label).collect())
            }
            NameKind::Branches => {
                let Some(workspace) = session.history_in_home().await? else {
                    return Ok(Vec::new());
                };
                let branches = workspace.branches().await?;
                Ok(branches.into_iter().filter_map(|one| one.name).collect())
            }
        }
    }
}
