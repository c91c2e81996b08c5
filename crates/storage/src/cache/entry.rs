//! The format of a cache file: a mark, a hash over the key and the content, and the content.

use std::fmt;
use std::fs::File;
use std::io::{Read, Write};

use blake3::Hasher;
use bytes::{Buf, Bytes};

const MARK: &[u8; 8] = b"garret\x00\x01";
const HASH_BYTES: usize = 32;
const HEAD_BYTES: usize = MARK.len() + HASH_BYTES;

/// The key of a content. The caller makes sure that two different contents never have the same key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CacheKey([u8; HASH_BYTES]);

impl CacheKey {
    /// Makes a key from several parts.
    pub fn from_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = Hasher::new();
        // The length before each part keeps `ab` + `c` and `a` + `bc` apart.
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// Returns an evenly distributed number, by which the shard is chosen.
    pub(super) fn shard_number(&self) -> usize {
        usize::from(self.0[0])
    }

    /// Returns the name of the cache file.
    pub(super) fn file_name(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex()[..48].to_owned()
    }
}

impl fmt::Debug for CacheKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.file_name())
    }
}

/// Returns the size of the cache file for a content of `content` bytes.
pub(super) fn entry_file_size(content: u64) -> u64 {
    content + HEAD_BYTES as u64
}

/// Writes the mark, the hash and the content.
pub(super) fn write_entry(file: &mut File, key: &CacheKey, content: &[u8]) -> std::io::Result<()> {
    let mut head = [0; HEAD_BYTES];
    head[..MARK.len()].copy_from_slice(MARK);
    head[MARK.len()..].copy_from_slice(hash_entry(key, content).as_bytes());
    file.write_all(&head)?;
    file.write_all(content)
}

/// Reads a cache file of `length` bytes; `None` if its mark or its hash does not match this key.
pub(super) fn read_entry(file: &mut File, key: &CacheKey, length: u64) -> Option<Bytes> {
    let mut bytes = vec![0; usize::try_from(length).ok().filter(|length| *length >= HEAD_BYTES)?];
    file.read_exact(&mut bytes).ok()?;
    let mut bytes = Bytes::from(bytes);
    let head = bytes.split_to(HEAD_BYTES);
    let (mark, mut kept) = head.split_at(MARK.len());
    let mut found = [0; HASH_BYTES];
    kept.copy_to_slice(&mut found);
    (mark == MARK && blake3::Hash::from_bytes(found) == hash_entry(key, &bytes)).then_some(bytes)
}

fn hash_entry(key: &CacheKey, content: &[u8]) -> blake3::Hash {
    // Keyed with the key of the entry, so that a file under the name of another entry fails the check.
    let mut hasher = Hasher::new_keyed(&key.0);
    hasher.update(content);
    hasher.finalize()
}
