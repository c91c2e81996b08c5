//! The journal of files that live outside the depot: a layer over any storage that records each change, so that it can
//! be shown and undone.
//!
//! The files stay in their storage, in plain form. The depot holds their journal and the content that the journal has
//! recorded: a tree of the recorded entries, and for each file the storage's own version at that time, so that an
//! unchanged file is not read again.
//!
//! A change takes these steps, all of them under a lock that the kernel frees when its owner dies. First the entries at
//! the paths are compared with the index of recorded entries, and changes by other programs are recorded as changes of
//! their own. Then an intent is written to a log, the storage is changed, and the log gets a record that closes the
//! intent. Because the lock is held throughout, an open intent that the next lock holder finds belongs to a process
//! that is gone. Recovery then rolls it forward, or back if content that it needs is lost. The log enters the depot's
//! database later and in bulk, always before a request for the history is answered; a transaction for each change would
//! cost more than the write itself.
//!
//! On a remote storage each comparison is a request. A change that can be made on the condition that a file has its
//! recorded version needs no request before it, and its result is taken from the storage's answer. A comparison of all
//! files is a list, which includes versions.
//!
//! Modules: `lock_file` is the lock and the counter that readers check, `log` and `record` are the intent log, `index`
//! holds the recorded entries in memory, `compare` compares paths with the storage, `outside_changes` finds changes by
//! other programs since a time, `apply` makes a change, `conditional_write` makes one without a comparison, `observed`
//! collects the state that a change left, `recovery` finishes changes that a crash interrupted, `ingest` moves records
//! into the journal, `history_operations` holds undo, redo, restore and put, and `scan` compares all files.

mod apply;
mod branch_checkout;
mod codec;
mod compare;
mod conditional_write;
mod consistent_read;
mod damaged_logs;
mod history_contract;
mod history_operations;
mod index;
mod ingest;
mod lazy_depot;
mod lock_file;
mod log;
mod log_references;
mod logs;
mod materialize;
mod observed;
mod outside_changes;
mod owner_bits;
mod past_view;
mod raw_names;
mod record;
mod recovery;
mod scan;
mod spool;
mod write_session;

use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use futures::lock::Mutex;
use garret_core::{
    AccessLimits, Batch, Clock, DirectoryHandle, Exclusions, Ids, ListOptions, ListPage, MutationOutcome,
    OpenedStorage, ReadOptions, ReadResult, Result, RetentionLimits, Stat, StatOptions, Storage, StorageInfo, WsPath,
};

use self::consistent_read::SteadyDirectory;
use self::lock_file::{JournalFiles, JournalLockFile, ReadStability};
use self::write_session::WriterState;
pub(crate) use log_references::addresses_in_logs;

use crate::workspace::DepotWorkspace;
use crate::workspace_places::Site;
use garret_core::Durability;

pub use self::lazy_depot::LazyDepot;

/// Number of times that a disturbed reader repeats its read before it makes writers wait.
const READS: usize = 3;

/// A storage whose changes have a history. Reads go to the storage below it.
pub struct Journaled {
    files: Arc<dyn Storage>,
    site: Site,
    depot: Arc<LazyDepot>,
    gate: Arc<JournalLockFile>,
    state: Mutex<WriterState>,
    /// The workspace in the depot, once it exists.
    room: OnceLock<DepotWorkspace>,
    /// The retention of the history, until it is passed on to the depot.
    keep: std::sync::Mutex<Option<RetentionLimits>>,
    /// The id that the workspace gets when it is created.
    future_id: String,
    durability: Durability,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    /// A number that is unique to this handle.
    owner: u64,
    /// Paths that a scan of all files leaves out, because they are kept out of history.
    exclusions: Exclusions,
    /// Whether the files are remote, and how many requests may run at once.
    reach: AccessLimits,
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
    async fn existing_workspace(&self) -> Result<Option<&DepotWorkspace>> {
        if let (None, Some(place)) = (self.room.get(), &self.site.place)
            && let Some(depot) = self.depot.get_existing().await?
            && let Some(room) = depot.workspace_at(&self.site.kind, place).await?
        {
            let _ = self.room.set(room.with_durability(self.durability));
        }
        Ok(self.room.get())
    }

    /// Returns the workspace in the depot, and creates it if it is missing.
    async fn ensure_workspace(&self) -> Result<&DepotWorkspace> {
        if self.room.get().is_none() {
            let depot = self.depot.get().await?;
            let room = depot
                .workspace_at_site(self.site.clone(), self.future_id.clone())
                .await?;
            let _ = self.room.set(room.with_durability(self.durability));
        }
        let room = self.room.get().expect("it was set above");
        let keep = self.keep.lock().expect("no holder panics").take();
        if let Some(keep) = keep {
            room.set_keep(&keep).await?;
        }
        Ok(room)
    }

    /// Returns how many files are compared or fetched at once: one on a local storage, several on a remote one, because
    /// each is a request.
    fn request_concurrency(&self) -> usize {
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
