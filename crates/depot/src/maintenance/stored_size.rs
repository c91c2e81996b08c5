//! Computes the stored size of content. Each piece is counted once, however many files and versions share it.

use std::collections::HashSet;

use garret_core::{ErrorKind, Result};

use crate::content::PieceAddress;
use crate::depot::Depot;

/// A set of pieces that have been counted.
pub(crate) struct CountedPieces<'d> {
    depot: &'d Depot,
    seen: HashSet<PieceAddress>,
}

impl<'d> CountedPieces<'d> {
    /// Returns an empty set for the content of `depot`.
    pub(crate) fn new(depot: &'d Depot) -> Self {
        Self {
            depot,
            seen: HashSet::new(),
        }
    }

    /// Adds the content at `address`; returns the stored bytes of its pieces that were not in the set.
    pub(crate) async fn add_content(&mut self, address: PieceAddress) -> Result<u64> {
        if !self.seen.insert(address) {
            return Ok(0);
        }
        let (stored, parts) = self.depot.stored_pieces(address).await?;
        let mut bytes = stored;
        for part in parts {
            if self.seen.insert(part) {
                bytes += self.depot.stored_bytes(part)?;
            }
        }
        Ok(bytes)
    }
}

impl Depot {
    /// Returns the stored bytes of the piece at `address`, and the addresses of its parts if it is a list. A lost piece
    /// has 0 bytes, and a damaged list no parts.
    pub(crate) async fn stored_pieces(&self, address: PieceAddress) -> Result<(u64, Vec<PieceAddress>)> {
        let (database, content) = (&self.shared.database, &self.shared.content);
        let Some(piece) = database.read(|session| session.contents().content_piece(address))? else {
            return Ok((0, Vec::new()));
        };
        if !piece.is_list {
            return Ok((piece.stored, Vec::new()));
        }
        match content.list_parts(database, address).await {
            Ok(parts) => Ok((piece.stored, parts)),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok((piece.stored, Vec::new())),
            Err(error) => Err(error),
        }
    }

    /// Returns the stored bytes of one piece.
    pub(crate) fn stored_bytes(&self, address: PieceAddress) -> Result<u64> {
        let piece = self
            .shared
            .database
            .read(|session| session.contents().content_piece(address))?;
        Ok(piece.map_or(0, |piece| piece.stored))
    }
}
