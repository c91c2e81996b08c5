//! A new workspace that nobody sees until its import is complete.

use garret_core::{Durability, EntryKind, Error, ErrorKind, Ids, Result};

use super::HistoryRecord;
use crate::depot::{Depot, NewWorkspace, check_name, check_name_free};
use crate::metadata::{
    ChangeRow, EntryRow, JournalStart, LevelEntry, LineageLevel, ListedPaths, MetadataSession, SnapshotRow,
    WorkspaceRow, stored_time,
};
use crate::workspace::DepotWorkspace;

/// Number of rows that are checked in one transaction.
const GROUP: usize = 500;

/// A hidden workspace. Garbage collection removes it after a grace period, unless it is shown before.
#[derive(Debug)]
pub struct HiddenWorkspace {
    depot: Depot,
    row: WorkspaceRow,
    /// The name under which it will be shown.
    name: Option<String>,
}

impl HiddenWorkspace {
    /// Refuses an invalid or taken name, before anything is read or written.
    pub fn check_name(depot: &Depot, new: &NewWorkspace) -> Result<()> {
        let Some(name) = &new.name else { return Ok(()) };
        check_name(name)?;
        depot
            .shared
            .database
            .read(|session| check_name_free(session, Some(name)))
    }

    /// Adds a hidden workspace to the depot.
    pub async fn create(depot: &Depot, new: NewWorkspace) -> Result<Self> {
        let shared = &depot.shared;
        let now = stored_time(shared.clock.now());
        let row = WorkspaceRow {
            id: 0,
            uid: shared.ids.next_id(),
            name: None,
            kind: new.kind,
            config: new.config.to_string(),
            fork: None,
            is_flat: false,
            head: 0,
            created: now,
            deleted: None,
        };
        let add = move |session: MetadataSession<'_>| {
            let id = session.workspaces().add_workspace(&row)?;
            // Hidden in the same transaction, so that nobody ever sees a partial workspace.
            session.retention().hide_workspace(id, false, now)?;
            Ok(WorkspaceRow { id, ..row })
        };
        Ok(Self {
            depot: depot.clone(),
            row: shared.writer.write(shared.options.durability, add).await?,
            name: new.name,
        })
    }

    /// Returns a handle on the workspace, through which its content is stored.
    pub fn workspace(&self) -> DepotWorkspace {
        self.depot.workspace_handle(&self.row)
    }

    /// Adds records to the history, in one transaction.
    pub async fn add_records(&self, records: Vec<HistoryRecord>) -> Result<()> {
        let (workspace, ids) = (self.row.id, self.depot.shared.ids.clone());
        self.write(move |session| {
            records
                .into_iter()
                .try_for_each(|record| add_record(session, workspace, record, &*ids))
        })
        .await
    }

    /// Sets the number of the newest change, and the number and the time of the oldest state.
    pub async fn set_journal_range(&self, head: i64, (oldest, oldest_at): (i64, i64)) -> Result<()> {
        let id = self.row.id;
        let start = JournalStart {
            seq: oldest,
            at: oldest_at,
        };
        self.write(move |session| {
            session.workspaces().set_head(id, head)?;
            session.retention().set_journal_start(id, start)
        })
        .await
    }

    /// Returns whether the entries form a tree at every point. Records that are each valid may still describe a tree
    /// that cannot exist.
    pub fn is_consistent(&self) -> Result<bool> {
        Ok(self.depot.is_workspace_sound(self.row.id)? && self.had_only_directory_parents()?)
    }

    /// Shows the workspace under its name.
    pub async fn show(&self) -> Result<()> {
        let (id, name) = (self.row.id, self.name.clone());
        let show = move |session: MetadataSession<'_>| {
            check_name_free(session, name.as_deref())?;
            // Garbage collection removes hidden workspaces after a grace period.
            if !session.retention().unhide_workspace(id)? {
                return Err(
                    Error::new(ErrorKind::Unavailable, "the unfinished import was collected as garbage")
                        .hint("import again, and collect garbage with a longer grace period"),
                );
            }
            session.workspaces().set_name(id, name.as_deref())
        };
        // Always durable: a workspace that is shown must be complete, even after a power loss.
        self.depot.shared.writer.write(Durability::Full, show).await
    }

    /// Removes the workspace and all that is in it.
    pub async fn remove(self) -> Result<()> {
        self.depot.remove_hidden(self.row.id).await
    }

    async fn write(&self, work: impl FnOnce(MetadataSession<'_>) -> Result<()> + Send + 'static) -> Result<()> {
        let shared = &self.depot.shared;
        shared.writer.write(shared.options.durability, work).await
    }

    /// Returns whether no entry was ever inside a file or a link.
    fn had_only_directory_parents(&self) -> Result<bool> {
        let mut after = (Vec::new(), -1);
        let mut above = ParentHistory::default();
        loop {
            let (rows, is_fine) = self.depot.shared.database.read(|session| {
                let rows = session.entries().rows_after(self.row.id, (&after.0, after.1), GROUP)?;
                let mut is_fine = true;
                for row in &rows {
                    is_fine &= above.load_for(session, self.row.id, &row.path)?.allows_entry(row);
                }
                Ok((rows, is_fine))
            })?;
            match rows.into_iter().last() {
                Some(last) if is_fine => after = (last.path, last.since),
                _ => return Ok(is_fine),
            }
        }
    }
}

/// The times at which the path above an entry was a file or a link. Kept from one entry to the next, which is often its
/// neighbour.
#[derive(Default)]
struct ParentHistory {
    path: Vec<u8>,
    filled: Vec<(i64, i64)>,
}

impl ParentHistory {
    fn load_for(&mut self, session: MetadataSession<'_>, workspace: i64, path: &[u8]) -> Result<&Self> {
        let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        if self.path != path[..slash] {
            let history = match slash {
                0 => Vec::new(),
                _ => session.entries().entry_history(workspace, &path[..slash], i64::MAX)?,
            };
            let is_filled =
                |held: &LevelEntry| matches!(held, LevelEntry::Node(node) if node.kind != EntryKind::Directory);
            let filled = history.into_iter().filter(|(_, _, held)| is_filled(held));
            self.filled = filled.map(|(since, until, _)| (since, until)).collect();
            self.path = path[..slash].to_vec();
        }
        Ok(self)
    }

    fn allows_entry(&self, row: &EntryRow) -> bool {
        let overlaps = |(since, until): &(i64, i64)| *since < row.until && row.since < *until;
        !self.filled.iter().any(overlaps)
    }
}

fn add_record(session: MetadataSession<'_>, workspace: i64, record: HistoryRecord, ids: &dyn Ids) -> Result<()> {
    match record {
        HistoryRecord::Change(row) => {
            let mut row = ChangeRow { workspace, ..row };
            // The same history may be imported twice, and ids are unique in a depot.
            if session.changes().change_by_id(&row.id)?.is_some() {
                row.id = ids.next_id();
            }
            session.changes().add_change(&row, &ListedPaths::default())?;
            session.changes().set_undone_by(workspace, row.seq, row.undone_by)
        }
        HistoryRecord::Entry(entry) => {
            let valid = (entry.since, entry.until.unwrap_or(i64::MAX));
            session
                .entries()
                .insert_entry(workspace, &entry.path, valid, &LevelEntry::Node(entry.node))
        }
        HistoryRecord::Move { change, step, from, to } => {
            session.entries().add_move((workspace, change), step, &from, &to)
        }
        HistoryRecord::Reversal { change, target } => session.changes().add_reversal(workspace, change, target),
        HistoryRecord::Snapshot {
            label,
            change,
            at,
            is_lazy,
        } => {
            let point = LineageLevel { workspace, at: change };
            let row = SnapshotRow {
                label,
                point,
                at,
                is_lazy,
            };
            session.snapshots().add_snapshot(workspace, &row)
        }
    }
}
