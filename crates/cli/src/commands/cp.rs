//! `garret cp`

use clap::Args;
use garret::path::quote;
use garret::{EntryKind, Error, ErrorKind, TransferOptions, Workspace};

use crate::output::{CliOutcome, CliReport};
use crate::render;
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct CpArgs {
    /// The file or directory
    src: String,
    /// The new path, including the new name; missing parent directories are created
    dest: String,
    /// Copy a directory with everything in it (the default)
    #[arg(short, long, short_alias = 'R')]
    recursive: bool,
    /// Replace an existing file at the new path
    #[arg(short = 'f', long, alias = "force")]
    overwrite: bool,
}

impl CpArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let options = TransferOptions {
            overwrite: self.overwrite,
        };
        let workspace = session.open_workspace().await?;
        let copied = workspace.copy(&self.src, &self.dest, options).await;
        let transferred = match copied {
            Ok(transferred) => transferred,
            Err(error) => return Err(hint_new_path(&workspace, &self.src, &self.dest, error).await.into()),
        };
        Ok(CliReport::success(
            render::describe_transfer("copied", &transferred),
            transferred,
        ))
    }
}

/// Adds a hint to the error of a transfer to `dest`, if a directory is there: the user may have meant a path in it.
pub(crate) async fn hint_new_path(workspace: &Workspace, src: &str, dest: &str, error: Error) -> Error {
    let is_taken = matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::IsADirectory);
    let name = src.trim_end_matches('/').rsplit('/').next().unwrap_or(src);
    if is_taken
        && workspace
            .stat(dest)
            .await
            .is_ok_and(|stat| stat.r#type == EntryKind::Directory)
    {
        error.hint(format!(
            "name the new path: {}",
            quote(&format!("{}/{name}", dest.trim_end_matches('/')))
        ))
    } else {
        error
    }
}
