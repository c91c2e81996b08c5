//! The journal of files that live elsewhere: a layer over any storage that makes each change of it one that can be seen and undone.
//!
//! Files stay where they are, in plain form. The depot holds their journal and the content it has met: a tree of what the journal knows,
//! and for each file the storage's own version at that time, so that what has not changed since is not read again.
//!
//! A change goes so: under a lock that the kernel frees when its owner dies, what is at the paths is compared with what is known, and
//! what other programs did is recorded first, as a change of theirs; an intent is put into a log; the storage is touched; the log is
//! told that it was. As the lock is held all the while, an intent that is found open by whoever has the lock belongs to nobody any
//! more, and is settled: forward, or back where the content it needs is lost. The log enters the depot's database later and in bulk,
//! always before anybody asks for the history; a transaction for each change would cost more than the write itself.
//!
//! Where the files are far away, each look is a request. A change that can be made on the condition that a file is what is known needs none
//! before it, and what it left is taken from what the storage answered; a look at everything is a list, which tells versions.
//!
//! `gate` is the lock and what readers look at, `log` and `record` what is written down, `known` what is remembered, `look` the
//! comparison, `touched` what others changed since a time, `apply` a change, `quick` one that needs no look, `left` what a change left, `settle` what a crash left, `ingest` the way into the journal, `operate` undo and its like, `walk` a look at
//! everything.

mod apply;
mod bring;
mod checkout;
mod codec;
mod contract;
mod damage;
mod gate;
mod ingest;
mod known;
mod lazy;
mod left;
mod lend;
mod log;
mod logs;
mod look;
mod named;
mod operate;
mod quick;
mod raw;
mod record;
mod settle;
mod spool;
mod steady;
mod touched;
mod turn;
mod view;
mod walk;

use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use futures::lock::Mutex;
use garret_core::{
    Applied, Batch, Clock, Directory, Exclusions, Ids, Keep, ListOptions, ListPage, Opened, Reach, ReadOptions,
    ReadResult, Result, Stat, StatOptions, Storage, StorageInfo, WsPath,
};

use self::gate::{Files, Gate, Reading};
use self::steady::SteadyDirectory;
use self::turn::State;
pub(crate) use named::named_by_logs;

use crate::places::Site;
use crate::workspace::DepotWorkspace;
use garret_core::Durability;

pub use self::lazy::LazyDepot;

/// How often a reader that was disturbed reads again before it has writers wait.
const READS: usize = 3;

/// A storage whose changes have a history. Its reads are those of the storage below.
pub struct Journaled {
    files: Arc<dyn Storage>,
    site: Site,
    depot: Arc<LazyDepot>,
    gate: Arc<Gate>,
    state: Mutex<State>,
    /// The workspace in the depot, once there is one.
    room: OnceLock<DepotWorkspace>,
    /// How much of its history is to be kept, until the depot was told.
    keep: std::sync::Mutex<Option<Keep>>,
    /// The id that it will have.
    future_id: String,
    durability: Durability,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    /// Tells this handle from every other.
    owner: u64,
    /// What is not looked at where everything is: it is kept out of history.
    exclusions: Exclusions,
    /// How far away the files are.
    reach: Reach,
}

impl fmt::Debug for Journaled {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Journaled");
        shown.field("files", &self.files).finish_non_exhaustive()
    }
}

impl Journaled {
    /// Puts the layer over `opened`. A workspace in the depot is made by the first change, not by this; what a crash left there is
    /// settled first.
    pub async fn open(opened: Opened, depot: Arc<LazyDepot>, durability: Durability) -> Result<Arc<Self>> {
        Self::open_excluding(opened, depot, durability, Exclusions::default()).await
    }

    /// The same without regard to what `exclusions` cover: it is in no snapshot, and no undo touches it.
    pub async fn open_excluding(
        opened: Opened,
        depot: Arc<LazyDepot>,
        durability: Durability,
        exclusions: Exclusions,
    ) -> Result<Arc<Self>> {
        let site = Site {
            kind: opened.storage.info().kind,
            place: opened.place,
        };
        let context = depot.context().clone();
        let files = depot.home().and_then(|home| Files::of(home, &site));
        let future_id = context.ids.next();
        let owner = blake3::hash(context.ids.next().as_bytes());
        let journaled = Self {
            files: opened.storage,
            site,
            depot,
            gate: Arc::new(Gate::new(files)),
            state: Mutex::new(State::default()),
            room: OnceLock::new(),
            keep: std::sync::Mutex::default(),
            future_id,
            durability,
            clock: context.clock,
            ids: context.ids,
            owner: u64::from_le_bytes(owner.as_bytes()[..8].try_into().expect("a hash is longer")) | 1,
            exclusions,
            reach: opened.reach,
        };
        let is_left = journaled.gate.files().is_some_and(log::is_there);
        if is_left && journaled.known_room().await?.is_some() {
            journaled.turn().await?;
        }
        Ok(Arc::new(journaled))
    }

    /// The workspace in the depot; `None` before the first change.
    async fn known_room(&self) -> Result<Option<&DepotWorkspace>> {
        if let (None, Some(place)) = (self.room.get(), &self.site.place)
            && let Some(depot) = self.depot.existing().await?
            && let Some(room) = depot.workspace_at(&self.site.kind, place).await?
        {
            let _ = self.room.set(room.with_durability(self.durability));
        }
        Ok(self.room.get())
    }

    /// The workspace in the depot, made where it is missing.
    async fn room(&self) -> Result<&DepotWorkspace> {
        if self.room.get().is_none() {
            let depot = self.depot.get().await?;
            let room = depot.journal_of(self.site.clone(), self.future_id.clone()).await?;
            let _ = self.room.set(room.with_durability(self.durability));
        }
        let room = self.room.get().expect("it was set above");
        let keep = self.keep.lock().expect("no holder panics").take();
        if let Some(keep) = keep {
            room.set_keep(&keep).await?;
        }
        Ok(room)
    }

    /// How many files are looked at or fetched at once: one where that is quick, several where each is a request.
    fn at_once(&self) -> usize {
        match self.reach.is_far {
            true => self.reach.search_concurrency.max(1),
            false => 1,
        }
    }

    /// Reads so that no half of a change is seen.
    async fn steady<T, R>(&self, read: impl Fn() -> R) -> Result<T>
    where
        R: Future<Output = Result<T>>,
    {
        for _ in 0..READS {
            // Far away a read that is made again costs more than a look beforehand.
            let before = match self.reach.is_far {
                true => self.gate.now(),
                false => self.gate.met(),
            };
            let found = read().await;
            match self.gate.check(before) {
                Reading::Steady => return found,
                Reading::Disturbed => {}
                Reading::UnderWay => self.calm().await?,
            }
        }
        let _held = self.gate.wait().await?;
        read().await
    }

    /// Waits until no change of several paths is under way; one whose maker is dead is settled.
    async fn calm(&self) -> Result<()> {
        drop(self.state.lock().await);
        drop(self.gate.wait().await?);
        if self.gate.now() % 2 == 1 {
            self.turn().await?;
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
        self.steady(|| self.files.resolve(path)).await
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        self.steady(|| self.files.stat(path, options)).await
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        self.steady(|| self.files.read(path, options.clone())).await
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        self.steady(|| self.files.list(path, options.clone())).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Applied>> {
        if batch.mutations.is_empty() {
            return self.files.apply(batch).await;
        }
        self.turn().await?.apply(batch).await
    }

    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn Directory>>> {
        self.gate.pass();
        let opened = self.files.open_directory(path)?;
        Ok(opened.map(|inner| Box::new(SteadyDirectory::new(inner, self.gate.clone())) as Box<dyn Directory>))
    }
}
