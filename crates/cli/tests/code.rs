//! `garret code`: a piece of code from an argument, a file or standard input, and what comes of it.

#![allow(
    clippy::disallowed_methods,
    reason = "tests run programs and look at the directory from outside"
)]
#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use crate::common::Room;
use serde_json::json;

/// A directory with a workspace whose code can run.
fn room() -> Room {
    let room = Room::new();
    room.put(
        "garret.toml",
        "[workspaces.lab]\nstorage = 'local:lab'\ncapabilities = { fs = true, code = true }\n",
    );
    room.put("lab/in.txt", "21");
    room
}

#[test]
fn code_prints_its_output_then_its_value_and_is_undone() {
    let room = room();
    let code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nopen('a.txt', 'w').write('x')\n2 * int(open('in.txt').read())";
    let ran = room.run(&["-w", "lab", "code", "python", "-c", code]);
    assert_eq!((ran.code(), ran.out(), ran.err()), (0, "out\n42\n", "err\n"));
    assert_eq!(room.get("lab/a.txt"), b"x");
    assert_eq!(room.run(&["-w", "lab", "undo"]).code(), 0);
    assert!(!room.path().join("lab/a.txt").exists());
}

#[test]
fn the_exit_code_of_code_is_passed_through() {
    let room = room();
    let ran = room.run(&["-w", "lab", "code", "bash", "-c", "echo hi; exit 7"]);
    assert_eq!((ran.code(), ran.out()), (7, "hi\n"));
    let ran = room.run(&["-w", "lab", "code", "javascript", "-c", "throw new TypeError('no')"]);
    assert_eq!(ran.code(), 1);
    assert!(ran.err().contains("TypeError: no"), "{}", ran.err());
}

#[test]
fn code_comes_from_a_file_or_from_standard_input() {
    let room = room();
    room.put("piece.py", "1 + 1");
    assert_eq!(room.run(&["-w", "lab", "code", "python", "piece.py"]).out(), "2\n");
    let ran = room.run_with(&["-w", "lab", "code", "python"], b"2 + 2");
    assert_eq!(ran.out(), "4\n");
}

#[test]
fn with_json_everything_is_one_object() {
    let room = room();
    let ran = room.run(&["-w", "lab", "code", "python", "--json", "-c", "print('hi')\n{'a': 1}"]);
    let data = &ran.json()["data"];
    assert_eq!(data["result"], json!({"repr": "{'a': 1}", "json": {"a": 1}}));
    assert_eq!((&data["stdout"], &data["isolated"]), (&json!("hi\n"), &json!(true)));
}

#[test]
fn a_workspace_without_code_refuses() {
    let room = Room::new();
    room.run(&["create", "plain"]).done();
    let ran = room.run(&["-w", "plain", "code", "python", "-c", "1"]);
    assert_ne!(ran.code(), 0);
    assert!(ran.err().contains("code"), "{}", ran.err());
    assert_eq!(room.run(&["code", "ruby", "-c", "1"]).code(), 2);
}
