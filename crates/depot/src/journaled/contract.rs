//! Implements `History` for files that live outside the depot. The log enters the journal first, the files are compared
//! if the request depends on changes by other programs, and the depot does the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{
    Branch, Change, ChangesOptions, Directory, EntryPath, Error, ErrorKind, History, Keep, Making, Merging, NewBranch,
    OpenedBranch, PathChange, PathVersion, Placed, Point, Put, Puts, Restore, Result, Reversed, Selection, Snapshot,
    SnapshotOptions, SnapshotSize, Storage, Timestamp, WsPath,
};

use super::Journaled;
use super::log;
use super::operate::Outcome;
use super::record::Operation;
use super::touched::Since;
use super::view::PastView;
use crate::depot::NewWorkspace;
use crate::history::shown;
use crate::workspace::DepotWorkspace;

impl Journaled {
    /// Returns the journal after the log has entered it; `None` if nothing was ever recorded.
    async fn drained(&self) -> Result<Option<&DepotWorkspace>> {
        let Some(room) = self.known_room().await? else {
            return Ok(None);
        };
        if self.gate.files().is_some_and(log::is_there) {
            self.turn().await?.drain().await?;
        }
        Ok(Some(room))
    }

    /// Returns the journal after the log has entered it; `not_found` if nothing was ever recorded.
    async fn required(&self) -> Result<&DepotWorkspace> {
        self.drained().await?.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "there is no history yet: no change was recorded")
                .hint("a history begins with the first change, or with a snapshot")
        })
    }

    /// Returns the journal after a scan of all files at `path` and below.
    async fn looked_at(&self, path: &WsPath) -> Result<&DepotWorkspace> {
        self.turn().await?.look_everywhere(path).await?;
        self.room().await
    }

    async fn operate(&self, operation: Operation, making: Making) -> Result<Outcome> {
        self.required().await?;
        self.turn().await?.operate(operation, making).await
    }

    async fn reverse(&self, operation: Operation, making: Making) -> Result<Reversed> {
        match self.operate(operation, making).await? {
            Outcome::Done(Some(change)) => Ok(Reversed::Done(change)),
            Outcome::Done(None) => Err(Error::new(ErrorKind::NotFound, "there is no change to undo or redo")),
            Outcome::Clashed(clashes) => Ok(Reversed::Clashed(clashes)),
        }
    }
}

/// Returns the files among the puts that have several names (hard links), each with the path that identifies the file.
/// Content that is already in the depot carries no such path.
fn names_in(puts: &Puts) -> BTreeMap<WsPath, WsPath> {
    let name = |put: &Put| match (&put.placed, put.path.as_path()) {
        (Placed::File { content, .. }, Some(path)) => Some((path.clone(), content.other_name()?.clone())),
        _ => None,
    };
    puts.puts.iter().filter_map(name).collect()
}

/// Returns the change of an operation that cannot clash.
fn done(outcome: Outcome) -> Result<Option<Change>> {
    match outcome {
        Outcome::Done(change) => Ok(change.map(|change| *change)),
        Outcome::Clashed(_) => Err(Error::new(ErrorKind::Internal, "only a reversal can clash")),
    }
}

#[async_trait]
impl History for Journaled {
    fn id(&self) -> &str {
        self.room.get().map_or(self.future_id.as_str(), |room| room.id())
    }

    async fn head(&self) -> Result<u64> {
        match self.drained().await? {
            Some(room) => History::head(room).await,
            None => Ok(0),
        }
    }

    async fn changes(&self, options: ChangesOptions) -> Result<Vec<Change>> {
        match self.drained().await? {
            Some(room) => History::changes(room, options).await,
            None => Ok(Vec::new()),
        }
    }

    async fn change(&self, point: &Point) -> Result<(Change, Vec<PathChange>)> {
        self.required().await?.change(point).await
    }

    async fn at(&self, point: &Point) -> Result<Arc<dyn Storage>> {
        let room = if point.is_now() {
            // The view includes files that the journal has not recorded yet, so a scan comes first.
            self.looked_at(&WsPath::root()).await?
        } else {
            self.required().await?
        };
        let level = room.shared().database.read(|session| room.level_of(session, point))?;
        Ok(Arc::new(PastView {
            view: room.view(level),
            files: self.files.clone(),
            room: room.clone(),
            level,
        }))
    }

    async fn directory(&self, point: &Point) -> Result<Box<dyn Directory>> {
        let room = if point.is_now() {
            self.looked_at(&WsPath::root()).await?
        } else {
            self.required().await?
        };
        History::directory(room, point).await
    }

    async fn is_complete(&self, point: &Point) -> Result<bool> {
        History::is_complete(self.required().await?, point).await
    }

    async fn diff(&self, from: &Point, to: &Point, path: &WsPath) -> Result<Vec<PathChange>> {
        let mut room = self.required().await?;
        if from.is_now() || to.is_now() {
            room = self.looked_at(path).await?;
        }
        room.diff(from, to, path).await
    }

    async fn versions(&self, path: &WsPath, limit: usize) -> Result<Vec<PathVersion>> {
        match self.drained().await? {
            Some(room) => room.versions(path, limit).await,
            None => Ok(Vec::new()),
        }
    }

    async fn undo(&self, selection: Selection, making: Making) -> Result<Reversed> {
        self.reverse(Operation::Undo(selection), making).await
    }

    async fn redo(&self, making: Making) -> Result<Reversed> {
        self.reverse(Operation::Redo, making).await
    }

    async fn restore(&self, restore: Restore, making: Making) -> Result<Option<Change>> {
        done(self.operate(Operation::Restore(restore), making).await?)
    }

    async fn put(&self, puts: Puts, making: Making) -> Result<Option<Change>> {
        // The plan runs in a transaction that is rolled back, which would drop content that is only in its record. So
        // content enters the depot first, and hard links are noted before that, because content in the depot does not
        // carry them.
        let names = names_in(&puts);
        let puts = self.room().await?.held(puts).await?;
        self.required().await?;
        let mut turn = self.turn().await?;
        turn.names = names;
        done(turn.operate(Operation::Put(puts), making).await?)
    }

    async fn touched_since(&self, paths: &[EntryPath], change: u64, at: Timestamp) -> Result<BTreeSet<EntryPath>> {
        let mut turn = self.turn().await?;
        turn.drain().await?;
        turn.touched_since(paths, Since { change, at }).await
    }

    async fn snapshot(&self, label: &str, options: SnapshotOptions) -> Result<Snapshot> {
        let is_past = !options.point.is_now();
        let room = if options.is_lazy || is_past {
            self.room().await?;
            self.required().await?
        } else {
            self.looked_at(&WsPath::root()).await?
        };
        room.take_snapshot(label, options).await
    }

    async fn snapshots(&self) -> Result<Vec<Snapshot>> {
        match self.known_room().await? {
            Some(room) => room.snapshots().await,
            None => Ok(Vec::new()),
        }
    }

    async fn snapshot_sizes(&self) -> Result<Vec<SnapshotSize>> {
        match self.drained().await? {
            Some(room) => room.snapshot_sizes().await,
            None => Ok(Vec::new()),
        }
    }

    async fn delete_snapshot(&self, label: &str) -> Result<()> {
        self.required().await?.delete_snapshot(label).await
    }

    async fn branch(&self, new: NewBranch, point: &Point) -> Result<Branch> {
        let room = if point.is_now() {
            self.looked_at(&WsPath::root()).await?
        } else {
            self.required().await?
        };
        let bare = NewWorkspace::named(&new.name);
        let new = NewWorkspace {
            config: new.config.unwrap_or_else(|| bare.config.clone()),
            ..bare
        };
        let branch = DepotWorkspace::branch(room, new, point).await?.describe().await?;
        Ok(shown(branch))
    }

    async fn branches(&self) -> Result<Vec<Branch>> {
        match self.known_room().await? {
            Some(room) => room.branches().await,
            None => Ok(Vec::new()),
        }
    }

    async fn set_keep(&self, keep: &Keep) -> Result<()> {
        // Opening a directory only to read it must not create a home. The first change passes the setting to the depot.
        *self.keep.lock().expect("no holder panics") = Some(*keep);
        Ok(())
    }

    async fn open_branch(&self, name: &str) -> Result<OpenedBranch> {
        self.required().await?.open_branch(name).await
    }

    async fn of_branch(&self, id: &str) -> Result<Arc<dyn History>> {
        self.required().await?.of_branch(id).await
    }

    async fn merging(&self, other: &str) -> Result<Merging> {
        self.looked_at(&WsPath::root()).await?.merging(other).await
    }
}
