//! Removing a tree that commands made, whatever they made of it.

#![cfg(target_os = "linux")]

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

/// How deep a tree is walked before its deeper part is brought up; a command can nest deeper than descriptors last.
const DEEPEST: usize = 64;

/// Removes what is at `name`, with everything in it, through no link. Directories that were closed to their owner are opened first.
pub(crate) fn remove_tree(parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<()> {
    let name = CString::new(name).map_err(|_| Errno::INVAL)?;
    let mut removal = Removal {
        top: parent,
        name: &name,
        brought_up: 0,
    };
    removal.remove(parent, &name, 0)?;
    // What was brought up lies beside it, and each part may hold more.
    let mut next = 0;
    while next < removal.brought_up {
        let part = removal.part(next);
        removal.remove(parent, &part, 0)?;
        next += 1;
    }
    Ok(())
}

struct Removal<'a> {
    top: BorrowedFd<'a>,
    name: &'a CStr,
    brought_up: usize,
}

impl Removal<'_> {
    /// The name of a part that was brought up.
    fn part(&self, number: usize) -> CString {
        let name = self.name.to_bytes();
        let mut part = name[..name.len().min(200)].to_vec();
        part.extend_from_slice(format!(".{number}.deep").as_bytes());
        CString::new(part).expect("the name had no NUL before")
    }

    fn remove(&mut self, parent: BorrowedFd<'_>, name: &CStr, depth: usize) -> rustix::io::Result<()> {
        match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error),
        }
        if rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR).is_ok() {
            return Ok(());
        }
        if depth == DEEPEST {
            rustix::fs::renameat(parent, name, self.top, self.part(self.brought_up))?;
            self.brought_up += 1;
            return Ok(());
        }
        let directory = open_whatever(parent, name)?;
        for child in names(&directory)? {
            self.remove(directory.as_fd(), &child, depth + 1)?;
        }
        rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
    }
}

/// Opens a directory, giving its owner the bits for that where they are missing.
fn open_whatever(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            // It is no link: only a directory gets here, and nobody changes the tree any more.
            rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
            rustix::fs::openat(parent, name, flags, Mode::empty())?
        }
        other => other?,
    };
    let mode = rustix::fs::fstat(&directory)?.st_mode;
    if mode & 0o700 != 0o700 {
        rustix::fs::fchmod(&directory, Mode::RWXU)?;
    }
    Ok(directory)
}

fn names(directory: &OwnedFd) -> rustix::io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.to_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}
