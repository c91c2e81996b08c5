//! Mounts the parts of the host that commands see besides the system, and their home directory.
//!
//! They are opened with the rights of the user that opened the sandbox, who may enter directories that the user of the
//! commands may not: a home directory with the mode 0700 above a toolchain, for example.

#![cfg(target_os = "linux")]

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{MountFlags, OpenTreeFlags, mount, open_tree};

use super::keeper::make_owner_map;
use super::protocol::{FailedStep, SHOWING, StepFailure};
use super::sandbox_root::{LAYERS, SOURCES, attach_tree, make_directories, path_within, write_file};
use super::sys::{self, MountExtent};
use crate::namespace::plan::{PlannedAccess, PlannedMount, SandboxPlan};

type Result<T> = std::result::Result<T, StepFailure>;

/// The opened parts of the host: one tree for each mount of the plan, and the home.
#[derive(Debug)]
pub(super) struct HostParts {
    mounts: Vec<OwnedFd>,
    home: Option<OwnedFd>,
}

/// Opens the parts of the host that the plan names.
pub(super) fn open_host_parts(plan: &SandboxPlan) -> Result<HostParts> {
    Ok(HostParts {
        mounts: plan
            .mounts
            .iter()
            .map(|mount| open_mount(mount, plan))
            .collect::<Result<_>>()?,
        home: plan.home.source.as_deref().map(open_home).transpose()?,
    })
}

fn open_mount(mount: &PlannedMount, plan: &SandboxPlan) -> Result<OwnedFd> {
    let step = format!("{SHOWING}{}", mount.target);
    // The owner of a single mount can be mapped, not that of the mounts below it.
    let extent = match mount.mapped_owner {
        Some(_) => MountExtent::Alone,
        None => MountExtent::WithMountsBelow,
    };
    let tree = clone_without_links(&mount.source, extent).in_step(&step)?;
    match mount.access {
        PlannedAccess::Write => sys::restrict_mount(tree.as_fd(), extent).in_step(&step)?,
        PlannedAccess::Read | PlannedAccess::Overlay(_) => sys::protect_mount(tree.as_fd(), extent).in_step(&step)?,
    }
    if let Some(owner) = mount.mapped_owner {
        let owners = make_owner_map(owner, &plan.user)?;
        sys::map_owners(tree.as_fd(), owners.as_fd()).in_step(&step)?;
    }
    Ok(tree)
}

fn open_home(source: &Path) -> Result<OwnedFd> {
    let tree = clone_without_links(source, MountExtent::WithMountsBelow).in_step("opening the home")?;
    sys::restrict_mount(tree.as_fd(), MountExtent::WithMountsBelow).in_step("opening the home")?;
    Ok(tree)
}

/// Clones the mount at `path`. A symbolic link anywhere in the path is refused: it was put there after the path was
/// resolved.
fn clone_without_links(path: &Path, extent: MountExtent) -> rustix::io::Result<OwnedFd> {
    let place = openat2(
        CWD,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )?;
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    if extent == MountExtent::WithMountsBelow {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    open_tree(place, "", flags)
}

impl HostParts {
    /// Mounts every part in the root at `base`. The private directory is there already.
    pub(super) fn install_in(self, plan: &SandboxPlan, base: &Path) -> Result<()> {
        for (number, (mount, tree)) in plan.mounts.iter().zip(&self.mounts).enumerate() {
            install_mount(mount, tree, base, number).in_step(&format!("{SHOWING}{}", mount.target))?;
        }
        if let Some(home) = &self.home {
            attach_tree(home, &path_within(base, &plan.home.path)).in_step("mounting the home")?;
        }
        Ok(())
    }
}

fn install_mount(mount: &PlannedMount, tree: &OwnedFd, base: &Path, number: usize) -> rustix::io::Result<()> {
    let target = path_within(base, &mount.target);
    make_place(&target, mount.is_file)?;
    match &mount.access {
        PlannedAccess::Read | PlannedAccess::Write => attach_tree(tree, &target),
        PlannedAccess::Overlay(name) => {
            let lower = path_within(base, SOURCES).join(number.to_string());
            make_directories(&lower)?;
            attach_tree(tree, &lower)?;
            mount_overlay(&lower, &path_within(base, LAYERS).join(name), &target)
        }
    }
}

/// Makes the file or directory to mount on, unless it exists.
fn make_place(target: &Path, is_file: bool) -> rustix::io::Result<()> {
    if rustix::fs::lstat(target).is_ok() {
        return Ok(());
    }
    if is_file {
        write_file(target, b"")
    } else {
        make_directories(target)
    }
}

fn mount_overlay(lower: &Path, layer: &Path, target: &PathBuf) -> rustix::io::Result<()> {
    let (lower, layer) = (lower.display(), layer.display());
    let options = format!("lowerdir={lower},upperdir={layer}/upper,workdir={layer}/work,userxattr,volatile,index=off");
    let options = CString::new(options).expect("the directories of the supervisor hold no NUL");
    mount(
        "garret",
        target,
        "overlay",
        MountFlags::NOSUID | MountFlags::NODEV,
        options.as_c_str(),
    )
}
