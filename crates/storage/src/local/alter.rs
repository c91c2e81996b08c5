//! Changes to entries by directory handle and raw name, for names that no workspace path can spell.

use std::os::fd::{AsFd, OwnedFd};

use garret_core::{Content, EntryAlteration, Error, NewEntry, Result};
use garret_handles::{create_file, force_mode, open_child, write_all};
use rustix::fs::{
    AtFlags, Mode, RenameFlags, fchmod, fstat, fsync, mkdirat, renameat, renameat_with, statat, symlinkat, syncfs,
    unlinkat,
};
use rustix::io::Errno;

use super::entry_handle::expect_file;
use super::error::AccessError;
use super::owner::FileOwner;
use super::owner_bits::with_owner_bits;
use super::temporary_files::{self, PREFIX};
use super::write::set_owner_and_mode;

const PIECE_BYTES: usize = 1024 * 1024;

/// The reason why an entry was not changed.
#[derive(Debug)]
pub(super) enum AlterationError {
    Cause(AccessError),
    /// The new content cannot be read.
    Content(Error),
}

impl<C: Into<AccessError>> From<C> for AlterationError {
    fn from(cause: C) -> Self {
        Self::Cause(cause.into())
    }
}

/// Changes the entry and syncs it. If the owner lacks permission bits on the directory, they are added for the duration
/// of the change.
pub(super) fn alter_entry(
    parent: &OwnedFd,
    name: &[u8],
    alteration: EntryAlteration<'_>,
) -> Result<(), AlterationError> {
    let is_denied =
        |failure: &AlterationError| matches!(failure, AlterationError::Cause(AccessError::System(Errno::ACCESS)));
    with_owner_bits(parent.as_fd(), is_denied, || try_alter(parent, name, alteration))
}

fn try_alter(parent: &OwnedFd, name: &[u8], alteration: EntryAlteration<'_>) -> Result<(), AlterationError> {
    match alteration {
        EntryAlteration::Make(entry) => make_entry(parent, name, entry)?,
        EntryAlteration::Replace { content, mode } => replace_file(parent, name, content, mode)?,
        EntryAlteration::Remove => remove_entry(parent, name)?,
        EntryAlteration::SetMode(mode) => {
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

fn make_entry(parent: &OwnedFd, name: &[u8], entry: NewEntry<'_>) -> Result<(), AlterationError> {
    let owner = FileOwner::from_stat(&fstat(parent)?).if_root_can_give();
    match entry {
        NewEntry::Directory { mode } => {
            // Private until its owner and its mode are set.
            mkdirat(parent, name, Mode::RWXU)?;
            let directory = open_child(parent, name)?;
            owner.map_or(Ok(()), |owner| owner.give_directory(&directory))?;
            fchmod(directory, Mode::from_raw_mode(mode))?;
        }
        NewEntry::Symlink { target } => {
            symlinkat(target, parent, name)?;
            owner.map_or(Ok(()), |owner| owner.give_link(parent, name))?;
        }
        NewEntry::File { content, mode } => {
            let temporary = stage_content(parent, name, content, owner, mode)?;
            let placed = renameat_with(parent, &temporary, parent, name, RenameFlags::NOREPLACE);
            remove_unless_placed(placed, parent, &temporary)?;
        }
    }
    Ok(())
}

fn replace_file(parent: &OwnedFd, name: &[u8], content: &Content, mode: u32) -> Result<(), AlterationError> {
    let before = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    expect_file(&before)?;
    let owner = FileOwner::for_new_file(Some(&before), FileOwner::from_stat(&fstat(parent)?));
    let temporary = stage_content(parent, name, content, owner, mode)?;
    remove_unless_placed(renameat(parent, &temporary, parent, name), parent, &temporary)
}

fn remove_entry(parent: &OwnedFd, name: &[u8]) -> Result<(), AlterationError> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => Ok(temporary_files::remove_empty(parent.as_fd(), name)?),
        removed => Ok(removed?),
    }
}

/// Writes the content to a temporary file with the final owner and mode; returns its name.
fn stage_content(
    parent: &OwnedFd,
    name: &[u8],
    content: &Content,
    owner: Option<FileOwner>,
    mode: u32,
) -> Result<String, AlterationError> {
    let temporary = format!("{PREFIX}{}", blake3::hash(name).to_hex());
    // A leftover of a crash. Only one caller at a time changes an entry here, so the name cannot be in use.
    let _ = unlinkat(parent, &temporary, AtFlags::empty());
    let file = create_file(parent, &temporary, 0o600)?;
    let written = write_content(&file, content).and_then(|()| {
        set_owner_and_mode(&file, owner, Some(mode & 0o7777))?;
        Ok(fsync(&file)?)
    });
    if written.is_err() {
        let _ = unlinkat(parent, &temporary, AtFlags::empty());
    }
    written.map(|()| temporary)
}

fn write_content(file: &OwnedFd, content: &Content) -> Result<(), AlterationError> {
    let mut reader = content.open().map_err(AlterationError::Content)?;
    let mut piece = Vec::new();
    while reader
        .append_to(&mut piece, PIECE_BYTES)
        .map_err(AlterationError::Content)?
        > 0
    {
        write_all(file, &piece)?;
        piece.clear();
    }
    Ok(())
}

fn remove_unless_placed(placed: Result<(), Errno>, parent: &OwnedFd, temporary: &str) -> Result<(), AlterationError> {
    if placed.is_err() {
        let _ = unlinkat(parent, temporary, AtFlags::empty());
    }
    Ok(placed?)
}
