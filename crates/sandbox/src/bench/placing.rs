//! Putting entries into a directory by handle.
//!
//! A file is always a new one: nothing that another name leads to is ever written. Bits of directories that stand in the way are lent for
//! the time, and a directory gets its own mode and time when everything is in it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use garret_core::{Content, Effect, Exclusions, Placed, Result, Timestamp};
use rustix::fs::{
    AtFlags, CWD, FlockOperation, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, chownat, fchmod, fchown,
    flistxattr, flock, fremovexattr, fstat, futimens, linkat, mkdirat, openat, renameat, symlinkat, unlinkat,
    utimensat,
};
use rustix::io::{Errno, write};

use crate::effects::beneath::{Tree, by_handle, join, look, names, open, prefixes, set_mode, split};
use crate::effects::copy::copy_content;
use crate::effects::error::At;
use crate::effects::seen::Seen;

/// How the name of every temporary entry begins; the `local` storage hides and sweeps the same.
pub(super) const TEMPORARY: &[u8] = b".garret-tmp-";
const PIECE_BYTES: usize = 256 * 1024;
/// What is written as a hole where it is zero.
const BLOCK_BYTES: usize = 4096;
const ATTRIBUTE_BYTES: usize = 64 * 1024;

/// How entries are put.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PlacingOptions {
    /// Whether writers of Garret take turns here by locks on directories, as in every `local` storage.
    pub(super) takes_locks: bool,
}

/// What a directory is to be like in the end.
#[derive(Debug, Clone, Copy)]
struct Final {
    mode: u32,
    modified: Option<Timestamp>,
}

/// Puts entries into a directory.
pub(super) struct Placing<'a> {
    tree: Tree<'a>,
    top: BorrowedFd<'a>,
    options: PlacingOptions,
    /// Whether this process can say whose everything is.
    gives_owners: bool,
    finals: BTreeMap<Vec<u8>, Final>,
    /// What was put where; `None` where something was removed.
    placed: BTreeMap<Vec<u8>, Option<Seen>>,
    /// Files with several names, by what they are where they come from, and the path that the first of them has here.
    several: HashMap<(u64, u64), Vec<u8>>,
    parent: Option<(Vec<u8>, OwnedFd)>,
    count: u64,
}

impl<'a> Placing<'a> {
    pub(super) fn new(top: BorrowedFd<'a>, options: PlacingOptions) -> Self {
        Self {
            tree: Tree::new(top),
            top,
            options,
            gives_owners: rustix::process::geteuid().is_root(),
            finals: BTreeMap::new(),
            placed: BTreeMap::new(),
            several: HashMap::new(),
            parent: None,
            count: 0,
        }
    }

    /// Puts what a layer left.
    pub(super) fn effect(&mut self, effect: &Effect) -> Result<()> {
        let (path, modified) = (effect.path.as_bytes(), effect.modified);
        match &effect.placed {
            Placed::Nothing => self.remove(path, &Exclusions::default()),
            Placed::Directory { mode } => self.directory(path, *mode, modified),
            Placed::Symlink { target } => self.link(path, target, modified),
            Placed::File { content, mode } => self.content(path, content, *mode, modified),
            // A layer knows no history.
            Placed::Image(_) => Ok(()),
        }
    }

    /// Removes what is at `path`, with everything in it but what is `kept` and the directories above that.
    pub(super) fn remove(&mut self, path: &[u8], kept: &Exclusions) -> Result<()> {
        let (above, name) = split(path);
        // Its lock would be one that this very process waits for.
        self.parent = None;
        let parent = match self.tree.directory(above) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            parent => parent.at(path)?,
        };
        self.lock(&parent).at(path)?;
        self.placed.insert(path.to_vec(), None);
        match unlinkat(&parent, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => self.remove_tree(path, kept),
            other => other.at(path),
        }
    }

    fn remove_tree(&mut self, path: &[u8], kept: &Exclusions) -> Result<()> {
        self.parent = None;
        let mut directories = vec![path.to_vec()];
        let mut next = 0;
        while let Some(directory) = directories.get(next).cloned() {
            next += 1;
            let handle = self.tree.directory(&directory).at(&directory)?;
            self.finals.remove(&directory);
            for name in names(&handle).at(&directory)? {
                let child = join(&directory, &name);
                if is_kept(&handle, &name, &child, kept).at(&child)? {
                    continue;
                }
                match unlinkat(&handle, &name, AtFlags::empty()) {
                    Err(Errno::ISDIR | Errno::PERM) => directories.push(child),
                    Err(Errno::NOENT) => {}
                    other => other.at(&child)?,
                }
            }
        }
        for directory in directories.iter().rev() {
            let (above, name) = split(directory);
            let parent = self.tree.directory(above).at(directory)?;
            match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY) if !kept.is_empty() => {}
                Err(Errno::NOENT) => {}
                other => other.at(directory)?,
            }
        }
        Ok(())
    }

    /// Makes a directory; one that is there keeps what is in it.
    pub(super) fn directory(&mut self, path: &[u8], mode: u32, modified: Option<Timestamp>) -> Result<()> {
        let parent = self.parent(path)?;
        let there = look(&parent, split(path).1).at(path)?;
        if !there.is_some_and(|stat| Seen::of(&stat).is_directory()) {
            self.clear(path, there.as_ref())?;
            self.make_directory(&parent, path)?;
        }
        self.finals.insert(path.to_vec(), Final { mode, modified });
        self.keep_parent(path, parent);
        Ok(())
    }

    /// Makes a link.
    pub(super) fn link(&mut self, path: &[u8], target: &str, modified: Option<Timestamp>) -> Result<()> {
        let parent = self.parent(path)?;
        let there = look(&parent, split(path).1).at(path)?;
        self.clear(path, there.as_ref())?;
        let temporary = self.temporary();
        symlinkat(target, &parent, &temporary).at(path)?;
        if let Some((user, group)) = self.owner(&parent, split(path).1).at(path)? {
            let _ = chownat(&parent, &temporary, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW);
        }
        if let Some(times) = modified.and_then(times) {
            utimensat(&parent, &temporary, &times, AtFlags::SYMLINK_NOFOLLOW).at(path)?;
        }
        self.publish(parent, &temporary, path)
    }

    /// Makes a file with this content: the file itself where a layer left one, and a copy otherwise.
    pub(super) fn content(
        &mut self,
        path: &[u8],
        content: &Content,
        mode: u32,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        match content.file()? {
            Some(file) => self.left_file(path, file, mode, modified),
            None => self.file(path, mode, modified, |target| fill_from(target, content, path)),
        }
    }

    /// Takes over a file that a layer left. Nobody else has it, so it becomes that of the bench; one with several names is copied, because
    /// not all of them need be the layer's.
    fn left_file(&mut self, path: &[u8], file: File, mode: u32, modified: Option<Timestamp>) -> Result<()> {
        let file = OwnedFd::from(file);
        let stat = fstat(&file).at(path)?;
        let identity = identity(&stat);
        if stat.st_nlink == 1 && self.adopt(path, &file, mode, modified)? {
            return Ok(());
        }
        if let Some(first) = self.several.get(&identity).cloned()
            && self.name_again(&first, path)?
        {
            return Ok(());
        }
        self.file(path, mode, modified, |target| {
            copy_content(&file, target, &stat).at(path)
        })?;
        if stat.st_nlink > 1 {
            self.several.insert(identity, path.to_vec());
        }
        Ok(())
    }

    /// Gives the file a name here; `false` where that cannot be, on another file system for one.
    fn adopt(&mut self, path: &[u8], file: &OwnedFd, mode: u32, modified: Option<Timestamp>) -> Result<bool> {
        let parent = self.parent(path)?;
        let temporary = self.temporary();
        if linkat(CWD, by_handle(file), &parent, &temporary, AtFlags::SYMLINK_FOLLOW).is_err() {
            self.keep_parent(path, parent);
            return Ok(false);
        }
        let stripped = strip_attributes(file).or_else(|errno| match errno {
            // Attributes are written like content; the mode that stands in the way is set again below.
            Errno::ACCESS => fchmod(file, Mode::RUSR | Mode::WUSR).and_then(|()| strip_attributes(file)),
            other => Err(other),
        });
        let dressed = stripped.and_then(|()| self.dress(file, (&parent, path), mode, modified));
        if let Err(errno) = dressed {
            let _ = unlinkat(&parent, &temporary, AtFlags::empty());
            return Err(errno).at(path);
        }
        let there = look(&parent, split(path).1).at(path)?;
        self.clear(path, there.as_ref())?;
        self.publish(parent, &temporary, path)?;
        Ok(true)
    }

    /// Gives the file that was put at `first` another name.
    fn name_again(&mut self, first: &[u8], path: &[u8]) -> Result<bool> {
        let Ok(held) = open(self.top, first, OFlags::PATH | OFlags::NOFOLLOW) else {
            return Ok(false);
        };
        let parent = self.parent(path)?;
        let temporary = self.temporary();
        if linkat(CWD, by_handle(&held), &parent, &temporary, AtFlags::SYMLINK_FOLLOW).is_err() {
            self.keep_parent(path, parent);
            return Ok(false);
        }
        let there = look(&parent, split(path).1).at(path)?;
        self.clear(path, there.as_ref())?;
        self.publish(parent, &temporary, path)?;
        // The count of its names is part of what its time of change says.
        let seen = Seen::of(&fstat(&held).at(path)?);
        self.placed.insert(first.to_vec(), Some(seen));
        Ok(true)
    }

    /// Makes a file that `fill` writes.
    pub(super) fn file(
        &mut self,
        path: &[u8],
        mode: u32,
        modified: Option<Timestamp>,
        fill: impl FnOnce(&OwnedFd) -> Result<()>,
    ) -> Result<()> {
        let parent = self.parent(path)?;
        let temporary = self.temporary();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&parent, &temporary, flags, Mode::RUSR | Mode::WUSR).at(path)?;
        let filled = fill(&file).and_then(|()| self.dress(&file, (&parent, path), mode, modified).at(path));
        if filled.is_err() {
            let _ = unlinkat(&parent, &temporary, AtFlags::empty());
            return filled;
        }
        let there = look(&parent, split(path).1).at(path)?;
        self.clear(path, there.as_ref())?;
        self.publish(parent, &temporary, path)
    }

    /// Whose the entry `name` in `parent` is to be: that of what is there, or that of the directory.
    fn owner(&self, parent: &OwnedFd, name: &[u8]) -> Result<Option<(Uid, Gid)>, Errno> {
        if !self.gives_owners {
            return Ok(None);
        }
        let stat = match look(parent, name)? {
            Some(there) => there,
            None => fstat(parent)?,
        };
        Ok(Some((Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid))))
    }

    /// Sets owner, mode and time of what will be at `place`.
    fn dress(
        &self,
        file: &OwnedFd,
        place: (&OwnedFd, &[u8]),
        mode: u32,
        modified: Option<Timestamp>,
    ) -> Result<(), Errno> {
        if let Some((user, group)) = self.owner(place.0, split(place.1).1)? {
            fchown(file, Some(user), Some(group))?;
        }
        fchmod(file, Mode::from_raw_mode(mode & 0o1777))?;
        match modified.and_then(times) {
            Some(times) => futimens(file, &times),
            None => Ok(()),
        }
    }

    /// Moves a finished entry to its place.
    fn publish(&mut self, parent: OwnedFd, temporary: &[u8], path: &[u8]) -> Result<()> {
        let name = split(path).1;
        if let Err(errno) = renameat(&parent, temporary, &parent, name) {
            let _ = unlinkat(&parent, temporary, AtFlags::empty());
            return Err(errno).at(path);
        }
        // Two names of one file are not renamed onto each other.
        let _ = unlinkat(&parent, temporary, AtFlags::empty());
        let stat = look(&parent, name).at(path)?;
        self.placed.insert(path.to_vec(), stat.map(|stat| Seen::of(&stat)));
        self.keep_parent(path, parent);
        Ok(())
    }

    /// Makes room where a directory stands in the way of something else.
    fn clear(&mut self, path: &[u8], there: Option<&Stat>) -> Result<()> {
        match there.map(Seen::of) {
            Some(seen) if seen.is_directory() => self.remove_tree(path, &Exclusions::default()),
            _ => Ok(()),
        }
    }

    fn make_directory(&self, parent: &OwnedFd, path: &[u8]) -> Result<()> {
        let name = split(path).1;
        let owner = self.owner(parent, name).at(path)?;
        match mkdirat(parent, name, Mode::RWXU) {
            // A file or link that is to become a directory.
            Err(Errno::EXIST) => {
                unlinkat(parent, name, AtFlags::empty()).at(path)?;
                mkdirat(parent, name, Mode::RWXU).at(path)?;
            }
            other => other.at(path)?,
        }
        if let Some((user, group)) = owner {
            let _ = chownat(parent, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW);
        }
        Ok(())
    }

    /// The directory above `path`, made where it is missing.
    fn parent(&mut self, path: &[u8]) -> Result<OwnedFd> {
        let above = split(path).0;
        match self.parent.take() {
            Some((known, handle)) if known == above => return Ok(handle),
            _ => {}
        }
        let handle = match self.tree.directory(above) {
            Err(Errno::NOENT) => {
                self.make_above(above)?;
                self.tree.directory(above)
            }
            handle => handle,
        };
        let handle = handle.at(path)?;
        self.lock(&handle).at(path)?;
        Ok(handle)
    }

    fn keep_parent(&mut self, path: &[u8], parent: OwnedFd) {
        self.parent = Some((split(path).0.to_vec(), parent));
    }

    fn make_above(&mut self, directory: &[u8]) -> Result<()> {
        for path in prefixes(directory).skip(1) {
            let above = self.tree.directory(split(path).0).at(path)?;
            if look(&above, split(path).1).at(path)?.is_none() {
                self.make_directory(&above, path)?;
                let made = Final {
                    mode: 0o755,
                    modified: None,
                };
                self.finals.insert(path.to_vec(), made);
            }
        }
        Ok(())
    }

    fn lock(&self, directory: &OwnedFd) -> Result<(), Errno> {
        match self.options.takes_locks {
            true => flock(directory, FlockOperation::LockExclusive),
            false => Ok(()),
        }
    }

    fn temporary(&mut self) -> Vec<u8> {
        self.count += 1;
        let id = std::process::id();
        [TEMPORARY, format!("{id}-{}", self.count).as_bytes()].concat()
    }

    /// Gives the directories their modes and times; what was put where.
    pub(super) fn finish(mut self) -> Result<BTreeMap<Vec<u8>, Option<Seen>>> {
        self.parent = None;
        for (path, last) in std::mem::take(&mut self.finals).iter().rev() {
            let held = open(self.top, path, OFlags::PATH | OFlags::DIRECTORY).at(path)?;
            if let Some(times) = last.modified.and_then(times) {
                utimensat(&held, c".", &times, AtFlags::empty()).at(path)?;
            }
            set_mode(&held, last.mode & 0o3777).at(path)?;
            self.tree.forget(path);
            let seen = Seen::of(&fstat(&held).at(path)?);
            self.placed.insert(path.clone(), Some(seen));
        }
        Ok(std::mem::take(&mut self.placed))
    }
}

#[allow(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// Whether the entry is kept out of history.
fn is_kept(directory: &OwnedFd, name: &[u8], path: &[u8], kept: &Exclusions) -> Result<bool, Errno> {
    if kept.is_empty() {
        return Ok(false);
    }
    let is_directory = look(directory, name)?.is_some_and(|stat| Seen::of(&stat).is_directory());
    Ok(kept.covers_bytes(path, is_directory))
}

/// A time of modification; that of access is as good as any.
fn times(modified: Timestamp) -> Option<Timestamps> {
    let nanoseconds = modified.as_nanosecond();
    let modified = Timespec {
        tv_sec: i64::try_from(nanoseconds.div_euclid(1_000_000_000)).ok()?,
        tv_nsec: nanoseconds.rem_euclid(1_000_000_000) as _,
    };
    Some(Timestamps {
        last_access: modified,
        last_modification: modified,
    })
}

/// Takes off everything beside the content: what overlayfs wrote there means something else below a layer, and nothing else is kept
/// anywhere.
fn strip_attributes(file: &OwnedFd) -> Result<(), Errno> {
    let mut list = vec![0; ATTRIBUTE_BYTES];
    let length = match flistxattr(file, &mut list[..]) {
        Err(Errno::OPNOTSUPP) => return Ok(()),
        length => length?,
    };
    for name in list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        match fremovexattr(file, name) {
            // Labels of the system are the system's.
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) if !name.starts_with(b"user.") => {}
            removed => removed?,
        }
    }
    Ok(())
}

/// Writes the content piece by piece; blocks of zeros become holes.
fn fill_from(target: &OwnedFd, content: &Content, path: &[u8]) -> Result<()> {
    let mut reader = content.open()?;
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    let mut end = 0;
    while reader.append_to(&mut piece, PIECE_BYTES)? > 0 {
        for block in piece.chunks(BLOCK_BYTES) {
            match block.iter().all(|byte| *byte == 0) {
                true => rustix::fs::seek(target, rustix::fs::SeekFrom::Current(block.len() as i64)).map(drop),
                false => write_all(target, block),
            }
            .at(path)?;
        }
        end += piece.len() as u64;
        piece.clear();
    }
    rustix::fs::ftruncate(target, end).at(path)
}

pub(super) fn write_all(file: impl AsFd, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match write(&file, rest) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
