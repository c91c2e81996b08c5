//! `garret put`

use std::path::Path;

use clap::Args;
use garret::path::quote;
use garret::{EntryKind, Error, PutEntry, PutItem, Result, Workspace};

use crate::host_files::{HostTree, join_path, last_name};
use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::progress::ProgressLine;
use crate::session::Session;
use crate::{input, render};

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret -w notes put ~/report.pdf docs/          into the directory `docs`
  garret -w notes put report.pdf docs/new.pdf     under another name
  garret -w notes put src tests Makefile .        several, into the root of the workspace
  curl -s URL | garret -w notes put - page.html   standard input
Directories are copied with everything in them. Links in them stay links; permissions are kept,
without set-user-id. All of it is one change, and `garret undo` takes it back. An existing
file is replaced.";

#[derive(Debug, Args)]
pub(crate) struct PutArgs {
    /// Files and directories of this machine; `-` for standard input
    #[arg(required = true, value_name = "LOCAL")]
    sources: Vec<String>,
    /// The path in the workspace; a directory, or a path that ends with a slash, takes the files under their names
    #[arg(required = true)]
    path: String,
}

impl PutArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let workspace = session.open_workspace().await?;
        let into = is_target_directory(&workspace, &self.path).await?;
        let progress = ProgressLine::start("copying");
        let counter = progress.counter();
        let mut tree = HostTree::default();
        for source in &self.sources {
            let path = self.destination_of(source, into).map_err(CliFailure::wrong_usage)?;
            match source.as_str() {
                "-" => tree.entries.push(PutEntry {
                    path,
                    item: PutItem::File {
                        content: input::stream_content(None)?,
                        mode: None,
                    },
                }),
                source => tree.add_source(Path::new(source), &path, &counter)?,
            }
        }
        progress.set_total(tree.bytes);
        // All entries in one call, so that they are one change.
        let put = workspace.put_entries(tree.entries).await?;
        drop(progress);
        let amount = render::format_amount(put.files, put.directories, put.links, put.bytes);
        let text = format!("put {amount} into {}", render::display_path(&self.path));
        Ok(CliReport::success(text, put).with_note(tree.left_out))
    }

    /// Returns the destination of a source: below the path if that is a directory, else the path itself.
    fn destination_of(&self, source: &str, into: bool) -> Result<String> {
        match (into, last_name(source), source) {
            (true, _, "-") => {
                Err(Error::invalid("standard input has no name").hint("give the path of the file to write"))
            }
            // A source without a name, such as `.`, is copied entry by entry into the directory.
            (true, "", _) => Ok(self.path.clone()),
            (true, name, _) => Ok(join_path(&self.path, name)),
            (false, ..) if self.sources.len() > 1 => Err(Error::invalid(format!(
                "several files cannot be copied to {}, which is not a directory",
                quote(&self.path)
            ))
            .hint("end it with a slash to make the directory")),
            (false, ..) => Ok(self.path.clone()),
        }
    }
}

/// Whether the sources go below `path`.
async fn is_target_directory(workspace: &Workspace, path: &str) -> Result<bool> {
    if path.ends_with('/') || last_name(path).is_empty() {
        return Ok(true);
    }
    let there = workspace.exists(path).await?;
    Ok(there.r#type == Some(EntryKind::Directory))
}
