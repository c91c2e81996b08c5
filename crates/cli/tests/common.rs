//! The program as a user runs it: in a directory of its own, with an environment that nothing leaks into.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests look at the directory from outside, as another program would"
)]

use std::fmt::Display;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The program under test.
pub const GARRET: &str = env!("CARGO_BIN_EXE_garret");

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Says what this machine lacks for a test. The harness hides what `println!` says of a test that passes.
pub fn tell_not_tried(reason: impl Display) {
    let _ = writeln!(std::io::stderr(), "not tried: {reason}");
}

/// A user without rights.
const NOBODY: u32 = 65534;

/// A temporary directory in which the program runs, with a home of its own elsewhere.
pub struct Room {
    directory: tempfile::TempDir,
    elsewhere: tempfile::TempDir,
    is_of_nobody: bool,
}

impl Room {
    pub fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            elsewhere: tempfile::tempdir().unwrap(),
            is_of_nobody: false,
        }
    }

    /// Makes a room in which a user without rights runs the program. Only root can do so; another user has no more
    /// rights himself, and his other tests show the same.
    pub fn of_nobody() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            tell_not_tried("the user of the test is not root, and cannot run the program as somebody else");
            return None;
        }
        let room = Self {
            is_of_nobody: true,
            ..Self::new()
        };
        // The program may lie where he may not go. A file that this process itself wrote could still be open in a child
        // of another thread, and could not be executed then.
        let copied = Command::new("cp").arg(GARRET).arg(room.program()).status();
        assert!(copied.unwrap().success());
        std::fs::create_dir(room.user_home()).unwrap();
        for directory in [room.path(), room.elsewhere.path(), &room.user_home()] {
            std::fs::set_permissions(directory, PermissionsExt::from_mode(0o700)).unwrap();
            room.give(directory);
        }
        Some(room)
    }

    fn program(&self) -> PathBuf {
        self.elsewhere.path().join("garret")
    }

    /// Gives a file to the user of the room.
    fn give(&self, path: &Path) {
        if self.is_of_nobody {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The home directory of the user of a room [of nobody](Self::of_nobody), which only he may enter.
    pub fn user_home(&self) -> PathBuf {
        self.elsewhere.path().join("user")
    }

    /// The home, which nobody has made yet.
    pub fn home(&self) -> PathBuf {
        self.elsewhere.path().join("home")
    }

    /// Puts a file there, as another program would.
    pub fn put(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path().join(name);
        let missing: Vec<_> = path.ancestors().skip(1).take_while(|above| !above.exists()).collect();
        for directory in missing.into_iter().rev() {
            std::fs::create_dir(directory).unwrap();
            self.give(directory);
        }
        std::fs::write(&path, content).unwrap();
        self.give(&path);
        self
    }

    /// Trusts the configuration here, as its user would.
    pub fn trust(&self) -> &Self {
        self.run(&["trust", "--yes"]).done();
        self
    }

    pub fn get(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path().join(name)).unwrap()
    }

    pub fn link(&self, name: &str, target: &str) -> &Self {
        std::os::unix::fs::symlink(target, self.path().join(name)).unwrap();
        self
    }

    /// Runs the program here.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, b"")
    }

    /// Runs the program here with something on its standard input.
    pub fn run_with(&self, arguments: &[&str], input: &[u8]) -> Ran {
        Ran::of(self.command(arguments), input)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match self.is_of_nobody {
            true => self.command_of_user(&self.program()),
            false => self.command_of_user(Path::new(GARRET)),
        };
        command
            .args(arguments)
            .env("GARRET_HOME", self.home())
            .env("COLUMNS", "100");
        command
    }

    /// Another program, as the user of the room starts it here.
    pub fn command_of_user(&self, program: &Path) -> Command {
        let mut command = Command::new(if self.is_of_nobody {
            Path::new("setpriv")
        } else {
            program
        });
        command
            .current_dir(self.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        if self.is_of_nobody {
            let id = NOBODY.to_string();
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]);
            command.arg(program).env("HOME", self.user_home());
        }
        command
    }
}

/// How a run ended.
pub struct Ran(Output);

impl Ran {
    /// Runs a command with something on its standard input.
    pub fn of(mut command: Command, input: &[u8]) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = loop {
            match command.spawn() {
                // The program was just copied, and a child of another thread still has the copy open for writing.
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                spawned => break spawned.unwrap(),
            }
        };
        // A program that does not read its input may be gone before all of it is written.
        let _ = child.stdin.take().unwrap().write_all(input);
        Self(child.wait_with_output().unwrap())
    }

    pub fn code(&self) -> i32 {
        self.0.status.code().expect("the program ends by itself")
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0.stdout
    }

    pub fn out(&self) -> &str {
        std::str::from_utf8(&self.0.stdout).unwrap()
    }

    pub fn err(&self) -> &str {
        std::str::from_utf8(&self.0.stderr).unwrap()
    }

    /// The one object that `--json` prints.
    pub fn json(&self) -> Value {
        assert_eq!(
            self.out().lines().count(),
            1,
            "one object on one line: {}{}",
            self.out(),
            self.err()
        );
        serde_json::from_str(self.out()).unwrap()
    }

    /// Standard output of a success.
    #[track_caller]
    pub fn done(&self) -> &str {
        assert_eq!(self.code(), 0, "{}{}", self.out(), self.err());
        self.out()
    }

    /// `data` of a success with `--json`.
    #[track_caller]
    pub fn data(&self) -> Value {
        let object = self.json();
        assert_eq!((self.code(), &object["ok"]), (0, &Value::Bool(true)), "{object}");
        object["data"].clone()
    }

    /// The kind of the error of a failure, in either form.
    #[track_caller]
    pub fn failed(&self) -> String {
        assert_eq!(self.code(), 1, "{}{}", self.out(), self.err());
        self.kind()
    }

    /// The kind of the error of wrong usage, in either form.
    #[track_caller]
    pub fn misused(&self) -> String {
        assert_eq!(self.code(), 2, "{}{}", self.out(), self.err());
        self.kind()
    }

    fn kind(&self) -> String {
        match serde_json::from_str::<Value>(self.out()) {
            Ok(object) => object["error"]["kind"].as_str().unwrap().to_owned(),
            Err(_) => self.err().split(": ").nth(1).unwrap_or_default().to_owned(),
        }
    }
}

/// Text with what differs from run to run replaced: times (with the padding after them), ids, versions.
pub fn masked(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-:.".contains(c);
    let mut masked = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        let length = rest[start..].find(|c| !is_part(c)).unwrap_or(rest.len() - start);
        let found = &rest[start..start + length];
        let (word, after) = rest[start..].split_at(found.trim_end_matches(':').len().max(1));
        masked.push_str(&rest[..start]);
        rest = after;
        match mask_of(word) {
            Some("TIME") => {
                masked.push_str("TIME");
                let spaces = rest.len() - rest.trim_start_matches(' ').len();
                rest = &rest[spaces.saturating_sub(2)..];
            }
            mask => masked.push_str(mask.unwrap_or(word)),
        }
    }
    masked + rest
}

fn mask_of(word: &str) -> Option<&'static str> {
    let is_hex = |part: &str| part.chars().all(|c| c.is_ascii_hexdigit());
    let is_time = word.len() >= 20 && word.ends_with('Z') && word.as_bytes()[10] == b'T';
    let is_id = word.len() == 36 && word.split('-').count() == 5 && is_hex(&word.replace('-', ""));
    let is_version = word.len() >= 16 && is_hex(word);
    match (is_time, is_id, is_version) {
        (true, ..) => Some("TIME"),
        (_, true, _) => Some("ID"),
        (_, _, true) => Some("VERSION"),
        _ => None,
    }
}
