//! Collecting garbage: workspaces that were deleted, and content that nothing names any more. Safe while others work.
//!
//! First everything that is named is marked, then what is not is swept. Content that comes to be named in between was either there, and
//! named by the history it came from, or was just written, and then its date spares it: a change re-dates what it refers to in its
//! own transaction. A blob goes in a transaction in which no row names it, and whoever wrote it anew looks for it in theirs.

use std::collections::HashSet;
use std::time::Duration;

use garret_core::Result;

use crate::content::Address;
use crate::depot::Depot;
use crate::metadata::{Session, stored_time};
use garret_core::Durability;

/// Pieces swept in one transaction, so that other writers wait only for that.
const SLICE: usize = 500;

/// What a collection removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Deleted workspaces that are gone for good.
    pub workspaces: u64,
    /// Pieces of content.
    pub pieces: u64,
    /// Bytes of the blobs among them.
    pub blob_bytes: u64,
}

impl Depot {
    /// Removes the workspaces that were deleted, and the content that nothing names, longer than `grace` ago. An hour or more is safe
    /// whatever others do meanwhile; a workspace that others were branched off stays until they are gone.
    pub async fn collect(&self, grace: Duration) -> Result<Collected> {
        let now = self.shared.clock.now();
        let grace_ms = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
        let before = now.as_millisecond().saturating_sub(grace_ms);
        let workspaces = self
            .purge(stored_time(now).saturating_sub(grace_ms.saturating_mul(1_000)))
            .await?;
        let named = self.marked().await?;
        let mut collected = Collected {
            workspaces,
            ..Collected::default()
        };
        let mut after = None;
        loop {
            let addresses = self.shared.database.read(|session| session.addresses(after, SLICE))?;
            let Some(last) = addresses.last() else { break };
            after = Some(*last);
            let unnamed: Vec<_> = addresses
                .into_iter()
                .filter(|address| !named.contains(address))
                .collect();
            collected.pieces += self.sweep_rows(unnamed, before).await?;
        }
        collected.blob_bytes = self.sweep_blobs(before).await?;
        Ok(collected)
    }

    /// Removes the workspaces deleted before `before`; those without branches first, so that a whole line of them can go.
    async fn purge(&self, before: i64) -> Result<u64> {
        let purge = move |session: Session<'_>| {
            let mut rows = session.workspaces()?;
            rows.sort_by_key(|row| std::cmp::Reverse(row.id));
            let mut count = 0;
            for row in rows
                .iter()
                .filter(|row| row.deleted.is_some_and(|deleted| deleted < before))
            {
                if !session.has_branches(row.id)? {
                    session.remove_workspace(row.id)?;
                    count += 1;
                }
            }
            Ok(count)
        };
        self.shared.writer.write(Durability::Full, purge).await
    }

    /// Everything that is named: by an entry at any point, or by a list of parts that is.
    async fn marked(&self) -> Result<HashSet<Address>> {
        let (database, content) = (&self.shared.database, &self.shared.content);
        let mut named: HashSet<_> = database
            .read(|session| session.named_addresses())?
            .into_iter()
            .collect();
        for list in database.read(|session| session.lists())? {
            if named.contains(&list) {
                named.extend(content.parts(database, list).await?);
            }
        }
        Ok(named)
    }

    async fn sweep_rows(&self, addresses: Vec<Address>, before: i64) -> Result<u64> {
        if addresses.is_empty() {
            return Ok(0);
        }
        let sweep = move |session: Session<'_>| {
            let removed = addresses.iter().map(|address| session.remove_content(*address, before));
            let removed = removed.collect::<Result<Vec<_>>>()?;
            Ok(removed.into_iter().filter(|removed| *removed).count() as u64)
        };
        self.shared.writer.write(Durability::Full, sweep).await
    }

    /// Removes the blobs that no row names, those of writes that were refused or cut short included.
    async fn sweep_blobs(&self, before: i64) -> Result<u64> {
        let mut bytes = 0;
        let mut old = self.shared.content.old_blobs(before).await?;
        let is_named = |address: &Address| {
            let touched = self.shared.database.read(|session| session.content_touched(*address));
            // One that cannot be looked up is left alone.
            touched.map_or(true, |touched| touched.is_some())
        };
        old.retain(|address| !is_named(address));
        for slice in old.chunks(SLICE) {
            let (slice, shared) = (slice.to_vec(), self.shared.clone());
            let sweep = move |session: Session<'_>| {
                let mut bytes = 0;
                for address in slice {
                    if session.content_touched(address)?.is_none() {
                        bytes += shared.content.remove_blob(address)?;
                    }
                }
                Ok(bytes)
            };
            bytes += self.shared.writer.write(Durability::Full, sweep).await?;
        }
        Ok(bytes)
    }
}
