//! The other tools: boto3 in an interpreter that stays, and rclone as a program.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use garret_testkit::s3::Server;
use serde_json::{Value, json};

fn installed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/s3/.venv/bin")
        .join(name)
}

/// Whether `scripts/setup-tests` brought the servers and tools.
pub(super) fn is_installed() -> bool {
    ["python", "weed", "rclone"].iter().all(|name| installed(name).exists())
}

/// boto3, one piece of work at a time.
pub(super) struct Boto {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Boto {
    pub(super) fn start(server: &Server) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/s3.py");
        let mut command = Command::new(installed("python"));
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the interpreter starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut boto = Self { child, input, output };
        let keys = server.keys();
        boto.ask(json!({
            "endpoint": server.endpoint(), "bucket": server.bucket(),
            "access_key_id": keys.access_key_id, "secret_access_key": keys.secret_access_key,
        }));
        boto
    }

    /// Has a piece of work done.
    pub(super) fn ask(&mut self, work: Value) -> String {
        let input = self.input.as_mut().expect("it is open until the end");
        writeln!(input, "{work}").expect("the interpreter listens");
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("the interpreter answers");
        assert!(!answer.is_empty(), "the interpreter ended in the middle of its work");
        answer
    }
}

impl Drop for Boto {
    fn drop(&mut self) {
        self.input.take();
        let _ = self.child.wait();
    }
}

/// A prefix of the server's bucket, as rclone names it.
pub(super) fn remote(server: &Server, prefix: &str) -> String {
    format!("bench:{}/{prefix}", server.bucket())
}

/// Runs rclone with the server as the remote `bench`.
pub(super) fn rclone(server: &Server, arguments: &[&str]) {
    let keys = server.keys();
    let status = Command::new(installed("rclone"))
        .args(arguments)
        .env("RCLONE_CONFIG", "/dev/null")
        .env("RCLONE_CONFIG_BENCH_TYPE", "s3")
        .env("RCLONE_CONFIG_BENCH_PROVIDER", "SeaweedFS")
        .env("RCLONE_CONFIG_BENCH_ENDPOINT", server.endpoint())
        .env("RCLONE_CONFIG_BENCH_ACCESS_KEY_ID", keys.access_key_id)
        .env("RCLONE_CONFIG_BENCH_SECRET_ACCESS_KEY", keys.secret_access_key)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status();
    assert!(status.expect("rclone runs").success(), "rclone {arguments:?}");
}

/// Runs a text in a directory.
pub(super) fn sh(directory: &Path, text: &str) {
    let status = Command::new("bash").args(["-c", text]).current_dir(directory).status();
    assert!(status.expect("bash runs").success(), "{text}");
}
