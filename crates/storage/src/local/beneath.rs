//! Opening below the root handle: the only file that turns a path of several components into a handle.
//!
//! Every open goes through `openat2` with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS: the kernel
//! refuses every path that would leave the root, and never follows a link. A path that passes a link is resolved here
//! first, by handles, component by component, with the rules of the contract (an absolute target is an escape even when
//! it points inside); the real path is then opened as strictly as any other. So a link that is swapped in at any
//! instant leads to a refusal, never to another file.

use std::borrow::Cow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use garret_core::{Error, Follow, Result, WsPath};
use garret_handles::{GENTLY, open_across_mounts};
use rustix::fs::{AtFlags, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::entry_handle::{expect_file, open_file};
use super::error::{AccessError, path_keeps_changing_error, reserved_name_error};
use super::link_free_directories::LinkFreeDirectories;
use super::temporary_files;

const MAX_LINKS: usize = 40;
const MAX_TRIES: usize = 16;

/// Whether a link in the last component of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LocalFinalLink {
    Followed,
    Kept,
}

/// The rules by which the links of a path are followed.
#[derive(Debug, Clone, Copy)]
pub(super) struct LocalLinkRules {
    pub(super) last: LocalFinalLink,
    pub(super) follow: Follow,
}

/// The handle of the root directory of the workspace.
#[derive(Debug)]
pub(super) struct RootDirectory {
    handle: OwnedFd,
    known: LinkFreeDirectories,
}

impl RootDirectory {
    pub(super) fn new(handle: OwnedFd) -> Self {
        Self {
            handle,
            known: LinkFreeDirectories::default(),
        }
    }

    /// Returns the handle of the root directory.
    pub(super) fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// Opens `path` without following any link; a link in the last component can be opened with `PATH | NOFOLLOW` only.
    pub(super) fn open_path(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, AccessError> {
        match open_across_mounts(&self.handle, path, flags) {
            Err(Errno::XDEV) => Err(AccessError::Link),
            answer => Ok(answer?),
        }
    }

    /// Opens the directory at `path` so that it can be locked, synced and read.
    pub(super) fn open_directory(&self, path: &[u8]) -> Result<OwnedFd, AccessError> {
        self.open_path(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens the directory above `path`, for access to entries in it; `path` is not the root.
    pub(super) fn open_parent<'a>(&'a self, path: &'a WsPath) -> Result<ParentDirectory<'a>, AccessError> {
        let (above, name) = split_parent(path);
        let handle = match above {
            "" => ParentHandle::Root(self.handle.as_fd()),
            above => ParentHandle::Opened(self.open_path(above.as_bytes(), OFlags::PATH | OFlags::DIRECTORY)?),
        };
        Ok(ParentDirectory { handle, name })
    }

    /// Opens the regular file at `path` for reading, and returns its stat by that handle.
    pub(super) fn open_file(&self, path: &WsPath) -> Result<(OwnedFd, Stat), AccessError> {
        let (above, _) = split_parent(path);
        if self.known.contains_directory(above) {
            match self.open_in_link_free_directory(path) {
                Some(opened) => return Ok(opened),
                None => self.known.forget(above),
            }
        }
        if path.is_root() {
            return Err(AccessError::System(Errno::ISDIR));
        }
        let parent = self.open_parent(path)?;
        let opened = open_file(&parent, parent.name.as_bytes(), OFlags::RDONLY)?;
        if !above.is_empty() {
            self.known.remember(above);
        }
        Ok(opened)
    }

    /// Opens a file in a directory of the table; `None` if anything is not as expected.
    fn open_in_link_free_directory(&self, path: &WsPath) -> Option<(OwnedFd, Stat)> {
        // Looks by path before opening, because opening a fifo or a device has effects.
        let look = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        expect_file(&statat(&self.handle, path.as_str(), look).ok()?).ok()?;
        let file = self.open_path(path.as_str().as_bytes(), OFlags::RDONLY | GENTLY).ok()?;
        let stat = fstat(&file).ok()?;
        expect_file(&stat).ok().map(|()| (file, stat))
    }

    /// Runs `action` on `path`, or on the real path if the path passes a link that may be followed.
    pub(super) fn with_real_path<T>(
        &self,
        path: &WsPath,
        way: LocalLinkRules,
        mut action: impl FnMut(&WsPath) -> Result<T, AccessError>,
    ) -> Result<T> {
        refuse_reserved(path)?;
        let mut real = Cow::Borrowed(path);
        for _ in 0..MAX_TRIES {
            match action(&real) {
                Err(AccessError::Link) if way.follow == Follow::Inside => {
                    real = Cow::Owned(self.resolve_path(path, way.last)?)
                }
                outcome => return outcome.map_err(|cause| cause.into_error(&real)),
            }
        }
        Err(path_keeps_changing_error(path))
    }

    /// Returns the path with its links followed; a component that does not exist is kept as written.
    pub(super) fn resolve_path(&self, path: &WsPath, last: LocalFinalLink) -> Result<WsPath> {
        if self.is_free_of_links(path, last) {
            return Ok(path.clone());
        }
        self.follow_links(path, last)
    }

    /// Returns whether every component of the path exists and none is a link. Also returns `false` for a path of one
    /// component, for which following the links is quicker.
    fn is_free_of_links(&self, path: &WsPath, last: LocalFinalLink) -> bool {
        let flags = match last {
            LocalFinalLink::Followed => OFlags::PATH,
            LocalFinalLink::Kept => OFlags::PATH | OFlags::NOFOLLOW,
        };
        path.as_str().contains('/') && self.open_path(path.as_str().as_bytes(), flags).is_ok()
    }

    fn follow_links(&self, path: &WsPath, last: LocalFinalLink) -> Result<WsPath> {
        let mut walk = LinkResolver {
            root: &self.handle,
            above: Vec::new(),
        };
        let mut todo: Vec<String> = path.components().rev().map(str::to_owned).collect();
        let mut followed = 0;
        while let Some(name) = todo.pop() {
            if name == ".." {
                walk.above.pop().ok_or_else(|| Error::path_escape(path))?;
                continue;
            }
            let is_last = todo.is_empty();
            let may_follow = last == LocalFinalLink::Followed || !is_last;
            // A component that is missing or cannot be read counts as no link; the strict open reports the error.
            let Some(target) = walk.read_link(&name).filter(|_| may_follow) else {
                walk.enter_component(name, is_last);
                continue;
            };
            followed += 1;
            if followed > MAX_LINKS {
                return Err(
                    Error::invalid(format!("{} goes through too many symbolic links", path.to_quoted())).at_path(path),
                );
            }
            todo.extend(link_components(&target).ok_or_else(|| Error::path_escape(path))?);
        }
        // The target of a link may name a temporary file as well.
        let real = walk.path()?;
        refuse_reserved(&real)?;
        Ok(real)
    }
}

/// Resolves links from the root down: the names so far, each with its handle if it is a directory.
struct LinkResolver<'a> {
    root: &'a OwnedFd,
    above: Vec<(String, Option<OwnedFd>)>,
}

impl LinkResolver<'_> {
    /// Returns the current directory of the walk; `None` if it does not exist.
    fn current_directory(&self) -> Option<BorrowedFd<'_>> {
        match self.above.last() {
            None => Some(self.root.as_fd()),
            Some((_, handle)) => handle.as_ref().map(OwnedFd::as_fd),
        }
    }

    fn read_link(&self, name: &str) -> Option<Vec<u8>> {
        readlinkat(self.current_directory()?, name, Vec::new())
            .ok()
            .map(|target| target.into_bytes())
    }

    fn enter_component(&mut self, name: String, is_last: bool) {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = match self.current_directory() {
            Some(here) if !is_last => openat(here, &name, flags, Mode::empty()).ok(),
            _ => None,
        };
        self.above.push((name, handle));
    }

    fn path(&self) -> Result<WsPath> {
        self.above
            .iter()
            .try_fold(WsPath::root(), |path, (name, _)| path.child(name))
    }
}

/// Returns the components of a link's target, the last first; `None` if the target is absolute or not UTF-8.
fn link_components(target: &[u8]) -> Option<Vec<String>> {
    let target = std::str::from_utf8(target).ok().filter(|text| !text.starts_with('/'))?;
    let parts = target.split('/').rev();
    Some(
        parts
            .filter(|part| !part.is_empty() && *part != ".")
            .map(str::to_owned)
            .collect(),
    )
}

/// The directory above an entry, and the entry's name in it.
#[derive(Debug)]
pub(super) struct ParentDirectory<'a> {
    handle: ParentHandle<'a>,
    pub(super) name: &'a str,
}

#[derive(Debug)]
enum ParentHandle<'a> {
    Root(BorrowedFd<'a>),
    Opened(OwnedFd),
}

impl AsFd for ParentDirectory<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.handle {
            ParentHandle::Root(handle) => *handle,
            ParentHandle::Opened(handle) => handle.as_fd(),
        }
    }
}

/// Splits a path at its last slash into the directory and the name.
pub(super) fn split_parent(path: &WsPath) -> (&str, &str) {
    path.as_str().rsplit_once('/').unwrap_or(("", path.as_str()))
}

/// Refuses a path that names a temporary file of this storage.
pub(super) fn refuse_reserved(path: &WsPath) -> Result<()> {
    // Almost no path contains the prefix, and one search is cheaper than splitting the path.
    if path.as_str().contains(temporary_files::PREFIX)
        && path.components().any(|name| name.starts_with(temporary_files::PREFIX))
    {
        return Err(reserved_name_error(path, temporary_files::PREFIX));
    }
    Ok(())
}
