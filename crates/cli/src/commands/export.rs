//! `garret export`

use clap::Args;
use garret::depot::{Compression, DepotWorkspace, Exported, Extent, Moved, TreeTarget};
use garret::path::printable;
use garret::{Error, Point, Result, WsPath, split_point};
use serde_json::json;

use crate::files::{self, Unfinished};
use crate::output::{Failure, Outcome, Report};
use crate::progress::Progress;
use crate::render;
use crate::session::Session;

pub(crate) const USAGE: &str = "\
garret export [OPTIONS] <NAME> <FILE>
       garret export [OPTIONS] <NAME> --to <DIR|TAR>";

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret export notes notes.garret                the workspace with its history and snapshots
  garret export notes notes.garret --no-history   its files alone
  garret export notes --to path/to/directory      plain files
  garret export notes@before --to before.tar.zst  as they were at a point
`garret import` reads each of these. This is a command of the owner: policies do not apply.";

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The workspace of the home; NAME@POINT for its files as they were; may be given with -w instead
    name: Option<String>,
    /// The portable file to write; it must not exist yet
    file: Option<String>,
    /// Leave the history out of the portable file
    #[arg(long, conflicts_with = "to")]
    no_history: bool,
    /// Export plain files instead: to a new or empty directory, or to a .tar, .tar.gz or .tar.zst
    #[arg(long, value_name = "DIR|TAR", conflicts_with = "file")]
    to: Option<String>,
}

impl Export {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let (name, file) = session.name_and_rest(self.name.as_deref(), self.file.as_deref())?;
        let target = target(file, self.to.as_deref()).map_err(Failure::usage)?;
        let (name, point) = split_point(name);
        let depot = session.depot().await?;
        let workspace = depot.workspace(name).await?;
        check_kind(&workspace)?;
        match target {
            Target::Files(place) => put_out(&workspace, point, place).await,
            Target::Portable(file) => self.pack(&workspace, point, file).await,
        }
    }

    async fn pack(&self, workspace: &DepotWorkspace, point: Option<&str>, file: &str) -> Outcome {
        let extent = match point {
            Some(point) => Extent::Files(Point::or_now(Some(point))),
            None if self.no_history => Extent::Files(Point::Now),
            None => Extent::History,
        };
        // Removed again if the export fails, so that nobody takes a part for the whole.
        let mut writing = Unfinished::create(file)?;
        let progress = Progress::bar("exporting");
        let exported = workspace
            .export(&extent, writing.sink()?, &mut |done| progress.set(done))
            .await?;
        writing.keep()?;
        drop(progress);
        let report = Report::done(packed_text(file, &exported), json!(exported));
        Ok(report.with_note(left_behind(&exported)))
    }
}

/// The destination of an export.
enum Target<'a> {
    /// A directory or an archive, for plain files.
    Files(&'a str),
    /// A portable file.
    Portable(&'a str),
}

fn target<'a>(file: Option<&'a str>, to: Option<&'a str>) -> Result<Target<'a>> {
    match (file, to) {
        (None, Some(place)) => Ok(Target::Files(place)),
        (Some(file), None) => Ok(Target::Portable(file)),
        (None, None) => Err(Error::invalid("the destination of the export is missing")
            .hint("name a portable FILE, or a directory or an archive with --to")),
        (Some(_), Some(_)) => {
            Err(Error::invalid("a portable file and --to are both given").hint("leave out one of them"))
        }
    }
}

fn packed_text(file: &str, exported: &Exported) -> String {
    let what = match exported.changes {
        0 => "without history".to_owned(),
        changes => render::counted(changes, "change"),
    };
    format!(
        "exported to {}: {what}, {} in {}",
        printable(file),
        render::size(exported.bytes),
        render::counted(exported.pieces, "piece")
    )
}

/// Lists the snapshots that are left out, for standard error.
fn left_behind(exported: &Exported) -> String {
    let why = "it names a point of the workspace that this one was branched from";
    let line = |label: &String| format!("left out: the snapshot {} ({why})\n", printable(label));
    exported.left_out.iter().map(line).collect()
}

async fn put_out(workspace: &DepotWorkspace, point: Option<&str>, place: &str) -> Outcome {
    let point = Point::or_now(point);
    let progress = Progress::bar("exporting");
    let mut watch = |done| progress.set(done);
    let root = WsPath::root();
    let moved = match Compression::of_name(place) {
        None => {
            let target = TreeTarget::Directory(files::target_directory(place)?);
            workspace.export_tree(&point, &root, target, &mut watch).await?
        }
        Some(compression) => {
            // Removed again if the export fails, so that nobody takes a part for the whole.
            let mut writing = Unfinished::create(place)?;
            let target = TreeTarget::Archive(Box::new(writing.sink()?), compression);
            let moved = workspace.export_tree(&point, &root, target, &mut watch).await?;
            writing.keep()?;
            moved
        }
    };
    drop(progress);
    let text = format!("exported to {}: {}", printable(place), amount(&moved));
    Ok(Report::done(text, json!(moved)).with_note(left_out(&moved)))
}

/// Formats the amount that was exported or imported.
pub(crate) fn amount(moved: &Moved) -> String {
    render::amount(moved.files, moved.directories, moved.links, moved.bytes)
}

/// Lists the files that were left out, for standard error.
pub(crate) fn left_out(moved: &Moved) -> String {
    let line = |path: String, why: &str| format!("left out: {path} ({why})\n");
    let lines = moved
        .skipped
        .iter()
        .map(|one| line(render::shown(&one.path.shown()), &one.why));
    lines.collect()
}

/// Refuses a workspace whose files are not in the home.
fn check_kind(workspace: &DepotWorkspace) -> Result<(), Failure> {
    match workspace.kind() {
        "filestore" => Ok(()),
        kind => Err(
            Error::invalid(format!("the files of this workspace are in `{kind}`, not in the home"))
                .hint("take them from there, or export a branch of it: `garret branch create NAME`")
                .into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_that_stay_behind_are_named() {
        let exported = Exported {
            left_out: vec!["before".into(), "\u{1b}[2J".into()],
            ..Exported::default()
        };
        let text = left_behind(&exported);
        assert_eq!(text.lines().count(), 2);
        assert!(
            text.starts_with("left out: the snapshot before (it names a point"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'), "{text}");
        assert_eq!(left_behind(&Exported::default()), "");
    }
}
