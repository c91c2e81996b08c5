//! The filter of system calls: what a build, a test or a server has no use for is refused.
//!
//! It is a list of what is refused, not of what is allowed: a command may be any program, and a call that is refused without need looks
//! like a defect of that program. The namespaces are the boundary; this takes away the parts of the kernel where holes in it were found.

#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that are refused whatever their arguments.
const REFUSED: [i64; 43] = [
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_vm_writev,
    libc::SYS_vhangup,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_move_pages,
];

/// Calls that look as if the kernel did not have them, so that programs take the older way.
const UNKNOWN: [i64; 4] = [
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Families of sockets that are not refused; of netlink only what tells of interfaces.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

const NEW_NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// A filter begins with three steps that refuse every other architecture.
const AFTER_ARCHITECTURE: usize = 3;

const LOAD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
const NUMBER_OFFSET: u32 = 0;
/// Where the second set of numbers of x86-64 begins; no number of the first is as high.
const FIRST_OF_OTHERS: u32 = 0x4000_0000;
const ALLOW: u32 = 0x7fff_0000;
const REFUSE: u32 = 0x0005_0000;
const REFUSE_AS_UNKNOWN: u32 = REFUSE | libc::ENOSYS as u32;

/// The filter, ready to be installed. It is one: the kernel translates each and tries it on every number, for each command anew.
#[derive(Debug)]
pub(super) struct Filter(BpfProgram);

impl Filter {
    /// Translates it for this processor.
    pub(super) fn new() -> Result<Self, seccompiler::BackendError> {
        let rules = refused()?;
        let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
        let refusal = SeccompAction::Errno(libc::EPERM as u32);
        let ahead = std::iter::once(step(LOAD, (0, 0), NUMBER_OFFSET))
            .chain(quick_gaps(&rules))
            .chain(unknown())
            .collect::<Vec<_>>();
        let mut program: BpfProgram =
            SeccompFilter::new(rules, SeccompAction::Allow, refusal, architecture)?.try_into()?;
        program.splice(AFTER_ARCHITECTURE..AFTER_ARCHITECTURE, ahead);
        Ok(Self(program))
    }

    /// Installs it on this process for good, and on all that it starts.
    pub(super) fn install(&self) -> Result<(), seccompiler::Error> {
        seccompiler::apply_filter(&self.0)
    }
}

/// Refuses what the kernel is not to seem to have. On x86-64 every call has a second number in another set, which no rule sees.
fn unknown() -> impl Iterator<Item = sock_filter> {
    let others = cfg!(target_arch = "x86_64").then_some(step(JUMP_IF_AT_LEAST, (0, 1), FIRST_OF_OTHERS));
    let one_by_one = UNKNOWN.iter().map(|number| step(JUMP_IF_EQUAL, (0, 1), *number as u32));
    let refuse = || step(RETURN, (0, 0), REFUSE_AS_UNKNOWN);
    others
        .into_iter()
        .chain(one_by_one)
        .flat_map(move |is_one| [is_one, refuse()])
}

/// Lets calls between those that are judged through at once. The kernel tries a filter on every number when it is installed, and each trial
/// would compare with every rule: that took longer than all the rest of making a command ready.
fn quick_gaps(rules: &Rules) -> Vec<sock_filter> {
    let judged = rules
        .keys()
        .chain(&UNKNOWN)
        .filter_map(|number| u32::try_from(*number).ok());
    let judged = judged.chain([FIRST_OF_OTHERS]).collect::<BTreeSet<_>>();
    let mut from = 0;
    let mut gaps = Vec::new();
    for number in judged {
        gaps.extend((from < number).then_some((from, number)));
        from = number + 1;
    }
    halved(&gaps, 0)
}

/// Looks for the gap that a number is in, by halves; who is in none goes on after all of it and `after` steps more.
fn halved(gaps: &[(u32, u32)], after: usize) -> Vec<sock_filter> {
    if let [gap] = gaps {
        let mut steps = Vec::from(allow_between(*gap));
        steps.push(step(JUMP, (0, 0), after as u32));
        return steps;
    }
    let (low, high) = gaps.split_at(gaps.len() / 2);
    let lower = halved(low, after);
    let upper = halved(high, after + lower.len());
    let ways = [
        step(JUMP_IF_AT_LEAST, (1, 0), high[0].0),
        step(JUMP, (0, 0), upper.len() as u32),
    ];
    ways.into_iter().chain(upper).chain(lower).collect()
}

fn allow_between((from, to): (u32, u32)) -> [sock_filter; 3] {
    [
        step(JUMP_IF_AT_LEAST, (0, 2), from),
        step(JUMP_IF_AT_LEAST, (1, 0), to),
        step(RETURN, (0, 0), ALLOW),
    ]
}

/// One step of a filter: where to go on if it is so, and if not.
const fn step(code: u16, (jt, jf): (u8, u8), k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

fn refused() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    rules.extend(refused_on_this_processor());
    rules.insert(libc::SYS_clone, new_namespaces()?);
    rules.insert(libc::SYS_socket, sockets()?);
    rules.insert(libc::SYS_ioctl, terminals()?);
    rules.insert(libc::SYS_mknodat, devices(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_mknod, devices(1)?);
    Ok(rules)
}

#[cfg(target_arch = "x86_64")]
fn refused_on_this_processor() -> Vec<(i64, Vec<SeccompRule>)> {
    [
        libc::SYS_iopl,
        libc::SYS_ioperm,
        libc::SYS_uselib,
        libc::SYS_lookup_dcookie,
        libc::SYS__sysctl,
    ]
    .map(|call| (call, Vec::new()))
    .into()
}

#[cfg(not(target_arch = "x86_64"))]
fn refused_on_this_processor() -> Vec<(i64, Vec<SeccompRule>)> {
    Vec::new()
}

fn when(argument: u8, is: Is, value: i32) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, Length::Dword, is, u64::from(value as u32))
}

fn has(argument: u8, mask: i32, value: i32) -> Result<SeccompCondition, seccompiler::BackendError> {
    when(argument, Is::MaskedEq(u64::from(mask as u32)), value)
}

fn new_namespaces() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    NEW_NAMESPACES
        .iter()
        .map(|flag| SeccompRule::new(vec![has(0, *flag, *flag)?]))
        .collect()
}

/// Other families reach parts of the kernel that hold no namespace, raw ones see what is not theirs.
fn sockets() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let other = FAMILIES
        .iter()
        .map(|family| when(0, Is::Ne, *family))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(vec![
        SeccompRule::new(other)?,
        SeccompRule::new(vec![when(0, Is::Ne, libc::AF_NETLINK)?, has(1, 0xf, libc::SOCK_RAW)?])?,
        SeccompRule::new(vec![has(1, 0xf, 10)?])?,
        SeccompRule::new(vec![
            when(0, Is::Eq, libc::AF_NETLINK)?,
            when(2, Is::Ne, libc::NETLINK_ROUTE)?,
        ])?,
    ])
}

/// Nobody types on another's terminal.
fn terminals() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    [libc::TIOCSTI, libc::TIOCLINUX]
        .iter()
        .map(|request| SeccompRule::new(vec![when(1, Is::Eq, *request as i32)?]))
        .collect()
}

/// A device of number 0 is how a layer says that something was deleted: nobody makes one by hand.
fn devices(argument: u8) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let format = libc::S_IFMT as i32;
    [libc::S_IFCHR, libc::S_IFBLK]
        .iter()
        .map(|kind| SeccompRule::new(vec![has(argument, format, *kind as i32)?]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_is_refused_twice() {
        let mut calls = REFUSED.to_vec();
        calls.extend(UNKNOWN);
        calls.sort_unstable();
        calls.dedup();
        assert_eq!(calls.len(), REFUSED.len() + UNKNOWN.len());
    }

    /// What a filter says to a call without arguments, as the kernel reads it; and in how many steps.
    fn tried(program: &[sock_filter], architecture: u32, number: u32) -> (u32, usize) {
        let (mut at, mut held, mut steps) = (0, 0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            steps += 1;
            at += 1;
            let mut jump = |holds: bool| at += usize::from(if holds { jt } else { jf });
            match code {
                LOAD => held = [number, architecture].get(k as usize / 4).copied().unwrap_or(0),
                JUMP => at += k as usize,
                JUMP_IF_EQUAL => jump(held == k),
                0x25 => jump(held > k),
                JUMP_IF_AT_LEAST => jump(held >= k),
                0x54 => held &= k,
                RETURN => return (k, steps),
                other => panic!("a step of code {other:#x}"),
            }
        }
    }

    #[test]
    fn every_number_is_judged_by_its_rules_and_most_in_a_few_steps() {
        let rules = refused().unwrap();
        let quick = Filter::new().unwrap().0;
        let architecture = quick[1].k;
        assert_eq!((quick[0].code, quick[0].k, quick[2].code), (LOAD, 4, RETURN));
        let mut all_steps = 0;
        for number in 0..500 {
            let (judged, steps) = tried(&quick, architecture, number);
            let expected = match rules.get(&i64::from(number)) {
                _ if UNKNOWN.contains(&i64::from(number)) => Some(REFUSE_AS_UNKNOWN),
                Some(rules) if rules.is_empty() => Some(REFUSE | libc::EPERM as u32),
                // One that a rule judges by its arguments may be either.
                Some(_) => None,
                None => Some(ALLOW),
            };
            assert!(
                expected.is_none_or(|expected| judged == expected),
                "{number}: {judged:#x}"
            );
            all_steps += steps;
        }
        assert!(all_steps < 500 * 24, "{all_steps}");
        #[cfg(target_arch = "x86_64")]
        for number in [FIRST_OF_OTHERS, FIRST_OF_OTHERS + 165, u32::MAX] {
            assert_eq!(tried(&quick, architecture, number).0, REFUSE_AS_UNKNOWN);
        }
        assert_ne!(tried(&quick, architecture ^ 1, 0).0, ALLOW, "another architecture");
    }
}
