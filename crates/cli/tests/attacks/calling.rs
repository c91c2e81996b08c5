//! Calling what the filter of system calls refuses.
//!
//! Each call has arguments with which the kernel would do it, or would answer with another error. It must get the very error of the filter,
//! so that an attack succeeds where a rule is missing, whatever else keeps the call from doing harm.

use crate::Attack;
use crate::scene::{Ran, Scene, none_succeeded, python, sum};

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// A system call that must be refused: its name, its number, and its arguments as Python has them.
type Refused = (&'static str, u32, &'static str);

/// The number of a call on this processor.
const fn number(x86_64: u32, aarch64: u32) -> u32 {
    match cfg!(target_arch = "aarch64") {
        true => aarch64,
        false => x86_64,
    }
}

const FOR_THE_PRIVILEGED: &[Refused] = &[
    ("mount", number(165, 40), "0, 0, 0, 0, 0"),
    ("pivot_root", number(155, 41), "0, 0"),
    ("setns", number(308, 268), "0, 0"),
    ("unshare", number(272, 97), "0"),
    ("bpf", number(321, 280), "0, 0, 0"),
    ("keyctl", number(250, 219), "0, -3, 1"),
    ("userfaultfd", number(323, 282), "1"),
    ("perf_event_open", number(298, 241), "0, 0, -1, -1, 0"),
    ("init_module", number(175, 105), "0, 0, 0"),
    ("kexec_load", number(246, 104), "0, 0, 0, 0"),
    ("reboot", number(169, 142), "0, 0, 0, 0"),
    ("swapon", number(167, 224), "0, 0"),
    ("open_by_handle_at", number(304, 265), "-100, 0, 0"),
    ("fanotify_init", number(300, 262), "0x200, 0"),
];

const ON_OTHER_PROCESSES: &[Refused] = &[
    ("kcmp", number(312, 272), "own, own, 0, 0, 1"),
    ("process_vm_readv", number(310, 270), "own, region, 1, region, 1, 0"),
    ("process_vm_writev", number(311, 271), "own, region, 1, region, 1, 0"),
    ("process_madvise", 440, "handle, region, 1, 20, 0"),
    ("pidfd_getfd", 438, "handle, 1, 0"),
];

const ON_NODES: &[Refused] = &[
    ("mbind", number(237, 235), "0, 0, 0, 0, 0, 0"),
    ("set_mempolicy", number(238, 237), "0, 0, 0"),
    ("get_mempolicy", number(239, 236), "0, 0, 0, 0, 0"),
    ("migrate_pages", number(256, 238), "own, 0, 0, 0"),
    ("move_pages", number(279, 239), "own, 0, 0, 0, 0, 0"),
    ("set_mempolicy_home_node", 450, "0, 0, 0, 0"),
];

/// Only x86-64 still has these.
const OF_OLD: &[Refused] = match cfg!(target_arch = "x86_64") {
    false => &[],
    true => &[
        ("sysfs", 139, "3, 0, 0"),
        ("ustat", 136, "os.stat(\".\").st_dev, memory"),
        ("uselib", 134, "b\"/bin/sh\""),
        ("_sysctl", 156, "memory"),
        ("lookup_dcookie", 212, "0, memory, 8"),
        ("iopl", 172, "0"),
        ("ioperm", 173, "0x80, 1, 0"),
    ],
};

/// A kernel that does not have one of these answers as the filter does.
const OF_NEW_KERNELS: &[Refused] = &[
    ("io_uring_setup", 425, "1, memory"),
    ("clone3", 435, "memory, 64"),
    ("statmount", 457, "memory, memory, 4096, 0"),
    ("listmount", 458, "memory, memory, 1, 0"),
    ("lsm_get_self_attr", 459, "100, memory, size, 0"),
    ("lsm_set_self_attr", 460, "100, memory, 32, 0"),
    ("lsm_list_modules", 461, "memory, size, 0"),
    ("open_tree_attr", 467, "-100, b\".\", 0, 0, 0"),
    ("file_getattr", 468, "-100, b\".\", memory, 24, 0"),
    ("file_setattr", 469, "-100, b\".\", memory, 24, 0"),
];

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "call what the kernel offers to the privileged",
        run: |scene| call(scene, FOR_THE_PRIVILEGED, EPERM),
        holds: only_ends,
    },
    Attack {
        name: "call what compares, reads and changes other processes",
        run: |scene| call(scene, ON_OTHER_PROCESSES, EPERM),
        holds: only_ends,
    },
    Attack {
        name: "call what moves memory between the nodes of a machine",
        run: |scene| call(scene, ON_NODES, EPERM),
        holds: only_ends,
    },
    Attack {
        name: "call what no program has used for long",
        run: |scene| call(scene, OF_OLD, EPERM),
        holds: only_ends,
    },
    Attack {
        name: "call what only new kernels have",
        run: |scene| call(scene, OF_NEW_KERNELS, ENOSYS),
        holds: only_ends,
    },
    Attack {
        name: "try calls that nobody has reviewed",
        run: |scene| {
            scene.attack(20, &python(
                "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nfor number in list(range(467, 2000)) + [1 << 16, 1 << 20, 1 << 30]:\n  \
                 r = libc.syscall(number, 0, 0, 0, 0, 0, 0)\n  if r != -1 or ctypes.get_errno() != 38: print(number, r)\nprint(\"end\")",
            ))
        },
        holds: only_ends,
    },
    Attack {
        name: "switch off what makes addresses hard to guess",
        // Bits 3 and 17 name a 32-bit machine and an old version; they protect nothing.
        run: |scene| choose_personalities(scene, "[1 << bit for bit in range(32) if bit not in (3, 17)]"),
        holds: only_ends,
    },
    Attack {
        name: "switch it off together with what is allowed",
        // The kernel reads the lower half of the argument alone.
        run: |scene| {
            choose_personalities(
                scene,
                "[allowed | high | 1 << bit for allowed in (8, 0x20000, 0x20008) for high in (0, 1 << 32) for bit in range(18, 28)]",
            )
        },
        holds: only_ends,
    },
    Attack {
        name: "switch it off by the program that is for that",
        run: |scene| {
            let variants = ["setarch -R", "setarch --uname-2.6 -R", "setarch -X -Z"];
            sum(variants.map(|variant| {
                let ran = scene.attack(10, &format!("{variant} echo switched; echo end"));
                let is_refused = ran.stdout == "end\n" && ran.stderr.contains("Operation not permitted");
                (ran, !is_refused)
            }))
        },
        holds: none_succeeded,
    },
    Attack {
        name: "make pairs of sockets of families that have no namespace",
        run: |scene| {
            make_sockets(
                scene,
                "socketpair",
                "(family, kind, 0) for family in range(46) if family != 1 for kind in range(1, 7)",
            )
        },
        holds: only_ends,
    },
    Attack {
        name: "make sockets of families that have no namespace",
        run: |scene| {
            make_sockets(
                scene,
                "socket",
                "(family, kind, 0) for family in range(46) if family not in (1, 2, 10, 16) for kind in range(1, 7)",
            )
        },
        holds: only_ends,
    },
    Attack {
        name: "make netlink sockets that tell of more than interfaces",
        run: |scene| {
            make_sockets(
                scene,
                "socket",
                "(16, kind, protocol) for kind in (2, 3) for protocol in range(1, 32)",
            )
        },
        holds: only_ends,
    },
];

/// Whether a script that tells of everything that was not refused told of nothing.
fn only_ends(_: &Scene, ran: &Ran) -> bool {
    ran.stdout == "end\n"
}

/// Makes system calls, and tells of each that did not fail with `errno`.
fn call(scene: &Scene, calls: &[Refused], errno: u32) -> Ran {
    let calls = calls
        .iter()
        .map(|(name, number, arguments)| format!("call(\"{name}\", {number}, {arguments})\n"));
    let text = format!(
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n\
         own, handle = os.getpid(), os.pidfd_open(os.getpid())\n\
         memory = ctypes.create_string_buffer(4096)\nsize = ctypes.byref(ctypes.c_uint32(4096))\n\
         region = (ctypes.c_size_t * 2)(ctypes.addressof(memory), 8)\n\
         def call(name, number, *arguments):\n  ctypes.set_errno(0)\n  result = libc.syscall(number, *arguments)\n  \
         if result != -1 or ctypes.get_errno() != {errno}: print(name, result, ctypes.get_errno(), flush=True)\n\
         {}print(\"end\")",
        calls.collect::<String>()
    );
    scene.attack(10, &python(&text))
}

/// Chooses ways of execution, and tells of each that was not refused.
fn choose_personalities(scene: &Scene, personalities: &str) -> Ran {
    let personality = number(135, 92);
    let text = format!(
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nfor personality in {personalities}:\n  \
         ctypes.set_errno(0)\n  result = libc.syscall({personality}, ctypes.c_ulong(personality))\n  \
         if result != -1 or ctypes.get_errno() != {EPERM}: print(hex(personality), result, ctypes.get_errno())\nprint(\"end\")"
    );
    scene.attack(10, &python(&text))
}

/// Makes sockets of the given families, kinds and protocols, and tells of each that was not refused. The kernel has other errors for those
/// that it does not know.
fn make_sockets(scene: &Scene, function: &str, wanted: &str) -> Ran {
    let text = format!(
        "import socket\nfor wanted in ({wanted}):\n  try: socket.{function}(*wanted); print(\"made\", *wanted)\n  \
         except OSError as error:\n    if error.errno != {EPERM}: print(*wanted, error)\nprint(\"end\")"
    );
    scene.attack(20, &python(&text))
}
