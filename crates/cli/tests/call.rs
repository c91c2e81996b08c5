//! `garret call`: the one shape, on every storage, for every file tool.

#![allow(
    clippy::disallowed_methods,
    reason = "tests run programs and look at the directory from outside"
)]
#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use crate::common::{Ran, Room};
use serde_json::{Value, json};

const TOOLS: [&str; 14] = [
    "read_file",
    "write_file",
    "append_file",
    "edit_file",
    "apply_patch",
    "ls",
    "glob",
    "grep",
    "stat",
    "exists",
    "mkdir",
    "rm",
    "copy",
    "move",
];

fn call(room: &Room, workspace: &str, tool: &str, arguments: Value) -> Ran {
    room.run(&["-w", workspace, "call", tool, &arguments.to_string(), "--json"])
}

/// The four keys, and nothing in `data` and `error` at once.
fn check_shape(ran: &Ran) -> Value {
    let object = ran.json();
    let keys: Vec<_> = object.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["ok", "text", "data", "error"]);
    let ok = object["ok"].as_bool().unwrap();
    assert_eq!(ran.code(), i32::from(!ok), "{object}");
    assert_eq!(
        (object["data"].is_null(), object["error"].is_null()),
        (!ok, ok),
        "{object}"
    );
    assert!(object["text"].is_string());
    if !ok {
        for key in ["kind", "message", "hint", "path"] {
            assert!(object["error"].get(key).is_some(), "{key}: {object}");
        }
    }
    object
}

#[test]
fn the_example_of_the_readme_works() {
    let room = Room::new();
    let ran = room.run(&[
        "-w",
        "memory:",
        "call",
        "write_file",
        r#"{"path":"a.txt","content":"hi"}"#,
        "--json",
    ]);
    let object = check_shape(&ran);
    assert_eq!(
        (&object["data"]["path"], &object["data"]["size"]),
        (&json!("a.txt"), &json!(2))
    );
}

#[test]
fn every_file_tool_answers_on_local() {
    let room = Room::new();
    room.put("w/a.txt", "one\ntwo\n");
    let done = |tool: &str, arguments: Value| {
        let object = check_shape(&call(&room, "local:w", tool, arguments));
        assert_eq!(object["ok"], true, "{tool}: {object}");
        object["data"].clone()
    };
    let has = |data: &Value, keys: &[&str]| {
        keys.iter()
            .for_each(|key| assert!(data.get(key).is_some(), "{key} in {data}"))
    };
    has(
        &done("read_file", json!({"path": "a.txt"})),
        &["path", "content", "encoding", "version", "size", "eof"],
    );
    has(
        &done("read_file", json!({"path": "a.txt", "offset": 0, "limit": 1})),
        &["range", "next_offset"],
    );
    has(
        &done("write_file", json!({"path": "b.txt", "content": "x"})),
        &["path", "version", "size", "created"],
    );
    has(
        &done("append_file", json!({"path": "b.txt", "content": "y"})),
        &["path", "version", "size"],
    );
    has(
        &done("edit_file", json!({"path": "b.txt", "oldText": "xy", "newText": "z"})),
        &["path", "version", "size", "replacements"],
    );
    let diff = "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-z\n\\ No newline at end of file\n+w\n";
    assert_eq!(
        done("apply_patch", json!({"diff": diff}))["files"][0]["status"],
        "modified"
    );
    has(&done("ls", json!({}))["entries"][0], &["path", "type", "size"]);
    assert_eq!(
        done("glob", json!({"pattern": "*.txt"}))["paths"],
        json!(["a.txt", "b.txt"])
    );
    let found = done("grep", json!({"pattern": "^t"}));
    has(
        &found,
        &["matches", "match_count", "file_count", "skipped", "truncated"],
    );
    assert_eq!(
        found["matches"][0],
        json!({"path": "a.txt", "line_number": 2, "line": "two"})
    );
    has(
        &done("stat", json!({"path": "a.txt"})),
        &["path", "type", "size", "mode", "created_at", "modified_at", "version"],
    );
    assert_eq!(done("exists", json!({"path": "nothing"}))["exists"], false);
    done("mkdir", json!({"path": "d/e"}));
    done("copy", json!({"src": "a.txt", "dest": "d/a.txt"}));
    done("move", json!({"src": "d/a.txt", "dest": "d/b.txt"}));
    done("rm", json!({"path": "d", "recursive": true}));
}

#[test]
fn every_file_tool_answers_on_memory() {
    let room = Room::new();
    for tool in TOOLS {
        check_shape(&call(
            &room,
            "memory:",
            tool,
            json!({"path": "a", "src": "a", "dest": "b"}),
        ));
    }
    assert_eq!(call(&room, "memory:", "ls", json!({})).data()["entries"], json!([]));
    assert_eq!(
        call(&room, "memory:", "read_file", json!({"path": "a"})).failed(),
        "not_found"
    );
}

#[test]
fn arguments_come_from_the_command_line_from_a_pipe_or_from_a_file() {
    let room = Room::new();
    let arguments = br#"{"path": "a", "content": "hi"}"#;
    room.put("arguments.json", arguments);
    assert_eq!(
        room.run_with(&["call", "write_file", "-", "--json"], arguments).data()["size"],
        2
    );
    assert_eq!(
        room.run(&["call", "write_file", "@arguments.json", "--json"]).data()["size"],
        2
    );
    assert_eq!(
        room.run(&["call", "ls", "--json"]).code(),
        0,
        "no arguments are an empty object"
    );
}

#[test]
fn json_that_does_not_parse_is_wrong_usage() {
    let room = Room::new();
    assert_eq!(room.run(&["call", "ls", "{not json", "--json"]).misused(), "invalid");
    assert_eq!(room.run(&["call", "ls", "{not json"]).misused(), "invalid");
    assert_eq!(room.run(&["call"]).code(), 2);
}

#[test]
fn a_wrong_argument_or_tool_is_an_answer() {
    let room = Room::new();
    let wrong = call(&room, "memory:", "read_file", json!({"pth": "a"}));
    check_shape(&wrong);
    assert!(wrong.json()["error"]["hint"].as_str().unwrap().contains("path"));
    let unknown = call(&room, "memory:", "read_fil", json!({}));
    check_shape(&unknown);
    assert!(
        unknown.json()["error"]["hint"]
            .as_str()
            .unwrap()
            .contains("did you mean `read_file`?")
    );
}

#[test]
fn a_tool_is_called_by_its_configured_or_canonical_name() {
    let room = Room::new();
    room.put(
        "garret.toml",
        "[workspaces.box]\nstorage = 'memory:'\ntools = { naming = 'prefixed' }\n",
    );
    assert_eq!(
        room.run(&["-w", "box", "call", "workspace__box__ls", "--json"]).code(),
        0
    );
    assert_eq!(room.run(&["-w", "box", "call", "ls", "--json"]).code(), 0);
}

#[test]
fn a_failed_call_prints_its_reason_for_a_person() {
    let room = Room::new();
    let ran = room.run(&["call", "read_file", r#"{"path": "../x"}"#]);
    assert_eq!(ran.failed(), "path_escape");
    assert_eq!(
        ran.err(),
        "error: path_escape: `../x` leads outside the workspace\n  hint: use a path inside the workspace\n"
    );
}

#[test]
fn tools_are_listed_and_exported() {
    let room = Room::new();
    let listed = room.run(&["-w", "memory:", "tools"]);
    TOOLS
        .iter()
        .for_each(|tool| assert!(listed.done().lines().any(|line| line.starts_with(tool)), "{tool}"));
    let export = |format: &str| {
        serde_json::from_str::<Value>(room.run(&["-w", "memory:", "tools", "--format", format]).done()).unwrap()
    };
    assert_eq!(export("openai")[0]["type"], "function");
    assert!(export("anthropic")[0]["input_schema"].is_object());
    assert!(export("mcp")[0]["inputSchema"].is_object());
    assert!(export("json-schema")["read_file"].is_object());
    let short = room
        .run(&["-w", "memory:", "tools", "--naming", "short", "--json"])
        .data();
    assert!(
        short["tools"]
            .as_array()
            .unwrap()
            .iter()
            .any(|tool| tool["name"] == "read")
    );
}
