//! Direct reads of blobs that are files. The interface of the blob store changes threads twice for each blob, which for
//! the many parts of a large file costs as much as reading them.

#![allow(clippy::disallowed_methods, reason = "the files of the blob store are read here")]

use std::fs::{DirEntry, Metadata};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use garret_core::Result;

use super::PieceAddress;
use super::blob_folder_names;
use super::store::blob_path;
use super::verified_blobs::VerifiedBlobs;
use crate::error::blob_file_not_read;

/// The directory of a blob store.
#[derive(Debug)]
pub(super) struct BlobFolder {
    path: PathBuf,
    found_whole: VerifiedBlobs,
}

impl BlobFolder {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            found_whole: VerifiedBlobs::default(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the file that holds the blob at `address`.
    pub(super) fn blob_file(&self, address: PieceAddress) -> PathBuf {
        self.path.join(blob_path(address).as_ref())
    }

    pub(super) fn has_blob(&self, address: PieceAddress) -> bool {
        std::fs::metadata(self.blob_file(address)).is_ok_and(|found| found.is_file())
    }

    /// Remembers that the blob at `address` was just read and verified.
    pub(super) fn note_verified(&self, address: PieceAddress) {
        if let Ok(file) = std::fs::metadata(self.blob_file(address)) {
            self.found_whole.note_verified(address, &file);
        }
    }

    /// Returns whether the blob at `address` was verified before and its file has not changed since.
    pub(super) fn was_verified(&self, address: PieceAddress) -> bool {
        std::fs::metadata(self.blob_file(address)).is_ok_and(|file| self.found_whole.is_verified(address, &file))
    }

    pub(super) fn read_blob(&self, address: PieceAddress) -> Result<Bytes> {
        let read = std::fs::read(self.blob_file(address));
        read.map(Bytes::from).map_err(|error| blob_file_not_read(&error))
    }

    /// Returns the blobs written before `before`, in milliseconds, each with its size. Files that are no blobs, and
    /// files that cannot be read, are skipped.
    pub(super) fn old_blobs(&self, before: i64) -> Result<Vec<(PieceAddress, u64)>> {
        let mut old = Vec::new();
        for folder in blob_folder_names() {
            let files = match std::fs::read_dir(self.path.join(&folder)) {
                Ok(files) => files,
                Err(_) => continue,
            };
            let named = |file: &DirEntry| {
                let name = file.file_name();
                PieceAddress::from_hex(&format!("{folder}{}", name.to_str()?))
            };
            for file in files.flatten() {
                if let (Some(address), Ok(found)) = (named(&file), file.metadata())
                    && found.is_file()
                    && modified_millis(&found) < before
                {
                    old.push((address, found.len()));
                }
            }
        }
        Ok(old)
    }
}

/// Returns the time of a file's last modification, in milliseconds since 1970.
pub(crate) fn modified_millis(metadata: &Metadata) -> i64 {
    let time = metadata.modified().ok();
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
