//! One shape for every result: what a tool answers as data is what `--json` prints for the same operation.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use crate::common::{Room, masked};
use serde_json::{Map, Value, json};

const PATCH: &str = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-two\n+three\n";

/// Each operation as a call of its tool and as a command, in the order in which they are made.
fn operations() -> Vec<(&'static str, &'static str, Value, Vec<&'static str>)> {
    let merge = json!({"from": "try", "on_conflict": "markers"});
    let edit = json!({"path": "a.txt", "old_text": "one", "new_text": "two"});
    vec![
        (
            "write",
            "write_file",
            json!({"path": "a.txt", "content": "one\n"}),
            vec!["write", "a.txt", "one\n"],
        ),
        ("edit", "edit_file", edit, vec!["edit", "a.txt", "one", "two"]),
        (
            "patch_dry_run",
            "apply_patch",
            json!({"diff": PATCH, "dry_run": true}),
            vec!["patch", "--dry-run", "-"],
        ),
        ("patch", "apply_patch", json!({"diff": PATCH}), vec!["patch", "-"]),
        (
            "append",
            "append_file",
            json!({"path": "b.txt", "content": "b"}),
            vec!["append", "b.txt", "b"],
        ),
        ("mkdir", "mkdir", json!({"path": "d"}), vec!["mkdir", "d"]),
        (
            "copy",
            "copy",
            json!({"src": "a.txt", "dest": "d/c.txt"}),
            vec!["cp", "a.txt", "d/c.txt"],
        ),
        (
            "move",
            "move",
            json!({"src": "d/c.txt", "dest": "e.txt"}),
            vec!["mv", "d/c.txt", "e.txt"],
        ),
        ("remove", "rm", json!({"path": "e.txt"}), vec!["rm", "e.txt"]),
        ("read", "read_file", json!({"path": "a.txt"}), vec!["cat", "a.txt"]),
        ("list", "ls", json!({}), vec!["ls"]),
        ("stat", "stat", json!({"path": "a.txt"}), vec!["stat", "a.txt"]),
        ("glob", "glob", json!({"pattern": "*.txt"}), vec!["glob", "*.txt"]),
        ("grep", "grep", json!({"pattern": "thr"}), vec!["grep", "thr"]),
        ("diff", "diff", json!({"from": 1}), vec!["diff", "1"]),
        (
            "versions",
            "history",
            json!({"path": "a.txt", "versions": true}),
            vec!["versions", "a.txt"],
        ),
        (
            "undo_dry_run",
            "undo",
            json!({"dry_run": true}),
            vec!["undo", "--dry-run"],
        ),
        ("undo", "undo", json!({}), vec!["undo"]),
        ("redo", "undo", json!({"what": "redo"}), vec!["redo"]),
        ("history", "history", json!({"limit": 4}), vec!["log", "-n", "4"]),
        (
            "snapshot",
            "snapshot",
            json!({"label": "now1"}),
            vec!["snapshot", "create", "now1"],
        ),
        (
            "run",
            "run",
            json!({"command": "echo out; echo err >&2; echo r > r.txt"}),
            vec!["run", "-c", "echo out; echo err >&2; echo r > r.txt"],
        ),
        (
            "run_code",
            "run_code",
            json!({"language": "bash", "code": "echo out"}),
            vec!["code", "bash", "-c", "echo out"],
        ),
        (
            "restore_dry_run",
            "restore",
            json!({"to": "now1", "dry_run": true}),
            vec!["restore", "--dry-run", "now1"],
        ),
        ("restore", "restore", json!({"to": "now1"}), vec!["restore", "now1"]),
        (
            "restore_nothing",
            "restore",
            json!({"to": "now1"}),
            vec!["restore", "now1"],
        ),
        (
            "branch",
            "branch",
            json!({"name": "try"}),
            vec!["branch", "create", "try"],
        ),
        (
            "list_snapshots",
            "list_snapshots",
            json!({"sizes": true}),
            vec!["snapshot", "list", "--long"],
        ),
        ("merge", "merge", merge, vec!["merge", "try", "--markers"]),
    ]
}

/// Replaces what differs from run to run: ids, times, and measures of a command.
fn mask_value(value: &Value) -> Value {
    match value {
        Value::String(text) => json!(masked(text)),
        Value::Array(items) => items.iter().map(mask_value).collect(),
        Value::Object(object) => {
            let masked = object.iter().map(|(key, value)| {
                let value = match (key.as_str(), value) {
                    ("duration_ms" | "alone_bytes" | "history_bytes" | "database_bytes", _) => json!("NUMBER"),
                    ("usage", _) => json!("USAGE"),
                    ("not_enforced", _) => json!("GUARDS"),
                    // It tells how long the command took.
                    ("summary", Value::String(text)) => json!(text.split(": exit").next()),
                    (_, value) => mask_value(value),
                };
                (key.clone(), value)
            });
            Value::Object(masked.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

#[test]
fn a_tool_and_its_command_give_the_same_data() {
    let (by_tool, by_command) = (Room::new(), Room::new());
    for room in [&by_tool, &by_command] {
        room.run(&["create", "box", "--capability", "fs,shell,code,snapshot"])
            .done();
    }
    let mut all = Map::new();
    for (name, tool, arguments, command) in operations() {
        if name == "merge" {
            for room in [&by_tool, &by_command] {
                room.run(&["-w", "try", "write", "b.txt", "theirs"]).done();
            }
        }
        let told = by_tool
            .run(&["-w", "box", "call", tool, &arguments.to_string(), "--json"])
            .data();
        let printed = by_command
            .run_with(
                &[&["--json", "-w", "box"], command.as_slice()].concat(),
                PATCH.as_bytes(),
            )
            .data();
        let (told, printed) = (mask_value(&told), mask_value(&printed));
        assert_eq!(told, printed, "{name}");
        all.insert(name.to_owned(), told);
    }
    insta::assert_snapshot!("results", serde_json::to_string_pretty(&all).unwrap());
}

#[test]
fn each_command_of_the_home_prints_its_result() {
    let room = Room::new();
    let mut all = Map::new();
    let mut print = |name: &str, command: &[&str]| {
        let printed = room.run(&[&["--json"], command].concat()).data();
        all.insert(name.to_owned(), mask_value(&printed));
    };
    print("create", &["create", "box"]);
    for turn in ["one", "two"] {
        room.run(&["-w", "box", "write", "a.txt", turn]).done();
    }
    room.run(&["-w", "box", "snapshot", "create", "before"]).done();
    room.run(&["-w", "box", "branch", "create", "try"]).done();
    print("branch_list", &["-w", "box", "branch", "list", "--long"]);
    print("keep", &["keep", "box", "1"]);
    print("capabilities", &["capabilities", "box", "fs,snapshot,shell"]);
    print("rename", &["rename", "box", "notes"]);
    print("delete", &["delete", "try"]);
    print("list", &["list", "--all"]);
    print("recover", &["recover", "try"]);
    print("usage", &["usage"]);
    print("usage_of_one", &["usage", "notes"]);
    print("branch_delete", &["-w", "notes", "branch", "delete", "try"]);
    print("gc_dry_run", &["gc", "--dry-run", "--grace", "0s"]);
    print("gc", &["gc", "--grace", "0s"]);
    print("fsck", &["fsck"]);
    insta::assert_snapshot!("home_results", serde_json::to_string_pretty(&all).unwrap());
}

#[test]
fn the_data_of_a_list_is_not_much_longer_than_its_text() {
    let room = Room::new();
    for number in 0..300 {
        room.put(&format!("w/file-{number:03}.txt"), "x");
    }
    let listed = room.run(&["-w", "local:w", "call", "ls", "{}", "--json"]).json();
    let text = listed["text"].as_str().unwrap().len();
    let data = listed["data"].to_string().len();
    assert_eq!(listed["data"]["entries"].as_array().unwrap().len(), 300);
    assert!(data <= 3 * text, "{data} bytes of data for {text} of text");
}
