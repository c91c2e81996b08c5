//! Disk usage of a home: for each workspace its files, its history, and the bytes that deleting it would free.
//!
//! The bytes of files are their plain sizes. The stored bytes are compressed, and each piece counts once, however many
//! share it. To find the content that only one workspace or snapshot needs, every row of the tree is read once, with
//! all owners that need it.

use std::collections::HashMap;

use garret_core::{Result, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use super::stored_size::CountedPieces;
use crate::content::PieceAddress;
use crate::depot::Depot;
use crate::metadata::{HEAD, LevelEntry, LineageLevel, MetadataSession, SnapshotRow, WorkspaceRow, time_of};
use crate::tree::DepotTree;

/// Rows read in one transaction.
const PAGE: usize = 2_000;

/// The disk usage of a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DepotUsage {
    /// The usage of each workspace, deleted ones included, in the order of names.
    pub workspaces: Vec<WorkspaceUsage>,
    /// Bytes of the database on the disk; 0 in memory.
    pub database_bytes: u64,
    /// The number of blobs.
    pub blobs: u64,
    /// Bytes of the blobs.
    pub blob_bytes: u64,
}

/// The disk usage of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkspaceUsage {
    /// Its id.
    pub id: String,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The kind of storage that holds its files.
    pub kind: String,
    /// The id of the workspace that it was branched off.
    pub parent: Option<String>,
    /// Whether it is deleted, so that garbage collection removes it.
    pub is_deleted: bool,
    /// Files of the newest state.
    pub files: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// Stored bytes of content that only older states of its own journal need.
    pub history_bytes: u64,
    /// Stored bytes that no other workspace shares: deleting the workspace would free them.
    pub alone_bytes: u64,
    /// Changes in its journal.
    pub changes: u64,
    /// The number of the first state that is kept.
    pub oldest: u64,
    /// Its snapshots, oldest first.
    pub snapshots: Vec<SnapshotUsage>,
}

/// The disk usage of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SnapshotUsage {
    /// Its label.
    pub label: String,
    /// The time when it was taken.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The number of files in it.
    pub files: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// Stored bytes that nothing else refers to: deleting it would free them. 0 while the history around it is kept.
    pub alone_bytes: u64,
}

/// The owner of a piece of content: the snapshot, workspace or workspaces that need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ContentOwner {
    /// One snapshot, by the number of its workspace and its index in the list of all snapshots.
    Snapshot(i64, usize),
    /// One workspace.
    Workspace(i64),
    /// Several workspaces.
    Several,
}

impl ContentOwner {
    fn workspace(self) -> Option<i64> {
        match self {
            Self::Snapshot(workspace, _) | Self::Workspace(workspace) => Some(workspace),
            Self::Several => None,
        }
    }

    /// Returns the owner of content that both owners need.
    fn merge_with(self, other: Self) -> Self {
        match (self.workspace(), other.workspace()) {
            _ if self == other => self,
            (Some(one), Some(two)) if one == two => Self::Workspace(one),
            _ => Self::Several,
        }
    }
}

/// A point of a workspace that is always kept, with its owner.
type KeptPoint = (i64, ContentOwner);

impl Depot {
    /// Computes the disk usage of the home. Reads the whole tree of every workspace, a page at a time.
    pub async fn usage(&self) -> Result<DepotUsage> {
        let (rows, snapshots) = self.shared.database.read(|session| {
            let rows = session.workspaces().list_workspaces()?;
            let mut snapshots = Vec::new();
            for row in &rows {
                snapshots.extend(
                    session
                        .snapshots()
                        .list_snapshots(row.id)?
                        .into_iter()
                        .map(|snapshot| (row.id, snapshot)),
                );
            }
            Ok((rows, snapshots))
        })?;
        let alone = self.sole_owners(&rows, &snapshots).await?;
        let mut workspaces = Vec::with_capacity(rows.len());
        for row in &rows {
            workspaces.push(self.workspace_usage(row, &snapshots, &alone).await?);
        }
        let blobs = self.shared.content.old_blobs(i64::MAX).await?;
        Ok(DepotUsage {
            workspaces,
            database_bytes: self.database_bytes(),
            blobs: blobs.len() as u64,
            blob_bytes: blobs.iter().map(|(_, size)| size).sum(),
        })
    }

    async fn workspace_usage(
        &self,
        row: &WorkspaceRow,
        snapshots: &[(i64, SnapshotRow)],
        alone: &HashMap<PieceAddress, ContentOwner>,
    ) -> Result<WorkspaceUsage> {
        let database = &self.shared.database;
        let (parent, oldest, count, newest) = database.read(|session| {
            let parent = row
                .fork
                .map_or(Ok(None), |fork| session.workspaces().workspace(fork.workspace))?;
            let head = LineageLevel {
                workspace: row.id,
                at: HEAD,
            };
            let counted = session.changes().change_count(row.id)?;
            Ok((
                parent,
                session.retention().journal_start(row.id)?,
                counted.0,
                file_totals(session, head)?,
            ))
        })?;
        let mut sized = Vec::new();
        let own = snapshots
            .iter()
            .enumerate()
            .filter(|(_, (workspace, _))| *workspace == row.id);
        for (index, (workspace, snapshot)) in own {
            let totals = database.read(|session| file_totals(session, snapshot.point))?;
            sized.push(SnapshotUsage {
                label: snapshot.label.clone(),
                at: time_of(snapshot.at),
                files: totals.0,
                bytes: totals.1,
                alone_bytes: self.stored_bytes_of(alone, |owner| owner == ContentOwner::Snapshot(*workspace, index))?,
            });
        }
        Ok(WorkspaceUsage {
            id: row.uid.clone(),
            name: row.name.clone(),
            kind: row.kind.clone(),
            parent: parent.map(|parent| parent.uid),
            is_deleted: row.deleted.is_some(),
            files: newest.0,
            bytes: newest.1,
            history_bytes: self.history_bytes(row.id).await?,
            alone_bytes: self.stored_bytes_of(alone, |owner| owner.workspace() == Some(row.id))?,
            changes: count.unsigned_abs(),
            oldest: oldest.seq.unsigned_abs(),
            snapshots: sized,
        })
    }

    /// Returns the stored bytes of the content that only older states of a workspace need.
    async fn history_bytes(&self, workspace: i64) -> Result<u64> {
        let database = &self.shared.database;
        let mut pieces = CountedPieces::new(self);
        for address in database.read(|session| session.retention().live_contents(workspace))? {
            pieces.add_content(address).await?;
        }
        let mut bytes = 0;
        for address in database.read(|session| session.retention().contents_of(workspace))? {
            bytes += pieces.add_content(address).await?;
        }
        Ok(bytes)
    }

    fn stored_bytes_of(
        &self,
        alone: &HashMap<PieceAddress, ContentOwner>,
        is_wanted: impl Fn(ContentOwner) -> bool,
    ) -> Result<u64> {
        let wanted = alone.iter().filter(|(_, owner)| is_wanted(**owner));
        let bytes = wanted.map(|(address, _)| self.stored_bytes(*address));
        bytes.sum()
    }

    /// Returns the owner of each piece that only one workspace needs.
    async fn sole_owners(
        &self,
        rows: &[WorkspaceRow],
        snapshots: &[(i64, SnapshotRow)],
    ) -> Result<HashMap<PieceAddress, ContentOwner>> {
        let mut contents = HashMap::new();
        for row in rows {
            let holdings = kept_points(row, rows, snapshots);
            let mut after = (Vec::new(), -1);
            loop {
                let page = self.shared.database.read(|session| {
                    let oldest = session.retention().journal_start(row.id)?.seq;
                    Ok((oldest, session.entries().rows_after(row.id, (&after.0, after.1), PAGE)?))
                })?;
                let (oldest, page) = page;
                for entry in &page {
                    let LevelEntry::Node(node) = &entry.held else { continue };
                    let (Some(address), Some(owner)) = (
                        node.content,
                        owner_of_row(&holdings, row.id, oldest, entry.since, entry.until),
                    ) else {
                        continue;
                    };
                    merge_owner(&mut contents, address, owner);
                }
                match page.last() {
                    Some(last) => after = (last.path.clone(), last.since),
                    None => break,
                }
            }
        }
        self.owners_of_pieces(contents).await
    }

    async fn owners_of_pieces(
        &self,
        contents: HashMap<PieceAddress, ContentOwner>,
    ) -> Result<HashMap<PieceAddress, ContentOwner>> {
        let mut pieces = HashMap::with_capacity(contents.len());
        for (address, owner) in contents {
            merge_owner(&mut pieces, address, owner);
            // Contents of different owners may share parts.
            for part in self.stored_pieces(address).await?.1 {
                merge_owner(&mut pieces, part, owner);
            }
        }
        pieces.retain(|_, owner| *owner != ContentOwner::Several);
        Ok(pieces)
    }
}

fn merge_owner(owners: &mut HashMap<PieceAddress, ContentOwner>, address: PieceAddress, owner: ContentOwner) {
    owners
        .entry(address)
        .and_modify(|held| *held = held.merge_with(owner))
        .or_insert(owner);
}

/// Returns the points of `row` that retention never drops, in order, with their owners.
fn kept_points(row: &WorkspaceRow, rows: &[WorkspaceRow], snapshots: &[(i64, SnapshotRow)]) -> Vec<KeptPoint> {
    let forks = rows.iter().filter_map(|other| {
        let fork = other.fork.filter(|fork| fork.workspace == row.id)?;
        Some((fork.at, ContentOwner::Workspace(other.id)))
    });
    let named = snapshots
        .iter()
        .enumerate()
        .filter_map(|(index, (workspace, snapshot))| {
            let point = (snapshot.point.workspace == row.id).then_some(snapshot.point.at)?;
            Some((point, ContentOwner::Snapshot(*workspace, index)))
        });
    let beginning = row.fork.map(|_| (0, ContentOwner::Workspace(row.id)));
    let mut holdings: Vec<_> = forks.chain(named).chain(beginning).collect();
    holdings.sort_by_key(|(point, _)| *point);
    holdings
}

/// Returns the owner of a row that is valid from `since` until `until`; `None` if retention dropped it and no kept
/// point needs it.
fn owner_of_row(holdings: &[KeptPoint], workspace: i64, oldest: i64, since: i64, until: i64) -> Option<ContentOwner> {
    let mut owner = (until > oldest).then_some(ContentOwner::Workspace(workspace));
    let first = holdings.partition_point(|(point, _)| *point < since);
    for (point, other) in &holdings[first..] {
        if *point >= until || owner == Some(ContentOwner::Several) {
            break;
        }
        owner = Some(owner.map_or(*other, |owner| owner.merge_with(*other)));
    }
    owner
}

/// Returns the number of files at `level`, and their bytes.
fn file_totals(session: MetadataSession<'_>, level: LineageLevel) -> Result<(u64, u64)> {
    let levels = session.workspaces().levels(level)?;
    // Without a lineage to merge, the database can count by itself.
    if let [only] = levels.as_slice() {
        return session.retention().file_totals(only.workspace, only.at);
    }
    let tree = DepotTree::at_point(session, level)?;
    let mut scan = tree.scan_below(b"");
    let mut totals = (0, 0);
    while let Some((_, node)) = scan.next()? {
        if node.content.is_some() {
            totals = (totals.0 + 1, totals.1 + node.size);
        }
    }
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_twice_belongs_to_the_nearest_that_both_are_of() {
        let (one, two) = (ContentOwner::Snapshot(1, 0), ContentOwner::Snapshot(1, 1));
        assert_eq!(one.merge_with(one), one);
        assert_eq!(one.merge_with(two), ContentOwner::Workspace(1));
        assert_eq!(one.merge_with(ContentOwner::Workspace(2)), ContentOwner::Several);
        assert_eq!(ContentOwner::Several.merge_with(one), ContentOwner::Several);
    }

    #[test]
    fn a_dropped_row_belongs_to_whoever_still_shows_it() {
        let holdings = [(2, ContentOwner::Snapshot(1, 0)), (5, ContentOwner::Workspace(9))];
        assert_eq!(owner_of_row(&holdings, 1, 10, 1, 3), Some(ContentOwner::Snapshot(1, 0)));
        assert_eq!(owner_of_row(&holdings, 1, 10, 3, 5), None);
        assert_eq!(owner_of_row(&holdings, 1, 10, 3, 6), Some(ContentOwner::Workspace(9)));
        assert_eq!(owner_of_row(&holdings, 1, 2, 1, 3), Some(ContentOwner::Workspace(1)));
        assert_eq!(owner_of_row(&holdings, 1, 2, 1, i64::MAX), Some(ContentOwner::Several));
    }
}
