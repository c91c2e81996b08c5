//! The home as a directory of files: the size of the database, and unfinished files among the blobs that a process left
//! when it ended.

#![allow(
    clippy::disallowed_methods,
    reason = "this file looks at the home as a folder, below the blob store"
)]

use std::io;
use std::path::{Path, PathBuf};

use garret_core::Result;

use crate::content::modified_millis;
use crate::depot::Depot;
use crate::error;

impl Depot {
    /// Returns the unfinished files among the blobs that are older than `before`, in milliseconds.
    pub(crate) fn unfinished_files(&self, before: i64) -> Result<Vec<PathBuf>> {
        let Some(home) = &self.shared.home else {
            return Ok(Vec::new());
        };
        find_unfinished(&home.join("blobs"), before).map_err(|error| error::home_not_usable(&error))
    }

    /// Removes the unfinished files older than `before`; returns their number.
    pub(crate) fn remove_unfinished_files(&self, before: i64) -> Result<u64> {
        let files = self.unfinished_files(before)?;
        // A file that cannot be removed was finished or removed by another process meanwhile.
        let removed = files.iter().filter(|file| std::fs::remove_file(file).is_ok());
        Ok(removed.count() as u64)
    }

    /// Returns the bytes of the database on the disk, its log included; 0 in memory.
    pub(crate) fn database_bytes(&self) -> u64 {
        let Some(home) = &self.shared.home else { return 0 };
        let size = |name: &str| std::fs::metadata(home.join(name)).map_or(0, |file| file.len());
        ["depot.db", "depot.db-wal", "depot.db-shm"].into_iter().map(size).sum()
    }
}

fn find_unfinished(blobs: &Path, before: i64) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in std::fs::read_dir(blobs)? {
        let folder = folder?;
        if !folder.file_type()?.is_dir() {
            continue;
        }
        // A folder that cannot be read must not hide the others.
        let Ok(files) = std::fs::read_dir(folder.path()) else {
            continue;
        };
        for file in files.flatten() {
            // A file that no longer exists was finished meanwhile.
            let Ok(metadata) = file.metadata() else { continue };
            let is_blob = file.file_name().to_str().is_some_and(is_blob_name);
            if metadata.is_file() && !is_blob && modified_millis(&metadata) < before {
                found.push(file.path());
            }
        }
    }
    Ok(found)
}

/// Returns whether a file has the name of a blob: the digits of its address without the first two, which name its
/// folder.
fn is_blob_name(name: &str) -> bool {
    name.len() == 62 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
