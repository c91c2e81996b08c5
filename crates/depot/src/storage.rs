//! The storage contract, implemented for the newest state of a workspace and for any point of its past.

use std::sync::Arc;

use async_trait::async_trait;
use garret_core::memory::check_read_limit;
use garret_core::{
    Batch, ChangeKind, ChangeMade, DirectoryHandle, Error, ErrorKind, Follow, ListOptions, ListPage, Mutation,
    MutationOutcome, ReadOptions, ReadResult, Result, Stat, StatOptions, Storage, StorageInfo, WsPath,
};

use crate::change::{ChangeBuilder, MutationStep, summary_of};
use crate::content::{PieceAddress, PreparedContent};
use crate::depot::DepotShared;
use crate::error::damaged_content;
use crate::history::check_kept;
use crate::metadata::{ContentRow, EntryNode, HEAD, LevelEntry, LineageLevel, MetadataSession};
use crate::tree::{DepotTree, TreeFinalLink, path_key, version_of};
use crate::workspace::DepotWorkspace;
use crate::writer::JobWeight;

/// The maximum number of mutations that are applied on the caller's thread.
const MOST_SMALL_STEPS: usize = 16;

/// The files of a workspace at one point, for reading; a change is `denied`.
#[derive(Debug, Clone)]
pub struct DepotView {
    shared: Arc<DepotShared>,
    kind: Arc<str>,
    point: LineageLevel,
}

impl DepotView {
    pub(crate) fn new(shared: Arc<DepotShared>, kind: Arc<str>, point: LineageLevel) -> Self {
        Self { shared, kind, point }
    }

    /// Returns the state that all handles of its depot share.
    pub(crate) fn shared(&self) -> &Arc<DepotShared> {
        &self.shared
    }

    /// Runs `look` on the tree at the point of this view.
    pub(crate) fn read_tree<T>(&self, look: impl FnOnce(&DepotTree<'_>) -> Result<T>) -> Result<T> {
        self.shared.database.read(|session| {
            // Retention may have dropped the point since the view was opened; the newest state is always kept.
            if self.point.at != HEAD {
                check_kept(session, self.point)?;
            }
            look(&DepotTree::at_point(session, self.point)?)
        })
    }
}

/// A file, with the address and the row of its content.
struct FoundFile {
    file: EntryNode,
    address: PieceAddress,
    row: ContentRow,
}

impl DepotView {
    /// Returns the file at `path` if the workspace has a row of its own for it, which holds at this point and still
    /// today. Then no parent can be a link, and neither the lineage nor retention matters. `None` means only that a full
    /// lookup is needed.
    fn own_file(&self, path: &WsPath) -> Result<Option<FoundFile>> {
        if path.is_root() {
            return Ok(None);
        }
        let LineageLevel { workspace, at } = self.point;
        let look = |session: MetadataSession<'_>| session.entries().entry_with_content(workspace, path_key(path), at);
        let Some((LevelEntry::Node(file), Some(row))) = self.shared.database.read_once(look)? else {
            return Ok(None);
        };
        Ok(file.content.map(|address| FoundFile { file, address, row }))
    }
}

fn find_file(tree: &DepotTree<'_>, path: &WsPath, follow: Follow) -> Result<FoundFile> {
    let place = tree.locate(path, TreeFinalLink::Followed, follow)?;
    let file = tree.require_file(&place)?;
    let address = file
        .content
        .ok_or_else(|| damaged_content("a file has no content").at_path(path))?;
    let row = tree.session().contents().content(address)?;
    let row = row.ok_or_else(|| damaged_content("the content is missing from the home").at_path(path))?;
    Ok(FoundFile { file, address, row })
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
        self.read_tree(|tree| {
            tree.locate(path, TreeFinalLink::Followed, Follow::Inside)
                .map(|place| place.path)
        })
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        self.read_tree(|tree| {
            let place = tree.locate(path, TreeFinalLink::NotFollowed, options.follow)?;
            tree.stat(&place, options.with_version)
        })
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        let found = match self.own_file(path)? {
            Some(found) => found,
            None => self.read_tree(|tree| find_file(tree, path, options.follow))?,
        };
        let FoundFile { file, address, row } = found;
        let version = version_of(&file).expect("a file has content");
        options.precondition.check_version(path, Some(&version))?;
        let range = options.range.unwrap_or(0..file.size);
        let range = range.start.min(file.size)..range.end.min(file.size).max(range.start.min(file.size));
        // The smaller of both sizes: a damaged size must be reported as damage, not as a file that is too large.
        check_read_limit(path, (range.end - range.start).min(row.size), options.max_bytes)?;
        let shared = &self.shared;
        let content = shared
            .content
            .read_range(&shared.database, address, row, file.size, range);
        Ok(ReadResult {
            bytes: content.await.map_err(|error| error.at_path(path))?,
            size: file.size,
            version,
            mode: Some(file.mode),
            hard_linked: None,
        })
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        self.read_tree(|tree| {
            let place = tree.locate(path, TreeFinalLink::Followed, options.follow)?;
            tree.list(&place, &options)
        })
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<MutationOutcome>> {
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
            .at_path(&path)
            .hint("change the current workspace, or create a branch from this point"))
    }

    fn open_directory(&self, _path: &WsPath) -> Result<Option<Box<dyn DirectoryHandle>>> {
        Ok(None)
    }
}

/// Adds `path` to an error that names no path yet.
fn with_path(error: Error, path: &WsPath) -> Error {
    match error.path() {
        Some(_) => error,
        None => error.at_path(path),
    }
}

impl DepotWorkspace {
    /// Stores the content of the writes, before the transaction that refers to it.
    async fn prepare_steps(&self, mutations: Vec<Mutation>) -> Result<Vec<MutationStep>> {
        let shared = self.shared();
        let mut steps = Vec::with_capacity(mutations.len());
        for mut mutation in mutations {
            let content = match &mut mutation {
                Mutation::Write { path, content, .. } => {
                    // Moved out of the mutation, so that large content does not stay in memory until the commit.
                    let content = std::mem::take(content);
                    let prepared = shared
                        .content
                        .prepare_content(&shared.database, &content, self.durability);
                    Some(prepared.await.map_err(|error| error.at_path(path))?)
                }
                _ => None,
            };
            steps.push(MutationStep { mutation, content });
        }
        Ok(steps)
    }
}

/// Estimates the cost of the steps for the writer.
fn weight_of(steps: &[MutationStep]) -> JobWeight {
    let is_small = |step: &MutationStep| match &step.mutation {
        Mutation::Write { .. } => step.content.as_ref().is_some_and(PreparedContent::is_inline),
        Mutation::MakeDir { .. } | Mutation::Symlink { .. } | Mutation::SetMode { .. } => true,
        _ => false,
    };
    match steps.len() {
        _ if !steps.iter().all(is_small) => JobWeight::Any,
        // A step checks everything before its first write, so a single step needs no savepoint.
        0..=1 => JobWeight::Single,
        2..=MOST_SMALL_STEPS => JobWeight::Small,
        _ => JobWeight::Any,
    }
}

#[async_trait]
impl Storage for DepotWorkspace {
    fn info(&self) -> StorageInfo {
        self.newest_view().info()
    }

    async fn resolve(&self, path: &WsPath) -> Result<WsPath> {
        self.newest_view().resolve(path).await
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        self.newest_view().stat(path, options).await
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        self.newest_view().read(path, options).await
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        self.newest_view().list(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<MutationOutcome>> {
        let mut origin = batch.origin.clone();
        if origin.summary.is_empty() {
            origin.summary = summary_of(&batch);
        }
        let first = batch.mutations.first().map(|first| first.path().clone());
        let (follow, steps) = (batch.follow, self.prepare_steps(batch.mutations).await?);
        let weight = weight_of(&steps);
        let (shared, number, durability) = (self.shared().clone(), self.number, self.durability);
        let work = move |session: MetadataSession<'_>| {
            let mut changing = ChangeBuilder::begin(session, &shared, number, durability)?;
            let mut applied = steps
                .into_iter()
                .map(|step| {
                    let path = step.mutation.path().clone();
                    changing
                        .apply_step(step, follow)
                        .map_err(|error| with_path(error, &path))
                })
                .collect::<Result<Vec<MutationOutcome>>>()?;
            if let Some((number, id)) = changing.finish(&shared, ChangeKind::Change, origin)? {
                let number = Some(number.unsigned_abs());
                let made = ChangeMade { id, number };
                applied.iter_mut().for_each(|one| one.change = Some(made.clone()));
            }
            Ok(applied)
        };
        let applied = self.shared().writer.write_weighed(weight, self.durability, work).await;
        applied.map_err(|error| with_path(error, &first.unwrap_or_else(WsPath::root)))
    }

    fn open_directory(&self, _path: &WsPath) -> Result<Option<Box<dyn DirectoryHandle>>> {
        Ok(None)
    }
}
