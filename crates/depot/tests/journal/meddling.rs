//! A storage that other programs change at the worst moment: between two looks, or between the look and the change.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use garret_core::{
    Applied, Batch, Directory, ListOptions, ListPage, ReadOptions, ReadResult, Result, Stat, StatOptions, Storage,
    StorageInfo, WsPath,
};

type Meddler = Box<dyn FnOnce() + Send>;

/// When others are at work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Just before a change is made.
    Change,
    /// Just before something is looked at.
    Look(WsPath),
}

pub(crate) struct Meddling {
    inner: Arc<dyn Storage>,
    moment: Moment,
    meddler: Mutex<Option<Meddler>>,
}

impl Meddling {
    pub(crate) fn with(inner: Arc<dyn Storage>, moment: Moment, meddler: impl FnOnce() + Send + 'static) -> Self {
        let meddler: Meddler = Box::new(meddler);
        Self {
            inner,
            moment,
            meddler: Mutex::new(Some(meddler)),
        }
    }

    fn meddle(&self, moment: &Moment) {
        if self.moment != *moment {
            return;
        }
        if let Some(meddler) = self.meddler.lock().expect("no holder panics").take() {
            meddler();
        }
    }
}

impl std::fmt::Debug for Meddling {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Meddling")
    }
}

#[async_trait]
impl Storage for Meddling {
    fn info(&self) -> StorageInfo {
        self.inner.info()
    }

    async fn resolve(&self, path: &WsPath) -> Result<WsPath> {
        self.inner.resolve(path).await
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        self.meddle(&Moment::Look(path.clone()));
        self.inner.stat(path, options).await
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        self.inner.read(path, options).await
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        self.inner.list(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Applied>> {
        self.meddle(&Moment::Change);
        self.inner.apply(batch).await
    }

    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn Directory>>> {
        self.inner.open_directory(path)
    }
}
