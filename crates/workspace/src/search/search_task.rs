//! Runs a search away from the threads that drive futures, and ends it when its future is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use futures::channel::{mpsc, oneshot};
use garret_core::{Access, DirectoryHandle, EntryKind, Error, ErrorKind, Follow, Result, WsPath};

use super::listed_tree::{self, SearchList};
use super::path_glob::SearchArea;
use super::walk::{SearchWalk, WalkCoverage, WalkStart, WalkVisitor, thread_count, thread_failure};
use crate::SearchCutoff;
use crate::admission::PathSubject;
use crate::file_access::FileAccess;

/// The directory or the file to search.
#[derive(Debug, Clone)]
pub(super) struct SearchTarget {
    /// Its path in the storage, links resolved.
    pub(super) real: WsPath,
    pub(super) kind: EntryKind,
}

impl FileAccess {
    /// Resolves `path` and checks that it may be searched. A link is followed if it stays inside.
    pub(super) async fn search_target(&self, path: &str) -> Result<SearchTarget> {
        if !self.source.access_limits.is_searchable {
            return Err(search_disabled());
        }
        let target = self.admit_directory(path).await?;
        let real = self.follow_links(&target).await?;
        let stat = self.stat_entry(&real, Follow::Never).await?;
        // A file that is named as the path is read, not only walked over: it must be readable under all its names.
        if stat.kind != EntryKind::Directory {
            self.admit_path(target.shown, PathSubject::Content, &[Access::Read])
                .await?;
            self.hard_links().check_file(&real, stat.hard_linked).await?;
        }
        Ok(SearchTarget { real, kind: stat.kind })
    }

    /// Runs `search` on a thread of its own, over the files at `place` that `scope` selects. Dropping the future ends
    /// the search at the next file.
    pub(super) async fn run_search<T: Send + 'static>(
        &self,
        place: SearchTarget,
        scope: SearchScope,
        search: impl FnOnce(SearchTask) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (questions, asked) = mpsc::unbounded();
        let (root, left_out) = match self.storage().open_directory(&WsPath::root())? {
            Some(root) => (root, None),
            None => self.listed_root(&place, &scope, questions.clone()).await?,
        };
        // The loop that answers below ends when every sender is gone; only directories that ask may keep one.
        drop(questions);
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let _cancel_on_drop = CancelOnDrop(Arc::clone(&is_cancelled));
        let input = SearchTask {
            files: self.clone(),
            root,
            place,
            coverage: scope.coverage,
            left_out,
            threads: if self.source.access_limits.is_remote {
                // Most of the threads wait for an answer most of the time.
                self.source.access_limits.search_concurrency.max(thread_count())
            } else {
                thread_count()
            },
            is_cancelled,
        };
        let (done, outcome) = oneshot::channel();
        let work = move || drop(done.send(search(input)));
        thread::Builder::new()
            .name("garret-search".into())
            .spawn(work)
            .map_err(|_| no_thread_error())?;
        listed_tree::answer_questions(self.storage(), self.source.access_limits.search_concurrency, asked).await;
        outcome.await.unwrap_or_else(|_| Err(thread_failure()))
    }

    async fn listed_root(
        &self,
        place: &SearchTarget,
        scope: &SearchScope,
        questions: mpsc::UnboundedSender<listed_tree::StorageQuestion>,
    ) -> Result<(Box<dyn DirectoryHandle>, Option<SearchCutoff>)> {
        // To search one file nothing is listed, and the list is complete below that file alone.
        let found = match place.kind {
            EntryKind::Directory => self.source.list_for_search(&place.real, scope).await?,
            _ => SearchList::empty(&place.real),
        };
        let left_out = found.left_out.as_ref().map(|last| SearchCutoff {
            after: self.view.relative_entry_path(last).display_path(),
            reason: "max_objects_scanned",
        });
        let near = self.source.local_content.clone();
        Ok((found.into_root(questions, near), left_out))
    }
}

/// The part of a directory that a search covers.
#[derive(Debug, Clone)]
pub(super) struct SearchScope {
    pub(super) coverage: WalkCoverage,
    pub(super) narrow: SearchArea,
}

/// A search on its thread.
pub(super) struct SearchTask {
    pub(super) files: FileAccess,
    /// The paths of the storage that a limit left out.
    pub(super) left_out: Option<SearchCutoff>,
    root: Box<dyn DirectoryHandle>,
    place: SearchTarget,
    coverage: WalkCoverage,
    threads: usize,
    is_cancelled: Arc<AtomicBool>,
}

impl SearchTask {
    /// Returns whether files may be missing from the search, because the view of the past does not have all of them. A
    /// file that is searched alone is there.
    pub(super) fn is_incomplete(&self) -> bool {
        self.files.source.is_partial && self.place.kind == EntryKind::Directory
    }

    /// Shows every entry that the search covers to a visitor, and returns the visitors.
    pub(super) fn run_walk<V: WalkVisitor>(self, visitor: impl Fn() -> V + Sync) -> Result<Vec<V>> {
        let base = &self.files.view.base;
        let walk = SearchWalk {
            coverage: self.coverage,
            files: &self.files,
            threads: self.threads,
            is_far: self.files.source.access_limits.is_remote,
            is_cancelled: &self.is_cancelled,
        };
        let real = &self.place.real;
        match (self.place.kind, real.parent(), real.name()) {
            (EntryKind::Directory, ..) | (_, None, _) | (_, _, None) => {
                walk.run(WalkStart::open_at(self.root, base, real)?, visitor)
            }
            (kind, Some(parent), Some(name)) => {
                let mut only = visitor();
                WalkStart::open_at(self.root, base, &parent)?.visit_only(name, kind, &mut only)?;
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

fn search_disabled() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "search is disabled in this workspace: `search_enabled` is false",
    )
    .hint("list its directories, or set `search_enabled` to true in the configuration of the storage")
}

fn no_thread_error() -> Error {
    Error::new(ErrorKind::Unavailable, "no thread can be started for the search")
}
