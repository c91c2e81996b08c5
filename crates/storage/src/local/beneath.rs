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
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, readlinkat, statat};
use rustix::io::Errno;

use super::error::{Cause, path_keeps_changing, reserved};
use super::known::KnownDirectories;
use super::reopen::{GENTLY, expect_file, open_file};
use super::temp;

const MAX_LINKS: usize = 40;
const MAX_TRIES: usize = 16;

/// Whether a link in the last component of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Followed,
    Kept,
}

/// The rules by which the links of a path are followed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) last: Last,
    pub(super) follow: Follow,
}

/// The handle of the root directory of the workspace.
#[derive(Debug)]
pub(super) struct Root {
    handle: OwnedFd,
    known: KnownDirectories,
}

impl Root {
    pub(super) fn new(handle: OwnedFd) -> Self {
        Self {
            handle,
            known: KnownDirectories::default(),
        }
    }

    /// Returns the handle of the root directory.
    pub(super) fn handle(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// Opens `path` without following any link; a link in the last component can be opened with `PATH | NOFOLLOW` only.
    pub(super) fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Cause> {
        let path = if path.is_empty() { b"." } else { path };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..MAX_TRIES {
            match openat2(&self.handle, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
                // The kernel could not rule out a race with a rename, and asks the caller to try again.
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::XDEV) => return Err(Cause::Link),
                answer => return Ok(answer?),
            }
        }
        Err(Cause::System(Errno::AGAIN))
    }

    /// Opens the directory at `path` so that it can be locked, synced and read.
    pub(super) fn open_directory(&self, path: &[u8]) -> Result<OwnedFd, Cause> {
        self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Opens the directory above `path`, for access to entries in it; `path` is not the root.
    pub(super) fn parent<'a>(&'a self, path: &'a WsPath) -> Result<Parent<'a>, Cause> {
        let (above, name) = split(path);
        let handle = match above {
            "" => Above::Root(self.handle.as_fd()),
            above => Above::Opened(self.open(above.as_bytes(), OFlags::PATH | OFlags::DIRECTORY)?),
        };
        Ok(Parent { handle, name })
    }

    /// Opens the regular file at `path` for reading, and returns its stat by that handle.
    pub(super) fn open_file(&self, path: &WsPath) -> Result<(OwnedFd, Stat), Cause> {
        let (above, _) = split(path);
        if self.known.holds(above) {
            match self.open_known(path) {
                Some(opened) => return Ok(opened),
                None => self.known.forget(above),
            }
        }
        if path.is_root() {
            return Err(Cause::System(Errno::ISDIR));
        }
        let parent = self.parent(path)?;
        let opened = open_file(&parent, parent.name.as_bytes(), OFlags::RDONLY)?;
        if !above.is_empty() {
            self.known.remember(above);
        }
        Ok(opened)
    }

    /// Opens a file in a directory of the table; `None` if anything is not as expected.
    fn open_known(&self, path: &WsPath) -> Option<(OwnedFd, Stat)> {
        // Looks by path before opening, because opening a fifo or a device has effects.
        let look = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        expect_file(&statat(&self.handle, path.as_str(), look).ok()?).ok()?;
        let file = self.open(path.as_str().as_bytes(), OFlags::RDONLY | GENTLY).ok()?;
        let stat = fstat(&file).ok()?;
        expect_file(&stat).ok().map(|()| (file, stat))
    }

    /// Runs `action` on `path`, or on the real path if the path passes a link that may be followed.
    pub(super) fn reach<T>(
        &self,
        path: &WsPath,
        way: Way,
        mut action: impl FnMut(&WsPath) -> Result<T, Cause>,
    ) -> Result<T> {
        refuse_reserved(path)?;
        let mut real = Cow::Borrowed(path);
        for _ in 0..MAX_TRIES {
            match action(&real) {
                Err(Cause::Link) if way.follow == Follow::Inside => real = Cow::Owned(self.resolve(path, way.last)?),
                outcome => return outcome.map_err(|cause| cause.at(&real)),
            }
        }
        Err(path_keeps_changing(path))
    }

    /// Returns the path with its links followed; a component that does not exist is kept as written.
    pub(super) fn resolve(&self, path: &WsPath, last: Last) -> Result<WsPath> {
        if self.is_real(path, last) {
            return Ok(path.clone());
        }
        self.follow_links(path, last)
    }

    /// Returns whether every component of the path exists and none is a link. Also returns `false` for a path of one
    /// component, for which following the links is quicker.
    fn is_real(&self, path: &WsPath, last: Last) -> bool {
        let flags = match last {
            Last::Followed => OFlags::PATH,
            Last::Kept => OFlags::PATH | OFlags::NOFOLLOW,
        };
        path.as_str().contains('/') && self.open(path.as_str().as_bytes(), flags).is_ok()
    }

    fn follow_links(&self, path: &WsPath, last: Last) -> Result<WsPath> {
        let mut walk = Walk {
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
            let may_follow = last == Last::Followed || !is_last;
            // A component that is missing or cannot be read counts as no link; the strict open reports the error.
            let Some(target) = walk.link(&name).filter(|_| may_follow) else {
                walk.enter(name, is_last);
                continue;
            };
            followed += 1;
            if followed > MAX_LINKS {
                return Err(Error::invalid(format!("{} goes through too many symbolic links", path.quoted())).at(path));
            }
            todo.extend(parts_of(&target).ok_or_else(|| Error::path_escape(path))?);
        }
        // The target of a link may name a temporary file as well.
        let real = walk.path()?;
        refuse_reserved(&real)?;
        Ok(real)
    }
}

/// Resolves links from the root down: the names so far, each with its handle if it is a directory.
struct Walk<'a> {
    root: &'a OwnedFd,
    above: Vec<(String, Option<OwnedFd>)>,
}

impl Walk<'_> {
    /// Returns the current directory of the walk; `None` if it does not exist.
    fn here(&self) -> Option<BorrowedFd<'_>> {
        match self.above.last() {
            None => Some(self.root.as_fd()),
            Some((_, handle)) => handle.as_ref().map(OwnedFd::as_fd),
        }
    }

    fn link(&self, name: &str) -> Option<Vec<u8>> {
        readlinkat(self.here()?, name, Vec::new())
            .ok()
            .map(|target| target.into_bytes())
    }

    fn enter(&mut self, name: String, is_last: bool) {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = match self.here() {
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
fn parts_of(target: &[u8]) -> Option<Vec<String>> {
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
pub(super) struct Parent<'a> {
    handle: Above<'a>,
    pub(super) name: &'a str,
}

#[derive(Debug)]
enum Above<'a> {
    Root(BorrowedFd<'a>),
    Opened(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.handle {
            Above::Root(handle) => *handle,
            Above::Opened(handle) => handle.as_fd(),
        }
    }
}

/// Splits a path at its last slash into the directory and the name.
pub(super) fn split(path: &WsPath) -> (&str, &str) {
    path.as_str().rsplit_once('/').unwrap_or(("", path.as_str()))
}

/// Refuses a path that names a temporary file of this storage.
pub(super) fn refuse_reserved(path: &WsPath) -> Result<()> {
    // Almost no path contains the prefix, and one search is cheaper than splitting the path.
    if path.as_str().contains(temp::PREFIX) && path.components().any(|name| name.starts_with(temp::PREFIX)) {
        return Err(reserved(path, temp::PREFIX));
    }
    Ok(())
}
