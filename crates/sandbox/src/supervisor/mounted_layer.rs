//! Mounts layers over the bench, and unmounts them.

#![cfg(target_os = "linux")]

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use garret_core::path::{join_path, split_path};
use garret_handles::{list_names_up_to, open_across_mounts, open_child, remove_tree};
use rustix::fs::{CWD, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};

use super::protocol::{FailedStep, LayerLower, StepFailure};
use super::sandbox_root::{BENCH, LAYERS, MASKS, MOUNTED};
use crate::namespace::plan::OverlayUse;
use crate::visible_bench::HiddenRecord;

const MOUNTING: &str = "mounting a layer";

/// A layer that is mounted over the bench.
#[derive(Debug)]
pub(super) struct MountedLayer {
    number: u64,
    has_mask: bool,
    /// The state of the upper directory right after the mount, when nothing was written yet.
    untouched: Option<UpperDirectoryState>,
}

/// The state of a directory, compared to find out whether something was written to it. The entries reveal a write that
/// a kernel with coarse times misses; the other fields reveal a change of the directory itself.
#[derive(Debug, PartialEq, Eq)]
struct UpperDirectoryState {
    owner: (u32, u32, u32),
    changed: (i64, u64),
    attributes: usize,
    is_empty: bool,
}

impl MountedLayer {
    /// Mounts the layer in the directory `name`.
    pub(super) fn mount_layer(number: u64, name: &str, lower: LayerLower) -> Result<Self, StepFailure> {
        let mut laid = Self {
            number,
            has_mask: false,
            untouched: None,
        };
        rustix::fs::mkdir(laid.path(), Mode::RWXU).in_step(MOUNTING)?;
        if lower == LayerLower::Copy {
            // The upper directory holds a copy of the bench, which needs no overlay.
            mount_bind(upper_path(name), laid.path()).in_step(MOUNTING)?;
            return Ok(laid);
        }
        if lower == LayerLower::BenchWithoutHidden {
            let hidden = read_hidden(name).in_step("hiding paths")?;
            laid.has_mask = !hidden.0.is_empty();
            if laid.has_mask {
                make_mask(&laid.mask_path(), &hidden.0).in_step("hiding paths")?;
            }
        }
        let options = laid.overlay_options(name, lower);
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("garret", laid.path(), "overlay", flags, options.as_c_str()).in_step(MOUNTING)?;
        laid.untouched = read_upper_state(name).ok();
        Ok(laid)
    }

    /// Returns whether nothing was written to the layer in the directory `name` since it was mounted.
    pub(super) fn is_untouched(&self, name: &str) -> bool {
        let now = read_upper_state(name).ok();
        now == self.untouched && now.is_some_and(|look| look.is_empty)
    }

    /// Returns the mount point of the layer.
    pub(super) fn path(&self) -> PathBuf {
        Path::new(MOUNTED).join(self.number.to_string())
    }

    fn mask_path(&self) -> PathBuf {
        Path::new(MASKS).join(self.number.to_string())
    }

    /// Returns the mount options of the overlay.
    fn overlay_options(&self, name: &str, lower: LayerLower) -> CString {
        let directories = match lower {
            LayerLower::OwnLower => format!("{LAYERS}/{name}/lower"),
            _ if self.has_mask => format!("{}:{BENCH}", self.mask_path().display()),
            _ => BENCH.to_owned(),
        };
        // `volatile`: without it, an unmount would sync the whole file system below. Nothing is lost by it: effects
        // that become a change are made durable when they are committed, and a layer is never mounted a second time.
        let options = format!(
            "lowerdir={directories},upperdir={},workdir={LAYERS}/{name}/work,userxattr,volatile,index=off",
            upper_path(name)
        );
        CString::new(options).expect("names of layers hold no NUL")
    }

    /// Drops the kernel's cached view of the bench, so that the next access finds changes that others made there.
    pub(super) fn refresh(&self) -> Result<(), StepFailure> {
        // A remount with the same flags drops the cached entries that nobody has open, and changes nothing else.
        mount_remount(self.path(), MountFlags::NOSUID | MountFlags::NODEV, c"").in_step("refreshing a layer")
    }

    /// Unmounts the layer. No process may run on it any more.
    pub(super) fn unmount_layer(self) -> Result<(), StepFailure> {
        unmount(self.path(), UnmountFlags::DETACH).in_step("unmounting a layer")?;
        let _ = rustix::fs::rmdir(self.path());
        if self.has_mask {
            let number = self.number.to_string();
            let _ = open_child(CWD, MASKS).and_then(|masks| remove_tree(masks, number.as_bytes()));
        }
        Ok(())
    }
}

fn upper_path(name: &str) -> String {
    format!("{LAYERS}/{name}/upper")
}

fn read_upper_state(name: &str) -> rustix::io::Result<UpperDirectoryState> {
    let upper = open_child(CWD, upper_path(name))?;
    let stat = rustix::fs::fstat(&upper)?;
    Ok(UpperDirectoryState {
        owner: (stat.st_mode, stat.st_uid, stat.st_gid),
        changed: (stat.st_ctime, stat.st_ctime_nsec as _),
        attributes: rustix::fs::flistxattr(&upper, &mut [0; 0])?,
        is_empty: list_names_up_to(&upper, Some(0))?.is_some(),
    })
}

/// Mounts an overlay and unmounts it again; returns the reason if that fails, and `None` if overlays work.
pub(super) fn try_overlay(overlays: &OverlayUse) -> Option<String> {
    let trial = match overlays {
        OverlayUse::Unwanted => return Some("asked for".to_owned()),
        OverlayUse::Known => return None,
        OverlayUse::Tried(trial) => trial,
    };
    let tried = MountedLayer::mount_layer(0, trial, LayerLower::Bench).and_then(MountedLayer::unmount_layer);
    let reason = |failure: StepFailure| {
        std::io::Error::from_raw_os_error(failure.errno)
            .to_string()
            .to_lowercase()
    };
    tried.err().map(reason)
}

/// Reads the hidden paths of the layer in the directory `name`.
fn read_hidden(name: &str) -> rustix::io::Result<HiddenRecord> {
    let layer = open_child(CWD, format!("{LAYERS}/{name}"))?;
    HiddenRecord::read(layer.as_fd())
}

/// Makes a directory of whiteouts that lies between the bench and the upper directory: each whiteout hides the entry of
/// the bench at its path. The overlay shows the directories above a whiteout as they are in the mask, so they get the
/// modes and times of those on the bench.
fn make_mask(mask: &Path, hidden: &[Vec<u8>]) -> rustix::io::Result<()> {
    let bench = rustix::fs::open(BENCH, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::fs::mkdir(mask, Mode::RWXU)?;
    let mask = open_child(CWD, mask)?;
    copy_mode_and_times(&mask, &bench)?;
    for path in hidden {
        hide_path(&mask, &bench, path)?;
    }
    Ok(())
}

fn hide_path(mask: &OwnedFd, bench: &OwnedFd, path: &[u8]) -> rustix::io::Result<()> {
    let (above, name) = split_path(path);
    let mut directory = mask.try_clone().map_err(|_| Errno::MFILE)?;
    let mut walked = Vec::new();
    for part in above.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        walked = join_path(&walked, part);
        let original = open_across_mounts(bench, &walked, OFlags::PATH | OFlags::DIRECTORY)?;
        match rustix::fs::mkdirat(&directory, part, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        directory = open_across_mounts(&directory, part, OFlags::RDONLY | OFlags::DIRECTORY)?;
        copy_mode_and_times(&directory, &original)?;
    }
    rustix::fs::mknodat(&directory, name, FileType::CharacterDevice, Mode::empty(), 0)
}

/// Gives `directory` the mode and times of `original`.
fn copy_mode_and_times(directory: &OwnedFd, original: &OwnedFd) -> rustix::io::Result<()> {
    let stat = rustix::fs::fstat(original)?;
    rustix::fs::fchmod(directory, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    let time = |seconds, nanos| Timespec {
        tv_sec: seconds,
        tv_nsec: nanos,
    };
    let times = Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec as _),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec as _),
    };
    rustix::fs::futimens(directory, &times)
}
