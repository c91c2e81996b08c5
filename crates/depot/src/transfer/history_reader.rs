//! Reads the history of a workspace as records, page by page. A branch is read as a workspace of its own: the entries
//! that it inherits become its first entries.

use garret_core::{Error, ErrorKind, Result};

use super::{ExportSource, HistoryEntry, HistoryRecord, PAGE, TreeReader};
use crate::maintenance::is_row_needed;
use crate::metadata::{ChangeRow, JournalStart, LevelEntry, SnapshotRow, WorkspaceRow};

/// A reader of everything that the journal of a workspace kept when the reader was made. Others may change the
/// workspace meanwhile.
#[derive(Debug)]
pub struct HistoryReader {
    source: ExportSource,
    row: WorkspaceRow,
    oldest: JournalStart,
    /// The points of the workspace's own snapshots, sorted.
    snapshot_points: Vec<i64>,
    left_out: Vec<String>,
    position: HistoryPosition,
}

/// The records that a reader returns next.
#[derive(Debug)]
enum HistoryPosition {
    Snapshots(Vec<SnapshotRow>),
    /// The changes before this one, from the newest to the oldest.
    ChangesBefore(i64),
    /// The entries that a branch inherits.
    Inherited(TreeReader),
    /// The workspace's own rows after this path and change.
    RowsAfter(Vec<u8>, i64),
    End,
}

impl HistoryReader {
    pub(super) fn begin(source: ExportSource) -> Result<Self> {
        let row = source.workspace_row()?;
        let (oldest, snapshots) = source.read_metadata(|session| {
            Ok((
                session.retention().journal_start(row.id)?,
                session.snapshots().list_snapshots(row.id)?,
            ))
        })?;
        let is_own = |snapshot: &SnapshotRow| snapshot.point.workspace == row.id && snapshot.point.at <= row.head;
        let (own, others): (Vec<_>, Vec<_>) = snapshots.into_iter().partition(is_own);
        let mut snapshot_points: Vec<_> = own.iter().map(|snapshot| snapshot.point.at).collect();
        // The search for the points that an entry spans needs them in order.
        snapshot_points.sort_unstable();
        Ok(Self {
            source,
            row,
            oldest,
            snapshot_points,
            left_out: others.into_iter().map(|snapshot| snapshot.label).collect(),
            position: HistoryPosition::Snapshots(own),
        })
    }

    /// Returns the name of the workspace.
    pub fn workspace_name(&self) -> Option<&str> {
        self.row.name.as_deref()
    }

    /// Returns the number of the newest change.
    pub fn head(&self) -> i64 {
        self.row.head
    }

    /// Returns the number of the oldest state that is kept, and its time in microseconds since 1970.
    pub fn oldest_state(&self) -> (i64, i64) {
        (self.oldest.seq, self.oldest.at)
    }

    /// Returns the labels of the snapshots that are not among the records, because they name points of the workspace
    /// that this one was branched off.
    pub fn left_out_snapshots(&self) -> &[String] {
        &self.left_out
    }

    /// Returns the next records; `None` at the end. A page may be empty. If garbage collection removed history since
    /// the first page, the last call fails as `unavailable`.
    pub fn next_page(&mut self) -> Result<Option<Vec<HistoryRecord>>> {
        let (page, next) = match std::mem::replace(&mut self.position, HistoryPosition::End) {
            HistoryPosition::Snapshots(snapshots) => (
                snapshots.into_iter().map(snapshot_record).collect(),
                HistoryPosition::ChangesBefore(self.row.head + 1),
            ),
            HistoryPosition::ChangesBefore(before) => self.read_changes(before)?,
            HistoryPosition::Inherited(tree) => self.read_inherited(tree)?,
            HistoryPosition::RowsAfter(path, since) => self.read_rows((&path, since))?,
            HistoryPosition::End => return Ok(None),
        };
        self.position = next;
        Ok(Some(page))
    }

    fn read_changes(&self, before: i64) -> Result<(Vec<HistoryRecord>, HistoryPosition)> {
        let oldest = self.oldest.seq;
        let (records, last) = self.source.read_metadata(|session| {
            let changes = session.changes().changes_before(self.row.id, before, PAGE)?;
            let last = changes.last().map(|change| change.seq);
            let mut records = Vec::with_capacity(changes.len());
            for change in changes.into_iter().filter(|change| change.seq > oldest) {
                let number = change.seq;
                records.push(HistoryRecord::Change(ChangeRow {
                    // Changes after the start of the export are not part of it.
                    undone_by: change.undone_by.filter(|by| *by <= self.row.head),
                    ..change
                }));
                let moves = session.entries().moves_of_change(self.row.id, number)?;
                records.extend((1..).zip(moves).map(|(step, (from, to))| HistoryRecord::Move {
                    change: number,
                    step,
                    from,
                    to,
                }));
                let reversed = session.changes().reversed_changes(self.row.id, number)?;
                records.extend(
                    reversed
                        .into_iter()
                        .map(|target| HistoryRecord::Reversal { change: number, target }),
                );
            }
            Ok((records, last))
        })?;
        let next = match last {
            Some(last) if last > oldest => HistoryPosition::ChangesBefore(last),
            _ => self.first_entries(),
        };
        Ok((records, next))
    }

    /// Returns the position of the first entries. A flat branch has a row of its own for every inherited entry, so only
    /// other branches need the tree of the parent.
    fn first_entries(&self) -> HistoryPosition {
        match self.row.fork.filter(|_| !self.row.is_flat) {
            Some(level) => HistoryPosition::Inherited(TreeReader {
                source: self.source.clone(),
                level,
                directory: Vec::new(),
                from: Some(Vec::new()),
            }),
            None => HistoryPosition::RowsAfter(Vec::new(), -1),
        }
    }

    fn read_inherited(&self, mut tree: TreeReader) -> Result<(Vec<HistoryRecord>, HistoryPosition)> {
        let (id, head) = (self.row.id, self.row.head);
        let page = tree.next_page_of(|session, path, node| {
            // An inherited entry ends at the first row that the branch itself has at its path.
            let until = session.entries().first_since(id, &path)?.filter(|since| *since <= head);
            let entry = HistoryEntry {
                path,
                since: 0,
                until,
                node,
            };
            Ok((until != Some(0)).then_some(HistoryRecord::Entry(entry)))
        })?;
        let next = if tree.from.is_some() {
            HistoryPosition::Inherited(tree)
        } else {
            HistoryPosition::RowsAfter(Vec::new(), -1)
        };
        Ok((page, next))
    }

    /// Reads the workspace's own rows, as of the change that was the newest when the reader was made.
    fn read_rows(&self, after: (&[u8], i64)) -> Result<(Vec<HistoryRecord>, HistoryPosition)> {
        let page = self
            .source
            .read_metadata(|session| session.entries().rows_after(self.row.id, after, PAGE))?;
        let Some(last) = page.last() else {
            self.check_journal_start()?;
            return Ok((Vec::new(), HistoryPosition::End));
        };
        let next = HistoryPosition::RowsAfter(last.path.clone(), last.since);
        let mut records = Vec::with_capacity(page.len());
        for row in page {
            // A row that hides an inherited entry is not needed: the exported workspace inherits nothing.
            let LevelEntry::Node(node) = row.held else { continue };
            let is_kept = row.until > self.oldest.seq
                || is_row_needed(&self.snapshot_points, row.since, row.until)
                || row.since == 0;
            if row.since <= self.row.head && is_kept {
                records.push(HistoryRecord::Entry(HistoryEntry {
                    path: row.path,
                    since: row.since,
                    until: Some(row.until).filter(|until| *until <= self.row.head),
                    node,
                }));
            }
        }
        Ok((records, next))
    }

    /// Checks that nothing was removed. The pages were read in separate transactions, so garbage collection may have run
    /// between two of them.
    fn check_journal_start(&self) -> Result<()> {
        let start = self
            .source
            .read_metadata(|session| session.retention().journal_start(self.row.id))?;
        if start == self.oldest {
            Ok(())
        } else {
            let message = "garbage collection removed history during the export";
            Err(Error::new(ErrorKind::Unavailable, message).hint("export again"))
        }
    }
}

fn snapshot_record(snapshot: SnapshotRow) -> HistoryRecord {
    HistoryRecord::Snapshot {
        label: snapshot.label,
        change: snapshot.point.at,
        at: snapshot.at,
        is_lazy: snapshot.is_lazy,
    }
}
