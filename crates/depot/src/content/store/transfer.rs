//! Reads and stores pieces of content for a transfer to or from another depot, and decodes stored pieces without
//! trusting their rows.

use bytes::Bytes;
use garret_core::{Durability, ErrorKind, Result};

use super::super::PieceAddress;
use super::super::chunking::LONGEST;
use super::super::encoding::{DecodedPiece, decode_piece, list_bytes, parse_parts};
use super::super::plan::{ContentPiece, ContentPlan};
use super::{ContentStore, PreparedContent};
use crate::error::{damaged_content, is_content_unreadable};
use crate::metadata::MetadataDatabase;

/// A piece in the form of a transfer: its decoded bytes.
#[derive(Debug, Clone)]
pub struct PlainPiece {
    /// The address.
    pub address: PieceAddress,
    /// Whether the piece is the list of a larger content's parts.
    pub is_list: bool,
    /// The bytes.
    pub bytes: Bytes,
}

impl PlainPiece {
    /// Checks that the bytes match the address.
    pub fn verify_address(self) -> Result<Self> {
        let found = if self.is_list {
            PieceAddress::of_list(&self.bytes)
        } else {
            PieceAddress::of_bytes(&self.bytes)
        };
        if found == self.address {
            Ok(self)
        } else {
            Err(damaged_content("its bytes do not match its hash"))
        }
    }

    /// Returns the parts of a list with their sizes; `None` if the bytes do not form a list.
    pub fn sized_parts(&self) -> Option<Vec<(PieceAddress, u64)>> {
        let parts = parse_parts(&self.bytes);
        let is_list = !parts.is_empty() && list_bytes(&parts) == self.bytes;
        is_list.then(|| parts.into_iter().map(|part| (part.address, part.size)).collect())
    }

    /// Returns the parts of a list; none if the piece is no list.
    pub fn part_addresses(&self) -> Vec<PieceAddress> {
        if self.is_list {
            parse_parts(&self.bytes).into_iter().map(|part| part.address).collect()
        } else {
            Vec::new()
        }
    }
}

/// The properties of a stored piece, read from its bytes instead of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PieceProperties {
    pub(crate) is_list: bool,
    pub(crate) size: u64,
    pub(crate) stored: u64,
}

impl ContentStore {
    /// Returns the verified piece at `address`.
    pub(crate) async fn read_plain_piece(
        &self,
        database: &MetadataDatabase,
        address: PieceAddress,
    ) -> Result<PlainPiece> {
        let row = |address| database.read(|session| session.contents().content(address));
        let (is_list, bytes) = match self.read_piece(&row, address).await? {
            DecodedPiece::Whole(bytes) => (false, bytes),
            DecodedPiece::List(parts) => (true, list_bytes(&parts).into()),
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
        database: &MetadataDatabase,
        piece: PlainPiece,
        durability: Durability,
    ) -> Result<PreparedContent> {
        let piece = piece.verify_address()?;
        let planned = if piece.is_list {
            ContentPiece::from_parts(&parse_parts(&piece.bytes))
        } else {
            ContentPiece::from_bytes(piece.bytes)
        };
        let is_relied_on = |address| database.read(|session| self.is_reusable(session, address));
        let plan = ContentPlan {
            address: planned.address,
            size: planned.size,
            pieces: vec![planned],
        };
        self.store_plan(plan, &is_relied_on, durability).await
    }

    /// Returns the properties of the blob at `address`; `None` if there is no blob, or if it is damaged or cannot be
    /// read.
    pub(crate) async fn inspect_blob(&self, address: PieceAddress) -> Result<Option<PieceProperties>> {
        match self.read_encoded(address, None).await {
            Ok(encoded) => Ok(inspect_encoded(encoded, address)),
            Err(error) if error.kind() == ErrorKind::Corrupt || is_content_unreadable(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the properties of `data`, the bytes that the database holds for `address`; `None` if they do not match
    /// the address.
    pub(crate) fn inspect_inline(data: Vec<u8>, address: PieceAddress) -> Option<PieceProperties> {
        inspect_encoded(data.into(), address)
    }
}

/// Decodes a piece without its row.
fn inspect_encoded(encoded: Bytes, address: PieceAddress) -> Option<PieceProperties> {
    let stored = encoded.len() as u64;
    // No piece is larger than the longest part, so that bound can stand in for the size from the row.
    match decode_piece(encoded, address, LONGEST as u64).ok()? {
        DecodedPiece::Whole(bytes) => Some(PieceProperties {
            is_list: false,
            size: bytes.len() as u64,
            stored,
        }),
        DecodedPiece::List(parts) => Some(PieceProperties {
            is_list: true,
            size: parts.iter().map(|part| part.size).sum(),
            stored,
        }),
    }
}
