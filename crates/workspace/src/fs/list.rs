//! Listing a directory, or the tree below it to a depth, a page at a time.
//!
//! A tree is walked directory by directory, so that a list of small depth does not read the levels below. If files are
//! remote and each list is a request, sibling directories are listed at once. Each directory comes directly before its
//! entries. A cursor is the path of the last entry shown; from it the walk resumes without state between pages.

use std::collections::{HashMap, VecDeque};

use futures::future::join_all;
use garret_core::{
    Access, Entry, EntryKind, EntryPath, Error, ErrorKind, Follow, ListOptions, ListPage, Result, WsPath,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::admission::{AdmittedPath, PathSubject};
use crate::file_access::FileAccess;
use crate::fs::shown_time;
use crate::sorted_pages::{PageCollector, PageSortKey, SortedPage};
use crate::view::WorkspaceView;
use crate::{DirectoryListing, ListedEntry, Workspace};

/// The order of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListSortOrder {
    /// By name.
    #[default]
    Name,
    /// By the time of the last change, the newest first; equal times by path.
    #[serde(alias = "mtime", alias = "time")]
    Modified,
}

/// How to list a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRequest {
    /// How many levels: 1 for the directory alone.
    pub depth: usize,
    /// The most entries in this page.
    pub limit: usize,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// The order. By time, each page costs a walk of the whole tree.
    pub sort: ListSortOrder,
    /// Whether each entry has its time; in a list by time, it always has.
    pub long: bool,
}

impl Default for ListRequest {
    fn default() -> Self {
        Self {
            depth: 1,
            limit: 1_000,
            cursor: None,
            sort: ListSortOrder::Name,
            long: false,
        }
    }
}

impl Workspace {
    /// Lists a directory. Entries that the policy hides are left out.
    pub async fn list(&self, path: &str, request: ListRequest) -> Result<DirectoryListing> {
        let files = self.files.remembering_hard_links();
        let work = async {
            match files.list_page(path, &request).await {
                Err(error) if error.kind() == ErrorKind::NotADirectory => {
                    Err(self.files.explain_file(path, error).await)
                }
                listed => listed,
            }
        };
        self.run_operation("ls", &[path], |_| 0, work).await
    }
}

impl FileAccess {
    /// Replaces the error of listing a path that is a file; any other error stays.
    async fn explain_file(&self, path: &str, error: Error) -> Error {
        let Ok(target) = self.admit(path, PathSubject::Content, &[Access::Read]).await else {
            return error;
        };
        match self.kind_of(&target).await {
            Ok(EntryKind::File) => {
                let message = format!("{} is a file, not a directory", target.shown.to_quoted());
                Error::new(ErrorKind::NotADirectory, message)
                    .at_path(&target.shown)
                    .hint("read the file, or list the directory that holds it")
            }
            _ => error,
        }
    }

    async fn list_page(&self, path: &str, request: &ListRequest) -> Result<DirectoryListing> {
        if request.depth == 0 || request.limit == 0 {
            return Err(Error::invalid("`depth` and `limit` must be at least 1"));
        }
        let mut target = self.admit_directory(path).await?;
        // Entries are shown by their resolved paths, and so are cursors: a walk through a link must begin at the
        // resolved path, too.
        target.real = self.follow_links(&target).await?;
        let mut page = DirectoryListing {
            entries: Vec::new(),
            next_cursor: None,
            incomplete: self.source.is_partial,
            cursors: Vec::new(),
        };
        if request.sort == ListSortOrder::Modified {
            let newest = self.newest_entries(&target, request).await?;
            return Ok(DirectoryListing {
                entries: newest.entries,
                next_cursor: newest.next_cursor,
                cursors: newest.cursors,
                ..page
            });
        }
        let mut walk = TreeWalk::begin(self, &target, request)?;
        while let Some(entry) = walk.next().await? {
            // Only an entry after a full page shows that another page follows.
            if page.entries.len() == request.limit {
                page.next_cursor = page.cursors.last().cloned();
                break;
            }
            page.entries.push(self.view.listed_entry(&entry, request.long));
            page.cursors.push(self.view.relative_entry_path(&entry.path).to_token());
        }
        Ok(page)
    }

    /// Returns a page of the tree in the order of time. Only the page is held in memory, however large the tree is.
    async fn newest_entries(&self, target: &AdmittedPath, request: &ListRequest) -> Result<SortedPage<ListedEntry>> {
        let after = request.cursor.as_deref().map(PageSortKey::from_token).transpose()?;
        let whole = ListRequest {
            limit: usize::MAX,
            cursor: None,
            ..request.clone()
        };
        let mut walk = TreeWalk::begin(self, target, &whole)?;
        let mut first = PageCollector::new(after, request.limit);
        while let Some(entry) = walk.next().await? {
            let key = PageSortKey::new(
                entry.modified,
                self.view.relative_entry_path(&entry.path).as_bytes().to_vec(),
            );
            first.offer_entry(key, || self.view.listed_entry(&entry, true));
        }
        Ok(first.into_page())
    }
}

impl WorkspaceView {
    fn listed_entry(&self, entry: &Entry, with_time: bool) -> ListedEntry {
        let shown = self.relative_entry_path(&entry.path);
        ListedEntry {
            name: shown.display_name(),
            path: shown.display_path(),
            r#type: entry.kind,
            size: entry.size,
            modified_at: shown_time(entry.modified.filter(|_| with_time)),
            escaped: shown.is_escaped(),
        }
    }
}

/// A walk of a tree, each directory before its entries, which lists one directory at a time.
struct TreeWalk<'a> {
    files: &'a FileAccess,
    depth: usize,
    follow: Follow,
    open: Vec<OpenDirectory>,
    /// How many more entries the caller wants.
    wanted: usize,
    /// The first pages of directories that the walk will come to.
    ahead: HashMap<WsPath, Result<ListPage>>,
}

struct OpenDirectory {
    path: WsPath,
    after: Option<EntryPath>,
    ready: VecDeque<Entry>,
    is_complete: bool,
}

impl OpenDirectory {
    fn new(path: WsPath, after: Option<EntryPath>) -> Self {
        Self {
            path,
            after,
            ready: VecDeque::new(),
            is_complete: false,
        }
    }
}

impl<'a> TreeWalk<'a> {
    fn begin(files: &'a FileAccess, target: &AdmittedPath, request: &ListRequest) -> Result<Self> {
        let mut walk = Self {
            files,
            depth: request.depth,
            follow: target.follow,
            open: Vec::new(),
            wanted: request.limit,
            ahead: HashMap::new(),
        };
        match &request.cursor {
            None => walk.open.push(OpenDirectory::new(target.real.clone(), None)),
            Some(cursor) => walk.resume_after(target, EntryPath::from_token(cursor)?)?,
        }
        Ok(walk)
    }

    /// Opens each directory above the last entry shown, after the name that leads to that entry, and the entry itself
    /// from its start.
    fn resume_after(&mut self, target: &AdmittedPath, last: EntryPath) -> Result<()> {
        let foreign = || {
            Error::invalid("this cursor belongs to another list")
                .hint("pass `next_cursor` of the page before, unchanged")
        };
        let shown = self.files.view.relative_path(&target.real);
        let shown = shown.as_str().as_bytes();
        let rest = match last.as_bytes().strip_prefix(shown).ok_or_else(foreign)? {
            rest if shown.is_empty() => rest,
            rest => rest.strip_prefix(b"/").ok_or_else(foreign)?,
        };
        let mut above = EntryPath::from(target.real.clone());
        for name in rest.split(|byte| *byte == b'/') {
            let next = above.child(name);
            let Some(directory) = above.as_path() else {
                return Ok(());
            };
            self.open
                .push(OpenDirectory::new(directory.clone(), Some(next.clone())));
            above = next;
        }
        // The last entry may be a directory whose own entries come next; a file is found out when it is listed.
        if let Some(entry) = above.as_path().filter(|_| self.open.len() < self.depth) {
            self.open.push(OpenDirectory::new(entry.clone(), None));
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<Entry>> {
        loop {
            let Some(directory) = self.open.last_mut() else {
                return Ok(None);
            };
            if let Some(entry) = directory.ready.pop_front() {
                self.wanted = self.wanted.saturating_sub(1);
                if let Some(path) = entry.path.as_path()
                    && entry.kind == EntryKind::Directory
                    && self.open.len() < self.depth
                {
                    self.open.push(OpenDirectory::new(path.clone(), None));
                }
                return Ok(Some(entry));
            }
            if directory.is_complete {
                self.open.pop();
                continue;
            }
            self.fill_directory().await?;
        }
    }

    /// Lists the next page of the innermost directory. A directory that was removed since, or a file that a cursor
    /// names, counts as empty.
    async fn fill_directory(&mut self) -> Result<()> {
        let is_outermost = self.open.len() == 1;
        let directory = self.open.last_mut().expect("a directory is open");
        let (path, after) = (directory.path.clone(), directory.after.take());
        let page = self.next_page(&path, after).await;
        let directory = self.open.last_mut().expect("a directory is open");
        let page = match page {
            Err(error) if !is_outermost && is_gone(&error) => {
                directory.is_complete = true;
                return Ok(());
            }
            page => page?,
        };
        directory.is_complete = !page.has_more;
        // Taken before hidden entries are left out: a page that shows nothing must still move on.
        directory.after = page.entries.last().map(|entry| entry.path.clone());
        let visible = |entry: &Entry| {
            self.files
                .view
                .is_entry_visible(&entry.path, entry.kind == EntryKind::Directory)
        };
        let entries = page.entries.into_iter().filter(visible).collect();
        let entries = self.files.hard_links().without_denied_files(entries).await?;
        let directory = self.open.last_mut().expect("a directory is open");
        directory.ready.extend(entries);
        Ok(())
    }
}

impl TreeWalk<'_> {
    /// Returns a page of the innermost directory. With its first page, the first pages of sibling directories are
    /// fetched.
    async fn next_page(&mut self, path: &WsPath, after: Option<EntryPath>) -> Result<ListPage> {
        if after.is_some() {
            return self.list_storage(path, after).await;
        }
        if let Some(page) = self.ahead.remove(path) {
            return page;
        }
        let beside = self.siblings_ahead();
        let others = join_all(beside.iter().map(|path| self.list_storage(path, None)));
        let (page, others) = futures::join!(self.list_storage(path, None), others);
        self.ahead.extend(beside.into_iter().zip(others));
        page
    }

    async fn list_storage(&self, path: &WsPath, after: Option<EntryPath>) -> Result<ListPage> {
        let options = ListOptions {
            after,
            follow: self.follow,
            ..ListOptions::default()
        };
        self.files.storage().list(path, options).await
    }

    /// Returns the sibling directories that the walk opens after the innermost one, at most as many as are listed at
    /// files.
    fn siblings_ahead(&self) -> Vec<WsPath> {
        let parent = self.open.len().checked_sub(2).map(|parent| &self.open[parent]);
        // For local files a list costs no round trip, so listing ahead would gain nothing.
        let Some(parent) = parent.filter(|_| self.files.source.access_limits.is_remote) else {
            return Vec::new();
        };
        let next = parent.ready.iter().take(self.wanted);
        let next = next.filter(|entry| entry.kind == EntryKind::Directory);
        let next = next.filter_map(|entry| entry.path.as_path().cloned());
        next.take(self.files.source.access_limits.search_concurrency.saturating_sub(1))
            .collect()
    }
}

fn is_gone(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PathEscape
    )
}
