//! A server process that never outlives the test process, even one that is killed.
//!
//! Between the two stands a shell that reads from the test process. When that ends, in whatever way, the read ends; the shell then kills
//! the server and removes what it left.

#![allow(
    clippy::disallowed_methods,
    reason = "it starts a server for tests in a directory of its own"
)]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Arguments: the directory of the server, what else it leaves behind (one argument, separated by spaces), and its command line.
/// Interrupts are for the test process: the shell goes when that has gone.
const GUARD: &str = r#"
trap '' INT TERM HUP
room=$1 leftovers=$2
shift 2
exec 3<&0
"$@" </dev/null >"$room/log" 2>&1 3<&- &
server=$!
{ read -r line <&3; kill -KILL "$server"; } 2>/dev/null &
listener=$!
wait "$server" 2>/dev/null
kill -KILL "$listener" 2>/dev/null
tail -n 20 "$room/log"
rm -rf -- "$room" $leftovers
"#;

/// A directory for a server, and later the server in it.
#[derive(Debug)]
pub(super) struct Guarded {
    guard: Child,
    /// Held: the guard waits for its end.
    input: Option<ChildStdin>,
}

/// A new directory for what a server keeps.
pub(super) fn room() -> PathBuf {
    let room = tempfile::Builder::new().prefix("garret-s3-").tempdir();
    room.expect("a temporary directory can be made").keep()
}

impl Guarded {
    /// Starts `command` with `room` as its home, which goes when it ends.
    pub(super) fn start(room: &Path, leftovers: &[String], command: &[String]) -> Self {
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg(room)
            .arg(leftovers.join(" "))
            .args(command)
            .current_dir(room)
            .env("HOME", room)
            .env("TMPDIR", room)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell can be run");
        let input = guard.stdin.take();
        Self { guard, input }
    }

    /// The end of its log if it has ended.
    pub(super) fn ended(&mut self) -> Option<String> {
        self.guard.try_wait().expect("it was started")?;
        Some(self.log())
    }

    /// Ends it now; gives the end of its log.
    pub(super) fn end(&mut self) -> String {
        drop(self.input.take());
        let log = self.log();
        self.guard.wait().expect("it was started");
        log
    }

    fn log(&mut self) -> String {
        let mut log = Vec::new();
        if let Some(output) = &mut self.guard.stdout {
            output.read_to_end(&mut log).expect("a pipe can be read");
        }
        String::from_utf8_lossy(&log).into_owned()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.end();
    }
}
