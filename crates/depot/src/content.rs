//! Content by address: what is stored is found by the BLAKE3 of its bytes and verified against it whenever it is read.
//!
//! Small content is one piece in the database. Larger content is cut where the content itself says so ([`cut`]), each part a piece of its
//! own in the blob store, and the file's address is that of the list of parts. An edit in the middle or an append to a large file
//! then stores the parts it changed, and a range is read and verified without the rest. The cuts depend on the content alone, so the
//! same content has the same address however it was written.

mod apart;
mod cut;
mod encoding;
mod folder;
mod pieces;
mod plan;
mod store;
mod sync;
mod whole;

use std::fmt;
use std::ops::Deref;

pub(crate) use store::{ContentStore, PlainPiece, Prepared};
pub(crate) use sync::folders;

/// The address of a piece of content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address(pub(crate) [u8; 32]);

impl Address {
    /// The address of bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The address of a list of parts. Derived with a key of its own, so that a file that happens to look like a list is not one.
    pub(crate) fn of_list(list: &[u8]) -> Self {
        Self(blake3::derive_key("garret depot list of parts", list))
    }

    /// The address that `digits` spell.
    pub(crate) fn from_hex(digits: &str) -> Option<Self> {
        blake3::Hash::from_hex(digits).ok().map(|hash| Self(*hash.as_bytes()))
    }

    /// The address in hexadecimal digits.
    pub(crate) fn to_hex(self) -> String {
        self.hex_digits().to_owned()
    }

    /// The same where they are only looked at.
    pub(crate) fn hex_digits(self) -> impl Deref<Target = str> {
        blake3::Hash::from_bytes(self.0).to_hex()
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.to_hex()[..12])
    }
}
