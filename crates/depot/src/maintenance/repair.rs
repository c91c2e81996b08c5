//! Repairs a depot: data that can be derived from other data is corrected; all other damage is left as it is and
//! reported.
//!
//! A counter can be derived from the journal, a directory from the entries in it, the row of a blob from the blob, and
//! a workspace or a change from the rows that refer to it. Bytes cannot be derived: damaged or lost content stays
//! `corrupt`, and is reported with its path, until the file is written again or an older version is restored.

use garret_core::{ChangeKind, Durability, Ids, Result};
use serde::Serialize;

use super::check::{CheckProblem, has_sound_lineage};
use crate::change::directory_node;
use crate::content::{ContentStore, PieceAddress};
use crate::depot::{Depot, NewWorkspace};
use crate::error::{is_content_unreadable, is_disk_failure};
use crate::metadata::{
    ChangeRow, HEAD, LevelEntry, LineageLevel, ListedPaths, MetadataSession, StoredPiece, WorkspaceRow,
};
use crate::tree::DepotTree;

/// The age from which on an unfinished file among the blobs counts as abandoned.
const UNFINISHED_MS: i64 = 3_600_000;
const PAGE: usize = 1_000;

/// The result of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RepairReport {
    /// The faults that were repaired.
    pub repaired: Vec<CheckProblem>,
    /// The faults that remain: the original data cannot be derived.
    pub remaining: Vec<CheckProblem>,
}

impl Depot {
    /// Corrects all data that can be derived, then checks the whole depot again. Safe while others work.
    pub async fn repair(&self) -> Result<RepairReport> {
        // The order matters: a query trusts the indexes, and the later steps trust the rows that the earlier ones
        // corrected.
        let mut repaired: Vec<_> = self.repair_indexes().await?.into_iter().collect();
        let ids = self.shared.ids.clone();
        let rows = move |session: MetadataSession<'_>| repair_rows(session, &*ids);
        repaired.extend(self.shared.writer.write(Durability::Full, rows).await?);
        repaired.extend(self.repair_contents().await?);
        for row in self
            .shared
            .database
            .read(|session| session.workspaces().list_workspaces())?
        {
            if self
                .shared
                .database
                .read(|session| has_sound_lineage(session, row.id))?
            {
                repaired.extend(self.repair_tree(row).await?);
            }
        }
        repaired.extend(self.repair_unsynced().await?);
        repaired.extend(self.remove_damaged_logs().await?);
        let before = self.shared.clock.now().as_millisecond() - UNFINISHED_MS;
        match self.remove_unfinished_files(before)? {
            0 => {}
            count => repaired.push(CheckProblem::of_depot(format!(
                "removed {count} unfinished files among the blobs"
            ))),
        }
        Ok(RepairReport {
            repaired,
            remaining: self.check().await?,
        })
    }

    /// Rebuilds the indexes of the database if its integrity check complains about them.
    async fn repair_indexes(&self) -> Result<Option<CheckProblem>> {
        let look = || self.shared.database.read(|session| session.integrity_problems());
        let before = look()?;
        if !before.iter().any(|line| line.contains("index")) {
            return Ok(None);
        }
        let reindex = |session: MetadataSession<'_>| session.with_savepoint(|| session.repair().rebuild_indexes());
        match self.shared.writer.write(Durability::Full, reindex).await {
            // The database has other damage, too, which the check reports.
            Err(error) if !is_disk_failure(&error) => return Ok(None),
            done => done?,
        }
        let is_better = look()?.len() < before.len();
        Ok(is_better.then(|| CheckProblem::of_depot("the indexes of the database were rebuilt")))
    }

    /// Corrects the rows of pieces from their bytes, and adds rows for blobs that entries refer to and that have none.
    async fn repair_contents(&self) -> Result<Vec<CheckProblem>> {
        let (database, content) = (&self.shared.database, &self.shared.content);
        let mut repaired = Vec::new();
        for address in database.read(|session| session.repair().unknown_contents())? {
            repaired.extend(self.recover_row(address).await?);
        }
        for list in database.read(|session| session.contents().part_lists())? {
            for part in content.list_parts(database, list).await.unwrap_or_default() {
                repaired.extend(self.recover_row(part).await?);
            }
        }
        let mut after = None;
        loop {
            let addresses = database.read(|session| session.contents().addresses_after(after, PAGE))?;
            let Some(last) = addresses.last() else { break };
            after = Some(*last);
            for address in addresses {
                repaired.extend(self.correct_row(address).await?);
            }
        }
        for (address, size) in database.read(|session| session.repair().contents_with_wrong_size())? {
            repaired.extend(self.correct_sizes(address, size).await?);
        }
        Ok(repaired)
    }

    /// Adds the row of a blob, and if it is a list, the rows of its parts.
    async fn recover_row(&self, address: PieceAddress) -> Result<Vec<CheckProblem>> {
        let mut repaired = Vec::new();
        let mut wanted = vec![address];
        while let Some(address) = wanted.pop() {
            let known = self
                .shared
                .database
                .read(|session| session.contents().content_touched(address))?;
            let (None, Some(found)) = (known, self.shared.content.inspect_blob(address).await?) else {
                continue;
            };
            let now = self.shared.clock.now().as_millisecond();
            let put = move |session: MetadataSession<'_>| {
                let piece = StoredPiece {
                    is_list: found.is_list,
                    size: found.size,
                    stored: found.stored,
                    data: None,
                };
                session.contents().put_content(address, &piece, now)
            };
            self.shared.writer.write(Durability::Full, put).await?;
            repaired.push(CheckProblem::of_depot(format!(
                "the blob {} was added to the database again",
                address.to_hex()
            )));
            if found.is_list {
                wanted.extend(self.shared.content.list_parts(&self.shared.database, address).await?);
            }
        }
        Ok(repaired)
    }

    /// Corrects the row of a piece if its bytes, in the database or in the blob store, differ from the row.
    async fn correct_row(&self, address: PieceAddress) -> Result<Option<CheckProblem>> {
        let (row, piece) = self.shared.database.read(|session| {
            Ok((
                session.contents().content(address)?,
                session.contents().content_piece(address)?,
            ))
        })?;
        let (Some(row), Some(piece)) = (row, piece) else {
            return Ok(None);
        };
        let inline = row.data.and_then(|data| ContentStore::inspect_inline(data, address));
        let (found, is_blob) = match inline {
            Some(found) => (Some(found), false),
            None => (self.shared.content.inspect_blob(address).await?, true),
        };
        let said = (piece.is_list, row.size, piece.stored, piece.is_blob);
        let Some(found) = found.filter(|found| (found.is_list, found.size, found.stored, is_blob) != said) else {
            return Ok(None);
        };
        let correct = move |session: MetadataSession<'_>| {
            session
                .repair()
                .correct_content(address, found.is_list, (found.size, found.stored), is_blob)
        };
        self.shared.writer.write(Durability::Full, correct).await?;
        let what = format!("the record of the content {} was corrected", address.to_hex());
        Ok(Some(CheckProblem::of_depot(what)))
    }

    /// Corrects the size in entries whose content has another size.
    async fn correct_sizes(&self, address: PieceAddress, size: u64) -> Result<Option<CheckProblem>> {
        match self.shared.content.verify_piece(&self.shared.database, address).await {
            Ok(None) => {}
            // The size of damaged content proves nothing about the entry.
            Ok(Some(_)) => return Ok(None),
            Err(error) if is_content_unreadable(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
        let correct = move |session: MetadataSession<'_>| session.repair().correct_sizes(address, size);
        let count = self.shared.writer.write(Durability::Full, correct).await?;
        let what = format!(
            "the size of {count} entries with the content {} was corrected",
            address.to_hex()
        );
        Ok(Some(CheckProblem::of_depot(what)))
    }

    /// Creates the missing directories of live entries.
    async fn repair_tree(&self, row: WorkspaceRow) -> Result<Vec<CheckProblem>> {
        let mut repaired = Vec::new();
        let mut after = Some((Vec::new(), -1));
        while let Some(start) = after {
            let row = row.clone();
            let missing = self
                .shared
                .database
                .read(|session| missing_directories(session, &row, &start))?;
            after = missing.1;
            for (path, since) in missing.0 {
                let (id, place) = (row.id, path.clone());
                let make = move |session: MetadataSession<'_>| make_directory(session, id, &place, since);
                if self.shared.writer.write(Durability::Full, make).await? {
                    repaired.push(
                        CheckProblem::of_workspace(&row, "the directory was created again")
                            .with_path(&path)
                            .with_change(since),
                    );
                }
            }
        }
        Ok(repaired)
    }

    /// Removes blobs without a content row from the list of unsynced blobs.
    async fn repair_unsynced(&self) -> Result<Vec<CheckProblem>> {
        let dangling = self
            .shared
            .database
            .read(|session| session.repair().dangling_unsynced())?;
        let mut repaired = Vec::new();
        for address in dangling {
            let forget = move |session: MetadataSession<'_>| session.contents().remove_unsynced(address);
            self.shared.writer.write(Durability::Full, forget).await?;
            repaired.push(CheckProblem::of_depot(format!(
                "{} is no longer listed as unsynced",
                address.to_hex()
            )));
        }
        self.recover_unsynced().await?;
        Ok(repaired)
    }
}

/// Corrects rows from other rows, in one transaction.
fn repair_rows(session: MetadataSession<'_>, ids: &dyn Ids) -> Result<Vec<CheckProblem>> {
    // Before the stray rows are removed: the rows of a lost workspace are stray until it has a row again.
    let mut repaired = remake_workspaces(session, ids)?;
    let strays = session.repair().stray_rows()?;
    if strays > 0 {
        session.repair().remove_stray_rows()?;
        repaired.push(CheckProblem::of_depot(format!(
            "removed {strays} rows of workspaces that do not exist"
        )));
    }
    for row in session.workspaces().list_workspaces()? {
        let lost = remake_changes(session, &row, ids)?;
        let row = if lost.is_empty() {
            row
        } else {
            session.workspaces().workspace(row.id)?.unwrap_or(row)
        };
        repaired.extend(lost);
        repaired.extend(repair_workspace(session, &row)?);
    }
    Ok(repaired)
}

/// Creates the rows of lost workspaces that still have entries or changes, with new names.
fn remake_workspaces(session: MetadataSession<'_>, ids: &dyn Ids) -> Result<Vec<CheckProblem>> {
    let mut repaired = Vec::new();
    for (id, created) in session.repair().lost_workspaces()? {
        let mut name = format!("recovered-{id}");
        while session.workspaces().workspace_by_name(&name)?.is_some() {
            name.push_str("-again");
        }
        let new = NewWorkspace::named(&name);
        let row = WorkspaceRow {
            id,
            uid: ids.next_id(),
            name: new.name,
            kind: new.kind,
            config: new.config.to_string(),
            fork: None,
            is_flat: false,
            head: 0,
            created,
            deleted: None,
        };
        session.repair().remake_workspace(&row)?;
        let what = format!("the files of a workspace whose record was missing are now in the workspace `{name}`");
        repaired.push(CheckProblem::of_workspace(&row, what));
    }
    Ok(repaired)
}

/// Adds placeholders for changes that are missing at the end of the journal and that other rows refer to: their numbers
/// must not be used again.
fn remake_changes(session: MetadataSession<'_>, row: &WorkspaceRow, ids: &dyn Ids) -> Result<Vec<CheckProblem>> {
    let newest = session
        .changes()
        .change_count(row.id)?
        .1
        .max(session.retention().journal_start(row.id)?.seq);
    let at = session
        .changes()
        .change(row.id, newest)?
        .map_or(row.created, |change| change.at);
    let mut repaired = Vec::new();
    let told = session.repair().referenced_after(row.id, newest)?;
    // A number that leaves a gap is more likely damaged itself than a lost change; the check reports it.
    for (seq, _) in (newest + 1..).zip(told).take_while(|(seq, told)| seq == told) {
        let change = ChangeRow {
            workspace: row.id,
            seq,
            id: ids.next_id(),
            at,
            kind: ChangeKind::Change.as_str().to_owned(),
            operation: "lost".to_owned(),
            summary: "a change whose record is missing from the journal".to_owned(),
            agent: None,
            session: None,
            tool_call: None,
            door: "repair".to_owned(),
            command: None,
            undone_by: None,
        };
        session.changes().add_change(&change, &ListedPaths::default())?;
        let what = "the change was missing from the journal, and a placeholder was recorded for it";
        repaired.push(CheckProblem::of_workspace(row, what).with_change(seq));
    }
    Ok(repaired)
}

fn repair_workspace(session: MetadataSession<'_>, row: &WorkspaceRow) -> Result<Vec<CheckProblem>> {
    let mut repaired = Vec::new();
    let (count, newest) = session.changes().change_count(row.id)?;
    let oldest = session.retention().journal_start(row.id)?.seq;
    let head = newest.max(oldest);
    // The end of a journal with a gap is uncertain, so its head is left as it is.
    if head != row.head && count == head - oldest {
        session.workspaces().set_head(row.id, head)?;
        repaired.push(CheckProblem::of_workspace(
            row,
            format!("its newest change is {head}, not {}", row.head),
        ));
    }
    if let Some(fork) = row.fork
        && row.is_flat
        && session.workspaces().workspace(fork.workspace)?.is_none()
    {
        session.repair().clear_fork(row.id)?;
        repaired.push(CheckProblem::of_workspace(
            row,
            "its link to a parent workspace that no longer exists was removed",
        ));
    }
    for label in session.repair().dangling_snapshots(row.id)? {
        session.snapshots().remove_snapshot(row.id, &label)?;
        repaired.push(CheckProblem::of_workspace(
            row,
            format!("its snapshot `{label}` named a point that does not exist and was removed"),
        ));
    }
    for (path, seq) in session.entries().wrongly_listed_entries(row.id)? {
        session.entries().mark_unlisted(row.id, &path, seq)?;
        let problem = CheckProblem::of_workspace(row, "it was listed again in the change that created it");
        repaired.push(problem.with_path(&path).with_change(seq));
    }
    for seq in session.repair().wrongly_undone(row.id)? {
        let standing = session.changes().standing_reversal(row.id, seq)?;
        session.changes().set_undone_by(row.id, seq, standing)?;
        repaired.push(
            CheckProblem::of_workspace(row, "it is no longer marked as undone by a change that does not exist")
                .with_change(seq),
        );
    }
    Ok(repaired)
}

type RepairPageKey = (Vec<u8>, i64);

/// Returns the missing directories of a page of live entries, each with the change of the entry, and the key to
/// continue from.
fn missing_directories(
    session: MetadataSession<'_>,
    row: &WorkspaceRow,
    after: &RepairPageKey,
) -> Result<(Vec<RepairPageKey>, Option<RepairPageKey>)> {
    let head = LineageLevel {
        workspace: row.id,
        at: HEAD,
    };
    let tree = DepotTree::at_point(session, head)?;
    let entries = session.entries().rows_after(row.id, (&after.0, after.1), PAGE)?;
    let mut missing = Vec::new();
    for entry in &entries {
        let is_live = entry.until == i64::MAX && matches!(entry.held, LevelEntry::Node(_));
        let slashes = entry.path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for (slash, _) in slashes.filter(|_| is_live) {
            if tree.node(&entry.path[..slash])?.is_none() {
                missing.push((entry.path[..slash].to_vec(), entry.since));
            }
        }
    }
    let next = entries.last().map(|last| (last.path.clone(), last.since));
    Ok((missing, next))
}

/// Creates a directory as of the change `since`, unless the path has an entry. Returns whether it was created.
fn make_directory(session: MetadataSession<'_>, workspace: i64, path: &[u8], since: i64) -> Result<bool> {
    let head = LineageLevel { workspace, at: HEAD };
    if DepotTree::at_point(session, head)?.node(path)?.is_some()
        || session
            .entries()
            .entry_history(workspace, path, HEAD)?
            .iter()
            .any(|(_, until, _)| *until > since)
    {
        return Ok(false);
    }
    let time = session
        .changes()
        .change(workspace, since)?
        .map_or(0, |change| change.at);
    let directory = LevelEntry::Node(directory_node(time));
    session
        .entries()
        .insert_entry(workspace, path, (since, i64::MAX), &directory)?;
    Ok(true)
}
