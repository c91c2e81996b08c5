//! One shard of the cache: a directory whose files together stay within a share of the size limit.
//!
//! The modification time of a file records its last use, because a separate record would have to be written at every
//! read. It is updated only when it is more than an hour old. The size of the shard is counted when a process first
//! adds an entry, and again after the process has added at most an eighth of the share. Processes that add entries at
//! the same time can therefore exceed the share by that part each; the next count corrects it.

#![allow(
    clippy::disallowed_methods,
    reason = "this file owns a private directory of the home, in which no path of a workspace occurs"
)]

use std::fs::{DirBuilder, DirEntry, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::entry::{self, CacheKey};

/// The age in seconds after which a use of the file updates its modification time.
const OLD_SECONDS: u64 = 3600;
/// The smallest disk space that a file takes.
const BLOCK_BYTES: u64 = 4096;
const BEING_WRITTEN: &str = ".new-";

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A directory of entries.
#[derive(Debug)]
pub(super) struct CacheShard {
    directory: PathBuf,
    share: u64,
    /// The bytes that may be added before the next count; 0 at first, so that the first entry causes a count.
    room: Mutex<u64>,
}

/// A cache file, as found by a count.
struct CountedCacheFile {
    path: PathBuf,
    bytes: u64,
    used: u64,
}

impl CacheShard {
    pub(super) fn new(directory: PathBuf, share: u64) -> Self {
        Self {
            directory,
            share,
            room: Mutex::new(0),
        }
    }

    pub(super) fn max_content_bytes(&self) -> u64 {
        self.share / 2
    }

    pub(super) fn path_of(&self, key: &CacheKey) -> PathBuf {
        self.directory.join(key.file_name())
    }

    pub(super) fn get(&self, key: &CacheKey, now: u64) -> Option<Bytes> {
        let path = self.path_of(key);
        let mut file = File::open(&path).ok()?;
        let metadata = file.metadata().ok()?;
        let found = entry::read_entry(&mut file, key, metadata.len());
        match &found {
            None => drop(std::fs::remove_file(&path)),
            Some(_) if to_seconds(metadata.mtime()) + OLD_SECONDS < now => {
                // The trim removes the least recently used files by this time.
                let _ = file.set_modified(UNIX_EPOCH + Duration::from_secs(now));
            }
            Some(_) => {}
        }
        found
    }

    /// Writes an entry; returns the time of the file system, or `None` if the entry was not written.
    pub(super) fn put(&self, key: &CacheKey, content: &[u8]) -> Option<u64> {
        let size = entry::entry_file_size(content.len() as u64);
        if size > self.max_content_bytes() {
            return None;
        }
        let written = self.write_entry(key, content);
        let now = match written {
            // The directory is missing: the cache was removed, or this is the first entry of the shard.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_private_directory(&self.directory).ok()?;
                self.write_entry(key, content)
            }
            written => written,
        };
        self.make_room(disk_space_of(size));
        now.ok()
    }

    fn write_entry(&self, key: &CacheKey, content: &[u8]) -> io::Result<u64> {
        // A new name and a rename, so that a reader never sees a half-written entry.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{BEING_WRITTEN}{}-{number}", std::process::id());
        let path = self.directory.join(name);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&path)?;
        let written =
            entry::write_entry(&mut file, key, content).and_then(|()| std::fs::rename(&path, self.path_of(key)));
        if written.is_err() {
            let _ = std::fs::remove_file(&path);
        }
        written?;
        file.metadata().map(|metadata| to_seconds(metadata.mtime()))
    }

    /// Subtracts the added bytes from the room, and trims the shard when there is no room left.
    fn make_room(&self, added: u64) {
        let mut room = self.room.lock().expect("no holder panics");
        if *room >= added {
            *room -= added;
            return;
        }
        let left = self.trim_to_share();
        // An eighth at most, so that the entries of other processes are counted soon enough, too.
        *room = (self.share - left.min(self.share)).min(self.share / 8);
    }

    /// Removes the least recently used files until the rest fits into the share; returns the size of the rest.
    fn trim_to_share(&self) -> u64 {
        let mut files = self.count_files();
        let mut total: u64 = files.iter().map(|file| file.bytes).sum();
        if total <= self.share {
            return total;
        }
        // Removes a little more than needed, so that the next entry does not cause another trim.
        let wanted = self.share - self.share / 8;
        files.sort_unstable_by_key(|file| file.used);
        for file in files {
            if total <= wanted {
                break;
            }
            let _ = std::fs::remove_file(&file.path);
            total -= file.bytes;
        }
        total
    }

    fn count_files(&self) -> Vec<CountedCacheFile> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let files: Vec<_> = entries.filter_map(|entry| count_file(&entry)).collect();
        // The newest file tells the time of the file system, without a call for it.
        let newest = files.iter().map(|file| file.used).max().unwrap_or_default();
        let (left, kept): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| is_abandoned(file, newest));
        left.iter().for_each(|file| drop(std::fs::remove_file(&file.path)));
        kept
    }
}

fn count_file(entry: &DirEntry) -> Option<CountedCacheFile> {
    let metadata = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some(CountedCacheFile {
        path: entry.path(),
        bytes: disk_space_of(metadata.len()),
        used: to_seconds(metadata.mtime()),
    })
}

/// Returns whether the file is unfinished and was left by a process that died.
fn is_abandoned(file: &CountedCacheFile, newest: u64) -> bool {
    let name = file.path.file_name().map(|name| name.to_string_lossy().into_owned());
    let is_new = name.is_some_and(|name| name.starts_with(BEING_WRITTEN));
    is_new && file.used + OLD_SECONDS < newest
}

/// Returns the disk space of a file of this size, in whole blocks.
fn disk_space_of(size: u64) -> u64 {
    size.div_ceil(BLOCK_BYTES) * BLOCK_BYTES
}

fn to_seconds(time: i64) -> u64 {
    u64::try_from(time).unwrap_or_default()
}

/// Makes a directory and its missing parents, accessible to this user alone.
pub(super) fn make_private_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Returns the current time of the file system of `directory`, in seconds.
pub(super) fn file_system_time(directory: &Path) -> io::Result<u64> {
    let stamp = directory.join("opened");
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(stamp)?;
    // The file system updates the time only when the content changes.
    io::Write::write_all(&mut &file, b".")?;
    let modified = file.metadata()?.modified()?;
    let since: Result<Duration, _> = modified.duration_since(SystemTime::UNIX_EPOCH);
    Ok(since.unwrap_or_default().as_secs())
}
