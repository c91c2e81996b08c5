//! Having a crash leave a core, or start the program that the host has for cores: that runs as root, outside every sandbox.
//!
//! The limit of the size of a core must be 1 in every process: it is the only one with which the kernel does neither. With 0 it leaves no
//! file, but it starts the program. No attack here depends on whether the host has such a program: each looks at the limit, then crashes.

use crate::Attack;
use crate::scene::{Ran, Scene, none_succeeded, python, sum};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "have a crash leave a core by a higher limit",
        run: |scene| {
            each_crash(
                scene,
                &[
                    "ulimit -c unlimited",
                    "ulimit -Sc unlimited",
                    "ulimit -Hc unlimited; ulimit -Sc 2",
                    "prlimit --pid $$ --core=unlimited",
                    "prlimit --pid $$ --core=2:1; prlimit --pid $$ --core=unlimited:unlimited",
                    "prlimit --pid $PPID --core=unlimited; prlimit --pid 1 --core=unlimited",
                ],
            )
        },
        holds: none_succeeded,
    },
    Attack {
        name: "have a crash start a program of the host by a lower limit",
        run: |scene| {
            each_crash(
                scene,
                &[
                    "ulimit -c 0",
                    "ulimit -Sc 0",
                    "prlimit --pid $$ --core=0",
                    "prlimit --pid $$ --core=0:1",
                ],
            )
        },
        holds: none_succeeded,
    },
    Attack {
        name: "have a crash leave a core in another session",
        run: |scene| {
            let starters = ["setsid", "nohup setsid", "setsid env -i PATH=$PATH"];
            let crash = crash_after("ulimit -c unlimited");
            sum(starters.map(|starter| crashed(scene, &format!("{starter} {crash}"))))
        },
        holds: none_succeeded,
    },
    Attack {
        name: "have a crash of a child leave a core",
        run: |scene| {
            let crashes = [
                "os.abort()",
                "os.kill(os.getpid(), signal.SIGSEGV)",
                "ctypes.string_at(0)",
            ];
            sum(crashes.map(|crash| {
                let ran = scene.attack(30, &python(&crash_of_child(crash)));
                let is_bare = ran.stdout.trim() == "(1, 1) False []";
                (ran, !is_bare)
            }))
        },
        holds: none_succeeded,
    },
];

/// Crashes after each of several ways to change the limit.
fn each_crash(scene: &Scene, ways: &[&str]) -> Ran {
    sum(ways.iter().map(|way| crashed(scene, &crash_after(way))))
}

/// A command that changes the limit, tells it, and crashes.
fn crash_after(way: &str) -> String {
    format!("bash -c '{way}; grep \"^Max core file size\" /proc/$$/limits | tr -s \" \"; kill -SEGV $$'")
}

/// Runs a command that crashes; tells besides whether the crash left something.
fn crashed(scene: &Scene, command: &str) -> (Ran, bool) {
    let ran = scene.attack(30, &format!("{command}; echo $?; ls -A | grep -c ^core; rm -f core*"));
    let is_bare = ran.stdout == "Max core file size 1 1 bytes \n139\n0\n" && !ran.stderr.contains("core dumped");
    (ran, !is_bare)
}

/// A text in Python whose grandchild raises its limit and crashes. It tells the limit, whether the kernel wrote a core, and where.
fn crash_of_child(crash: &str) -> String {
    format!(
        "import ctypes, glob, os, resource, signal\nunlimited = resource.RLIM_INFINITY\n\
         def raise_limit(*limits):\n  try: resource.setrlimit(resource.RLIMIT_CORE, limits)\n  except (OSError, ValueError): pass\n\
         if os.fork() == 0:\n  raise_limit(unlimited, unlimited)\n  child = os.fork()\n  if child == 0:\n    \
         raise_limit(2, 1)\n    raise_limit(unlimited, 1)\n    \
         print(resource.getrlimit(resource.RLIMIT_CORE), end=\" \", flush=True)\n    {crash}\n  \
         status = os.waitpid(child, 0)[1]\n  assert os.WIFSIGNALED(status)\n  \
         print(os.WCOREDUMP(status), glob.glob(\"core*\"), flush=True)\n  os._exit(0)\nos.wait()"
    )
}
