//! `garret rm`

use clap::Args;
use garret::{ErrorKind, Precondition, RemoveOptions};
use serde_json::json;

use crate::output::{Outcome, Report};
use crate::render;
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct Rm {
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

impl Rm {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let workspace = session.workspace().await?;
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
            .map(|one| format!("removed {}\n", render::shown(&one.path)));
        let text: String = lines.collect();
        Ok(match (self.paths.len(), removed.pop()) {
            (1, Some(one)) => Report::done(text, one),
            (_, last) => {
                removed.extend(last);
                Report::done(text, json!({"removed": removed}))
            }
        })
    }
}
