//! One content on disk: a mark, a hash over its key and its bytes, and the bytes.

use std::fmt;
use std::fs::File;
use std::io::{Read, Write};

use blake3::Hasher;
use bytes::{Buf, Bytes};

const MARK: &[u8; 8] = b"garret\x00\x01";
const HASH_BYTES: usize = 32;
const HEAD_BYTES: usize = MARK.len() + HASH_BYTES;

/// What tells a content from every other: whoever makes it sees to that.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CacheKey([u8; HASH_BYTES]);

impl CacheKey {
    /// A key of several parts, none of which can be taken for another.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// A number that is spread evenly.
    pub(super) fn number(&self) -> usize {
        usize::from(self.0[0])
    }

    /// The name of its file.
    pub(super) fn name(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex()[..48].to_owned()
    }
}

impl fmt::Debug for CacheKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name())
    }
}

/// How many bytes the file of a content has.
pub(super) fn file_bytes(content: u64) -> u64 {
    content + HEAD_BYTES as u64
}

/// Writes an entry.
pub(super) fn write(file: &mut File, key: &CacheKey, content: &[u8]) -> std::io::Result<()> {
    let mut head = [0; HEAD_BYTES];
    head[..MARK.len()].copy_from_slice(MARK);
    head[MARK.len()..].copy_from_slice(hash(key, content).as_bytes());
    file.write_all(&head)?;
    file.write_all(content)
}

/// Reads an entry of `length` bytes; `None` where it is not what was written under this key.
pub(super) fn read(file: &mut File, key: &CacheKey, length: u64) -> Option<Bytes> {
    let mut bytes = vec![0; usize::try_from(length).ok().filter(|length| *length >= HEAD_BYTES)?];
    file.read_exact(&mut bytes).ok()?;
    let mut bytes = Bytes::from(bytes);
    let head = bytes.split_to(HEAD_BYTES);
    let (mark, mut kept) = head.split_at(MARK.len());
    let mut found = [0; HASH_BYTES];
    kept.copy_to_slice(&mut found);
    (mark == MARK && blake3::Hash::from_bytes(found) == hash(key, &bytes)).then_some(bytes)
}

fn hash(key: &CacheKey, content: &[u8]) -> blake3::Hash {
    let mut hasher = Hasher::new_keyed(&key.0);
    hasher.update(content);
    hasher.finalize()
}
