//! Garbage collection: removes deleted workspaces, and content that nothing refers to any more. Safe while others work.
//!
//! First all content with a reference is marked, then the rest is swept. Content that gets its first reference in
//! between either existed already, and is referred to by the history that it came from, or was just written, and then
//! its date protects it: a change re-dates the content that it refers to in its own transaction, and retention re-dates
//! the content of the versions that it drops. A blob is removed in a transaction in which it has no row; a change that
//! wrote the blob again checks in its own transaction that it exists.
//!
//! A new table that refers to content must be added to `MetadataSession::referenced_addresses`.

use std::collections::HashSet;
use std::ops::AddAssign;
use std::time::Duration;

use garret_core::{Durability, ErrorKind, Result};
use schemars::JsonSchema;
use serde::Serialize;

use super::retention::count_droppable_rows;
use crate::content::PieceAddress;
use crate::depot::Depot;
use crate::metadata::{MetadataSession, PieceRow, stored_time};
use crate::outside_files::addresses_in_logs;

/// Pieces swept in one transaction, so that other writers wait only for that.
const SLICE: usize = 500;
/// Rows of a workspace removed in one transaction.
const ROWS: usize = 2_000;

/// Options of a garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectOptions {
    /// Workspaces deleted, and content referred to for the last time, within this time stay. An hour or more is safe
    /// whatever others do meanwhile.
    pub grace: Duration,
    /// Whether to report the garbage without removing it.
    pub is_dry_run: bool,
}

impl Default for CollectOptions {
    fn default() -> Self {
        Self::from(Duration::from_secs(24 * 3_600))
    }
}

impl From<Duration> for CollectOptions {
    fn from(grace: Duration) -> Self {
        Self {
            grace,
            is_dry_run: false,
        }
    }
}

/// The counts of things that a collection removed, or would remove.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CollectReport {
    /// Deleted workspaces that are gone for good.
    pub workspaces: u64,
    /// Incomplete workspaces of imports that were interrupted.
    pub imports: u64,
    /// Old versions of entries that only a deleted snapshot or branch needed.
    pub versions: u64,
    /// Pieces of content.
    pub pieces: u64,
    /// Bytes of the pieces that were in the database.
    pub database_bytes: u64,
    /// Bytes of the blobs that are gone.
    pub blob_bytes: u64,
    /// Unfinished files among the blobs, left by a process that ended.
    pub leftovers: u64,
}

impl AddAssign for CollectReport {
    fn add_assign(&mut self, other: Self) {
        self.workspaces += other.workspaces;
        self.imports += other.imports;
        self.versions += other.versions;
        self.pieces += other.pieces;
        self.database_bytes += other.database_bytes;
        self.blob_bytes += other.blob_bytes;
        self.leftovers += other.leftovers;
    }
}

/// The time before which things are old, in the units of both tables.
#[derive(Debug, Clone, Copy)]
struct GarbageCutoff {
    millis: i64,
    micros: i64,
}

impl Depot {
    /// Removes workspaces that were deleted, and content without a reference, longer than the grace ago. A workspace
    /// with branches stays until they are removed. If a list of parts that is still needed is damaged, the collection
    /// fails as `corrupt`, since it cannot know the parts of that list.
    pub async fn collect(&self, options: impl Into<CollectOptions>) -> Result<CollectReport> {
        let options = options.into();
        let now = self.shared.clock.now();
        let grace_ms = i64::try_from(options.grace.as_millis()).unwrap_or(i64::MAX);
        let before = GarbageCutoff {
            millis: now.as_millisecond().saturating_sub(grace_ms),
            micros: stored_time(now).saturating_sub(grace_ms.saturating_mul(1_000)),
        };
        if options.is_dry_run {
            self.count_garbage(before).await
        } else {
            self.collect_making_room(before).await
        }
    }

    /// Collects garbage. If the disk is too full for the database to write, files are removed first, which needs no
    /// write, and the collection is tried again.
    async fn collect_making_room(&self, before: GarbageCutoff) -> Result<CollectReport> {
        let mut collected = CollectReport::default();
        let full = match self.collect_before(before, &mut collected).await {
            Err(error) if error.kind() == ErrorKind::QuotaExceeded => error,
            ended => return ended.map(|()| collected),
        };
        let without_room = collected;
        self.sweep_files(before, &mut collected).await?;
        // Nothing was freed, so another attempt would fail in the same way.
        if collected == without_room {
            return Err(full);
        }
        self.collect_before(before, &mut collected).await?;
        Ok(collected)
    }

    /// Collects garbage. Adds the counts to `collected` as it goes, so that they are right even if it fails halfway.
    async fn collect_before(&self, before: GarbageCutoff, collected: &mut CollectReport) -> Result<()> {
        self.purge_workspaces(before.micros, collected).await?;
        for workspace in self.live_workspaces()? {
            workspace.drop_unneeded_rows(&mut collected.versions).await?;
        }
        let named = self.referenced_contents(before, &[]).await?;
        for slice in self.unreferenced_pieces(&named, before)?.chunks(SLICE) {
            let (pieces, bytes) = self.sweep_rows(slice.to_vec(), before.millis).await?;
            collected.pieces += pieces;
            collected.database_bytes += bytes;
        }
        self.sweep_files(before, collected).await?;
        match self.shared.database.empty_log() {
            // A log that cannot be emptied for lack of space keeps its length; the garbage is collected all the same.
            Err(error) if error.kind() == ErrorKind::QuotaExceeded => Ok(()),
            emptied => emptied,
        }
    }

    /// Removes the blobs without a row, and the unfinished files among the blobs.
    async fn sweep_files(&self, before: GarbageCutoff, collected: &mut CollectReport) -> Result<()> {
        self.sweep_blobs(before.millis, &mut collected.blob_bytes).await?;
        collected.leftovers += self.remove_unfinished_files(before.millis)?;
        Ok(())
    }

    /// Returns the counts of things that a collection would remove.
    async fn count_garbage(&self, before: GarbageCutoff) -> Result<CollectReport> {
        let look = |session: MetadataSession<'_>| {
            Ok((
                removable_workspaces(session, before.micros)?,
                session.retention().hidden_workspaces(before.micros)?,
            ))
        };
        let (deleted, hidden) = self.shared.database.read(look)?;
        let gone: Vec<_> = deleted.into_iter().map(|id| (id, true)).chain(hidden).collect();
        let numbers: Vec<_> = gone.iter().map(|(id, _)| *id).collect();
        let named = self.referenced_contents(before, &numbers).await?;
        let unnamed = self.unreferenced_pieces(&named, before)?;
        let sum = |is_blob: bool| -> u64 {
            let pieces = unnamed.iter().filter(|(_, piece)| piece.is_blob == is_blob);
            pieces.map(|(_, piece)| piece.stored).sum()
        };
        let orphans: u64 = self
            .orphan_blobs(before.millis)
            .await?
            .iter()
            .map(|(_, size)| size)
            .sum();
        Ok(CollectReport {
            versions: self.count_unneeded_versions().await?,
            pieces: unnamed.len() as u64,
            database_bytes: sum(false),
            blob_bytes: sum(true) + orphans,
            leftovers: self.unfinished_files(before.millis)?.len() as u64,
            ..count_workspaces(&gone)
        })
    }

    /// Counts the old versions that only a deleted snapshot or branch needed.
    async fn count_unneeded_versions(&self) -> Result<u64> {
        let mut count = 0;
        for workspace in self.live_workspaces()? {
            // In a workspace with a limit, retention runs first and counts these versions.
            if workspace.keep().await?.keeps_everything() {
                let number = workspace.number;
                let look = |session: MetadataSession<'_>| {
                    count_droppable_rows(session, number, session.retention().journal_start(number)?.seq)
                };
                count += self.shared.database.read(look)?;
            }
        }
        Ok(count)
    }

    /// Removes the workspaces deleted before `before`. They are hidden at once in one transaction, and their rows are
    /// then removed a slice at a time.
    async fn purge_workspaces(&self, before: i64, collected: &mut CollectReport) -> Result<()> {
        let now = stored_time(self.shared.clock.now());
        let hide = move |session: MetadataSession<'_>| {
            for id in removable_workspaces(session, before)? {
                // A hidden workspace must not keep its name from being used again.
                session.workspaces().set_name(id, None)?;
                session.retention().hide_workspace(id, true, now)?;
            }
            session.retention().hidden_workspaces(before)
        };
        let hidden = self.shared.writer.write(Durability::Full, hide).await?;
        for gone in hidden {
            self.remove_hidden(gone.0).await?;
            *collected += count_workspaces(&[gone]);
        }
        Ok(())
    }

    /// Removes a hidden workspace.
    pub(crate) async fn remove_hidden(&self, id: i64) -> Result<()> {
        let now = stored_time(self.shared.clock.now());
        // Another collection may have removed the workspace meanwhile; then its number must not be hidden again.
        let claim = move |session: MetadataSession<'_>| match session.workspaces().workspace(id)? {
            Some(_) => session.retention().hide_workspace(id, true, now).map(|()| true),
            None => Ok(false),
        };
        if !self.shared.writer.write(Durability::Relaxed, claim).await? {
            return Ok(());
        }
        // Relaxed: after a power failure, the workspace is still hidden, and the next collection removes its rows
        // again.
        let slice = move |session: MetadataSession<'_>| session.retention().remove_workspace_slice(id, ROWS);
        while self.shared.writer.write(Durability::Relaxed, slice).await? {}
        let rest = move |session: MetadataSession<'_>| session.workspaces().remove_workspace(id);
        self.shared.writer.write(Durability::Full, rest).await
    }

    /// Returns all addresses with a reference: from an entry at any point, from a log, or from a list of parts that is
    /// itself referred to or too young to be swept. Entries of the workspaces `without` do not count.
    async fn referenced_contents(&self, before: GarbageCutoff, without: &[i64]) -> Result<HashSet<PieceAddress>> {
        let (database, content) = (&self.shared.database, &self.shared.content);
        // The logs are read before the entries: a record that moves from a log into the journal meanwhile is then found
        // in one of them.
        let mut named: HashSet<_> = match &self.shared.home {
            Some(home) => addresses_in_logs(home)?.into_iter().collect(),
            None => HashSet::new(),
        };
        named.extend(database.read(|session| session.contents().referenced_addresses(without))?);
        for list in database.read(|session| session.contents().part_lists())? {
            let piece = database.read(|session| session.contents().content_piece(list))?;
            let is_young = piece.is_some_and(|piece| piece.touched >= before.millis);
            if !named.contains(&list) && !is_young {
                continue;
            }
            match content.list_parts(database, list).await {
                Ok(parts) => named.extend(parts),
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    return Err(
                        error.hint("check the home (`garret fsck`) to see which file it is; nothing was deleted")
                    );
                }
                Err(error) => return Err(error),
            }
        }
        Ok(named)
    }

    /// Returns the old pieces of content that are not in `named`.
    fn unreferenced_pieces(
        &self,
        named: &HashSet<PieceAddress>,
        before: GarbageCutoff,
    ) -> Result<Vec<(PieceAddress, PieceRow)>> {
        let mut unnamed = Vec::new();
        let mut after = None;
        loop {
            let addresses = self
                .shared
                .database
                .read(|session| session.contents().addresses_after(after, SLICE))?;
            let Some(last) = addresses.last() else {
                return Ok(unnamed);
            };
            after = Some(*last);
            for address in addresses.into_iter().filter(|address| !named.contains(address)) {
                let piece = self
                    .shared
                    .database
                    .read(|session| session.contents().content_piece(address))?;
                let old = piece.filter(|piece| piece.touched < before.millis);
                unnamed.extend(old.map(|piece| (address, piece)));
            }
        }
    }

    /// Removes the rows of pieces that are still old; returns their number and the bytes of them that the database
    /// held.
    async fn sweep_rows(&self, unnamed: Vec<(PieceAddress, PieceRow)>, before: i64) -> Result<(u64, u64)> {
        let sweep = move |session: MetadataSession<'_>| {
            // A collected secret must not stay readable in a free page. Switched on only here, since it makes every
            // removal slower.
            session.contents().set_overwrite_removed(true)?;
            let removed = remove_rows(session, unnamed, before);
            session.contents().set_overwrite_removed(false)?;
            removed
        };
        self.shared.writer.write(Durability::Full, sweep).await
    }

    /// Removes the blobs without a row, those of refused or interrupted writes included.
    async fn sweep_blobs(&self, before: i64, bytes: &mut u64) -> Result<()> {
        for slice in self.orphan_blobs(before).await?.chunks(SLICE) {
            let (slice, shared) = (slice.to_vec(), self.shared.clone());
            let sweep = move |session: MetadataSession<'_>| {
                let mut bytes = 0;
                for (address, _) in slice {
                    // Checked again inside the transaction: a change may have recorded the blob since it was listed.
                    if session.contents().content_touched(address)?.is_none() {
                        bytes += shared.content.remove_blob(address)?;
                    }
                }
                Ok(bytes)
            };
            *bytes += self.shared.writer.write(Durability::Full, sweep).await?;
        }
        Ok(())
    }

    /// Returns the blobs written before `before` that have no row, each with its size.
    pub(crate) async fn orphan_blobs(&self, before: i64) -> Result<Vec<(PieceAddress, u64)>> {
        let mut old = self.shared.content.old_blobs(before).await?;
        let is_named = |address: &PieceAddress| {
            let touched = self
                .shared
                .database
                .read(|session| session.contents().content_touched(*address));
            // A blob whose row cannot be looked up is kept.
            touched.map_or(true, |touched| touched.is_some())
        };
        old.retain(|(address, _)| !is_named(address));
        Ok(old)
    }
}

/// Counts workspaces to remove; the flag of each tells whether it was deleted, or else left by an import.
fn count_workspaces(gone: &[(i64, bool)]) -> CollectReport {
    let workspaces = gone.iter().filter(|(_, was_deleted)| *was_deleted).count() as u64;
    CollectReport {
        workspaces,
        imports: gone.len() as u64 - workspaces,
        ..CollectReport::default()
    }
}

fn remove_rows(
    session: MetadataSession<'_>,
    unnamed: Vec<(PieceAddress, PieceRow)>,
    before: i64,
) -> Result<(u64, u64)> {
    let (mut pieces, mut bytes) = (0, 0);
    for (address, piece) in unnamed {
        if session.contents().remove_content(address, before)? {
            pieces += 1;
            bytes += if piece.is_blob { 0 } else { piece.stored };
        }
    }
    Ok((pieces, bytes))
}

/// Returns the workspaces that were deleted before `before` and whose branches are all removed as well.
fn removable_workspaces(session: MetadataSession<'_>, before: i64) -> Result<Vec<i64>> {
    let mut rows = session.workspaces().list_workspaces()?;
    // A branch has a larger number than its parent, so branches come first, and a whole line of deleted ones can be
    // removed.
    rows.sort_by_key(|row| std::cmp::Reverse(row.id));
    let mut doomed: Vec<i64> = Vec::new();
    for row in rows
        .iter()
        .filter(|row| row.deleted.is_some_and(|deleted| deleted < before))
    {
        let branches = session.workspaces().branches_of(row.id)?;
        if branches.iter().all(|branch| doomed.contains(branch)) {
            doomed.push(row.id);
        }
    }
    Ok(doomed)
}
