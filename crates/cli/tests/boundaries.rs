//! What must not get out: host paths, denied files, secrets of the environment.

#![allow(
    clippy::disallowed_methods,
    reason = "tests run programs and look at the directory from outside"
)]

use crate::common::Room;

const CANARY: &str = "CANARY-7f3d9a";

#[test]
fn a_link_to_etc_is_refused_without_a_host_path() {
    let room = Room::new();
    room.link("link", "/etc");
    for arguments in [
        &["cat", "link/passwd"][..],
        &["ls", "link"],
        &["grep", "root", "link"],
        &["write", "link/x", "y"],
        &["cp", "link/passwd", "p"],
    ] {
        let ran = room.run(arguments);
        assert_eq!(ran.failed(), "path_escape", "{arguments:?}");
        assert!(
            !ran.err().contains("/etc") && !ran.err().contains(room.path().to_str().unwrap()),
            "{}",
            ran.err()
        );
    }
    assert_eq!(room.run(&["cat", "../../etc/passwd"]).failed(), "path_escape");
    assert_eq!(room.run(&["cat", "link/passwd"]).out(), "");
}

/// A secret in the environment and in a denied file, and a program that is asked for it in every way.
#[test]
fn a_secret_appears_nowhere() {
    let room = Room::new();
    room.put("garret.toml", DENYING)
        .put("box/.env", format!("KEY={CANARY}\n"))
        .put("box/open.txt", "nothing here\n")
        .link("box/alias", ".env");
    let attempts: [&[&str]; 28] = [
        &["cat", ".env"],
        &["cat", "alias"],
        &["cat", "x/../.env"],
        &["stat", ".env"],
        &["grep", "KEY"],
        &["grep", "KEY", ".env"],
        &["grep", "KEY", "--no-ignore", "--git"],
        &["glob", "**"],
        &["ls", "--depth", "9"],
        &["cp", ".env", "copy"],
        &["mv", ".env", "moved"],
        &["edit", ".env", "KEY=", "x"],
        &["append", ".env", "x"],
        &["rm", ".env"],
        &["call", "read_file", r#"{"path": ".env"}"#],
        &["call", "grep", r#"{"pattern": "KEY"}"#],
        &["snapshot", "create", "seen"],
        &["diff", "0"],
        &["diff", "0", "--path", ".env"],
        &["cat", ".env", "--at", "seen"],
        &["grep", "KEY", "--at", "seen"],
        &["log", ".env"],
        &["show", "1"],
        &["versions", ".env"],
        &["branch", "create", "copy", "--from", "seen"],
        &["restore", "seen", "--into", "other"],
        &["call", "diff", r#"{"from": 0}"#],
        &["call", "read_file", r#"{"path": ".env", "at": "seen"}"#],
    ];
    let mut seen = String::new();
    for attempt in attempts {
        for extra in [&[][..], &["--json"]] {
            let arguments = [&["-w", "box", "--events", "jsonl:events.jsonl"], attempt, extra].concat();
            let output = room.command(&arguments).env("SECRET", CANARY).output().unwrap();
            seen += &String::from_utf8_lossy(&output.stdout);
            seen += &String::from_utf8_lossy(&output.stderr);
        }
    }
    for branch in ["copy", "other"] {
        let ran = room.run(&["-w", branch, "cat", ".env"]);
        assert_eq!(
            ran.failed(),
            "denied",
            "a branch allows no more than what it was branched off"
        );
        assert_eq!(room.run(&["-w", branch, "cat", "open.txt"]).done(), "nothing here\n");
        seen += ran.err();
    }
    let console = room
        .command(&["-w", "box", "--events", "console", "cat", ".env"])
        .env("SECRET", CANARY)
        .output()
        .unwrap();
    seen += &String::from_utf8_lossy(&console.stderr);
    let events = String::from_utf8(room.get("events.jsonl")).unwrap();
    assert!(
        events.lines().count() >= 2 * attempts.len(),
        "every operation, refused ones too, leaves an event"
    );
    assert!(events.contains(r#""outcome":"refused""#) && seen.contains("deny_read"));
    for text in [&seen, &events] {
        assert!(!text.contains(CANARY), "{text}");
    }
    assert_eq!(room.get("box/.env"), format!("KEY={CANARY}\n").into_bytes());
}

const DENYING: &str = "
[workspaces.box]
storage = 'local:box'
[workspaces.box.capabilities]
snapshot = true
[workspaces.box.capabilities.fs]
deny_read = ['.env']
deny_write = ['.env']
";

#[test]
fn a_denied_file_is_invisible() {
    let room = Room::new();
    room.put("garret.toml", DENYING).put("box/.env", "x").put("box/a", "x");
    assert_eq!(room.run(&["-w", "box", "ls"]).done(), "a\n");
    assert_eq!(room.run(&["-w", "box", "glob", "**"]).done(), "a\n");
    assert_eq!(room.run(&["-w", "box", "grep", "x"]).done(), "a:1:x\n");
}

#[test]
fn content_and_arguments_never_reach_an_event() {
    let room = Room::new();
    room.run(&["--events", "jsonl:events.jsonl", "write", "a", CANARY])
        .done();
    room.run(&["--events", "jsonl:events.jsonl", "edit", "a", CANARY, "x"])
        .done();
    let events = String::from_utf8(room.get("events.jsonl")).unwrap();
    assert_eq!(events.lines().count(), 2);
    assert!(!events.contains(CANARY));
    let first: serde_json::Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["operation"], &first["path"], &first["outcome"]),
        (&"write_file".into(), &"a".into(), &"done".into())
    );
    assert_eq!(first["actor"]["door"], "cli");
}

#[test]
fn what_needs_approval_is_refused_where_nobody_can_give_it() {
    let room = Room::new();
    room.put(
        "garret.toml",
        "[workspaces.box]\nstorage = 'local:.'\ncapabilities = { fs = { require_approval = ['rm'] } }\n",
    )
    .put("a", "x");
    let ran = room.run(&["-w", "box", "rm", "a"]);
    assert_eq!(ran.failed(), "denied");
    assert!(
        ran.err().contains("needs approval") && ran.err().contains("hint: "),
        "{}",
        ran.err()
    );
    assert_eq!(room.get("a"), b"x");
}
