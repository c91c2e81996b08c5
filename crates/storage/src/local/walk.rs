//! Walking directories by handle, on as many threads as the caller likes.
//!
//! Made for search: one open and a few reads for a directory, three system calls to have a file ready, and no paths anywhere, so that
//! nothing others rename can lead the walk elsewhere.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Mutex;

use garret_core::path::EntryPath;
use garret_core::{Directory, DirectoryEntry, EntryKind, Error, OpenFile, Result, WsPath};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::error::Cause;
use super::names::{for_each_name, kind_in, kind_of, open_child, size_in, stat_entry};
use super::reopen::open_file;
use super::temp;

/// A directory opened by handle.
#[derive(Debug)]
pub(super) struct LocalDirectory {
    handle: OwnedFd,
    path: EntryPath,
    /// Reading moves the handle's position, so two readers take turns.
    reading: Mutex<()>,
}

impl LocalDirectory {
    pub(super) fn new(handle: OwnedFd, path: EntryPath) -> Self {
        Self {
            handle,
            path,
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

    /// The kind, asked for where the file system does not tell it with the name.
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
        Ok(Box::new(Self::new(handle, self.path.child(name))))
    }

    fn open_file(&self, name: &[u8]) -> Result<OpenFile> {
        let opened = one_name(name).and_then(|()| open_file(&self.handle, name, OFlags::RDONLY));
        let (file, stat) = opened.map_err(|cause| self.fail(name, as_no_file(cause)))?;
        Ok(OpenFile {
            content: Box::new(File::from(file)),
            size: size_in(&stat),
        })
    }
}

/// A name leads nowhere but into its directory.
fn one_name(name: &[u8]) -> Result<(), Cause> {
    let leads_on = name.is_empty() || name == b"." || name == b".." || name.contains(&b'/');
    match leads_on || temp::is_temporary(name) {
        true => Err(Cause::System(Errno::INVAL)),
        false => Ok(()),
    }
}

/// A link where a directory was wanted is simply none.
fn as_no_directory(errno: Errno) -> Cause {
    match errno {
        Errno::LOOP => Cause::System(Errno::NOTDIR),
        other => other.into(),
    }
}

/// The contract has one answer for everything that is no plain file.
fn as_no_file(cause: Cause) -> Cause {
    match cause {
        Cause::Link | Cause::System(Errno::ISDIR) => Cause::Special,
        other => other,
    }
}

/// The error for a path that may hold bytes that no [`WsPath`] can.
fn fail_at(path: &EntryPath, cause: Cause) -> Error {
    match path.as_path() {
        Some(path) => cause.at(path),
        None => cause.at(&WsPath::parse(&path.shown()).unwrap_or_else(|_| WsPath::root())),
    }
}
