//! Remembers which blobs were verified, as long as their files do not change.

#![allow(
    clippy::disallowed_methods,
    reason = "the age of a file is told by the clock that gave it its time"
)]

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::time::SystemTime;

use garret_core::Timestamp;
use garret_core::time::is_young_file;

use super::PieceAddress;

/// The maximum number of remembered blobs.
const REMEMBERED: usize = 1024;

/// The blobs that were read and verified last. An edit of a large file follows a read of it, so the parts that stay
/// need not be read again to verify them.
#[derive(Debug, Default)]
pub(super) struct VerifiedBlobs(Mutex<HashMap<PieceAddress, BlobFileStamp>>);

/// The metadata of a file by which a change of its content is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlobFileStamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl BlobFileStamp {
    fn of_file(file: &Metadata) -> Self {
        Self {
            inode: file.ino(),
            size: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
        }
    }
}

impl VerifiedBlobs {
    /// Remembers that the blob was sound when its file had the metadata `file`.
    pub(super) fn note_verified(&self, address: PieceAddress, file: &Metadata) {
        let modified = (file.mtime(), u32::try_from(file.mtime_nsec()).unwrap_or(0));
        if Timestamp::try_from(SystemTime::now()).is_ok_and(|now| is_young_file(&[modified], now)) {
            return;
        }
        let mut found = self.0.lock().expect("no holder panics");
        // Cleared as a whole: forgetting costs only another read, so an order of use is not worth keeping.
        if found.len() >= REMEMBERED {
            found.clear();
        }
        found.insert(address, BlobFileStamp::of_file(file));
    }

    /// Returns whether the blob was found sound and its file still has the same metadata.
    pub(super) fn is_verified(&self, address: PieceAddress, file: &Metadata) -> bool {
        let found = self.0.lock().expect("no holder panics");
        found.get(&address) == Some(&BlobFileStamp::of_file(file))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use tempfile::NamedTempFile;

    use super::*;

    const OLD: Duration = Duration::from_secs(20);

    fn written_before(file: &File, age: Duration) -> Metadata {
        file.set_modified(SystemTime::now() - age).unwrap();
        file.metadata().unwrap()
    }

    #[test]
    fn a_blob_is_known_to_be_whole_until_its_file_is_touched() {
        let (found, address, file) = (
            VerifiedBlobs::default(),
            PieceAddress::of_bytes(b"a"),
            NamedTempFile::new().unwrap(),
        );
        let before = written_before(file.as_file(), OLD);
        assert!(!found.is_verified(address, &before));
        found.note_verified(address, &before);
        assert!(found.is_verified(address, &before));
        let touched = written_before(file.as_file(), OLD / 2);
        assert!(!found.is_verified(address, &touched));
    }

    #[test]
    fn a_file_that_was_just_written_is_not_known_by_its_time() {
        let (found, address, file) = (
            VerifiedBlobs::default(),
            PieceAddress::of_bytes(b"a"),
            NamedTempFile::new().unwrap(),
        );
        let young = written_before(file.as_file(), Duration::ZERO);
        found.note_verified(address, &young);
        assert!(!found.is_verified(address, &young));
    }

    #[test]
    fn no_more_are_remembered_than_a_file_of_some_size_has() {
        let (found, file) = (VerifiedBlobs::default(), NamedTempFile::new().unwrap());
        let old = written_before(file.as_file(), OLD);
        (0..=REMEMBERED).for_each(|number| found.note_verified(PieceAddress::of_bytes(&number.to_le_bytes()), &old));
        assert_eq!(found.0.lock().unwrap().len(), 1);
    }
}
