//! The contract of a workspace's history: its changes, their authors, the states before them, and the way back.
//!
//! A [`History`] belongs to a [`Storage`] and describes the same files. The keeper of the journal implements it: the
//! depot, for files that live there and for the files of other storages. Everything that a user sees of it (text diffs,
//! merges, paging, policies) is written once, above it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use crate::path::quote;
use crate::time::Timestamp;
use crate::{
    Actor, Content, DirectoryHandle, EntryKind, EntryPath, Error, ErrorKind, OpenedStorage, Origin, Result,
    RetentionLimits, Storage, Version, WsPath,
};

/// The journal, snapshots and branches of one workspace.
///
/// Promises of every implementation: a change is there whole or not at all; a point never moves; for files that live in
/// the depot, no call costs in proportion to the size of the workspace; an undo, a restore or a merge touches all of
/// its paths or none, and never overwrites changes of others that it has not seen.
#[async_trait]
pub trait History: Send + Sync + fmt::Debug {
    /// Returns the id of the workspace, unique for ever.
    fn id(&self) -> &str;

    /// Returns the number of the newest change; 0 before the first.
    async fn head(&self) -> Result<u64>;

    /// Returns the changes, newest first.
    async fn changes(&self, options: ChangesOptions) -> Result<Vec<Change>>;

    /// Returns the change that `point` names, with the state of each path before and after it.
    async fn change(&self, point: &Point) -> Result<(Change, Vec<PathChange>)>;

    /// Opens the files at `point` for reading: a mutation is `denied`. The view stays the same, whatever is changed
    /// afterwards.
    async fn open_view(&self, point: &Point) -> Result<Arc<dyn Storage>>;

    /// Opens the root directory of the files at `point` for reading. It gives access to names that no path can spell,
    /// and that [`Storage::read`] therefore cannot take.
    async fn open_root_directory(&self, point: &Point) -> Result<Box<dyn DirectoryHandle>>;

    /// Returns whether the history has every file of the state at `point`. A view of files that live elsewhere lacks
    /// those that the history had not captured by then, and anything that shows such a view must say so.
    async fn is_complete(&self, point: &Point) -> Result<bool>;

    /// Returns the differences between two points at `path` and below it, in the order of paths. Times do not count as
    /// a difference.
    async fn diff(&self, from: &Point, to: &Point, path: &WsPath) -> Result<Vec<PathChange>>;

    /// Returns the versions of `path`, newest first, at most `limit`: across renames, and from before the fork of a
    /// branch. A path that was removed still has its versions.
    async fn versions(&self, path: &WsPath, limit: usize) -> Result<Vec<PathVersion>>;

    /// Plans an undo, a redo or a restore, and changes nothing. Nothing to reverse is `not_found`.
    async fn plan(&self, operation: &HistoryOperation) -> Result<ChangePlan>;

    /// Returns the state of each path that `puts` would change, before and after it, and changes nothing. A path whose
    /// state is not the one that its [`PathPut`] expects is a `conflict`. The image of a file with new content may lack
    /// its version and its address.
    async fn plan_put(&self, puts: &PutBatch) -> Result<Vec<PathChange>>;

    /// Puts the given entries at their paths as one change; `None` if nothing differs. A path whose state is not the
    /// one that its [`PathPut`] expects is a `conflict`, and then nothing is touched. Every operation of the history
    /// is committed by this function.
    async fn put(&self, puts: PutBatch, origin: Origin) -> Result<Option<Change>>;

    /// Plans `operation` and commits the plan, without a review. Returns the change, `None` if nothing differs, or the
    /// clashes. A path that others changed in between is a `conflict`.
    async fn commit_operation(
        &self,
        operation: &HistoryOperation,
        origin: Origin,
    ) -> Result<Result<Option<Change>, Vec<PathClash>>> {
        let plan = self.plan(operation).await?;
        if !plan.clashes.is_empty() {
            return Ok(Err(plan.clashes));
        }
        self.put(plan.puts, origin).await.map(Ok)
    }

    /// Reverses the selected changes as one change, without a review. Nothing to reverse is `not_found`.
    async fn undo(&self, selection: UndoSelection, origin: Origin) -> Result<ReversalOutcome> {
        let done = self
            .commit_operation(&HistoryOperation::Undo(selection), origin)
            .await?;
        ReversalOutcome::from_commit(done)
    }

    /// Reverses the newest undo, unless new work was done since, without a review. Nothing to reverse is `not_found`.
    async fn redo(&self, origin: Origin) -> Result<ReversalOutcome> {
        let done = self.commit_operation(&HistoryOperation::Redo, origin).await?;
        ReversalOutcome::from_commit(done)
    }

    /// Puts the earlier state of a path back, as one change that can be undone, without a review; `None` if nothing
    /// differs.
    async fn restore(&self, restore: RestoreTarget, origin: Origin) -> Result<Option<Change>> {
        let done = self
            .commit_operation(&HistoryOperation::Restore(restore), origin)
            .await?;
        Ok(done.unwrap_or_default())
    }

    /// Returns those of `paths` that other programs touched since the change `change` and the time `at`: the history
    /// does not know their state at that time. Empty if every change of the files goes through the history.
    async fn touched_since(&self, paths: &[EntryPath], change: u64, at: Timestamp) -> Result<BTreeSet<EntryPath>>;

    /// Names a point. A label that is taken is `already_exists`.
    async fn snapshot(&self, label: &str, options: SnapshotOptions) -> Result<Snapshot>;

    /// Returns the snapshots, oldest first.
    async fn snapshots(&self) -> Result<Vec<Snapshot>>;

    /// Returns the size of each snapshot, oldest first. Unlike all other calls, this one costs in proportion to the
    /// whole depot.
    async fn snapshot_sizes(&self) -> Result<Vec<SnapshotSize>>;

    /// Forgets the label; the changes stay as long as retention keeps them.
    async fn delete_snapshot(&self, label: &str) -> Result<()>;

    /// Makes a workspace that begins at `point` of this one. Changes in one never affect the other. A name that is
    /// taken is `already_exists`.
    async fn branch(&self, new: NewBranch, point: &Point) -> Result<Branch>;

    /// Returns the workspaces that begin at a point of this one.
    async fn branches(&self) -> Result<Vec<Branch>>;

    /// Sets how much of the history is kept when retention runs. Nothing is dropped before that.
    async fn set_retention(&self, keep: &RetentionLimits) -> Result<()>;

    /// Opens the branch `name` (by name or id) of this workspace. A name of no branch of this workspace is `not_found`.
    async fn open_branch(&self, name: &str) -> Result<OpenedBranch>;

    /// Returns the history of the branch with this id, for writing to the branch.
    async fn branch_history(&self, id: &str) -> Result<Arc<dyn History>>;

    /// Returns the input of a merge of the workspace `other` (by name or id) into this one. A workspace that shares no
    /// origin with this one is `not_found`, in the same words as one that does not exist: the permission to merge
    /// reveals nothing about unrelated workspaces.
    async fn merge_input(&self, other: &str) -> Result<MergeInput>;
}

/// The selection of changes for [`History::changes`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangesOptions {
    /// Only own changes older than this number; inherited changes have numbers of another workspace, and are not cut.
    pub before: Option<u64>,
    /// The most changes.
    pub limit: usize,
    /// Only changes that touched this path or something below it.
    pub path: Option<WsPath>,
    /// Whether the changes of the workspaces that this one was branched off follow, up to each fork.
    pub inherited: bool,
}

impl Default for ChangesOptions {
    fn default() -> Self {
        Self {
            before: None,
            limit: 100,
            path: None,
            inherited: false,
        }
    }
}

/// One atomic, attributed, reversible mutation of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Change {
    /// A unique id; ids sort by time.
    #[serde(rename = "change")]
    pub id: String,
    /// Its position in the journal of its workspace, from 1.
    pub number: u64,
    /// When it was made, in RFC 3339.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The operation that made it, by the canonical name of its tool; empty if none was named.
    pub operation: String,
    /// A description of the change, in a few words.
    pub summary: String,
    /// The author of the change.
    pub actor: Actor,
    /// The first of the paths that it touched, in order, each after `+` (created), `~` (changed) or `-` (deleted).
    pub paths: Vec<ChangedPath>,
    /// How many paths it touched.
    pub path_count: u64,
    /// The numbers of the changes that it reverses, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reverses: Vec<u64>,
    /// The number of the change that currently reverses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_by: Option<u64>,
}

impl Change {
    /// The most paths that a change lists; [`History::change`] gives all of them.
    pub const SHOWN_PATHS: usize = 20;
}

/// The change that an operation made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangeMade {
    /// Its id.
    #[serde(rename = "change")]
    pub id: String,
    /// Its number in the journal, if it is known already: changes of files outside the depot get it later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
}

impl fmt::Display for ChangeMade {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Some(number) => number.fmt(formatter),
            None => self.id.fmt(formatter),
        }
    }
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// New work.
    #[default]
    Change,
    /// The reversal of other changes.
    Undo,
    /// The reversal of an undo.
    Redo,
    /// Files put back to what they were at a point.
    Restore,
    /// The changes of a branch, brought in.
    Merge,
    /// Changes that other programs made to the files, found afterwards.
    Outside,
    /// Files that were there already and that the journal met for the first time.
    Capture,
    /// Changes that a command or code made to derived files and to nothing else.
    Derived,
}

impl ChangeKind {
    const ALL: [Self; 8] = [
        Self::Change,
        Self::Undo,
        Self::Redo,
        Self::Restore,
        Self::Merge,
        Self::Outside,
        Self::Capture,
        Self::Derived,
    ];

    /// Returns the word for the kind.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Undo => "undo",
            Self::Redo => "redo",
            Self::Restore => "restore",
            Self::Merge => "merge",
            Self::Outside => "outside",
            Self::Capture => "capture",
            Self::Derived => "derived",
        }
    }

    /// Returns whether the change is new work, which a plain undo takes back: neither an undo or redo, nor a change of
    /// derived files or by other programs.
    pub const fn is_new_work(self) -> bool {
        matches!(self, Self::Change | Self::Restore | Self::Merge)
    }

    /// Returns whether an undo of a session or a tool call takes the change back: new work, and derived files.
    pub const fn is_own_work(self) -> bool {
        self.is_new_work() || matches!(self, Self::Derived)
    }

    /// Returns the kind whose word is `word`.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// A path that a change touched, with its effect on the path: `+ a.txt` (created), `~ a.txt` (changed) or `- a.txt`
/// (deleted).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedPath {
    /// `+`, `~` or `-`.
    pub mark: char,
    /// The path.
    pub path: EntryPath,
}

impl fmt::Display for ChangedPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.mark, self.path.display_path())
    }
}

impl Serialize for ChangedPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for ChangedPath {
    fn schema_name() -> Cow<'static, str> {
        "ChangedPath".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}

/// The state of a path before and after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathChange {
    /// The path.
    #[schemars(with = "String")]
    pub path: EntryPath,
    /// The entry before the change; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<PathImage>,
    /// The entry after the change; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<PathImage>,
}

impl PathChange {
    /// Returns the path with the mark of the effect on it.
    pub fn to_changed_path(&self) -> ChangedPath {
        let mark = match (&self.before, &self.after) {
            (None, _) => '+',
            (_, None) => '-',
            _ => '~',
        };
        ChangedPath {
            mark,
            path: self.path.clone(),
        }
    }
}

/// The entry that was at a path at some point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathImage {
    /// The type of the entry.
    #[serde(rename = "type")]
    pub kind: EntryKind,
    /// Its permission bits, in octal digits; those of a link have no meaning.
    #[serde(serialize_with = "as_octal")]
    #[schemars(with = "String")]
    pub mode: u32,
    /// Bytes of content.
    pub size: u64,
    /// The version of a file's content in its history.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub version: Option<Version>,
    /// The target of a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The address of a file's content in the depot.
    #[serde(skip)]
    pub content: Option<ContentAddress>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn as_octal<S: serde::Serializer>(mode: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{mode:04o}"))
}

/// The BLAKE3 hash of some content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentAddress(pub [u8; 32]);

/// The state of a file after a change that touched it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathVersion {
    /// The change that gave the file this state.
    pub change: Change,
    /// The path of the file at that time.
    pub path: EntryPath,
    /// The entry at the path.
    pub image: PathImage,
}

/// A point in the history of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Point {
    /// The newest state.
    Now,
    /// Just after the change with this id. A branch also knows the changes of the workspaces that it comes from, up to
    /// its fork.
    Change(String),
    /// Just after the change with this number; 0 is the beginning.
    Number(u64),
    /// The snapshot with this label.
    Snapshot(String),
    /// The state at a time.
    Time(Timestamp),
    /// Whatever the text names: a snapshot, a change by id or number, or a time, looked for in this order.
    Named(String),
}

impl Point {
    /// The word for the newest state. No snapshot can have it as its label.
    pub const NOW: &'static str = "now";

    /// Returns whether the point is the newest state, in whichever form it is written.
    pub fn is_now(&self) -> bool {
        match self {
            Self::Now => true,
            Self::Named(text) => text == Self::NOW,
            _ => false,
        }
    }

    /// Returns the point that a text names; the newest state without a text, or for the word [`Point::NOW`].
    pub fn parse_or_now(text: Option<&str>) -> Self {
        match text {
            None | Some(Self::NOW) => Self::Now,
            Some(text) => Self::Named(text.to_owned()),
        }
    }
}

/// The most sessions that an error names.
const SHOWN_SESSIONS: usize = 10;

/// The most numbers of changes that an error names.
const SHOWN_NUMBERS: usize = 10;

/// The changes to reverse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoSelection {
    /// The newest changes, this many, that are neither undos or redos nor already undone. Changes of derived files are
    /// stepped over.
    Last(usize),
    /// The change with this id or number, at any position in the journal; later changes to other paths stay. A change
    /// that is already undone is `invalid`.
    Change(String),
    /// Changes that the caller chose.
    Changes {
        /// Their ids or numbers.
        chosen: Vec<String>,
        /// The ids or numbers of changes of derived files that were stepped over to find them. They are reversed too if
        /// the chosen ones cannot be reversed without them.
        stepped_over: Vec<String>,
    },
    /// All changes of one session that are not already undone.
    Session(String),
    /// All changes of one tool call that are not already undone.
    ToolCall {
        /// The id of the call.
        call: String,
        /// Its session. Without one, a call id that more than one session used is `invalid`, and the error names the
        /// sessions.
        session: Option<String>,
    },
}

impl UndoSelection {
    /// Returns the error for a journal in which only changes of derived files, of the given numbers, are left to undo.
    pub fn only_derived_error(numbers: &[u64]) -> Error {
        let shown: Vec<_> = numbers.iter().take(SHOWN_NUMBERS).map(u64::to_string).collect();
        let more = match numbers.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "only changes of derived files are left to undo: {}{more}",
            shown.join(", ")
        );
        Error::new(ErrorKind::NotFound, message).hint("undo one of them by its number")
    }

    /// Refuses a tool call id that several sessions used.
    pub fn check_one_session(call: &str, sessions: &BTreeSet<Option<String>>) -> Result<()> {
        // A caller who undoes the call of one session does not mean the work of the others.
        if sessions.len() <= 1 {
            return Ok(());
        }
        let named = |session: &Option<String>| session.as_deref().map_or("none".to_owned(), quote);
        let shown: Vec<String> = sessions.iter().take(SHOWN_SESSIONS).map(named).collect();
        let more = match sessions.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Err(Error::invalid(format!(
            "several sessions made a tool call {}: {}{more}",
            quote(call),
            shown.join(", ")
        ))
        .hint("name the session of the call too, or undo single changes"))
    }
}

/// The state to restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreTarget {
    /// The state of `path`, and of everything below it, at a point; the root for the whole workspace.
    Point {
        /// The point.
        point: Point,
        /// The path.
        path: WsPath,
    },
    /// The file at `path` as one of [`History::versions`] has it, whichever path it had then.
    Version {
        /// The path.
        path: WsPath,
        /// The version, or the id of the change that made it.
        version: String,
    },
}

/// An operation of the history, which is planned first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryOperation {
    /// Reverses the selected changes.
    Undo(UndoSelection),
    /// Reverses the newest undo, unless new work was done since.
    Redo,
    /// Puts an earlier state back.
    Restore(RestoreTarget),
}

/// The plan of a [`HistoryOperation`]: everything that it would do, as data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangePlan {
    /// The entries to put. Each expects the state that its path has in the plan, so that [`History::put`] refuses the
    /// plan if others changed the path since.
    pub puts: PutBatch,
    /// The state of each path before and after.
    pub paths: Vec<PathChange>,
    /// The paths that make the operation impossible; then there is nothing to put.
    pub clashes: Vec<PathClash>,
    /// Excluded paths that stay as they are, although the history recorded them before they were excluded.
    pub left_alone: Vec<EntryPath>,
    /// The numbers of the changes of derived files that an undo of the newest changes steps over, newest first.
    pub stepped_over: Vec<u64>,
}

/// The outcome of an undo or redo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReversalOutcome {
    /// The changes were reversed, by this change.
    Done(Box<Change>),
    /// Some paths are no longer in the state that the changes left them in; nothing was touched.
    Clashed(Vec<PathClash>),
}

impl ReversalOutcome {
    fn from_commit(done: Result<Option<Change>, Vec<PathClash>>) -> Result<Self> {
        match done {
            Ok(Some(change)) => Ok(Self::Done(Box::new(change))),
            Ok(None) => Err(Error::new(ErrorKind::NotFound, "there is no change to undo or redo")),
            Err(clashes) => Ok(Self::Clashed(clashes)),
        }
    }
}

/// A path that prevents changes from being reversed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathClash {
    /// The path.
    pub path: EntryPath,
    /// The reason.
    pub reason: ClashReason,
    /// The entry that the change left there.
    pub left: Option<PathImage>,
    /// The entry that is there now.
    pub found: Option<PathImage>,
}

/// The reason why a path prevents a reversal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClashReason {
    /// The path was changed since.
    Changed,
    /// The path was created since, in a directory that the reversal would remove.
    WouldLoseItsDirectory,
    /// The directory above the path was removed.
    DirectoryIsGone,
}

/// Entries to put at paths, as one change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PutBatch {
    /// The entries with their paths. The directory above each entry must exist or be among them.
    pub puts: Vec<PathPut>,
    /// Paths that moved, each as its old and new path, so that the history of a file can be followed.
    pub moves: Vec<(EntryPath, EntryPath)>,
    /// The point of another workspace that this change merges.
    pub merged: Option<MergePoint>,
    /// The kind of the change; a batch that merges is always a [`ChangeKind::Merge`].
    pub kind: ChangeKind,
    /// The numbers of the changes that this change reverses, newest first. One that is undone already is a `conflict`.
    pub reverses: Vec<u64>,
    /// The summary of the change, if its origin has none.
    pub summary: String,
}

/// One entry to put at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPut {
    /// The path.
    pub path: EntryPath,
    /// The state that the path must have now.
    pub expected: PathExpectation,
    /// The entry that the path will have.
    pub placed: PlacedEntry,
}

/// The state that a path must have for a [`PathPut`] to touch it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathExpectation {
    /// This entry is there; `None` for nothing.
    Is(Option<PathImage>),
    /// The path is unchanged since a point: the new entry was computed from the files at that point.
    UnchangedSince {
        /// The newest change at that point.
        change: u64,
        /// The time of that point, for files that other programs change too: an entry that the storage dates at that
        /// time or later was changed since.
        at: Timestamp,
    },
}

/// The entry that a [`PathPut`] puts at its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlacedEntry {
    /// Nothing: the present entry is removed.
    Nothing,
    /// An entry that some path of the same depot had at some point.
    Image(PathImage),
    /// A file with new content.
    File {
        /// The content.
        content: Content,
        /// The permission bits.
        mode: u32,
    },
    /// A directory. One that is already there keeps its entries.
    Directory {
        /// The permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// The target, as written.
        target: String,
    },
}

impl PlacedEntry {
    /// Returns the image of the entry; `None` for a removal. The image of new content has neither version nor address.
    pub fn image(&self) -> Option<PathImage> {
        let bare = |kind, mode, size| PathImage {
            kind,
            mode,
            size,
            version: None,
            target: None,
            content: None,
        };
        match self {
            Self::Nothing => None,
            Self::Image(image) => Some(image.clone()),
            Self::File { content, mode } => Some(bare(EntryKind::File, *mode, content.len())),
            Self::Directory { mode } => Some(bare(EntryKind::Directory, *mode, 0)),
            Self::Symlink { target } => Some(PathImage {
                target: Some(target.clone()),
                ..bare(EntryKind::Symlink, 0o777, target.len() as u64)
            }),
        }
    }
}

/// The options of [`History::snapshot`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotOptions {
    /// The point to name.
    pub point: Point,
    /// Whether files that the depot has not captured are left out, so that the snapshot takes constant time on every
    /// storage. A restore then names each path that was never captured.
    pub is_lazy: bool,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self {
            point: Point::Now,
            is_lazy: false,
        }
    }
}

/// A named point. It never moves, and retention never deletes its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Snapshot {
    /// Its label, unique in the workspace.
    pub label: String,
    /// The number of the change after which it was taken.
    pub number: u64,
    /// The id of the workspace that has this change: this one, or one that it was branched from.
    pub workspace: String,
    /// When it was taken, in RFC 3339.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// Whether it has only the files that the history had captured.
    pub lazy: bool,
    /// The size of its content, if it was requested; [`History::snapshot_sizes`] measures it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<SnapshotSize>,
}

/// The size of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SnapshotSize {
    /// Its label.
    #[serde(skip)]
    pub label: String,
    /// The number of files in it.
    pub files: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// Stored bytes that nothing else refers to: deleting it would free them. 0 while the history around it is kept.
    pub alone_bytes: u64,
}

/// A branch to make.
#[derive(Debug, Clone, PartialEq)]
pub struct NewBranch {
    /// Its name.
    pub name: String,
    /// The configuration that is stored for opening the branch; the one of the parent workspace if none is given.
    pub config: Option<serde_json::Value>,
}

impl From<&str> for NewBranch {
    fn from(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            config: None,
        }
    }
}

/// A workspace that begins at a point of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Branch {
    /// The id of the workspace that it is.
    pub id: String,
    /// Its name, by which it is opened.
    pub name: Option<String>,
    /// The number of the change of the other workspace after which it begins.
    pub fork: u64,
    /// The number of changes that were made in it.
    pub change_count: u64,
    /// When it was made, in RFC 3339.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// Set if not every file of that point was captured: the branch began without the others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

/// A branch that was opened.
#[derive(Debug, Clone)]
pub struct OpenedBranch {
    /// The description of the branch.
    pub branch: Branch,
    /// The kind of the storage of its files.
    pub kind: String,
    /// The configuration that was stored for it.
    pub config: serde_json::Value,
    /// Its files and their history, if they end with those of the parent workspace; `None` if they outlive them, and
    /// the branch is to be opened from the home.
    pub opened: Option<OpenedStorage>,
}

/// The input of a merge: the common base and both sides.
#[derive(Debug, Clone)]
pub struct MergeInput {
    /// The files of the last state that both sides have in common.
    pub base: Arc<dyn Storage>,
    /// The side of this workspace.
    pub ours: MergeSide,
    /// The side of the other workspace.
    pub theirs: MergeSide,
    /// The point of the other workspace that is merged.
    pub point: MergePoint,
}

/// One side of a merge.
#[derive(Debug, Clone)]
pub struct MergeSide {
    /// The name of the workspace, or its id.
    pub name: String,
    /// Its files now.
    pub files: Arc<dyn Storage>,
    /// The differences between the base and this side, in the order of paths.
    pub changes: Vec<PathChange>,
    /// The moves on this side since the base, in the order in which they were made.
    pub moves: Vec<(EntryPath, EntryPath)>,
}

/// A point of another workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MergePoint {
    /// The id of the workspace.
    pub workspace: String,
    /// The number of its change.
    pub change: u64,
}

/// How long the history of a workspace is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryMode {
    /// From one opening to the next.
    Durable,
    /// As long as the workspace is open.
    Session,
    /// Not at all.
    Off,
}
