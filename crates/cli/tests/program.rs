//! The program itself: help, completions, the tour, the doctor.

#![allow(
    clippy::disallowed_methods,
    reason = "tests run programs and look at the directory from outside"
)]

use crate::common::Room;

/// A disk that is full: whoever asked for the output must be told that it is not there.
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let room = Room::new();
    room.run(&["create", "box", "--capability", "fs,shell,code"]).done();
    room.run(&["-w", "box", "write", "a", "x"]).done();
    let all: [&[&str]; 9] = [
        &["ls"],
        &["ls", "--json"],
        &["cat", "a"],
        &["cat", "a", "--limit", "1"],
        &["write", "b", "x"],
        &["run", "-c", "seq 1 100000; echo kept > kept"],
        &["run", "-c", "seq 1 100000", "--json"],
        &["code", "bash", "-c", "seq 1 10"],
        &["--help"],
    ];
    for arguments in all {
        let mut command = room.command(&[&["-w", "box"], arguments].concat());
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(
            error.contains("error: unavailable: the output could not be written"),
            "{arguments:?}: {error}"
        );
    }
    assert_eq!(room.run(&["-w", "box", "cat", "kept"]).done(), "kept\n");
    let mut closed = room.command(&["-w", "box", "cat", "a"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = closed.stdout(writer).output().unwrap();
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), b"".as_slice())
    );
}

const COMMANDS: [&str; 47] = [
    "put",
    "get",
    "ls",
    "tree",
    "cat",
    "write",
    "append",
    "edit",
    "patch",
    "cp",
    "mv",
    "rm",
    "mkdir",
    "stat",
    "glob",
    "grep",
    "log",
    "show",
    "diff",
    "versions",
    "undo",
    "redo",
    "restore",
    "snapshot",
    "branch",
    "merge",
    "create",
    "list",
    "rename",
    "delete",
    "recover",
    "export",
    "import",
    "usage",
    "keep",
    "capabilities",
    "gc",
    "fsck",
    "ref",
    "tools",
    "call",
    "mcp",
    "demo",
    "doctor",
    "config",
    "trust",
    "completions",
];

const SUBCOMMANDS: [(&str, &str); 7] = [
    ("config", "check"),
    ("snapshot", "create"),
    ("snapshot", "list"),
    ("snapshot", "delete"),
    ("branch", "create"),
    ("branch", "list"),
    ("branch", "delete"),
];

#[test]
fn the_help_says_what_there_is() {
    let room = Room::new();
    insta::assert_snapshot!("help", room.run(&["--help"]).done());
    for command in COMMANDS {
        insta::assert_snapshot!(format!("help_{command}"), room.run(&[command, "--help"]).done());
    }
    for (command, action) in SUBCOMMANDS {
        let help = room.run(&[command, action, "--help"]);
        insta::assert_snapshot!(format!("help_{command}_{action}"), help.done());
    }
}

#[test]
fn help_is_a_command_too() {
    let room = Room::new();
    assert_eq!(room.run(&["help"]).done(), room.run(&["--help"]).done());
    assert_eq!(
        room.run(&["help", "write"]).done(),
        room.run(&["write", "--help"]).done()
    );
    assert_eq!(
        room.run(&["help", "snapshot", "create"]).done(),
        room.run(&["snapshot", "create", "--help"]).done()
    );
    assert_eq!(room.run(&["help", "nosuch"]).code(), 2);
}

#[test]
fn wrong_usage_ends_with_two() {
    let room = Room::new();
    for arguments in [
        &[][..],
        &["nonsense"],
        &["ls", "--nonsense"],
        &["cat"],
        &["--events", "paper", "ls"],
        &["write", "a", "b", "--mode", "9"],
    ] {
        assert_eq!(room.run(arguments).code(), 2, "{arguments:?}");
    }
}

#[test]
fn wrong_usage_is_an_object_where_one_is_asked_for() {
    let ran = Room::new().run(&["cat", "--json"]);
    assert_eq!(ran.code(), 2);
    let object = ran.json();
    assert_eq!(
        (&object["ok"], &object["error"]["kind"]),
        (&false.into(), &"invalid".into())
    );
    assert!(
        object["error"]["message"].as_str().unwrap().contains("<PATH>"),
        "{object}"
    );
}

#[test]
fn completions_know_every_command() {
    let room = Room::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = room.run(&["completions", shell]).done().to_owned();
        COMMANDS
            .iter()
            .for_each(|command| assert!(script.contains(command), "{shell} knows {command}"));
    }
}

#[test]
fn the_tour_shows_what_it_promises_and_leaves_nothing() {
    let room = Room::new();
    let temporary = Room::new();
    let output = room
        .command(&["demo"])
        .env("TMPDIR", temporary.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    insta::assert_snapshot!("demo", without_duration(&crate::common::masked(&text)));
    assert!(
        !text.contains('\u{1b}') && !text.contains(temporary.path().to_str().unwrap()),
        "no colour, no host path"
    );
    assert_eq!(temporary.path().read_dir().unwrap().count(), 0);
    assert_eq!(room.path().read_dir().unwrap().count(), 0);
}

/// The tour runs code once, and says how long that took.
fn without_duration(text: &str) -> String {
    let (before, after) = text.split_once("done after ").expect("code was run");
    let (_, rest) = after.split_once(" s;").expect("it says how long it took");
    format!("{before}done after TIME;{rest}")
}

#[test]
fn the_doctor_says_what_works_and_changes_nothing() {
    let room = Room::new();
    let ran = room.run(&["doctor"]);
    assert!(ran.done().contains("containment"), "{}", ran.out());
    assert!(!ran.out().contains(room.path().to_str().unwrap()));
    assert_eq!(room.path().read_dir().unwrap().count(), 0);
    let checks = room.run(&["doctor", "--json"]).data()["checks"].clone();
    assert!(
        checks
            .as_array()
            .unwrap()
            .iter()
            .all(|check| check["name"].is_string() && check["status"].is_string())
    );
    assert!(room.run(&["-w", "memory:", "doctor"]).done().contains("needs nothing"));
}

#[test]
fn events_go_to_standard_error_and_leave_the_result_alone() {
    let room = Room::new();
    room.put("a", "x");
    let ran = room.run(&["--events", "console", "cat", "a"]);
    assert_eq!(ran.done(), "x");
    assert!(
        ran.err().contains(" read_file a 1 B ") && ran.err().ends_with("done\n"),
        "{}",
        ran.err()
    );
    let lines = room.run(&["cat", "../a", "--events", "jsonl"]);
    assert!(lines.err().contains(r#""outcome":"refused""#), "{}", lines.err());
}
