//! `garret mv`

use clap::Args;
use garret::TransferOptions;

use crate::commands::cp::hint_new_path;
use crate::output::{CliOutcome, CliReport};
use crate::render;
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct MvArgs {
    /// The file or directory
    src: String,
    /// The new path, including the new name; missing parent directories are created
    dest: String,
    /// Replace an existing file at the new path
    #[arg(short = 'f', long)]
    overwrite: bool,
}

impl MvArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let options = TransferOptions {
            overwrite: self.overwrite,
        };
        let workspace = session.open_workspace().await?;
        let moved = workspace.rename(&self.src, &self.dest, options).await;
        let transferred = match moved {
            Ok(transferred) => transferred,
            Err(error) => return Err(hint_new_path(&workspace, &self.src, &self.dest, error).await.into()),
        };
        Ok(CliReport::success(
            render::describe_transfer("moved", &transferred),
            transferred,
        ))
    }
}
