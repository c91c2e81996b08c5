//! A directory that is being filled, and that is removed again unless it is kept.
//!
//! A new directory is filled under a temporary name beside its final one and is renamed when it is complete, so that
//! not even a crash leaves a part of it under the final name. An existing empty directory is filled in place: it may be
//! a mount point, or the current directory of a process.

#![allow(
    clippy::disallowed_methods,
    reason = "this file makes and removes the directory that an export goes to"
)]

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use garret_core::{Error, ErrorKind, Result};
use garret_handles::{list_names, remove_tree};

use super::{DIRECTORY_MODE, host_error};

/// Number of temporary names that are tried.
const TRIES: u32 = 100;

pub(super) struct UnfinishedDirectory {
    /// The final path.
    root: PathBuf,
    /// The path that is filled: a temporary one beside `root`, or `root` itself.
    place: PathBuf,
    /// The directories that were created for it, the outermost first.
    made: Vec<PathBuf>,
    is_kept: bool,
}

impl UnfinishedDirectory {
    /// Creates the directory to be filled. An existing directory that is not empty is `already_exists`.
    pub(super) fn begin(root: &Path) -> Result<Self> {
        match std::fs::read_dir(root) {
            Ok(mut there) => match there.next() {
                None => Ok(Self::new_at(root, root)),
                Some(_) => Err(target_not_empty()),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::create_beside(root),
            Err(error) => Err(host_error(&error, b"")),
        }
    }

    fn new_at(root: &Path, place: &Path) -> Self {
        Self {
            root: root.to_owned(),
            place: place.to_owned(),
            made: Vec::new(),
            is_kept: false,
        }
    }

    /// Creates a directory beside `root`, on the same file system, so that it can be renamed to `root`.
    fn create_beside(root: &Path) -> Result<Self> {
        let mut unfinished = Self::new_at(root, &temporary_path(root, 0));
        let missing: Vec<_> = root.ancestors().skip(1).take_while(|above| is_missing(above)).collect();
        for parent in missing.into_iter().rev() {
            unfinished
                .make_directory(parent.to_owned())
                .map_err(|error| host_error(&error, b""))?;
        }
        for number in 0..TRIES {
            unfinished.place = temporary_path(root, number);
            match unfinished.make_directory(unfinished.place.clone()) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| unfinished).map_err(|error| host_error(&error, b"")),
            }
        }
        Err(target_not_empty())
    }

    fn make_directory(&mut self, directory: PathBuf) -> std::io::Result<()> {
        DirBuilder::new().mode(DIRECTORY_MODE).create(&directory)?;
        self.made.push(directory);
        Ok(())
    }

    fn remove_entries(&self) -> std::io::Result<()> {
        let directory = File::open(&self.place)?;
        for name in list_names(&directory)? {
            // One entry that stays must not keep the others.
            let _ = remove_tree(&directory, &name);
        }
        Ok(())
    }

    /// Returns the directory to fill.
    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// Keeps the directory, and gives it its final name.
    pub(super) fn keep_directory(mut self) -> Result<()> {
        if self.place != self.root {
            std::fs::rename(&self.place, &self.root).map_err(|error| match error.kind() {
                // The name was free at the start, so another program has created the entry meanwhile.
                std::io::ErrorKind::DirectoryNotEmpty | std::io::ErrorKind::NotADirectory => target_not_empty(),
                _ => host_error(&error, b""),
            })?;
        }
        self.is_kept = true;
        Ok(())
    }
}

/// Removes the partial directory. Failures are ignored: nothing depends on the rest.
impl Drop for UnfinishedDirectory {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        // A place that this export did not create may hold another process's files.
        if self.place == self.root || self.made.contains(&self.place) {
            let _ = self.remove_entries();
        }
        for directory in self.made.iter().rev() {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

/// Returns a name beside `root` that no other process uses.
fn temporary_path(root: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(root.file_name().unwrap_or_default());
    name.push(format!(".garret-part-{}-{number}", std::process::id()));
    root.with_file_name(name)
}

fn is_missing(path: &Path) -> bool {
    !path.as_os_str().is_empty() && !path.exists()
}

fn target_not_empty() -> Error {
    Error::new(ErrorKind::AlreadyExists, "the directory to export to is not empty")
        .hint("name a directory that is empty or does not exist")
}
