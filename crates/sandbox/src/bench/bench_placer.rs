//! Writes entries into a bench by handle.
//!
//! A file is always a new one, so that nothing is ever written through another name of an existing file. Permission
//! bits of directories that are in the way are granted for the time, and a directory gets its own mode and time when
//! everything is in it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use garret_core::path::{join_path, split_path};
use garret_core::{Content, Effect, Exclusions, PlacedEntry, Result, Timestamp};
use garret_handles::{
    HandleTree, create_file, list_names, open_beneath, path_of_handle, prefixes, remove_tree, set_mode, stat_entry,
    write_all,
};
use rustix::fs::{
    AtFlags, CWD, FlockOperation, Gid, Mode, OFlags, Stat, Uid, chownat, fchmod, fchown, flistxattr, flock,
    fremovexattr, fstat, futimens, linkat, mkdirat, renameat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use crate::effects::entry_status::EntryStatus;
use crate::effects::path_error::ErrnoAtPath;
use crate::effects::tree_copy::copy_content;
use crate::file_times::modification_times;

/// The prefix of every temporary name; the `local` storage hides and removes names with the same prefix.
pub(super) const TEMPORARY: &[u8] = b".garret-tmp-";
const PIECE_BYTES: usize = 256 * 1024;
/// A block of zeros of this size is written as a hole.
const BLOCK_BYTES: usize = 4096;
const ATTRIBUTE_BYTES: usize = 64 * 1024;

/// The final mode and time of a directory.
#[derive(Debug, Clone, Copy)]
struct FinalDirectoryState {
    mode: u32,
    modified: Option<Timestamp>,
}

/// Writes entries into a directory.
pub(super) struct BenchPlacer<'a> {
    tree: HandleTree<'a>,
    top: BorrowedFd<'a>,
    /// Whether writers of Garret exclude each other here by locks on directories, as in every `local` storage.
    takes_locks: bool,
    /// Whether this process may set the owner of entries.
    gives_owners: bool,
    finals: BTreeMap<Vec<u8>, FinalDirectoryState>,
    /// The written entries; `None` for a removed one.
    placed: BTreeMap<Vec<u8>, Option<EntryStatus>>,
    /// Files with several names, by device and inode of the source, with the path of the first name here.
    several: HashMap<(u64, u64), Vec<u8>>,
    parent: Option<(Vec<u8>, OwnedFd)>,
}

impl<'a> BenchPlacer<'a> {
    pub(super) fn new(top: BorrowedFd<'a>) -> Self {
        Self {
            tree: HandleTree::new(top),
            top,
            takes_locks: false,
            gives_owners: rustix::process::geteuid().is_root(),
            finals: BTreeMap::new(),
            placed: BTreeMap::new(),
            several: HashMap::new(),
            parent: None,
        }
    }

    /// Writes into a directory in which other writers of Garret take locks.
    pub(super) fn with_locks(top: BorrowedFd<'a>) -> Self {
        Self {
            takes_locks: true,
            ..Self::new(top)
        }
    }

    /// Writes an effect of a layer.
    pub(super) fn place_effect(&mut self, effect: &Effect) -> Result<()> {
        let (path, modified) = (effect.path.as_bytes(), effect.modified);
        match &effect.placed {
            PlacedEntry::Nothing => self.remove_entry(path, &Exclusions::default()),
            PlacedEntry::Directory { mode } => self.place_directory(path, *mode, modified),
            PlacedEntry::Symlink { target } => self.place_link(path, target, modified),
            PlacedEntry::File { content, mode } => self.place_content(path, content, *mode, modified),
            // The effects of a layer never refer to the history.
            PlacedEntry::Image(_) => Ok(()),
        }
    }

    /// Removes the entry at `path` with everything in it, except excluded entries (`kept`) and the directories above
    /// them.
    pub(super) fn remove_entry(&mut self, path: &[u8], kept: &Exclusions) -> Result<()> {
        let (above, name) = split_path(path);
        // The kept handle may hold a lock on the directory, for which this process would wait forever.
        self.parent = None;
        let parent = match self.tree.open_directory(above) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            parent => parent.at_path(path)?,
        };
        self.lock_directory(&parent).at_path(path)?;
        self.placed.insert(path.to_vec(), None);
        if kept.is_empty() || !is_directory(&parent, name).at_path(path)? {
            self.forget_directories(path);
            remove_tree(&parent, name).at_path(path)
        } else {
            self.prune_tree(path, kept)
        }
    }

    /// Forgets the modes and times that were to be set at `path` and below it.
    fn forget_directories(&mut self, path: &[u8]) {
        let is_below = |other: &[u8]| matches!(other.strip_prefix(path), Some([] | [b'/', ..]));
        self.finals.retain(|other, _| !is_below(other));
    }

    /// Removes the entries below `path` that are not kept, and the directories that are empty then. Goes by paths, and
    /// not as `remove_tree` does: that moves directories, and would move those with kept entries.
    fn prune_tree(&mut self, path: &[u8], kept: &Exclusions) -> Result<()> {
        self.forget_directories(path);
        let mut directories = vec![path.to_vec()];
        let mut next = 0;
        while let Some(directory) = directories.get(next).cloned() {
            next += 1;
            let handle = self.tree.open_directory(&directory).at_path(&directory)?;
            for name in list_names(&handle).at_path(&directory)? {
                let child = join_path(&directory, &name);
                if kept.covers_bytes(&child, is_directory(&handle, &name).at_path(&child)?) {
                    continue;
                }
                match unlinkat(&handle, &name, AtFlags::empty()) {
                    Err(Errno::ISDIR | Errno::PERM) => directories.push(child),
                    Err(Errno::NOENT) => {}
                    other => other.at_path(&child)?,
                }
            }
        }
        for directory in directories.iter().rev() {
            let (above, name) = split_path(directory);
            let parent = self.tree.open_directory(above).at_path(directory)?;
            match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::NOENT) => {}
                other => other.at_path(directory)?,
            }
        }
        Ok(())
    }

    /// Creates a directory; an existing one keeps its entries.
    pub(super) fn place_directory(&mut self, path: &[u8], mode: u32, modified: Option<Timestamp>) -> Result<()> {
        let parent = self.open_parent(path)?;
        if !is_directory(&parent, split_path(path).1).at_path(path)? {
            self.make_directory(&parent, path)?;
        }
        self.finals
            .insert(path.to_vec(), FinalDirectoryState { mode, modified });
        self.keep_parent(path, parent);
        Ok(())
    }

    /// Creates a symbolic link.
    pub(super) fn place_link(&mut self, path: &[u8], target: &str, modified: Option<Timestamp>) -> Result<()> {
        let parent = self.open_parent(path)?;
        self.clear_directory(&parent, path)?;
        let temporary = Self::temporary_name();
        symlinkat(target, &parent, &temporary).at_path(path)?;
        if let Some((user, group)) = self.owner_for(&parent, split_path(path).1).at_path(path)? {
            let _ = chownat(&parent, &temporary, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW);
        }
        if let Some(times) = modified.map(modification_times) {
            utimensat(&parent, &temporary, &times, AtFlags::SYMLINK_NOFOLLOW).at_path(path)?;
        }
        self.publish_entry(parent, &temporary, path)
    }

    /// Creates a file with this content: the file of a layer is moved here if possible, any other content is copied.
    pub(super) fn place_content(
        &mut self,
        path: &[u8],
        content: &Content,
        mode: u32,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        match content.backing_file()? {
            Some(file) => self.take_over_file(path, file, mode, modified),
            None => self.place_file(path, mode, modified, |target| fill_from(target, content, path)),
        }
    }

    /// Takes over a file of a layer.
    fn take_over_file(&mut self, path: &[u8], file: File, mode: u32, modified: Option<Timestamp>) -> Result<()> {
        let file = OwnedFd::from(file);
        let stat = fstat(&file).at_path(path)?;
        let identity = file_identity(&stat);
        // The file belongs to the layer alone, so it can be moved. One with several names is copied, because not all
        // names need be in the layer.
        if stat.st_nlink == 1 && self.adopt_file(path, &file, mode, modified)? {
            return Ok(());
        }
        if let Some(first) = self.several.get(&identity).cloned()
            && self.add_hard_link(&first, path)?
        {
            return Ok(());
        }
        self.place_file(path, mode, modified, |target| {
            copy_content(&file, target, &stat).at_path(path)
        })?;
        if stat.st_nlink > 1 {
            self.several.insert(identity, path.to_vec());
        }
        Ok(())
    }

    /// Gives the file a name here; returns `false` if that is not possible, for example on another file system.
    fn adopt_file(&mut self, path: &[u8], file: &OwnedFd, mode: u32, modified: Option<Timestamp>) -> Result<bool> {
        let Some((parent, temporary)) = self.link_beside(file, path)? else {
            return Ok(false);
        };
        let stripped = strip_attributes(file).or_else(|errno| match errno {
            // Writing attributes needs the same permission as writing content. The mode that denies it is set again
            // below.
            Errno::ACCESS => fchmod(file, Mode::RUSR | Mode::WUSR).and_then(|()| strip_attributes(file)),
            other => Err(other),
        });
        let dressed = stripped.and_then(|()| self.set_file_attributes(file, (&parent, path), mode, modified));
        if let Err(errno) = dressed {
            let _ = unlinkat(&parent, &temporary, AtFlags::empty());
            return Err(errno).at_path(path);
        }
        self.publish_entry(parent, &temporary, path)?;
        Ok(true)
    }

    /// Gives a file a temporary name beside `path`; returns `None` if that is not possible.
    fn link_beside(&mut self, file: &OwnedFd, path: &[u8]) -> Result<Option<(OwnedFd, Vec<u8>)>> {
        let parent = self.open_parent(path)?;
        let temporary = Self::temporary_name();
        if linkat(CWD, path_of_handle(file), &parent, &temporary, AtFlags::SYMLINK_FOLLOW).is_err() {
            self.keep_parent(path, parent);
            return Ok(None);
        }
        Ok(Some((parent, temporary)))
    }

    /// Gives the file at `first` another name.
    fn add_hard_link(&mut self, first: &[u8], path: &[u8]) -> Result<bool> {
        let Ok(held) = open_beneath(self.top, first, OFlags::PATH | OFlags::NOFOLLOW) else {
            return Ok(false);
        };
        let Some((parent, temporary)) = self.link_beside(&held, path)? else {
            return Ok(false);
        };
        self.publish_entry(parent, &temporary, path)?;
        // A new name changes the time of change of the file, so the record of the first name is updated.
        let seen = EntryStatus::from_stat(&fstat(&held).at_path(path)?);
        self.placed.insert(first.to_vec(), Some(seen));
        Ok(true)
    }

    /// Creates a file; `fill` writes its content.
    pub(super) fn place_file(
        &mut self,
        path: &[u8],
        mode: u32,
        modified: Option<Timestamp>,
        fill: impl FnOnce(&OwnedFd) -> Result<()>,
    ) -> Result<()> {
        let parent = self.open_parent(path)?;
        // Where others look on, a file appears only when it is whole.
        let made = if self.takes_locks {
            Err(Errno::EXIST)
        } else {
            create_file(&parent, split_path(path).1, mode & 0o777)
        };
        match made {
            Err(Errno::EXIST) => self.place_in_turn(parent, path, mode, modified, fill),
            made => self.fill_new_file(parent, &made.at_path(path)?, path, mode, modified, fill),
        }
    }

    /// Fills the file that was just created at `path`.
    fn fill_new_file(
        &mut self,
        parent: OwnedFd,
        file: &OwnedFd,
        path: &[u8],
        mode: u32,
        modified: Option<Timestamp>,
        fill: impl FnOnce(&OwnedFd) -> Result<()>,
    ) -> Result<()> {
        let dressed = |seen: Stat| -> Result<Stat, Errno> {
            let above = fstat(&parent)?;
            if self.gives_owners && (above.st_uid, above.st_gid) != (seen.st_uid, seen.st_gid) {
                fchown(
                    file,
                    Some(Uid::from_raw(above.st_uid)),
                    Some(Gid::from_raw(above.st_gid)),
                )?;
            }
            // The process may mask bits of the mode at creation.
            if EntryStatus::from_stat(&seen).bits() != mode & 0o1777 {
                fchmod(file, Mode::from_raw_mode(mode & 0o1777))?;
            }
            if let Some(times) = modified.map(modification_times) {
                futimens(file, &times)?;
            }
            fstat(file)
        };
        let filled = fill(file).and_then(|()| fstat(file).and_then(dressed).at_path(path));
        match filled {
            Ok(seen) => {
                let seen = EntryStatus::from_stat(&seen);
                self.placed.insert(path.to_vec(), Some(seen));
                self.keep_parent(path, parent);
                Ok(())
            }
            Err(error) => {
                let _ = unlinkat(&parent, split_path(path).1, AtFlags::empty());
                Err(error)
            }
        }
    }

    /// Creates a file in the place of any existing entry. It gets a temporary name first: a rename then replaces the
    /// old entry at once and leaves its other names alone.
    fn place_in_turn(
        &mut self,
        parent: OwnedFd,
        path: &[u8],
        mode: u32,
        modified: Option<Timestamp>,
        fill: impl FnOnce(&OwnedFd) -> Result<()>,
    ) -> Result<()> {
        let temporary = Self::temporary_name();
        let file = create_file(&parent, &temporary[..], 0o600).at_path(path)?;
        let filled = fill(&file).and_then(|()| {
            self.set_file_attributes(&file, (&parent, path), mode, modified)
                .at_path(path)
        });
        if filled.is_err() {
            let _ = unlinkat(&parent, &temporary, AtFlags::empty());
            return filled;
        }
        self.publish_entry(parent, &temporary, path)
    }

    /// Returns the owner for the entry `name` in `parent`: that of the existing entry, or that of the directory.
    fn owner_for(&self, parent: &OwnedFd, name: &[u8]) -> Result<Option<(Uid, Gid)>, Errno> {
        if !self.gives_owners {
            return Ok(None);
        }
        let stat = match stat_entry(parent, name)? {
            Some(there) => there,
            None => fstat(parent)?,
        };
        Ok(Some((Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid))))
    }

    /// Sets owner, mode and time of the file that will be at `place`.
    fn set_file_attributes(
        &self,
        file: &OwnedFd,
        place: (&OwnedFd, &[u8]),
        mode: u32,
        modified: Option<Timestamp>,
    ) -> Result<(), Errno> {
        if let Some((user, group)) = self.owner_for(place.0, split_path(place.1).1)? {
            fchown(file, Some(user), Some(group))?;
        }
        fchmod(file, Mode::from_raw_mode(mode & 0o1777))?;
        match modified.map(modification_times) {
            Some(times) => futimens(file, &times),
            None => Ok(()),
        }
    }

    /// Renames a finished entry to its final name, in the place of any existing entry.
    fn publish_entry(&mut self, parent: OwnedFd, temporary: &[u8], path: &[u8]) -> Result<()> {
        let name = split_path(path).1;
        let cleared = self.clear_directory(&parent, path);
        let renamed = cleared.and_then(|()| renameat(&parent, temporary, &parent, name).at_path(path));
        // A rename does nothing if both names are links to one file; then the temporary name is still there, as it is
        // after a failure.
        let _ = unlinkat(&parent, temporary, AtFlags::empty());
        renamed?;
        let seen = EntryStatus::of_entry(&parent, name).at_path(path)?;
        self.placed.insert(path.to_vec(), seen);
        self.keep_parent(path, parent);
        Ok(())
    }

    /// Removes a directory that is in the way of another kind of entry.
    fn clear_directory(&mut self, parent: &OwnedFd, path: &[u8]) -> Result<()> {
        let name = split_path(path).1;
        if !is_directory(parent, name).at_path(path)? {
            return Ok(());
        }
        self.forget_directories(path);
        remove_tree(parent, name).at_path(path)
    }

    fn make_directory(&self, parent: &OwnedFd, path: &[u8]) -> Result<()> {
        let name = split_path(path).1;
        let owner = self.owner_for(parent, name).at_path(path)?;
        match mkdirat(parent, name, Mode::RWXU) {
            // A file or link is at the path of the new directory.
            Err(Errno::EXIST) => {
                unlinkat(parent, name, AtFlags::empty()).at_path(path)?;
                mkdirat(parent, name, Mode::RWXU).at_path(path)?;
            }
            other => other.at_path(path)?,
        }
        if let Some((user, group)) = owner {
            let _ = chownat(parent, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW);
        }
        Ok(())
    }

    /// Returns the directory above `path`, and creates it if it is missing.
    fn open_parent(&mut self, path: &[u8]) -> Result<OwnedFd> {
        let above = split_path(path).0;
        match self.parent.take() {
            Some((known, handle)) if known == above => return Ok(handle),
            _ => {}
        }
        let handle = match self.tree.open_directory(above) {
            Err(Errno::NOENT) => {
                self.make_above(above)?;
                self.tree.open_directory(above)
            }
            handle => handle,
        };
        let handle = handle.at_path(path)?;
        self.lock_directory(&handle).at_path(path)?;
        Ok(handle)
    }

    /// Creates the directory above `path` if it is missing, and lends it the bits to create entries in it until this
    /// placer is done.
    pub(super) fn prepare_parent(&mut self, path: &[u8]) -> Result<()> {
        let parent = self.open_parent(path)?;
        self.keep_parent(path, parent);
        Ok(())
    }

    fn keep_parent(&mut self, path: &[u8], parent: OwnedFd) {
        self.parent = Some((split_path(path).0.to_vec(), parent));
    }

    fn make_above(&mut self, directory: &[u8]) -> Result<()> {
        for path in prefixes(directory).skip(1) {
            let above = self.tree.open_directory(split_path(path).0).at_path(path)?;
            if stat_entry(&above, split_path(path).1).at_path(path)?.is_none() {
                self.make_directory(&above, path)?;
                let made = FinalDirectoryState {
                    mode: 0o755,
                    modified: None,
                };
                self.finals.insert(path.to_vec(), made);
            }
        }
        Ok(())
    }

    fn lock_directory(&self, directory: &OwnedFd) -> Result<(), Errno> {
        if self.takes_locks {
            flock(directory, FlockOperation::LockExclusive)
        } else {
            Ok(())
        }
    }

    fn temporary_name() -> Vec<u8> {
        // One count for all placers of this process, since several threads may write into one directory.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let (id, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        [TEMPORARY, format!("{id}-{count}").as_bytes()].concat()
    }

    /// Sets the modes and times of the directories, and returns the written entries.
    pub(super) fn finish(mut self) -> Result<BTreeMap<Vec<u8>, Option<EntryStatus>>> {
        self.parent = None;
        // Deepest first: the mode of a directory may deny access to those below it.
        for (path, last) in std::mem::take(&mut self.finals).iter().rev() {
            let held = open_beneath(self.top, path, OFlags::PATH | OFlags::DIRECTORY).at_path(path)?;
            if let Some(times) = last.modified.map(modification_times) {
                utimensat(&held, c".", &times, AtFlags::empty()).at_path(path)?;
            }
            set_mode(&held, last.mode & 0o3777).at_path(path)?;
            self.tree.keep_mode(path);
            let seen = EntryStatus::from_stat(&fstat(&held).at_path(path)?);
            self.placed.insert(path.clone(), Some(seen));
        }
        Ok(std::mem::take(&mut self.placed))
    }
}

#[allow(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
fn file_identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

fn is_directory(directory: &OwnedFd, name: &[u8]) -> Result<bool, Errno> {
    Ok(EntryStatus::of_entry(directory, name)?.is_some_and(|seen| seen.is_directory()))
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
            .at_path(path)?;
        }
        end += piece.len() as u64;
        piece.clear();
    }
    // A hole at the end is only a seek, which does not extend the file.
    rustix::fs::ftruncate(target, end).at_path(path)
}
