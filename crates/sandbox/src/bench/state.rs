//! What a checkout remembers of itself, and the lock by which processes take turns on it.
//!
//! The state is one small file, written by one call, so that looking whether there is anything to do costs the same whatever the workspace
//! holds. It is written over, not replaced: a file system may write a replaced file to the disk at once. It says that the checkout is not whole before the first entry is touched, and that it is when the last is in place: a process
//! that dies in between leaves a checkout that the next one makes whole. Nothing is synced, because everything can be made again; after
//! the machine was restarted, each entry is looked at once.

#![allow(
    clippy::disallowed_methods,
    reason = "the file of one system setting, not of a workspace"
)]

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::LazyLock;
use std::time::Duration;

use garret_core::{EntryPath, Error, ErrorKind, Result};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, StatxFlags, flock, mkdirat, openat, statx, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::placing::write_all;
use crate::effects::beneath::{GENTLY, look};
use crate::effects::error::At;

const FORMAT: u32 = 2;
const STATE: &str = "state";
const LOCK: &str = "lock";
const MAX_STATE_BYTES: usize = 16 * 1024;
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// Longer than any checkout takes; a command that runs for longer has the bench to itself.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a checkout says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    format: u32,
    /// Which manifest belongs to it.
    pub(super) generation: u64,
    /// The number of the newest change that is in it.
    pub(super) head: u64,
    /// The id of that change, by which a journal that was put back to an older state is known.
    pub(super) change: Option<String>,
    /// Whether every entry is in place.
    pub(super) is_whole: bool,
    /// The directory that it speaks of.
    tree: String,
    /// How much of the manifest counts.
    pub(super) manifest_bytes: u64,
    /// How long it was when it held nothing past.
    pub(super) manifest_live_bytes: u64,
    /// The run of the machine in which it was last made whole.
    boot: String,
    /// Counts how often it was written: before and after everything that changes the checkout. It begins anywhere, so that a state that was
    /// lost does not come again.
    written: u64,
    /// The files whose content is damaged, so that they could not be put in place. Not written down: a checkout that lacks some is not whole,
    /// and is looked over each time, until their content is there again.
    #[serde(skip)]
    pub(super) corrupt: Vec<EntryPath>,
}

impl State {
    /// The state of an empty checkout, not whole.
    pub(super) fn new(tree: &OwnedFd, generation: u64) -> Result<Self> {
        Ok(Self {
            format: FORMAT,
            generation,
            head: 0,
            change: None,
            is_whole: false,
            tree: identity(tree)?,
            manifest_bytes: 0,
            manifest_live_bytes: 0,
            boot: boot().to_owned(),
            written: beginning(),
            corrupt: Vec::new(),
        })
    }

    /// Reads it; `None` where it is missing or torn, or speaks of another directory.
    pub(super) fn load(home: &OwnedFd, tree: &OwnedFd) -> Result<Option<Self>> {
        let flags = OFlags::RDONLY | GENTLY | OFlags::CLOEXEC;
        let file = match openat(home, STATE, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
            file => file.at(b"")?,
        };
        let mut bytes = vec![0; MAX_STATE_BYTES];
        let mut length = 0;
        loop {
            match rustix::io::read(&file, &mut bytes[length..]).at(b"")? {
                0 => break,
                count => length += count,
            }
        }
        // What comes after it is left of a longer one that was there before.
        let mut states = serde_json::Deserializer::from_slice(&bytes[..length]).into_iter::<Self>();
        let state = states.next().and_then(std::result::Result::ok);
        let tree = identity(tree)?;
        Ok(state.filter(|state| state.format == FORMAT && state.tree == tree))
    }

    /// Writes it. One that is torn is read as none.
    pub(super) fn save(&mut self, home: &OwnedFd) -> Result<()> {
        self.written += 1;
        let bytes = serde_json::to_vec(self).map_err(|_| Error::new(ErrorKind::Internal, "a state has no text"))?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(home, STATE, flags, Mode::RUSR | Mode::WUSR).at(b"")?;
        write_all(&file, &bytes).at(b"")
    }

    /// What is the same as long as nothing in the checkout changes.
    pub(super) fn stands(&self) -> String {
        format!("{} {}", self.tree, self.written)
    }

    /// Whether the machine was restarted since: what was not synced may be lost.
    pub(super) fn is_of_another_boot(&self) -> bool {
        self.boot != boot()
    }

    /// Says that everything is in place, in this run of the machine, unless something is damaged.
    pub(super) fn made_whole(&mut self) {
        self.is_whole = self.corrupt.is_empty();
        boot().clone_into(&mut self.boot);
    }
}

/// What tells this directory from every other: numbers of directories are given again, so the time of its birth counts too.
fn identity(directory: &OwnedFd) -> Result<String> {
    let stat = statx(
        directory,
        c"",
        AtFlags::EMPTY_PATH,
        StatxFlags::BASIC_STATS | StatxFlags::BTIME,
    )
    .at(b"")?;
    let birth = &stat.stx_btime;
    Ok(format!("{}-{}.{}", stat.stx_ino, birth.tv_sec, birth.tv_nsec))
}

fn beginning() -> u64 {
    RandomState::new().build_hasher().finish() / 2
}

fn boot() -> &'static str {
    static BOOT: LazyLock<String> =
        LazyLock::new(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default());
    &BOOT
}

/// The turn on a checkout: an exclusive lock that the kernel frees when its process dies.
#[derive(Debug)]
pub(super) struct Turn {
    _lock: OwnedFd,
    /// The number of the change at which the checkout was found or made ready in this turn.
    pub(super) ready_at: Option<u64>,
}

impl Turn {
    /// Waits for the turn; `unavailable` where another process keeps it for long.
    pub(super) async fn take(home: &OwnedFd) -> Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = openat(home, LOCK, flags, Mode::RUSR | Mode::WUSR).at(b"")?;
        let (mut waited, mut pause) = (Duration::ZERO, FIRST_PAUSE);
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    return Ok(Self {
                        _lock: lock,
                        ready_at: None,
                    });
                }
                Err(Errno::WOULDBLOCK) if waited >= PATIENCE => return Err(busy()),
                Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                Err(errno) => return Err(errno).at(b""),
            }
            tokio::time::sleep(pause).await;
            waited += pause;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

fn busy() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "another process is running commands in this workspace",
    )
    .hint("wait until its commands and background processes have ended, or use a branch of the workspace")
}

/// Opens the directory `name` in `home`, made where it is missing.
pub(super) fn own_directory(home: &OwnedFd, name: &str, mode: Mode) -> Result<OwnedFd> {
    match mkdirat(home, name, mode) {
        Err(Errno::EXIST) => {}
        made => made.at(b"")?,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(home, name, flags, Mode::empty()) {
        // Something else was put there: it is nothing that Garret made.
        Err(Errno::NOTDIR | Errno::LOOP) if look(home.as_fd(), name.as_bytes()).at(b"")?.is_some() => {
            unlinkat(home, name, AtFlags::empty()).at(b"")?;
            mkdirat(home, name, mode).at(b"")?;
            openat(home, name, flags, Mode::empty()).at(b"")
        }
        opened => opened.at(b""),
    }
}
