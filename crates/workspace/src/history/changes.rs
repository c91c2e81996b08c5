//! The journal: its list of changes, and the details of one change.

use garret_core::{Change, ChangesOptions, Error, Point, Result};

use crate::history::HistoryAccess;
use crate::{ChangeDetails, LogPage, Workspace};

/// Which part of the journal to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRequest {
    /// Only changes that touched this path or something below it.
    pub path: Option<String>,
    /// The most changes.
    pub limit: usize,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

impl Default for LogRequest {
    fn default() -> Self {
        Self {
            path: None,
            limit: 50,
            cursor: None,
        }
    }
}

impl Workspace {
    /// Returns a page of the changes of the workspace, newest first.
    pub async fn log(&self, request: LogRequest) -> Result<LogPage> {
        let path = request.path.clone().unwrap_or_default();
        let work = async { self.files.history()?.read_log_page(request).await };
        self.run_operation("history", &[&path], |_| 0, work).await
    }

    /// Returns one change, with its effect on each path that this view shows.
    pub async fn show(&self, point: &Point) -> Result<ChangeDetails> {
        let work = async { self.files.history()?.read_change(point).await };
        self.run_operation("history", &[], |_| 0, work).await
    }
}

impl HistoryAccess<'_> {
    async fn read_log_page(&self, request: LogRequest) -> Result<LogPage> {
        check_limit(request.limit)?;
        let path = self
            .files
            .recorded_directory(request.path.as_deref().unwrap_or_default())
            .await?;
        let mut before = request.cursor.as_deref().map(parse_cursor).transpose()?;
        let mut changes: Vec<Change> = Vec::new();
        // One more than requested shows whether another page follows.
        let wanted = request.limit.saturating_add(1);
        // Changes that this view does not show are left out, so one page of the journal may not fill one page of the
        // answer.
        while changes.len() < wanted {
            let options = ChangesOptions {
                before,
                limit: wanted,
                path: Some(path.clone()).filter(|path| !path.is_root()),
                inherited: false,
            };
            let found = self.journal.changes(options).await?;
            let Some(oldest) = found.last() else { break };
            before = Some(oldest.number);
            for change in found {
                changes.extend(self.visible_change(change).await?);
            }
        }
        let has_more = changes.len() > request.limit;
        changes.truncate(request.limit);
        let next_cursor = changes.last().filter(|_| has_more).map(|last| last.number.to_string());
        Ok(LogPage { changes, next_cursor })
    }

    async fn read_change(&self, point: &Point) -> Result<ChangeDetails> {
        let (change, paths) = self.journal.change(point).await?;
        let seen = self.visible_change(change).await?;
        let change = seen.ok_or_else(|| {
            Error::new(garret_core::ErrorKind::NotFound, "this view has no such change")
                .hint("list the history to see the changes")
        })?;
        // The journal keeps each hard link as a file, so paths of files with a denied name are left out here.
        let denied = self.files.hard_links().denied_names().await?;
        let paths = paths.into_iter().filter(|one| !denied.contains(&one.path)).collect();
        let entries = self.files.view.visible_path_changes(paths);
        Ok(ChangeDetails { change, entries })
    }
}

/// Refuses a limit of 0.
pub(super) fn check_limit(limit: usize) -> Result<()> {
    match limit {
        // An empty page has no last change to go on from, so a caller would never come to the end.
        0 => Err(Error::invalid("`limit` must be at least 1")),
        _ => Ok(()),
    }
}

fn parse_cursor(cursor: &str) -> Result<u64> {
    cursor.parse().map_err(|_| unknown_cursor_error())
}

pub(super) fn unknown_cursor_error() -> Error {
    Error::invalid("this cursor was not made by Garret").hint("pass `next_cursor` of the page before, unchanged")
}
