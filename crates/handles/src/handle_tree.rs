//! Reads a tree that commands wrote, by handle: nothing here follows a link, leaves the directory, or enters another
//! file system.
//!
//! Directories are opened by their path below the top rather than from the one above, so that a tree as deep as a path
//! can be costs one handle at a time. If a command took permission bits away from files of Garret's own user, they are
//! lent for as long as the reading takes.

use std::collections::BTreeMap;
use std::os::fd::{BorrowedFd, OwnedFd};

use garret_core::path::split_path;
use rustix::fs::{FileType, OFlags, Stat, fstat};
use rustix::io::Errno;

use crate::{GENTLY, open_beneath, set_mode, stat_beneath};

const OWNER_BITS: u32 = 0o700;

/// A directory and the tree below it.
#[derive(Debug)]
pub struct HandleTree<'a> {
    top: BorrowedFd<'a>,
    /// The modes of entries before bits were lent to them.
    lent: BTreeMap<Vec<u8>, u32>,
    /// Whether missing bits can refuse access; they do not refuse root.
    needs_bits: bool,
}

impl<'a> HandleTree<'a> {
    /// Makes the tree below `top`; no bits are lent yet.
    pub fn new(top: BorrowedFd<'a>) -> Self {
        Self {
            top,
            lent: BTreeMap::new(),
            needs_bits: !rustix::process::geteuid().is_root(),
        }
    }

    /// Opens the directory at `path` for reading, and lends bits so that its entries can be opened.
    pub fn open_directory(&mut self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = self.retry_with_bits(path, |top| open_beneath(top, path, flags))?;
        if self.needs_bits && fstat(&opened)?.st_mode & OWNER_BITS != OWNER_BITS {
            // If this user may not change the mode, opening an entry fails later.
            let _ = self.lend_bits(path);
        }
        Ok(opened)
    }

    /// Opens the plain file at `path` for reading, and lends it bits if it must.
    pub fn open_file(&mut self, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.retry_with_bits(path, |top| open_beneath(top, path, OFlags::RDONLY | GENTLY))
    }

    /// Returns the status of the entry at `path`, with its mode from before bits were lent; `None` if it does not
    /// exist, or if an entry above it is no directory.
    pub fn stat_path(&mut self, path: &[u8]) -> Result<Option<Stat>, Errno> {
        let stat = self.retry_with_bits(split_path(path).0, |top| stat_beneath(top, path))?;
        Ok(stat.map(|mut stat| {
            stat.st_mode = self.mode_before(path).unwrap_or(stat.st_mode);
            stat
        }))
    }

    /// Reaches an entry, a second time with bits lent on `path` if the lack of bits refuses the first.
    fn retry_with_bits<T>(
        &mut self,
        path: &[u8],
        reach: impl Fn(BorrowedFd<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match reach(self.top) {
            Err(Errno::ACCESS) if self.needs_bits => {
                self.lend_bits(path)?;
                reach(self.top)
            }
            reached => reached,
        }
    }

    /// Returns the mode of the entry at `path` from before bits were lent, if they were.
    pub fn mode_before(&self, path: &[u8]) -> Option<u32> {
        self.lent.get(path).copied()
    }

    /// Keeps the present mode of the entry at `path`: lent bits are not taken back.
    pub fn keep_mode(&mut self, path: &[u8]) {
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
pub fn prefixes(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let ends = std::iter::once(0).chain(slashes.map(|(place, _)| place));
    let whole = (!path.is_empty()).then_some(path.len());
    ends.chain(whole).map(|end| &path[..end])
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
}
