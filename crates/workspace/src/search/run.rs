//! Running a search away from the threads that drive futures, and ending it when nobody waits for it any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use futures::channel::{mpsc, oneshot};
use garret_core::{Access, Directory, EntryKind, Error, ErrorKind, Follow, Result, StatOptions, WsPath};

use super::listed::{self, ListedDirectory};
use super::walk::{Coverage, Start, Visitor, Walk, broken};
use crate::Workspace;
use crate::admit::Names;

/// What is searched: a directory, or one file.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Its path in the storage, links resolved.
    pub(super) real: WsPath,
    pub(super) kind: EntryKind,
}

impl Workspace {
    /// Finds what `path` names and checks that it may be searched. A link is followed where it stays inside.
    pub(super) async fn place(&self, path: &str) -> Result<Place> {
        let target = self.admit_directory(path).await?;
        let real = self.followed(&target).await?;
        let options = StatOptions {
            follow: Follow::Never,
            with_version: false,
        };
        let kind = self.storage().stat(&real, options).await?.kind;
        if kind != EntryKind::Directory {
            self.admit_path(target.shown, Names::Content, &[Access::Read]).await?;
        }
        Ok(Place { real, kind })
    }

    /// Runs `search` on a thread of its own, over the files at `place`. Dropping the future ends it at the next file.
    pub(super) async fn search<T: Send + 'static>(
        &self,
        place: Place,
        search: impl FnOnce(Search) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (questions, asked) = mpsc::unbounded();
        let root = match self.storage().open_directory(&WsPath::root())? {
            Some(root) => root,
            None => self.listed_root(&place, questions.clone()).await?,
        };
        drop(questions);
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let _cancel_on_drop = CancelOnDrop(Arc::clone(&is_cancelled));
        let input = Search {
            workspace: self.clone(),
            root,
            place,
            is_cancelled,
        };
        let (done, outcome) = oneshot::channel();
        let work = move || drop(done.send(search(input)));
        thread::Builder::new()
            .name("garret-search".into())
            .spawn(work)
            .map_err(|_| no_thread())?;
        listed::answer(self.storage(), asked).await;
        outcome.await.unwrap_or_else(|_| Err(broken()))
    }

    async fn listed_root(
        &self,
        place: &Place,
        questions: mpsc::UnboundedSender<listed::Question>,
    ) -> Result<Box<dyn Directory>> {
        let directory = match place.kind {
            EntryKind::Directory => Some(place.real.clone()),
            _ => None,
        };
        let entries = match &directory {
            Some(directory) => self.entries_below(directory, Follow::Never).await?,
            None => Vec::new(),
        };
        // Where one file is searched nothing is listed, and the list is complete below that file alone.
        let complete = directory.unwrap_or_else(|| place.real.clone());
        Ok(Box::new(ListedDirectory::root(complete, entries, questions)))
    }
}

/// A search on its thread.
pub(super) struct Search {
    pub(super) workspace: Workspace,
    root: Box<dyn Directory>,
    place: Place,
    is_cancelled: Arc<AtomicBool>,
}

impl Search {
    /// Shows the visitors everything that the search covers, and returns them.
    pub(super) fn walk<V: Visitor>(self, coverage: Coverage, visitor: impl Fn() -> V + Sync) -> Result<Vec<V>> {
        let base = &self.workspace.view.base;
        let walk = Walk {
            coverage,
            workspace: &self.workspace,
            is_cancelled: &self.is_cancelled,
        };
        let real = &self.place.real;
        match (self.place.kind, real.parent(), real.name()) {
            (EntryKind::Directory, ..) | (_, None, _) | (_, _, None) => {
                walk.run(Start::at(self.root, base, real)?, visitor)
            }
            (kind, Some(parent), Some(name)) => {
                let mut only = visitor();
                Start::at(self.root, base, &parent)?.visit_only(name, kind, &mut only)?;
                Ok(vec![only])
            }
        }
    }
}

struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn no_thread() -> Error {
    Error::new(ErrorKind::Unavailable, "the system gives no thread for a search")
}
