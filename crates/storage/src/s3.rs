//! The `s3` storage: files as plain objects below a prefix of a bucket, readable and writable by every other S3 tool.
//!
//! A file is one object at `prefix/path`; an empty directory is a `path/` marker; a directory exists if any key lies
//! below it. The creation time of a file, its mode, the target of a link and the ids of the last writes are user
//! metadata, which overwrites and copies keep. A link is an object of no bytes, so a list needs to look closer at empty
//! objects only.
//!
//! Every write is conditional on the object that was there before (`conditional_write`), so a lost update is
//! impossible, and a lost answer is cleared up by a HEAD request. Versions are ETags. An operation on several objects
//! (`batch`, `move_directory`) is reverted when it fails, and an interrupted move of a directory is finished after a
//! crash. Nothing is assumed of the server that was not tried at opening (`probe`).

mod batch;
mod bucket;
mod bucket_memory;
mod check;
mod concurrent;
mod conditional_write;
mod credentials;
mod handle_locks;
mod keys;
mod lazy_storage;
mod list;
mod list_below;
mod list_order;
mod locate;
mod make;
mod metadata;
mod move_directory;
mod multipart;
mod open;
mod options;
mod paged_listing;
mod probe;
mod probe_memory;
mod profile;
mod read;
mod remove;
mod remove_all;
mod rename;
mod secret;
mod stat;
mod undo;
mod url;
mod wire;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{
    Batch, Clock, DirectoryHandle, Follow, Ids, ListOptions, ListPage, MutationOutcome, OpenContext, ReadOptions,
    ReadResult, Result, Stat, StatOptions, Storage, StorageInfo, WsPath,
};

use self::bucket::Bucket;
use self::bucket_memory::BucketMemory;
pub use self::check::{Finding, KeyTrouble};
use self::handle_locks::HandleLocks;
use self::keys::KeyLayout;
pub use self::list::ObjectEntry;
use self::locate::{S3FinalLink, S3LinkRules};
pub use self::open::S3Factory;
pub use self::options::{S3Options, WriterMode};
use self::probe::Abilities;
use self::probe_memory::ProbeKey;
pub use self::probe_memory::ProbeMemory;
pub use self::secret::Secret;
pub use self::wire::RequestCounts;

/// Files in a bucket.
#[derive(Debug, Clone)]
pub struct S3Storage {
    shared: Arc<S3Context>,
}

/// The state that every operation needs.
#[derive(Debug)]
struct S3Context {
    bucket: Arc<Bucket>,
    layout: KeyLayout,
    abilities: Abilities,
    options: S3Options,
    known: BucketMemory,
    turns: HandleLocks,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl S3Storage {
    /// Opens the prefix, after checking that the server keeps the promises that this storage needs.
    ///
    /// Fails with `denied` if credentials or a permission are missing or wrong, and names them; with `not_found` if
    /// there is no bucket; with `unsupported` if the server ignores preconditions and `writers` is not `single`.
    pub async fn open(options: S3Options, context: &OpenContext) -> Result<Arc<Self>> {
        Self::open_with_memory(options, context, &ProbeMemory::default()).await
    }

    /// Opens the prefix, and probes the server only if `memory` has no record of it.
    pub async fn open_with_memory(
        options: S3Options,
        context: &OpenContext,
        memory: &ProbeMemory,
    ) -> Result<Arc<Self>> {
        open::open_storage(options, context, memory).await
    }

    /// Returns whether an answer of the server contradicts its probe.
    fn is_contradicted(&self) -> bool {
        self.shared.bucket.wire.identity().is_contradicted()
    }

    /// Forgets the probe of the server, so that the next opening probes it again.
    fn forget_probe(&self, memory: &ProbeMemory) {
        let place = self.shared.bucket.wire.bucket_url();
        memory.forget(&ProbeKey::new(&place, self.shared.options.writers));
    }

    /// Returns the options it was opened with; secrets in them are never shown.
    pub fn options(&self) -> &S3Options {
        &self.shared.options
    }

    /// Returns the number of requests and bytes since the opening, those of the opening included.
    pub fn requests(&self) -> RequestCounts {
        self.shared.bucket.requests()
    }

    /// Returns all files and links below a directory, in order, with their versions. It takes no more requests than a
    /// list.
    pub async fn objects_below(&self, path: &WsPath) -> Result<Vec<ObjectEntry>> {
        list::objects_below(&self.shared, path).await
    }

    /// Finds keys below the prefix that no path can name, or that conflict with each other.
    pub async fn check(&self) -> Result<Vec<Finding>> {
        check::check_keys(&self.shared).await
    }
}

/// Returns the properties of every S3 storage.
fn storage_info() -> StorageInfo {
    StorageInfo {
        kind: "s3".into(),
        is_durable: true,
        has_modes: true,
        has_symlinks: true,
        has_hard_links: false,
        file_mode: Some(0o644),
    }
}

#[async_trait]
impl Storage for S3Storage {
    fn info(&self) -> StorageInfo {
        storage_info()
    }

    async fn resolve(&self, path: &WsPath) -> Result<WsPath> {
        let way = S3LinkRules {
            last: S3FinalLink::Followed,
            follow: Follow::Inside,
        };
        Ok(self.shared.locate_entry(path, way).await?.path)
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        stat::describe_path(&self.shared, path, options).await
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        read::read_file(&self.shared, path, options).await
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        list::list_page(&self.shared, path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<MutationOutcome>> {
        batch::apply_batch(&self.shared, batch).await
    }

    fn open_directory(&self, _path: &WsPath) -> Result<Option<Box<dyn DirectoryHandle>>> {
        Ok(None)
    }
}
