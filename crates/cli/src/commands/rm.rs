//! `garret rm`

use clap::Args;
use garret::{ErrorKind, Precondition, RemovalList, RemoveOptions};

use crate::output::{CliOutcome, CliReport};
use crate::render;
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct RmArgs {
    /// The files, links or directories; each is a change of its own
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Remove a directory with everything in it
    #[arg(short, long, short_alias = 'R')]
    recursive: bool,
    /// Do not fail if the path does not exist
    #[arg(short, long)]
    force: bool,
    /// Remove a file only if it still has this version
    #[arg(long, value_name = "VERSION")]
    if_version: Option<String>,
}

impl RmArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let workspace = session.open_workspace().await?;
        let mut removed = Vec::new();
        for path in &self.paths {
            let options = RemoveOptions {
                recursive: self.recursive,
                precondition: Precondition::from_argument(self.if_version.as_deref()),
            };
            match workspace.remove(path, options).await {
                Ok(one) => removed.push(one),
                Err(error) if self.force && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let lines = removed
            .iter()
            .map(|one| format!("removed {}\n", render::display_path(&one.path)));
        let text: String = lines.collect();
        Ok(match (self.paths.len(), removed.pop()) {
            (1, Some(one)) => CliReport::success(text, one),
            (_, last) => {
                removed.extend(last);
                CliReport::success(text, RemovalList { removed })
            }
        })
    }
}
