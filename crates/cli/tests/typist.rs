//! A program on a terminal, driven by keys.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this")]
#![allow(clippy::disallowed_methods, reason = "a test drives the program from outside")]

use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};

/// How long a screen may take to show something on a machine that is busy with everything else.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// A terminal with a program on it, on which the test types.
pub struct Typist {
    keys: OwnedFd,
    screen: OwnedFd,
    program: Child,
    /// What was shown and not looked at yet.
    shown: Vec<u8>,
}

impl Typist {
    /// Starts `command` on a terminal of 30 lines of 100 characters.
    pub fn start(command: &Command) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let screen = ioctl_tiocgptpeer(&keys, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        let stream = || Stdio::from(screen.try_clone().unwrap());
        let mut on_terminal = Command::new("/usr/bin/setsid");
        on_terminal
            .args(["--ctty", "--wait"])
            .arg(command.get_program())
            .args(command.get_args());
        on_terminal
            .env_clear()
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(directory) = command.get_current_dir() {
            on_terminal.current_dir(directory);
        }
        on_terminal
            .env("TERM", "xterm")
            .stdin(stream())
            .stdout(stream())
            .stderr(stream());
        let mut typist = Self {
            keys,
            program: on_terminal.spawn().unwrap(),
            screen,
            shown: Vec::new(),
        };
        typist.resize(30, 100);
        typist
    }

    pub fn press(&self, keys: &str) {
        (&std::fs::File::from(self.keys.try_clone().unwrap()))
            .write_all(keys.as_bytes())
            .unwrap();
    }

    /// Presses the keys again and again until the screen shows `text`: a program that is just getting the terminal misses
    /// what was pressed before.
    #[track_caller]
    pub fn press_until(&mut self, keys: &str, text: &str) {
        let pause = Timespec {
            tv_sec: 0,
            tv_nsec: 300_000_000,
        };
        for _ in 0..200 {
            self.press(keys);
            while self.look(&pause) {}
            if find(&self.shown, text.as_bytes()).is_some() {
                return self.shown.clear();
            }
        }
        panic!("{text:?} is not in {:?}", String::from_utf8_lossy(&self.shown));
    }

    pub fn resize(&mut self, rows: u16, columns: u16) {
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.keys, size).unwrap();
    }

    /// Waits until the screen shows `text`; returns what it showed before.
    #[track_caller]
    pub fn see(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = find(&self.shown, text.as_bytes()) {
                let before: Vec<u8> = self.shown.drain(..at + text.len()).take(at).collect();
                return String::from_utf8_lossy(&before).into_owned();
            }
            assert!(
                self.look(&PATIENCE),
                "{text:?} is not in {:?}",
                String::from_utf8_lossy(&self.shown)
            );
        }
    }

    /// Types a line of commands, and returns what it shows.
    #[track_caller]
    pub fn run_line(&mut self, line: &str) -> String {
        // The quotes keep the echo of the line from being taken for its output.
        self.press(&format!("{line}; echo d''one\n"));
        self.see("done\r\n")
    }

    /// Waits for the end of the program; returns its exit code and what was shown until then.
    #[track_caller]
    pub fn finish(&mut self) -> (i32, String) {
        let code = loop {
            self.look(&Timespec {
                tv_sec: 0,
                tv_nsec: 10_000_000,
            });
            if let Some(status) = self.program.try_wait().unwrap() {
                break status.code().unwrap();
            }
        };
        while self.look(&Timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        }) {}
        (
            code,
            String::from_utf8_lossy(&std::mem::take(&mut self.shown)).into_owned(),
        )
    }

    /// Waits for the end of the program, while its output is read.
    pub fn wait(&mut self) {
        while self.program.try_wait().unwrap().is_none() {
            self.look(&Timespec {
                tv_sec: 0,
                tv_nsec: 10_000_000,
            });
        }
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: Signal) {
        // `setsid` has become the program: it forks only where it leads a process group.
        let program = Pid::from_child(&self.program);
        rustix::process::kill_process(program, signal).unwrap();
    }

    /// Whether the terminal shows and edits what is typed, as a shell leaves it.
    pub fn is_as_before(&self) -> bool {
        let modes = tcgetattr(&self.screen).unwrap().local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }

    /// The lines and the characters in a line.
    pub fn size(&self) -> (u16, u16) {
        let size = tcgetwinsize(&self.screen).unwrap();
        (size.ws_row, size.ws_col)
    }

    /// The keys that nobody has read.
    pub fn unread(&self) -> usize {
        // Without this, only whole lines would be counted.
        let mut settings = tcgetattr(&self.screen).unwrap();
        settings.make_raw();
        tcsetattr(&self.screen, OptionalActions::Now, &settings).unwrap();
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: 50_000_000,
        };
        let mut watched = [PollFd::new(&self.screen, PollFlags::IN)];
        if poll(&mut watched, Some(&wait)).unwrap() == 0 {
            return 0;
        }
        let mut piece = [0; 4096];
        rustix::io::read(&self.screen, &mut piece).unwrap()
    }

    /// Reads what the screen shows, if it shows something in time.
    fn look(&mut self, wait: &Timespec) -> bool {
        let mut watched = [PollFd::new(&self.keys, PollFlags::IN)];
        if poll(&mut watched, Some(wait)).unwrap() == 0 {
            return false;
        }
        let mut piece = [0; 4096];
        let count = rustix::io::read(&self.keys, &mut piece).unwrap_or(0);
        self.shown.extend_from_slice(&piece[..count]);
        count > 0
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

impl Drop for Typist {
    fn drop(&mut self) {
        // The end of the terminal ends what runs on it; `finish` has waited for it already, unless a test failed.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Waits until `condition` holds.
#[track_caller]
pub fn eventually(condition: impl Fn() -> bool) {
    let tries = 6_000;
    let holds = (0..tries).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        condition()
    });
    assert!(holds, "it never holds");
}
