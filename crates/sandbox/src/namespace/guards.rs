//! The guards that a sandbox enforces and their means, and the errors for those that it cannot.

#![cfg(target_os = "linux")]

use garret_core::{Enforced, Error, ErrorKind, Guard};

use super::plan::{GroupPlace, SandboxPlan};
use crate::supervisor::protocol::{Failure, Opened, Pausing};

/// Returns for each guard whether the sandbox enforces it, and by which means.
pub(super) fn enforced(plan: &SandboxPlan, opened: &Opened) -> Vec<Enforced> {
    Guard::ALL.map(|guard| one(guard, plan, opened)).into()
}

fn one(guard: Guard, plan: &SandboxPlan, opened: &Opened) -> Enforced {
    match guard {
        Guard::Files => holds(guard, files(plan, opened)),
        Guard::Processes => holds(guard, processes(opened)),
        Guard::Network => network(plan),
        Guard::SystemCalls => holds(guard, "seccomp filter"),
        Guard::Layers => layers(opened),
        Guard::Memory => memory(plan, opened),
        Guard::ProcessCount => process_count(plan, opened),
        Guard::CpuTime => cpu_time(plan, opened),
        Guard::Written => sampled(
            guard,
            opened,
            "all processes together are checked every 50 ms; the size of /tmp is limited",
        ),
    }
}

fn holds(guard: Guard, by: impl Into<String>) -> Enforced {
    Enforced {
        guard,
        is_enforced: true,
        by: by.into(),
        remedy: None,
    }
}

fn lacks(guard: Guard, by: impl Into<String>, remedy: &str) -> Enforced {
    Enforced {
        guard,
        is_enforced: false,
        by: by.into(),
        remedy: Some(remedy.to_owned()),
    }
}

fn files(plan: &SandboxPlan, opened: &Opened) -> String {
    let landlock = if plan.has_landlock { " and Landlock" } else { "" };
    let proc = if opened.has_proc {
        ""
    } else {
        "; no /proc: this machine does not let one be mounted"
    };
    format!("mount namespace{landlock}{proc}")
}

fn processes(opened: &Opened) -> String {
    let pausing = match opened.pausing {
        Pausing::FreezerTwo => "paused by the freezer of cgroup v2",
        Pausing::FreezerOne => "paused by the freezer of cgroup v1",
        Pausing::Trace => "paused by ptrace",
        Pausing::Nothing => {
            "background processes are ended instead of paused: there is neither a cgroup freezer nor /proc"
        }
    };
    format!("user and pid namespaces; {pausing}")
}

fn network(plan: &SandboxPlan) -> Enforced {
    if plan.namespaces.contains(&super::plan::Space::Network) {
        holds(Guard::Network, "network namespace")
    } else {
        lacks(
            Guard::Network,
            "the configuration allows it".to_owned(),
            "set `network` to `none` if commands need no network",
        )
    }
}

fn layers(opened: &Opened) -> Enforced {
    match &opened.overlay_failure {
        None => holds(Guard::Layers, "overlayfs"),
        Some(reason) => lacks(
            Guard::Layers,
            format!("a copy of the workspace for each command: {reason}"),
            "use a kernel of 5.11 or newer, and keep the scratch directory on ext4, xfs, btrfs or tmpfs",
        ),
    }
}

const GROUP_REMEDY: &str =
    "run Garret as root, or in a systemd unit with `Delegate=yes`, so that it may write a control group";

fn group_by(plan: &SandboxPlan, opened: &Opened, guard: Guard) -> Option<&'static str> {
    if opened.group_failure.is_some() {
        return None;
    }
    match &plan.group.as_ref()?.place {
        GroupPlace::Two { .. } => Some("cgroup v2"),
        GroupPlace::One {
            memory,
            processes,
            time,
        } => {
            let place = match guard {
                Guard::Memory => memory,
                Guard::CpuTime => time,
                _ => processes,
            };
            place.as_ref().map(|_| "cgroup v1")
        }
    }
}

fn memory(plan: &SandboxPlan, opened: &Opened) -> Enforced {
    match group_by(plan, opened, Guard::Memory) {
        Some(by) => holds(Guard::Memory, by),
        None => lacks(
            Guard::Memory,
            "rlimit (each process); all processes together are checked every 50 ms",
            GROUP_REMEDY,
        ),
    }
}

fn process_count(plan: &SandboxPlan, opened: &Opened) -> Enforced {
    match group_by(plan, opened, Guard::ProcessCount) {
        Some(by) => holds(Guard::ProcessCount, format!("{by} and rlimit")),
        None => holds(Guard::ProcessCount, "rlimit (of the user inside)"),
    }
}

fn cpu_time(plan: &SandboxPlan, opened: &Opened) -> Enforced {
    match group_by(plan, opened, Guard::CpuTime) {
        Some(by) => holds(
            Guard::CpuTime,
            format!("{by}, checked every 50 ms, and rlimit (each process)"),
        ),
        None => sampled(
            Guard::CpuTime,
            opened,
            "rlimit (each process); all processes together are checked every 50 ms",
        ),
    }
}

fn sampled(guard: Guard, opened: &Opened, by: &str) -> Enforced {
    if opened.has_proc {
        return holds(guard, by);
    }
    lacks(
        guard,
        "rlimit (each process)",
        "let the container mount /proc: run it without masked paths, or Garret outside of it",
    )
}

/// Fails if a required guard does not hold.
pub(super) fn check(enforced: &[Enforced], required: &[Guard]) -> Result<(), Error> {
    let missing = enforced
        .iter()
        .find(|one| !one.is_enforced && required.contains(&one.guard));
    missing.map_or(Ok(()), |one| Err(unsupported(one)))
}

fn unsupported(missing: &Enforced) -> Error {
    let guard = missing.guard.as_str();
    let message = format!(
        "this machine cannot enforce `{guard}`, which is required: {}",
        missing.by
    );
    let remedy = missing
        .remedy
        .clone()
        .unwrap_or_else(|| "use a machine that can enforce it".to_owned());
    Error::new(ErrorKind::Unsupported, message).hint(format!("{remedy}; or remove `{guard}` from `require`"))
}

/// Returns the error for a sandbox that could not be made at all.
pub(super) fn not_opened(failure: &Failure) -> Error {
    let reason = reason(failure.errno);
    let message = format!(
        "this machine cannot make the sandbox `namespace`: {} failed: {reason}",
        failure.step
    );
    Error::new(ErrorKind::Unsupported, message).hint(remedy(failure))
}

fn reason(errno: i32) -> String {
    if errno == 0 {
        return "the supervisor ended".to_owned();
    }
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// Returns the remedy for the step that failed.
pub(super) fn remedy(failure: &Failure) -> &'static str {
    match failure.step.as_str() {
        "making namespaces" => {
            "let this user make user namespaces (sysctl `user.max_user_namespaces`, `kernel.unprivileged_userns_clone=1`, \
             `kernel.apparmor_restrict_unprivileged_userns=0`), or start the container with a seccomp profile that allows them"
        }
        "mapping the owner of the files" => {
            "the file system does not show files under another owner (idmapped mounts need Linux 5.12 and ext4, xfs, btrfs or tmpfs): \
             run Garret as the owner of the directory, or give the directory to the user of the commands"
        }
        "mapping the user of the commands" => "allow Garret to write the user maps of its own namespaces",
        "starting" => "check that the supervisor program runs on this machine",
        _ => "start the container with the right to mount in its own user namespace, or run Garret outside of it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_required_and_missing_is_named_with_its_remedy() {
        let missing = lacks(Guard::Memory, "rlimit (each process)", GROUP_REMEDY);
        assert!(check(std::slice::from_ref(&missing), &Guard::DEFAULT).is_ok());
        let error = check(&[missing], &[Guard::Memory]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("`memory`"));
        assert!(error.hint_text().contains("control group"));
    }

    #[test]
    fn a_sandbox_that_cannot_be_made_says_what_failed_and_what_helps() {
        let error = not_opened(&Failure {
            step: "making namespaces".to_owned(),
            errno: libc::EPERM,
        });
        assert!(
            error
                .message()
                .ends_with("making namespaces failed: operation not permitted")
        );
        assert!(error.hint_text().contains("user namespaces"));
    }
}
