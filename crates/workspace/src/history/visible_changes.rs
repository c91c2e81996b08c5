//! Policies applied to the past: the part of a change that a view may see.

use garret_core::{Change, EntryPath, PathChange, Result};

use crate::history::HistoryAccess;
use crate::view::WorkspaceView;

impl HistoryAccess<'_> {
    /// Returns a change as this view shows it; `None` if it touched no path that this view shows.
    pub(crate) async fn visible_change(&self, change: Change) -> Result<Option<Change>> {
        if !self.files.view.is_restricted() {
            return Ok(Some(change));
        }
        // A change carries only its first paths, and those may all be outside of this view.
        let paths = if change.path_count > change.paths.len() as u64 {
            let point = garret_core::Point::Change(change.id.clone());
            let (_, paths) = self.journal.change(&point).await?;
            paths.into_iter().map(|one| one.path).collect()
        } else {
            change.paths.clone()
        };
        let total = paths.len();
        let visible: Vec<EntryPath> = paths
            .iter()
            .filter(|path| self.files.view.is_recorded_path_visible(path))
            .cloned()
            .collect();
        if visible.is_empty() {
            return Ok(None);
        }
        let is_whole = visible.len() == total && self.files.view.base.is_root();
        let path_count = visible.len() as u64;
        Ok(Some(Change {
            // The summary in the journal may name paths that this view hides.
            summary: if is_whole {
                change.summary.clone()
            } else {
                self.files.view.summarize_visible(&change, &visible)
            },
            paths: visible
                .iter()
                .take(Change::SHOWN_PATHS)
                .map(|path| self.files.view.relative_entry_path(path))
                .collect(),
            path_count,
            actor: if is_whole {
                change.actor
            } else {
                // The command may name hidden paths, too.
                garret_core::ChangeActor {
                    command: None,
                    ..change.actor
                }
            },
            ..change
        }))
    }
}

impl WorkspaceView {
    /// Returns a summary of a change that names only visible paths.
    fn summarize_visible(&self, change: &Change, visible: &[EntryPath]) -> String {
        let word = match change.operation.as_str() {
            "" => change.kind.as_str(),
            operation => operation,
        };
        let first = visible
            .first()
            .map(|path| self.relative_entry_path(path).display_path())
            .unwrap_or_default();
        match visible.len() {
            1 => format!("{word} {}", garret_core::path::quote(&first)),
            more => format!("{word} {} and {} more", garret_core::path::quote(&first), more - 1),
        }
    }

    /// Whether this view shows a path of the journal.
    pub(crate) fn is_recorded_path_visible(&self, path: &EntryPath) -> bool {
        self.is_entry_within(path) && self.is_entry_visible(path, false)
    }

    pub(crate) fn is_entry_within(&self, path: &EntryPath) -> bool {
        let base = self.base.as_str().as_bytes();
        let rest = path.as_bytes().strip_prefix(base);
        base.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }

    /// Returns the path changes that this view shows, with their paths relative to the view.
    pub(crate) fn visible_path_changes(&self, paths: Vec<PathChange>) -> Vec<PathChange> {
        let visible = paths.into_iter().filter(|one| self.is_recorded_path_visible(&one.path));
        visible
            .map(|one| PathChange {
                path: self.relative_entry_path(&one.path),
                ..one
            })
            .collect()
    }
}
