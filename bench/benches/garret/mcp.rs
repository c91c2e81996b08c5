//! One call over the Model Context Protocol, beside a server on the same library whose tool does nothing.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::measure::{Line, compare};
use crate::search::program;

const CALLS: u32 = 500;
const ROUNDS: usize = 9;

pub(crate) fn lines() -> Vec<Line> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("f.txt"), "x".repeat(100)).expect("it is written");
    let mut empty = Client::start(Command::new(env!("CARGO_BIN_EXE_empty-mcp")), directory.path());
    let mut command = Command::new(program());
    command.args(["mcp", "."]);
    let mut garret = Client::start(command, directory.path());
    let calls = |client: &mut Client, name: &str| (0..CALLS).for_each(|_| client.call(name, json!({"path": "f.txt"})));
    let measured = ["exists", "read_file"].map(|tool| {
        let (floor, garret) = compare(ROUNDS, || calls(&mut empty, "empty"), || calls(&mut garret, tool));
        let what = format!("MCP call of `{tool}`");
        Line {
            what,
            floor_name: "an empty tool on the same library",
            aim: "≤ 100 µs more",
            floor,
            garret,
            operations: CALLS,
        }
    });
    measured.into()
}

/// A client that waits for each answer.
pub(crate) struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    number: u64,
}

impl Client {
    pub(crate) fn start(mut command: Command, directory: &Path) -> Self {
        let command = command
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut client = Self {
            child,
            input,
            output,
            number: 0,
        };
        let client_info = json!({"name": "bench", "version": "0"});
        client.request(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client_info}),
        );
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn call(&mut self, name: &str, arguments: Value) {
        let answer = self.request("tools/call", json!({"name": name, "arguments": arguments}));
        assert!(
            answer["result"]["content"].is_array() && answer["result"]["isError"] != true,
            "{answer}"
        );
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        serde_json::from_str(&self.answer_line(method, params)).expect("an answer is JSON")
    }

    /// The line with which the server answers.
    pub(crate) fn answer_line(&mut self, method: &str, params: Value) -> String {
        self.number += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}));
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the server answers");
        line
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").expect("the server listens");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
