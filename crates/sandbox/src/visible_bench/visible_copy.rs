//! Copies the entries of a bench that a read filter shows.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use garret_core::path::split_path;
use garret_core::{EntryKind, ReadFilter, Result};
use garret_handles::{GENTLY, create_file, list_names, open_beneath, stat_beneath};
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Stat, Uid, chownat, fstat, linkat, mkdirat, readlinkat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::filter_listing::{
    ListingDepth, VisibleEntries, VisibleEntry, kind_of, list_by_filter, names_of_hidden_files, settled_status,
};
use crate::effects::copy_comparison::COMPARED_BITS;
use crate::effects::entry_status::EntryStatus;
use crate::effects::path_error::ErrnoAtPath;
use crate::effects::tree_copy::{copy_content, finish_directory, finish_file, times_of};

/// The number of tries to copy a file that others write to meanwhile.
const MAX_TRIES: usize = 6;
/// The number of unused copies that are kept in any case. More are deleted once they also outnumber the used ones.
const MAX_UNUSED: usize = 1_000;

/// The destination of a copy of visible entries.
pub(crate) struct CopyTarget<'a> {
    /// An empty directory.
    pub(crate) directory: BorrowedFd<'a>,
    /// The owner of files on the bench, and the user that owns them in the copy.
    pub(crate) owner: Option<((u32, u32), (u32, u32))>,
    /// The store that keeps copies for the next time. Only for a copy that nobody writes to.
    pub(crate) store: Option<FileStore>,
}

/// A store of copies of files, each under a name that identifies the file and its state. A copy is hard-linked from
/// here into every tree that shows the file, so that a file is copied once for each of its states.
#[derive(Debug)]
pub(crate) struct FileStore {
    directory: OwnedFd,
    used: BTreeSet<Vec<u8>>,
}

/// The entries that were copied, and the paths that are hidden.
pub(crate) struct CopiedEntries {
    pub(crate) visible: VisibleEntries,
    pub(crate) hidden: Vec<Vec<u8>>,
}

struct VisibleCopy<'a> {
    bench: BorrowedFd<'a>,
    to: CopyTarget<'a>,
    /// The directory of the copy that was opened last.
    above: Option<(Vec<u8>, OwnedFd)>,
    directories: Vec<VisibleEntry>,
    files: Vec<(Vec<u8>, Stat)>,
    visible: VisibleEntries,
}

/// Copies every entry that the filter shows of the bench now. Entries that are removed meanwhile, entries that Garret
/// itself cannot read, devices, fifos and sockets are left out.
pub(crate) fn copy_visible(
    bench: BorrowedFd<'_>,
    filter: &dyn ReadFilter,
    to: CopyTarget<'_>,
) -> Result<CopiedEntries> {
    let listing = list_by_filter(bench, filter, ListingDepth::AllDirectories)?;
    let mut copying = VisibleCopy {
        bench,
        to,
        above: None,
        directories: Vec::new(),
        files: Vec::new(),
        visible: VisibleEntries::new(),
    };
    let mut entries = listing.visible;
    // Puts each directory before its entries.
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    for entry in entries {
        copying.copy_visible_entry(entry)?;
    }
    copying.remove_names_of_hidden_files(filter)?;
    copying.finish_copied_directories(fstat(bench).at_path(b"")?)?;
    Ok(CopiedEntries {
        visible: copying.visible,
        hidden: listing.hidden,
    })
}

impl VisibleCopy<'_> {
    fn copy_visible_entry(&mut self, entry: VisibleEntry) -> Result<()> {
        let (above, name) = split_path(&entry.path);
        let Some(above) = self.open_copied_directory(above)? else {
            return Ok(());
        };
        match kind_of(&entry.stat) {
            EntryKind::Directory => {
                mkdirat(&above, name, Mode::RWXU).at_path(&entry.path)?;
                self.visible
                    .insert(entry.path.clone(), Some(EntryStatus::from_stat(&entry.stat)));
                self.directories.push(entry);
            }
            EntryKind::File => {
                if let Some(stat) = self.copy_visible_file(&above, name, &entry)? {
                    self.visible.insert(entry.path.clone(), settled_status(&stat));
                    self.files.push((entry.path, stat));
                }
            }
            EntryKind::Symlink => {
                if self.copy_link(&above, name, &entry.path)? {
                    self.visible.insert(entry.path, settled_status(&entry.stat));
                }
            }
            EntryKind::Other => {}
        }
        Ok(())
    }

    /// Opens a directory of the copy; `None` if it was not made.
    fn open_copied_directory(&mut self, path: &[u8]) -> Result<Option<OwnedFd>> {
        let is_known = self.above.as_ref().is_some_and(|(known, _)| known == path);
        if !is_known {
            match open_beneath(self.to.directory, path, OFlags::PATH | OFlags::DIRECTORY) {
                Ok(directory) => self.above = Some((path.to_vec(), directory)),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
                Err(errno) => return Err(errno).at_path(path),
            }
        }
        let directory = self.above.as_ref().map(|(_, directory)| directory.try_clone());
        directory.transpose().map_err(|_| Errno::MFILE).at_path(path)
    }

    /// Copies a file; returns its status, or `None` if it is gone or cannot be read.
    fn copy_visible_file(&mut self, above: &OwnedFd, name: &[u8], entry: &VisibleEntry) -> Result<Option<Stat>> {
        let path = &entry.path;
        let key = settled_status(&entry.stat).map(|seen| self.store_key(&seen, &entry.stat));
        if let (Some(key), Some(store)) = (&key, &mut self.to.store)
            && store.link_copy(key, above, name)
        {
            return Ok(Some(entry.stat));
        }
        for tries in 1..=MAX_TRIES {
            let Some((source, before)) = self.open_source(path)? else {
                return Ok(None);
            };
            let target = create_file(above, name, 0o600).at_path(path)?;
            let copied = copy_content(&source, &target, &before);
            if !matches!(copied, Ok(()) | Err(Errno::STALE)) {
                copied.at_path(path)?;
            }
            // If the name led to another file meanwhile, or others wrote, the bytes read may be the content of another
            // path, a hidden one too.
            let now = stat_beneath(self.bench, path)
                .at_path(path)?
                .map(|stat| EntryStatus::from_stat(&stat));
            let is_settled = now == Some(EntryStatus::from_stat(&before));
            let is_at_path = now.is_some_and(|now| now.inode == before.st_ino);
            if copied.is_ok() && (is_settled || (is_at_path && tries == MAX_TRIES)) {
                finish_file(&target, &before, self.owner_of(&before)).at_path(path)?;
                let key = settled_status(&before).map(|seen| self.store_key(&seen, &before));
                if let (Some(key), Some(store), true) = (key, &mut self.to.store, is_settled) {
                    store.store_copy(key, above, name);
                }
                return Ok(Some(before));
            }
            unlinkat(above, name, AtFlags::empty()).at_path(path)?;
        }
        Ok(None)
    }

    /// Opens the file at a path; `None` if there is none that can be read.
    fn open_source(&self, path: &[u8]) -> Result<Option<(OwnedFd, Stat)>> {
        let source = match open_beneath(self.bench, path, OFlags::RDONLY | GENTLY) {
            Ok(source) => source,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::PERM | Errno::XDEV) => {
                return Ok(None);
            }
            // The entry is a socket, or a device without a driver.
            Err(Errno::NXIO | Errno::NODEV) => return Ok(None),
            Err(errno) => return Err(errno).at_path(path),
        };
        let stat = fstat(&source).at_path(path)?;
        Ok((kind_of(&stat) == EntryKind::File).then_some((source, stat)))
    }

    fn owner_of(&self, stat: &Stat) -> (Uid, Gid) {
        let mapped = self.to.owner;
        let uid = mapped.filter(|(from, _)| from.0 == stat.st_uid).map(|(_, to)| to.0);
        let gid = mapped.filter(|(from, _)| from.1 == stat.st_gid).map(|(_, to)| to.1);
        (
            Uid::from_raw(uid.unwrap_or(stat.st_uid)),
            Gid::from_raw(gid.unwrap_or(stat.st_gid)),
        )
    }

    /// Returns the name of a file's state in the store; another state has another time of change.
    fn store_key(&self, seen: &EntryStatus, stat: &Stat) -> Vec<u8> {
        let (uid, gid) = self.owner_of(stat);
        format!(
            "{:x}-{:x}-{:x}-{:o}-{}.{}-{}.{}-{}-{}",
            stat.st_dev,
            seen.inode,
            seen.size,
            seen.mode,
            seen.modified.0,
            seen.modified.1,
            seen.changed.0,
            seen.changed.1,
            uid.as_raw(),
            gid.as_raw(),
        )
        .into_bytes()
    }

    fn copy_link(&self, above: &OwnedFd, name: &[u8], path: &[u8]) -> Result<bool> {
        let opened = open_beneath(self.bench, path, OFlags::PATH | OFlags::NOFOLLOW);
        let target = opened.and_then(|link| Ok((readlinkat(&link, "", Vec::new())?, fstat(&link)?)));
        let (target, stat) = match target {
            Ok(read) => read,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::INVAL | Errno::XDEV) => return Ok(false),
            Err(errno) => return Err(errno).at_path(path),
        };
        symlinkat(&target, above, name).at_path(path)?;
        let (uid, gid) = self.owner_of(&stat);
        let _ = chownat(above, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW);
        utimensat(above, name, &times_of(&stat), AtFlags::SYMLINK_NOFOLLOW).at_path(path)?;
        Ok(true)
    }

    /// Removes copies of files that also have a hidden name.
    fn remove_names_of_hidden_files(&mut self, filter: &dyn ReadFilter) -> Result<()> {
        // After all files were copied: a hidden name that is added during the copy would be missed by an earlier check.
        let named: Vec<_> = self.files.iter().map(|(path, stat)| (&path[..], stat)).collect();
        for path in names_of_hidden_files(self.bench, filter, &named)? {
            let (above, name) = split_path(&path);
            if let Some(above) = self.open_copied_directory(above)? {
                unlinkat(&above, name, AtFlags::empty()).at_path(&path)?;
            }
            self.visible.remove(&path);
        }
        Ok(())
    }

    /// Gives the directories their owners, modes and times.
    fn finish_copied_directories(&mut self, top: Stat) -> Result<()> {
        // At the end and from the bottom up: a directory without the write bit takes no entries, and each new entry
        // changes its times.
        let root = VisibleEntry {
            path: Vec::new(),
            stat: top,
        };
        let directories = std::mem::take(&mut self.directories);
        for VisibleEntry { path, stat } in directories.iter().rev().chain([&root]) {
            let mode = stat.st_mode & COMPARED_BITS;
            finish_directory(self.to.directory, path, stat, self.owner_of(stat), mode)?;
        }
        if let Some(store) = &self.to.store {
            store.delete_unused();
        }
        Ok(())
    }
}

impl FileStore {
    /// Opens the store in a private directory.
    pub(crate) fn new(directory: OwnedFd) -> Self {
        Self {
            directory,
            used: BTreeSet::new(),
        }
    }

    /// Links the copy of this key into another directory; returns whether there is one.
    fn link_copy(&mut self, key: &[u8], above: &OwnedFd, name: &[u8]) -> bool {
        let is_linked = linkat(&self.directory, key, above, name, AtFlags::empty()).is_ok();
        if is_linked {
            self.used.insert(key.to_vec());
        }
        is_linked
    }

    /// Adds a copy to the store; a copy that cannot be added is made again the next time.
    fn store_copy(&mut self, key: Vec<u8>, above: &OwnedFd, name: &[u8]) {
        let _ = linkat(above, name, &self.directory, &key[..], AtFlags::empty());
        self.used.insert(key);
    }

    /// Deletes unused copies, if there are many. A sandbox that wants to link one at that moment copies the file
    /// instead.
    fn delete_unused(&self) {
        let Ok(directory) = open_beneath(self.directory.as_fd(), b"", OFlags::RDONLY | OFlags::DIRECTORY) else {
            return;
        };
        let names = list_names(&directory).unwrap_or_default();
        let unused: Vec<_> = names.iter().filter(|name| !self.used.contains(*name)).collect();
        if unused.len() > MAX_UNUSED.max(self.used.len()) {
            for name in unused {
                let _ = unlinkat(&self.directory, &name[..], AtFlags::empty());
            }
        }
    }
}
