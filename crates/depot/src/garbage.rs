//! Collecting garbage: workspaces that were deleted, and content that nothing names any more. Safe while others work.
//!
//! First everything that is named is marked, then what is not is swept. Content that comes to be named in between was either there, and
//! named by the history it came from, or was just written, and then its date spares it: a change re-dates what it refers to in its
//! own transaction, and retention dates what it lets go. A blob goes in a transaction in which no row names it, and whoever wrote it
//! anew looks for it in theirs.
//!
//! Whoever adds a table that names content adds it to `Session::named_addresses`.

use std::collections::HashSet;
use std::ops::AddAssign;
use std::time::Duration;

use garret_core::{Durability, ErrorKind, Result};
use serde::Serialize;

use crate::content::Address;
use crate::depot::Depot;
use crate::journaled::named_by_logs;
use crate::metadata::{PieceRow, Session, stored_time};
use crate::retention::droppable;

/// Pieces swept in one transaction, so that other writers wait only for that.
const SLICE: usize = 500;
/// Rows of a workspace removed in one transaction.
const ROWS: usize = 2_000;

/// How to collect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectOptions {
    /// What was deleted, or named for the last time, within this time stays. An hour or more is safe whatever others do meanwhile.
    pub grace: Duration,
    /// Whether only to tell what would go.
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

/// What a collection removed, or would remove.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Collected {
    /// Deleted workspaces that are gone for good.
    pub workspaces: u64,
    /// What imports left that were cut short.
    pub imports: u64,
    /// Old versions of entries that only a snapshot or branch held that is gone.
    pub versions: u64,
    /// Pieces of content.
    pub pieces: u64,
    /// Bytes of the pieces that were in the database.
    pub database_bytes: u64,
    /// Bytes of the blobs that are gone.
    pub blob_bytes: u64,
    /// Unfinished files that an end of the process left among the blobs.
    pub leftovers: u64,
}

impl AddAssign for Collected {
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

/// The moment before which things are old, in the units of either table.
#[derive(Debug, Clone, Copy)]
struct Before {
    millis: i64,
    micros: i64,
}

impl Depot {
    /// Removes the workspaces that were deleted, and the content that nothing names, longer than the grace ago. A workspace that others
    /// were branched off stays until they are gone. Where a list of parts that is still needed is damaged, the collection is refused
    /// as `corrupt`, since it cannot tell what belongs to it.
    pub async fn collect(&self, options: impl Into<CollectOptions>) -> Result<Collected> {
        let options = options.into();
        let now = self.shared.clock.now();
        let grace_ms = i64::try_from(options.grace.as_millis()).unwrap_or(i64::MAX);
        let before = Before {
            millis: now.as_millisecond().saturating_sub(grace_ms),
            micros: stored_time(now).saturating_sub(grace_ms.saturating_mul(1_000)),
        };
        match options.is_dry_run {
            true => self.collectable(before).await,
            false => self.collect_making_room(before).await,
        }
    }

    /// Collects; where the disk is too full for the database to take a word, what goes without one goes first.
    async fn collect_making_room(&self, before: Before) -> Result<Collected> {
        let mut collected = Collected::default();
        let full = match self.collect_before(before, &mut collected).await {
            Err(error) if error.kind() == ErrorKind::QuotaExceeded => error,
            ended => return ended.map(|()| collected),
        };
        let without_room = collected;
        self.sweep_files(before, &mut collected).await?;
        if collected == without_room {
            return Err(full);
        }
        self.collect_before(before, &mut collected).await?;
        Ok(collected)
    }

    /// Collects; what is gone is in `collected`, also where it cannot go on.
    async fn collect_before(&self, before: Before, collected: &mut Collected) -> Result<()> {
        self.purge(before.micros, collected).await?;
        for workspace in self.handles()? {
            workspace.drop_rows(&mut collected.versions).await?;
        }
        let named = self.marked(before, &[]).await?;
        for slice in self.unnamed(&named, before)?.chunks(SLICE) {
            let (pieces, bytes) = self.sweep_rows(slice.to_vec(), before.millis).await?;
            collected.pieces += pieces;
            collected.database_bytes += bytes;
        }
        self.sweep_files(before, collected).await?;
        match self.shared.database.empty_log() {
            // It stays as long as it is until there is room; what was collected is.
            Err(error) if error.kind() == ErrorKind::QuotaExceeded => Ok(()),
            emptied => emptied,
        }
    }

    /// Removes the blobs that no row names and the unfinished files among them.
    async fn sweep_files(&self, before: Before, collected: &mut Collected) -> Result<()> {
        self.sweep_blobs(before.millis, &mut collected.blob_bytes).await?;
        collected.leftovers += self.remove_leftovers(before.millis)?;
        Ok(())
    }

    /// What a collection would remove, without removing it.
    async fn collectable(&self, before: Before) -> Result<Collected> {
        let look = |session: Session<'_>| Ok((doomed(session, before.micros)?, session.leftovers(before.micros)?));
        let (deleted, hidden) = self.shared.database.read(look)?;
        let gone: Vec<_> = deleted.into_iter().map(|id| (id, true)).chain(hidden).collect();
        let numbers: Vec<_> = gone.iter().map(|(id, _)| *id).collect();
        let named = self.marked(before, &numbers).await?;
        let unnamed = self.unnamed(&named, before)?;
        let sum = |is_blob: bool| -> u64 {
            let pieces = unnamed.iter().filter(|(_, piece)| piece.is_blob == is_blob);
            pieces.map(|(_, piece)| piece.stored).sum()
        };
        let orphans: u64 = self.orphans(before.millis).await?.iter().map(|(_, size)| size).sum();
        Ok(Collected {
            versions: self.unheld_versions().await?,
            pieces: unnamed.len() as u64,
            database_bytes: sum(false),
            blob_bytes: sum(true) + orphans,
            leftovers: self.leftovers(before.millis)?.len() as u64,
            ..counted(&gone)
        })
    }

    /// The old versions that only a snapshot or branch held that is gone. Those of a workspace that keeps no more than it must go with
    /// its retention, which comes first.
    async fn unheld_versions(&self) -> Result<u64> {
        let mut count = 0;
        for workspace in self.handles()? {
            if workspace.keep().await?.is_everything() {
                let number = workspace.number;
                let look = |session: Session<'_>| droppable(session, number, session.oldest(number)?.seq);
                count += self.shared.database.read(look)?;
            }
        }
        Ok(count)
    }

    /// Removes the workspaces deleted before `before`: out of sight at once, and then a slice at a time.
    async fn purge(&self, before: i64, collected: &mut Collected) -> Result<()> {
        let now = stored_time(self.shared.clock.now());
        let hide = move |session: Session<'_>| {
            for id in doomed(session, before)? {
                session.set_name(id, None)?;
                session.hide(id, true, now)?;
            }
            session.leftovers(before)
        };
        let hidden = self.shared.writer.write(Durability::Full, hide).await?;
        for gone in hidden {
            self.remove_hidden(gone.0).await?;
            *collected += counted(&[gone]);
        }
        Ok(())
    }

    /// Removes a workspace that nobody sees.
    pub(crate) async fn remove_hidden(&self, id: i64) -> Result<()> {
        let now = stored_time(self.shared.clock.now());
        // Another collection may have removed it meanwhile; its number must then not be put down again.
        let claim = move |session: Session<'_>| match session.workspace(id)? {
            Some(_) => session.hide(id, true, now).map(|()| true),
            None => Ok(false),
        };
        if !self.shared.writer.write(Durability::Relaxed, claim).await? {
            return Ok(());
        }
        let slice = move |session: Session<'_>| session.remove_slice(id, ROWS);
        while self.shared.writer.write(Durability::Relaxed, slice).await? {}
        let rest = move |session: Session<'_>| session.remove_workspace(id);
        self.shared.writer.write(Durability::Full, rest).await
    }

    /// Everything that is named: by an entry at any point, or by a list of parts that is, or that is too young to be swept.
    async fn marked(&self, before: Before, without: &[i64]) -> Result<HashSet<Address>> {
        let (database, content) = (&self.shared.database, &self.shared.content);
        // The logs first: what enters the journal meanwhile is found in one or the other.
        let mut named: HashSet<_> = match &self.shared.home {
            Some(home) => named_by_logs(home)?.into_iter().collect(),
            None => HashSet::new(),
        };
        named.extend(database.read(|session| session.named_addresses(without))?);
        for list in database.read(|session| session.lists())? {
            let piece = database.read(|session| session.content_piece(list))?;
            let is_young = piece.is_some_and(|piece| piece.touched >= before.millis);
            if !named.contains(&list) && !is_young {
                continue;
            }
            match content.parts(database, list).await {
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

    /// The pieces that nothing names and that are old.
    fn unnamed(&self, named: &HashSet<Address>, before: Before) -> Result<Vec<(Address, PieceRow)>> {
        let mut unnamed = Vec::new();
        let mut after = None;
        loop {
            let addresses = self.shared.database.read(|session| session.addresses(after, SLICE))?;
            let Some(last) = addresses.last() else {
                return Ok(unnamed);
            };
            after = Some(*last);
            for address in addresses.into_iter().filter(|address| !named.contains(address)) {
                let piece = self.shared.database.read(|session| session.content_piece(address))?;
                let old = piece.filter(|piece| piece.touched < before.millis);
                unnamed.extend(old.map(|piece| (address, piece)));
            }
        }
    }

    /// Removes the rows of pieces that are still old; gives how many, and the bytes that the database held of them.
    async fn sweep_rows(&self, unnamed: Vec<(Address, PieceRow)>, before: i64) -> Result<(u64, u64)> {
        let sweep = move |session: Session<'_>| {
            // A secret that is collected is to be gone, not to lie in a free page; nobody else's writes pay for that.
            session.overwrite_removed(true)?;
            let removed = remove(session, unnamed, before);
            session.overwrite_removed(false)?;
            removed
        };
        self.shared.writer.write(Durability::Full, sweep).await
    }

    /// Removes the blobs that no row names, those of writes that were refused or cut short included.
    async fn sweep_blobs(&self, before: i64, bytes: &mut u64) -> Result<()> {
        for slice in self.orphans(before).await?.chunks(SLICE) {
            let (slice, shared) = (slice.to_vec(), self.shared.clone());
            let sweep = move |session: Session<'_>| {
                let mut bytes = 0;
                for (address, _) in slice {
                    if session.content_touched(address)?.is_none() {
                        bytes += shared.content.remove_blob(address)?;
                    }
                }
                Ok(bytes)
            };
            *bytes += self.shared.writer.write(Durability::Full, sweep).await?;
        }
        Ok(())
    }

    /// The blobs written before `before` that no row names, each with its size.
    pub(crate) async fn orphans(&self, before: i64) -> Result<Vec<(Address, u64)>> {
        let mut old = self.shared.content.old_blobs(before).await?;
        let is_named = |address: &Address| {
            let touched = self.shared.database.read(|session| session.content_touched(*address));
            // One that cannot be looked up is left alone.
            touched.map_or(true, |touched| touched.is_some())
        };
        old.retain(|(address, _)| !is_named(address));
        Ok(old)
    }
}

/// What goes with these workspaces, each with whether it was deleted, and not left by an import.
fn counted(gone: &[(i64, bool)]) -> Collected {
    let workspaces = gone.iter().filter(|(_, was_deleted)| *was_deleted).count() as u64;
    Collected {
        workspaces,
        imports: gone.len() as u64 - workspaces,
        ..Collected::default()
    }
}

fn remove(session: Session<'_>, unnamed: Vec<(Address, PieceRow)>, before: i64) -> Result<(u64, u64)> {
    let (mut pieces, mut bytes) = (0, 0);
    for (address, piece) in unnamed {
        if session.remove_content(address, before)? {
            pieces += 1;
            bytes += if piece.is_blob { 0 } else { piece.stored };
        }
    }
    Ok((pieces, bytes))
}

/// The workspaces that were deleted before `before` and that no other needs; those without branches first, so that a whole line of them
/// can go.
fn doomed(session: Session<'_>, before: i64) -> Result<Vec<i64>> {
    let mut rows = session.workspaces()?;
    rows.sort_by_key(|row| std::cmp::Reverse(row.id));
    let mut doomed: Vec<i64> = Vec::new();
    for row in rows
        .iter()
        .filter(|row| row.deleted.is_some_and(|deleted| deleted < before))
    {
        let branches = session.branches_of(row.id)?;
        if branches.iter().all(|branch| doomed.contains(branch)) {
            doomed.push(row.id);
        }
    }
    Ok(doomed)
}
