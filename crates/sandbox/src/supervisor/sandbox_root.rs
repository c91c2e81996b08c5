//! Makes the root of a sandbox as planned, on an empty file system in memory.

#![cfg(target_os = "linux")]

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use garret_core::Network;
use garret_handles::write_all;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change, move_mount,
    open_tree, unmount,
};

use super::host_parts::open_host_parts;
use super::keeper::KeeperDirectories;
use super::protocol::{FailedStep, StepFailure};
use super::sys::{self, MountExtent};
use crate::namespace::plan::{RootStep, SandboxPlan};

/// The directory of the supervisor, which commands do not see.
pub(super) const PRIVATE: &str = "/.garret";
/// The bench, in [`PRIVATE`].
pub(super) const BENCH: &str = "/.garret/bench";
/// The directories of the layers, in [`PRIVATE`].
pub(super) const LAYERS: &str = "/.garret/layers";
/// The mounted layers, in [`PRIVATE`].
pub(super) const MOUNTED: &str = "/.garret/mounted";
/// The masks that hide paths, in [`PRIVATE`].
pub(super) const MASKS: &str = "/.garret/masks";
/// The lower directories of the mounts with a layer, in [`PRIVATE`].
pub(super) const SOURCES: &str = "/.garret/sources";

type Result<T> = std::result::Result<T, StepFailure>;

/// Makes the root and moves into it; returns whether it has a `/proc`.
pub(super) fn make_root(plan: &SandboxPlan, grabbed: Option<KeeperDirectories>) -> Result<bool> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).in_step("separating mounts")?;
    // Everything is opened before anything is covered: the bench may lie below `/tmp`, which the new root covers.
    let grabbed = match grabbed {
        Some(grabbed) => grabbed,
        None => KeeperDirectories {
            bench: clone_named_tree(&plan.bench, "the directory of the files")?,
            layers: clone_named_tree(&plan.layers, "the layers")?,
            host_parts: open_host_parts(plan)?,
        },
    };
    let parts = plan.root.iter().map(gather_part).collect::<Result<Vec<_>>>()?;
    let base = mount_base()?;
    for part in parts {
        part.install_in(&base)?;
    }
    install_private(&base, &grabbed.bench, &grabbed.layers)?;
    // Opened now: a mount on a cover would hide it.
    let covers = open_covers(plan, &base)?;
    grabbed.host_parts.install_in(plan, &base)?;
    for cover in covers {
        sys::protect_mount(cover.as_fd(), MountExtent::Alone).in_step("closing a cover")?;
    }
    let has_proc = mount_proc(&base.join("proc")).is_ok();
    enter_root(&base)?;
    if plan.network != Network::Full {
        sys::raise_loopback().in_step("raising the loopback interface")?;
    }
    rustix::system::sethostname(b"garret").in_step("naming the host")?;
    Ok(has_proc)
}

/// Opens the covers of the plan, which become read-only when every place in them was made.
fn open_covers(plan: &SandboxPlan, base: &Path) -> Result<Vec<OwnedFd>> {
    let open = |path: &String| {
        rustix::fs::open(path_within(base, path), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| path_failure("covering", path, error))
    };
    let covers = plan.root.iter().filter_map(|step| match step {
        RootStep::Cover { path } => Some(path),
        _ => None,
    });
    covers.map(open).collect()
}

/// Mounts a `/proc` that shows the process namespace of this process.
pub(super) fn mount_proc(target: &Path) -> rustix::io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", target, "proc", flags, None::<&std::ffi::CStr>)
}

/// A step of the plan, with the files of the host that it needs opened or read.
enum RootPart<'a> {
    Make(&'a RootStep),
    Attach {
        path: &'a str,
        tree: OwnedFd,
        is_file: bool,
    },
    Write {
        path: &'a str,
        bytes: Vec<u8>,
    },
}

fn gather_part(step: &RootStep) -> Result<RootPart<'_>> {
    Ok(match step {
        RootStep::Show { path } => RootPart::Attach {
            path,
            tree: system_tree(path)?,
            is_file: false,
        },
        RootStep::Device { name } => RootPart::Attach {
            path: name,
            tree: clone_tree(&Path::new("/dev").join(name))
                .map_err(|error| path_failure("showing the device", name, error))?,
            is_file: true,
        },
        // A setting that cannot be read becomes an empty file, rather than a sandbox that cannot be opened.
        RootStep::Copy { path } => RootPart::Write {
            path,
            bytes: read_host_file(path).unwrap_or_default(),
        },
        RootStep::Text { path, text } => RootPart::Write {
            path,
            bytes: text.clone().into_bytes(),
        },
        RootStep::Directory { .. } | RootStep::Link { .. } | RootStep::Cover { .. } | RootStep::Memory { .. } => {
            RootPart::Make(step)
        }
    })
}

pub(super) fn clone_tree(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags)
}

fn clone_named_tree(path: &Path, what: &str) -> Result<OwnedFd> {
    clone_tree(path).in_step(&format!("opening {what}"))
}

fn system_tree(path: &str) -> Result<OwnedFd> {
    let failed = |error: io::Error| StepFailure::new(format!("showing {path}"), error);
    let tree = clone_tree(Path::new(path)).map_err(|error| failed(error.into()))?;
    sys::protect_mount(tree.as_fd(), MountExtent::WithMountsBelow).map_err(failed)?;
    Ok(tree)
}

fn read_host_file(path: &str) -> io::Result<Vec<u8>> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut std::fs::File::from(file), &mut bytes)?;
    Ok(bytes)
}

/// Mounts a file system in memory over `/tmp`, a directory that every machine has.
fn mount_base() -> Result<PathBuf> {
    let base = PathBuf::from("/tmp");
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("garret", &base, "tmpfs", flags, c"mode=0755,size=16m").in_step("making a root")?;
    Ok(base)
}

impl RootPart<'_> {
    fn install_in(self, base: &Path) -> Result<()> {
        match self {
            RootPart::Make(step) => make_step(base, step),
            RootPart::Write { path, bytes } => {
                write_file(&path_within(base, path), &bytes).map_err(|error| path_failure("writing", path, error))
            }
            RootPart::Attach {
                path,
                tree,
                is_file: true,
            } => {
                let target = path_within(base, "/dev").join(path);
                write_file(&target, b"").map_err(|error| path_failure("making the device", path, error))?;
                attach_tree(&tree, &target).map_err(|error| path_failure("showing the device", path, error))
            }
            RootPart::Attach {
                path,
                tree,
                is_file: false,
            } => {
                let target = path_within(base, path);
                make_directories(&target).map_err(|error| path_failure("making", path, error))?;
                attach_tree(&tree, &target).map_err(|error| path_failure("showing", path, error))
            }
        }
    }
}

fn path_failure(doing: &str, path: &str, error: Errno) -> StepFailure {
    StepFailure::new(format!("{doing} {path}"), error)
}

fn make_step(base: &Path, step: &RootStep) -> Result<()> {
    match step {
        RootStep::Directory { path, mode } => {
            let target = path_within(base, path);
            make_directories(&target)
                .and_then(|()| rustix::fs::chmod(&target, Mode::from_raw_mode(*mode)))
                .map_err(|error| path_failure("making", path, error))
        }
        RootStep::Link { path, target } => {
            let place = path_within(base, path);
            if let Some(parent) = place.parent() {
                make_directories(parent).map_err(|error| path_failure("making", path, error))?;
            }
            rustix::fs::symlink(target, &place).map_err(|error| path_failure("linking", path, error))
        }
        RootStep::Cover { path } => {
            let place = path_within(base, path);
            make_directories(&place)
                .and_then(|()| mount_memory(&place, "mode=0755,size=1m"))
                .map_err(|error| path_failure("covering", path, error))
        }
        RootStep::Memory { path, bytes } => {
            // Each entry takes about a kilobyte of kernel memory, with or without content, so their number is limited
            // too.
            let options = format!("mode=1777,size={bytes},nr_inodes={}", (bytes / 8192).max(1024));
            let place = path_within(base, path);
            make_directories(&place)
                .and_then(|()| mount_memory(&place, options))
                .map_err(|error| path_failure("mounting", path, error))
        }
        RootStep::Show { .. } | RootStep::Copy { .. } | RootStep::Text { .. } | RootStep::Device { .. } => Ok(()),
    }
}

pub(super) fn path_within(base: &Path, path: &str) -> PathBuf {
    base.join(path.trim_start_matches('/'))
}

pub(super) fn make_directories(path: &Path) -> rustix::io::Result<()> {
    match rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)) {
        Err(Errno::NOENT) => {
            make_directories(path.parent().ok_or(Errno::NOENT)?)?;
            rustix::fs::mkdir(path, Mode::from_raw_mode(0o755))
        }
        Err(Errno::EXIST) => Ok(()),
        other => other,
    }
}

pub(super) fn write_file(path: &Path, bytes: &[u8]) -> rustix::io::Result<()> {
    if let Some(parent) = path.parent() {
        make_directories(parent)?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
    write_all(&file, bytes)
}

pub(super) fn attach_tree(tree: &OwnedFd, target: &Path) -> rustix::io::Result<()> {
    move_mount(tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

fn mount_memory(target: &Path, options: impl Into<Vec<u8>>) -> rustix::io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let options = std::ffi::CString::new(options).map_err(|_| Errno::INVAL)?;
    mount("garret", target, "tmpfs", flags, options.as_c_str())
}

/// Mounts the directories that only the supervisor sees.
fn install_private(base: &Path, bench: &OwnedFd, layers: &OwnedFd) -> Result<()> {
    let step = "making the private directory";
    mount_memory(&path_within(base, PRIVATE), "mode=700,size=16m").in_step(step)?;
    for path in [BENCH, LAYERS, MOUNTED, MASKS, SOURCES] {
        make_directories(&path_within(base, path)).in_step(step)?;
    }
    attach_tree(bench, &path_within(base, BENCH)).in_step("mounting the files")?;
    attach_tree(layers, &path_within(base, LAYERS)).in_step("mounting the layers")
}

/// Makes `base` the root, unmounts the old root, and makes the new one read-only.
fn enter_root(base: &Path) -> Result<()> {
    let failed = |error: Errno| StepFailure::new("entering the root", error);
    rustix::process::chdir(base).map_err(failed)?;
    // With `.` for both, the old root lies over the new one and needs no directory of its own; the unmount takes it
    // off.
    rustix::process::pivot_root(".", ".").map_err(failed)?;
    unmount(".", UnmountFlags::DETACH).map_err(failed)?;
    rustix::process::chdir("/").map_err(failed)?;
    let top = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    sys::protect_mount(top.as_fd(), MountExtent::Alone).in_step("closing the root")
}
