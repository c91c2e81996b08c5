//! A depot: opening it, and the workspaces in it.

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

use crate::content::{ContentStore, folders};
use crate::error;
use crate::history::{check_kept, is_complete, lineage};
use crate::metadata::{Database, Expected, HEAD, Level, Session, WorkspaceRow, stored_time, time_of};
use crate::options::DepotOptions;
use crate::places::check_placed;
use crate::private;
use crate::workspace::DepotWorkspace;
use crate::writer::{Weight, Writer};

/// Many workspaces with their journals, content, snapshots and branches. Cheap to clone: clones are the same depot.
#[derive(Debug, Clone)]
pub struct Depot {
    pub(crate) shared: Arc<Shared>,
}

/// What every handle of one depot uses.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) content: Arc<ContentStore>,
    pub(crate) writer: Writer,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) options: DepotOptions,
    pub(crate) is_flattening: AtomicBool,
    /// The folder it is in; `None` in memory.
    pub(crate) home: Option<PathBuf>,
}

/// A workspace to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWorkspace {
    /// Its name, unique in the depot; `None` for one that only its id finds.
    pub name: Option<String>,
    /// Where its files live: `filestore`, `memory`, `local`, …
    pub kind: String,
    /// Its configuration, for whoever opens it.
    pub config: serde_json::Value,
}

impl NewWorkspace {
    /// A workspace whose files live in the depot.
    pub fn named(name: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..Self::unnamed()
        }
    }

    /// The same without a name.
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
    /// Unique for ever.
    pub id: String,
    /// Its name, where it has one.
    pub name: Option<String>,
    /// Where its files live.
    pub kind: String,
    /// Its configuration.
    pub config: serde_json::Value,
    /// Where it was branched off.
    pub fork: Option<Fork>,
    /// The number of its newest change; 0 where there is none.
    pub head: u64,
    /// When it was made.
    pub created: Timestamp,
    /// When it was deleted; recoverable until the garbage is collected.
    pub deleted: Option<Timestamp>,
}

/// The point at which a branch begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// The id of the workspace it was branched off.
    pub workspace: String,
    /// The number of that workspace's change.
    pub change: u64,
    /// Whether every file was known there; the branch began without the others.
    pub is_complete: bool,
}

impl Depot {
    /// Opens the depot in the directory `home`, making both where they are missing. A home of an older Garret is brought up to date; one
    /// of a newer Garret is `unsupported` and left alone; one whose database is lost is `corrupt`, and no new one is begun in it.
    pub async fn open(home: &Path, options: DepotOptions, context: OpenContext) -> Result<Self> {
        let (owner, user) = (private::owner(home), private::user());
        let refused = |failure: std::io::Error| error::home_of(owner, user, &failure);
        let turns = home.join("depot.lock");
        // Made last of all, so where it is, everything before it is on the disk.
        let is_new = !turns.try_exists().map_err(refused)?;
        // Before SQLite meets files that it may not open, of which it tells no more than that.
        let known_turns = (!is_new)
            .then(|| private::make_file(&turns))
            .transpose()
            .map_err(refused)?;
        let blobs = home.join("blobs");
        // Where they were lost, what lay in them is missing, and the rest of the home works.
        if is_new || !blobs.try_exists().map_err(refused)? {
            make_folders(home, &blobs).map_err(refused)?;
        }
        let file = home.join("depot.db");
        // Before the database is looked for: another process makes that before it writes a blob.
        let expected = match is_new && !has_blobs(&blobs).map_err(refused)? {
            true => Expected::Either,
            false => Expected::Depot,
        };
        // Before SQLite looks at it, which would throw away the log beside an empty database.
        if expected == Expected::Depot && !file.metadata().is_ok_and(|found| found.len() > 0) {
            return Err(error::lost_database());
        }
        if expected == Expected::Either {
            // Before SQLite makes it, with the mode that the umask leaves; the files beside it get the mode of this one.
            private::make_file(&file).map_err(refused)?;
        }
        let (database, connection) = Database::open(&file, expected)?;
        if is_new {
            sync_home(home).map_err(refused)?;
        }
        let turns = known_turns
            .map_or_else(|| private::make_file(&turns), Ok)
            .map_err(refused)?;
        let content = ContentStore::in_directory(&blobs, options.inline_bytes, context.clock.clone())?;
        let content = Arc::new(content);
        let writer = Writer::start(connection, Some(turns), content.clone())?;
        let depot = Self::assembled(database, content, writer, options, context, Some(home.to_owned()));
        depot.settle().await?;
        Ok(depot)
    }

    /// A depot that lives as long as its handles.
    pub fn in_memory(options: DepotOptions, context: OpenContext) -> Result<Self> {
        let (database, connection) = Database::in_memory()?;
        let content = Arc::new(ContentStore::in_memory(options.inline_bytes, context.clock.clone()));
        let writer = Writer::start(connection, None, content.clone())?;
        Ok(Self::assembled(database, content, writer, options, context, None))
    }

    fn assembled(
        database: Database,
        content: Arc<ContentStore>,
        writer: Writer,
        options: DepotOptions,
        context: OpenContext,
        home: Option<PathBuf>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
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

    /// What tells this depot from every other.
    pub fn id(&self) -> Result<String> {
        let id = self.shared.database.read(|session| session.identity())?;
        id.ok_or_else(|| error::damaged("the id of the home is missing"))
    }

    /// Makes an empty workspace. A name that is taken is `already_exists`.
    pub async fn create(&self, new: NewWorkspace) -> Result<DepotWorkspace> {
        self.add(new, None).await
    }

    /// Makes a workspace that begins at `fork`.
    pub(crate) async fn add(&self, new: NewWorkspace, fork: Option<Level>) -> Result<DepotWorkspace> {
        if let Some(name) = &new.name {
            check_name(name)?;
        }
        let row = WorkspaceRow {
            id: 0,
            uid: self.shared.ids.next(),
            name: new.name,
            kind: new.kind,
            config: new.config.to_string(),
            fork,
            is_flat: false,
            head: 0,
            created: stored_time(self.shared.clock.now()),
            deleted: None,
        };
        let add = move |session: Session<'_>| {
            match row.fork {
                None => check_free(session, row.name.as_deref())?,
                Some(fork) => check_free_for_branch(session, row.name.as_deref(), fork.workspace)?,
            }
            if let Some(fork) = row.fork {
                let origin = session.workspace(fork.workspace)?;
                origin
                    .ok_or_else(|| Error::new(ErrorKind::NotFound, "the workspace to branch from no longer exists"))?;
                // Asked again here: retention or a removal may have come since the point was looked up.
                check_kept(session, fork)?;
            }
            let id = session.add_workspace(&row)?;
            Ok(WorkspaceRow { id, ..row })
        };
        let durability = self.shared.options.durability;
        let row = self.shared.writer.write_weighed(Weight::Small, durability, add).await?;
        Ok(self.handle(&row))
    }

    /// The workspace called `name`, or with that id.
    pub async fn workspace(&self, name: &str) -> Result<DepotWorkspace> {
        let row = self.shared.database.read(|session| find_open(session, name))?;
        Ok(self.handle(&row))
    }

    /// Every workspace, deleted ones included, by name.
    pub async fn workspaces(&self) -> Result<Vec<WorkspaceInfo>> {
        self.shared.database.read(|session| {
            let rows = session.workspaces()?;
            rows.into_iter().map(|row| info(session, row)).collect()
        })
    }

    /// Gives the workspace `name` another name. A name that is taken is `already_exists`; its own id is always free.
    pub async fn rename(&self, name: &str, new: &str) -> Result<()> {
        check_name(new)?;
        let (name, new) = (name.to_owned(), new.to_owned());
        let rename = move |session: Session<'_>| {
            let row = find(session, &name)?;
            if new != row.uid {
                check_free(session, Some(&new))?;
            }
            session.set_name(row.id, Some(&new))
        };
        self.shared.writer.write(self.shared.options.durability, rename).await
    }

    /// Deletes the workspace `name`; [`Depot::recover`] brings it back until the garbage is collected. Its branches are not disturbed.
    pub async fn delete(&self, name: &str) -> Result<()> {
        let row = self.shared.database.read(|session| find(session, name))?;
        let (number, now) = (row.id, stored_time(self.shared.clock.now()));
        let delete = move |session: Session<'_>| session.set_deleted(number, Some(now));
        let deleted = self.shared.writer.write(self.shared.options.durability, delete);
        match row.deleted {
            None => self.with_log_in_journal(&self.handle(&row), deleted).await,
            Some(_) => deleted.await,
        }
    }

    /// Brings back a deleted workspace. One whose files live at a place that another workspace took since is `already_exists`:
    /// [`Depot::recover_at`] gives it the place again when that is free.
    pub async fn recover(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        let recover = move |session: Session<'_>| {
            let row = find(session, &name)?;
            check_placed(session, &row)?;
            session.set_deleted(row.id, None)
        };
        self.shared.writer.write(self.shared.options.durability, recover).await
    }

    pub(crate) fn handle(&self, row: &WorkspaceRow) -> DepotWorkspace {
        DepotWorkspace::new(self.clone(), row.id, row.uid.clone(), row.kind.clone())
    }
}

/// Makes the folders of a home, which nobody but its owner may look into: it holds what was deleted, too.
fn make_folders(home: &Path, blobs: &Path) -> std::io::Result<()> {
    private::make_folder(home)?;
    private::make_folder(blobs)?;
    // Made and synced once, so that a blob never lies in a folder that a loss of power can take.
    for folder in folders() {
        private::make_folder(&blobs.join(folder))?;
    }
    sync_directory(blobs)
}

/// Whether anything was ever stored among the blobs.
fn has_blobs(blobs: &Path) -> std::io::Result<bool> {
    for folder in std::fs::read_dir(blobs)? {
        let folder = folder?;
        if folder.file_type()?.is_dir() && std::fs::read_dir(folder.path())?.next().is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A home that a loss of power takes away would take along what was promised to survive it.
fn sync_home(home: &Path) -> std::io::Result<()> {
    sync_directory(home)?;
    home.parent()
        .filter(|above| !above.as_os_str().is_empty())
        .map_or(Ok(()), sync_directory)
}

fn sync_directory(directory: &Path) -> std::io::Result<()> {
    File::open(directory)?.sync_all()
}

/// The workspace with the id `name`, or called so, deleted or not. What is meant by its id is never another that has it for a name.
pub(crate) fn find(session: Session<'_>, name: &str) -> Result<WorkspaceRow> {
    let found = match session.workspace_by_uid(name)? {
        Some(row) => Some(row),
        None => session.workspace_by_name(name)?,
    };
    found.ok_or_else(|| missing(name))
}

/// The workspace with the id `name`, or called so, unless it is deleted.
pub(crate) fn find_open(session: Session<'_>, name: &str) -> Result<WorkspaceRow> {
    let row = find(session, name)?;
    check_open(&row, name).map(|()| row)
}

/// Refuses a workspace that is deleted.
pub(crate) fn check_open(row: &WorkspaceRow, name: &str) -> Result<()> {
    match row.deleted {
        None => Ok(()),
        Some(_) => Err(missing(name).hint("it was deleted, and can be recovered until garbage collection")),
    }
}

fn missing(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no workspace {}", quote(name)))
        .hint("list the workspaces to see their names")
}

pub(crate) fn check_free(session: Session<'_>, name: Option<&str>) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    if session.workspace_by_uid(name)?.is_some() {
        return Err(is_an_id(name));
    }
    match session.workspace_by_name(name)? {
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

/// The error for a name by which another workspace is meant.
fn is_an_id(name: &str) -> Error {
    let message = format!("the name {} is the id of a workspace", quote(name));
    Error::new(ErrorKind::AlreadyExists, message).hint("choose another name")
}

/// The same for a branch of the workspace `parent`. Names are unique in a depot, so that one is taken cannot be hidden from who makes a
/// branch; whatever else is known of a workspace that is no relative of it can.
fn check_free_for_branch(session: Session<'_>, name: Option<&str>, parent: i64) -> Result<()> {
    let holder = name.map_or(Ok(None), |name| session.workspace_by_name(name))?;
    match (name, holder) {
        (Some(name), Some(holder)) if origin(session, holder.id)? != origin(session, parent)? => {
            let message = format!("the name {} is taken", quote(name));
            Err(Error::new(ErrorKind::AlreadyExists, message).hint("choose another name"))
        }
        _ => check_free(session, name),
    }
}

/// The workspace from which, over all its forks, `workspace` comes.
fn origin(session: Session<'_>, workspace: i64) -> Result<i64> {
    let lineage = lineage(session, Level { workspace, at: HEAD })?;
    Ok(lineage.last().map_or(workspace, |level| level.workspace))
}

/// A name is what a user types after `-w`: short, printable, and without the characters that would mean something there.
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

pub(crate) fn info(session: Session<'_>, row: WorkspaceRow) -> Result<WorkspaceInfo> {
    let fork = match row.fork {
        Some(fork) => {
            let is_complete = match is_complete(session, fork) {
                // One lineage that is damaged keeps nobody from seeing the other workspaces.
                Err(error) if error.kind() == ErrorKind::Corrupt => false,
                told => told?,
            };
            session.workspace(fork.workspace)?.map(|parent| Fork {
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
        config: serde_json::from_str(&row.config).map_err(|_| error::damaged("a workspace's configuration"))?,
        fork,
        head: row.head.unsigned_abs(),
        created: time_of(row.created),
        deleted: row.deleted.map(time_of),
    })
}
