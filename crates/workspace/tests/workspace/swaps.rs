//! A directory that becomes a link to a denied one between the check and the use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use garret_core::{Batch, FsPolicy, Mutation, Precondition, ReadOptions, Storage, WsPath};
use garret_testkit::{Call, Hook, Hooked};
use garret_workspace::{TransferOptions, Workspace};

use crate::workspace::support::{fill, globs, link, storage, with_policy};

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
impl Hook for SwapAfter {
    async fn after(&self, call: Call<'_>) {
        if matches!(call, Call::Resolve(_)) && self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.swap().await;
        }
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
    let swap = SwapAfter {
        inner: inner.clone(),
        left,
    };
    let swapping: Arc<dyn Storage> = Arc::new(Hooked::new(inner.clone(), swap));
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
