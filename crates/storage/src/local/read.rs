//! Reading files.

use std::ops::Range;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use garret_core::memory::check_read_limit;
use garret_core::{Precondition, ReadOptions, ReadResult, Result, WsPath};
use rustix::buffer::spare_capacity;
use rustix::fs::Stat;
use rustix::io::{Errno, pread};

use super::MAX_INLINE_BYTES;
use super::beneath::{LocalFinalLink, LocalLinkRules, RootDirectory};
use super::directory_entries::stat_size;
use super::error::AccessError;
use super::hard_links::hard_linked;
use super::version::{ContentHash, StatFingerprint};
use super::{LocalContext, LocalContextHandle};

const MAX_TRIES: usize = 4;

pub(super) async fn read_file(shared: &LocalContextHandle, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
    let opened = open_for_read(&shared.root, path, &options)?;
    // The page cache serves a small read faster than another thread could be started.
    if opened.cost_in_bytes(shared) <= MAX_INLINE_BYTES {
        return finish_read(shared, path, &options, opened);
    }
    let (shared, path) = (shared.clone(), path.clone());
    garret_handles::run_blocking(move || finish_read(&shared, &path, &options, opened)).await
}

/// A file opened for one read.
struct FileToRead {
    file: OwnedFd,
    stat: Stat,
    wanted: Range<u64>,
}

impl FileToRead {
    /// Returns the bytes that the read will move, including those for the hash of a young file.
    fn cost_in_bytes(&self, shared: &LocalContext) -> u64 {
        if StatFingerprint::from_stat(&self.stat).is_young(shared.clock.now()) {
            stat_size(&self.stat)
        } else {
            self.wanted.end - self.wanted.start
        }
    }

    fn is_whole(&self) -> bool {
        self.wanted == (0..stat_size(&self.stat))
    }
}

fn open_for_read(root: &RootDirectory, path: &WsPath, options: &ReadOptions) -> Result<FileToRead> {
    let way = LocalLinkRules {
        last: LocalFinalLink::Followed,
        follow: options.follow,
    };
    let (file, stat) = root.with_real_path(path, way, |real| root.open_file(real))?;
    let wanted = clamp_range(options.range.clone(), stat_size(&stat));
    check_read_limit(path, wanted.end - wanted.start, options.max_bytes)?;
    Ok(FileToRead { file, stat, wanted })
}

/// Reads the opened file; if it shrinks meanwhile, opens it again.
fn finish_read(shared: &LocalContext, path: &WsPath, options: &ReadOptions, opened: FileToRead) -> Result<ReadResult> {
    let mut opened = opened;
    for _ in 0..MAX_TRIES {
        check_precondition(shared, path, options, &opened)?;
        match read_opened(shared, &opened) {
            Err(AccessError::Unsteady) => opened = open_for_read(&shared.root, path, options)?,
            outcome => return outcome.map_err(|cause| cause.into_error(path)),
        }
    }
    Err(AccessError::Unsteady.into_error(path))
}

/// Checks the precondition on the opened file, before any content is read.
fn check_precondition(shared: &LocalContext, path: &WsPath, options: &ReadOptions, opened: &FileToRead) -> Result<()> {
    let snapshot = StatFingerprint::from_stat(&opened.stat);
    let hash = || ContentHash::of_file(&opened.file);
    let holds = match &options.precondition {
        Precondition::Any => true,
        Precondition::Absent => false,
        Precondition::Version(wanted) => snapshot
            .matches_version(wanted, hash)
            .map_err(|errno| AccessError::from(errno).into_error(path))?,
    };
    if holds {
        return Ok(());
    }
    let current = snapshot.version_at(shared.clock.now(), hash).ok();
    Err(options.precondition.conflict_error(path, current))
}

fn read_opened(shared: &LocalContext, opened: &FileToRead) -> Result<ReadResult, AccessError> {
    let snapshot = StatFingerprint::from_stat(&opened.stat);
    let now = shared.clock.now();
    let (bytes, version);
    if opened.is_whole() {
        bytes = read_range(&opened.file, &opened.wanted)?;
        version = snapshot.version_at(now, || Ok::<_, Errno>(ContentHash::of_bytes(&bytes)))?;
    } else {
        // The hash comes first: a write in between must make the version too old, not too new.
        version = snapshot.version_at(now, || ContentHash::of_file(&opened.file))?;
        bytes = read_range(&opened.file, &opened.wanted)?;
    }
    Ok(ReadResult {
        bytes: Bytes::from(bytes),
        size: stat_size(&opened.stat),
        version,
        mode: Some(opened.stat.st_mode & 0o7777),
        hard_linked: hard_linked(&opened.stat),
    })
}

/// Reads exactly the bytes of `range`; fails if the file ends before, because then it was changed.
fn read_range(file: &OwnedFd, range: &Range<u64>) -> Result<Vec<u8>, AccessError> {
    let length = usize::try_from(range.end - range.start).map_err(|_| AccessError::System(Errno::NOMEM))?;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(length)
        .map_err(|_| AccessError::System(Errno::NOMEM))?;
    while bytes.len() < length {
        let offset = range.start + bytes.len() as u64;
        match pread(file, spare_capacity(&mut bytes), offset) {
            Ok(0) => return Err(AccessError::Unsteady),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    // The allocator may have given more room than was asked for.
    bytes.truncate(length);
    Ok(bytes)
}

fn clamp_range(range: Option<Range<u64>>, size: u64) -> Range<u64> {
    let range = range.unwrap_or(0..size);
    let start = range.start.min(size);
    start..range.end.clamp(start, size.max(start))
}
