//! `garret import`

use clap::Args;
use garret::depot::{Depot, NewWorkspace};
use garret::path::escape_unprintable;
use garret::transfer::{Compression, TreeSource, import_files, import_workspace, read_portable_manifest};
use garret::{Actor, Capabilities, Error, Origin, StorageConfig};
use serde_json::json;

use crate::commands::create;
use crate::commands::export::{left_out_files, moved_amount};
use crate::output::{CliFailure, CliOutcome, CliReport};
use crate::progress::ProgressLine;
use crate::render;
use crate::session::Session;
use crate::transfer_files;

pub(crate) const USAGE: &str = "\
garret import [OPTIONS] <FILE> [--name <NAME>]
       garret import [OPTIONS] --from <DIR|TAR> --name <NAME>";

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret import notes.garret                      under the name it had
  garret import notes.garret --name copy
  garret import --from path/to/project --name project
  garret import --from files.tar.zst --name files --capability fs,snapshot,shell
  garret import notes.garret --storage local:path/to/notes
The workspace is new: its name must be free. A portable file is verified completely before anything
is imported. Plain files become one change; links stay links, devices and sockets are left out.
With --storage, the files are stored there, and their history is kept; the storage must be empty.";

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// A portable file that `garret export` wrote
    #[arg(required_unless_present = "from")]
    file: Option<String>,
    /// The name of the new workspace [default: the one it had]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Import plain files instead: from a directory, or a .tar, .tar.gz or .tar.zst
    #[arg(long, value_name = "DIR|TAR", conflicts_with = "file", requires = "name")]
    from: Option<String>,
    /// Where its files are stored: `filestore` (in the home), `local:DIR` (an empty directory) or `s3://BUCKET/PREFIX?endpoint=URL`
    #[arg(long, default_value = "filestore", value_name = "STORAGE")]
    storage: String,
    /// Its capabilities, as for `garret create` [default: fs,snapshot]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    capability: Vec<String>,
}

impl ImportArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        // The arguments are checked before anything is imported.
        let capabilities = Capabilities::from_names(self.capability.iter().map(String::as_str));
        let capabilities = capabilities.map_err(CliFailure::wrong_usage)?;
        let storage = create::parse_storage_config(&self.storage).map_err(CliFailure::wrong_usage)?;
        let depot = session.open_depot().await?;
        let (name, report) = match (&self.from, &self.file, &self.name) {
            (Some(place), _, Some(name)) => (name.clone(), import_plain_files(&depot, place, name).await?),
            (_, Some(file), _) => {
                let name = self.workspace_name(file)?;
                let report = import_portable(&depot, file, &name).await?;
                (name, report)
            }
            _ => unreachable!("a FILE, or --from and --name, is required"),
        };
        if storage.kind() != "filestore" {
            move_to_storage(session, &depot, &name, &storage).await?;
        }
        if !self.capability.is_empty() {
            session.garret().capabilities(&name, Some(&capabilities)).await?;
        }
        Ok(report)
    }

    /// Returns the name for the workspace of a portable file.
    fn workspace_name(&self, file: &str) -> Result<String, CliFailure> {
        match &self.name {
            Some(name) => Ok(name.clone()),
            None => read_portable_manifest(transfer_files::open_for_reading(file)?)?
                .name
                .ok_or_else(nameless_failure),
        }
    }
}

/// Imports a portable file as the workspace `name`.
async fn import_portable(depot: &Depot, file: &str, name: &str) -> CliOutcome {
    let source = transfer_files::open_for_reading(file)?;
    let progress = ProgressLine::start("importing");
    let new = NewWorkspace::named(name);
    let mut watch = |done| progress.set_reached(done);
    let (_, imported) = import_workspace(depot, new, source, &mut watch).await?;
    drop(progress);
    let text = format!(
        "imported {}: {}, {}",
        escape_unprintable(name),
        render::format_count(imported.changes, "change"),
        render::format_size(imported.bytes)
    );
    let data = json!({"name": name, "imported": imported});
    Ok(CliReport::success(text, data))
}

/// Imports plain files as the workspace `name`; if they cannot be read, no workspace is made.
async fn import_plain_files(depot: &Depot, place: &str, name: &str) -> CliOutcome {
    let source = match Compression::of_name(place) {
        Some(compression) => TreeSource::Archive(Box::new(transfer_files::open_for_reading(place)?), compression),
        None => TreeSource::Directory(transfer_files::existing_directory(place)?),
    };
    let origin = Origin {
        operation: "import".into(),
        summary: "import files".into(),
        actor: Actor::from_door("cli"),
        ..Origin::default()
    };
    let progress = ProgressLine::start("importing");
    let new = NewWorkspace::named(name);
    let mut watch = |done| progress.set_reached(done);
    let (workspace, moved) = import_files(depot, new, source, origin, &mut watch).await?;
    drop(progress);
    let text = format!("imported {}: {}", escape_unprintable(name), moved_amount(&moved));
    let note = left_out_files(&moved);
    Ok(CliReport::success(text, json!({"name": name, "id": workspace.id(), "imported": moved})).with_note(note))
}

/// Moves the files of the new workspace `name` to `storage`; if that fails, the workspace is deleted again.
async fn move_to_storage(
    session: &Session,
    depot: &Depot,
    name: &str,
    storage: &StorageConfig,
) -> Result<(), CliFailure> {
    let _progress = ProgressLine::start("moving the files");
    let Err(error) = session.garret().check_out(name, storage).await else {
        return Ok(());
    };
    let made = depot.workspace(name).await?;
    // Renamed to its id first, so that its name is free again.
    depot.rename(made.id(), made.id()).await?;
    depot.delete(made.id()).await?;
    let hint = format!("{}; nothing was imported", error.hint_text());
    Err(error.hint(hint).into())
}

fn nameless_failure() -> CliFailure {
    CliFailure::wrong_usage(Error::invalid("this file does not name its workspace").hint("give a name with --name"))
}
