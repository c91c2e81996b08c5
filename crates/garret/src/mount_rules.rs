//! The rules on the mounts of a workspace: where they may lie, and what of the machine they may show.

#![allow(
    clippy::disallowed_methods,
    reason = "this file follows the links in the path of a source on the host"
)]

use std::io;
use std::path::{Component, Path, PathBuf};

use garret_core::path::quote;
use garret_core::{Error, ErrorKind, MountAccess, Result, SandboxMount, check_mount_target};
use garret_sandbox::toolchains::follow_links;

/// Directories of the kernel, through which a command would reach the machine itself.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The directories that the rules depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MountSurroundings<'a> {
    /// The home directory of the user, for `~/`.
    pub(crate) user_home: Option<&'a Path>,
    /// The directories of the workspace on the machine.
    pub(crate) workspace: &'a [PathBuf],
    /// More paths at which commands see the workspace: through links.
    pub(crate) shown: &'a [PathBuf],
    /// The directories of Garret itself.
    pub(crate) own: &'a [PathBuf],
}

/// Returns the mounts with their sources as paths without links, each checked against the rules.
pub(crate) fn check_mounts(mounts: &[SandboxMount], around: &MountSurroundings<'_>) -> Result<Vec<SandboxMount>> {
    let mut checked: Vec<CheckedMount> = Vec::new();
    for mount in mounts {
        let one = check_mount(mount, around)?;
        if checked.iter().any(|other| overlap(one.target(), other.target())) {
            return Err(refuse(
                &one.mount,
                "its target overlaps that of another mount",
                "choose another target",
            ));
        }
        checked.push(one);
    }
    for one in &checked {
        // A command could replace the inner source by a link, which the next opening would follow.
        let is_writable =
            |other: &&CheckedMount| other.mount.access == MountAccess::Write && other.mount.source != one.mount.source;
        let within = |other: &CheckedMount| one.way.iter().any(|step| step.starts_with(&other.mount.source));
        if checked.iter().filter(is_writable).any(within) {
            return Err(refuse(
                &one.mount,
                "its source lies in a directory that commands write through another mount",
                "mount only the outer directory",
            ));
        }
    }
    Ok(checked.into_iter().map(|one| one.mount).collect())
}

/// Refuses a mount whose target lies in a directory of a toolchain that has no such place: nobody can make one there.
pub(crate) fn check_places(mounts: &[SandboxMount], toolchains: &[SandboxMount]) -> Result<()> {
    let lacks_place = |mount: &&SandboxMount| {
        let around = toolchains.iter().filter_map(|toolchain| {
            let below = mount.target_path().strip_prefix(toolchain.target_path()).ok()?;
            Some(toolchain.source.join(below))
        });
        around.into_iter().any(|place| !place.exists())
    };
    match mounts.iter().find(lacks_place) {
        None => Ok(()),
        Some(mount) => Err(refuse(
            mount,
            "its target does not exist in a directory of a toolchain, which is read-only",
            "choose another target",
        )),
    }
}

/// A mount whose source has no links, and the paths that lead to the source: each link, and the source itself.
struct CheckedMount {
    mount: SandboxMount,
    way: Vec<PathBuf>,
}

impl CheckedMount {
    fn target(&self) -> &Path {
        self.mount.target_path()
    }
}

fn check_mount(mount: &SandboxMount, around: &MountSurroundings<'_>) -> Result<CheckedMount> {
    let written = written_source(mount, around.user_home)?;
    let named = SandboxMount {
        target: Some(mount.target.clone().unwrap_or_else(|| written.clone())),
        ..mount.clone()
    };
    named.check_target()?;
    let mut places = around.workspace.iter().chain(around.shown);
    if places.any(|place| overlap(place, named.target_path())) {
        return Err(refuse(
            &named,
            "its target overlaps the workspace",
            "choose another target",
        ));
    }
    let way = follow_links(&written).map_err(|error| unreachable_error(&named, &error))?;
    let source = way.last().cloned().unwrap_or(written);
    let is_on_way = |places: &[PathBuf]| {
        places
            .iter()
            .any(|place| way.iter().any(|step| step.starts_with(place)))
    };
    let holds = |places: &[PathBuf]| places.iter().any(|place| place.starts_with(&source));
    if is_on_way(around.workspace) || holds(around.workspace) {
        return Err(refuse(
            &named,
            "its source lies in the workspace or holds it",
            "commands see the workspace anyway; mount another directory",
        ));
    }
    if is_on_way(around.own) || holds(around.own) {
        return Err(refuse(
            &named,
            "its source lies in Garret's own files or holds them",
            "mount another directory, or one further down",
        ));
    }
    let is_kernel = KERNEL.iter().any(|kernel| source.starts_with(kernel)) || source.parent().is_none();
    let is_system = mount.access != MountAccess::Read && check_mount_target(&source).is_err();
    if is_kernel || is_system {
        return Err(refuse(
            &named,
            "its source is a part of the system",
            "mount another directory",
        ));
    }
    Ok(CheckedMount {
        mount: SandboxMount { source, ..named },
        way,
    })
}

/// Returns the absolute path of the source as it was written.
fn written_source(mount: &SandboxMount, user_home: Option<&Path>) -> Result<PathBuf> {
    let shown = quote(&mount.source.to_string_lossy());
    let path = match (mount.source.strip_prefix("~"), user_home) {
        (Err(_), _) => mount.source.clone(),
        (Ok(below), Some(home)) => home.join(below),
        (Ok(_), None) => {
            let message = format!("the mount {shown} begins with `~`, and the home directory of the user is not known");
            return Err(Error::invalid(message).hint("write the whole path of the source"));
        }
    };
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if path.is_absolute() && path.components().all(is_plain) {
        return Ok(path);
    }
    Err(
        Error::invalid(format!("the source of the mount {shown} is not an absolute path"))
            .hint("write an absolute path without `..`, or one that begins with `~/`"),
    )
}

fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// Makes the error for a mount, which has the name that commands would see.
fn refuse(mount: &SandboxMount, reason: &str, remedy: &str) -> Error {
    let target = quote(&mount.target_path().to_string_lossy());
    Error::new(ErrorKind::Denied, format!("the mount {target} is refused: {reason}")).hint(remedy)
}

fn unreachable_error(mount: &SandboxMount, error: &io::Error) -> Error {
    let target = quote(&mount.target_path().to_string_lossy());
    let (kind, reason, remedy) = if error.kind() == io::ErrorKind::PermissionDenied {
        let remedy = "give the user of Garret the right to enter its directory";
        (ErrorKind::Denied, "Garret may not read its source", remedy)
    } else {
        (ErrorKind::NotFound, "its source does not exist", "create it")
    };
    Error::new(
        kind,
        format!("the mount {target} cannot be shown to commands: {reason}"),
    )
    .hint(format!("{remedy}, or remove it from `mounts`"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct Host(tempfile::TempDir);

    impl Host {
        fn new() -> Self {
            let host = Self(tempfile::tempdir().unwrap());
            for directory in ["data/inner", "project/sub", "garret/benches", "user/data", "other"] {
                fs::create_dir_all(host.path(directory)).unwrap();
            }
            host
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(path)
        }

        fn check(&self, mounts: &[(&str, &str)]) -> Result<Vec<SandboxMount>> {
            let root = self.path("");
            let read = |(source, rest): &(&str, &str)| {
                let source = if source.starts_with(['~', '/', '.']) {
                    (*source).to_owned()
                } else {
                    root.join(source).display().to_string()
                };
                SandboxMount::parse(&format!("{source}{rest}")).unwrap()
            };
            let mounts: Vec<_> = mounts.iter().map(read).collect();
            let (workspace, own) = ([self.path("project")], [self.path("garret")]);
            let shown = [PathBuf::from("/link/to/project")];
            check_mounts(
                &mounts,
                &MountSurroundings {
                    user_home: Some(&self.path("user")),
                    workspace: &workspace,
                    shown: &shown,
                    own: &own,
                },
            )
        }

        fn refusal(&self, mounts: &[(&str, &str)]) -> String {
            let error = self.check(mounts).unwrap_err();
            assert!(!error.hint_text().is_empty());
            error.message().to_owned()
        }
    }

    #[test]
    fn a_source_is_absolute_or_below_the_home_of_the_user() {
        let host = Host::new();
        let mounts = host.check(&[("~/data", ""), ("other", ":/data:write")]).unwrap();
        assert_eq!(mounts[0].source, host.path("user/data"));
        assert_eq!(mounts[0].target_path(), host.path("user/data"));
        assert_eq!(
            (mounts[1].source.clone(), mounts[1].target_path()),
            (host.path("other"), Path::new("/data"))
        );
        assert!(host.refusal(&[("./data", "")]).contains("not an absolute path"));
        assert!(host.refusal(&[("/a/../b", "")]).contains("not an absolute path"));
        assert_eq!(
            host.refusal(&[("missing", ":/data")]),
            "the mount `/data` cannot be shown to commands: its source does not exist"
        );
    }

    #[test]
    fn a_mount_shows_and_covers_neither_the_workspace_nor_the_system_nor_the_files_of_garret() {
        let host = Host::new();
        let project = format!(":{}", host.path("project").display());
        for (source, rest, reason) in [
            ("project", ":/data", "lies in the workspace"),
            ("project/sub", ":/data", "lies in the workspace"),
            ("", ":/data", "or holds it"),
            ("garret", ":/data", "Garret's own files"),
            ("garret/benches", ":/data:write", "Garret's own files"),
            ("/proc/self", ":/data", "a part of the system"),
            ("/sys", ":/data", "a part of the system"),
            ("/dev", ":/data", "a part of the system"),
            ("/etc", ":/data:write", "a part of the system"),
            ("/usr", ":/data:layer", "a part of the system"),
            ("data", project.as_str(), "overlaps the workspace"),
            ("data", ":/link/to/project", "overlaps the workspace"),
            ("data", ":/link/to", "overlaps the workspace"),
            (
                "data",
                ":/workspace/x",
                "the mount `/workspace/x` is refused: a mount may not lie over",
            ),
            ("data", ":/usr/lib", "may not lie over"),
        ] {
            let refusal = host.refusal(&[(source, rest)]);
            assert!(refusal.contains(reason), "{source}{rest}: {refusal}");
        }
        assert!(
            host.refusal(&[("data", ":/a"), ("other", ":/a/b")])
                .contains("overlaps that of another")
        );
        host.check(&[("/etc", ":/data")]).unwrap();
    }

    #[test]
    fn a_target_in_a_directory_of_a_toolchain_must_exist() {
        let host = Host::new();
        fs::create_dir_all(host.path("opt/tool/models")).unwrap();
        let toolchain = SandboxMount {
            target: Some("/opt/tool".into()),
            ..SandboxMount::readable(host.path("opt/tool"))
        };
        let check = |target: &str| {
            let mounts = host.check(&[("data", target)]).unwrap();
            check_places(&mounts, std::slice::from_ref(&toolchain))
        };
        check(":/opt/tool/models").unwrap();
        check(":/opt/other").unwrap();
        let error = check(":/opt/tool/data").unwrap_err();
        assert!(
            error.message().contains("the mount `/opt/tool/data` is refused"),
            "{error}"
        );
    }

    #[test]
    fn a_link_leads_to_a_source_only_where_no_command_can_replace_it() {
        let host = Host::new();
        symlink("data", host.path("outer")).unwrap();
        symlink(host.path("project/link"), host.path("chain")).unwrap();
        symlink(host.path("other"), host.path("project/link")).unwrap();
        symlink(host.path("garret"), host.path("innocent")).unwrap();
        symlink("loop", host.path("loop")).unwrap();
        assert_eq!(host.check(&[("outer", ":/data")]).unwrap()[0].source, host.path("data"));
        assert!(
            host.refusal(&[("project/link", ":/data")])
                .contains("lies in the workspace")
        );
        assert!(host.refusal(&[("chain", ":/data")]).contains("lies in the workspace"));
        assert!(host.refusal(&[("innocent", ":/data")]).contains("Garret's own files"));
        assert!(host.refusal(&[("loop", ":/data")]).contains("does not exist"));
    }

    #[test]
    fn no_mount_comes_from_a_directory_that_commands_write_through_another() {
        let host = Host::new();
        symlink(host.path("data/inner"), host.path("shortcut")).unwrap();
        for inner in ["data/inner", "shortcut"] {
            let refusal = host.refusal(&[(inner, ":/one"), ("data", ":/two:write")]);
            assert!(refusal.contains("through another mount"), "{refusal}");
        }
        host.check(&[("data/inner", ":/one"), ("data", ":/two")]).unwrap();
    }
}
