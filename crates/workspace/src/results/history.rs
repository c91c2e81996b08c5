//! Results of operations on the history.

pub use garret_core::{Actor, Branch, Change, ChangeKind, ChangedPath, PathChange, PathImage, Snapshot, SnapshotSize};
use std::fmt;

use garret_core::{EntryKind, Error, Result, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use super::is_zero;

/// A page of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogPage {
    /// The changes, newest first.
    pub changes: Vec<Change>,
    /// Where the next page begins, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A change with the state of each path before and after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeDetails {
    /// The change.
    #[serde(flatten)]
    pub change: Change,
    /// The entry at each path before and after.
    pub entries: Vec<PathChange>,
}

/// A version of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileVersion {
    /// The version of its content in the history; of a link or directory, the id of the change.
    pub version: String,
    /// The path of the file at that time.
    pub path: String,
    /// Bytes of content.
    pub size: u64,
    /// The id of the change that made the version.
    pub change: String,
    /// The number of that change.
    pub number: u64,
    /// When the version was made, in RFC 3339.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The operation that made the version.
    pub operation: String,
    /// The author of the version.
    pub actor: Actor,
}

/// A page of the versions of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VersionsPage {
    /// The versions, newest first.
    pub versions: Vec<FileVersion>,
    /// Where the next page begins, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A page of the history: of its changes, or of the versions of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HistoryPage {
    /// The page of changes.
    #[serde(flatten)]
    pub changes: Option<LogPage>,
    /// The page of versions.
    #[serde(flatten)]
    pub versions: Option<VersionsPage>,
}

/// The result of an undo, a redo, a restore or a merge, or of its dry run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(extend("required" = ["paths", "path_count"]))]
pub struct HistoryOperationResult {
    /// The change that was made, which can be undone itself; its fields are absent if nothing differed, and in a dry
    /// run.
    #[serde(flatten)]
    pub change: Option<Change>,
    /// The effect, if no change was made.
    #[serde(flatten)]
    pub planned: Option<PlannedPaths>,
    /// Paths that an undo did not restore, because they are excluded from history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_alone: Option<PathsLeftAlone>,
    /// Newer changes of derived files, which an undo of the newest changes stepped over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stepped_over: Option<SteppedOverChanges>,
}

/// Changes of derived files that an undo stepped over: they stay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SteppedOverChanges {
    /// The numbers of the newest of them, newest first.
    pub numbers: Vec<u64>,
    /// How many there are.
    pub count: u64,
}

impl SteppedOverChanges {
    /// The most numbers that a result lists.
    const SHOWN: usize = 20;

    /// Returns the first of `numbers`; `None` if there are none.
    pub(crate) fn from_numbers(numbers: &[u64]) -> Option<Self> {
        (!numbers.is_empty()).then(|| Self {
            numbers: numbers.iter().take(Self::SHOWN).copied().collect(),
            count: numbers.len() as u64,
        })
    }
}

impl fmt::Display for SteppedOverChanges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMED: usize = 5;
        let named: Vec<_> = self.numbers.iter().take(NAMED).map(u64::to_string).collect();
        let more = match self.count - named.len() as u64 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (changes, one) = if self.count == 1 {
            ("change", "it")
        } else {
            ("changes", "one")
        };
        let named = named.join(", ");
        write!(
            formatter,
            "stepped over {} {changes} of derived files: {named}{more}; undo {one} by its number",
            self.count
        )
    }
}

/// Returns the changes of a log in rows for a reader: consecutive changes of derived files are one row, every other
/// change is a row of its own.
pub fn fold_derived_changes(changes: &[Change]) -> impl Iterator<Item = &[Change]> {
    let is_derived = |change: &Change| change.kind == ChangeKind::Derived;
    changes.chunk_by(move |one, next| is_derived(one) && is_derived(next))
}

/// The paths that an operation would change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlannedPaths {
    /// The first of the paths, in order, each after `+` (created), `~` (changed) or `-` (deleted).
    pub paths: Vec<ChangedPath>,
    /// How many paths it changed, or in a dry run would change.
    pub path_count: u64,
    /// Set in the result of a dry run, which writes nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

impl HistoryOperationResult {
    /// Returns the result of an operation that made no change, with the changes of `paths` that it plans.
    pub(crate) fn from_plan(paths: &[PathChange], dry_run: bool) -> Self {
        let shown = paths.iter().take(Change::SHOWN_PATHS);
        let planned = PlannedPaths {
            paths: shown.map(PathChange::to_changed_path).collect(),
            path_count: paths.len() as u64,
            dry_run,
        };
        Self {
            planned: Some(planned),
            ..Self::default()
        }
    }

    /// Returns the first of the paths that it changed or, in a dry run, would change.
    pub fn paths(&self) -> &[ChangedPath] {
        let planned = self.planned.as_ref().map(|planned| planned.paths.as_slice());
        self.change
            .as_ref()
            .map(|change| change.paths.as_slice())
            .or(planned)
            .unwrap_or_default()
    }

    /// Returns the number of those paths.
    pub fn path_count(&self) -> u64 {
        let planned = self.planned.as_ref().map(|planned| planned.path_count);
        self.change
            .as_ref()
            .map(|change| change.path_count)
            .or(planned)
            .unwrap_or_default()
    }

    /// Whether it is the result of a dry run.
    pub fn is_dry_run(&self) -> bool {
        self.planned.as_ref().is_some_and(|planned| planned.dry_run)
    }

    /// Returns the numbers of the changes that it reversed.
    pub fn reverses(&self) -> &[u64] {
        self.change.as_ref().map_or(&[], |change| change.reverses.as_slice())
    }

    /// Returns a sentence for an undo that took back fewer changes than were requested; `None` if it took back all of
    /// them, and for a dry run.
    pub fn undo_shortfall(&self, requested: usize) -> Option<String> {
        let undone = self.change.as_ref()?.reverses.len();
        let were = if undone == 1 { "change was" } else { "changes were" };
        (undone < requested).then(|| format!("only {undone} {were} left to undo, not {requested}"))
    }
}

impl From<Change> for HistoryOperationResult {
    fn from(change: Change) -> Self {
        Self {
            change: Some(change),
            ..Self::default()
        }
    }
}

/// Paths that are excluded from history, and that an undo therefore left as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathsLeftAlone {
    /// The first excluded paths that the undone changes had written.
    pub paths: Vec<String>,
    /// The number of further ones.
    #[serde(skip_serializing_if = "is_zero")]
    pub more: u64,
    /// The first excluded paths that the undone changes had deleted; they cannot be restored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<String>,
    /// The number of further ones.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_deleted: u64,
}

/// The result of a merge, or of its dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MergeResult {
    /// The change that it made, or the paths that it would change; none if conflicts keep it from being written.
    #[serde(flatten)]
    pub outcome: HistoryOperationResult,
    /// The entries that both sides changed differently; only the first ones, without long texts, if an answer has no
    /// room for all.
    pub conflicts: Vec<Conflict>,
    /// The number of conflicts.
    pub conflict_count: u64,
}

/// Something that both sides changed differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Conflict {
    /// The path in this workspace, or in the other one if it does not exist here.
    pub path: String,
    /// The kind of the conflict.
    pub kind: ConflictKind,
    /// Conflicting regions of the text; 0 if the conflict is not about lines.
    pub hunks: usize,
    /// The common entry before both changes; absent if it did not exist or was not captured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<ConflictSide>,
    /// The entry in this workspace; absent if it does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours: Option<ConflictSide>,
    /// The entry in the other workspace; absent if it does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theirs: Option<ConflictSide>,
}

/// The kind of a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConflictKind {
    /// Both changed the content, or where a link points.
    Content,
    /// Each has something else at the path, which neither had before.
    BothAdded,
    /// It was deleted here and changed there.
    DeletedByUs,
    /// It was changed here and deleted there.
    DeletedByThem,
    /// Each gave it another name.
    RenameRename,
    /// One renamed it and the other deleted it.
    RenameDelete,
    /// One changed it and the other made something else of it.
    Type,
    /// Each gave it other permission bits.
    Mode,
    /// One has a file or link where the other has a directory.
    DirectoryFile,
}

impl ConflictKind {
    /// Returns the meaning of the conflict, in a few words that follow a path.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Content => "both sides changed it",
            Self::BothAdded => "both sides added it with different content",
            Self::DeletedByUs => "deleted in this workspace, changed in the branch",
            Self::DeletedByThem => "changed in this workspace, deleted in the branch",
            Self::RenameRename => "both sides renamed it differently",
            Self::RenameDelete => "one side renamed it, the other deleted it",
            Self::Type => "one side changed it, the other changed its type",
            Self::Mode => "both sides changed its permissions differently",
            Self::DirectoryFile => "a file on one side, a directory on the other",
        }
    }
}

/// The entry of one side in a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConflictSide {
    /// Its path there.
    pub path: String,
    /// What it is.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    /// Its permission bits, in octal digits.
    pub mode: String,
    /// Bytes of content.
    pub size: u64,
    /// Where a link points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Its text; absent if it is not text, is long, or may not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The difference between two points, or a page of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Diff {
    /// The paths that differ and show in this view, in order; only the first ones if an answer has no room for all.
    pub paths: Vec<PathDiff>,
    /// The number of paths that differ.
    pub path_count: u64,
    /// A unified diff that `apply_patch` and GNU `patch -p1` take, binary files summarised.
    pub diff: String,
    /// The number of lines of the whole diff.
    pub line_count: u64,
    /// The `offset` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// The number of paths that no page shows because the whole is too large; their lines are not counted.
    pub left_out: u64,
    /// Set if not every file was captured at both points: a file that was captured later is shown as unchanged until then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

/// How a path changed between two points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffStatus {
    /// It was added.
    Added,
    /// Its content, or where a link points, changed; perhaps its mode too.
    Modified,
    /// It was deleted.
    Deleted,
    /// It was moved from another path with the same content; by a patch, perhaps with changes.
    Renamed,
    /// It was copied from another path by a patch.
    Copied,
    /// Its type changed, such as from a file to a link.
    TypeChanged,
    /// Only its permission bits changed.
    Mode,
}

impl DiffStatus {
    /// Returns the word for the status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Renamed => "renamed",
            Self::Copied => "copied",
            Self::TypeChanged => "type_changed",
            Self::Mode => "mode",
        }
    }
}

/// The change of one path between two points.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathDiff {
    /// The path; of a rename, the new one.
    pub path: String,
    /// The kind of change.
    pub status: DiffStatus,
    /// The path before, of a rename.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    /// What it is, or was.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    /// The number of added lines.
    pub insertions: usize,
    /// The number of deleted lines.
    pub deletions: usize,
    /// Set where its lines cannot be shown: a side is not text.
    pub binary: bool,
    /// Set where its lines were not compared because a side is too large.
    pub too_large: bool,
    /// Bytes before; absent where there was nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_before: Option<u64>,
    /// Bytes afterwards; absent where there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_after: Option<u64>,
}

/// A page of the snapshots and branches of a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SnapshotList {
    /// The snapshots, oldest first.
    pub snapshots: Vec<Snapshot>,
    /// The branches that were made from this workspace, in the order of names, after all snapshots. A view of a part of
    /// a workspace shows none.
    pub branches: Vec<Branch>,
    /// The `cursor` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl SnapshotList {
    /// Returns a cursor for each item. Snapshots and branches may have the same names, so the cursor tells them apart.
    fn cursors(&self) -> Vec<String> {
        let snapshots = self.snapshots.iter().map(|one| format!("snapshot:{}", one.label));
        let branches = self.branches.iter().map(|one| format!("branch:{}", one.id));
        snapshots.chain(branches).collect()
    }

    /// Removes the items of the pages that end with `cursor`.
    pub(crate) fn drop_until(&mut self, cursor: &str) -> Result<()> {
        let last = self.cursors().iter().position(|one| one == cursor).ok_or_else(|| {
            Error::invalid("this cursor is not in the list, or no longer").hint("leave out `cursor` to begin again")
        })?;
        let snapshots = self.snapshots.len().min(last + 1);
        self.snapshots.drain(..snapshots);
        self.branches.drain(..last + 1 - snapshots);
        Ok(())
    }

    /// Ends the page after `count` items.
    pub fn shorten(&mut self, count: usize) {
        let cursors = self.cursors();
        if count < cursors.len() {
            self.next_cursor = count.checked_sub(1).map(|last| cursors[last].clone());
            self.branches.truncate(count.saturating_sub(self.snapshots.len()));
            self.snapshots.truncate(count);
        }
    }
}
