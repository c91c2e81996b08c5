//! Reads and stores pieces of content for a transfer to or from another depot, and decodes stored pieces without
//! trusting their rows.

use bytes::Bytes;
use garret_core::{Durability, ErrorKind, Result};

use super::super::Address;
use super::super::cut::LONGEST;
use super::super::encoding::{Decoded, decode, list_bytes, parts_of};
use super::super::plan::{Piece, Plan};
use super::{ContentStore, Prepared};
use crate::error::{damaged, is_unreadable};
use crate::metadata::Database;

/// A piece in the form of a transfer: its decoded bytes.
#[derive(Debug, Clone)]
pub(crate) struct PlainPiece {
    pub(crate) address: Address,
    /// Whether the piece is the list of a larger content's parts.
    pub(crate) is_list: bool,
    pub(crate) bytes: Bytes,
}

impl PlainPiece {
    /// Checks that the bytes match the address.
    pub(crate) fn verified(self) -> Result<Self> {
        let found = if self.is_list {
            Address::of_list(&self.bytes)
        } else {
            Address::of(&self.bytes)
        };
        if found == self.address {
            Ok(self)
        } else {
            Err(damaged("its bytes do not match its hash"))
        }
    }

    /// Returns the parts of a list with their sizes; `None` if the bytes do not form a list.
    pub(crate) fn sized_parts(&self) -> Option<Vec<(Address, u64)>> {
        let parts = parts_of(&self.bytes);
        let is_list = !parts.is_empty() && list_bytes(&parts) == self.bytes;
        is_list.then(|| parts.into_iter().map(|part| (part.address, part.size)).collect())
    }

    /// Returns the parts of a list; none if the piece is no list.
    pub(crate) fn parts(&self) -> Vec<Address> {
        if self.is_list {
            parts_of(&self.bytes).into_iter().map(|part| part.address).collect()
        } else {
            Vec::new()
        }
    }
}

/// The properties of a stored piece, read from its bytes instead of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundPiece {
    pub(crate) is_list: bool,
    pub(crate) size: u64,
    pub(crate) stored: u64,
}

impl ContentStore {
    /// Returns the verified piece at `address`.
    pub(crate) async fn plain_piece(&self, database: &Database, address: Address) -> Result<PlainPiece> {
        let row = |address| database.read(|session| session.content(address));
        let (is_list, bytes) = match self.decoded(&row, address).await? {
            Decoded::Whole(bytes) => (false, bytes),
            Decoded::List(parts) => (true, list_bytes(&parts).into()),
        };
        Ok(PlainPiece {
            address,
            is_list,
            bytes,
        })
    }

    /// Stores the blob of a piece, before the transaction that records it.
    pub(crate) async fn prepare_piece(
        &self,
        database: &Database,
        piece: PlainPiece,
        durability: Durability,
    ) -> Result<Prepared> {
        let piece = piece.verified()?;
        let planned = if piece.is_list {
            Piece::list(&parts_of(&piece.bytes))
        } else {
            Piece::whole(piece.bytes)
        };
        let is_relied_on = |address| database.read(|session| self.is_relied_on(session, address));
        let plan = Plan {
            address: planned.address,
            size: planned.size,
            pieces: vec![planned],
        };
        self.place(plan, &is_relied_on, durability).await
    }

    /// Returns the properties of the blob at `address`; `None` if there is no blob, or if it is damaged or cannot be
    /// read.
    pub(crate) async fn found_blob(&self, address: Address) -> Result<Option<FoundPiece>> {
        match self.encoded(address, None).await {
            Ok(encoded) => Ok(found(encoded, address)),
            Err(error) if error.kind() == ErrorKind::Corrupt || is_unreadable(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the properties of `data`, the bytes that the database holds for `address`; `None` if they do not match
    /// the address.
    pub(crate) fn found_inline(data: Vec<u8>, address: Address) -> Option<FoundPiece> {
        found(data.into(), address)
    }
}

/// Decodes a piece without its row.
fn found(encoded: Bytes, address: Address) -> Option<FoundPiece> {
    let stored = encoded.len() as u64;
    // No piece is larger than the longest part, so that bound can stand in for the size from the row.
    match decode(encoded, address, LONGEST as u64).ok()? {
        Decoded::Whole(bytes) => Some(FoundPiece {
            is_list: false,
            size: bytes.len() as u64,
            stored,
        }),
        Decoded::List(parts) => Some(FoundPiece {
            is_list: true,
            size: parts.iter().map(|part| part.size).sum(),
            stored,
        }),
    }
}
