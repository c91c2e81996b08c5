//! Writes entries into a directory by handle.
//!
//! A file is always a new one, so that nothing is ever written through another name of an existing file. Permission
//! bits of directories that are in the way are granted for the time, and a directory gets its own mode and time when
//! everything is in it.

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

/// The prefix of every temporary name; the `local` storage hides and removes names with the same prefix.
pub(super) const TEMPORARY: &[u8] = b".garret-tmp-";
const PIECE_BYTES: usize = 256 * 1024;
/// A block of zeros of this size is written as a hole.
const BLOCK_BYTES: usize = 4096;
const ATTRIBUTE_BYTES: usize = 64 * 1024;

/// Options for writing entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PlacingOptions {
    /// Whether writers of Garret exclude each other here by locks on directories, as in every `local` storage.
    pub(super) takes_locks: bool,
}

/// The final mode and time of a directory.
#[derive(Debug, Clone, Copy)]
struct Final {
    mode: u32,
    modified: Option<Timestamp>,
}

/// Writes entries into a directory.
pub(super) struct Placing<'a> {
    tree: Tree<'a>,
    top: BorrowedFd<'a>,
    options: PlacingOptions,
    /// Whether this process may set the owner of entries.
    gives_owners: bool,
    finals: BTreeMap<Vec<u8>, Final>,
    /// The written entries; `None` for a removed one.
    placed: BTreeMap<Vec<u8>, Option<Seen>>,
    /// Files with several names, by device and inode of the source, with the path of the first name here.
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

    /// Writes an effect of a layer.
    pub(super) fn effect(&mut self, effect: &Effect) -> Result<()> {
        let (path, modified) = (effect.path.as_bytes(), effect.modified);
        match &effect.placed {
            Placed::Nothing => self.remove(path, &Exclusions::default()),
            Placed::Directory { mode } => self.directory(path, *mode, modified),
            Placed::Symlink { target } => self.link(path, target, modified),
            Placed::File { content, mode } => self.content(path, content, *mode, modified),
            // The effects of a layer never refer to the history.
            Placed::Image(_) => Ok(()),
        }
    }

    /// Removes the entry at `path` with everything in it, except excluded entries (`kept`) and the directories above
    /// them.
    pub(super) fn remove(&mut self, path: &[u8], kept: &Exclusions) -> Result<()> {
        let (above, name) = split(path);
        // The kept handle may hold a lock on the directory, for which this process would wait forever.
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

    /// Creates a directory; an existing one keeps its entries.
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

    /// Creates a symbolic link.
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

    /// Creates a file with this content: the file of a layer is moved here if possible, any other content is copied.
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

    /// Takes over a file of a layer.
    fn left_file(&mut self, path: &[u8], file: File, mode: u32, modified: Option<Timestamp>) -> Result<()> {
        let file = OwnedFd::from(file);
        let stat = fstat(&file).at(path)?;
        let identity = identity(&stat);
        // The file belongs to the layer alone, so it can be moved. One with several names is copied, because not all
        // names need be in the layer.
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

    /// Gives the file a name here; returns `false` if that is not possible, for example on another file system.
    fn adopt(&mut self, path: &[u8], file: &OwnedFd, mode: u32, modified: Option<Timestamp>) -> Result<bool> {
        let parent = self.parent(path)?;
        let temporary = self.temporary();
        if linkat(CWD, by_handle(file), &parent, &temporary, AtFlags::SYMLINK_FOLLOW).is_err() {
            self.keep_parent(path, parent);
            return Ok(false);
        }
        let stripped = strip_attributes(file).or_else(|errno| match errno {
            // Writing attributes needs the same permission as writing content. The mode that denies it is set again
            // below.
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

    /// Gives the file at `first` another name.
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
        // A new name changes the time of change of the file, so the record of the first name is updated.
        let seen = Seen::of(&fstat(&held).at(path)?);
        self.placed.insert(first.to_vec(), Some(seen));
        Ok(true)
    }

    /// Creates a file; `fill` writes its content.
    pub(super) fn file(
        &mut self,
        path: &[u8],
        mode: u32,
        modified: Option<Timestamp>,
        fill: impl FnOnce(&OwnedFd) -> Result<()>,
    ) -> Result<()> {
        let parent = self.parent(path)?;
        let temporary = self.temporary();
        // A new file under a temporary name: a rename then replaces the old entry at once and leaves its other names
        // alone.
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

    /// Returns the owner for the entry `name` in `parent`: that of the existing entry, or that of the directory.
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

    /// Sets owner, mode and time of the file that will be at `place`.
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

    /// Renames a finished entry to its final name.
    fn publish(&mut self, parent: OwnedFd, temporary: &[u8], path: &[u8]) -> Result<()> {
        let name = split(path).1;
        if let Err(errno) = renameat(&parent, temporary, &parent, name) {
            let _ = unlinkat(&parent, temporary, AtFlags::empty());
            return Err(errno).at(path);
        }
        // A rename does nothing if both names are links to one file; then the temporary name is still there.
        let _ = unlinkat(&parent, temporary, AtFlags::empty());
        let stat = look(&parent, name).at(path)?;
        self.placed.insert(path.to_vec(), stat.map(|stat| Seen::of(&stat)));
        self.keep_parent(path, parent);
        Ok(())
    }

    /// Removes a directory that is in the way of another kind of entry.
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
            // A file or link is at the path of the new directory.
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

    /// Returns the directory above `path`, and creates it if it is missing.
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
        if self.options.takes_locks {
            flock(directory, FlockOperation::LockExclusive)
        } else {
            Ok(())
        }
    }

    fn temporary(&mut self) -> Vec<u8> {
        self.count += 1;
        let id = std::process::id();
        [TEMPORARY, format!("{id}-{}", self.count).as_bytes()].concat()
    }

    /// Sets the modes and times of the directories, and returns the written entries.
    pub(super) fn finish(mut self) -> Result<BTreeMap<Vec<u8>, Option<Seen>>> {
        self.parent = None;
        // Deepest first: the mode of a directory may deny access to those below it.
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

/// Returns whether the entry is kept out of history.
fn is_kept(directory: &OwnedFd, name: &[u8], path: &[u8], kept: &Exclusions) -> Result<bool, Errno> {
    if kept.is_empty() {
        return Ok(false);
    }
    let is_directory = look(directory, name)?.is_some_and(|stat| Seen::of(&stat).is_directory());
    Ok(kept.covers_bytes(path, is_directory))
}

/// Returns timestamps with this time of modification; the access time is set to the same.
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

/// Removes all extended attributes. Those that overlayfs wrote have another meaning below a layer, and no others are
/// kept anywhere.
fn strip_attributes(file: &OwnedFd) -> Result<(), Errno> {
    let mut list = vec![0; ATTRIBUTE_BYTES];
    let length = match flistxattr(file, &mut list[..]) {
        Err(Errno::OPNOTSUPP) => return Ok(()),
        length => length?,
    };
    for name in list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        match fremovexattr(file, name) {
            // Security labels belong to the system and may refuse to be removed.
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
            if block.iter().all(|byte| *byte == 0) {
                rustix::fs::seek(target, rustix::fs::SeekFrom::Current(block.len() as i64)).map(drop)
            } else {
                write_all(target, block)
            }
            .at(path)?;
        }
        end += piece.len() as u64;
        piece.clear();
    }
    // A hole at the end is only a seek, which does not extend the file.
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
