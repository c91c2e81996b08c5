//! The difference between two points, as a unified diff and as data.

use garret_core::{PathChange, Point, Result};
use schemars::JsonSchema;
use serde::Serialize;

use super::render::{DiffSides, PathDiff, RenderOptions, render_diff};
use crate::Workspace;
use crate::history::HistoryAccess;

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
}

impl Default for DiffRequest {
    fn default() -> Self {
        Self {
            from: Point::Number(0),
            to: Point::Now,
            path: None,
            max_text_bytes: 1 << 20,
        }
    }
}

/// The difference between two points.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Diff {
    /// Every path that differs and shows in this view, in order.
    pub paths: Vec<PathDiff>,
    /// A unified diff that `apply_patch` and GNU `patch -p1` take, binary files summarised.
    pub text: String,
    /// How many of the paths the text leaves out because it is long enough; their lines are not counted.
    pub left_out: usize,
    /// Set if not every file was captured at both points: a file that was captured later is shown as unchanged until then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

impl Workspace {
    /// Returns the difference between two points, for one path, a subtree or everything, as far as this view may read
    /// it.
    pub async fn diff(&self, request: DiffRequest) -> Result<Diff> {
        let path = request.path.clone().unwrap_or_default();
        let bytes = |diff: &Diff| diff.text.len() as u64;
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
        Ok(Diff {
            paths: rendered.paths,
            text: rendered.text,
            left_out: rendered.left_out,
            incomplete: !journal.is_complete(&request.from).await? || !journal.is_complete(&request.to).await?,
        })
    }
}
