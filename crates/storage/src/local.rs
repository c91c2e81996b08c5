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

mod alter;
mod append;
mod batch;
mod beneath;
mod copy;
mod directory_entries;
mod directory_lock;
mod entry_handle;
mod entry_location;
mod error;
mod hard_links;
mod link;
mod link_free_directories;
mod list;
mod local_directory;
mod make_dir;
mod mode;
mod open;
mod options;
mod owner;
mod owner_bits;
pub mod probe;
mod publish;
mod read;
mod remove;
mod rename;
mod stat;
mod temporary_files;
mod undo_log;
mod version;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{
    Batch, Clock, DirectoryHandle, Durability, EntryPath, Follow, Ids, ListOptions, ListPage, MutationOutcome,
    OpenContext, ReadOptions, ReadResult, Result, Stat, StatOptions, Storage, StorageInfo, WsPath,
};

use self::beneath::{LocalFinalLink, LocalLinkRules, RootDirectory};
pub use self::options::{LocalFactory, LocalOptions};

/// Files in a directory of this machine.
#[derive(Debug, Clone)]
pub struct LocalStorage {
    shared: LocalContextHandle,
}

/// The size up to which the page cache is quicker than handing the work to another thread.
const MAX_INLINE_BYTES: u64 = 256 * 1024;

/// The state that every operation needs, shared with the threads for blocking work.
#[derive(Debug)]
struct LocalContext {
    root: RootDirectory,
    durability: Durability,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

type LocalContextHandle = Arc<LocalContext>;

impl LocalStorage {
    /// Opens the directory, which must exist. Fails with `unsupported` if the kernel cannot confine paths below it.
    pub fn open(options: &LocalOptions, context: &OpenContext) -> Result<Self> {
        let shared = LocalContext {
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
    pub(super) fn host_path(&self) -> Option<String> {
        open::host_path_of(self.shared.root.handle())
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
        self.shared.root.resolve_path(path, LocalFinalLink::Followed)
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        stat::describe_path(&self.shared, path, options).await
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        read::read_file(&self.shared, path, options).await
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        let (shared, path) = (self.shared.clone(), path.clone());
        garret_handles::run_blocking(move || list::list_page(&shared.root, &path, &options)).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<MutationOutcome>> {
        batch::apply_batch(&self.shared, batch).await
    }

    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn DirectoryHandle>>> {
        let way = LocalLinkRules {
            last: LocalFinalLink::Followed,
            follow: Follow::Inside,
        };
        let root = &self.shared.root;
        let opened = root.with_real_path(path, way, |real| {
            let handle = root.open_directory(real.as_str().as_bytes())?;
            let clock = self.shared.clock.clone();
            Ok(local_directory::LocalDirectory::new(
                handle,
                EntryPath::Valid(real.clone()),
                clock,
            ))
        })?;
        Ok(Some(Box::new(opened)))
    }
}
