//! A directory that is being filled, and gone again unless it is kept.
//!
//! One that is new is filled under another name beside its own and gets its own when it is whole, so that not even a crash leaves a part
//! of it there. One that is there and empty is filled where it is: it may be a mount, or somebody's current directory.

#![allow(
    clippy::disallowed_methods,
    reason = "this file makes and removes the directory that an export goes to"
)]

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use garret_core::{Error, ErrorKind, Result};

use super::{DIRECTORY_MODE, host_error};

/// Names that are tried for the directory aside.
const TRIES: u32 = 100;

pub(super) struct Unfinished {
    /// Where it will be.
    root: PathBuf,
    /// Where it is filled: beside its place, or in it.
    place: PathBuf,
    /// The directories that were made for it, the outermost first.
    made: Vec<PathBuf>,
    is_kept: bool,
}

impl Unfinished {
    /// Makes the directory to be filled. One that is there and not empty is `already_exists`.
    pub(super) fn begin(root: &Path) -> Result<Self> {
        match std::fs::read_dir(root) {
            Ok(mut there) => match there.next() {
                None => Ok(Self::at(root, root)),
                Some(_) => Err(is_taken()),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::beside(root),
            Err(error) => Err(host_error(&error, b"")),
        }
    }

    fn at(root: &Path, place: &Path) -> Self {
        Self {
            root: root.to_owned(),
            place: place.to_owned(),
            made: Vec::new(),
            is_kept: false,
        }
    }

    /// Makes a directory beside `root`, on the same disk, so that it can get that name.
    fn beside(root: &Path) -> Result<Self> {
        let mut unfinished = Self::at(root, &aside(root, 0));
        let missing: Vec<_> = root.ancestors().skip(1).take_while(|above| is_missing(above)).collect();
        for parent in missing.into_iter().rev() {
            unfinished
                .make(parent.to_owned())
                .map_err(|error| host_error(&error, b""))?;
        }
        for number in 0..TRIES {
            unfinished.place = aside(root, number);
            match unfinished.make(unfinished.place.clone()) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| unfinished).map_err(|error| host_error(&error, b"")),
            }
        }
        Err(is_taken())
    }

    fn make(&mut self, directory: PathBuf) -> std::io::Result<()> {
        DirBuilder::new().mode(DIRECTORY_MODE).create(&directory)?;
        self.made.push(directory);
        Ok(())
    }

    /// The directory to fill.
    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// Says that it is whole, and gives it its name.
    pub(super) fn keep(mut self) -> Result<()> {
        if self.place != self.root {
            std::fs::rename(&self.place, &self.root).map_err(|error| match error.kind() {
                std::io::ErrorKind::DirectoryNotEmpty | std::io::ErrorKind::NotADirectory => is_taken(),
                _ => host_error(&error, b""),
            })?;
        }
        self.is_kept = true;
        Ok(())
    }
}

/// What cannot be removed again is found by whoever looks, and nothing depends on it.
impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        if self.place == self.root || self.made.contains(&self.place) {
            let filled = std::fs::read_dir(&self.place).into_iter().flatten().flatten();
            for entry in filled.map(|entry| entry.path()) {
                let _ = std::fs::remove_dir_all(&entry).or_else(|_| std::fs::remove_file(&entry));
            }
        }
        for directory in self.made.iter().rev() {
            let _ = std::fs::remove_dir(directory);
        }
    }
}

/// A name beside `root` that nobody else uses.
fn aside(root: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(root.file_name().unwrap_or_default());
    name.push(format!(".garret-part-{}-{number}", std::process::id()));
    root.with_file_name(name)
}

fn is_missing(path: &Path) -> bool {
    !path.as_os_str().is_empty() && !path.exists()
}

fn is_taken() -> Error {
    Error::new(ErrorKind::AlreadyExists, "the directory to export to is not empty")
        .hint("name a directory that is empty or does not exist")
}
