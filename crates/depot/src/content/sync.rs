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

use super::blob_folder::BlobFolder;
use super::encoding::{DecodedPiece, decode_piece};
use super::store::blob_path;
use super::{ContentStore, PieceAddress};
use crate::error::{blob_not_written, home_not_usable};
use crate::metadata::MetadataSession;

/// Returns the names of the folders of a blob store, one for each first byte of an address.
pub(crate) fn blob_folder_names() -> impl Iterator<Item = String> {
    (0..=u8::MAX).map(|first| format!("{first:02x}"))
}

impl ContentStore {
    /// Syncs every blob that is listed as unsynced, and removes it from the list. Called inside the transaction of a
    /// durable change, so that the content which the change builds upon is as durable as the change. A blob that is
    /// lost stays listed; reading it is `corrupt`.
    pub(crate) fn sync_listed(&self, session: MetadataSession<'_>) -> Result<()> {
        let listed = session.contents().unsynced_blobs()?;
        let Some(blobs) = self.folder.as_ref().filter(|_| !listed.is_empty()) else {
            // Blobs in memory need no sync.
            return listed
                .into_iter()
                .try_for_each(|address| session.contents().remove_unsynced(address));
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
            sync_path(&blobs.path().join(folder)).map_err(|error| home_not_usable(&error))?;
        }
        synced
            .into_iter()
            .try_for_each(|address| session.contents().remove_unsynced(address))
    }

    /// Syncs a blob; returns whether it exists and is synced.
    fn sync_blob(&self, session: MetadataSession<'_>, blobs: &BlobFolder, address: PieceAddress) -> Result<bool> {
        match sync_path(&blobs.blob_file(address)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            // After a failed sync, the kernel may report the next sync as a success without the data: so the blob is
            // written again.
            Err(_) => self.rewrite_blob(session, address),
        }
    }

    fn rewrite_blob(&self, session: MetadataSession<'_>, address: PieceAddress) -> Result<bool> {
        let data = session.contents().content(address)?.and_then(|row| row.data);
        let encoded = match block_on(self.read_encoded(address, data)) {
            Ok(encoded) => encoded,
            Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(false),
            Err(error) => return Err(error),
        };
        let written = block_on(self.synced.put(&blob_path(address), PutPayload::from(encoded)));
        written.map(|_| true).map_err(blob_not_written)
    }

    /// Returns whether the piece at `address` is sound, as the open transaction sees it. The parts of a list are not
    /// checked.
    pub(crate) fn is_piece_sound(&self, session: MetadataSession<'_>, address: PieceAddress) -> Result<bool> {
        self.read_piece_in(session, address).map(|piece| piece.is_some())
    }

    /// Returns the parts of the content at `address`, as the open transaction sees it; none if it is one piece or
    /// damaged.
    pub(crate) fn list_parts_in(
        &self,
        session: MetadataSession<'_>,
        address: PieceAddress,
    ) -> Result<Vec<PieceAddress>> {
        match self.read_piece_in(session, address)? {
            Some(DecodedPiece::List(parts)) => Ok(parts.into_iter().map(|part| part.address).collect()),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the decoded piece at `address`; `None` if it is lost or damaged. A failure of the database or of the
    /// disk is an error: a disk that cannot be read must not look like lost content.
    fn read_piece_in(&self, session: MetadataSession<'_>, address: PieceAddress) -> Result<Option<DecodedPiece>> {
        let Some(row) = session.contents().content(address)? else {
            return Ok(None);
        };
        let decoded =
            block_on(self.read_encoded(address, row.data)).and_then(|encoded| decode_piece(encoded, address, row.size));
        match decoded {
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
            decoded => decoded.map(Some),
        }
    }
}

fn sync_path(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}
