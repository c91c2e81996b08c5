//! Staying in motion while Garret reads and changes the files, or having it wait.

use serde_json::json;

use crate::Attack;
use crate::scene::{Ran, Scene};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "hold up tools by a child that a process waits for in the kernel",
        run: |scene| beside(scene, &vfork("0x4000", "time.sleep(1000)")),
        holds: |_, ran| is_served(ran),
    },
    Attack {
        name: "hold up tools by a child that shares the memory of a process in the kernel",
        run: |scene| beside(scene, &vfork("0x4000 | 0x100", "time.sleep(1000)")),
        holds: |_, ran| is_served(ran),
    },
    Attack {
        name: "hold up tools by a chain of processes that wait in the kernel",
        run: |scene| {
            beside(
                scene,
                &vfork(
                    "0x4000",
                    "os.setsid(); libc.syscall(number, 0x4000 | 17, 0, 0, 0, 0); time.sleep(1000)",
                ),
            )
        },
        holds: |_, ran| is_served(ran),
    },
    Attack {
        name: "undo a pause by a storm of continue signals to everybody",
        run: |scene| {
            beside(
                scene,
                &format!("{WRITER} & echo begun; while :; do kill -CONT -1; done"),
            )
        },
        holds: |_, ran| is_served(ran),
    },
    Attack {
        name: "undo a pause by a storm of continue signals from another session",
        run: |scene| {
            let storm = "for p in /proc/[0-9]*; do kill -CONT ${p#/proc/}; done 2> /dev/null";
            beside(
                scene,
                &format!("{WRITER} & setsid sh -c 'while :; do {storm}; done' & echo begun; sleep 1000"),
            )
        },
        holds: |_, ran| is_served(ran),
    },
    Attack {
        name: "undo a pause by continue signals of many processes to each other",
        run: |scene| {
            beside(
                scene,
                &format!("{WRITER} & for i in 1 2 3 4; do (while :; do kill -CONT 0; done) & done; echo begun; wait"),
            )
        },
        holds: |_, ran| is_served(ran),
    },
    Attack {
        name: "escape a pause by forking all the time",
        run: |scene| beside(scene, &forking("while True:\n  if os.fork() == 0: os._exit(0)")),
        holds: |_, ran| is_served(ran),
    },
    Attack {
        name: "escape a pause by handing over to a child again and again",
        run: |scene| {
            let chain = "if os.fork() == 0:\n  while True:\n    if os.fork() != 0: os._exit(0)\nsignal.pause()";
            beside(scene, &forking(chain))
        },
        holds: |_, ran| is_served(ran),
    },
    Attack {
        name: "escape a pause by starting threads all the time",
        run: |scene| {
            let threads =
                "import threading\nwhile True:\n  t = threading.Thread(target=lambda: None)\n  t.start()\n  t.join()";
            beside(scene, &forking(threads))
        },
        holds: |_, ran| is_served(ran),
    },
    Attack {
        name: "stand still for nobody by being traced by another",
        run: |scene| {
            beside(
                scene,
                &python(
                    "import ctypes, os, time\nchild = os.fork()\nif child == 0:\n  while True: pass\nctypes.CDLL(None).ptrace(0x4206, child, 0, 0)\n\
                 print(\"begun\", flush=True)\ntime.sleep(1000)",
                ),
            )
        },
        // Either it is frozen, or it is ended and the answer says so; the tools work in both cases.
        holds: |_, ran| ran.code == Some(0),
    },
    Attack {
        name: "make sockets and pairs of families that have no namespace",
        run: |scene| {
            scene.attack(10, &python(
                "import socket\nfor family in (16, 17, 21, 30, 38, 40, 41, 44):\n  for kind in (1, 2, 3, 5):\n    \
                 try: socket.socketpair(family, kind); print(\"made\", family, kind)\n    except OSError: pass\nprint(\"end\")",
            ))
        },
        holds: |_, ran| ran.stdout.trim() == "end",
    },
    Attack {
        name: "switch off what makes addresses hard to guess",
        run: |scene| {
            scene.attack(
                10,
                &python(
                    "import ctypes\nlibc = ctypes.CDLL(None)\nfor bit in range(18, 28):\n  \
                 if libc.personality(1 << bit) >= 0: print(\"switched\", bit)\nprint(\"end\")",
                ),
            )
        },
        holds: |_, ran| ran.stdout.trim() == "end",
    },
    Attack {
        name: "try calls that nobody has reviewed",
        run: |scene| {
            scene.attack(20, &python(
                "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nfor number in list(range(467, 2000)) + [1 << 16, 1 << 20, 1 << 30]:\n  \
                 r = libc.syscall(number, 0, 0, 0, 0, 0, 0)\n  if r != -1 or ctypes.get_errno() != 38: print(number, r)\nprint(\"end\")",
            ))
        },
        holds: |_, ran| ran.stdout.trim() == "end",
    },
    Attack {
        name: "take all memory by shared memory that no process has",
        run: |scene| {
            scene.attack(20, &python(
                "import ctypes, os, time\nlibc = ctypes.CDLL(None)\nlibc.shmat.restype = ctypes.c_void_p\nfor _ in range(40):\n  \
                 n = libc.shmget(0, 40 << 20, 0o1600)\n  if os.fork() == 0:\n    ctypes.memset(libc.shmat(n, None, 0), 1, 40 << 20)\n    \
                 os._exit(0)\n  os.wait()\ntime.sleep(1)\nprint(\"took\", flush=True)",
            ))
        },
        holds: |_, ran| !ran.stdout.contains("took") && ran.code != Some(0),
    },
    Attack {
        name: "take all memory by messages that nobody receives",
        run: |scene| {
            scene.attack(30, &python(
                "import ctypes, time\nlibc = ctypes.CDLL(None)\nmessage = ctypes.create_string_buffer(b\"\\1\" + bytes(8199), 8200)\n\
                 for _ in range(31000):\n  n = libc.msgget(0, 0o1600)\n  \
                 for _ in range(2): assert libc.msgsnd(n, message, 8192, 0o4000) == 0\nfor _ in range(8000):\n  \
                 libc.semget(0, 30000, 0o1600)\ntime.sleep(1)\nprint(\"took\", flush=True)",
            ))
        },
        holds: |_, ran| !ran.stdout.contains("took") && ran.code != Some(0),
    },
    Attack {
        name: "take all memory by semaphores",
        run: |scene| {
            scene.attack(20, &python(
                "import ctypes, time\nlibc = ctypes.CDLL(None)\nfor _ in range(1000): libc.semget(0, 30000, 0o1600)\n\
                 time.sleep(1)\nprint(\"took\", flush=True)",
            ))
        },
        holds: |_, ran| !ran.stdout.contains("took") && ran.code != Some(0),
    },
    Attack {
        name: "have a crash start a program of the host",
        run: |scene| {
            scene.attack(10, "ulimit -c unlimited 2> /dev/null; ulimit -Hc 1 2> /dev/null; grep '^Max core file size' /proc/self/limits | tr -s ' '")
        },
        holds: |_, ran| ran.stdout.trim() == "Max core file size 1 1 bytes",
    },
];

/// Writes slowly enough to stay below the limit of bytes written.
const WRITER: &str = "(while :; do echo $RANDOM > moving; sleep 0.01; done)";

fn python(text: &str) -> String {
    format!("python3 -c '\n{text}\n'")
}

fn vfork(flags: &str, child: &str) -> String {
    let text = python(&format!(
        "import ctypes, os, platform, time\nlibc = ctypes.CDLL(None)\nnumber = {{\"x86_64\": 56, \"aarch64\": 220}}[platform.machine()]\n\
         if libc.syscall(number, {flags} | 17, 0, 0, 0, 0) == 0:\n  print(\"begun\", flush=True)\n  {child}"
    ));
    format!("{WRITER} & {text}")
}

fn forking(text: &str) -> String {
    python(&format!(
        "import os, signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nprint(\"begun\", flush=True)\n{text}"
    ))
}

/// Calls tools that read and change files beside the script; each must do its work.
fn beside(scene: &Scene, script: &str) -> Ran {
    let calls = [
        ("write_file", json!({"path": "written", "content": "one"})),
        ("read_file", json!({"path": "written"})),
        ("ls", json!({})),
        ("rm", json!({"path": "written"})),
        ("processes", json!({})),
    ];
    let ran = scene.beside(script, "begun", &calls);
    scene.attack(10, "rm -f moving");
    ran
}

/// Whether every call did its work, and the process either lives or was ended with the reason told: on a busy disk, a process may wait in the
/// kernel for longer than it has to stand still. That it lives where the machine is idle, the tests of the sandbox show.
fn is_served(ran: &Ran) -> bool {
    let is_told = ran.stdout.contains("is running") || ran.stdout.contains("did not stop within one second");
    ran.code == Some(0) && is_told
}
