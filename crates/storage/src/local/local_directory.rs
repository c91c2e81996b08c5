//! Directories opened by handle, for walks on as many threads as the caller likes.
//!
//! Made for search: one open and a few reads for a directory, three system calls to open a file, and no paths anywhere,
//! so that a rename by another program cannot lead the walk elsewhere.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use garret_core::path::EntryPath;
use garret_core::{
    Clock, DirectoryEntry, DirectoryHandle, EntryAlteration, EntryKind, Error, OpenFile, Result, Stat, WsPath,
};
use garret_handles::{open_child, stat_entry};
use rustix::fs::{FileType, OFlags, readlinkat};
use rustix::io::Errno;

use super::alter::{self, AlterationError};
use super::directory_entries::{entry_kind, for_each_name, stat_kind, stat_size, timestamp_of};
use super::entry_handle::open_file;
use super::error::AccessError;
use super::hard_links::hard_linked;
use super::temporary_files;
use super::version::StatFingerprint;

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

    fn error_for_name(&self, name: &[u8], cause: AccessError) -> Error {
        error_at_path(&self.path.child(name), cause)
    }

    fn read_names(&self) -> Result<Vec<(Vec<u8>, FileType)>, Errno> {
        let _turn = self.reading.lock().expect("no holder panics");
        let mut names = Vec::new();
        for_each_name(&self.handle, |name, kind| names.push((name.to_vec(), kind)))?;
        Ok(names)
    }

    #[allow(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
    fn describe_entry(&self, name: &[u8], found: &rustix::fs::Stat) -> Result<Stat, AccessError> {
        let kind = stat_kind(found);
        let target = match kind {
            EntryKind::Symlink => Some(readlinkat(&self.handle, name, Vec::new())?),
            _ => None,
        };
        let snapshot = StatFingerprint::from_stat(found);
        // A young file would need a hash of its content for a version, which a stat must not cost.
        let is_told = kind == EntryKind::File && !snapshot.is_young(self.clock.now());
        Ok(Stat {
            kind,
            size: stat_size(found),
            mode: (kind != EntryKind::Symlink).then_some(found.st_mode & 0o7777),
            created: None,
            modified: timestamp_of(found.st_mtime as i64, found.st_mtime_nsec as u32),
            changed: timestamp_of(found.st_ctime as i64, found.st_ctime_nsec as u32),
            version: is_told.then(|| snapshot.version_when_old()),
            target: target.map(|target| target.to_string_lossy().into_owned()),
            hard_linked: hard_linked(found),
        })
    }

    /// Returns the kind of an entry; takes a stat if the file system gave no type with the name.
    fn kind_of_entry(&self, name: &[u8], told: FileType) -> Option<EntryKind> {
        match told {
            FileType::Unknown => stat_entry(&self.handle, name).ok()?.map(|stat| stat_kind(&stat)),
            told => Some(entry_kind(told)),
        }
    }
}

impl DirectoryHandle for LocalDirectory {
    fn list_entries(&self) -> Result<Vec<DirectoryEntry>> {
        let names = self
            .read_names()
            .map_err(|errno| error_at_path(&self.path, errno.into()))?;
        let entries = names.into_iter().filter_map(|(name, told)| {
            let kind = self.kind_of_entry(&name, told)?;
            Some(DirectoryEntry { name, kind })
        });
        Ok(entries.collect())
    }

    fn open_directory(&self, name: &[u8]) -> Result<Box<dyn DirectoryHandle>> {
        let opened = check_single_name(name).and_then(|()| open_child(&self.handle, name).map_err(as_not_a_directory));
        let handle = opened.map_err(|cause| self.error_for_name(name, cause))?;
        let clock = self.clock.clone();
        Ok(Box::new(Self::new(handle, self.path.child(name), clock)))
    }

    fn open_file(&self, name: &[u8]) -> Result<OpenFile> {
        let opened = check_single_name(name).and_then(|()| open_file(&self.handle, name, OFlags::RDONLY));
        let (file, stat) = opened.map_err(|cause| self.error_for_name(name, as_not_a_file(cause)))?;
        Ok(OpenFile {
            content: Box::new(File::from(file)),
            size: stat_size(&stat),
            hard_linked: hard_linked(&stat),
        })
    }

    fn stat_entry(&self, name: &[u8]) -> Result<Stat> {
        let found = check_single_name(name).and_then(|()| Ok(stat_entry(&self.handle, name)?));
        let found = found.and_then(|found| found.ok_or(AccessError::System(Errno::NOENT)));
        let found = found.and_then(|found| self.describe_entry(name, &found));
        found.map_err(|cause| self.error_for_name(name, cause))
    }

    fn alter_entry(&self, name: &[u8], alteration: EntryAlteration<'_>) -> Result<()> {
        check_single_name(name).map_err(|cause| self.error_for_name(name, cause))?;
        alter::alter_entry(&self.handle, name, alteration).map_err(|failure| match failure {
            AlterationError::Cause(cause) => self.error_for_name(name, cause),
            AlterationError::Content(error) => error,
        })
    }
}

/// Refuses a name that could lead out of its directory, and the name of a temporary entry.
fn check_single_name(name: &[u8]) -> Result<(), AccessError> {
    let leads_on = name.is_empty() || name == b"." || name == b".." || name.contains(&b'/');
    if leads_on || temporary_files::is_temporary(name) {
        Err(AccessError::System(Errno::INVAL))
    } else {
        Ok(())
    }
}

/// Converts the error of opening a directory: a link is no directory.
fn as_not_a_directory(errno: Errno) -> AccessError {
    match errno {
        Errno::LOOP => AccessError::System(Errno::NOTDIR),
        other => other.into(),
    }
}

/// Converts the error of opening a file: the contract has one error for every entry that is no regular file.
fn as_not_a_file(cause: AccessError) -> AccessError {
    match cause {
        AccessError::Link | AccessError::System(Errno::ISDIR) => AccessError::Special,
        other => other,
    }
}

/// Returns the error for a path that may hold bytes that no [`WsPath`] can.
fn error_at_path(path: &EntryPath, cause: AccessError) -> Error {
    match path.as_path() {
        Some(path) => cause.into_error(path),
        None => cause.into_error(&WsPath::parse(&path.display_path()).unwrap_or_else(|_| WsPath::root())),
    }
}
