//! Reading files.

use std::ops::Range;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use garret_core::memory::check_limit;
use garret_core::{Precondition, ReadOptions, ReadResult, Result, WsPath};
use rustix::buffer::spare_capacity;
use rustix::fs::Stat;
use rustix::io::{Errno, pread};

use super::alias::hard_linked;
use super::beneath::{Last, Root, Way};
use super::blocking::{self, MAX_INLINE_BYTES};
use super::error::Cause;
use super::names::size_in;
use super::version::{ContentHash, Snapshot};
use super::{Shared, SharedHandle};

const MAX_TRIES: usize = 4;

pub(super) async fn read(shared: &SharedHandle, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
    let opened = open(&shared.root, path, &options)?;
    // The page cache serves a small read faster than another thread could be started.
    if opened.costs(shared) <= MAX_INLINE_BYTES {
        return finish(shared, path, &options, opened);
    }
    let (shared, path) = (shared.clone(), path.clone());
    blocking::run(move || finish(&shared, &path, &options, opened)).await
}

/// A file opened for one read.
struct Opened {
    file: OwnedFd,
    stat: Stat,
    wanted: Range<u64>,
}

impl Opened {
    /// Returns the bytes that the read will move, including those for the hash of a young file.
    fn costs(&self, shared: &Shared) -> u64 {
        if Snapshot::of(&self.stat).is_young(shared.clock.now()) {
            size_in(&self.stat)
        } else {
            self.wanted.end - self.wanted.start
        }
    }

    fn is_whole(&self) -> bool {
        self.wanted == (0..size_in(&self.stat))
    }
}

fn open(root: &Root, path: &WsPath, options: &ReadOptions) -> Result<Opened> {
    let way = Way {
        last: Last::Followed,
        follow: options.follow,
    };
    let (file, stat) = root.reach(path, way, |real| root.open_file(real))?;
    let wanted = clamp(options.range.clone(), size_in(&stat));
    check_limit(path, wanted.end - wanted.start, options.max_bytes)?;
    Ok(Opened { file, stat, wanted })
}

/// Reads the opened file; if it shrinks meanwhile, opens it again.
fn finish(shared: &Shared, path: &WsPath, options: &ReadOptions, opened: Opened) -> Result<ReadResult> {
    let mut opened = opened;
    for _ in 0..MAX_TRIES {
        check(shared, path, options, &opened)?;
        match read_opened(shared, &opened) {
            Err(Cause::Unsteady) => opened = open(&shared.root, path, options)?,
            outcome => return outcome.map_err(|cause| cause.at(path)),
        }
    }
    Err(Cause::Unsteady.at(path))
}

/// Checks the precondition on the opened file, before any content is read.
fn check(shared: &Shared, path: &WsPath, options: &ReadOptions, opened: &Opened) -> Result<()> {
    let snapshot = Snapshot::of(&opened.stat);
    let hash = || ContentHash::of_file(&opened.file);
    let holds = match &options.precondition {
        Precondition::Any => true,
        Precondition::Absent => false,
        Precondition::Version(wanted) => snapshot
            .matches(wanted, hash)
            .map_err(|errno| Cause::from(errno).at(path))?,
    };
    if holds {
        return Ok(());
    }
    let current = snapshot.version(shared.clock.now(), hash).ok();
    Err(options.precondition.refusal(path, current))
}

fn read_opened(shared: &Shared, opened: &Opened) -> Result<ReadResult, Cause> {
    let snapshot = Snapshot::of(&opened.stat);
    let now = shared.clock.now();
    let (bytes, version);
    if opened.is_whole() {
        bytes = read_range(&opened.file, &opened.wanted)?;
        version = snapshot.version(now, || Ok::<_, Errno>(ContentHash::of(&bytes)))?;
    } else {
        // The hash comes first: a write in between must make the version too old, not too new.
        version = snapshot.version(now, || ContentHash::of_file(&opened.file))?;
        bytes = read_range(&opened.file, &opened.wanted)?;
    }
    Ok(ReadResult {
        bytes: Bytes::from(bytes),
        size: size_in(&opened.stat),
        version,
        mode: Some(opened.stat.st_mode & 0o7777),
        hard_linked: hard_linked(&opened.stat),
    })
}

/// Reads exactly the bytes of `range`; fails if the file ends before, because then it was changed.
fn read_range(file: &OwnedFd, range: &Range<u64>) -> Result<Vec<u8>, Cause> {
    let length = usize::try_from(range.end - range.start).map_err(|_| Cause::System(Errno::NOMEM))?;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(length)
        .map_err(|_| Cause::System(Errno::NOMEM))?;
    while bytes.len() < length {
        let offset = range.start + bytes.len() as u64;
        match pread(file, spare_capacity(&mut bytes), offset) {
            Ok(0) => return Err(Cause::Unsteady),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    // The allocator may have given more room than was asked for.
    bytes.truncate(length);
    Ok(bytes)
}

fn clamp(range: Option<Range<u64>>, size: u64) -> Range<u64> {
    let range = range.unwrap_or(0..size);
    let start = range.start.min(size);
    start..range.end.clamp(start, size.max(start))
}
