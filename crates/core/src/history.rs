//! The contract of a workspace's history: what was changed, by whom, what it was before; and the way back.
//!
//! A [`History`] stands beside a [`Storage`] and speaks of the same files. Whoever keeps the journal implements it: the depot, for files
//! that live there and for the files of other storages. Everything a user sees of it (text diffs, merges, paging, policies) is written
//! once above it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::path::quote;
use crate::time::Timestamp;
use crate::{Content, Directory, EntryKind, EntryPath, Error, Keep, Opened, Origin, Result, Storage, Version, WsPath};

/// The journal, snapshots and branches of one workspace.
///
/// Promises of every implementation: a change is there whole or not at all; a point never moves; nothing here costs what the workspace
/// weighs where the files live in the depot; an undo, a restore or a merge touches all of its paths or none, and never overwrites
/// unseen what others did.
#[async_trait]
pub trait History: Send + Sync + fmt::Debug {
    /// The id of the workspace, unique for ever.
    fn id(&self) -> &str;

    /// The number of its newest change; 0 before the first.
    async fn head(&self) -> Result<u64>;

    /// Its changes, newest first.
    async fn changes(&self, options: ChangesOptions) -> Result<Vec<Change>>;

    /// The change that `point` names, with what each path was before and after it.
    async fn change(&self, point: &Point) -> Result<(Change, Vec<PathChange>)>;

    /// The files at `point`, for reading: a change of it is `denied`. The view stays what it is whatever is changed afterwards.
    async fn at(&self, point: &Point) -> Result<Arc<dyn Storage>>;

    /// The root of the files at `point`, opened for reading: the way to names that no path can spell, which [`Storage::read`] cannot be
    /// asked for.
    async fn directory(&self, point: &Point) -> Result<Box<dyn Directory>>;

    /// Whether it has every file of the state at `point`. Of files that live elsewhere, those that it had not met by then are not in
    /// its views: whoever shows one says so.
    async fn is_complete(&self, point: &Point) -> Result<bool>;

    /// What differs between two points at `path` and below it, in the order of paths. Times do not count as a difference.
    async fn diff(&self, from: &Point, to: &Point, path: &WsPath) -> Result<Vec<PathChange>>;

    /// What was at `path` over time, newest first, at most `limit`: across renames, and from before the fork of a branch. A path that
    /// is gone still has its versions.
    async fn versions(&self, path: &WsPath, limit: usize) -> Result<Vec<PathVersion>>;

    /// Reverses the selected changes as one change. Nothing to reverse is `not_found`.
    async fn undo(&self, selection: Selection, making: Making) -> Result<Reversed>;

    /// Reverses the newest undo, unless new work was done since. Nothing to reverse is `not_found`.
    async fn redo(&self, making: Making) -> Result<Reversed>;

    /// Puts back what was at a path, as one change that can be undone; `None` where nothing differs.
    async fn restore(&self, restore: Restore, making: Making) -> Result<Option<Change>>;

    /// Puts the given things at their paths as one change; `None` where nothing differs. A path that is not what a [`Put`] expects is a
    /// `conflict`, and then nothing is touched.
    async fn put(&self, puts: Puts, making: Making) -> Result<Option<Change>>;

    /// Those of `paths` that other programs touched since the change `change` and the time `at`: the history does not tell what was there
    /// then. None where every change of the files goes through the history.
    async fn touched_since(&self, paths: &[EntryPath], change: u64, at: Timestamp) -> Result<BTreeSet<EntryPath>> {
        let _ = (paths, change, at);
        Ok(BTreeSet::new())
    }

    /// Names a point. A label that is taken is `already_exists`.
    async fn snapshot(&self, label: &str, options: SnapshotOptions) -> Result<Snapshot>;

    /// Its snapshots, oldest first.
    async fn snapshots(&self) -> Result<Vec<Snapshot>>;

    /// What each of its snapshots holds, oldest first. Unlike everything else here, this costs what the whole depot weighs.
    async fn snapshot_sizes(&self) -> Result<Vec<SnapshotSize>>;

    /// Forgets the label; the changes stay as long as retention keeps them.
    async fn delete_snapshot(&self, label: &str) -> Result<()>;

    /// Makes a workspace that begins at `point` of this one. Neither ever disturbs the other. A name that is taken is `already_exists`.
    async fn branch(&self, new: NewBranch, point: &Point) -> Result<Branch>;

    /// The workspaces that begin at a point of this one.
    async fn branches(&self) -> Result<Vec<Branch>>;

    /// Says how much of it is kept when retention runs. Nothing is dropped before that.
    async fn set_keep(&self, keep: &Keep) -> Result<()>;

    /// Hands out the branch `name` (by name or id) of this workspace. What is no branch of it is `not_found`.
    async fn open_branch(&self, name: &str) -> Result<OpenedBranch>;

    /// The history of the branch with this id, for whoever puts something there.
    async fn of_branch(&self, id: &str) -> Result<Arc<dyn History>>;

    /// What a merge of the workspace `other` (by name or id) into this one has to bring together. One that never met this one is
    /// `not_found`, in the same words as one that is not there: who may merge learns nothing of workspaces that are none of his business.
    async fn merging(&self, other: &str) -> Result<Merging>;
}

/// Which changes [`History::changes`] gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangesOptions {
    /// Of its own changes, only those older than this number; what it inherits has numbers of its own, and is not cut.
    pub before: Option<u64>,
    /// The most changes.
    pub limit: usize,
    /// Only those that touched this path or something below it.
    pub path: Option<WsPath>,
    /// Whether the changes of the workspaces that it was branched off follow, up to each fork.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// A unique id; ids sort by time.
    pub id: String,
    /// Its place in the journal of its workspace, from 1.
    pub number: u64,
    /// When it was made.
    pub at: Timestamp,
    /// What sort of change it is.
    pub kind: ChangeKind,
    /// The operation that made it, by the canonical name of its tool; empty where none was named.
    pub operation: String,
    /// What was done, in a few words.
    pub summary: String,
    /// Who did it.
    pub actor: ChangeActor,
    /// The first of the paths that it touched, in order: at most [`Change::SHOWN_PATHS`].
    pub paths: Vec<EntryPath>,
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
    pub const SHOWN_PATHS: usize = 100;
}

/// What sort of change it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// New work.
    Change,
    /// The reversal of other changes.
    Undo,
    /// The reversal of an undo.
    Redo,
    /// Files put back to what they were at a point.
    Restore,
    /// What a branch did, brought in.
    Merge,
    /// What other programs did to the files, found afterwards.
    Outside,
    /// Files that were there already and that the journal met for the first time.
    Capture,
}

impl ChangeKind {
    const ALL: [Self; 7] = [
        Self::Change,
        Self::Undo,
        Self::Redo,
        Self::Restore,
        Self::Merge,
        Self::Outside,
        Self::Capture,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Undo => "undo",
            Self::Redo => "redo",
            Self::Restore => "restore",
            Self::Merge => "merge",
            Self::Outside => "outside",
            Self::Capture => "capture",
        }
    }

    /// Whether it is somebody's work, which a plain undo takes back: neither an undo or redo, nor what other programs did.
    pub const fn is_work(self) -> bool {
        matches!(self, Self::Change | Self::Restore | Self::Merge)
    }

    /// The kind that `word` is for.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// Who made a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ChangeActor {
    /// The agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The run of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The model's call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<String>,
    /// The front door: `api`, `cli`, `mcp`, …; `outside` where another program did it.
    pub door: String,
    /// The command that did it, where one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// What a path was before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathChange {
    /// The path.
    pub path: EntryPath,
    /// What was there; `None` for nothing.
    pub before: Option<Image>,
    /// What is there afterwards; `None` for nothing.
    pub after: Option<Image>,
}

/// What was at a path at some point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Image {
    /// What it was.
    pub kind: EntryKind,
    /// Its permission bits; those of a link mean nothing.
    pub mode: u32,
    /// Bytes of content.
    pub size: u64,
    /// The version of a file's content in its history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Version>,
    /// Where a link points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The address of a file's content in the depot.
    #[serde(skip)]
    pub content: Option<ContentAddress>,
}

/// The BLAKE3 of some content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentAddress(pub [u8; 32]);

/// What a file was after a change that touched it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathVersion {
    /// The change that made it so.
    pub change: Change,
    /// What the path was called then.
    pub path: EntryPath,
    /// What was there.
    pub image: Image,
}

/// A point in the history of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Point {
    /// The newest state.
    Now,
    /// Just after the change with this id. A branch also knows the changes of its lineage up to its fork.
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

    /// Whether it is the newest state, however it is written.
    pub fn is_now(&self) -> bool {
        match self {
            Self::Now => true,
            Self::Named(text) => text == Self::NOW,
            _ => false,
        }
    }

    /// The point that a text means; without one, or by the word [`Point::NOW`], the newest state.
    pub fn or_now(text: Option<&str>) -> Self {
        match text {
            None | Some(Self::NOW) => Self::Now,
            Some(text) => Self::Named(text.to_owned()),
        }
    }
}

/// How many sessions an error names.
const SHOWN_SESSIONS: usize = 10;

/// Which changes to reverse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// The newest so many that are neither undos or redos nor already undone.
    Last(usize),
    /// The change with this id or number, wherever it stands; later changes to other paths stay. One that is undone already is `invalid`.
    Change(String),
    /// The changes with these ids or numbers.
    Changes(Vec<String>),
    /// Everything that one session did and that is not already undone.
    Session(String),
    /// Everything that one tool call did and that is not already undone.
    ToolCall {
        /// The id of the call.
        call: String,
        /// Its session. Without one, a call that more than one session made is `invalid`, and the error names them.
        session: Option<String>,
    },
}

impl Selection {
    /// Refuses a tool call that several sessions made: whoever undoes one of them does not mean the work of the others.
    pub fn check_one_session(call: &str, sessions: &BTreeSet<Option<String>>) -> Result<()> {
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

/// What to put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restore {
    /// `path`, and everything below it, as it was at a point; the root for the whole workspace.
    Point {
        /// The point.
        point: Point,
        /// The path.
        path: WsPath,
    },
    /// The file at `path` as one of [`History::versions`] has it, whatever it was called then.
    Version {
        /// The path.
        path: WsPath,
        /// The version, or the id of the change that made it.
        version: String,
    },
}

/// Looks at what a change is about to do and may refuse it; called once, before anything is touched.
pub type Review = Arc<dyn Fn(&[PathChange]) -> Result<()> + Send + Sync>;

/// Who makes a change, and what it must not do.
#[derive(Clone, Default)]
pub struct Making {
    /// Where the change comes from.
    pub origin: Origin,
    /// What may refuse it.
    pub review: Option<Review>,
}

impl From<Origin> for Making {
    fn from(origin: Origin) -> Self {
        Self { origin, review: None }
    }
}

impl fmt::Debug for Making {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Making");
        shown.field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// What became of an undo or redo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reversed {
    /// It was done, by this change.
    Done(Box<Change>),
    /// Some paths are no longer what the changes left; nothing was touched.
    Clashed(Vec<Clash>),
}

/// A path that keeps changes from being reversed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clash {
    /// The path.
    pub path: EntryPath,
    /// Why.
    pub reason: ClashReason,
    /// What the change left there.
    pub left: Option<Image>,
    /// What is there now.
    pub found: Option<Image>,
}

/// Why a path clashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClashReason {
    /// It was changed since.
    Changed,
    /// It came to be in a directory that would go.
    WouldLoseItsDirectory,
    /// The directory above it is gone.
    DirectoryIsGone,
}

/// Things to put at paths, as one change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Puts {
    /// What goes where. A directory above what is put must be there or be among them.
    pub puts: Vec<Put>,
    /// What moved from where to where, so that the history of a file can be followed.
    pub moves: Vec<(EntryPath, EntryPath)>,
    /// The point of another workspace that is merged by it.
    pub merged: Option<MergePoint>,
}

/// One thing to put at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// The path.
    pub path: EntryPath,
    /// What must be there now.
    pub expected: Expected,
    /// What will be there.
    pub placed: Placed,
}

/// What must hold of a path for a [`Put`] to touch it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// This is there; `None` for nothing.
    Is(Option<Image>),
    /// Nothing happened to it since: what is put was worked out from the files as they were then.
    UnchangedSince {
        /// The newest change then.
        change: u64,
        /// The time then, for files that other programs change too: what the storage dates at that time or later was changed since.
        at: Timestamp,
    },
}

/// What a [`Put`] puts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// Nothing: what is there goes.
    Nothing,
    /// What was somewhere at some point of the same depot.
    Image(Image),
    /// A file with new content.
    File {
        /// The content.
        content: Content,
        /// The permission bits.
        mode: u32,
    },
    /// A directory. One that is there keeps what is in it.
    Directory {
        /// The permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// Where it points, as written.
        target: String,
    },
}

/// How to take a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotOptions {
    /// What to name.
    pub point: Point,
    /// Whether files that the depot has not met are left out, so that it takes constant time on every storage. A restore then names each
    /// path that was never captured.
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

/// A named point. It never moves, and retention never takes what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Its label, unique in the workspace.
    pub label: String,
    /// The id of the workspace whose change it names: this one, or one that this was branched off.
    pub workspace: String,
    /// The number of the change after which it was taken.
    pub change: u64,
    /// When it was taken.
    pub at: Timestamp,
    /// Whether it holds only what the depot had met.
    pub lazy: bool,
}

/// What a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SnapshotSize {
    /// Its label.
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
    /// The configuration that is kept for whoever opens it; that of the workspace it is branched off where none is given.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Branch {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Option<String>,
    /// The number of the change of the other workspace after which it begins.
    pub fork: u64,
    /// How many changes were made in it.
    pub changes: u64,
    /// When it was made.
    pub created: Timestamp,
    /// Set where not every file of that point was captured: it began without the others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

/// A branch that was handed out.
#[derive(Debug, Clone)]
pub struct OpenedBranch {
    /// What it is.
    pub branch: Branch,
    /// Where its files live: the kind of storage.
    pub kind: String,
    /// The configuration that was kept for it.
    pub config: serde_json::Value,
    /// Its files and their history, where they end with those of the workspace it was branched off; `None` where they outlive them, so
    /// that whoever has the home opens it there.
    pub opened: Option<Opened>,
}

/// What a merge has to bring together.
#[derive(Debug, Clone)]
pub struct Merging {
    /// The files as both sides last had them in common.
    pub base: Arc<dyn Storage>,
    /// What this workspace did since.
    pub ours: Side,
    /// What the other did since.
    pub theirs: Side,
    /// The point of the other that is merged.
    pub point: MergePoint,
}

/// One side of a merge.
#[derive(Debug, Clone)]
pub struct Side {
    /// The name of the workspace, or its id.
    pub name: String,
    /// Its files now.
    pub files: Arc<dyn Storage>,
    /// What it changed since the base, in the order of paths.
    pub changes: Vec<PathChange>,
    /// What it moved since the base, in the order in which it did.
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
