//! `garret export`

use clap::Args;
use garret::DepotWorkspace;
use garret::path::escape_unprintable;
use garret::transfer::{
    Compression, ExportExtent, ExportReport, TreeTarget, TreeTransferReport, export_tree, export_workspace,
};
use garret::{Error, Point, Result, WsPath, split_point};
use serde_json::json;

use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::progress::ProgressLine;
use crate::render;
use crate::session::Session;
use crate::transfer_files::{self, UnfinishedFile};

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
pub(crate) struct ExportArgs {
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

impl ExportArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let (name, file) = session.name_and_rest(self.name.as_deref(), self.file.as_deref())?;
        let target = parse_destination(file, self.to.as_deref()).map_err(CliFailure::wrong_usage)?;
        let (name, point) = split_point(name);
        let depot = session.open_depot().await?;
        let workspace = depot.workspace(name).await?;
        check_kind(&workspace)?;
        match target {
            ExportDestination::Files(place) => write_plain_files(&workspace, point, place).await,
            ExportDestination::Portable(file) => self.write_portable(&workspace, point, file).await,
        }
    }

    async fn write_portable(&self, workspace: &DepotWorkspace, point: Option<&str>, file: &str) -> CliOutcome {
        let extent = match point {
            Some(point) => ExportExtent::Files(Point::parse_or_now(Some(point))),
            None if self.no_history => ExportExtent::Files(Point::Now),
            None => ExportExtent::History,
        };
        // Removed again if the export fails, so that nobody takes a part for the whole.
        let mut writing = UnfinishedFile::create(file)?;
        let progress = ProgressLine::start("exporting");
        let mut watch = |done| progress.set_reached(done);
        let exported = export_workspace(workspace, &extent, writing.content_writer()?, &mut watch).await?;
        writing.keep()?;
        drop(progress);
        let report = CliReport::success(portable_text(file, &exported), json!(exported));
        Ok(report.with_note(left_out_snapshots(&exported)))
    }
}

/// The destination of an export.
enum ExportDestination<'a> {
    /// A directory or an archive, for plain files.
    Files(&'a str),
    /// A portable file.
    Portable(&'a str),
}

fn parse_destination<'a>(file: Option<&'a str>, to: Option<&'a str>) -> Result<ExportDestination<'a>> {
    match (file, to) {
        (None, Some(place)) => Ok(ExportDestination::Files(place)),
        (Some(file), None) => Ok(ExportDestination::Portable(file)),
        (None, None) => Err(Error::invalid("the destination of the export is missing")
            .hint("name a portable FILE, or a directory or an archive with --to")),
        (Some(_), Some(_)) => {
            Err(Error::invalid("a portable file and --to are both given").hint("leave out one of them"))
        }
    }
}

fn portable_text(file: &str, exported: &ExportReport) -> String {
    let what = match exported.changes {
        0 => "without history".to_owned(),
        changes => render::format_count(changes, "change"),
    };
    format!(
        "exported to {}: {what}, {} in {}",
        escape_unprintable(file),
        render::format_size(exported.bytes),
        render::format_count(exported.pieces, "piece")
    )
}

/// Lists the snapshots that are left out, for standard error.
fn left_out_snapshots(exported: &ExportReport) -> String {
    let why = "it names a point of the workspace that this one was branched from";
    let line = |label: &String| format!("left out: the snapshot {} ({why})\n", escape_unprintable(label));
    exported.left_out.iter().map(line).collect()
}

async fn write_plain_files(workspace: &DepotWorkspace, point: Option<&str>, place: &str) -> CliOutcome {
    let point = Point::parse_or_now(point);
    let progress = ProgressLine::start("exporting");
    let mut watch = |done| progress.set_reached(done);
    let root = WsPath::root();
    let moved = match Compression::of_name(place) {
        None => {
            let target = TreeTarget::Directory(transfer_files::target_directory(place)?);
            export_tree(workspace, &point, &root, target, &mut watch).await?
        }
        Some(compression) => {
            // Removed again if the export fails, so that nobody takes a part for the whole.
            let mut writing = UnfinishedFile::create(place)?;
            let target = TreeTarget::Archive(Box::new(writing.content_writer()?), compression);
            let moved = export_tree(workspace, &point, &root, target, &mut watch).await?;
            writing.keep()?;
            moved
        }
    };
    drop(progress);
    let text = format!("exported to {}: {}", escape_unprintable(place), moved_amount(&moved));
    Ok(CliReport::success(text, json!(moved)).with_note(left_out_files(&moved)))
}

/// Formats the amount that was exported or imported.
pub(crate) fn moved_amount(moved: &TreeTransferReport) -> String {
    render::format_amount(moved.files, moved.directories, moved.links, moved.bytes)
}

/// Lists the files that were left out, for standard error.
pub(crate) fn left_out_files(moved: &TreeTransferReport) -> String {
    let line = |path: String, why: &str| format!("left out: {path} ({why})\n");
    let lines = moved
        .skipped
        .iter()
        .map(|one| line(render::display_path(&one.path.display_path()), &one.why));
    lines.collect()
}

/// Refuses a workspace whose files are not in the home.
fn check_kind(workspace: &DepotWorkspace) -> Result<(), CliFailure> {
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
        let exported = ExportReport {
            left_out: vec!["before".into(), "\u{1b}[2J".into()],
            ..ExportReport::default()
        };
        let text = left_out_snapshots(&exported);
        assert_eq!(text.lines().count(), 2);
        assert!(
            text.starts_with("left out: the snapshot before (it names a point"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'), "{text}");
        assert_eq!(left_out_snapshots(&ExportReport::default()), "");
    }
}
