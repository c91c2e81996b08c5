//! Pieces of content on their way to or from another depot, and what is really stored of one, whatever its row says.

use bytes::Bytes;
use garret_core::{Durability, ErrorKind, Result};

use super::super::Address;
use super::super::cut::LONGEST;
use super::super::encoding::{Decoded, decode, list_bytes, parts_of};
use super::super::plan::{Piece, Plan};
use super::{ContentStore, Prepared};
use crate::error::{damaged, is_unreadable};
use crate::metadata::Database;

/// A piece as it travels: its bytes, not how they are stored.
#[derive(Debug, Clone)]
pub(crate) struct PlainPiece {
    pub(crate) address: Address,
    /// Whether it is the list of a larger content's parts.
    pub(crate) is_list: bool,
    pub(crate) bytes: Bytes,
}

impl PlainPiece {
    /// Checks that the bytes are those of the address.
    pub(crate) fn verified(self) -> Result<Self> {
        let found = match self.is_list {
            true => Address::of_list(&self.bytes),
            false => Address::of(&self.bytes),
        };
        match found == self.address {
            true => Ok(self),
            false => Err(damaged("its bytes do not match its hash")),
        }
    }

    /// The parts of a list with their sizes; `None` where its bytes are none of a list.
    pub(crate) fn sized_parts(&self) -> Option<Vec<(Address, u64)>> {
        let parts = parts_of(&self.bytes);
        let is_list = !parts.is_empty() && list_bytes(&parts) == self.bytes;
        is_list.then(|| parts.into_iter().map(|part| (part.address, part.size)).collect())
    }

    /// The parts of a list; none of anything else.
    pub(crate) fn parts(&self) -> Vec<Address> {
        match self.is_list {
            true => parts_of(&self.bytes).into_iter().map(|part| part.address).collect(),
            false => Vec::new(),
        }
    }
}

/// What is stored at an address, found out from the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FoundPiece {
    pub(crate) is_list: bool,
    pub(crate) size: u64,
    pub(crate) stored: u64,
}

impl ContentStore {
    /// The piece at `address`, verified.
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

    /// Brings the blob of a piece into place, ahead of the transaction that records it.
    pub(crate) async fn prepare_piece(
        &self,
        database: &Database,
        piece: PlainPiece,
        durability: Durability,
    ) -> Result<Prepared> {
        let piece = piece.verified()?;
        let planned = match piece.is_list {
            true => Piece::list(&parts_of(&piece.bytes)),
            false => Piece::whole(piece.bytes),
        };
        let is_relied_on = |address| database.read(|session| self.is_relied_on(session, address));
        let plan = Plan {
            address: planned.address,
            size: planned.size,
            pieces: vec![planned],
        };
        self.place(plan, &is_relied_on, durability).await
    }

    /// What the blob store holds at `address`, where that is whole; `None` where it holds nothing, or something else, or does
    /// not give it.
    pub(crate) async fn found_blob(&self, address: Address) -> Result<Option<FoundPiece>> {
        match self.encoded(address, None).await {
            Ok(encoded) => Ok(found(encoded, address)),
            Err(error) if error.kind() == ErrorKind::Corrupt || is_unreadable(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What `data`, the bytes that the database holds for `address`, is; `None` where it is something else.
    pub(crate) fn found_inline(data: Vec<u8>, address: Address) -> Option<FoundPiece> {
        found(data.into(), address)
    }
}

/// Decodes without trusting a row: a piece is never larger than the longest part, and the size of a list is the sum of its parts.
fn found(encoded: Bytes, address: Address) -> Option<FoundPiece> {
    let stored = encoded.len() as u64;
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
