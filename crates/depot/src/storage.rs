//! The storage contract, implemented for the newest state of a workspace and for any point of its past.

use std::sync::Arc;

use async_trait::async_trait;
use garret_core::memory::check_limit;
use garret_core::{
    Applied, Batch, ChangeKind, Directory, Error, ErrorKind, Follow, ListOptions, ListPage, Mutation, ReadOptions,
    ReadResult, Result, Stat, StatOptions, Storage, StorageInfo, WsPath,
};

use crate::change::{Changing, Step, summary_of};
use crate::content::{Address, Prepared};
use crate::depot::Shared;
use crate::error::damaged;
use crate::history::check_kept;
use crate::metadata::{ContentRow, HEAD, Held, Level, Node, Session};
use crate::tree::{Last, Tree, bytes, version_of};
use crate::workspace::DepotWorkspace;
use crate::writer::Weight;

/// The maximum number of mutations that are applied on the caller's thread.
const MOST_SMALL_STEPS: usize = 16;

/// The files of a workspace at one point, for reading; a change is `denied`.
#[derive(Debug, Clone)]
pub struct DepotView {
    shared: Arc<Shared>,
    kind: Arc<str>,
    point: Level,
}

impl DepotView {
    pub(crate) fn new(shared: Arc<Shared>, kind: Arc<str>, point: Level) -> Self {
        Self { shared, kind, point }
    }

    /// Returns the state that all handles of its depot share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Runs `look` on the tree at the point of this view.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Tree<'_>) -> Result<T>) -> Result<T> {
        self.shared.database.read(|session| {
            // Retention may have dropped the point since the view was opened; the newest state is always kept.
            if self.point.at != HEAD {
                check_kept(session, self.point)?;
            }
            look(&Tree::at(session, self.point)?)
        })
    }
}

/// A file, with the address and the row of its content.
struct Found {
    file: Node,
    address: Address,
    row: ContentRow,
}

impl DepotView {
    /// Returns the file at `path` if the newest state has a row of its own for it. Then no parent can be a link, and
    /// the lineage does not matter. `None` means only that a full lookup is needed.
    fn own_file(&self, path: &WsPath) -> Result<Option<Found>> {
        if self.point.at != HEAD || path.is_root() {
            return Ok(None);
        }
        let workspace = self.point.workspace;
        let look = |session: Session<'_>| session.entry_with_content(workspace, bytes(path));
        let Some((Held::Node(file), Some(row))) = self.shared.database.read_once(look)? else {
            return Ok(None);
        };
        Ok(file.content.map(|address| Found { file, address, row }))
    }
}

fn found_file(tree: &Tree<'_>, path: &WsPath, follow: Follow) -> Result<Found> {
    let place = tree.locate(path, Last::Followed, follow)?;
    let file = tree.file(&place)?;
    let address = file.content.ok_or_else(|| damaged("a file has no content").at(path))?;
    let row = tree.session().content(address)?;
    let row = row.ok_or_else(|| damaged("the content is missing from the home").at(path))?;
    Ok(Found { file, address, row })
}

#[async_trait]
impl Storage for DepotView {
    fn info(&self) -> StorageInfo {
        StorageInfo {
            kind: self.kind.to_string(),
            is_durable: self.shared.database.is_durable(),
            has_modes: true,
            has_symlinks: true,
            has_hard_links: false,
            file_mode: Some(0o644),
        }
    }

    async fn resolve(&self, path: &WsPath) -> Result<WsPath> {
        self.look(|tree| {
            tree.locate(path, Last::Followed, Follow::Inside)
                .map(|place| place.path)
        })
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        self.look(|tree| {
            let place = tree.locate(path, Last::Kept, options.follow)?;
            tree.stat(&place, options.with_version)
        })
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        let found = match self.own_file(path)? {
            Some(found) => found,
            None => self.look(|tree| found_file(tree, path, options.follow))?,
        };
        let Found { file, address, row } = found;
        let version = version_of(&file).expect("a file has content");
        options.precondition.check(path, Some(&version))?;
        let range = options.range.unwrap_or(0..file.size);
        let range = range.start.min(file.size)..range.end.min(file.size).max(range.start.min(file.size));
        // The smaller of both sizes: a damaged size must be reported as damage, not as a file that is too large.
        check_limit(path, (range.end - range.start).min(row.size), options.max_bytes)?;
        let shared = &self.shared;
        let content = shared.content.read(&shared.database, address, row, file.size, range);
        Ok(ReadResult {
            bytes: content.await.map_err(|error| error.at(path))?,
            size: file.size,
            version,
            mode: Some(file.mode),
            hard_linked: None,
        })
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        self.look(|tree| {
            let place = tree.locate(path, Last::Followed, options.follow)?;
            tree.list(&place, &options)
        })
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Applied>> {
        let error = Error::new(
            ErrorKind::Denied,
            "this is an earlier point of the workspace, which is read-only",
        );
        let path = batch
            .mutations
            .first()
            .map(|first| first.path().clone())
            .unwrap_or_else(WsPath::root);
        Err(error
            .at(&path)
            .hint("change the current workspace, or create a branch from this point"))
    }

    fn open_directory(&self, _path: &WsPath) -> Result<Option<Box<dyn Directory>>> {
        Ok(None)
    }
}

/// Adds `path` to an error that names no path yet.
fn placed(error: Error, path: &WsPath) -> Error {
    match error.path() {
        Some(_) => error,
        None => error.at(path),
    }
}

impl DepotWorkspace {
    /// Stores the content of the writes, before the transaction that refers to it.
    async fn prepared(&self, mutations: Vec<Mutation>) -> Result<Vec<Step>> {
        let shared = self.shared();
        let mut steps = Vec::with_capacity(mutations.len());
        for mut mutation in mutations {
            let content = match &mut mutation {
                Mutation::Write { path, content, .. } => {
                    // Moved out of the mutation, so that large content does not stay in memory until the commit.
                    let content = std::mem::take(content);
                    let prepared = shared.content.prepare(&shared.database, &content, self.durability);
                    Some(prepared.await.map_err(|error| error.at(path))?)
                }
                _ => None,
            };
            steps.push(Step { mutation, content });
        }
        Ok(steps)
    }
}

/// Estimates the cost of the steps for the writer.
fn weight_of(steps: &[Step]) -> Weight {
    let is_small = |step: &Step| match &step.mutation {
        Mutation::Write { .. } => step.content.as_ref().is_some_and(Prepared::is_inline),
        Mutation::MakeDir { .. } | Mutation::Symlink { .. } | Mutation::SetMode { .. } => true,
        _ => false,
    };
    match steps.len() {
        _ if !steps.iter().all(is_small) => Weight::Any,
        // A step checks everything before its first write, so a single step needs no savepoint.
        0..=1 => Weight::Single,
        2..=MOST_SMALL_STEPS => Weight::Small,
        _ => Weight::Any,
    }
}

#[async_trait]
impl Storage for DepotWorkspace {
    fn info(&self) -> StorageInfo {
        self.now().info()
    }

    async fn resolve(&self, path: &WsPath) -> Result<WsPath> {
        self.now().resolve(path).await
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        self.now().stat(path, options).await
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        self.now().read(path, options).await
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        self.now().list(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Applied>> {
        let mut origin = batch.origin.clone();
        if origin.summary.is_empty() {
            origin.summary = summary_of(&batch);
        }
        let first = batch.mutations.first().map(|first| first.path().clone());
        let (follow, steps) = (batch.follow, self.prepared(batch.mutations).await?);
        let weight = weight_of(&steps);
        let (shared, number, durability) = (self.shared().clone(), self.number, self.durability);
        let work = move |session: Session<'_>| {
            let mut changing = Changing::begin(session, &shared, number, durability)?;
            let applied = steps
                .into_iter()
                .map(|step| {
                    let path = step.mutation.path().clone();
                    changing.step(step, follow).map_err(|error| placed(error, &path))
                })
                .collect::<Result<_>>()?;
            changing.finish(&shared, ChangeKind::Change, origin.into())?;
            Ok(applied)
        };
        let applied = self.shared().writer.write_weighed(weight, self.durability, work).await;
        applied.map_err(|error| placed(error, &first.unwrap_or_else(WsPath::root)))
    }

    fn open_directory(&self, _path: &WsPath) -> Result<Option<Box<dyn Directory>>> {
        Ok(None)
    }
}
