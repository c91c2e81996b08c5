//! Counts the bytes stored in a layer while commands work on it.
//!
//! A process can hide the kernel's counters of its writes, and they end with the process; the files in a layer cannot
//! be hidden. The tree is walked in short pieces, because the server has other work, and by handles, because commands
//! may change the tree meanwhile.

#![cfg(target_os = "linux")]

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use garret_handles::{open_beneath, set_mode};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::clock::current_time;

/// The bytes of an inode, which each entry takes besides its blocks. So files without content count as well.
const INODE: u64 = 256;
/// The length at which a path continues from a new handle: a command can nest directories deeper than the kernel
/// accepts paths.
const LONG_PATH: usize = 2048;
/// The number of entries between two readings of the clock.
const ENTRIES: usize = 64;

/// A walk through the tree of a layer.
#[derive(Debug)]
pub(crate) struct LayerWalk {
    waiting: Vec<WalkedDirectory>,
    reading: Option<DirectoryReading>,
    /// The files with several names that were counted already.
    linked: HashSet<u64>,
    bytes: u64,
    is_blind: bool,
    gives_access: bool,
}

/// A directory, by its path below an open directory. Each value holds only its own name and shares those above it,
/// because many directories with one long path above them may wait.
#[derive(Debug)]
struct WalkedDirectory {
    base: Rc<OwnedFd>,
    /// The directory above, unless that is the base.
    above: Option<Rc<WalkedDirectory>>,
    name: Vec<u8>,
    /// The length of its path below the base.
    length: usize,
}

/// A directory that is being read, and its place, from which the paths of its entries begin.
#[derive(Debug)]
struct DirectoryReading {
    entries: Dir,
    place: Rc<WalkedDirectory>,
}

impl LayerWalk {
    /// Begins at `top`.
    pub(crate) fn new(top: OwnedFd) -> Self {
        let place = WalkedDirectory::at_base(top);
        Self {
            waiting: vec![place],
            reading: None,
            linked: HashSet::new(),
            bytes: 0,
            is_blind: false,
            gives_access: false,
        }
    }

    /// Returns this walk with the right to give the owner of a directory access to it, where a command took it away.
    pub(crate) fn giving_access(self) -> Self {
        Self {
            gives_access: true,
            ..self
        }
    }

    /// Continues for about this time; returns whether the whole tree was seen.
    pub(crate) fn continue_for(&mut self, time: Duration) -> bool {
        let until = current_time() + time;
        while self.count_some() {
            if current_time() >= until {
                return false;
            }
        }
        true
    }

    /// Returns the bytes that were found so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether a directory could not be read.
    pub(crate) fn is_blind(&self) -> bool {
        self.is_blind
    }

    /// Counts some entries; returns whether there are more.
    fn count_some(&mut self) -> bool {
        let Some(mut reading) = self.reading.take().or_else(|| self.enter_next()) else {
            return !self.waiting.is_empty();
        };
        for _ in 0..ENTRIES {
            match reading.entries.next() {
                None => return !self.waiting.is_empty(),
                Some(entry) => self.visit_entry(&reading, entry),
            }
        }
        self.reading = Some(reading);
        true
    }

    fn enter_next(&mut self) -> Option<DirectoryReading> {
        let place = self.waiting.pop()?;
        match place.open_for_reading(self.gives_access) {
            Ok(reading) => return Some(reading),
            // The directory was removed or replaced since it was seen.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(_) => self.is_blind = true,
        }
        None
    }

    fn visit_entry(&mut self, reading: &DirectoryReading, entry: rustix::io::Result<rustix::fs::DirEntry>) {
        let Ok(entry) = entry else {
            self.is_blind = true;
            return;
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            return;
        }
        let Ok(directory) = reading.entries.fd() else { return };
        let stat = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::ACCESS) => {
                self.is_blind = true;
                return;
            }
            // An entry that is not found any more was removed meanwhile.
            Err(_) => return,
        };
        self.count_bytes(&stat);
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            self.waiting
                .push(WalkedDirectory::child_of(&reading.place, name.to_bytes()));
        }
    }

    fn count_bytes(&mut self, stat: &Stat) {
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        // A file is counted under the first of its names only; the link count of a directory says nothing about names.
        if is_directory || stat.st_nlink < 2 || self.linked.insert(stat.st_ino) {
            self.bytes += stat.st_blocks as u64 * 512 + INODE;
        }
    }
}

impl WalkedDirectory {
    /// Makes an open directory the one that paths begin at.
    fn at_base(directory: OwnedFd) -> Self {
        Self {
            base: Rc::new(directory),
            above: None,
            name: Vec::new(),
            length: 0,
        }
    }

    fn open_for_reading(self, gives_access: bool) -> rustix::io::Result<DirectoryReading> {
        let path = self.path();
        let open = |flags| open_beneath(&*self.base, &path, flags | OFlags::DIRECTORY);
        let directory = match open(OFlags::RDONLY) {
            Err(Errno::ACCESS) if gives_access => {
                set_mode(&open(OFlags::PATH)?, 0o700)?;
                open(OFlags::RDONLY)?
            }
            other => other?,
        };
        if gives_access && rustix::fs::fstat(&directory)?.st_mode & 0o100 == 0 {
            // Without this bit, its entries cannot be looked at. If it cannot be set, that shows at the first entry.
            let _ = rustix::fs::fchmod(&directory, Mode::RWXU);
        }
        let place = if self.length < LONG_PATH {
            self
        } else {
            Self::at_base(rustix::io::fcntl_dupfd_cloexec(&directory, 3)?)
        };
        let entries = Dir::new(directory)?;
        let place = Rc::new(place);
        Ok(DirectoryReading { entries, place })
    }

    fn child_of(above: &Rc<Self>, name: &[u8]) -> Self {
        Self {
            base: Rc::clone(&above.base),
            above: (above.length > 0).then(|| Rc::clone(above)),
            name: name.to_vec(),
            length: above.length + 1 + name.len(),
        }
    }

    /// Returns the path below the base.
    fn path(&self) -> Vec<u8> {
        let above = std::iter::successors(self.above.as_deref(), |place| place.above.as_deref());
        let mut names: Vec<&[u8]> = above.map(|place| &place.name[..]).collect();
        names.reverse();
        names.push(&self.name);
        names.join(&b'/')
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests make trees to walk")]
mod tests {
    use super::*;

    fn walked(path: &std::path::Path, time: Duration) -> (u64, usize) {
        let top = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
        let mut walk = LayerWalk::new(top);
        let mut pieces = 1;
        while !walk.continue_for(time) {
            pieces += 1;
        }
        assert!(!walk.is_blind());
        (walk.bytes(), pieces)
    }

    #[test]
    fn a_file_with_two_names_counts_once_and_a_hole_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("below")).unwrap();
        std::fs::write(at("below/file"), vec![1; 1 << 20]).unwrap();
        std::fs::hard_link(at("below/file"), at("again")).unwrap();
        std::fs::File::create(at("hole")).unwrap().set_len(1 << 30).unwrap();
        std::os::unix::fs::symlink("/usr", at("link")).unwrap();
        let (bytes, _) = walked(directory.path(), Duration::from_secs(60));
        assert!((1 << 20..2 << 20).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_walk_in_many_pieces_finds_what_one_finds_at_any_depth() {
        let directory = tempfile::tempdir().unwrap();
        let mut here = rustix::fs::open(
            directory.path(),
            OFlags::RDONLY | OFlags::DIRECTORY,
            rustix::fs::Mode::empty(),
        )
        .unwrap();
        for _ in 0..300 {
            let name = "a-name-of-some-length";
            rustix::fs::mkdirat(&here, name, rustix::fs::Mode::RWXU).unwrap();
            here = rustix::fs::openat(
                &here,
                name,
                OFlags::RDONLY | OFlags::DIRECTORY,
                rustix::fs::Mode::empty(),
            )
            .unwrap();
        }
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let file = rustix::fs::openat(&here, "deep", flags, rustix::fs::Mode::RUSR).unwrap();
        rustix::io::write(&file, &[1; 1 << 16]).unwrap();
        let (at_once, _) = walked(directory.path(), Duration::from_secs(60));
        let (in_pieces, pieces) = walked(directory.path(), Duration::ZERO);
        assert_eq!(at_once, in_pieces);
        assert!(pieces > 100 && at_once > 1 << 16, "{pieces} {at_once}");
    }
}
