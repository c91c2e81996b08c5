//! Blobs that are files, read where they lie. The blob store's interface changes threads twice for each of them, which for the many parts
//! of a large file costs as much as reading them.

#![allow(clippy::disallowed_methods, reason = "the files of the blob store are read here")]

use std::path::{Path, PathBuf};

use bytes::Bytes;
use garret_core::Result;

use super::Address;
use super::store::blob_path;
use crate::error::blob_file_not_read;

/// The directory of a blob store.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The file of the blob at `address`.
    pub(super) fn file(&self, address: Address) -> PathBuf {
        self.0.join(blob_path(address).as_ref())
    }

    pub(super) fn has(&self, address: Address) -> bool {
        std::fs::metadata(self.file(address)).is_ok_and(|found| found.is_file())
    }

    pub(super) fn read(&self, address: Address) -> Result<Bytes> {
        let read = std::fs::read(self.file(address));
        read.map(Bytes::from).map_err(|error| blob_file_not_read(&error))
    }
}
