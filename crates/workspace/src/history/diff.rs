//! The difference between two points, as a unified diff and as data.

use garret_core::{PathChange, Point, Result};

use super::render::{DiffSides, RenderOptions, render_diff};
use crate::history::HistoryAccess;
use crate::{Diff, Workspace};

/// The two points to compare, and the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffRequest {
    /// The earlier point.
    pub from: Point,
    /// The later point.
    pub to: Point,
    /// Compares only this path and the entries below it; `None` for the whole view.
    pub path: Option<String>,
    /// The text ends after the file with which it passes this number of bytes.
    pub max_text_bytes: usize,
    /// The number of lines of the text to skip.
    pub offset: u64,
    /// The most lines of the text; `next_offset` is the offset of the next page.
    pub limit: usize,
}

impl Default for DiffRequest {
    fn default() -> Self {
        Self {
            from: Point::Number(0),
            to: Point::Now,
            path: None,
            max_text_bytes: 1 << 20,
            offset: 0,
            limit: usize::MAX,
        }
    }
}

impl Workspace {
    /// Returns the difference between two points, for one path, a subtree or everything, as far as this view may read
    /// it.
    pub async fn diff(&self, request: DiffRequest) -> Result<Diff> {
        let path = request.path.clone().unwrap_or_default();
        let bytes = |diff: &Diff| diff.diff.len() as u64;
        let work = async { self.files.history()?.compare_points(&path, &request).await };
        self.run_operation("diff", &[&path], bytes, work).await
    }
}

impl HistoryAccess<'_> {
    async fn compare_points(&self, path: &str, request: &DiffRequest) -> Result<Diff> {
        let path = self.files.recorded_directory(path).await?;
        let journal = self.journal;
        let changes = journal.diff(&request.from, &request.to, &path).await?;
        // The journal keeps each hard link as a file, so paths of files with a denied name are left out here.
        let denied = self.files.hard_links().denied_names().await?;
        let is_seen =
            |one: &PathChange| self.files.view.is_recorded_path_visible(&one.path) && !denied.contains(&one.path);
        let seen: Vec<_> = changes.into_iter().filter(is_seen).collect();
        let (before, after) = (
            journal.open_view(&request.from).await?,
            journal.open_view(&request.to).await?,
        );
        let sides = DiffSides {
            before: before.as_ref(),
            after: after.as_ref(),
            shown: &|path| self.files.view.relative_entry_path(path),
        };
        let options = RenderOptions {
            max_text_bytes: request.max_text_bytes,
            ..RenderOptions::default()
        };
        let rendered = render_diff(&seen, &sides, options).await?;
        let line_count = rendered.text.split_inclusive('\n').count() as u64;
        let skipped = usize::try_from(request.offset).unwrap_or(usize::MAX);
        let lines = rendered.text.split_inclusive('\n').skip(skipped).take(request.limit);
        let end = request.offset.saturating_add(lines.clone().count() as u64);
        Ok(Diff {
            path_count: rendered.paths.len() as u64,
            paths: rendered.paths,
            diff: lines.collect(),
            line_count,
            next_offset: Some(end).filter(|end| *end < line_count),
            left_out: rendered.left_out as u64,
            incomplete: !journal.is_complete(&request.from).await? || !journal.is_complete(&request.to).await?,
        })
    }
}
