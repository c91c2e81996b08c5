//! Opens entries below a directory by handle: nothing here follows a link, leaves the directory, or enters another file
//! system.
//!
//! Directories are opened by their path below the top rather than from the one above, so that a tree as deep as a path
//! can be costs one handle at a time. If a command took permission bits away from files of Garret's own user, they are
//! lent for as long as the reading takes.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, SeekFrom, Stat, chmodat, fstat, openat2, seek, statat,
};
use rustix::io::Errno;

/// The longest path that the kernel opens; one byte of its 4096 is the end.
pub(crate) const MAX_PATH_BYTES: usize = 4095;
/// The flags to open a file for its content, without waiting for a peer and without taking a terminal.
pub(crate) const GENTLY: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

const LOOK: AtFlags = AtFlags::SYMLINK_NOFOLLOW.union(AtFlags::NO_AUTOMOUNT);
/// The number of tries to open a path. A try takes a microsecond or two, and fails only if an entry is renamed or
/// mounted at that moment.
const MAX_TRIES: usize = 1000;
const BUFFER_BYTES: usize = 32 * 1024;
const OWNER_BITS: u32 = 0o700;

/// A directory and the tree below it.
#[derive(Debug)]
pub(crate) struct HandleTree<'a> {
    top: BorrowedFd<'a>,
    /// The modes of entries before bits were lent to them.
    lent: BTreeMap<Vec<u8>, u32>,
    /// Whether missing bits can refuse access; they do not refuse root.
    needs_bits: bool,
}

impl<'a> HandleTree<'a> {
    pub(crate) fn new(top: BorrowedFd<'a>) -> Self {
        Self {
            top,
            lent: BTreeMap::new(),
            needs_bits: !rustix::process::geteuid().is_root(),
        }
    }

    /// Opens the directory at `path` for reading, and lends bits so that its entries can be opened.
    pub(crate) fn open_directory(&mut self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = match open_beneath(self.top, path, flags) {
            Err(Errno::ACCESS) if self.needs_bits => {
                self.lend_bits(path)?;
                open_beneath(self.top, path, flags)
            }
            opened => opened,
        }?;
        if self.needs_bits && fstat(&opened)?.st_mode & OWNER_BITS != OWNER_BITS {
            // If this user may not change the mode, opening an entry fails later.
            let _ = self.lend_bits(path);
        }
        Ok(opened)
    }

    /// Opens the plain file at `path` for reading, and lends it bits if it must.
    pub(crate) fn open_file(&mut self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | GENTLY;
        match open_beneath(self.top, path, flags) {
            Err(Errno::ACCESS) if self.needs_bits => {
                self.lend_bits(path)?;
                open_beneath(self.top, path, flags)
            }
            opened => opened,
        }
    }

    /// Returns the status of the entry at `path`, with its mode from before bits were lent; `None` if it does not
    /// exist, or if an entry above it is no directory.
    pub(crate) fn stat_path(&mut self, path: &[u8]) -> Result<Option<Stat>, Errno> {
        let stat = match stat_beneath(self.top, path) {
            Err(Errno::ACCESS) if self.needs_bits => {
                self.lend_bits(split_path(path).0)?;
                stat_beneath(self.top, path)
            }
            stat => stat,
        };
        let as_before = |mut stat: Stat| {
            stat.st_mode = self.mode_before(path).unwrap_or(stat.st_mode);
            stat
        };
        stat.map(|stat| stat.map(as_before))
    }

    /// Returns the mode of the entry at `path` from before bits were lent, if they were.
    pub(crate) fn mode_before(&self, path: &[u8]) -> Option<u32> {
        self.lent.get(path).copied()
    }

    /// Keeps the present mode of the entry at `path`: lent bits are not taken back.
    pub(crate) fn keep_mode(&mut self, path: &[u8]) {
        self.lent.remove(path);
    }

    /// Lends the owner the bits that are missing on `path` and on every directory above it.
    fn lend_bits(&mut self, path: &[u8]) -> Result<(), Errno> {
        for prefix in prefixes(path) {
            let held = open_beneath(self.top, prefix, OFlags::PATH | OFlags::NOFOLLOW)?;
            let mode = fstat(&held)?.st_mode;
            let wanted = match FileType::from_raw_mode(mode) {
                FileType::Directory => OWNER_BITS,
                FileType::RegularFile => 0o400,
                _ => continue,
            };
            if mode & wanted != wanted {
                set_mode(&held, mode | wanted)?;
                self.lent.entry(prefix.to_vec()).or_insert(mode);
            }
        }
        Ok(())
    }
}

/// Takes the lent bits back.
impl Drop for HandleTree<'_> {
    fn drop(&mut self) {
        // From the bottom up: a directory must let this process pass until the entries below it are done.
        for (path, mode) in self.lent.iter().rev() {
            if let Ok(held) = open_beneath(self.top, path, OFlags::PATH | OFlags::NOFOLLOW) {
                let _ = set_mode(&held, *mode);
            }
        }
    }
}

/// Returns the path of every directory above `path`, from the top, and `path` itself.
pub(crate) fn prefixes(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let ends = std::iter::once(0).chain(slashes.map(|(place, _)| place));
    let whole = (!path.is_empty()).then_some(path.len());
    ends.chain(whole).map(|end| &path[..end])
}

/// Opens `path` below `top`, or the top itself if `path` is empty; fails on a symbolic link.
pub(crate) fn open_beneath(top: impl AsFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    open_with_retries(top, path, flags, ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV)
}

/// Opens `path` below `top` and follows symbolic links that stay below it; a link that leads outside is `XDEV`.
pub(crate) fn open_through_links(top: impl AsFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    open_with_retries(top, path, flags, ResolveFlags::empty())
}

fn open_with_retries(top: impl AsFd, path: &[u8], flags: OFlags, further: ResolveFlags) -> Result<OwnedFd, Errno> {
    let path: &[u8] = if path.is_empty() { b"." } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | further;
    for _ in 0..MAX_TRIES {
        match openat2(&top, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            // At a `..` the kernel could not rule out a race with a rename or a mount, which any process on the machine
            // may cause; the caller is to try again.
            Err(Errno::AGAIN | Errno::INTR) => {}
            answer => return answer,
        }
    }
    Err(Errno::AGAIN)
}

/// Returns the names in a directory.
pub(crate) fn list_names(directory: impl AsFd) -> Result<Vec<Vec<u8>>, Errno> {
    list_names_up_to(directory, None).map(Option::unwrap_or_default)
}

/// Returns the names in a directory; `None` if there are more than `most`.
pub(crate) fn list_names_up_to(directory: impl AsFd, most: Option<usize>) -> Result<Option<Vec<Vec<u8>>>, Errno> {
    // The handle may have been read before, and the position is shared by all of its duplicates.
    seek(&directory, SeekFrom::Start(0))?;
    let mut names = Vec::new();
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut entries = RawDir::new(directory.as_fd(), buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if most.is_some_and(|most| names.len() >= most) {
            return Ok(None);
        }
        names.push(name.to_vec());
    }
    Ok(Some(names))
}

/// Returns the status of the entry itself, not of the target of a link; `None` if it does not exist.
pub(crate) fn stat_entry(directory: impl AsFd, name: &[u8]) -> Result<Option<Stat>, Errno> {
    match statat(directory, name, LOOK) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

pub(crate) fn stat_beneath(top: BorrowedFd<'_>, path: &[u8]) -> Result<Option<Stat>, Errno> {
    match open_beneath(top, path, OFlags::PATH | OFlags::NOFOLLOW) {
        Ok(held) => fstat(held).map(Some),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Sets the mode of an entry, which is no link, by a handle without access to its content.
pub(crate) fn set_mode(held: &OwnedFd, mode: u32) -> Result<(), Errno> {
    // `fchmod` does not take such a handle; its name under `/proc` leads to the entry itself, whatever happened to its
    // path.
    let mode = Mode::from_raw_mode(mode & 0o7777);
    match chmodat(CWD, path_of_handle(held), mode, AtFlags::empty()) {
        Err(Errno::NOENT) => Err(Errno::OPNOTSUPP),
        other => other,
    }
}

/// Returns the path under `/proc` that leads to the entry of a handle.
pub(crate) fn path_of_handle(held: impl AsFd) -> String {
    format!("/proc/self/fd/{}", held.as_fd().as_raw_fd())
}

/// Returns the path of the entry `name` in the directory at `path`.
pub(crate) fn join_path(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        name.to_vec()
    } else {
        [path, b"/", name].concat()
    }
}

/// Returns the path of the directory above, and the name in it.
pub(crate) fn split_path(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_go_from_the_top_down_to_the_path() {
        let all: Vec<&[u8]> = prefixes(b"a/b/c").collect();
        assert_eq!(all, [&b""[..], b"a", b"a/b", b"a/b/c"]);
        assert_eq!(prefixes(b"").collect::<Vec<_>>(), [b""]);
    }

    #[test]
    fn a_path_is_taken_apart_as_it_was_put_together() {
        for (above, name) in [(&b""[..], &b"a"[..]), (b"a", b"b"), (b"a/b", b"\xff\n")] {
            assert_eq!(split_path(&join_path(above, name)), (above, name));
        }
    }
}
