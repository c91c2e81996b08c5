//! The state file of a checkout, and the lock that gives one process at a time the use of it.
//!
//! The state is one small file, written by one call, so that the check for work does not depend on the size of the workspace.
//! It is overwritten, not replaced: a file system may write a replaced file to the disk at once. It says that the
//! checkout is incomplete before the first entry is touched, and complete after the last is in place: a process that
//! dies in between leaves a checkout that the next one repairs. Nothing is synced, because everything can be written
//! again; after a restart of the machine each entry is checked once.

#![allow(
    clippy::disallowed_methods,
    reason = "the file of one system setting, not of a workspace"
)]

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::LazyLock;
use std::time::Duration;

use garret_core::{EntryPath, Error, ErrorKind, Result};
use garret_handles::{GENTLY, open_child, stat_entry, write_all};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, StatxFlags, flock, mkdirat, openat, statx, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::effects::path_error::ErrnoAtPath;

const FORMAT: u32 = 2;
const STATE: &str = "state";
const LOCK: &str = "lock";
const MAX_STATE_BYTES: usize = 16 * 1024;
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// Longer than any update of a checkout takes; a command that runs for longer has the bench to itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// The state of a checkout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CheckoutState {
    format: u32,
    /// The number of the manifest that belongs to it.
    pub(super) generation: u64,
    /// The number of the newest change that is in it.
    pub(super) head: u64,
    /// The id of that change, which shows whether the journal was restored to an older state.
    pub(super) change: Option<String>,
    /// Whether every entry is in place.
    pub(super) is_whole: bool,
    /// The identity of the directory with the files.
    tree: String,
    /// The number of valid bytes in the manifest.
    pub(super) manifest_bytes: u64,
    /// The length of the manifest after the last compaction.
    pub(super) manifest_live_bytes: u64,
    /// The boot of the machine in which the checkout was last completed.
    boot: String,
    /// Counts the writes of the state: before and after everything that changes the checkout. It starts at a random
    /// number, so that the number of a lost state does not occur again.
    written: u64,
    /// The files whose content is damaged, so that they could not be written. Not saved: a checkout that lacks files is
    /// incomplete, and is surveyed each time until their content is there again.
    #[serde(skip)]
    pub(super) corrupt: Vec<EntryPath>,
}

impl CheckoutState {
    /// Returns the state of an empty, incomplete checkout.
    pub(super) fn new(tree: &OwnedFd, generation: u64) -> Result<Self> {
        Ok(Self {
            format: FORMAT,
            generation,
            head: 0,
            change: None,
            is_whole: false,
            tree: directory_identity(tree)?,
            manifest_bytes: 0,
            manifest_live_bytes: 0,
            boot: current_boot_id().to_owned(),
            written: random_start(),
            corrupt: Vec::new(),
        })
    }

    /// Reads the state; `None` if it is missing or torn, or belongs to another directory.
    pub(super) fn load(home: &OwnedFd, tree: &OwnedFd) -> Result<Option<Self>> {
        let flags = OFlags::RDONLY | GENTLY | OFlags::CLOEXEC;
        let file = match openat(home, STATE, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
            file => file.at_path(b"")?,
        };
        let mut bytes = vec![0; MAX_STATE_BYTES];
        let mut length = 0;
        loop {
            match rustix::io::read(&file, &mut bytes[length..]).at_path(b"")? {
                0 => break,
                count => length += count,
            }
        }
        // The bytes after the first state are left of a longer one that was there before.
        let mut states = serde_json::Deserializer::from_slice(&bytes[..length]).into_iter::<Self>();
        let state = states.next().and_then(std::result::Result::ok);
        let tree = directory_identity(tree)?;
        Ok(state.filter(|state| state.format == FORMAT && state.tree == tree))
    }

    /// Writes the state. A torn state is read as a missing one.
    pub(super) fn save(&mut self, home: &OwnedFd) -> Result<()> {
        self.written += 1;
        let bytes = serde_json::to_vec(self)
            .map_err(|_| Error::new(ErrorKind::Internal, "the state of a checkout cannot be encoded"))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(home, STATE, flags, Mode::RUSR | Mode::WUSR).at_path(b"")?;
        write_all(&file, &bytes).at_path(b"")
    }

    /// Returns the generation of the checkout; it changes whenever an entry in the checkout does.
    pub(super) fn generation_token(&self) -> String {
        format!("{} {}", self.tree, self.written)
    }

    /// Returns whether the machine was restarted since: data that was not synced may be lost.
    pub(super) fn is_of_another_boot(&self) -> bool {
        self.boot != current_boot_id()
    }

    /// Marks the checkout as complete in this boot of the machine, unless a file is damaged.
    pub(super) fn mark_complete(&mut self) {
        self.is_whole = self.corrupt.is_empty();
        current_boot_id().clone_into(&mut self.boot);
    }
}

/// Returns a text that identifies a directory. Inode numbers are reused, so it includes the time of birth.
fn directory_identity(directory: &OwnedFd) -> Result<String> {
    let stat = statx(
        directory,
        c"",
        AtFlags::EMPTY_PATH,
        StatxFlags::BASIC_STATS | StatxFlags::BTIME,
    )
    .at_path(b"")?;
    let birth = &stat.stx_btime;
    Ok(format!("{}-{}.{}", stat.stx_ino, birth.tv_sec, birth.tv_nsec))
}

fn random_start() -> u64 {
    RandomState::new().build_hasher().finish() / 2
}

fn current_boot_id() -> &'static str {
    static BOOT: LazyLock<String> =
        LazyLock::new(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default());
    &BOOT
}

/// The use of a checkout: an exclusive lock that the kernel frees when its process dies.
#[derive(Debug)]
pub(super) struct CheckoutLock {
    _lock: OwnedFd,
    /// The number of the change at which the checkout was made ready under this lock.
    pub(super) ready_at: Option<u64>,
}

impl CheckoutLock {
    /// Waits for the lock; `unavailable` if another process holds it for long.
    pub(super) async fn acquire(home: &OwnedFd) -> Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = openat(home, LOCK, flags, Mode::RUSR | Mode::WUSR).at_path(b"")?;
        let (mut waited, mut pause) = (Duration::ZERO, FIRST_PAUSE);
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    return Ok(Self {
                        _lock: lock,
                        ready_at: None,
                    });
                }
                Err(Errno::WOULDBLOCK) if waited >= PATIENCE => return Err(checkout_in_use()),
                Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                Err(errno) => return Err(errno).at_path(b""),
            }
            // A blocking `flock` would occupy a thread, and could not give up after a time.
            tokio::time::sleep(pause).await;
            waited += pause;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

fn checkout_in_use() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "another process is running commands in this workspace",
    )
    .hint("wait until its commands and background processes have ended, or use a branch of the workspace")
}

/// Opens the directory `name` in `home`, and creates it if it is missing.
pub(super) fn own_directory(home: &OwnedFd, name: &str, mode: Mode) -> Result<OwnedFd> {
    match mkdirat(home, name, mode) {
        Err(Errno::EXIST) => {}
        made => made.at_path(b"")?,
    }
    match open_child(home, name) {
        // Another kind of entry is there, which Garret did not create.
        Err(Errno::NOTDIR | Errno::LOOP) if stat_entry(home.as_fd(), name.as_bytes()).at_path(b"")?.is_some() => {
            unlinkat(home, name, AtFlags::empty()).at_path(b"")?;
            mkdirat(home, name, mode).at_path(b"")?;
            open_child(home, name).at_path(b"")
        }
        opened => opened.at_path(b""),
    }
}
