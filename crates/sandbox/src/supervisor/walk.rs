//! How much a layer holds, counted while commands work on it.
//!
//! The kernel's counters of a process can be hidden by the process, and go with it; what lies in a layer cannot. The tree is walked in short
//! pieces, because whoever walks has other things to do, and by handles, because whoever made the tree may change it meanwhile.

#![cfg(target_os = "linux")]

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat};
use rustix::io::Errno;

use super::clock::now;
use crate::effects::beneath::open;

/// What an entry takes besides its blocks: its inode. So files without content count as well.
const INODE: u64 = 256;
/// From here on a path goes on from a handle of its own: a command can nest deeper than the kernel takes paths.
const LONG_PATH: usize = 2048;
/// How many entries are looked at between two looks at the clock.
const ENTRIES: usize = 64;

/// A walk that is under way.
#[derive(Debug)]
pub(super) struct Walk {
    waiting: Vec<Place>,
    reading: Option<Reading>,
    /// Files with several names that were counted.
    linked: HashSet<u64>,
    bytes: u64,
    is_blind: bool,
}

/// A directory, by its names below one that is open. A place has only its own name: many may wait in a directory whose path is long.
#[derive(Debug)]
struct Place {
    base: Rc<OwnedFd>,
    /// The directory above, where that is not the base.
    above: Option<Rc<Place>>,
    name: Vec<u8>,
    /// The length of its path below the base.
    length: usize,
}

/// A directory that is being read, and from where paths of what is in it begin.
#[derive(Debug)]
struct Reading {
    entries: Dir,
    place: Rc<Place>,
}

impl Walk {
    /// Begins at `top`.
    pub(super) fn new(top: OwnedFd) -> Self {
        let place = Place::base(top);
        Self {
            waiting: vec![place],
            reading: None,
            linked: HashSet::new(),
            bytes: 0,
            is_blind: false,
        }
    }

    /// Goes on for about so long; whether everything was seen.
    pub(super) fn go_on(&mut self, time: Duration) -> bool {
        let until = now() + time;
        while self.step() {
            if now() >= until {
                return false;
            }
        }
        true
    }

    /// The bytes that were found so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether something could not be looked into.
    pub(super) fn is_blind(&self) -> bool {
        self.is_blind
    }

    /// Looks at some entries; whether there are more.
    fn step(&mut self) -> bool {
        let Some(mut reading) = self.reading.take().or_else(|| self.enter_next()) else {
            return !self.waiting.is_empty();
        };
        for _ in 0..ENTRIES {
            match reading.entries.next() {
                None => return !self.waiting.is_empty(),
                Some(entry) => self.look(&reading, entry),
            }
        }
        self.reading = Some(reading);
        true
    }

    fn enter_next(&mut self) -> Option<Reading> {
        let place = self.waiting.pop()?;
        match place.enter() {
            Ok(reading) => return Some(reading),
            // It was removed or replaced since it was seen.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(_) => self.is_blind = true,
        }
        None
    }

    fn look(&mut self, reading: &Reading, entry: rustix::io::Result<rustix::fs::DirEntry>) {
        let Ok(entry) = entry else {
            self.is_blind = true;
            return;
        };
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            return;
        }
        let Ok(directory) = reading.entries.fd() else { return };
        // What cannot be seen any more was removed since.
        let Ok(stat) = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return;
        };
        self.count(&stat);
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            self.waiting.push(Place::below(&reading.place, name.to_bytes()));
        }
    }

    fn count(&mut self, stat: &Stat) {
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if is_directory || stat.st_nlink < 2 || self.linked.insert(stat.st_ino) {
            self.bytes += stat.st_blocks as u64 * 512 + INODE;
        }
    }
}

impl Place {
    /// The directory that paths begin at.
    fn base(directory: OwnedFd) -> Self {
        Self {
            base: Rc::new(directory),
            above: None,
            name: Vec::new(),
            length: 0,
        }
    }

    fn enter(self) -> rustix::io::Result<Reading> {
        let directory = open(&*self.base, &self.path(), OFlags::RDONLY | OFlags::DIRECTORY)?;
        let place = if self.length < LONG_PATH {
            self
        } else {
            Self::base(rustix::io::fcntl_dupfd_cloexec(&directory, 3)?)
        };
        let entries = Dir::new(directory)?;
        let place = Rc::new(place);
        Ok(Reading { entries, place })
    }

    fn below(above: &Rc<Self>, name: &[u8]) -> Self {
        Self {
            base: Rc::clone(&above.base),
            above: (above.length > 0).then(|| Rc::clone(above)),
            name: name.to_vec(),
            length: above.length + 1 + name.len(),
        }
    }

    /// The path below the base.
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
        let mut walk = Walk::new(top);
        let mut pieces = 1;
        while !walk.go_on(time) {
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
