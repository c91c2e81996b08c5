//! The files at a point of a journal that may not have met all of them by then.

use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{
    Applied, Batch, ChangeKind, Directory, Error, ErrorKind, Follow, ListOptions, ListPage, ReadOptions, ReadResult,
    Result, Stat, StatOptions, Storage, StorageInfo, WsPath,
};

use crate::metadata::{Level, Session};
use crate::storage::DepotView;
use crate::tree::bytes;
use crate::workspace::DepotWorkspace;

/// What the journal knew at a point. Of a path that it had not met, it says so rather than that nothing was there.
#[derive(Debug)]
pub(super) struct PastView {
    pub(super) view: DepotView,
    pub(super) files: Arc<dyn Storage>,
    pub(super) room: DepotWorkspace,
    pub(super) level: Level,
}

impl PastView {
    /// The error for a path that the journal does not know at the point.
    async fn explained(&self, path: &WsPath, error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        match self.was_captured(path).await {
            Ok(true) => error,
            Ok(false) => Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{} was not captured at this point, so it cannot be told what it was",
                    path.quoted()
                ),
            )
            .at(path)
            .hint("take a snapshot without `lazy` before you need one: it captures every file"),
            Err(failure) => failure,
        }
    }

    /// Whether the journal can say that nothing was at `path`.
    async fn was_captured(&self, path: &WsPath) -> Result<bool> {
        let first = self
            .room
            .shared()
            .database
            .read(|session| self.first_met(session, path))?;
        match first {
            First::Known => Ok(true),
            First::Later => Ok(false),
            First::Never => {
                let options = StatOptions {
                    follow: Follow::Never,
                    with_version: false,
                };
                Ok(self.files.stat(path, options).await.is_err())
            }
        }
    }

    fn first_met(&self, session: Session<'_>, path: &WsPath) -> Result<First> {
        let workspace = self.level.workspace;
        let whole = session.journal(workspace)?.and_then(|row| row.whole);
        if whole.is_some_and(|whole| whole <= self.level.at) {
            return Ok(First::Known);
        }
        let Some(since) = session.first_since(workspace, bytes(path))? else {
            return Ok(First::Never);
        };
        let change = session.change(workspace, since)?;
        let is_capture = change.is_some_and(|row| row.kind == ChangeKind::Capture.as_str());
        match is_capture && since > self.level.at {
            true => Ok(First::Later),
            false => Ok(First::Known),
        }
    }
}

enum First {
    Known,
    Later,
    Never,
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
            Err(error) => Err(self.explained(path, error).await),
            stat => stat,
        }
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        match self.view.read(path, options).await {
            Err(error) => Err(self.explained(path, error).await),
            read => read,
        }
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        match self.view.list(path, options).await {
            Err(error) => Err(self.explained(path, error).await),
            page => page,
        }
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<Applied>> {
        self.view.apply(batch).await
    }

    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn Directory>>> {
        self.view.open_directory(path)
    }
}
