//! `garret append`

use clap::Args;
use garret::{AppendOptions, Precondition};

use crate::output::{Outcome, Report};
use crate::session::Session;
use crate::{input, render};

#[derive(Debug, Args)]
pub(crate) struct Append {
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

impl Append {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let workspace = session.workspace().await?;
        let content = input::content(self.content.as_deref())?;
        let precondition = Precondition::from_argument(self.if_version.as_deref());
        let options = AppendOptions {
            precondition,
            create: !self.no_create,
        };
        let written = workspace.append(&self.path, content, options).await?;
        Ok(Report::done(
            format!(
                "appended to {} ({} now)",
                render::shown(&written.path),
                render::counted(written.size, "byte")
            ),
            written,
        ))
    }
}
