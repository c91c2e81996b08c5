//! `garret write`

use clap::Args;
use garret::{Precondition, WriteOptions};

use crate::output::{CliOutcome, CliReport};
use crate::session::Session;
use crate::{input, render};

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret write notes/todo.md 'buy milk'
  date | garret write now.txt
  garret write disk.img < disk.img
  garret write list.md -- '- milk'
  garret write once.txt first --if-version absent";

#[derive(Debug, Args)]
pub(crate) struct WriteArgs {
    /// The file; missing parent directories are created
    path: String,
    /// The content, exactly as given; after `--` if it begins with a dash [default, or `-`: standard input]
    content: Option<String>,
    /// Write only if the file has this version (see `garret stat`), or `absent`: only if it does not exist
    #[arg(long, value_name = "VERSION")]
    if_version: Option<String>,
    /// Permission bits in octal, such as 755 [default: an existing file keeps its own]
    #[arg(long, value_name = "BITS", value_parser = render::octal)]
    mode: Option<u32>,
}

impl WriteArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let workspace = session.open_workspace().await?;
        let content = input::stream_content(self.content.as_deref())?;
        let options = WriteOptions {
            precondition: Precondition::from_argument(self.if_version.as_deref()),
            mode: self.mode,
        };
        let written = workspace.write(&self.path, content, options).await?;
        let what = if written.created { "created" } else { "wrote" };
        Ok(CliReport::success(
            format!(
                "{what} {} ({})",
                render::display_path(&written.path),
                render::format_count(written.size, "byte")
            ),
            written,
        ))
    }
}
