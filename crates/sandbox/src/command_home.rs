//! The home directories of the commands of a workspace: one for the workspace, and one for each scope.
//!
//! Their size is not read before each command, because a walk through many files takes longer than most commands. The
//! result of a walk is used for a minute; the supervisor watches the size while commands run.

#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    reason = "this file records the size of a home beside it, with the time of the file system"
)]

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use garret_core::{Error, ErrorKind, Result};
use garret_handles::{list_names, remove_tree, set_mode};
use rustix::fs::{CWD, Mode, OFlags};

use crate::scratch::{open_directory, unusable_directories_error};
use crate::supervisor::layer_walk::LayerWalk;

/// The time for which the result of a walk is used.
const MEASURED_FOR: Duration = Duration::from_secs(60);
/// The time of one piece of a walk.
const PIECE: Duration = Duration::from_millis(50);
const MEBIBYTE: u64 = 1024 * 1024;

/// The home directories of the commands of a workspace.
#[derive(Debug, Clone)]
pub struct CommandHomes {
    directory: PathBuf,
    limit: Option<u64>,
}

impl CommandHomes {
    /// Returns the homes in `directory`, each with at most `limit` bytes. Nothing is made.
    pub fn new(directory: PathBuf, limit: Option<u64>) -> Self {
        Self { directory, limit }
    }

    /// Returns the path of the home with this name, which has no links. A home that holds more than the limit is
    /// `quota_exceeded`.
    pub fn home_within_limit(&self, name: &str) -> Result<PathBuf> {
        // The sandbox makes the home itself, which the user of the commands owns.
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory);
        let directory = made.and_then(|()| self.directory.canonicalize());
        let home = directory.map_err(|_| unusable_directories_error())?.join(name);
        let Some(limit) = self.limit else { return Ok(home) };
        let record = self.directory.join(format!("{name}.bytes"));
        let bytes = match read_record(&record) {
            // A home that was too large is looked at again: its files may have been removed.
            Some(bytes) if bytes <= limit => bytes,
            _ => {
                let bytes = count_bytes(&home, Some(limit))?;
                // Without the record, the next command walks again.
                let _ = write_record(&record, bytes);
                bytes
            }
        };
        if bytes > limit {
            return Err(full_home_error(limit));
        }
        Ok(home)
    }

    /// Returns the bytes that the home with this name takes on the disk.
    pub fn measure_home(&self, name: &str) -> Result<u64> {
        count_bytes(&self.directory.join(name), None)
    }

    /// Removes everything in each home. The directories stay, because open sandboxes show them.
    pub fn clear_homes(&self) -> Result<()> {
        if !self.directory.is_dir() {
            return Ok(());
        }
        let homes = open_directory(CWD, &self.directory)?;
        for name in list_names(&homes).map_err(|_| unusable_directories_error())? {
            let place = self.directory.join(OsStr::from_bytes(&name));
            if !place.is_dir() {
                // The record of a size.
                remove_tree(&homes, &name).map_err(|_| unusable_directories_error())?;
                continue;
            }
            let home = open_home(&place)?;
            for entry in list_names(&home).map_err(|_| unusable_directories_error())? {
                remove_tree(&home, &entry).map_err(|_| unusable_directories_error())?;
            }
        }
        Ok(())
    }
}

/// Returns the bytes in a record that is not too old.
fn read_record(record: &Path) -> Option<u64> {
    let written = fs::metadata(record).ok()?.modified().ok()?;
    let age = SystemTime::now().duration_since(written).ok()?;
    if age > MEASURED_FOR {
        return None;
    }
    fs::read_to_string(record).ok()?.parse().ok()
}

fn write_record(record: &Path, bytes: u64) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(record)?;
    file.write_all(bytes.to_string().as_bytes())
}

/// Opens a home, also one whose mode a command set to 000. Its owner has all rights afterwards.
pub(crate) fn open_home(home: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = rustix::fs::open(home, flags, Mode::empty()).map_err(|_| unusable_directories_error())?;
    set_mode(&held, 0o700).map_err(|_| unusable_directories_error())?;
    open_directory(held, ".")
}

/// Counts the bytes below `home`; stops when they are more than `enough`.
fn count_bytes(home: &Path, enough: Option<u64>) -> Result<u64> {
    if !home.is_dir() {
        return Ok(0);
    }
    // Else a command could hide files from the limit of the commands after it.
    let mut walk = LayerWalk::new(open_home(home)?).giving_access();
    while !walk.continue_for(PIECE) {
        if enough.is_some_and(|enough| walk.bytes() > enough) {
            break;
        }
    }
    Ok(walk.bytes())
}

fn full_home_error(limit: u64) -> Error {
    let message = format!(
        "the home directory of commands holds more than its limit of {} MiB (`limits.home_mb`)",
        limit.div_ceil(MEBIBYTE)
    );
    Error::new(ErrorKind::QuotaExceeded, message).hint(format!(
        "empty it with `garret home clear`, or {}",
        garret_core::describe_raising("shell.limits.home_mb", None)
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_home_over_its_limit_is_refused_until_it_is_emptied() {
        let directory = tempfile::tempdir().unwrap();
        let homes = CommandHomes::new(directory.path().join("homes"), Some(MEBIBYTE));
        let home = homes.home_within_limit("workspace").unwrap();
        assert!(!home.exists(), "the sandbox makes it");
        fs::create_dir_all(home.join(".cache/a")).unwrap();
        fs::write(home.join(".cache/a/file"), vec![1; 2 << 20]).unwrap();
        fs::remove_file(directory.path().join("homes/workspace.bytes")).unwrap();
        let error = homes.home_within_limit("workspace").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
        assert!(error.message().contains("1 MiB (`limits.home_mb`)"), "{error}");
        assert!(error.hint_text().contains("`garret home clear`"), "{error}");
        assert!(homes.measure_home("workspace").unwrap() >= 2 << 20);
        homes.home_within_limit("another").unwrap();
        homes.clear_homes().unwrap();
        assert!(home.is_dir() && fs::read_dir(&home).unwrap().next().is_none());
        homes.home_within_limit("workspace").unwrap();
    }

    #[test]
    fn a_directory_without_permissions_hides_nothing_from_the_limit() {
        for mode in [0o000, 0o100, 0o200, 0o400] {
            let directory = tempfile::tempdir().unwrap();
            let homes = CommandHomes::new(directory.path().to_owned(), Some(MEBIBYTE));
            let hidden = directory.path().join("workspace/hidden/below");
            fs::create_dir_all(&hidden).unwrap();
            fs::write(hidden.join("file"), vec![1; 2 << 20]).unwrap();
            for one in [&*hidden, hidden.parent().unwrap()] {
                fs::set_permissions(one, fs::Permissions::from_mode(mode)).unwrap();
            }
            homes.home_within_limit("workspace").unwrap_err();
        }
    }

    #[test]
    fn a_command_that_takes_all_rights_from_its_home_locks_nobody_out() {
        let directory = tempfile::tempdir().unwrap();
        let homes = CommandHomes::new(directory.path().to_owned(), Some(MEBIBYTE));
        let home = directory.path().join("workspace");
        fs::create_dir(&home).unwrap();
        fs::write(home.join("file"), vec![1; 4096]).unwrap();
        fs::set_permissions(&home, fs::Permissions::from_mode(0o000)).unwrap();
        homes.home_within_limit("workspace").unwrap();
        assert!(homes.measure_home("workspace").unwrap() >= 4096);
        fs::set_permissions(&home, fs::Permissions::from_mode(0o000)).unwrap();
        homes.clear_homes().unwrap();
        assert!(home.is_dir() && fs::read_dir(&home).unwrap().next().is_none());
    }

    #[test]
    fn the_size_is_read_again_only_after_a_while() {
        let directory = tempfile::tempdir().unwrap();
        let homes = CommandHomes::new(directory.path().to_owned(), Some(MEBIBYTE));
        let home = homes.home_within_limit("workspace").unwrap();
        fs::create_dir(&home).unwrap();
        fs::write(home.join("file"), vec![1; 2 << 20]).unwrap();
        homes.home_within_limit("workspace").unwrap();
        let record = fs::File::options()
            .write(true)
            .open(directory.path().join("workspace.bytes"))
            .unwrap();
        record.set_modified(SystemTime::now() - 2 * MEASURED_FOR).unwrap();
        homes.home_within_limit("workspace").unwrap_err();
    }
}
