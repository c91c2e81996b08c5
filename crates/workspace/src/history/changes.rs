//! The journal: its list of changes, and the details of one change.

use garret_core::{Change, ChangeActor, ChangesOptions, EntryKind, Error, PathChange, PathImage, Point, Result};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Workspace;
use crate::history::HistoryAccess;
use crate::shell::PathsLeftAlone;

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

/// A page of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogPage {
    /// The changes, newest first.
    pub changes: Vec<ChangeShown>,
    /// Where the next page begins, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A change as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeShown {
    /// A unique id; ids sort by time.
    pub id: String,
    /// Its place in the journal, from 1.
    pub number: u64,
    /// When it was made, in RFC 3339.
    pub at: String,
    /// `change`, `undo`, `redo`, `restore`, `merge`, `outside` or `capture`.
    pub kind: String,
    /// The tool that made it.
    pub operation: String,
    /// What was done, in a few words.
    pub summary: String,
    /// Who did it.
    pub actor: ActorShown,
    /// The first of the paths that it touched. In the answer to an undo, a redo, a restore or a merge, each comes after
    /// `+` (created), `~` (changed) or `-` (deleted).
    pub paths: Vec<String>,
    /// How many paths it touched.
    pub path_count: u64,
    /// The numbers of the changes that it reverses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reverses: Vec<u64>,
    /// The number of the change that currently reverses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_by: Option<u64>,
    /// Paths that the operation left as they are, because they are excluded from history; only in its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_alone: Option<PathsLeftAlone>,
}

impl ChangeShown {
    /// Returns a sentence for an undo that took back fewer changes than were requested; `None` if it took back all of
    /// them.
    pub fn undo_shortfall(&self, requested: usize) -> Option<String> {
        let undone = self.reverses.len();
        let were = if undone == 1 { "change was" } else { "changes were" };
        (undone < requested).then(|| format!("only {undone} {were} left to undo, not {requested}"))
    }
}

/// The effect that an undo, a redo or a restore would have. Nothing is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlannedChange {
    /// Always true: this is the answer to a dry run.
    pub dry_run: bool,
    /// The first of the paths that would change, each after `+` (created), `~` (changed) or `-` (deleted).
    pub paths: Vec<String>,
    /// How many paths would change.
    pub path_count: u64,
}

impl PlannedChange {
    /// Returns the effect on `paths`.
    pub(crate) fn new(paths: &[PathChange]) -> Self {
        Self {
            dry_run: true,
            paths: mark_paths(paths).take(Change::SHOWN_PATHS).collect(),
            path_count: paths.len() as u64,
        }
    }
}

/// Returns each path after `+` (created), `~` (changed) or `-` (deleted).
pub(crate) fn mark_paths(paths: &[PathChange]) -> impl Iterator<Item = String> {
    paths.iter().map(|one| {
        let mark = match (&one.before, &one.after) {
            (None, _) => '+',
            (_, None) => '-',
            _ => '~',
        };
        format!("{mark} {}", one.path.display_path())
    })
}

/// Who made a change, as it is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ActorShown {
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The run of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The model's call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<String>,
    /// The interface (`cli`, `mcp`, …), or `outside` if another program did it.
    pub door: String,
    /// The command that did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// A change with its effect on each path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeDetails {
    /// The change.
    pub change: ChangeShown,
    /// The entry at each path before and after.
    pub paths: Vec<PathShown>,
}

/// The entry at a path before and after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathShown {
    /// The path.
    pub path: String,
    /// The entry before the change; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<ImageShown>,
    /// The entry after the change; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<ImageShown>,
}

/// An entry as a change recorded it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImageShown {
    /// The type of the entry.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    /// Its permission bits, in octal digits.
    pub mode: String,
    /// Bytes of content.
    pub size: u64,
    /// The version of a file's content in its history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where a link points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl From<ChangeActor> for ActorShown {
    fn from(actor: ChangeActor) -> Self {
        Self {
            agent: actor.agent,
            session: actor.session,
            tool_call: actor.tool_call,
            door: actor.door,
            command: actor.command,
        }
    }
}

impl From<Change> for ChangeShown {
    fn from(change: Change) -> Self {
        Self {
            id: change.id,
            number: change.number,
            at: change.at.to_string(),
            kind: change.kind.as_str().to_owned(),
            operation: change.operation,
            summary: change.summary,
            actor: change.actor.into(),
            paths: change.paths.iter().map(garret_core::EntryPath::display_path).collect(),
            path_count: change.path_count,
            reverses: change.reverses,
            undone_by: change.undone_by,
            left_alone: None,
        }
    }
}

impl From<PathImage> for ImageShown {
    fn from(image: PathImage) -> Self {
        Self {
            kind: image.kind,
            mode: format!("{:04o}", image.mode),
            size: image.size,
            version: image.version.map(|version| version.as_str().to_owned()),
            target: image.target,
        }
    }
}

impl From<PathChange> for PathShown {
    fn from(one: PathChange) -> Self {
        Self {
            path: one.path.display_path(),
            before: one.before.map(Into::into),
            after: one.after.map(Into::into),
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
        let mut changes: Vec<ChangeShown> = Vec::new();
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
                changes.extend(self.visible_change(change).await?.map(ChangeShown::from));
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
        let paths = self
            .files
            .view
            .visible_path_changes(paths)
            .into_iter()
            .map(Into::into)
            .collect();
        Ok(ChangeDetails {
            change: change.into(),
            paths,
        })
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
    cursor.parse().map_err(|_| {
        Error::invalid("this cursor was not made by Garret").hint("pass `next_cursor` of the page before, unchanged")
    })
}
