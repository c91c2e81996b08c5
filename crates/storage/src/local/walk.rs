//! Directories opened by handle, for walks on as many threads as the caller likes.
//!
//! Made for search: one open and a few reads for a directory, three system calls to open a file, and no paths anywhere,
//! so that a rename by another program cannot lead the walk elsewhere.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use garret_core::path::EntryPath;
use garret_core::{Alteration, Clock, Directory, DirectoryEntry, EntryKind, Error, OpenFile, Result, Stat, WsPath};
use rustix::fs::{FileType, OFlags, readlinkat};
use rustix::io::Errno;

use super::alias::hard_linked;
use super::alter::{self, Failure};
use super::error::Cause;
use super::names::{for_each_name, kind_in, kind_of, open_child, size_in, stat_entry, time};
use super::reopen::open_file;
use super::temp;
use super::version::Snapshot;

/// A directory opened by handle.
#[derive(Debug)]
pub(super) struct LocalDirectory {
    handle: OwnedFd,
    path: EntryPath,
    clock: Arc<dyn Clock>,
    /// Reading moves the position of the handle, so two readers take turns.
    reading: Mutex<()>,
}

impl LocalDirectory {
    pub(super) fn new(handle: OwnedFd, path: EntryPath, clock: Arc<dyn Clock>) -> Self {
        Self {
            handle,
            path,
            clock,
            reading: Mutex::new(()),
        }
    }

    fn fail(&self, name: &[u8], cause: Cause) -> Error {
        fail_at(&self.path.child(name), cause)
    }

    fn names(&self) -> Result<Vec<(Vec<u8>, FileType)>, Errno> {
        let _turn = self.reading.lock().expect("no holder panics");
        let mut names = Vec::new();
        for_each_name(&self.handle, |name, kind| names.push((name.to_vec(), kind)))?;
        Ok(names)
    }

    #[allow(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
    fn described(&self, name: &[u8], found: &rustix::fs::Stat) -> Result<Stat, Cause> {
        let kind = kind_in(found);
        let target = match kind {
            EntryKind::Symlink => Some(readlinkat(&self.handle, name, Vec::new())?),
            _ => None,
        };
        let snapshot = Snapshot::of(found);
        // A young file would need a hash of its content for a version, which a stat must not cost.
        let is_told = kind == EntryKind::File && !snapshot.is_young(self.clock.now());
        Ok(Stat {
            kind,
            size: size_in(found),
            mode: (kind != EntryKind::Symlink).then_some(found.st_mode & 0o7777),
            created: None,
            modified: time(found.st_mtime as i64, found.st_mtime_nsec as u32),
            changed: time(found.st_ctime as i64, found.st_ctime_nsec as u32),
            version: is_told.then(|| snapshot.version_when_old()),
            target: target.map(|target| target.to_string_lossy().into_owned()),
            hard_linked: hard_linked(found),
        })
    }

    /// Returns the kind of an entry; takes a stat if the file system gave no type with the name.
    fn kind(&self, name: &[u8], told: FileType) -> Option<EntryKind> {
        match told {
            FileType::Unknown => stat_entry(&self.handle, name).ok()?.map(|stat| kind_in(&stat)),
            told => Some(kind_of(told)),
        }
    }
}

impl Directory for LocalDirectory {
    fn entries(&self) -> Result<Vec<DirectoryEntry>> {
        let names = self.names().map_err(|errno| fail_at(&self.path, errno.into()))?;
        let entries = names.into_iter().filter_map(|(name, told)| {
            let kind = self.kind(&name, told)?;
            Some(DirectoryEntry { name, kind })
        });
        Ok(entries.collect())
    }

    fn open_directory(&self, name: &[u8]) -> Result<Box<dyn Directory>> {
        let opened = one_name(name).and_then(|()| open_child(&self.handle, name).map_err(as_no_directory));
        let handle = opened.map_err(|cause| self.fail(name, cause))?;
        let clock = self.clock.clone();
        Ok(Box::new(Self::new(handle, self.path.child(name), clock)))
    }

    fn open_file(&self, name: &[u8]) -> Result<OpenFile> {
        let opened = one_name(name).and_then(|()| open_file(&self.handle, name, OFlags::RDONLY));
        let (file, stat) = opened.map_err(|cause| self.fail(name, as_no_file(cause)))?;
        Ok(OpenFile {
            content: Box::new(File::from(file)),
            size: size_in(&stat),
            hard_linked: hard_linked(&stat),
        })
    }

    fn stat(&self, name: &[u8]) -> Result<Stat> {
        let found = one_name(name).and_then(|()| Ok(stat_entry(&self.handle, name)?));
        let found = found.and_then(|found| found.ok_or(Cause::System(Errno::NOENT)));
        let found = found.and_then(|found| self.described(name, &found));
        found.map_err(|cause| self.fail(name, cause))
    }

    fn alter(&self, name: &[u8], alteration: Alteration<'_>) -> Result<()> {
        one_name(name).map_err(|cause| self.fail(name, cause))?;
        alter::alter(&self.handle, name, alteration).map_err(|failure| match failure {
            Failure::Cause(cause) => self.fail(name, cause),
            Failure::Content(error) => error,
        })
    }
}

/// Refuses a name that could lead out of its directory, and the name of a temporary entry.
fn one_name(name: &[u8]) -> Result<(), Cause> {
    let leads_on = name.is_empty() || name == b"." || name == b".." || name.contains(&b'/');
    if leads_on || temp::is_temporary(name) {
        Err(Cause::System(Errno::INVAL))
    } else {
        Ok(())
    }
}

/// Converts the error of opening a directory: a link is no directory.
fn as_no_directory(errno: Errno) -> Cause {
    match errno {
        Errno::LOOP => Cause::System(Errno::NOTDIR),
        other => other.into(),
    }
}

/// Converts the error of opening a file: the contract has one error for every entry that is no regular file.
fn as_no_file(cause: Cause) -> Cause {
    match cause {
        Cause::Link | Cause::System(Errno::ISDIR) => Cause::Special,
        other => other,
    }
}

/// Returns the error for a path that may hold bytes that no [`WsPath`] can.
fn fail_at(path: &EntryPath, cause: Cause) -> Error {
    match path.as_path() {
        Some(path) => cause.at(path),
        None => cause.at(&WsPath::parse(&path.shown()).unwrap_or_else(|_| WsPath::root())),
    }
}
