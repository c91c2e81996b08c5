//! Opens a depot, and creates, finds, renames and deletes the workspaces in it.

#![allow(
    clippy::disallowed_methods,
    reason = "this file owns the home: it makes its folders and its lock file"
)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use garret_core::path::quote;
use garret_core::{Clock, Error, ErrorKind, Ids, OpenContext, Result, Timestamp};

use crate::content::{ContentStore, blob_folder_names};
use crate::error;
use crate::history::{check_kept, is_complete, lineage_of};
use crate::home_permissions;
use crate::metadata::{
    ExpectedDatabase, HEAD, LineageLevel, MetadataDatabase, MetadataSession, WorkspaceRow, stored_time, time_of,
};
use crate::options::DepotOptions;
use crate::workspace::DepotWorkspace;
use crate::workspace_places::check_place_kept;
use crate::writer::{DepotWriter, JobWeight};

/// Many workspaces with their journals, content, snapshots and branches. Cheap to clone: clones are the same depot.
#[derive(Debug, Clone)]
pub struct Depot {
    pub(crate) shared: Arc<DepotShared>,
}

/// The state that all handles of one depot share.
#[derive(Debug)]
pub(crate) struct DepotShared {
    pub(crate) database: MetadataDatabase,
    pub(crate) content: Arc<ContentStore>,
    pub(crate) writer: DepotWriter,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) options: DepotOptions,
    pub(crate) is_flattening: AtomicBool,
    /// The directory of the depot; `None` in memory.
    pub(crate) home: Option<PathBuf>,
}

/// A workspace to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWorkspace {
    /// The name, unique in the depot; `None` for a workspace that is found only by its id.
    pub name: Option<String>,
    /// The kind of storage that holds its files: `filestore`, `memory`, `local`, …
    pub kind: String,
    /// The configuration that is used to open it.
    pub config: serde_json::Value,
}

impl NewWorkspace {
    /// Returns a workspace with the name `name` whose files live in the depot.
    pub fn named(name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..Self::unnamed()
        }
    }

    /// Returns a workspace without a name whose files live in the depot.
    pub fn unnamed() -> Self {
        Self {
            name: None,
            kind: "filestore".to_owned(),
            config: serde_json::Value::Object(serde_json::Map::new()),
        }
    }
}

/// A workspace as the depot lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkspaceInfo {
    /// The id; it is never used again.
    pub id: String,
    /// The name, if it has one.
    pub name: Option<String>,
    /// The kind of storage that holds its files.
    pub kind: String,
    /// Its configuration.
    pub config: serde_json::Value,
    /// The point at which it was branched off, if it is a branch.
    pub fork: Option<ForkPoint>,
    /// The number of its newest change; 0 if there is none.
    pub head: u64,
    /// The time of its creation.
    pub created: Timestamp,
    /// The time of its deletion; it is recoverable until garbage collection.
    pub deleted: Option<Timestamp>,
}

/// The point at which a branch begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkPoint {
    /// The id of the workspace it was branched off.
    pub workspace: String,
    /// The number of that workspace's change.
    pub change: u64,
    /// Whether the depot knew every file at that point; the branch began without the files that it did not know.
    pub is_complete: bool,
}

impl Depot {
    /// Opens the depot in the directory `home`, and creates both if they are missing. A home of an older Garret is
    /// migrated. A home of a newer Garret is `unsupported` and left alone. A home whose database is lost is `corrupt`,
    /// and no new database is created in it.
    pub async fn open(home: &Path, options: DepotOptions, context: OpenContext) -> Result<Self> {
        let (owner, user) = (
            home_permissions::owner_of_home(home),
            home_permissions::effective_user(),
        );
        let refused = |failure: std::io::Error| error::home_not_usable_by(owner, user, &failure);
        let turns = home.join("depot.lock");
        // The lock file is created last, so if it exists, all other files of the home are on the disk.
        let is_new = !turns.try_exists().map_err(refused)?;
        // Opened before SQLite opens its files: for a file without permission, SQLite reports only that it cannot open
        // it.
        let known_turns = (!is_new)
            .then(|| home_permissions::make_file(&turns))
            .transpose()
            .map_err(refused)?;
        let blobs = home.join("blobs");
        // If the blobs were lost, their folders are created again: that content is missing, but the rest of the home
        // works.
        if is_new || !blobs.try_exists().map_err(refused)? {
            make_folders(home, &blobs).map_err(refused)?;
        }
        let file = home.join("depot.db");
        // Blobs are looked for before the database: another process that creates the home creates the database before
        // it writes a blob.
        let expected = if is_new && !has_blobs(&blobs).map_err(refused)? {
            ExpectedDatabase::DepotOrNothing
        } else {
            ExpectedDatabase::Depot
        };
        // Checked before SQLite opens the file: it would delete the log beside an empty database.
        if expected == ExpectedDatabase::Depot && !file.metadata().is_ok_and(|found| found.len() > 0) {
            return Err(error::lost_database());
        }
        if expected == ExpectedDatabase::DepotOrNothing {
            // SQLite would create the file with the mode that the umask leaves. Its log files get the mode of this
            // file.
            home_permissions::make_file(&file).map_err(refused)?;
        }
        let (database, connection) = MetadataDatabase::open(&file, expected)?;
        if is_new {
            sync_home(home).map_err(refused)?;
        }
        let turns = known_turns
            .map_or_else(|| home_permissions::make_file(&turns), Ok)
            .map_err(refused)?;
        let content = ContentStore::in_directory(&blobs, options.inline_bytes, context.clock.clone())?;
        let content = Arc::new(content);
        let writer = DepotWriter::start(connection, Some(turns), content.clone())?;
        let depot = Self::from_parts(database, content, writer, options, context, Some(home.to_owned()));
        // Before the depot is returned, so that no caller sees a change whose content a power failure destroyed.
        depot.recover_unsynced().await?;
        Ok(depot)
    }

    /// Creates a depot in memory that lives as long as its handles.
    pub fn in_memory(options: DepotOptions, context: OpenContext) -> Result<Self> {
        let (database, connection) = MetadataDatabase::in_memory()?;
        let content = Arc::new(ContentStore::in_memory(options.inline_bytes, context.clock.clone()));
        let writer = DepotWriter::start(connection, None, content.clone())?;
        Ok(Self::from_parts(database, content, writer, options, context, None))
    }

    fn from_parts(
        database: MetadataDatabase,
        content: Arc<ContentStore>,
        writer: DepotWriter,
        options: DepotOptions,
        context: OpenContext,
        home: Option<PathBuf>,
    ) -> Self {
        Self {
            shared: Arc::new(DepotShared {
                database,
                content,
                writer,
                clock: context.clock,
                ids: context.ids,
                options,
                is_flattening: AtomicBool::new(false),
                home,
            }),
        }
    }

    /// Returns the id of this depot, which no other depot has.
    pub fn id(&self) -> Result<String> {
        let id = self.shared.database.read(|session| session.workspaces().depot_id())?;
        id.ok_or_else(|| error::damaged_content("the id of the home is missing"))
    }

    /// Creates an empty workspace. A name that is taken is `already_exists`.
    pub async fn create(&self, new: NewWorkspace) -> Result<DepotWorkspace> {
        self.add_workspace(new, None).await
    }

    /// Creates a workspace that begins at `fork`, or empty.
    pub(crate) async fn add_workspace(&self, new: NewWorkspace, fork: Option<LineageLevel>) -> Result<DepotWorkspace> {
        if let Some(name) = &new.name {
            check_name(name)?;
        }
        let row = WorkspaceRow {
            id: 0,
            uid: self.shared.ids.next_id(),
            name: new.name,
            kind: new.kind,
            config: new.config.to_string(),
            fork,
            is_flat: false,
            head: 0,
            created: stored_time(self.shared.clock.now()),
            deleted: None,
        };
        let add = move |session: MetadataSession<'_>| {
            match row.fork {
                None => check_name_free(session, row.name.as_deref())?,
                Some(fork) => check_name_free_for_branch(session, row.name.as_deref(), fork.workspace)?,
            }
            if let Some(fork) = row.fork {
                let origin = session.workspaces().workspace(fork.workspace)?;
                origin
                    .ok_or_else(|| Error::new(ErrorKind::NotFound, "the workspace to branch from no longer exists"))?;
                // Checked again in this transaction: retention or a removal may have come since the point was looked
                // up.
                check_kept(session, fork)?;
            }
            let id = session.workspaces().add_workspace(&row)?;
            Ok(WorkspaceRow { id, ..row })
        };
        let durability = self.shared.options.durability;
        let row = self
            .shared
            .writer
            .write_weighed(JobWeight::Small, durability, add)
            .await?;
        Ok(self.workspace_handle(&row))
    }

    /// Returns the workspace with the id or the name `name`.
    pub async fn workspace(&self, name: &str) -> Result<DepotWorkspace> {
        let row = self
            .shared
            .database
            .read(|session| find_open_workspace(session, name))?;
        Ok(self.workspace_handle(&row))
    }

    /// Returns every workspace, deleted ones included, in the order of their names.
    pub async fn workspaces(&self) -> Result<Vec<WorkspaceInfo>> {
        self.shared.database.read(|session| {
            let rows = session.workspaces().list_workspaces()?;
            rows.into_iter().map(|row| workspace_info(session, row)).collect()
        })
    }

    /// Renames the workspace `name` to `new`. A name that is taken is `already_exists`; the own id of the workspace is
    /// always allowed.
    pub async fn rename(&self, name: &str, new: &str) -> Result<()> {
        check_name(new)?;
        let (name, new) = (name.to_owned(), new.to_owned());
        let rename = move |session: MetadataSession<'_>| {
            let row = find_workspace(session, &name)?;
            if new != row.uid {
                check_name_free(session, Some(&new))?;
            }
            session.workspaces().set_name(row.id, Some(&new))
        };
        self.shared.writer.write(self.shared.options.durability, rename).await
    }

    /// Deletes the workspace `name`. [`Depot::recover`] brings it back until garbage collection. Its branches are not
    /// affected.
    pub async fn delete(&self, name: &str) -> Result<()> {
        let row = self.shared.database.read(|session| find_workspace(session, name))?;
        let (number, now) = (row.id, stored_time(self.shared.clock.now()));
        let delete = move |session: MetadataSession<'_>| session.workspaces().set_deleted(number, Some(now));
        let deleted = self.shared.writer.write(self.shared.options.durability, delete);
        match row.deleted {
            // The log belongs to the place of the files: the next workspace there would take its records for its own.
            None => self.with_log_in_journal(&self.workspace_handle(&row), deleted).await,
            Some(_) => deleted.await,
        }
    }

    /// Recovers a deleted workspace. If another workspace has taken the place of its files since, that is
    /// `already_exists`: [`Depot::recover_at`] assigns the place again when it is free.
    pub async fn recover(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        let recover = move |session: MetadataSession<'_>| {
            let row = find_workspace(session, &name)?;
            check_place_kept(session, &row)?;
            session.workspaces().set_deleted(row.id, None)
        };
        self.shared.writer.write(self.shared.options.durability, recover).await
    }

    pub(crate) fn workspace_handle(&self, row: &WorkspaceRow) -> DepotWorkspace {
        DepotWorkspace::new(self.clone(), row.id, row.uid.clone(), row.kind.clone())
    }
}

/// Creates the folders of a home with access for its owner only: the home also holds deleted files.
fn make_folders(home: &Path, blobs: &Path) -> std::io::Result<()> {
    home_permissions::make_folder(home)?;
    home_permissions::make_folder(blobs)?;
    // Created and synced once, so that a power failure never removes the folder of a blob that was synced.
    for folder in blob_folder_names() {
        home_permissions::make_folder(&blobs.join(folder))?;
    }
    sync_directory(blobs)
}

/// Returns whether the blob store holds any file.
fn has_blobs(blobs: &Path) -> std::io::Result<bool> {
    for folder in std::fs::read_dir(blobs)? {
        let folder = folder?;
        if folder.file_type()?.is_dir() && std::fs::read_dir(folder.path())?.next().is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Syncs the directory of the home and the directory above it.
fn sync_home(home: &Path) -> std::io::Result<()> {
    // Without this, a power failure could remove a new home together with durable changes in it.
    sync_directory(home)?;
    home.parent()
        .filter(|above| !above.as_os_str().is_empty())
        .map_or(Ok(()), sync_directory)
}

fn sync_directory(directory: &Path) -> std::io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Returns the workspace with the id or the name `name`, deleted or not.
pub(crate) fn find_workspace(session: MetadataSession<'_>, name: &str) -> Result<WorkspaceRow> {
    // The id first: a workspace must not be hidden by another one whose name is that id.
    let found = match session.workspaces().workspace_by_uid(name)? {
        Some(row) => Some(row),
        None => session.workspaces().workspace_by_name(name)?,
    };
    found.ok_or_else(|| no_such_workspace(name))
}

/// Returns the workspace with the id or the name `name`, unless it is deleted.
pub(crate) fn find_open_workspace(session: MetadataSession<'_>, name: &str) -> Result<WorkspaceRow> {
    let row = find_workspace(session, name)?;
    check_open(&row, name).map(|()| row)
}

/// Checks that a workspace is not deleted; a deleted one is `not_found`.
pub(crate) fn check_open(row: &WorkspaceRow, name: &str) -> Result<()> {
    match row.deleted {
        None => Ok(()),
        Some(_) => Err(no_such_workspace(name).hint("it was deleted, and can be recovered until garbage collection")),
    }
}

fn no_such_workspace(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no workspace {}", quote(name)))
        .hint("list the workspaces to see their names")
}

pub(crate) fn check_name_free(session: MetadataSession<'_>, name: Option<&str>) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    if session.workspaces().workspace_by_uid(name)?.is_some() {
        return Err(name_is_id_error(name));
    }
    match session.workspaces().workspace_by_name(name)? {
        None => Ok(()),
        Some(row) => {
            let deleted = if row.deleted.is_some() {
                " (deleted, and still recoverable)"
            } else {
                ""
            };
            let message = format!("the workspace {} exists already{deleted}", quote(name));
            Err(Error::new(ErrorKind::AlreadyExists, message).hint("choose another name"))
        }
    }
}

/// Returns the error for a name that is the id of another workspace.
fn name_is_id_error(name: &str) -> Error {
    let message = format!("the name {} is the id of a workspace", quote(name));
    Error::new(ErrorKind::AlreadyExists, message).hint("choose another name")
}

/// Checks that a name is free for a branch of the workspace `parent`. If an unrelated workspace has the name, the error
/// says only that the name is taken.
fn check_name_free_for_branch(session: MetadataSession<'_>, name: Option<&str>, parent: i64) -> Result<()> {
    // Names are unique in a depot, so a taken name cannot be kept secret; any other fact about an unrelated workspace
    // can.
    let holder = name.map_or(Ok(None), |name| session.workspaces().workspace_by_name(name))?;
    match (name, holder) {
        (Some(name), Some(holder)) if lineage_root(session, holder.id)? != lineage_root(session, parent)? => {
            let message = format!("the name {} is taken", quote(name));
            Err(Error::new(ErrorKind::AlreadyExists, message).hint("choose another name"))
        }
        _ => check_name_free(session, name),
    }
}

/// Returns the root of the lineage of `workspace`: the oldest workspace that it descends from.
fn lineage_root(session: MetadataSession<'_>, workspace: i64) -> Result<i64> {
    let lineage = lineage_of(session, LineageLevel { workspace, at: HEAD })?;
    Ok(lineage.last().map_or(workspace, |level| level.workspace))
}

/// Checks the name of a workspace. A user types it after `-w`, so it must be short, printable, and free of characters
/// that have a meaning there.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || matches!(c, '@' | '/' | ':' | '\\');
    if name.is_empty() || name.len() > 100 || name.starts_with(['-', '.']) || name.contains(is_odd) {
        return Err(
            Error::invalid(format!("{} cannot be the name of a workspace", quote(name)))
                .hint("use up to 100 letters, digits, `-`, `_` and `.`, beginning with a letter or digit"),
        );
    }
    Ok(())
}

pub(crate) fn workspace_info(session: MetadataSession<'_>, row: WorkspaceRow) -> Result<WorkspaceInfo> {
    let fork = match row.fork {
        Some(fork) => {
            let is_complete = match is_complete(session, fork) {
                // One damaged lineage must not keep the other workspaces from being listed.
                Err(error) if error.kind() == ErrorKind::Corrupt => false,
                told => told?,
            };
            session.workspaces().workspace(fork.workspace)?.map(|parent| ForkPoint {
                workspace: parent.uid,
                change: fork.at.unsigned_abs(),
                is_complete,
            })
        }
        None => None,
    };
    Ok(WorkspaceInfo {
        id: row.uid,
        name: row.name,
        kind: row.kind,
        config: serde_json::from_str(&row.config).map_err(|_| error::damaged_content("a workspace's configuration"))?,
        fork,
        head: row.head.unsigned_abs(),
        created: time_of(row.created),
        deleted: row.deleted.map(time_of),
    })
}
