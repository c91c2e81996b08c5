//! The files at a point of a journal that may not have recorded all of them by then.

use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{
    Batch, DirectoryHandle, Error, ErrorKind, Follow, ListOptions, ListPage, MutationOutcome, ReadOptions, ReadResult,
    Result, Stat, StatOptions, Storage, StorageInfo, WsPath,
};
use garret_depot::DepotView;
use garret_depot::outside_files::RecordedPoint;

/// The recorded files at a point. For a path that the journal had not recorded, it reports that rather than a missing
/// file.
#[derive(Debug)]
pub(crate) struct PastView {
    pub(crate) view: DepotView,
    pub(crate) files: Arc<dyn Storage>,
    pub(crate) point: RecordedPoint,
}

impl PastView {
    /// Returns the view in which a path was recorded for the first time, if that was after the point. The path is
    /// assumed to have been the same at the point.
    fn view_when_recorded(&self, path: &WsPath, error: &Error) -> Result<Option<DepotView>> {
        if error.kind() != ErrorKind::NotFound || self.point.has_recorded_all()? {
            return Ok(None);
        }
        self.point.view_when_recorded(path)
    }

    /// Returns the error for a path that the journal does not have at the point. If the journal never recorded it and
    /// it exists now, the error says so.
    async fn explain_missing(&self, path: &WsPath, error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        match self.was_never_recorded(path).await {
            Ok(false) => error,
            Ok(true) => Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{} was never recorded, so its state at this point is not known",
                    path.to_quoted()
                ),
            )
            .at_path(path)
            .hint("take a snapshot without `lazy` before you need one: it captures every file"),
            Err(failure) => failure,
        }
    }

    async fn was_never_recorded(&self, path: &WsPath) -> Result<bool> {
        if self.point.has_recorded_all()? || self.point.was_ever_recorded(path)? {
            return Ok(false);
        }
        let options = StatOptions {
            follow: Follow::Never,
            with_version: false,
        };
        Ok(self.files.stat(path, options).await.is_ok())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Storage for PastView {
    fn info(&self) -> StorageInfo {
        self.view.info()
    }

    async fn resolve(&self, path: &WsPath) -> Result<WsPath> {
        self.view.resolve(path).await
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        match self.view.stat(path, options).await {
            Err(error) => match self.view_when_recorded(path, &error)? {
                Some(view) => view.stat(path, options).await,
                None => Err(self.explain_missing(path, error).await),
            },
            stat => stat,
        }
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        match self.view.read(path, options.clone()).await {
            Err(error) => match self.view_when_recorded(path, &error)? {
                Some(view) => view.read(path, options).await,
                None => Err(self.explain_missing(path, error).await),
            },
            read => read,
        }
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        match self.view.list(path, options).await {
            Err(error) => Err(self.explain_missing(path, error).await),
            page => page,
        }
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<MutationOutcome>> {
        self.view.apply(batch).await
    }

    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn DirectoryHandle>>> {
        self.view.open_directory(path)
    }
}
