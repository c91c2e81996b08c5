//! Putting things into a copy in which processes work: by handle, through no link, and a file appears whole.

use std::fs::File;
use std::io::Write;
use std::os::fd::{BorrowedFd, OwnedFd};

use garret_core::{Content, Effect, Error, Placed, Result, Timestamp};
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use crate::effects::beneath::{look, open, set_mode, split};
use crate::effects::error::At;
use crate::namespace::remove::remove_tree;

const DRAFT: &[u8] = b".garret-draft";
const PIECE: usize = 256 * 1024;

/// Puts the effects in their order.
pub(super) fn place(top: BorrowedFd<'_>, effects: &[Effect]) -> Result<()> {
    effects.iter().try_for_each(|effect| place_one(top, effect))
}

/// Removes what is at `path`, where something is.
pub(super) fn remove(top: BorrowedFd<'_>, path: &[u8]) -> Result<()> {
    let (above, name) = split(path);
    match above_of(top, above) {
        Ok(directory) => remove_tree(rustix::fd::AsFd::as_fd(&directory), name).at(path),
        // It went with what was above it.
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
        Err(errno) => Err(errno).at(path),
    }
}

fn above_of(top: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    open(top, path, OFlags::RDONLY | OFlags::DIRECTORY)
}

fn place_one(top: BorrowedFd<'_>, effect: &Effect) -> Result<()> {
    let path = effect.path.as_bytes();
    let (above, name) = split(path);
    match &effect.placed {
        Placed::Nothing => remove(top, path),
        Placed::Image(_) => Err(Error::invalid("a sandbox knows no history").hint("give the content itself")),
        Placed::Directory { mode } => make_directory(&above_of(top, above).at(path)?, name, *mode).at(path),
        Placed::Symlink { target } => {
            let directory = above_of(top, above).at(path)?;
            remove_tree(rustix::fd::AsFd::as_fd(&directory), name).at(path)?;
            rustix::fs::symlinkat(target.as_str(), &directory, name).at(path)
        }
        Placed::File { content, mode } => {
            let directory = above_of(top, above).at(path)?;
            let file = draft(&directory, content, path)?;
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o777)).at(path)?;
            set_time(&file, effect.modified).at(path)?;
            put_in_place(&directory, name).at(path)
        }
    }
}

/// One that is there keeps what is in it.
fn make_directory(directory: &OwnedFd, name: &[u8], mode: u32) -> Result<(), Errno> {
    let is_there = look(directory, name)?
        .is_some_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory);
    if !is_there {
        remove_tree(rustix::fd::AsFd::as_fd(directory), name)?;
        rustix::fs::mkdirat(directory, name, Mode::RWXU)?;
    }
    let held = open(directory, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW)?;
    set_mode(&held, mode & 0o777)
}

fn draft(directory: &OwnedFd, content: &Content, path: &[u8]) -> Result<File> {
    remove_tree(rustix::fd::AsFd::as_fd(directory), DRAFT).at(path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(directory, DRAFT, flags, Mode::RUSR | Mode::WUSR).at(path)?);
    let mut reader = content.open()?;
    let mut piece = Vec::new();
    while reader.append_to(&mut piece, PIECE)? > 0 {
        let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
        file.write_all(&piece).map_err(errno).at(path)?;
        piece.clear();
    }
    Ok(file)
}

fn set_time(file: &File, modified: Option<Timestamp>) -> Result<(), Errno> {
    let Some(modified) = modified else { return Ok(()) };
    let nanoseconds = modified.as_nanosecond();
    let time = Timespec {
        tv_sec: nanoseconds.div_euclid(1_000_000_000) as _,
        tv_nsec: nanoseconds.rem_euclid(1_000_000_000) as _,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::futimens(file, &times)
}

fn put_in_place(directory: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    let moved = || rustix::fs::renameat(directory, DRAFT, directory, name);
    let answer = match moved() {
        Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST) => {
            remove_tree(rustix::fd::AsFd::as_fd(directory), name)?;
            moved()
        }
        answer => answer,
    };
    if answer.is_err() {
        let _ = rustix::fs::unlinkat(directory, DRAFT, AtFlags::empty());
    }
    answer
}
