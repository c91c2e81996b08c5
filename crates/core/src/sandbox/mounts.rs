//! Parts of the machine that commands see besides the workspace and the system.

use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::path::quote;
use crate::{Error, Result};

/// A file or directory of the machine that commands see.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxMount {
    /// Its path on the machine: absolute, or below the user's home directory with `~/`.
    #[schemars(example = &"~/data")]
    pub source: PathBuf,
    /// The absolute path at which commands see it. The default is the path of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"/data")]
    pub target: Option<PathBuf>,
    /// The access that commands have.
    #[serde(default)]
    #[schemars(example = &"layer")]
    pub access: MountAccess,
}

/// The access of commands to a mount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MountAccess {
    /// Commands read it.
    #[default]
    Read,
    /// Commands read and write it on the machine itself: history does not record these writes.
    Write,
    /// Commands read it and write to a layer over it, which ends with the sandbox.
    Layer,
}

/// Directories that no mount may cover and that no mount may lie in: the system, the files of the sandbox, and the
/// workspace.
const RESERVED: [&str; 14] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc",
    "/dev",
    "/proc",
    "/sys",
    "/boot",
    "/var/tmp",
    "/workspace",
    "/.garret",
];

impl SandboxMount {
    /// Makes a mount that commands read at its own path.
    pub fn readable(source: impl Into<PathBuf>) -> Self {
        Self {
            source: source.into(),
            target: None,
            access: MountAccess::Read,
        }
    }

    /// Returns the path at which commands see it.
    pub fn target_path(&self) -> &Path {
        self.target.as_deref().unwrap_or(&self.source)
    }

    /// Checks that it may lie at its target.
    pub fn check_target(&self) -> Result<()> {
        check_mount_target(self.target_path()).map_err(|error| {
            let target = quote(&self.target_path().to_string_lossy());
            let message = format!("the mount {target} is refused: {}", error.message());
            Error::new(error.kind(), message).hint(error.hint_text())
        })
    }

    /// Reads `SOURCE[:TARGET][:read|write|layer]`.
    pub fn parse(text: &str) -> Result<Self> {
        let (rest, access) = match text.rsplit_once(':') {
            Some((rest, "read")) => (rest, MountAccess::Read),
            Some((rest, "write")) => (rest, MountAccess::Write),
            Some((rest, "layer")) => (rest, MountAccess::Layer),
            _ => (text, MountAccess::Read),
        };
        let (source, target) = match rest.split_once(':') {
            Some((source, target)) => (source, Some(target.into())),
            None => (rest, None),
        };
        // Else `SOURCE:TARGET:rw` would be a mount at another place than the one that is meant.
        let has_rest = target
            .as_ref()
            .is_some_and(|target: &PathBuf| target.to_string_lossy().contains(':'));
        if source.is_empty() || target == Some(PathBuf::new()) || has_rest {
            return Err(Error::invalid(format!("{} does not name a mount", quote(text))).hint(
                "write SOURCE, SOURCE:TARGET or SOURCE:TARGET:ACCESS, with the access `read`, `write` or `layer`",
            ));
        }
        Ok(Self {
            source: source.into(),
            target,
            access,
        })
    }
}

/// Checks that a mount, or the second path of the workspace, may lie at `target`. The error does not show the path,
/// which may be one of the machine.
pub fn check_mount_target(target: &Path) -> Result<()> {
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if !target.is_absolute() || !target.components().all(is_plain) || target.to_str().is_none() {
        return Err(
            Error::invalid("the target of a mount must be an absolute path in UTF-8 without `..`")
                .hint("write the whole path, such as `/data`"),
        );
    }
    let is_reserved = |reserved: &&&str| target.starts_with(reserved) || Path::new(reserved).starts_with(target);
    let is_memory = [
        Path::new("/tmp"),
        Path::new("/home"),
        Path::new("/run"),
        Path::new("/var"),
    ]
    .contains(&target);
    match RESERVED.iter().find(is_reserved) {
        _ if is_memory => Err(reserved_target_error("a directory of the sandbox")),
        Some(reserved) => Err(reserved_target_error(reserved)),
        None => Ok(()),
    }
}

fn reserved_target_error(reserved: &str) -> Error {
    let message = format!("a mount may not lie over {reserved}, in it, or above it");
    Error::invalid(message).hint("choose a target such as `/data` or a directory below `/opt`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_from_its_parts() {
        let read = |text: &str| SandboxMount::parse(text).unwrap();
        assert_eq!(read("/a"), SandboxMount::readable("/a"));
        let with = |target: Option<&str>, access| SandboxMount {
            source: "/a".into(),
            target: target.map(Into::into),
            access,
        };
        assert_eq!(read("/a:/b"), with(Some("/b"), MountAccess::Read));
        assert_eq!(read("/a:write"), with(None, MountAccess::Write));
        assert_eq!(read("/a:/b:layer"), with(Some("/b"), MountAccess::Layer));
        for wrong in ["", ":/b", "/a:", ":write", "/a:/b:rw", "/a:/b:ro:read"] {
            assert!(SandboxMount::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_system_and_the_workspace_are_never_covered() {
        for wrong in [
            "/",
            "/usr",
            "/usr/local/x",
            "/etc/ssl",
            "/workspace",
            "/workspace/a",
            "/.garret/x",
            "/var",
            "/tmp",
            "/home",
            "/proc/self",
            "data",
            "/data/../usr",
            "/dev/shm/x",
        ] {
            let error = check_mount_target(Path::new(wrong)).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Invalid, "{wrong}");
        }
        for right in [
            "/data",
            "/opt/tools",
            "/home/someone/tools",
            "/tmp/x",
            "/usrlocal",
            "/workspaces/a",
        ] {
            assert!(check_mount_target(Path::new(right)).is_ok(), "{right}");
        }
    }
}
