//! The content of a portable file, as far as it must fit: every entry finds what it names, and every list what it is a list of.

use std::collections::HashMap;

use garret_core::Result;

use super::file::damaged;
use crate::content::{Address, PlainPiece};

/// What a look through a file found of content.
#[derive(Default)]
pub(super) struct Contents {
    /// The sizes that entries say.
    wanted: HashMap<Address, u64>,
    /// The sizes of pieces.
    pieces: HashMap<Address, u64>,
    /// The parts of lists: address and size.
    lists: HashMap<Address, Vec<(Address, u64)>>,
}

impl Contents {
    /// Notes a piece that was verified.
    pub(super) fn add(&mut self, piece: &PlainPiece) -> Result<()> {
        match piece.is_list {
            true => {
                let parts = piece.sized_parts().ok_or_else(unfit)?;
                self.lists.insert(piece.address, parts);
            }
            false => drop(self.pieces.insert(piece.address, piece.bytes.len() as u64)),
        }
        Ok(())
    }

    /// Notes that an entry names a content, and its size.
    pub(super) fn want(&mut self, address: Address, size: u64) -> Result<()> {
        match *self.wanted.entry(address).or_insert(size) == size {
            true => Ok(()),
            false => Err(wrong_size()),
        }
    }

    /// Checks that everything is there, and of the size that is said.
    pub(super) fn check(&self) -> Result<()> {
        self.lists.values().try_for_each(|parts| self.check_parts(parts))?;
        for (address, size) in &self.wanted {
            let found = match (self.pieces.get(address), self.lists.get(address)) {
                (Some(size), _) => *size,
                (None, Some(parts)) => parts.iter().map(|(_, size)| size).sum(),
                (None, None) => return Err(missing()),
            };
            if found != *size {
                return Err(wrong_size());
            }
        }
        Ok(())
    }

    /// The parts of a list are pieces, no lists, and as large as it says; together they have a size.
    fn check_parts(&self, parts: &[(Address, u64)]) -> Result<()> {
        let mut total: u64 = 0;
        for (address, size) in parts {
            match self.pieces.get(address) {
                Some(found) if found == size => {}
                None if !self.lists.contains_key(address) => return Err(missing()),
                _ => return Err(unfit()),
            }
            total = total.checked_add(*size).ok_or_else(unfit)?;
        }
        Ok(())
    }
}

fn missing() -> garret_core::Error {
    damaged("content is missing")
}

fn unfit() -> garret_core::Error {
    damaged("a list of parts does not match its parts")
}

fn wrong_size() -> garret_core::Error {
    damaged("the size of an entry does not match its content")
}
