//! Copies a bench, with modes, times, links and holes, and shares blocks if the file system can.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use garret_core::Result;
use garret_core::path::join_path;
use garret_handles::{HandleTree, MAX_PATH_BYTES, create_file, list_names, open_beneath, set_mode, stat_entry};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, Uid, chownat, copy_file_range, fchmod,
    fchown, fstat, ftruncate, futimens, ioctl_ficlone, mkdirat, readlinkat, seek, symlinkat, utimensat,
};
use rustix::io::{Errno, pread, pwrite};

use super::copy_comparison::COMPARED_BITS;
use super::path_error::ErrnoAtPath;
use crate::file_times::same_times;

const CHUNK_BYTES: usize = 256 * 1024;
const MOST_AT_ONCE: u64 = 1 << 30;

/// A directory that was made, and the status that it gets when all of its entries are made.
struct MadeDirectory {
    path: Vec<u8>,
    stat: Stat,
}

struct TreeCopy<'a> {
    from: HandleTree<'a>,
    to: BorrowedFd<'a>,
    made: Vec<MadeDirectory>,
}

/// Copies everything in `from` into `to`, an empty directory, with modes, times of modification, links and holes,
/// sharing blocks if the file system can. Devices, fifos, sockets and the set-user-id bits of files are left out.
pub fn copy_tree(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<()> {
    let top = MadeDirectory {
        path: Vec::new(),
        stat: fstat(from).at_path(b"")?,
    };
    let mut copying = TreeCopy {
        from: HandleTree::new(from),
        to,
        made: vec![top],
    };
    let mut next = 0;
    while let Some(directory) = copying.made.get(next) {
        let path = directory.path.clone();
        copying.copy_directory(&path)?;
        next += 1;
    }
    // At the end and from the bottom up: a directory without the write bit takes no entries, and each new entry changes
    // its times.
    let mut made = copying.made.iter().rev();
    made.try_for_each(|MadeDirectory { path, stat }| finish_directory(to, path, stat, owner_of(stat), stat.st_mode))
}

impl TreeCopy<'_> {
    fn copy_directory(&mut self, path: &[u8]) -> Result<()> {
        let from = self.from.open_directory(path).at_path(path)?;
        let to = open_as_path(self.to, path).at_path(path)?;
        for name in list_names(&from).at_path(path)? {
            let child = join_path(path, &name);
            // An entry whose path is too long for the kernel cannot be opened by its path by any other program either.
            let Some(stat) = stat_entry(&from, &name)
                .at_path(&child)?
                .filter(|_| child.len() <= MAX_PATH_BYTES)
            else {
                continue;
            };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    mkdirat(&to, &name, Mode::RWXU).at_path(&child)?;
                    self.made.push(MadeDirectory { path: child, stat });
                }
                FileType::RegularFile => self.copy_file(to.as_fd(), &name, &child)?,
                FileType::Symlink => copy_link(from.as_fd(), to.as_fd(), &name, &stat).at_path(&child)?,
                // Devices, fifos and sockets are left out.
                _ => {}
            }
        }
        Ok(())
    }

    fn copy_file(&mut self, to: BorrowedFd<'_>, name: &[u8], path: &[u8]) -> Result<()> {
        let source = self.from.open_file(path).at_path(path)?;
        let stat = fstat(&source).at_path(path)?;
        let target = create_file(to, name, 0o600).at_path(path)?;
        copy_content(&source, &target, &stat).at_path(path)?;
        finish_file(&target, &stat, owner_of(&stat)).at_path(path)
    }
}

fn copy_link(from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &[u8], stat: &Stat) -> Result<(), Errno> {
    let target = readlinkat(from, name, Vec::new())?;
    symlinkat(&target, to, name)?;
    utimensat(to, name, &times_of(stat), AtFlags::SYMLINK_NOFOLLOW)
}

/// Gives the copy of a file its owner, mode and times.
pub(crate) fn finish_file(target: &OwnedFd, stat: &Stat, (uid, gid): (Uid, Gid)) -> Result<(), Errno> {
    // Only root can give files away; the copy of any other user belongs to that user.
    let _ = fchown(target, Some(uid), Some(gid));
    fchmod(target, Mode::from_raw_mode(stat.st_mode & COMPARED_BITS))?;
    futimens(target, &times_of(stat))
}

/// Gives the copy of a directory its owner, mode and times.
pub(crate) fn finish_directory(
    to: BorrowedFd<'_>,
    path: &[u8],
    stat: &Stat,
    (uid, gid): (Uid, Gid),
    mode: u32,
) -> Result<()> {
    let held = open_as_path(to, path).at_path(path)?;
    let _ = chownat(&held, c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH);
    utimensat(&held, c".", &times_of(stat), AtFlags::empty()).at_path(path)?;
    set_mode(&held, mode).at_path(path)
}

/// Opens a directory without read access, for making entries in it.
fn open_as_path(top: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    open_beneath(top, path, OFlags::PATH | OFlags::DIRECTORY)
}

fn owner_of(stat: &Stat) -> (Uid, Gid) {
    (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid))
}

#[allow(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
pub(crate) fn times_of(stat: &Stat) -> Timestamps {
    same_times(Timespec {
        tv_sec: stat.st_mtime as _,
        tv_nsec: stat.st_mtime_nsec as _,
    })
}

/// Copies all of `from`, described by `stat`, into the empty file `to`; holes stay holes.
#[allow(clippy::unnecessary_cast, reason = "the fields have other types on other machines")]
pub(crate) fn copy_content(from: &OwnedFd, to: &OwnedFd, stat: &Stat) -> Result<(), Errno> {
    let size = stat.st_size as u64;
    if size == 0 || ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    if stat.st_blocks as u64 * 512 >= size {
        return copy_range(from, to, 0, size);
    }
    let mut end = 0;
    while let Some((start, next)) = next_data(from, end, size)? {
        copy_range(from, to, start, next)?;
        end = next;
    }
    ftruncate(to, size)
}

/// Returns the start and end of the next extent of data at or after `after`; `None` if only a hole is left.
pub(super) fn next_data(file: &OwnedFd, after: u64, size: u64) -> Result<Option<(u64, u64)>, Errno> {
    if after >= size {
        return Ok(None);
    }
    let start = match seek(file, SeekFrom::Data(after)) {
        Err(Errno::NXIO) => return Ok(None),
        // The file system has no holes.
        Err(Errno::INVAL) => return Ok(Some((after, size))),
        start => start?,
    };
    let end = seek(file, SeekFrom::Hole(start))?;
    Ok((start < size).then_some((start, end.min(size))))
}

fn copy_range(from: &OwnedFd, to: &OwnedFd, start: u64, end: u64) -> Result<(), Errno> {
    let mut place = start;
    while place < end {
        let wanted = (end - place).min(MOST_AT_ONCE) as usize;
        let (mut read, mut written) = (place, place);
        match copy_file_range(from, Some(&mut read), to, Some(&mut written), wanted) {
            // The file is shorter than its status said: another process cut it meanwhile.
            Ok(0) => return Err(Errno::STALE),
            Ok(count) => place += count as u64,
            Err(Errno::INTR) => {}
            // The kernel cannot copy on this file system, or not between these two.
            Err(Errno::INVAL | Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {
                place += copy_chunk(from, to, place, wanted)?;
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn copy_chunk(from: &OwnedFd, to: &OwnedFd, place: u64, wanted: usize) -> Result<u64, Errno> {
    let mut buffer = vec![0; wanted.min(CHUNK_BYTES)];
    let count = pread(from, &mut buffer[..], place)?;
    let mut written = 0;
    while written < count {
        written += pwrite(to, &buffer[written..count], place + written as u64)?;
    }
    match count {
        0 => Err(Errno::STALE),
        count => Ok(count as u64),
    }
}
