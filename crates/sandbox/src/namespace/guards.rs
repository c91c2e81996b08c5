//! The guards that a sandbox enforces and their means, and the errors for those that it cannot.

#![cfg(target_os = "linux")]

use garret_core::{Error, ErrorKind, Guard, GuardStatus, Network};

use super::machine::exchanged_source_error;
use super::plan::{HierarchyCounter, SandboxPlan};
use crate::supervisor::protocol::{OpenedReport, PauseMethod, SHOWING, StepFailure};

/// Returns for each guard whether the sandbox enforces it, and by which means.
pub(super) fn enforced_guards(plan: &SandboxPlan, opened: &OpenedReport) -> Vec<GuardStatus> {
    Guard::ALL.map(|guard| enforced_guard(guard, plan, opened)).into()
}

fn enforced_guard(guard: Guard, plan: &SandboxPlan, opened: &OpenedReport) -> GuardStatus {
    match guard {
        Guard::Files => guard_that_holds(guard, files_means(plan, opened)),
        Guard::Processes => guard_that_holds(guard, processes_means(opened)),
        Guard::Network => network_guard(plan),
        Guard::SystemCalls => guard_that_holds(guard, "seccomp filter"),
        Guard::Layers => layers_guard(opened),
        Guard::Memory => memory_guard(plan, opened),
        Guard::ProcessCount => process_count(plan, opened),
        Guard::CpuTime => cpu_time(plan, opened),
        Guard::Written => sampled_guard(
            guard,
            opened,
            "all processes together are checked every 50 ms; the size of /tmp is limited",
        ),
    }
}

fn guard_that_holds(guard: Guard, by: impl Into<String>) -> GuardStatus {
    GuardStatus {
        guard,
        is_enforced: true,
        by: by.into(),
        remedy: None,
    }
}

fn guard_that_lacks(guard: Guard, by: impl Into<String>, remedy: &str) -> GuardStatus {
    GuardStatus {
        guard,
        is_enforced: false,
        by: by.into(),
        remedy: Some(remedy.to_owned()),
    }
}

fn files_means(plan: &SandboxPlan, opened: &OpenedReport) -> String {
    let landlock = if plan.has_landlock { " and Landlock" } else { "" };
    let proc = if opened.has_proc {
        ""
    } else {
        "; no /proc: this machine does not let one be mounted"
    };
    format!("mount namespace{landlock}{proc}")
}

fn processes_means(opened: &OpenedReport) -> String {
    let pausing = match opened.pausing {
        PauseMethod::FreezerTwo => "paused by the freezer of cgroup v2",
        PauseMethod::FreezerOne => "paused by the freezer of cgroup v1",
        PauseMethod::Trace => "paused by ptrace",
        PauseMethod::Nothing => {
            "background processes are ended instead of paused: there is neither a cgroup freezer nor /proc"
        }
    };
    format!("user and pid namespaces; {pausing}")
}

fn network_guard(plan: &SandboxPlan) -> GuardStatus {
    match plan.network {
        Network::None => guard_that_holds(Guard::Network, "network namespace"),
        Network::Named => guard_that_holds(Guard::Network, "network namespace; a proxy allows hosts by name"),
        Network::Full => guard_that_lacks(
            Guard::Network,
            "the configuration allows it".to_owned(),
            "set `network` to `none`, or to the hosts that commands need",
        ),
    }
}

fn layers_guard(opened: &OpenedReport) -> GuardStatus {
    match &opened.overlay_failure {
        None => guard_that_holds(Guard::Layers, "overlayfs"),
        Some(reason) => guard_that_lacks(
            Guard::Layers,
            format!("a copy of the workspace for each command: {reason}"),
            "use a kernel of 5.11 or newer, and keep the scratch directory on ext4, xfs, btrfs or tmpfs",
        ),
    }
}

const GROUP_REMEDY: &str =
    "run Garret as root, or in a systemd unit with `Delegate=yes`, so that it may write a control group";

/// Returns the version of the control group that limits a resource, if one does.
fn group_by(plan: &SandboxPlan, opened: &OpenedReport, resource: HierarchyCounter) -> Option<&'static str> {
    let group = plan.group.as_ref().filter(|_| opened.has_groups)?;
    let mut limiting = group
        .parents
        .iter()
        .filter(|parent| parent.counts.counts_resource(resource));
    limiting.next().map(|parent| match parent.counts {
        HierarchyCounter::All => "cgroup v2",
        _ => "cgroup v1",
    })
}

fn memory_guard(plan: &SandboxPlan, opened: &OpenedReport) -> GuardStatus {
    match group_by(plan, opened, HierarchyCounter::Memory) {
        Some(by) => guard_that_holds(Guard::Memory, by),
        None => guard_that_lacks(
            Guard::Memory,
            "rlimit (each process); all processes together are checked every 50 ms",
            GROUP_REMEDY,
        ),
    }
}

fn process_count(plan: &SandboxPlan, opened: &OpenedReport) -> GuardStatus {
    match group_by(plan, opened, HierarchyCounter::Processes) {
        Some(by) => guard_that_holds(Guard::ProcessCount, format!("{by} and rlimit")),
        None => guard_that_holds(Guard::ProcessCount, "rlimit (of the user inside)"),
    }
}

fn cpu_time(plan: &SandboxPlan, opened: &OpenedReport) -> GuardStatus {
    match group_by(plan, opened, HierarchyCounter::Time) {
        Some(by) => guard_that_holds(
            Guard::CpuTime,
            format!("{by}, checked every 50 ms, and rlimit (each process)"),
        ),
        None => sampled_guard(
            Guard::CpuTime,
            opened,
            "rlimit (each process); all processes together are checked every 50 ms",
        ),
    }
}

fn sampled_guard(guard: Guard, opened: &OpenedReport, by: &str) -> GuardStatus {
    if opened.has_proc {
        return guard_that_holds(guard, by);
    }
    guard_that_lacks(
        guard,
        "rlimit (each process)",
        "let the container mount /proc: run it without masked paths, or Garret outside of it",
    )
}

/// Fails if a required guard does not hold.
pub(super) fn check_required(enforced: &[GuardStatus], required: &[Guard]) -> Result<(), Error> {
    let missing = enforced
        .iter()
        .find(|one| !one.is_enforced && required.contains(&one.guard));
    missing.map_or(Ok(()), |one| Err(unsupported_guard_error(one)))
}

fn unsupported_guard_error(missing: &GuardStatus) -> Error {
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
pub(super) fn not_opened_error(failure: &StepFailure) -> Error {
    if let (Some(target), libc::ELOOP | libc::ENOENT | libc::ENOTDIR) =
        (failure.step.strip_prefix(SHOWING), failure.errno)
    {
        return exchanged_source_error(target);
    }
    let reason = match failure.errno {
        0 => "the supervisor ended".to_owned(),
        _ => failure.reason(),
    };
    let message = format!(
        "this machine cannot make the sandbox `namespace`: {} failed: {reason}",
        failure.step
    );
    Error::new(ErrorKind::Unsupported, message).hint(remedy_for_step(failure))
}

/// Returns the remedy for the step that failed.
pub(super) fn remedy_for_step(failure: &StepFailure) -> &'static str {
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
        let missing = guard_that_lacks(Guard::Memory, "rlimit (each process)", GROUP_REMEDY);
        assert!(check_required(std::slice::from_ref(&missing), &Guard::DEFAULT).is_ok());
        let error = check_required(&[missing], &[Guard::Memory]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("`memory`"));
        assert!(error.hint_text().contains("control group"));
    }

    #[test]
    fn a_sandbox_that_cannot_be_made_says_what_failed_and_what_helps() {
        let error = not_opened_error(&StepFailure {
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
