//! A directory that becomes a link to a denied one between the check and the use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use garret_core::{
    Applied, Batch, Directory, FsPolicy, ListOptions, ListPage, Mutation, Precondition, ReadOptions, ReadResult,
    Result, Stat, StatOptions, Storage, StorageInfo, WsPath,
};
use garret_workspace::{TransferOptions, Workspace};

use crate::support::{fill, globs, link, storage, with_policy};

/// Puts the link `swap` in the place of the directory `open` after so many paths were resolved.
#[derive(Debug)]
struct SwapAfter {
    inner: Arc<dyn Storage>,
    left: AtomicUsize,
}

impl SwapAfter {
    async fn swap(&self) {
        let path = |text: &str| WsPath::parse(text).unwrap();
        let remove = Mutation::Remove {
            path: path("open"),
            recursive: true,
            precondition: Precondition::Any,
        };
        let rename = Mutation::Rename {
            from: path("swap"),
            to: path("open"),
            overwrite: false,
            parents: false,
        };
        for mutation in [remove, rename] {
            self.inner.apply(Batch::from(mutation)).await.unwrap();
        }
    }
}

#[async_trait]
impl Storage for SwapAfter {
    fn info(&self) -> StorageInfo {
        self.inner.info()
    }

    async fn resolve(&self, path: &WsPath) -> Result<WsPath> {
        let resolved = self.inner.resolve(path).await;
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.swap().await;
        }
        resolved
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        self.inner.stat(path, options).await
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        self.inner.read(path, options).await
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        self.inner.list(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Applied>> {
        self.inner.apply(batch).await
    }

    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn Directory>>> {
        self.inner.open_directory(path)
    }
}

/// A workspace whose directory `open` is swapped after so many resolutions, and the storage behind it.
async fn swapped_after(resolutions: usize) -> (Workspace, Arc<dyn Storage>) {
    let inner = storage();
    fill(&inner, &[("open/key", "mine"), ("secrets/key", "CANARY")]).await;
    link(&inner, "swap", "secrets").await;
    let policy = FsPolicy {
        deny_read: globs(&["secrets"]),
        ..FsPolicy::default()
    };
    let left = AtomicUsize::new(resolutions);
    let swapping: Arc<dyn Storage> = Arc::new(SwapAfter {
        inner: inner.clone(),
        left,
    });
    (with_policy(&swapping, policy), inner)
}

#[tokio::test]
async fn a_copy_follows_no_link_that_came_after_the_check() {
    for (src, dest, copied) in [("open/key", "copy", "copy"), ("open", "copies", "copies/key")] {
        for resolutions in 1..6 {
            let (workspace, inner) = swapped_after(resolutions).await;
            let _ = workspace.copy(src, dest, TransferOptions::default()).await;
            let found = inner
                .read(&WsPath::parse(copied).unwrap(), ReadOptions::default())
                .await;
            let leaked = found.is_ok_and(|read| read.bytes == "CANARY");
            assert!(!leaked, "{src} after {resolutions} resolutions");
        }
    }
}
