//! `garret mcp` with the real clients, and with a pipe where the bytes themselves matter.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test may be told where Python is")]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::common::{GARRET, Room, repository};
use serde_json::{Value, json};

/// A client that writes lines into a pipe and reads lines out of it.
struct Pipe {
    server: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Pipe {
    fn open(room: &Room, arguments: &[&str]) -> Self {
        let mut server = room
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(server.stdout.take().unwrap());
        let mut pipe = Self { server, lines };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "pipe", "version": "1"}});
        pipe.send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}));
        assert_eq!(pipe.next()["result"]["serverInfo"]["name"], "garret");
        pipe.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        pipe
    }

    fn send(&mut self, message: Value) {
        writeln!(self.server.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("standard output carries only the protocol: {line:?}"))
    }

    fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answer = self.next();
        assert_eq!(answer["id"], id);
        answer
    }

    fn call(&mut self, id: u64, tool: &str, arguments: Value) -> Value {
        self.ask(id, "tools/call", json!({"name": tool, "arguments": arguments}))["result"].clone()
    }

    /// Closes the pipe; what the server wrote to standard error.
    fn close(mut self) -> String {
        drop(self.server.stdin.take());
        let output = self.server.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn a_whole_session_over_a_pipe() {
    let room = Room::new();
    let mut pipe = Pipe::open(&room, &["mcp", "memory:"]);
    assert_eq!(pipe.ask(1, "ping", json!({}))["result"], json!({}));
    let tools = pipe.ask(2, "tools/list", json!({}))["result"]["tools"].clone();
    assert_eq!(tools.as_array().unwrap().len(), 23);
    let written = pipe.call(3, "write_file", json!({"path": "a", "content": "one\n"}));
    assert_eq!(written["isError"], false);
    let read = pipe.call(4, "read_file", json!({"path": "a"}));
    assert_eq!(
        (&read["content"][0]["text"], read.get("structuredContent")),
        (&json!("     1\tone"), None)
    );
    let missing = pipe.call(5, "read_file", json!({"path": "b"}));
    assert_eq!(
        (&missing["isError"], &missing["_meta"]["garret/error"]["kind"]),
        (&json!(true), &json!("not_found"))
    );
    let unknown = pipe.ask(6, "tools/call", json!({"name": "reed_file", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602);
    let error = &pipe.ask(7, "no/such/method", json!({}))["error"];
    assert_eq!(
        (&error["code"], &error["message"]),
        (&json!(-32601), &json!("Method not found: no/such/method"))
    );
    for (id, arguments) in (8..).zip([json!([]), json!("path"), json!(3)]) {
        let wrong = pipe.ask(id, "tools/call", json!({"name": "read_file", "arguments": arguments}));
        assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
        assert!(
            wrong["error"]["message"].as_str().unwrap().contains("an object"),
            "{wrong}"
        );
    }
    assert_eq!(
        pipe.ask(11, "tools/call", json!({"arguments": {}}))["error"]["code"],
        -32602
    );
    assert_eq!(pipe.close(), "");
}

#[test]
fn what_is_not_listed_cannot_be_called() {
    let room = Room::new();
    room.put(
        "garret.toml",
        "[workspaces.bare]\nstorage = 'local:.'\ncapabilities = { fs = false }\n",
    );
    let mut pipe = Pipe::open(&room, &["mcp", "bare"]);
    assert_eq!(pipe.ask(1, "tools/list", json!({}))["result"]["tools"], json!([]));
    assert_eq!(
        pipe.ask(
            2,
            "tools/call",
            json!({"name": "read_file", "arguments": {"path": "garret.toml"}})
        )["error"]["code"],
        -32602
    );
    let mut named = Pipe::open(&room, &["mcp", ".", "--naming", "short"]);
    assert_eq!(
        named.ask(
            1,
            "tools/call",
            json!({"name": "read_file", "arguments": {"path": "garret.toml"}})
        )["error"]["code"],
        -32602
    );
    assert_eq!(named.call(2, "read", json!({"path": "garret.toml"}))["isError"], false);
}

#[test]
fn only_the_tools_that_are_selected_are_listed_and_called() {
    let room = Room::new();
    room.put("a", "x");
    let mut pipe = Pipe::open(&room, &["mcp", ".", "--tools", "read_file,undo"]);
    let tools = pipe.ask(1, "tools/list", json!({}))["result"]["tools"].clone();
    let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["read_file", "undo"]);
    let call = json!({"name": "rm", "arguments": {"path": "a"}});
    let refused = pipe.ask(2, "tools/call", call)["error"].clone();
    assert_eq!(refused["code"], -32602);
    assert!(
        refused.to_string().contains("not among the selected tools"),
        "{refused}"
    );
    assert_eq!(pipe.call(3, "read_file", json!({"path": "a"}))["isError"], false);
    assert_eq!(pipe.close(), "");
    assert_eq!(room.get("a"), b"x");
    let wrong = room.run(&["mcp", ".", "--tools", "read_fil"]);
    assert_eq!(wrong.misused(), "invalid");
    assert!(wrong.err().contains("did you mean `read_file`?"), "{}", wrong.err());
    assert_eq!(room.run(&["mcp", ".", "--tools", "run"]).misused(), "invalid");
}

#[test]
fn undo_by_tool_call_takes_the_id_that_the_model_knows() {
    let room = Room::new();
    let mut pipe = Pipe::open(&room, &["mcp"]);
    for (id, (key, call)) in (1..).zip([("claudecode/toolUseId", "toolu_01"), ("garret/toolCallId", "call_02")]) {
        let arguments = json!({"path": call, "content": "x"});
        let params = json!({"name": "write_file", "arguments": arguments, "_meta": {key: call}});
        assert_eq!(pipe.ask(id, "tools/call", params)["result"]["isError"], false);
    }
    let undone = pipe.call(3, "undo", json!({"what": "tool_call", "id": "toolu_01"}));
    assert_eq!(undone["isError"], false, "{undone}");
    assert_eq!(pipe.close(), "");
    assert_eq!(room.run(&["ls"]).done(), "call_02\n");
    room.run(&["undo", "--tool-call", "call_02"]).done();
    assert_eq!(room.run(&["ls"]).done(), "");
}

#[test]
fn absolute_paths_of_the_host_name_files_of_the_workspace() {
    let room = Room::new();
    room.put("src/a.txt", "one\n");
    let host = |path: &str| room.path().join(path).to_str().unwrap().to_owned();
    let mut pipe = Pipe::open(&room, &["mcp", ".", "--shell"]);
    let mut done = |id, tool: &str, arguments: Value| {
        let answer = pipe.call(id, tool, arguments);
        let text = answer["content"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(answer["isError"], false, "{text}");
        // A command runs at the path of the host, and what it prints is its own.
        let names_host = text.contains(room.path().to_str().unwrap());
        assert_eq!(names_host, tool == "run", "{text}");
        text
    };
    assert_eq!(done(1, "read_file", json!({"path": host("src/a.txt")})), "     1\tone");
    done(2, "write_file", json!({"path": host("src/b.txt"), "content": "two\n"}));
    done(
        3,
        "edit_file",
        json!({"path": host("src/b.txt"), "old_text": "two", "new_text": "three"}),
    );
    let name = host("src/b.txt");
    let patch = format!("--- {name}\n+++ {name}\n@@ -1 +1 @@\n-three\n+four\n");
    done(4, "apply_patch", json!({"diff": patch}));
    assert!(done(5, "glob", json!({"pattern": host("src/*.txt")})).starts_with("src/a.txt\nsrc/b.txt"));
    assert!(done(6, "grep", json!({"pattern": "four", "path": host("src")})).starts_with("src/b.txt:1:four"));
    let directory = format!("{}\n", host("src"));
    assert!(done(7, "run", json!({"command": "pwd", "cwd": host("src")})).starts_with(&directory));
    assert!(done(8, "history", json!({"path": host("src/b.txt")})).contains("src/b.txt"));
    let refused = pipe.call(9, "write_file", json!({"path": "/home/me/proj/x", "content": "x"}));
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(
        refused["isError"] == true && text.starts_with("path_escape") && text.contains("leading slash"),
        "{text}"
    );
    assert_eq!(pipe.close(), "");
    assert_eq!(room.run(&["ls"]).done(), "src/\n");
    assert_eq!(room.run(&["cat", &host("src/b.txt")]).done(), "four\n");
}

#[test]
fn a_damaged_message_is_answered_over_a_pipe() {
    let room = Room::new();
    let mut pipe = Pipe::open(&room, &["mcp", "memory:"]);
    let input = pipe.server.stdin.as_mut().unwrap();
    input
        .write_all(b"{\"method\":\"ping\",\"x\":\"\xff\",\"id\":1}\n")
        .unwrap();
    let answer = pipe.next();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32700)));
    let long = "x".repeat(65 << 20);
    pipe.send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "write_file", "arguments": {"path": "a", "content": long}}}));
    let answer = pipe.next();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(2), &json!(-32600)));
    let large = "x".repeat(17 << 20);
    let written = pipe.call(3, "write_file", json!({"path": "a", "content": large}));
    assert_eq!(written["isError"], false, "more than the SDK's own limit passes");
    assert_eq!(pipe.close(), "");
}

#[test]
fn a_read_only_server_offers_no_tool_that_changes_files() {
    let room = Room::new();
    room.put("a", "x");
    let mut pipe = Pipe::open(&room, &["mcp", "--read-only"]);
    let tools = pipe.ask(1, "tools/list", json!({}))["result"]["tools"].clone();
    let names: Vec<_> = tools
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].clone())
        .collect();
    let read = [
        "read_file",
        "ls",
        "glob",
        "grep",
        "stat",
        "exists",
        "history",
        "diff",
        "list_snapshots",
    ];
    assert_eq!(names, read.map(|name| json!(name)));
    let call = |name| json!({"name": name, "arguments": {"path": "a", "content": "y"}});
    let refused = pipe.ask(2, "tools/call", call("write_file"))["error"]["message"].clone();
    assert_eq!(refused, "Unknown tool: write_file (the files are read-only)");
    let refused = pipe.ask(3, "tools/call", call("run"))["error"]["message"].clone();
    let hint = "declare `shell` for the workspace, or start the server with --shell";
    assert_eq!(refused, json!(format!("Unknown tool: run ({hint})")));
    assert_eq!(room.get("a"), b"x");
    let selected = room.run(&["mcp", "--tools", "read_file,run"]);
    assert_eq!(selected.misused(), "invalid");
    assert!(selected.err().contains(hint), "{}", selected.err());
}

#[test]
fn what_is_excluded_is_not_written_by_tools_and_a_mount_needs_commands() {
    let room = Room::new();
    let mut pipe = Pipe::open(&room, &["mcp", "--exclude", "target/"]);
    let refused = pipe.call(1, "write_file", json!({"path": "target/a", "content": "x"}));
    assert_eq!(refused["isError"], true, "{refused}");
    let written = pipe.call(2, "write_file", json!({"path": "src/a", "content": "x"}));
    assert_eq!(written["isError"], false, "{written}");
    let refused = room.run(&["mcp", "--mount", "/usr/share:/data"]);
    assert_eq!(refused.failed(), "denied");
}

#[test]
fn events_of_a_session_name_client_and_call() {
    let room = Room::new();
    let mut pipe = Pipe::open(&room, &["mcp", "--events", "jsonl"]);
    pipe.call(41, "exists", json!({"path": "a"}));
    let event: Value = serde_json::from_str(pipe.close().trim()).unwrap();
    let session = &event["actor"]["session"];
    assert!(session.as_str().is_some_and(|session| session.len() == 12), "{event}");
    assert_eq!(
        event["actor"],
        json!({"agent": "pipe", "session": session, "tool_call": "41", "door": "mcp"})
    );
}

#[test]
fn each_connection_is_a_session_of_its_own() {
    let room = Room::new();
    for name in ["one", "two"] {
        let mut pipe = Pipe::open(&room, &["mcp"]);
        for id in [1, 2] {
            let arguments = json!({"path": format!("{name}{id}"), "content": "x"});
            assert_eq!(pipe.call(id, "write_file", arguments)["isError"], false);
        }
        assert_eq!(pipe.close(), "");
    }
    let log = room.run(&["log", "--json"]).data();
    let changes = log["changes"].as_array().unwrap().iter();
    let sessions: Vec<_> = changes
        .map(|change| change["actor"]["session"].as_str().unwrap())
        .collect();
    assert!(sessions[0] == sessions[1] && sessions[2] == sessions[3] && sessions[0] != sessions[2]);
    assert!(room.run(&["log"]).done().contains(sessions[0]));
    let refused = room.run(&["undo", "--tool-call", "2"]);
    assert_eq!(refused.failed(), "invalid");
    assert!(refused.err().contains(sessions[0]) && refused.err().contains(sessions[2]));
    room.run(&["undo", "--tool-call", "2", "--session", sessions[2]]).done();
    assert_eq!(room.run(&["ls"]).done(), "one1\ntwo1\ntwo2\n");
    let mut pipe = Pipe::open(&room, &["mcp"]);
    pipe.call(1, "write_file", json!({"path": "three", "content": "x"}));
    assert_eq!(pipe.call(2, "undo", json!({"what": "session"}))["isError"], false);
    assert_eq!(pipe.close(), "");
    assert_eq!(room.run(&["ls"]).done(), "one1\ntwo1\ntwo2\n");
}

#[test]
fn calls_under_way_are_answered_when_the_client_stops_writing() {
    let room = Room::new();
    let mut pipe = Pipe::open(&room, &["mcp"]);
    for id in 1..=20 {
        pipe.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "append_file", "arguments": {"path": "log", "content": "x"}}}));
    }
    drop(pipe.server.stdin.take());
    let answers: Vec<Value> = (1..=20).map(|_| pipe.next()).collect();
    assert!(
        answers.iter().all(|answer| answer["result"]["isError"] == false),
        "{answers:?}"
    );
    assert_eq!(room.get("log").len(), 20);
    assert!(pipe.server.wait().unwrap().success());
}

/// The text of a stream in an answer.
fn text<'a>(answer: &'a Value, stream: &str) -> &'a Value {
    &answer["structuredContent"][stream]
}

#[test]
fn code_runs_in_every_language() {
    let room = Room::new();
    let mut pipe = Pipe::open(&room, &["mcp", "--code", "--structured"]);
    let tools = pipe.ask(1, "tools/list", json!({}))["result"]["tools"].clone();
    let names: Vec<_> = tools.as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert!(names.contains(&&json!("run_code")), "{names:?}");
    assert!(
        !names.contains(&&json!("create_code_context")),
        "nobody declared contexts"
    );
    let pieces = [
        ("python", "open('py', 'w').write('p')\nprint('out')\n6 * 7"),
        (
            "javascript",
            "require('fs').writeFileSync('js', 'j'); console.log('out'); 6 * 7",
        ),
        ("bash", "echo -n b > sh; echo out; echo err >&2; exit 3"),
    ];
    for (id, (language, code)) in (2..).zip(pieces) {
        let ran = pipe.call(id, "run_code", json!({"language": language, "code": code}));
        assert_eq!(
            (&ran["isError"], text(&ran, "stdout")),
            (&json!(false), &json!("out\n")),
            "{ran}"
        );
        let data = &ran["structuredContent"];
        match language {
            "bash" => assert_eq!((&data["exit_code"], text(&ran, "stderr")), (&json!(3), &json!("err\n"))),
            _ => assert_eq!(data["result"], json!({"repr": "42", "json": 42}), "{ran}"),
        }
        assert_eq!(data["created_count"], 1, "{ran}");
        let shown = ran["content"][0]["text"].as_str().unwrap();
        assert!(shown.contains("out"), "{shown}");
    }
    assert_eq!(
        (room.get("py"), room.get("js"), room.get("sh")),
        (b"p".to_vec(), b"j".to_vec(), b"b".to_vec())
    );
    let wrong = pipe.call(9, "run_code", json!({"language": "python", "code": "1 / 0"}));
    assert_eq!(
        (&wrong["isError"], &wrong["structuredContent"]["error"]["type"]),
        (&json!(false), &json!("ZeroDivisionError"))
    );
    assert_eq!(pipe.close(), "");
}

#[test]
fn contexts_keep_their_state_between_calls_and_a_dead_one_says_so() {
    let room = Room::new();
    room.put(
        "garret.toml",
        "[workspaces.lab]\nstorage = 'local:lab'\n[workspaces.lab.capabilities]\nfs = true\ncode = { is_stateful = true }\n",
    );
    room.trust();
    room.put("lab/in", "40");
    let mut pipe = Pipe::open(&room, &["mcp", "lab", "--structured"]);
    let mut contexts = Vec::new();
    for (id, language) in (1..).zip(["python", "javascript", "bash"]) {
        let made = pipe.call(id, "create_code_context", json!({"language": language}));
        assert_eq!(
            (&made["isError"], &made["structuredContent"]["running"]),
            (&json!(false), &json!(true)),
            "{made}"
        );
        contexts.push(made["structuredContent"]["id"].clone());
    }
    let pieces = [
        ("number = int(open('in').read())", "number + 2", "json"),
        (
            "globalThis.number = Number(require('fs').readFileSync('in'))",
            "number + 2",
            "json",
        ),
        ("number=$(cat in)", "echo $((number + 2))", "stdout"),
    ];
    for (at, (first, second, found)) in pieces.into_iter().enumerate() {
        let run = |pipe: &mut Pipe, id, code| {
            let answer = pipe.call(
                id,
                "run_in_code_context",
                json!({"context": contexts[at], "code": code}),
            );
            assert_eq!(answer["isError"], false, "{answer}");
            answer
        };
        run(&mut pipe, 10 + at as u64, first);
        let answer = run(&mut pipe, 20 + at as u64, second);
        match found {
            "json" => assert_eq!(answer["structuredContent"]["result"]["json"], 42, "{answer}"),
            _ => assert_eq!(text(&answer, "stdout"), "42\n", "{answer}"),
        }
    }
    let last = pipe.call(
        30,
        "run_in_code_context",
        json!({"context": contexts[0], "code": "import os; os._exit(9)"}),
    );
    assert_eq!(
        (&last["isError"], &last["structuredContent"]["context_ended"]),
        (&json!(false), &json!("exit 9")),
        "{last}"
    );
    assert!(
        last["content"][0]["text"].as_str().unwrap().contains("context"),
        "{last}"
    );
    let late = pipe.call(
        31,
        "run_in_code_context",
        json!({"context": contexts[0], "code": "number"}),
    );
    assert_eq!(
        (&late["isError"], &late["_meta"]["garret/error"]["kind"]),
        (&json!(true), &json!("not_found")),
        "{late}"
    );
    assert!(
        late["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("has ended: exit 9"),
        "{late}"
    );
    let other = pipe.call(
        32,
        "run_in_code_context",
        json!({"context": contexts[1], "code": "number"}),
    );
    assert_eq!(
        other["structuredContent"]["result"]["json"], 40,
        "the others live on: {other}"
    );
    let gone = pipe.call(33, "delete_code_context", json!({"context": contexts[1]}));
    assert_eq!(gone["structuredContent"]["running"], false, "{gone}");
    assert_eq!(pipe.close(), "");
}

#[test]
fn a_workspace_given_twice_is_wrong_usage() {
    let room = Room::new();
    assert_eq!(room.run(&["-w", "memory:", "mcp", "memory:"]).misused(), "invalid");
    assert_eq!(room.run(&["mcp", "nowhere"]).misused(), "invalid");
}

/// A program that scripts/setup-tests brings.
fn client(path: &str) -> PathBuf {
    let program = repository().join(path);
    assert!(
        program.exists(),
        "{path} is missing: run scripts/setup-tests, which brings the MCP clients"
    );
    program
}

fn run_client(mut command: Command, room: &Room) -> String {
    // The clients pass on HOME and little else.
    let command = command.env("HOME", room.home()).env("GARRET_HOME", room.home());
    let output = command.current_dir(room.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

#[test]
fn the_official_python_client_is_served() {
    let room = Room::new();
    let python = std::env::var_os("GARRET_TEST_PYTHON").map_or_else(|| client(".venv/bin/python"), PathBuf::from);
    let mut command = Command::new(python);
    command
        .arg(client("tests/mcp-python/client.py"))
        .arg(GARRET)
        .arg(room.path());
    assert!(run_client(command, &room).contains("the Python client is content"));
}

/// A Python that has the Claude Agent SDK. The package brings a client of several hundred megabytes, so nothing installs it for the tests.
fn python_with_claude() -> Option<PathBuf> {
    let named = std::env::var_os("GARRET_TEST_CLAUDE_PYTHON").map(PathBuf::from);
    let known = [repository().join(".venv/bin/python"), PathBuf::from("python3")];
    let has_sdk = |python: &PathBuf| {
        let import = Command::new(python).args(["-c", "import claude_agent_sdk"]).output();
        import.is_ok_and(|output| output.status.success())
    };
    named.into_iter().chain(known).find(has_sdk)
}

#[test]
fn the_client_of_the_claude_agent_sdk_shows_the_model_our_text() {
    let Some(python) = python_with_claude() else {
        eprintln!(
            "not run: no Python here has the package claude-agent-sdk; install it in a virtual environment and name that one's Python in \
             GARRET_TEST_CLAUDE_PYTHON"
        );
        return;
    };
    let room = Room::new();
    let mut command = Command::new(python);
    command
        .arg(client("tests/mcp-python/claude_agent.py"))
        .arg(GARRET)
        .arg(room.path());
    assert!(run_client(command, &room).contains("the client of the Claude Agent SDK is content"));
}

#[test]
fn the_official_typescript_client_is_served() {
    let room = Room::new();
    client("tests/mcp-node/node_modules/@modelcontextprotocol/sdk");
    let mut command = Command::new("node");
    command
        .arg(client("tests/mcp-node/client.js"))
        .arg(GARRET)
        .arg(room.path());
    assert!(run_client(command, &room).contains("the TypeScript client is content"));
}

#[test]
fn the_inspector_lists_and_calls() {
    let room = Room::new();
    room.put("a.txt", "inspected\n");
    let inspect = |arguments: &[&str]| {
        let mut command = Command::new(client("tests/mcp-node/node_modules/.bin/mcp-inspector"));
        command.args(["--cli", GARRET, "mcp"]).arg(room.path()).args(arguments);
        serde_json::from_str::<Value>(&run_client(command, &room)).unwrap()
    };
    assert_eq!(
        inspect(&["--method", "tools/list"])["tools"].as_array().unwrap().len(),
        23
    );
    let read = inspect(&[
        "--method",
        "tools/call",
        "--tool-name",
        "read_file",
        "--tool-arg",
        "path=a.txt",
    ]);
    assert_eq!(read["content"][0]["text"], "     1\tinspected");
}

#[test]
fn a_command_beside_a_process_sees_what_another_program_wrote_and_its_work_is_kept() {
    let room = Room::new();
    room.put("dir/old", "old\n");
    for (name, storage) in [("depot", "filestore"), ("place", "local:dir")] {
        let create = [
            "create",
            name,
            "--storage",
            storage,
            "--capability",
            "fs,shell,snapshot",
        ];
        room.run(&create).done();
        let mut pipe = Pipe::open(&room, &["-w", name, "mcp", "--structured"]);
        pipe.call(1, "start", json!({"command": "sleep 1000"}));
        let ran = pipe.call(2, "run", json!({"command": "cat d"}));
        assert_eq!(ran["structuredContent"]["exit_code"], 1, "{ran}");
        room.run(&["-w", name, "write", "d", "4\n"]).done();
        let ran = pipe.call(3, "run", json!({"command": "cat d; echo more >> d"}));
        let told = &ran["structuredContent"];
        assert_eq!(told["stdout"], "4\n", "{name}: {ran}");
        assert_eq!(told["branch"], Value::Null, "{name}: {ran}");
        assert_eq!(room.run(&["-w", name, "cat", "d"]).done(), "4\nmore\n", "{name}");
        assert_eq!(pipe.close(), "");
    }
}
