//! Changes to entries by directory handle and raw name, for names that no workspace path can spell.

use std::os::fd::{AsFd, OwnedFd};

use garret_core::{Alteration, Content, Error, NewEntry, Result};
use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, fchmod, fstat, fsync, mkdirat, openat, renameat, renameat_with, statat,
    symlinkat, syncfs, unlinkat,
};
use rustix::io::Errno;

use super::error::Cause;
use super::lend::lending;
use super::names::open_child;
use super::owner::Owner;
use super::reopen::{expect_file, force_mode};
use super::temp::{self, PREFIX};
use super::write::{dress, write_all};

const PIECE_BYTES: usize = 1024 * 1024;

/// The reason why an entry was not changed.
#[derive(Debug)]
pub(super) enum Failure {
    Cause(Cause),
    /// The new content cannot be read.
    Content(Error),
}

impl<C: Into<Cause>> From<C> for Failure {
    fn from(cause: C) -> Self {
        Self::Cause(cause.into())
    }
}

/// Changes the entry and syncs it. If the owner lacks permission bits on the directory, they are added for the duration
/// of the change.
pub(super) fn alter(parent: &OwnedFd, name: &[u8], alteration: Alteration<'_>) -> Result<(), Failure> {
    let is_denied = |failure: &Failure| matches!(failure, Failure::Cause(Cause::System(Errno::ACCESS)));
    lending(parent.as_fd(), is_denied, || attempt(parent, name, alteration))
}

fn attempt(parent: &OwnedFd, name: &[u8], alteration: Alteration<'_>) -> Result<(), Failure> {
    match alteration {
        Alteration::Make(entry) => make(parent, name, entry)?,
        Alteration::Replace { content, mode } => replace(parent, name, content, mode)?,
        Alteration::Remove => remove(parent, name)?,
        Alteration::SetMode(mode) => {
            force_mode(parent, name, mode)?;
            // An `O_PATH` handle cannot be synced, so the whole file system is.
            return Ok(syncfs(parent)?);
        }
    }
    match fsync(parent) {
        // Some file systems sync names together with the files and refuse to sync a directory.
        Err(Errno::INVAL) => Ok(()),
        synced => Ok(synced?),
    }
}

fn make(parent: &OwnedFd, name: &[u8], entry: NewEntry<'_>) -> Result<(), Failure> {
    let owner = Owner::of(&fstat(parent)?).to_give();
    match entry {
        NewEntry::Directory { mode } => {
            // Private until its owner and its mode are set.
            mkdirat(parent, name, Mode::RWXU)?;
            let directory = open_child(parent, name)?;
            owner.map_or(Ok(()), |owner| owner.take_directory(&directory))?;
            fchmod(directory, Mode::from_raw_mode(mode))?;
        }
        NewEntry::Symlink { target } => {
            symlinkat(target, parent, name)?;
            owner.map_or(Ok(()), |owner| owner.take_link(parent, name))?;
        }
        NewEntry::File { content, mode } => {
            let temporary = stage(parent, name, content, owner, mode)?;
            let placed = renameat_with(parent, &temporary, parent, name, RenameFlags::NOREPLACE);
            unless_placed(placed, parent, &temporary)?;
        }
    }
    Ok(())
}

fn replace(parent: &OwnedFd, name: &[u8], content: &Content, mode: u32) -> Result<(), Failure> {
    let before = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    expect_file(&before)?;
    let owner = Owner::wanted(Some(&before), Owner::of(&fstat(parent)?));
    let temporary = stage(parent, name, content, owner, mode)?;
    unless_placed(renameat(parent, &temporary, parent, name), parent, &temporary)
}

fn remove(parent: &OwnedFd, name: &[u8]) -> Result<(), Failure> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => Ok(temp::remove_empty(parent.as_fd(), name)?),
        removed => Ok(removed?),
    }
}

/// Writes the content to a temporary file with the final owner and mode; returns its name.
fn stage(parent: &OwnedFd, name: &[u8], content: &Content, owner: Option<Owner>, mode: u32) -> Result<String, Failure> {
    let temporary = format!("{PREFIX}{}", blake3::hash(name).to_hex());
    // A leftover of a crash. Only one caller at a time changes an entry here, so the name cannot be in use.
    let _ = unlinkat(parent, &temporary, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(parent, &temporary, flags, Mode::RUSR | Mode::WUSR)?;
    let written = fill(&file, content).and_then(|()| {
        dress(&file, owner, Some(mode & 0o7777))?;
        Ok(fsync(&file)?)
    });
    if written.is_err() {
        let _ = unlinkat(parent, &temporary, AtFlags::empty());
    }
    written.map(|()| temporary)
}

fn fill(file: &OwnedFd, content: &Content) -> Result<(), Failure> {
    let mut reader = content.open().map_err(Failure::Content)?;
    let mut piece = Vec::new();
    while reader.append_to(&mut piece, PIECE_BYTES).map_err(Failure::Content)? > 0 {
        write_all(file, &piece)?;
        piece.clear();
    }
    Ok(())
}

fn unless_placed(placed: Result<(), Errno>, parent: &OwnedFd, temporary: &str) -> Result<(), Failure> {
    if placed.is_err() {
        let _ = unlinkat(parent, temporary, AtFlags::empty());
    }
    Ok(placed?)
}
