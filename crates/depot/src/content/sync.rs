//! Syncs blobs that were written under relaxed durability, before a durable change relies on them.

#![allow(
    clippy::disallowed_methods,
    reason = "the blob store's interface cannot sync what is there; a folder can"
)]

use std::fs::File;
use std::path::Path;

use futures::executor::block_on;
use garret_core::{ErrorKind, Result};
use object_store::{ObjectStoreExt, PutPayload};

use super::encoding::{Decoded, decode};
use super::folder::Folder;
use super::store::blob_path;
use super::{Address, ContentStore};
use crate::error::{blob_not_written, home};
use crate::metadata::Session;

/// Returns the names of the folders of a blob store, one for each first byte of an address.
pub(crate) fn folders() -> impl Iterator<Item = String> {
    (0..=u8::MAX).map(|first| format!("{first:02x}"))
}

impl ContentStore {
    /// Syncs every blob that is listed as unsynced, and removes it from the list. Called inside the transaction of a
    /// durable change, so that the content which the change builds upon is as durable as the change. A blob that is
    /// lost stays listed; reading it is `corrupt`.
    pub(crate) fn sync_listed(&self, session: Session<'_>) -> Result<()> {
        let listed = session.unsynced()?;
        let Some(blobs) = self.folder.as_ref().filter(|_| !listed.is_empty()) else {
            // Blobs in memory need no sync.
            return listed
                .into_iter()
                .try_for_each(|address| session.remove_unsynced(address));
        };
        let mut synced = Vec::with_capacity(listed.len());
        for address in listed {
            if self.sync_blob(session, blobs, address)? {
                synced.push(address);
            }
        }
        // A new file survives a power failure only if its directory is synced, too; once for each directory is enough.
        let mut touched: Vec<_> = synced.iter().map(|address| address.to_hex()[..2].to_owned()).collect();
        touched.sort();
        touched.dedup();
        for folder in touched {
            sync(&blobs.path().join(folder)).map_err(|error| home(&error))?;
        }
        synced
            .into_iter()
            .try_for_each(|address| session.remove_unsynced(address))
    }

    /// Syncs a blob; returns whether it exists and is synced.
    fn sync_blob(&self, session: Session<'_>, blobs: &Folder, address: Address) -> Result<bool> {
        match sync(&blobs.file(address)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            // After a failed sync, the kernel may report the next sync as a success without the data: so the blob is
            // written again.
            Err(_) => self.write_anew(session, address),
        }
    }

    fn write_anew(&self, session: Session<'_>, address: Address) -> Result<bool> {
        let data = session.content(address)?.and_then(|row| row.data);
        let encoded = match block_on(self.encoded(address, data)) {
            Ok(encoded) => encoded,
            Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(false),
            Err(error) => return Err(error),
        };
        let written = block_on(self.synced.put(&blob_path(address), PutPayload::from(encoded)));
        written.map(|_| true).map_err(blob_not_written)
    }

    /// Returns whether the piece at `address` is sound, as the open transaction sees it. The parts of a list are not
    /// checked.
    pub(crate) fn is_whole(&self, session: Session<'_>, address: Address) -> Result<bool> {
        self.piece_in(session, address).map(|piece| piece.is_some())
    }

    /// Returns the parts of the content at `address`, as the open transaction sees it; none if it is one piece or
    /// damaged.
    pub(crate) fn parts_in(&self, session: Session<'_>, address: Address) -> Result<Vec<Address>> {
        match self.piece_in(session, address)? {
            Some(Decoded::List(parts)) => Ok(parts.into_iter().map(|part| part.address).collect()),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the decoded piece at `address`; `None` if it is lost or damaged. A failure of the database or of the
    /// disk is an error: a disk that cannot be read must not look like lost content.
    fn piece_in(&self, session: Session<'_>, address: Address) -> Result<Option<Decoded>> {
        let Some(row) = session.content(address)? else {
            return Ok(None);
        };
        let decoded = block_on(self.encoded(address, row.data)).and_then(|encoded| decode(encoded, address, row.size));
        match decoded {
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
            decoded => decoded.map(Some),
        }
    }
}

fn sync(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}
