//! Making entries by handle, whatever their names: the way back for names that no path can spell.

use std::os::fd::OwnedFd;

use garret_core::NewEntry;
use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, fchmod, fstat, fsync, mkdirat, openat, renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::names::open_child;
use super::owner::Owner;
use super::temp::PREFIX;
use super::write::{dress, write_all};

/// Makes the entry, synced; a name that is taken is `EXIST`.
pub(super) fn make(parent: &OwnedFd, name: &[u8], entry: NewEntry<'_>) -> Result<(), Errno> {
    let owner = Owner::of(&fstat(parent)?).to_give();
    match entry {
        NewEntry::Directory { mode } => {
            mkdirat(parent, name, Mode::from_raw_mode(0o700))?;
            let directory = open_child(parent, name)?;
            owner.map_or(Ok(()), |owner| owner.take_directory(&directory))?;
            fchmod(directory, Mode::from_raw_mode(mode))?;
        }
        NewEntry::Symlink { target } => {
            symlinkat(target, parent, name)?;
            owner.map_or(Ok(()), |owner| owner.take_link(parent, name))?;
        }
        NewEntry::File { content, mode } => make_file(parent, name, content, owner, mode)?,
    }
    match fsync(parent) {
        Err(Errno::INVAL) => Ok(()),
        synced => synced,
    }
}

fn make_file(parent: &OwnedFd, name: &[u8], content: &[u8], owner: Option<Owner>, mode: u32) -> Result<(), Errno> {
    let temporary = format!("{PREFIX}{}", blake3::hash(name).to_hex());
    // Left by a crash: whoever makes an entry here is alone in doing so.
    let _ = unlinkat(parent, &temporary, AtFlags::empty());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(parent, &temporary, flags, Mode::from_raw_mode(0o600))?;
    let written = write_all(&file, content)
        .and_then(|()| dress(&file, owner, Some(mode)))
        .and_then(|()| fsync(&file))
        .and_then(|()| renameat_with(parent, &temporary, parent, name, RenameFlags::NOREPLACE));
    if written.is_err() {
        let _ = unlinkat(parent, &temporary, AtFlags::empty());
    }
    written
}
