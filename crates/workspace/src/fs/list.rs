//! Listing a directory, or the tree below it to a depth, a page at a time.
//!
//! A tree is walked directory by directory, so that a depth costs only what it shows. Entries come with each directory directly before
//! what is in it. A cursor is the path of the last entry shown; from it the walk finds its place again without state between pages.

use std::collections::VecDeque;

use garret_core::{Entry, EntryKind, EntryPath, Error, ErrorKind, Follow, ListOptions, Result, WsPath};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Workspace;
use crate::admit::Target;
use crate::fs::shown_time;

/// What to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRequest {
    /// How many levels: 1 for the directory alone.
    pub depth: usize,
    /// The most entries in this page.
    pub limit: usize,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

impl Default for ListRequest {
    fn default() -> Self {
        Self {
            depth: 1,
            limit: 1_000,
            cursor: None,
        }
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listed {
    /// The entries, each directory before what is in it.
    pub entries: Vec<ListedEntry>,
    /// The `cursor` of the next page, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ListedEntry {
    /// Its name.
    pub name: String,
    /// Its path.
    pub path: String,
    /// What it is.
    pub r#type: EntryKind,
    /// Bytes of content.
    pub size: u64,
    /// When it last changed, where the storage knows.
    pub modified_at: Option<String>,
    /// Set where the name is not UTF-8: it is shown in escaped form, and no tool can open it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub escaped: bool,
}

impl Workspace {
    /// Lists a directory. What the policy hides is left out.
    pub async fn list(&self, path: &str, request: ListRequest) -> Result<Listed> {
        self.operate("ls", &[path], |_| 0, self.list_page(path, &request)).await
    }

    async fn list_page(&self, path: &str, request: &ListRequest) -> Result<Listed> {
        if request.depth == 0 || request.limit == 0 {
            return Err(Error::invalid("`depth` and `limit` must be at least 1"));
        }
        let mut target = self.admit_directory(path).await?;
        // Entries are shown where they are, so a cursor made through a link must be read there, too.
        target.real = self.followed(&target).await?;
        let mut walk = TreeWalk::begin(self, &target, request)?;
        let mut page = Listed {
            entries: Vec::new(),
            next_cursor: None,
        };
        let mut last = None;
        while let Some(entry) = walk.next().await? {
            if page.entries.len() == request.limit {
                page.next_cursor = last.map(|path: EntryPath| self.shown_entry(&path).to_token());
                break;
            }
            page.entries.push(self.listed(&entry));
            last = Some(entry.path);
        }
        Ok(page)
    }

    fn listed(&self, entry: &Entry) -> ListedEntry {
        let shown = self.shown_entry(&entry.path);
        ListedEntry {
            name: shown.shown_name(),
            path: shown.shown(),
            r#type: entry.kind,
            size: entry.size,
            modified_at: shown_time(entry.modified),
            escaped: shown.is_escaped(),
        }
    }
}

/// A walk in the order of a tree, a directory at a time.
struct TreeWalk<'a> {
    workspace: &'a Workspace,
    depth: usize,
    follow: Follow,
    open: Vec<OpenDirectory>,
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
    fn begin(workspace: &'a Workspace, target: &Target, request: &ListRequest) -> Result<Self> {
        let mut walk = Self {
            workspace,
            depth: request.depth,
            follow: target.follow,
            open: Vec::new(),
        };
        match &request.cursor {
            None => walk.open.push(OpenDirectory::new(target.real.clone(), None)),
            Some(cursor) => walk.resume(target, EntryPath::from_token(cursor)?)?,
        }
        Ok(walk)
    }

    /// Opens each directory on the way to the last entry shown, behind the name on that way, and the entry itself from its start.
    fn resume(&mut self, target: &Target, last: EntryPath) -> Result<()> {
        let foreign = || {
            Error::invalid("this cursor belongs to another list")
                .hint("pass `next_cursor` of the page before, unchanged")
        };
        let shown = self.workspace.shown(&target.real);
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
            self.fill().await?;
        }
    }

    /// Lists the next stretch of the innermost directory. One that vanished, or is no directory (a cursor may name a file), is empty.
    async fn fill(&mut self) -> Result<()> {
        let is_outermost = self.open.len() == 1;
        let directory = self.open.last_mut().expect("a directory is open");
        let options = ListOptions {
            after: directory.after.take(),
            follow: self.follow,
            ..ListOptions::default()
        };
        let page = match self.workspace.storage().list(&directory.path, options).await {
            Err(error) if !is_outermost && is_gone(&error) => {
                directory.is_complete = true;
                return Ok(());
            }
            page => page?,
        };
        directory.is_complete = !page.has_more;
        directory.after = page.entries.last().map(|entry| entry.path.clone());
        let visible = |entry: &Entry| {
            self.workspace
                .is_entry_visible(&entry.path, entry.kind == EntryKind::Directory)
        };
        directory.ready.extend(page.entries.into_iter().filter(visible));
        Ok(())
    }
}

fn is_gone(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PathEscape
    )
}
