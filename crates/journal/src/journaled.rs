//! A storage whose changes have a history.

use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use garret_core::{
    AccessLimits, Batch, Clock, DirectoryHandle, Durability, Exclusions, Ids, ListOptions, ListPage, MutationOutcome,
    OpenedStorage, ReadOptions, ReadResult, Result, RetentionLimits, Stat, StatOptions, Storage, StorageInfo, WsPath,
};
use garret_depot::LazyDepot;
use garret_depot::outside_files::{JournalFiles, JournalLockFile, OutsideWorkspace, ReadStability, Site, log};
use tokio::sync::Mutex;

use crate::consistent_read::SteadyDirectory;
use crate::journal_records::WriterState;

/// Number of times that a disturbed reader repeats its read before it makes writers wait.
const READS: usize = 3;

/// A storage whose changes have a history. Reads go to the storage below it.
pub struct Journaled {
    pub(crate) files: Arc<dyn Storage>,
    pub(crate) site: Site,
    pub(crate) depot: Arc<LazyDepot>,
    pub(crate) gate: Arc<JournalLockFile>,
    // A fair lock: with another one, writers without a pause could keep an undo waiting for ever.
    pub(crate) state: Mutex<WriterState>,
    /// The workspace in the depot, once it exists.
    pub(crate) room: OnceLock<OutsideWorkspace>,
    /// The retention of the history, until it is passed on to the depot.
    pub(crate) keep: std::sync::Mutex<Option<RetentionLimits>>,
    /// The id that the workspace gets when it is created.
    pub(crate) future_id: String,
    pub(crate) durability: Durability,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    /// A number that is unique to this handle.
    pub(crate) owner: u64,
    /// Paths that a scan of all files leaves out, because they are kept out of history.
    pub(crate) exclusions: Exclusions,
    /// Whether the files are remote, and how many requests may run at once.
    pub(crate) reach: AccessLimits,
}

impl fmt::Debug for Journaled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Journaled");
        shown.field("files", &self.files).finish_non_exhaustive()
    }
}

impl Journaled {
    /// Opens the layer over `opened`. The workspace in the depot is created by the first change, not by this call. If a
    /// crash left an intent open there, it is recovered first.
    pub async fn open(opened: OpenedStorage, depot: Arc<LazyDepot>, durability: Durability) -> Result<Arc<Self>> {
        Self::open_excluding(opened, depot, durability, Exclusions::default()).await
    }

    /// Opens the layer over `opened` and keeps the paths that `exclusions` cover out of history: they are in no
    /// snapshot, and no undo touches them.
    pub async fn open_excluding(
        opened: OpenedStorage,
        depot: Arc<LazyDepot>,
        durability: Durability,
        exclusions: Exclusions,
    ) -> Result<Arc<Self>> {
        let site = Site {
            kind: opened.storage.info().kind,
            place: opened.location_id,
        };
        let context = depot.context().clone();
        let files = depot.home().and_then(|home| JournalFiles::for_site(home, &site));
        let future_id = context.ids.next_id();
        let owner = blake3::hash(context.ids.next_id().as_bytes());
        let journaled = Self {
            files: opened.storage,
            site,
            depot,
            gate: Arc::new(JournalLockFile::new(files)),
            state: Mutex::new(WriterState::default()),
            room: OnceLock::new(),
            keep: std::sync::Mutex::default(),
            future_id,
            durability,
            clock: context.clock,
            ids: context.ids,
            owner: u64::from_le_bytes(owner.as_bytes()[..8].try_into().expect("a hash is longer")) | 1,
            exclusions,
            reach: opened.access_limits,
        };
        // A crash may have left an open intent, which must be recovered before the first read.
        let is_left = journaled.gate.files().is_some_and(log::has_records);
        if is_left && journaled.existing_workspace().await?.is_some() {
            journaled.begin_write_session().await?;
        }
        Ok(Arc::new(journaled))
    }

    /// Returns the workspace in the depot; `None` before the first change.
    pub(crate) async fn existing_workspace(&self) -> Result<Option<&OutsideWorkspace>> {
        if let (None, Some(place)) = (self.room.get(), &self.site.place)
            && let Some(depot) = self.depot.get_existing().await?
            && let Some(room) = depot.workspace_at(&self.site.kind, place).await?
        {
            let _ = self.room.set(room.with_durability(self.durability).into());
        }
        Ok(self.room.get())
    }

    /// Returns the workspace in the depot, and creates it if it is missing.
    pub(crate) async fn ensure_workspace(&self) -> Result<&OutsideWorkspace> {
        if self.room.get().is_none() {
            let depot = self.depot.get().await?;
            let room = OutsideWorkspace::ensure_at_site(&depot, self.site.clone(), self.future_id.clone()).await?;
            let _ = self.room.set(room.with_durability(self.durability).into());
        }
        let room = self.room.get().expect("it was set above");
        let keep = self.keep.lock().expect("no holder panics").take();
        if let Some(keep) = keep {
            room.history().set_keep(&keep).await?;
        }
        Ok(room)
    }

    /// Returns how many files are compared or fetched at once: one on a local storage, several on a remote one, because
    /// each is a request.
    pub(crate) fn request_concurrency(&self) -> usize {
        if self.reach.is_remote {
            self.reach.search_concurrency.max(1)
        } else {
            1
        }
    }

    /// Runs `read` so that it never sees half of a change.
    async fn read_consistently<T, R>(&self, read: impl Fn() -> R) -> Result<T>
    where
        R: Future<Output = Result<T>>,
    {
        for _ in 0..READS {
            // On a remote storage a repeated read costs more than reading the counter beforehand.
            let before = if self.reach.is_remote {
                self.gate.current_count()
            } else {
                self.gate.last_seen_count()
            };
            let found = read().await;
            match self.gate.check_read(before) {
                ReadStability::Steady => return found,
                ReadStability::Disturbed => {}
                ReadStability::UnderWay => self.wait_for_writers().await?,
            }
        }
        // Readers that keep being disturbed would never finish; the shared lock keeps writers out for one read.
        let _held = self.gate.wait_for_writer().await?;
        read().await
    }

    /// Waits until no change of several paths is in progress. A change whose process is dead is recovered.
    async fn wait_for_writers(&self) -> Result<()> {
        // The first wait is for writers of this handle, the second for those of other handles and processes.
        drop(self.state.lock().await);
        drop(self.gate.wait_for_writer().await?);
        if self.gate.current_count() % 2 == 1 {
            self.begin_write_session().await?;
        }
        Ok(())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for Journaled {
    fn info(&self) -> StorageInfo {
        self.files.info()
    }

    async fn resolve(&self, path: &WsPath) -> Result<WsPath> {
        self.read_consistently(|| self.files.resolve(path)).await
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        self.read_consistently(|| self.files.stat(path, options)).await
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        self.read_consistently(|| self.files.read(path, options.clone())).await
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        self.read_consistently(|| self.files.list(path, options.clone())).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<MutationOutcome>> {
        if batch.mutations.is_empty() {
            return self.files.apply(batch).await;
        }
        self.begin_write_session().await?.apply(batch).await
    }

    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn DirectoryHandle>>> {
        self.gate.block_while_changing();
        let opened = self.files.open_directory(path)?;
        Ok(opened.map(|inner| Box::new(SteadyDirectory::new(inner, self.gate.clone())) as Box<dyn DirectoryHandle>))
    }
}
