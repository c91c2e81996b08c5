//! Staying in motion while Garret reads and changes the files, or having it wait.

use serde_json::json;

use crate::Attack;
use crate::scene::{Ran, Scene, python};

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
        run: |scene| beside(scene, &while_written("echo begun; while :; do kill -CONT -1; done")),
        holds: |_, ran| is_served(ran),
    },
    Attack {
        name: "undo a pause by a storm of continue signals from another session",
        run: |scene| {
            let storm = "for p in /proc/[0-9]*; do kill -CONT ${p#/proc/}; done 2> /dev/null";
            beside(
                scene,
                &while_written(&format!(
                    "setsid sh -c 'while :; do {storm}; done' & echo begun; sleep 1000"
                )),
            )
        },
        holds: |_, ran| is_served(ran),
    },
    Attack {
        name: "undo a pause by continue signals of many processes to each other",
        run: |scene| {
            beside(
                scene,
                &while_written("for i in 1 2 3 4; do (while :; do kill -CONT 0; done) & done; echo begun; wait"),
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
        run: |scene| beside(scene, &traced("write_rounds()")),
        holds: |_, ran| is_served(ran),
    },
    Attack {
        name: "stand still for nobody by being traced and never entering the kernel",
        run: |scene| beside(scene, &while_written(&traced("while True: pass"))),
        holds: |_, ran| is_served(ran),
    },
    Attack {
        name: "stand still for nobody by a chain of processes that trace each other",
        run: |scene| {
            let chain = "child = os.fork()\n  if child == 0: write_rounds()\n  libc.ptrace(0x4206, child, 0, 0)\n  time.sleep(1000)";
            beside(scene, &traced(chain))
        },
        holds: |_, ran| is_served(ran),
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
];

/// How many files each round of the writer changes.
const ROUND: usize = 16;

/// A function in Python that writes the number of its round to one file after the other, round after round. At every moment the files hold
/// at most two numbers, the higher one first. It writes in place, so that it stays below the limit of bytes written.
const WRITE_ROUNDS: &str = "\
def write_rounds():
  import os, time
  os.makedirs(\"rounds\", exist_ok=True)
  for number in range(10**6, 10**7):
    for name in range(16):
      file = os.open(\"rounds/%02d\" % name, os.O_WRONLY | os.O_CREAT, 0o644)
      os.pwrite(file, b\"%d\\n\" % number, 0)
      os.close(file)
    time.sleep(0.002)";

/// Waits until the writer has ended its first round.
const UNTIL_WRITTEN: &str = "until test -s rounds/15; do sleep 0.01; done";

/// Writes rounds beside a script, which begins after the first of them.
fn while_written(script: &str) -> String {
    let writer = python(&format!("{WRITE_ROUNDS}\nwrite_rounds()"));
    format!("{writer} & {UNTIL_WRITTEN}; {script}")
}

fn vfork(flags: &str, child: &str) -> String {
    let text = python(&format!(
        "import ctypes, os, platform, time\nlibc = ctypes.CDLL(None)\nnumber = {{\"x86_64\": 56, \"aarch64\": 220}}[platform.machine()]\n\
         if libc.syscall(number, {flags} | 17, 0, 0, 0, 0) == 0:\n  print(\"begun\", flush=True)\n  {child}"
    ));
    while_written(&text)
}

fn forking(text: &str) -> String {
    while_written(&python(&format!(
        "import os, signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nprint(\"begun\", flush=True)\n{text}"
    )))
}

/// Starts a child that does `text`, and traces it (`PTRACE_SEIZE`): a process that one traces, no other can trace.
fn traced(text: &str) -> String {
    python(&format!(
        "import ctypes, os, time\n{WRITE_ROUNDS}\nlibc = ctypes.CDLL(None)\nchild = os.fork()\nif child == 0:\n  {text}\n\
         assert libc.ptrace(0x4206, child, 0, 0) == 0\nlast = \"rounds/15\"\n\
         while not os.path.exists(last) or os.path.getsize(last) == 0: time.sleep(0.01)\nprint(\"begun\", flush=True)\ntime.sleep(1000)"
    ))
}

/// Calls tools that read and change files beside the script; each must do its work.
fn beside(scene: &Scene, script: &str) -> Ran {
    let look = ("grep", json!({"pattern": "^[0-9]{7}$", "path": "rounds"}));
    let calls = [
        ("write_file", json!({"path": "written", "content": "one"})),
        look.clone(),
        ("read_file", json!({"path": "written"})),
        look.clone(),
        ("ls", json!({})),
        look.clone(),
        ("rm", json!({"path": "written"})),
        look.clone(),
        look,
        ("processes", json!({})),
    ];
    let ran = scene.beside(script, "begun", &calls);
    scene.attack(10, "rm -rf rounds");
    ran
}

/// Whether every call did its work on files that stood still, and the process either lives or was ended with the reason told: on a busy
/// disk, a process may wait in the kernel for longer than it has to stand still. That it lives where the machine is idle, the tests of the
/// sandbox show.
fn is_served(ran: &Ran) -> bool {
    let is_told = ran.stdout.contains("is running") || ran.stdout.contains("did not stop within one second");
    ran.code == Some(0) && is_told && have_stood_still(&ran.stdout)
}

/// Whether all looks at the files of the writer show them as they were at one moment. A process that ran on during a look would have
/// changed the last files after the first were read.
fn have_stood_still(said: &str) -> bool {
    let lines: Vec<_> = said
        .lines()
        .filter(|line| line.starts_with("rounds/") && line.contains(":1:"))
        .collect();
    let looks: Vec<_> = lines.chunks(ROUND).map(numbers_by_name).collect();
    let is_one_moment = |numbers: &Vec<u32>| {
        numbers.len() == ROUND && numbers.is_sorted_by(|one, next| one >= next) && numbers[0] - numbers[ROUND - 1] <= 1
    };
    looks.len() == 5 && looks.iter().all(is_one_moment)
}

/// The numbers in lines such as `rounds/00:1:1000123`, in the order of the names.
fn numbers_by_name(lines: &[&str]) -> Vec<u32> {
    let mut lines = lines.to_vec();
    lines.sort_unstable();
    let number = |line: &&str| line.rsplit(':').next()?.trim().parse().ok();
    lines.iter().filter_map(number).collect()
}
