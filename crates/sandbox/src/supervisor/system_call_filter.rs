//! The filter of system calls: it refuses calls that a build, a test or a server has no use for.
//!
//! It lists the refused calls, not the allowed ones: a command may be any program, and a call that is refused without
//! need looks like a defect of that program. The namespaces are the boundary; the filter takes away parts of the kernel
//! in which holes were found.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

type SeccompRules = BTreeMap<i64, Vec<SeccompRule>>;

/// The calls that are refused with any arguments.
const REFUSED: [i64; 51] = [
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
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_vhangup,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_mbind,
    libc::SYS_get_mempolicy,
    libc::SYS_set_mempolicy,
    libc::SYS_set_mempolicy_home_node,
];

/// The calls that fail as if the kernel did not have them, so that programs use an older call instead.
const UNKNOWN: [i64; 12] = [
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    STATMOUNT,
    LISTMOUNT,
    LSM_GET_SELF_ATTR,
    LSM_SET_SELF_ATTR,
    LSM_LIST_MODULES,
    OPEN_TREE_ATTR,
    FILE_GETATTR,
    FILE_SETATTR,
];

// The `libc` crate does not have these yet. From 424 on, a call has the same number on every processor.
const STATMOUNT: i64 = 457;
const LISTMOUNT: i64 = 458;
const LSM_GET_SELF_ATTR: i64 = 459;
const LSM_SET_SELF_ATTR: i64 = 460;
const LSM_LIST_MODULES: i64 = 461;
const OPEN_TREE_ATTR: i64 = 467;
const FILE_GETATTR: i64 = 468;
const FILE_SETATTR: i64 = 469;

/// The first number that was not reviewed; all numbers of Linux 6.18 are. A newer kernel may use it for any call, so
/// this number and all above fail as if the kernel did not have them. On x86-64 that also covers the second set of
/// numbers, which no rule matches.
const FIRST_UNREVIEWED: u32 = FILE_SETATTR as u32 + 1;

/// The families of sockets that are allowed; of netlink, only the protocol that reports interfaces.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The execution domains that are allowed: Linux, a 32-bit machine by name, both with the version number of Linux 2.6,
/// and the query of the current one.
const PERSONALITIES: [i32; 5] = [0, LINUX_32, LINUX_2_6, LINUX_32 | LINUX_2_6, -1];
const LINUX_32: i32 = 0x8;
const LINUX_2_6: i32 = 0x2_0000;

const NEW_NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// The bits by which a program runs as its owner or its group, and not as the user that starts it.
const SET_ID_BITS: [i32; 2] = [libc::S_ISUID as i32, libc::S_ISGID as i32];

/// The flags of `open` that make a file, so that the call has a mode. `O_TMPFILE` includes `O_DIRECTORY`, which is removed here.
const MAKING_FLAGS: [i32; 2] = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];

// Not in the `libc` crate for every processor yet.
const FCHMODAT2: i64 = 452;

/// The number of instructions at the beginning of a filter, which refuse every other architecture.
const AFTER_ARCHITECTURE: usize = 3;

const LOAD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_SET: u16 = 0x45;
const RETURN: u16 = 0x06;
const NUMBER_OFFSET: u32 = 0;
const ALLOW: u32 = 0x7fff_0000;
const REFUSE: u32 = 0x0005_0000;
const REFUSE_AS_UNKNOWN: u32 = REFUSE | libc::ENOSYS as u32;
const REFUSE_TO_ALLOCATE: u32 = REFUSE | libc::EOPNOTSUPP as u32;
/// The older ways to allocate space without a write: `FS_IOC_RESVSP`, `FS_IOC_RESVSP64` and `FS_IOC_ZERO_RANGE`.
const ALLOCATING_REQUESTS: [u32; 3] = [0x4030_5828, 0x4030_582a, 0x4030_5839];
/// Skips the call, and lets it succeed.
const IGNORE: u32 = REFUSE;

/// Whether commands may set the set-user-id and set-group-id bits of files.
///
/// They have no effect in the sandbox, and no change takes them up. But a file that a command writes in a mount is at
/// once a file of the machine, and belongs to the user of Garret: with such a bit, it would be a program by which every
/// other user of the machine acts as him.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SetIdBits {
    /// They may be set.
    Allowed,
    /// A call that would set one is refused.
    Refused,
}

/// The translated filter. All rules are in one filter: the kernel translates each filter and tries it on every number,
/// for each command anew. Only the rules on set-id bits are in another.
#[derive(Debug)]
pub(super) struct SystemCallFilter {
    first: BpfProgram,
    /// Refuses to set set-id bits.
    last: Option<BpfProgram>,
}

impl SystemCallFilter {
    /// Translates the rules for this processor.
    pub(super) fn new(set_id: SetIdBits) -> Result<Self, seccompiler::BackendError> {
        let mut rules = refused_rules();
        let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
        let refusal = SeccompAction::Errno(libc::EPERM as u32);
        let ahead = std::iter::once(make_instruction(LOAD, (0, 0), NUMBER_OFFSET))
            .chain(ignore_core_limits())
            .chain(refuse_allocation())
            .chain(judge_by_number(&number_ranges(&rules), 0))
            .collect::<Vec<_>>();
        // Calls that are refused with any arguments are judged by the search by number; only the others remain as
        // rules.
        rules.retain(|_, rules| !rules.is_empty());
        let mut program: BpfProgram =
            SeccompFilter::new(rules, SeccompAction::Allow, refusal, architecture)?.try_into()?;
        program.splice(AFTER_ARCHITECTURE..AFTER_ARCHITECTURE, ahead);
        let last = match set_id {
            SetIdBits::Allowed => None,
            SetIdBits::Refused => {
                let refusal = SeccompAction::Errno(libc::EPERM as u32);
                Some(SeccompFilter::new(set_id_rules(), SeccompAction::Allow, refusal, architecture)?.try_into()?)
            }
        };
        Ok(Self { first: program, last })
    }

    /// Installs the filter for good, on this process and all that it starts.
    pub(super) fn install(&self) -> Result<(), seccompiler::Error> {
        seccompiler::apply_filter(&self.first)
    }

    /// Installs the rest of the filter, which refuses a call that is needed until the program is executed.
    pub(super) fn install_last(&self) -> Result<(), seccompiler::Error> {
        self.last
            .as_ref()
            .map_or(Ok(()), |last| seccompiler::apply_filter(last))
    }
}

/// A range of numbers that get the same verdict with any arguments.
#[derive(Debug, Clone, Copy)]
struct NumberRange {
    from: u32,
    /// The first number after the range; `None` if the range has no end.
    to: Option<u32>,
    verdict: u32,
}

/// Returns the verdict on a reviewed number, unless it depends on the arguments.
fn verdict_on(number: u32, rules: &SeccompRules) -> Option<u32> {
    let number = i64::from(number);
    if UNKNOWN.contains(&number) {
        return Some(REFUSE_AS_UNKNOWN);
    }
    match rules.get(&number) {
        None => Some(ALLOW),
        Some(rules) if rules.is_empty() => Some(REFUSE | libc::EPERM as u32),
        Some(_) => None,
    }
}

/// Returns the ranges of all numbers except those that are judged by their arguments, in order.
fn number_ranges(rules: &SeccompRules) -> Vec<NumberRange> {
    let mut spans: Vec<NumberRange> = Vec::new();
    for number in 0..FIRST_UNREVIEWED {
        let Some(verdict) = verdict_on(number, rules) else {
            continue;
        };
        let (from, to) = (number, Some(number + 1));
        match spans.last_mut() {
            Some(last) if last.to == Some(from) && last.verdict == verdict => last.to = to,
            _ => spans.push(NumberRange { from, to, verdict }),
        }
    }
    spans.push(NumberRange {
        from: FIRST_UNREVIEWED,
        to: None,
        verdict: REFUSE_AS_UNKNOWN,
    });
    spans
}

/// Makes a binary search for the range of a number that returns its verdict; a number in no range continues `after`
/// instructions behind it.
fn judge_by_number(spans: &[NumberRange], after: usize) -> Vec<sock_filter> {
    // The kernel tries a filter on every number when it is installed. A comparison with every rule in turn took longer
    // than all other steps of making a command ready.
    if let [span] = spans {
        let mut steps = judge_range(*span);
        steps.push(make_instruction(JUMP, (0, 0), after as u32));
        return steps;
    }
    let (low, high) = spans.split_at(spans.len() / 2);
    let lower = judge_by_number(low, after);
    let upper = judge_by_number(high, after + lower.len());
    let ways = [
        make_instruction(JUMP_IF_AT_LEAST, (1, 0), high[0].from),
        make_instruction(JUMP, (0, 0), upper.len() as u32),
    ];
    ways.into_iter().chain(upper).chain(lower).collect()
}

fn judge_range(span: NumberRange) -> Vec<sock_filter> {
    let give = make_instruction(RETURN, (0, 0), span.verdict);
    match span.to {
        Some(to) => vec![
            make_instruction(JUMP_IF_AT_LEAST, (0, 2), span.from),
            make_instruction(JUMP_IF_AT_LEAST, (1, 0), to),
            give,
        ],
        None => vec![make_instruction(JUMP_IF_AT_LEAST, (0, 1), span.from), give],
    }
}

/// Makes one instruction of a filter; `jt` and `jf` are the jumps if its condition holds and if it does not.
const fn make_instruction(code: u16, (jt, jf): (u8, u8), k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Makes the instructions that skip every call which sets the limit of the size of a core; the number is loaded before.
/// The limit must stay at [`NO_CORE`](super::confine): with a lower one, a crash starts the program that the host has
/// for cores. Programs that lower it, such as `gpg`, want to leave no core, and give up if the call fails.
fn ignore_core_limits() -> [sock_filter; 14] {
    [
        make_instruction(JUMP_IF_EQUAL, (0, 4), libc::SYS_setrlimit as u32),
        make_instruction(LOAD, (0, 0), argument_offset(0)),
        make_instruction(JUMP_IF_EQUAL, (0, 1), libc::RLIMIT_CORE),
        make_instruction(RETURN, (0, 0), IGNORE),
        make_instruction(LOAD, (0, 0), NUMBER_OFFSET),
        // A call that also asks for the old limit cannot be answered by a filter: a rule refuses it.
        make_instruction(JUMP_IF_EQUAL, (0, 8), libc::SYS_prlimit64 as u32),
        make_instruction(LOAD, (0, 0), argument_offset(1)),
        make_instruction(JUMP_IF_EQUAL, (0, 5), libc::RLIMIT_CORE),
        make_instruction(LOAD, (0, 0), argument_offset(3)),
        make_instruction(JUMP_IF_EQUAL, (0, 3), 0),
        make_instruction(LOAD, (0, 0), argument_offset(3) + 4),
        make_instruction(JUMP_IF_EQUAL, (0, 1), 0),
        make_instruction(RETURN, (0, 0), IGNORE),
        make_instruction(LOAD, (0, 0), NUMBER_OFFSET),
    ]
}

/// Makes the instructions that refuse to allocate space without a write, with the error of a file system that lacks this;
/// the number is loaded before. No counter of a process sees such space, and no walk sees a deleted file. On this error,
/// the C library writes instead. Freeing space is allowed.
fn refuse_allocation() -> [sock_filter; 5] {
    [
        make_instruction(JUMP_IF_EQUAL, (0, 4), libc::SYS_fallocate as u32),
        make_instruction(LOAD, (0, 0), argument_offset(1)),
        make_instruction(JUMP_IF_SET, (1, 0), libc::FALLOC_FL_PUNCH_HOLE as u32),
        make_instruction(RETURN, (0, 0), REFUSE_TO_ALLOCATE),
        make_instruction(LOAD, (0, 0), NUMBER_OFFSET),
    ]
}

/// Returns the offset of the lower half of an argument, for a filter on a little-endian processor.
const fn argument_offset(argument: u32) -> u32 {
    16 + 8 * argument
}

fn refused_rules() -> SeccompRules {
    let mut rules: SeccompRules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    rules.extend(refused_on_this_processor());
    rules.insert(
        libc::SYS_clone,
        NEW_NAMESPACES.map(|flag| make_rule([is_masked(0, flag, flag)])).into(),
    );
    rules.insert(libc::SYS_socket, socket_rules());
    // Only the Unix family has pairs of sockets that are of use.
    rules.insert(libc::SYS_socketpair, vec![make_rule([is_not(0, libc::AF_UNIX)])]);
    // The other execution domains switch off protections, such as the randomization of addresses.
    rules.insert(
        libc::SYS_personality,
        vec![make_rule(PERSONALITIES.map(|allowed| is_not(0, allowed)))],
    );
    // The limit of the size of a core cannot be set; `ignore_core_limits` says why.
    let is_set = make_condition(2, Length::Qword, Is::Ne, 0);
    rules.insert(
        libc::SYS_prlimit64,
        vec![make_rule([is_equal(1, libc::RLIMIT_CORE as i32), is_set])],
    );
    // Nobody may type on another process's terminal, or allocate space without a write.
    let requests = [libc::TIOCSTI as u32, libc::TIOCLINUX as u32].into_iter();
    rules.insert(
        libc::SYS_ioctl,
        requests
            .chain(ALLOCATING_REQUESTS)
            .map(|request| make_rule([is_equal(1, request as i32)]))
            .collect(),
    );
    rules.insert(libc::SYS_mknodat, device_rules(2));
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_mknod, device_rules(1));
    rules
}

/// Refuses to make a file with a set-id bit, and to set one.
fn set_id_rules() -> SeccompRules {
    let setting = |mode| SET_ID_BITS.map(|bit| make_rule([is_masked(mode, bit, bit)])).to_vec();
    let opening = |flags, mode| {
        let with_flag =
            |flag| SET_ID_BITS.map(|bit| make_rule([is_masked(flags, flag, flag), is_masked(mode, bit, bit)]));
        MAKING_FLAGS.map(with_flag).concat()
    };
    SeccompRules::from([
        // Its mode lies in memory, which a filter cannot read. Programs use `openat` instead.
        (libc::SYS_openat2, Vec::new()),
        (libc::SYS_fchmod, setting(1)),
        (libc::SYS_fchmodat, setting(2)),
        (FCHMODAT2, setting(2)),
        (libc::SYS_mknodat, setting(2)),
        (libc::SYS_openat, opening(2, 3)),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, setting(1)),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, setting(1)),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, setting(1)),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, opening(1, 2)),
    ])
}

#[cfg(target_arch = "x86_64")]
fn refused_on_this_processor() -> Vec<(i64, Vec<SeccompRule>)> {
    [
        libc::SYS_iopl,
        libc::SYS_ioperm,
        libc::SYS_uselib,
        libc::SYS_sysfs,
        libc::SYS_ustat,
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

/// Makes a rule that refuses a call whose arguments meet all of these conditions.
fn make_rule<const COUNT: usize>(conditions: [SeccompCondition; COUNT]) -> SeccompRule {
    SeccompRule::new(conditions.into()).expect("no rule is without conditions")
}

fn make_condition(argument: u8, length: Length, is: Is, value: i32) -> SeccompCondition {
    SeccompCondition::new(argument, length, is, u64::from(value as u32)).expect("a call has six arguments")
}

fn is_equal(argument: u8, value: i32) -> SeccompCondition {
    make_condition(argument, Length::Dword, Is::Eq, value)
}

fn is_not(argument: u8, value: i32) -> SeccompCondition {
    make_condition(argument, Length::Dword, Is::Ne, value)
}

fn is_masked(argument: u8, mask: i32, value: i32) -> SeccompCondition {
    make_condition(argument, Length::Dword, Is::MaskedEq(u64::from(mask as u32)), value)
}

/// Refuses raw sockets and all but a few families.
fn socket_rules() -> Vec<SeccompRule> {
    vec![
        // Other families reach parts of the kernel without namespaces, and raw sockets see packets of other processes.
        make_rule(FAMILIES.map(|allowed| is_not(0, allowed))),
        make_rule([is_not(0, libc::AF_NETLINK), is_masked(1, 0xf, libc::SOCK_RAW)]),
        make_rule([is_masked(1, 0xf, 10)]),
        make_rule([is_equal(0, libc::AF_NETLINK), is_not(2, libc::NETLINK_ROUTE)]),
    ]
}

/// Refuses to make device files.
fn device_rules(argument: u8) -> Vec<SeccompRule> {
    // A character device of number 0 is a whiteout: in a layer, it means that an entry was deleted.
    [libc::S_IFCHR, libc::S_IFBLK]
        .map(|kind| make_rule([is_masked(argument, libc::S_IFMT as i32, kind as i32)]))
        .into()
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
                JUMP_IF_SET => jump(held & k != 0),
                0x54 => held &= k,
                RETURN => return (k, steps),
                other => panic!("a step of code {other:#x}"),
            }
        }
    }

    /// The numbers are written out: a call that is taken out of the table is not refused by a kernel that has it.
    #[test]
    fn calls_that_nobody_needs_look_as_if_the_kernel_did_not_have_them() {
        let filter = SystemCallFilter::new(SetIdBits::Allowed).unwrap().first;
        let architecture = filter[1].k;
        // `clone3` and the three of `io_uring`, `statmount` and `listmount`, the three of `lsm_*`, `open_tree_attr`,
        // `file_getattr`, `file_setattr`, and the first that nobody has reviewed.
        let numbers = [
            425, 426, 427, 435, 457, 458, 459, 460, 461, 467, 468, 469, 470, 471, 499,
        ];
        for number in numbers {
            let judged = tried(&filter, architecture, number).0;
            assert_eq!(judged, 0x0005_0000 | libc::ENOSYS as u32, "{number}");
        }
        // Calls between them that are of use: `mseal`, `setxattrat`, `removexattrat`.
        for number in [462, 463, 466] {
            assert_eq!(tried(&filter, architecture, number).0, ALLOW, "{number}");
        }
    }

    #[test]
    fn every_number_is_judged_by_its_rules_and_most_in_a_few_steps() {
        let rules = refused_rules();
        let quick = SystemCallFilter::new(SetIdBits::Allowed).unwrap().first;
        let architecture = quick[1].k;
        assert_eq!((quick[0].code, quick[0].k, quick[2].code), (LOAD, 4, RETURN));
        let mut all_steps = 0;
        for number in 0..500 {
            let (judged, steps) = tried(&quick, architecture, number);
            let expected = match rules.get(&i64::from(number)) {
                _ if i64::from(number) == libc::SYS_fallocate => Some(REFUSE_TO_ALLOCATE),
                _ if number >= FIRST_UNREVIEWED || UNKNOWN.contains(&i64::from(number)) => Some(REFUSE_AS_UNKNOWN),
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
        // On x86-64 every call has a second number from 0x4000_0000 on.
        for number in [FIRST_UNREVIEWED, 0x4000_0000, 0x4000_0000 + 165, u32::MAX] {
            assert_eq!(tried(&quick, architecture, number).0, REFUSE_AS_UNKNOWN);
        }
        assert_ne!(tried(&quick, architecture ^ 1, 0).0, ALLOW, "another architecture");
    }

    #[test]
    fn no_way_to_set_a_set_id_bit_is_open_where_they_are_refused() {
        use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, chmod, fchmod, open, openat2};
        use rustix::io::Errno;
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let outcomes = std::thread::scope(|scope| {
            let tried = scope.spawn(|| {
                let filter = SystemCallFilter::new(SetIdBits::Refused).unwrap();
                filter.install().unwrap();
                filter.install_last().unwrap();
                let make = |name: &str, flags, mode| open(path(name), flags, Mode::from_raw_mode(mode));
                let plain = make("plain", OFlags::CREATE | OFlags::RDWR, 0o755).unwrap();
                let mut outcomes = Vec::new();
                for bits in [0o4755, 0o2755, 0o6755] {
                    let mode = Mode::from_raw_mode(bits);
                    outcomes.extend([
                        make("new", OFlags::CREATE | OFlags::RDWR, bits).map(drop),
                        make(".", OFlags::TMPFILE | OFlags::RDWR, bits).map(drop),
                        fchmod(&plain, mode),
                        chmod(path("plain"), mode),
                        openat2(CWD, path("new"), OFlags::CREATE, mode, ResolveFlags::empty()).map(drop),
                    ]);
                }
                fchmod(&plain, Mode::from_raw_mode(0o1700)).unwrap();
                // Without a flag that makes a file, the mode means nothing, and may be anything.
                make("plain", OFlags::RDONLY, 0o4755).unwrap();
                outcomes
            });
            tried.join().unwrap()
        });
        assert!(outcomes.iter().all(|one| *one == Err(Errno::PERM)), "{outcomes:?}");
    }

    #[test]
    fn space_is_freed_without_a_write_and_not_allocated() {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let tried = std::thread::spawn(move || {
            SystemCallFilter::new(SetIdBits::Allowed).unwrap().install().unwrap();
            let allocate = |flags| fallocate(&file, flags, 0, 4096);
            let outcomes = [
                allocate(FallocateFlags::empty()),
                allocate(FallocateFlags::KEEP_SIZE),
                allocate(FallocateFlags::ZERO_RANGE),
            ];
            let freed = allocate(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE);
            (outcomes, freed)
        });
        let (outcomes, freed) = tried.join().unwrap();
        assert_eq!((outcomes, freed), ([Err(Errno::OPNOTSUPP); 3], Ok(())));
    }

    #[test]
    fn the_limit_of_a_core_stays_and_other_limits_can_be_set() {
        use rustix::process::{Resource, Rlimit, getrlimit, prlimit, setrlimit};
        // A filter holds for one thread; the limits are those of the whole process.
        let tried = std::thread::spawn(|| {
            let (core, files) = (getrlimit(Resource::Core), getrlimit(Resource::Nofile));
            SystemCallFilter::new(SetIdBits::Allowed).unwrap().install().unwrap();
            let other = Rlimit {
                current: core.current.map_or(Some(0), |size| size.checked_add(1)),
                ..core
            };
            let set = setrlimit(Resource::Core, other);
            let set_and_asked = prlimit(None, Resource::Core, other).map(drop);
            let is_same = getrlimit(Resource::Core) == core;
            (set, set_and_asked, is_same, setrlimit(Resource::Nofile, files))
        });
        let expected = (Ok(()), Err(rustix::io::Errno::PERM), true, Ok(()));
        assert_eq!(tried.join().unwrap(), expected);
    }
}
