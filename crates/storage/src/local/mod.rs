//! The `local` storage: files in a directory, in plain form that other programs can read.
//!
//! The directory is opened once; from then on every access goes below that handle (`beneath`), never by a path of the
//! host. All changes pass one function (`batch`), under locks on the parent directories (`directory_lock`) that every
//! Garret process takes, so that a check and the rename after it are one step. Readers take no locks: a rename shows
//! them the old content or the new.
//!
//! Overwriting a file makes a new file, so hard links to the old one, access control lists and extended attributes are
//! lost. The mode and (as root) the owner are kept; an entry that root newly makes belongs to the owner of its
//! directory. A batch of several mutations is reverted as a whole when it fails; when the *machine* fails in the middle
//! of a batch, some of its mutations may be done and others not.

mod alias;
mod alter;
mod append;
mod batch;
mod beneath;
mod blocking;
mod copy;
mod error;
mod known;
mod lend;
mod link;
mod list;
mod lock;
mod make_dir;
mod mode;
mod names;
mod open;
mod options;
mod owner;
mod place;
pub mod probe;
mod publish;
mod read;
mod remove;
mod rename;
mod reopen;
mod stat;
mod temp;
mod undo;
mod version;
mod walk;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{
    Applied, Batch, Clock, Directory, Durability, EntryPath, Follow, Ids, ListOptions, ListPage, OpenContext,
    ReadOptions, ReadResult, Result, Stat, StatOptions, Storage, StorageInfo, WsPath,
};

use self::beneath::{Last, Root, Way};
pub use self::options::{LocalFactory, LocalOptions};

/// Files in a directory of this machine.
#[derive(Debug, Clone)]
pub struct LocalStorage {
    shared: SharedHandle,
}

/// The state that every operation needs, shared with the threads for blocking work.
#[derive(Debug)]
struct Shared {
    root: Root,
    durability: Durability,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

type SharedHandle = Arc<Shared>;

impl LocalStorage {
    /// Opens the directory, which must exist. Fails with `unsupported` if the kernel cannot confine paths below it.
    pub fn open(options: &LocalOptions, context: &OpenContext) -> Result<Self> {
        let shared = Shared {
            root: open::open_root(&options.dir)?,
            durability: options.durability,
            clock: context.clock.clone(),
            ids: context.ids.clone(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Returns the absolute path of the directory on this machine, with all links resolved.
    pub(super) fn place(&self) -> Option<String> {
        open::place_of(self.shared.root.handle())
    }
}

#[async_trait]
impl Storage for LocalStorage {
    fn info(&self) -> StorageInfo {
        StorageInfo {
            kind: "local".into(),
            is_durable: true,
            has_modes: true,
            has_symlinks: true,
            has_hard_links: true,
            // The umask of the process decides the mode.
            file_mode: None,
        }
    }

    async fn resolve(&self, path: &WsPath) -> Result<WsPath> {
        beneath::refuse_reserved(path)?;
        self.shared.root.resolve(path, Last::Followed)
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        stat::stat(&self.shared, path, options).await
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        read::read(&self.shared, path, options).await
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        let (shared, path) = (self.shared.clone(), path.clone());
        blocking::run(move || list::list(&shared.root, &path, &options)).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Applied>> {
        batch::apply(&self.shared, batch).await
    }

    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn Directory>>> {
        let way = Way {
            last: Last::Followed,
            follow: Follow::Inside,
        };
        let root = &self.shared.root;
        let opened = root.reach(path, way, |real| {
            let handle = root.open_directory(real.as_str().as_bytes())?;
            let clock = self.shared.clock.clone();
            Ok(walk::LocalDirectory::new(handle, EntryPath::Valid(real.clone()), clock))
        })?;
        Ok(Some(Box::new(opened)))
    }
}
