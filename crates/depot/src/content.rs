//! Content by address: stored content is found by the BLAKE3 hash of its bytes, and verified against that hash whenever
//! it is read.
//!
//! Small content is one piece in the database. Larger content is cut into parts at positions that depend on its bytes
//! ([`chunking`]). Each part is a piece of its own in the blob store, and the address of the file is that of the list of its
//! parts. So an edit in the middle of a large file, or an append, stores only the parts that it changed, and a range is
//! read and verified without the rest. The cuts depend on the content alone, so equal content has one address, however
//! it was written.

mod blob_folder;
mod blocking;
mod chunking;
mod encoding;
mod piece_reader;
mod plan;
mod store;
mod sync;
mod verified_blobs;

use std::fmt;
use std::ops::Deref;

pub(crate) use blob_folder::modified_millis;
pub(crate) use store::ContentStore;
pub use store::{PlainPiece, PreparedContent};
pub(crate) use sync::blob_folder_names;

/// The address of a piece of content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PieceAddress(pub(crate) [u8; 32]);

impl PieceAddress {
    /// Returns the address of `bytes`.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Returns the address of a list of parts. The hash uses a key of its own, so that a file whose bytes look like a
    /// list has another address than that list.
    pub(crate) fn of_list(list: &[u8]) -> Self {
        Self(blake3::derive_key("garret depot list of parts", list))
    }

    /// Parses an address from hexadecimal `digits`.
    pub fn from_hex(digits: &str) -> Option<Self> {
        blake3::Hash::from_hex(digits).ok().map(|hash| Self(*hash.as_bytes()))
    }

    /// Returns the address in hexadecimal digits.
    pub fn to_hex(self) -> String {
        self.hex_digits().to_owned()
    }

    /// Returns the hexadecimal digits of the address on the stack, for callers that need no `String`.
    pub(crate) fn hex_digits(self) -> impl Deref<Target = str> {
        blake3::Hash::from_bytes(self.0).to_hex()
    }
}

impl fmt::Debug for PieceAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.to_hex()[..12])
    }
}
