//! Versions of local files.
//!
//! A version token is a hash of (inode, size, mtime, ctime). Two changes within one tick of the file system's clock
//! could leave all four alike, so the token of a young file also carries, after `~`, a hash of its content. A token is
//! always made from a stat taken *before* the content is read: a program that writes in place meanwhile can cause a
//! conflict, never a lost update.

use std::os::fd::AsFd;

use garret_core::time::is_young_file;
use garret_core::{Timestamp, Version};
use rustix::fs::Stat;
use rustix::io::{Errno, pread};

/// Most files are small, and clearing a large buffer costs more than reading one of them.
const FIRST_CHUNK_BYTES: usize = 8 * 1024;
const CHUNK_BYTES: usize = 128 * 1024;

/// The fields of a stat from which a version is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StatFingerprint {
    inode: u64,
    size: u64,
    modified: (i64, u32),
    changed: (i64, u32),
}

impl StatFingerprint {
    #[allow(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
    pub(super) fn from_stat(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as u32),
        }
    }

    /// Returns whether another change in the same tick of the clock would leave this stat unchanged.
    pub(super) fn is_young(&self, now: Timestamp) -> bool {
        // The kernel sets ctime at every change of content or mtime. A program can set mtime by hand, to a future time
        // that would keep the file young for ever.
        is_young_file(&[self.changed, self.modified], now)
    }

    /// Returns whether at most ctime differs, as it does when a file gets or loses a hard link.
    pub(super) fn differs_only_in_names(&self, other: &Self) -> bool {
        let changed = self.changed;
        *self == Self { changed, ..*other }
    }

    fn stat_token(&self) -> String {
        let numbers = [
            self.inode,
            self.size,
            self.modified.0 as u64,
            u64::from(self.modified.1),
            self.changed.0 as u64,
            u64::from(self.changed.1),
        ];
        let mut bytes = [0; 48];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        shorten_hash(&blake3::hash(&bytes))
    }

    /// Returns the version of a file that is not young.
    pub(super) fn version_when_old(&self) -> Version {
        Version::new(self.stat_token())
    }

    /// Returns the version, with a hash of the content if the file is young; `hash` is called only then.
    pub(super) fn version_at<E>(
        &self,
        now: Timestamp,
        hash: impl FnOnce() -> Result<ContentHash, E>,
    ) -> Result<Version, E> {
        let token = self.stat_token();
        if !self.is_young(now) {
            return Ok(Version::new(token));
        }
        Ok(Version::new(format!("{token}~{}", hash()?.0)))
    }

    /// Returns whether `wanted` is a version of this state; `hash` is called only if the stat alone does not decide.
    pub(super) fn matches_version<E>(
        &self,
        wanted: &Version,
        hash: impl FnOnce() -> Result<ContentHash, E>,
    ) -> Result<bool, E> {
        let (stat, content) = wanted
            .as_str()
            .split_once('~')
            .map_or((wanted.as_str(), None), |(stat, content)| (stat, Some(content)));
        if stat != self.stat_token() {
            return Ok(false);
        }
        content.map_or(Ok(true), |content| Ok(hash()?.0 == content))
    }
}

/// A hash of a file's whole content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContentHash(String);

impl ContentHash {
    pub(super) fn of_bytes(content: &[u8]) -> Self {
        Self(shorten_hash(&blake3::hash(content)))
    }

    /// Hashes the whole content of `file`.
    pub(super) fn of_file(file: impl AsFd) -> Result<Self, Errno> {
        let mut hasher = ContentHasher::default();
        let mut buffer = vec![0; FIRST_CHUNK_BYTES];
        let mut offset = 0;
        loop {
            match pread(&file, &mut buffer[..], offset) {
                Ok(0) => return Ok(hasher.finish()),
                Ok(count) => {
                    hasher.add(&buffer[..count]);
                    offset += count as u64;
                    if count == FIRST_CHUNK_BYTES {
                        buffer.resize(CHUNK_BYTES, 0);
                    }
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

/// Computes the hash of content that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct ContentHasher(blake3::Hasher);

impl ContentHasher {
    pub(super) fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(super) fn finish(&self) -> ContentHash {
        ContentHash(shorten_hash(&self.0.finalize()))
    }
}

/// Shortens a hash to 64 bits, which are enough to tell the states of one file apart.
fn shorten_hash(hash: &blake3::Hash) -> String {
    hash.to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn snapshot(modified: (i64, u32)) -> StatFingerprint {
        StatFingerprint {
            inode: 7,
            size: 3,
            modified,
            changed: modified,
        }
    }

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    fn hash(text: &str) -> Result<ContentHash, Infallible> {
        Ok(ContentHash::of_bytes(text.as_bytes()))
    }

    #[test]
    fn a_file_is_young_until_the_clock_can_tell_its_changes_apart() {
        let fine = snapshot((10, 1));
        assert!(fine.is_young(at(10_049)));
        assert!(!fine.is_young(at(10_051)));
        assert!(fine.is_young(at(9_000)), "a time in the future tells nothing");
        let coarse = snapshot((10, 0));
        assert!(coarse.is_young(at(12_499)));
        assert!(!coarse.is_young(at(12_501)));
    }

    #[test]
    fn a_modification_time_set_by_hand_keeps_no_file_young() {
        let dated = StatFingerprint {
            modified: (4_000_000_000, 0),
            ..snapshot((10, 1))
        };
        assert!(dated.is_young(at(10_049)));
        assert!(!dated.is_young(at(10_051)));
    }

    #[test]
    fn the_version_of_a_young_file_tells_contents_apart() {
        let state = snapshot((10, 1));
        let young = state.version_at(at(10_010), || hash("one")).unwrap();
        assert!(state.matches_version(&young, || hash("one")).unwrap());
        assert!(!state.matches_version(&young, || hash("two")).unwrap());
    }

    #[test]
    fn a_version_taken_young_holds_when_the_file_is_old() {
        let state = snapshot((10, 1));
        let young = state.version_at(at(10_010), || hash("one")).unwrap();
        let old = state.version_at(at(20_000), || hash("one")).unwrap();
        assert_ne!(young, old);
        assert!(state.matches_version(&young, || hash("one")).unwrap());
        assert!(
            state
                .matches_version(&old, || -> Result<_, Infallible> {
                    panic!("an old version needs no content")
                })
                .unwrap()
        );
    }
}
