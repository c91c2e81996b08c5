//! Checks that the content of a portable file is complete: every entry finds the content that it names, and every list
//! its parts.

use std::collections::HashMap;

use garret_core::Result;
use garret_depot::transfer::{PieceAddress, PlainPiece};

use super::portable_file::damaged_file;

/// The content that was found in a file, and the content that its entries name.
#[derive(Default)]
pub(super) struct ContentInventory {
    /// The content that entries name, with the size that they give.
    wanted: HashMap<PieceAddress, u64>,
    /// The pieces with their sizes.
    pieces: HashMap<PieceAddress, u64>,
    /// The lists with the address and size of each part.
    lists: HashMap<PieceAddress, Vec<(PieceAddress, u64)>>,
}

impl ContentInventory {
    /// Adds a verified piece.
    pub(super) fn add(&mut self, piece: &PlainPiece) -> Result<()> {
        if piece.is_list {
            let parts = piece.sized_parts().ok_or_else(mismatched_list)?;
            self.lists.insert(piece.address, parts);
        } else {
            self.pieces.insert(piece.address, piece.bytes.len() as u64);
        }
        Ok(())
    }

    /// Adds the content that an entry names, and its size.
    pub(super) fn add_named_content(&mut self, address: PieceAddress, size: u64) -> Result<()> {
        if *self.wanted.entry(address).or_insert(size) == size {
            Ok(())
        } else {
            Err(wrong_size())
        }
    }

    /// Checks that all named content is there and has the given size.
    pub(super) fn check_complete(&self) -> Result<()> {
        self.lists.values().try_for_each(|parts| self.check_parts(parts))?;
        for (address, size) in &self.wanted {
            let found = match (self.pieces.get(address), self.lists.get(address)) {
                (Some(size), _) => *size,
                (None, Some(parts)) => parts.iter().map(|(_, size)| size).sum(),
                (None, None) => return Err(missing_content()),
            };
            if found != *size {
                return Err(wrong_size());
            }
        }
        Ok(())
    }

    /// Checks that the parts of a list are pieces of the given sizes, not lists, and that their total size fits in a
    /// number.
    fn check_parts(&self, parts: &[(PieceAddress, u64)]) -> Result<()> {
        let mut total: u64 = 0;
        for (address, size) in parts {
            match self.pieces.get(address) {
                Some(found) if found == size => {}
                None if !self.lists.contains_key(address) => return Err(missing_content()),
                _ => return Err(mismatched_list()),
            }
            total = total.checked_add(*size).ok_or_else(mismatched_list)?;
        }
        Ok(())
    }
}

fn missing_content() -> garret_core::Error {
    damaged_file("content is missing")
}

fn mismatched_list() -> garret_core::Error {
    damaged_file("a list of parts does not match its parts")
}

fn wrong_size() -> garret_core::Error {
    damaged_file("the size of an entry does not match its content")
}
