//! The features that this machine gives a workspace in a directory, found out by trying them there.
//!
//! Everything is tried on the real directory, because a kernel that supports a feature and a file system that does not
//! are common. Files that are made for a test carry the prefix that the local storage reserves, so that no list shows
//! them; they are removed when the test is over.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use garret_core::{Error, ErrorKind, Result};
use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags, ResolveFlags, StatxFlags, chmodat, flock, fstat, fsync,
    openat, openat2, renameat_with, statx, symlinkat, unlinkat,
};
use rustix::io::Errno;
use serde::Serialize;

/// The name of the test file; it begins with the prefix that the storage reserves.
const PREFIX: &str = ".garret-tmp-doctor";

/// The result of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DirectoryCheckStatus {
    /// The feature works as promised.
    Works,
    /// The feature works with a restriction that `advice` explains.
    Limited,
    /// The feature does not work.
    Missing,
}

/// A feature that was tested.
#[derive(Debug, Clone, Serialize)]
pub struct DirectoryCheck {
    /// The name of the feature.
    pub name: &'static str,
    /// The result.
    pub status: DirectoryCheckStatus,
    /// The details of the result.
    pub detail: String,
    /// The remedy, if the feature does not work fully.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<&'static str>,
}

impl DirectoryCheck {
    fn works(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            status: DirectoryCheckStatus::Works,
            detail: detail.into(),
            advice: None,
        }
    }

    fn limited(name: &'static str, detail: impl Into<String>, advice: &'static str) -> Self {
        Self {
            name,
            status: DirectoryCheckStatus::Limited,
            detail: detail.into(),
            advice: Some(advice),
        }
    }

    fn missing(name: &'static str, detail: impl Into<String>, advice: &'static str) -> Self {
        Self {
            name,
            status: DirectoryCheckStatus::Missing,
            detail: detail.into(),
            advice: Some(advice),
        }
    }
}

/// Tests every feature that a local workspace uses on `directory`, and leaves nothing behind. Fails if the directory
/// cannot be opened.
pub fn probe_directory(directory: &Path) -> Result<Vec<DirectoryCheck>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = rustix::fs::open(directory, flags, Mode::empty()).map_err(|_| {
        Error::new(ErrorKind::NotFound, "the directory of the workspace cannot be opened")
            .hint("create it, or choose another with -w")
    })?;
    let mut checks = vec![
        check_containment(&handle),
        check_locks(&handle),
        check_birth_time(&handle),
    ];
    match ProbeFile::create_file(&handle) {
        Ok(trial) => checks.extend([
            DirectoryCheck::works("writing", "files can be made in this directory"),
            trial.check_durability(),
            trial.check_atomic_names(),
            trial.check_timestamps(),
            trial.check_modes(),
            trial.check_symlinks(),
        ]),
        Err(errno) => checks.push(write_refused_check(errno)),
    }
    Ok(checks)
}

fn check_containment(handle: &OwnedFd) -> DirectoryCheck {
    let advice =
        "use Linux 5.6 or newer, and a seccomp profile that lets openat2 pass; until then local workspaces do not open";
    let beneath = |path: &str| {
        openat2(
            handle,
            path,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::BENEATH,
        )
    };
    // Both are needed: a kernel that ignores the flag would open `..`, too.
    match (beneath("."), beneath("..")) {
        (Ok(_), Err(Errno::XDEV)) => DirectoryCheck::works(
            "containment",
            "the kernel keeps every path below the workspace (openat2, RESOLVE_BENEATH)",
        ),
        (Err(Errno::NOSYS), _) => DirectoryCheck::missing("containment", "the kernel has no openat2", advice),
        (Err(Errno::PERM), _) => DirectoryCheck::missing("containment", "openat2 is blocked here", advice),
        _ => DirectoryCheck::missing("containment", "openat2 does not keep paths below the workspace", advice),
    }
}

fn check_locks(handle: &OwnedFd) -> DirectoryCheck {
    let taken = flock(handle, FlockOperation::NonBlockingLockExclusive);
    let _ = flock(handle, FlockOperation::Unlock);
    match taken {
        Ok(()) => DirectoryCheck::works(
            "locks",
            "writers in several processes take turns (flock on directories)",
        ),
        Err(Errno::WOULDBLOCK) => DirectoryCheck::works("locks", "writers take turns; one holds the lock right now"),
        Err(_) => DirectoryCheck::missing(
            "locks",
            "this file system does not lock directories",
            "let only one process write here: conditional writes of two processes are not safe",
        ),
    }
}

fn check_birth_time(handle: &OwnedFd) -> DirectoryCheck {
    let known = statx(handle, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME);
    match known {
        Ok(stat) if stat.stx_mask & StatxFlags::BTIME.bits() != 0 => {
            DirectoryCheck::works("creation times", "the file system keeps them")
        }
        _ => DirectoryCheck::limited(
            "creation times",
            "the file system does not keep them",
            "nothing to do: `created_at` is null",
        ),
    }
}

fn write_refused_check(errno: Errno) -> DirectoryCheck {
    let detail = match errno {
        Errno::ROFS => "the file system is read-only",
        Errno::ACCESS | Errno::PERM => "the file permissions do not allow it",
        Errno::NOSPC | Errno::DQUOT => "the disk is full",
        _ => "files cannot be made here",
    };
    DirectoryCheck::limited(
        "writing",
        detail,
        "reading works; to write, change the owner or mode of the directory, or choose another",
    )
}

/// A test file in the directory, removed when dropped.
struct ProbeFile<'a> {
    directory: &'a OwnedFd,
    file: OwnedFd,
}

impl<'a> ProbeFile<'a> {
    fn create_file(directory: &'a OwnedFd) -> Result<Self, Errno> {
        // A leftover of a test that was killed.
        let _ = unlinkat(directory, PREFIX, AtFlags::empty());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory, PREFIX, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Self { directory, file })
    }

    fn check_durability(&self) -> DirectoryCheck {
        let synced = rustix::io::write(&self.file, b"garret")
            .and_then(|_| fsync(&self.file))
            .and_then(|()| fsync(self.directory));
        match synced {
            Ok(()) => DirectoryCheck::works(
                "durability",
                "files and directories can be synced to disk (durability = \"full\")",
            ),
            Err(_) => DirectoryCheck::limited(
                "durability",
                "the file system does not sync",
                "open the workspace with durability = \"relaxed\", and keep copies of files that must survive a crash",
            ),
        }
    }

    fn check_atomic_names(&self) -> DirectoryCheck {
        let other = format!("{PREFIX}-2");
        let _ = unlinkat(self.directory, &other, AtFlags::empty());
        let there = renameat_with(self.directory, PREFIX, self.directory, &other, RenameFlags::NOREPLACE);
        let back = renameat_with(self.directory, &other, self.directory, PREFIX, RenameFlags::empty());
        match (there, back) {
            (Ok(()), Ok(())) => DirectoryCheck::works(
                "atomic names",
                "a file appears whole or not at all, and never over another (renameat2)",
            ),
            _ => DirectoryCheck::limited(
                "atomic names",
                "the file system cannot refuse to replace a file while renaming",
                "let no other program create files here while Garret writes",
            ),
        }
    }

    fn check_timestamps(&self) -> DirectoryCheck {
        match fstat(&self.file) {
            Ok(stat) if stat.st_mtime_nsec != 0 => DirectoryCheck::works("timestamps", "finer than a second"),
            _ => DirectoryCheck::limited(
                "timestamps",
                "whole seconds only",
                "nothing to do: versions of files changed within the last second also carry a hash of the content",
            ),
        }
    }

    /// Tests whether permission bits can be set.
    fn check_modes(&self) -> DirectoryCheck {
        // Through `/proc`, as the storage sets modes, so that no link is followed.
        let by_handle = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let set = chmodat(CWD, by_handle, Mode::RWXU, AtFlags::empty());
        let kept = fstat(&self.file).is_ok_and(|stat| Mode::from_raw_mode(stat.st_mode) == Mode::RWXU);
        match (set, kept) {
            (Ok(()), true) => DirectoryCheck::works("modes", "permission bits can be set and are kept"),
            (Err(Errno::NOENT), _) => DirectoryCheck::limited(
                "modes",
                "/proc is not mounted",
                "mount /proc, by which Garret sets permission bits",
            ),
            _ => DirectoryCheck::limited(
                "modes",
                "the file system keeps no permission bits",
                "nothing to do, unless files must be executable",
            ),
        }
    }

    fn check_symlinks(&self) -> DirectoryCheck {
        let name = format!("{PREFIX}-link");
        let _ = unlinkat(self.directory, &name, AtFlags::empty());
        let made = symlinkat(PREFIX, self.directory, &name);
        let _ = unlinkat(self.directory, &name, AtFlags::empty());
        match made {
            Ok(()) => DirectoryCheck::works("symlinks", "links work; those that lead outside are refused"),
            Err(_) => DirectoryCheck::limited(
                "symlinks",
                "the file system has none",
                "nothing to do, unless you copy trees that hold links",
            ),
        }
    }
}

impl Drop for ProbeFile<'_> {
    fn drop(&mut self) {
        let _ = unlinkat(self.directory, PREFIX, AtFlags::empty());
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the test looks at the directory from outside")]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_for_a_try_is_reserved() {
        assert!(PREFIX.starts_with(crate::local::temporary_files::PREFIX));
    }

    #[test]
    fn every_try_leaves_the_directory_as_it_was() {
        let temporary = tempfile::tempdir().unwrap();
        let checks = probe_directory(temporary.path()).unwrap();
        assert!(checks.len() > 5);
        assert_eq!(temporary.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn what_does_not_work_fully_comes_with_advice() {
        let temporary = tempfile::tempdir().unwrap();
        for check in probe_directory(temporary.path()).unwrap() {
            assert_eq!(
                check.status == DirectoryCheckStatus::Works,
                check.advice.is_none(),
                "{check:?}"
            );
        }
    }
}
