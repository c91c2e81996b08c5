//! Opening entries beneath a directory handle.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, statat};
use rustix::io::Errno;
use rustix::path::Arg;

/// The longest path that the kernel opens; one byte of its 4096 is the end.
pub const MAX_PATH_BYTES: usize = 4095;
/// The flags to open a file for its content: no link, no waiting for a peer, no controlling terminal.
pub const GENTLY: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

const LOOK: AtFlags = AtFlags::SYMLINK_NOFOLLOW.union(AtFlags::NO_AUTOMOUNT);
/// The number of tries to open a path. A try takes a microsecond or two, and fails only if an entry is renamed or
/// mounted at that moment.
const MAX_TRIES: usize = 1000;

/// Opens `path` below `top`, or the top itself if `path` is empty. Fails on a symbolic link, and with `XDEV` on a path
/// that enters another mount.
pub fn open_beneath(top: impl AsFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    open_with_retries(top, path, flags, ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV)
}

/// Opens `path` below `top` as [`open_beneath`] does, and enters other mounts, which a directory of a user may contain.
pub fn open_across_mounts(top: impl AsFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    open_with_retries(top, path, flags, ResolveFlags::NO_SYMLINKS)
}

/// Opens `path` below `top` and follows symbolic links that stay below it; a link that leads outside is `XDEV`.
pub fn open_through_links(top: impl AsFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    open_with_retries(top, path, flags, ResolveFlags::empty())
}

fn open_with_retries(top: impl AsFd, path: &[u8], flags: OFlags, further: ResolveFlags) -> Result<OwnedFd, Errno> {
    let path: &[u8] = if path.is_empty() { b"." } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | further;
    for _ in 0..MAX_TRIES {
        match openat2(&top, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            // At a `..` the kernel could not rule out a race with a rename or a mount, which any process on the machine
            // may cause; the caller is to try again.
            Err(Errno::AGAIN | Errno::INTR) => {}
            answer => return answer,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens the directory `name` in `parent` for reading; refuses a link.
pub fn open_child(parent: impl AsFd, name: impl Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty())
}

/// Returns the status of the entry itself, not of the target of a link; `None` if it does not exist.
pub fn stat_entry(directory: impl AsFd, name: &[u8]) -> Result<Option<Stat>, Errno> {
    match statat(directory, name, LOOK) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns the status of the entry at `path` below `top`; `None` if it does not exist, or if an entry above it is no
/// directory.
pub fn stat_beneath(top: impl AsFd, path: &[u8]) -> Result<Option<Stat>, Errno> {
    match open_beneath(top, path, OFlags::PATH | OFlags::NOFOLLOW) {
        Ok(held) => fstat(held).map(Some),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(errno),
    }
}
