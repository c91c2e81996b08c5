//! The `s3` storage: files as plain objects below a prefix of a bucket, readable and writable by every other S3 tool.
//!
//! One object per file at `prefix/path`; an empty directory is a `path/` marker; a directory is there wherever a key lies below it.
//! When a file was created, its mode, where a link points and the ids of its last writes are user metadata, carried along by
//! overwrites and copies. A link is an object of no bytes, so a list looks closer at empty objects only.
//!
//! Every write is conditional on what was there before (`store`), so a lost update is impossible and a lost answer is cleared up by a
//! look. Versions are ETags. What spans several objects (`batch`, `move_directory`) is taken back when it fails, and a moved directory
//! is finished after a crash. Nothing is assumed of the server that was not tried at opening (`probe`).

mod at_once;
mod batch;
mod bucket;
mod check;
mod credentials;
mod keys;
mod known;
mod lazy;
mod list;
mod locate;
mod make;
mod metadata;
mod move_directory;
mod multipart;
mod open;
mod options;
mod order;
mod pages;
mod probe;
mod probe_memory;
mod profile;
mod read;
mod remove;
mod remove_all;
mod rename;
mod secret;
mod stat;
mod store;
mod sweep;
mod turns;
mod undo;
mod url;
mod wire;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{
    Applied, Batch, Clock, Directory, Follow, Ids, ListOptions, ListPage, OpenContext, ReadOptions, ReadResult, Result,
    Stat, StatOptions, Storage, StorageInfo, WsPath,
};

use self::bucket::Bucket;
pub use self::check::{Finding, Trouble};
use self::keys::Layout;
use self::known::Known;
pub use self::list::ObjectEntry;
use self::locate::{Last, Way};
pub use self::open::S3Factory;
pub use self::options::{S3Options, Writers};
use self::probe::Abilities;
use self::probe_memory::ProbeKey;
pub use self::probe_memory::ProbeMemory;
pub use self::secret::Secret;
use self::turns::Turns;
pub use self::wire::Requests;

/// Files in a bucket.
#[derive(Debug, Clone)]
pub struct S3Storage {
    shared: Arc<Shared>,
}

/// What every operation needs.
#[derive(Debug)]
struct Shared {
    bucket: Arc<Bucket>,
    layout: Layout,
    abilities: Abilities,
    options: S3Options,
    known: Known,
    turns: Turns,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl S3Storage {
    /// Opens the prefix, once it is certain that the server keeps what this storage promises.
    ///
    /// Fails with `denied` where credentials or a permission are missing or wrong, naming which; with `not_found` where there is no
    /// bucket; with `unsupported` where the server ignores preconditions and `writers` is not `single`.
    pub async fn open(options: S3Options, context: &OpenContext) -> Result<Arc<Self>> {
        Self::open_knowing(options, context, &ProbeMemory::default()).await
    }

    /// Opens the prefix, and tries the server out only where `memory` does not know it.
    pub async fn open_knowing(options: S3Options, context: &OpenContext, memory: &ProbeMemory) -> Result<Arc<Self>> {
        open::open(options, context, memory).await
    }

    /// Whether an answer contradicts what was known of the server when this was opened.
    fn is_contradicted(&self) -> bool {
        self.shared.bucket.wire.identity().is_contradicted()
    }

    /// Has the server tried out at the next opening.
    fn forget_probe(&self, memory: &ProbeMemory) {
        let place = self.shared.bucket.wire.place();
        memory.forget(&ProbeKey::new(&place, self.shared.options.writers));
    }

    /// The options it was opened with; what is secret in them shows itself to nobody.
    pub fn options(&self) -> &S3Options {
        &self.shared.options
    }

    /// Requests and bytes since the opening, its own included.
    pub fn requests(&self) -> Requests {
        self.shared.bucket.requests()
    }

    /// All files and links below a directory, in order, with their versions: a list and no more requests than that.
    pub async fn objects_below(&self, path: &WsPath) -> Result<Vec<ObjectEntry>> {
        list::objects_below(&self.shared, path).await
    }

    /// Looks for keys below the prefix that no path names, or that stand in each other's way.
    pub async fn check(&self) -> Result<Vec<Finding>> {
        check::check(&self.shared).await
    }
}

/// What every storage of this kind is.
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
        let way = Way {
            last: Last::Followed,
            follow: Follow::Inside,
        };
        Ok(self.shared.locate(path, way).await?.path)
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        stat::stat(&self.shared, path, options).await
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        read::read(&self.shared, path, options).await
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        list::list(&self.shared, path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Applied>> {
        batch::apply(&self.shared, batch).await
    }

    fn open_directory(&self, _path: &WsPath) -> Result<Option<Box<dyn Directory>>> {
        Ok(None)
    }
}
