//! `garret append`

use clap::Args;
use garret::{AppendOptions, Precondition};

use crate::output::{CliOutcome, CliReport};
use crate::session::Session;
use crate::{input, render};

#[derive(Debug, Args)]
pub(crate) struct AppendArgs {
    /// The file
    path: String,
    /// The text to add, exactly as given; after `--` if it begins with a dash [default, or `-`: standard input]
    content: Option<String>,
    /// Fail if the file does not exist, instead of creating it
    #[arg(long)]
    no_create: bool,
    /// Append only if the file has this version, or `absent`: only if it does not exist
    #[arg(long, value_name = "VERSION")]
    if_version: Option<String>,
}

impl AppendArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let workspace = session.open_workspace().await?;
        let content = input::read_content(self.content.as_deref())?;
        let precondition = Precondition::from_argument(self.if_version.as_deref());
        let options = AppendOptions {
            precondition,
            create: !self.no_create,
        };
        let written = workspace.append(&self.path, content, options).await?;
        Ok(CliReport::success(
            format!(
                "appended to {} ({} now)",
                render::display_path(&written.path),
                render::format_count(written.size, "byte")
            ),
            written,
        ))
    }
}
