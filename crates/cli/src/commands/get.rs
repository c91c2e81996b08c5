//! `garret get`

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use garret::path::quote;
use garret::{EntryKind, Error, ErrorKind, FileStat, ListRequest, Result, Workspace};
use serde::Serialize;

use crate::host_files::{self, NewFile, last_name};
use crate::output::{CliFailure, CliOutcome, CliReport, StdoutPipe};
use crate::point::PointArgs;
use crate::progress::{ProgressCounter, ProgressLine};
use crate::render;
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret -w notes get docs/a.md .                 into the current directory
  garret -w notes get docs ~/docs-of-notes        a directory with everything in it
  garret -w notes get docs a.txt out/             several, into the directory `out`
  garret -w notes get --at before a.txt old.txt   as it was at the snapshot `before`
  garret -w notes get a.txt -                     to standard output
Nothing on this machine is replaced without --force, and nothing is written through a link.
Each file appears when it is complete. Links stay links.";

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// Files and directories of the workspace
    #[arg(required = true, value_name = "PATH")]
    sources: Vec<String>,
    /// The destination on this machine; a directory, or a path that ends with a slash, takes the files under their names; `-` for standard output
    #[arg(required = true, value_name = "LOCAL")]
    place: String,
    /// Replace existing files
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    at: PointArgs,
}

/// The amounts that were copied.
#[derive(Debug, Default, Serialize)]
struct GetResult {
    files: u64,
    directories: u64,
    links: u64,
    bytes: u64,
}

/// The entries to write, in this order: directories, files, links.
#[derive(Debug, Default)]
struct GetPlan {
    directories: Vec<PathBuf>,
    files: Vec<(String, PathBuf)>,
    links: Vec<(String, PathBuf)>,
    bytes: u64,
    left_out: String,
}

impl GetArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let workspace = session
            .open_workspace_at(self.at.point())
            .await?
            .remembering_hard_links();
        if self.place == "-" {
            return self.print_file(&workspace).await;
        }
        let place = Path::new(&self.place);
        let into = self.place.ends_with('/') || host_files::is_directory(place);
        if self.sources.len() > 1 && !into {
            return Err(CliFailure::wrong_usage(
                Error::invalid(format!(
                    "several files cannot be copied to {}, which is not a directory",
                    quote(&self.place)
                ))
                .hint("end it with a slash to make the directory"),
            ));
        }
        let mut plan = GetPlan::default();
        if into {
            plan.directories.push(place.to_owned());
        }
        for source in &self.sources {
            let target = match (into, last_name(source)) {
                (true, "") | (false, _) => place.to_owned(),
                (true, name) => place.join(name),
            };
            plan.add_source(&workspace, source, target).await?;
        }
        // The whole plan is checked first, so that a refusal leaves nothing half copied.
        plan.check_destinations(place, self.force)?;
        let progress = ProgressLine::start("copying");
        progress.set_total(plan.bytes);
        let got = plan.write_entries(&workspace, self.force, &progress.counter()).await?;
        drop(progress);
        let amount = render::format_amount(got.files, got.directories, got.links, got.bytes);
        let text = format!("got {amount}");
        Ok(CliReport::success(text, got).with_note(plan.left_out))
    }

    /// Prints one file, byte for byte.
    async fn print_file(&self, workspace: &Workspace) -> CliOutcome {
        let [source] = self.sources.as_slice() else {
            return Err(CliFailure::wrong_usage(
                Error::invalid("only one file can go to standard output").hint("name a directory for several"),
            ));
        };
        let mut pipe = StdoutPipe::default();
        workspace
            .read_stream(source, 0..u64::MAX, |piece| pipe.put_piece(&piece))
            .await?;
        Ok(pipe.into_report())
    }
}

impl GetPlan {
    async fn add_source(&mut self, workspace: &Workspace, source: &str, target: PathBuf) -> Result<()> {
        let path = source.trim_end_matches('/');
        let stat = workspace.stat(path).await?;
        match stat.r#type {
            EntryKind::Directory => self.add_below(workspace, path, target).await,
            EntryKind::File => {
                self.bytes += stat.size;
                self.files.push((stat.path, target));
                Ok(())
            }
            // A link that the command names is followed, as `put` follows one.
            EntryKind::Symlink => {
                match workspace.list(path, ListRequest::default()).await {
                    Ok(_) => return self.add_below(workspace, path, target).await,
                    Err(error) if error.kind() == ErrorKind::NotADirectory => self.files.push((stat.path, target)),
                    Err(error) => return Err(error),
                }
                Ok(())
            }
            EntryKind::Other => Err(Error::new(
                ErrorKind::Unsupported,
                format!("{} is a special file and cannot be copied", quote(&stat.path)),
            )),
        }
    }

    async fn add_below(&mut self, workspace: &Workspace, path: &str, target: PathBuf) -> Result<()> {
        let request = ListRequest {
            depth: usize::MAX,
            limit: usize::MAX,
            cursor: None,
            ..ListRequest::default()
        };
        let listed = workspace.list(path, request).await?;
        // The listed paths are without links, so `path` may not be their beginning; the directories above an entry
        // place it.
        let mut above = vec![(String::new(), target.clone())];
        self.directories.push(target);
        if listed.incomplete {
            self.left_out.push_str(render::incomplete_note(true));
        }
        for entry in listed.entries {
            if entry.escaped || entry.r#type == EntryKind::Other {
                let why = if entry.escaped {
                    "its name is not UTF-8"
                } else {
                    "it is a special file"
                };
                self.left_out
                    .push_str(&format!("left out: {} ({why})\n", quote(&entry.path)));
                continue;
            }
            let is_above = |directory: &str| directory.is_empty() || entry.path.starts_with(&format!("{directory}/"));
            while above.last().is_some_and(|(directory, _)| !is_above(directory)) {
                above.pop();
            }
            let (_, directory) = above.last().expect("the first is above everything");
            let place = directory.join(&entry.name);
            match entry.r#type {
                EntryKind::Directory => {
                    above.push((entry.path, place.clone()));
                    self.directories.push(place);
                }
                EntryKind::Symlink => self.links.push((entry.path, place)),
                _ => {
                    self.bytes += entry.size;
                    self.files.push((entry.path, place));
                }
            }
        }
        Ok(())
    }

    /// Refuses the whole copy if a destination is taken, before anything is written.
    fn check_destinations(&self, root: &Path, may_replace: bool) -> Result<()> {
        let mut places = HashSet::new();
        for (_, place) in self.files.iter().chain(&self.links) {
            if !places.insert(place) {
                let name = quote(&place.to_string_lossy());
                return Err(Error::invalid(format!("two files would be copied to {name}"))
                    .hint("copy them one after the other"));
            }
            host_files::check_destination_free(place, false, may_replace)?;
        }
        // The user chose `root`, so it may be a link to a directory.
        for place in self.directories.iter().filter(|place| *place != root) {
            host_files::check_destination_free(place, true, may_replace)?;
        }
        Ok(())
    }

    async fn write_entries(
        &self,
        workspace: &Workspace,
        may_replace: bool,
        counter: &ProgressCounter,
    ) -> Result<GetResult> {
        let mut got = GetResult::default();
        for place in &self.directories {
            if !host_files::is_directory(place) {
                host_files::make_directory(place)?;
            }
            got.directories += 1;
        }
        for (path, place) in &self.files {
            got.bytes += write_file(workspace, path, place, may_replace, counter).await?;
            got.files += 1;
        }
        // Links come last, so that no file is written through a link that was just made.
        for (path, place) in &self.links {
            let FileStat { target, .. } = workspace.stat(path).await?;
            host_files::make_link(place, target.as_deref().unwrap_or_default(), may_replace)?;
            got.links += 1;
        }
        Ok(got)
    }
}

async fn write_file(
    workspace: &Workspace,
    path: &str,
    place: &Path,
    may_replace: bool,
    counter: &ProgressCounter,
) -> Result<u64> {
    // The permissions of a link say nothing about the file it leads to.
    let stat = Some(workspace.stat(path).await?).filter(|stat| stat.r#type == EntryKind::File);
    let mode = stat.and_then(|stat| u32::from_str_radix(&stat.mode?, 8).ok());
    let mut file = NewFile::begin(place)?;
    let mut written = Ok(());
    let streamed = workspace
        .read_stream(path, 0..u64::MAX, |piece| {
            written = file.write(&piece);
            counter.add(piece.len() as u64);
            if written.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })
        .await?;
    written?;
    file.keep(mode, may_replace)?;
    Ok(streamed.bytes)
}
