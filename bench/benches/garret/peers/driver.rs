//! An interpreter that does a piece of work for each message.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use super::task::Sizes;
use super::{Durability, Peer, scripts};
use crate::search::program;

/// Where `garret mcp` keeps its files.
pub(super) fn home_of_mcp(directory: &Path) -> PathBuf {
    directory.join("mcp")
}

/// A running interpreter. It ends when this is dropped.
pub(super) struct Driver {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Driver {
    /// One that works through the SDK, on a database of its own.
    pub(super) fn agentfs(peer: &Peer, directory: &Path, durability: Durability) -> Self {
        let path = directory.join("agentfs.db");
        let open = json!({"store": "agentfs", "path": path, "synchronous": durability.synchronous()});
        Self::start(peer, open)
    }

    /// One that works through `garret mcp`, on a home of its own.
    pub(super) fn garret(peer: &Peer, directory: &Path) -> Self {
        let (program, home) = (program(), home_of_mcp(directory).join("home"));
        let workspace = super::library::WORKSPACE;
        let made = Command::new(&program)
            .arg("--home")
            .arg(&home)
            .args(["create", workspace])
            .status();
        assert!(made.is_ok_and(|status| status.success()), "the workspace is made");
        let command = json!([program, "--home", home, "mcp", workspace, "--structured"]);
        Self::start(peer, json!({"store": "garret", "command": command}))
    }

    fn start(peer: &Peer, mut open: Value) -> Self {
        let (at, script) = (scripts().join(peer.program), scripts().join(peer.script));
        let interpreter = if at.exists() { at } else { peer.program.into() };
        let mut command = Command::new(interpreter);
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the interpreter starts");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut driver = Self { child, input, output };
        open["do"] = "open".into();
        open["sizes"] = json!(Sizes::wanted());
        driver.send(&open);
        driver.ask("prepare", 0);
        driver
    }

    /// Has a piece of work done.
    pub(super) fn ask(&mut self, work: &str, turn: u32) -> Value {
        self.send(&json!({"do": work, "turn": turn}))
    }

    fn send(&mut self, message: &Value) -> Value {
        let input = self.input.as_mut().expect("it is open until the end");
        writeln!(input, "{message}").expect("the script listens");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the script answers");
        let mut answer: Value = serde_json::from_str(&line).expect("an answer is JSON");
        assert!(answer.get("error").is_none(), "{message}: {}", answer["error"]);
        answer["answer"].take()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The end of its input ends the script, and what the script started.
        self.input = None;
        let _ = self.child.wait();
    }
}
