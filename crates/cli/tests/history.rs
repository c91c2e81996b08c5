//! The way back as a user walks it: the journal, undo, versions, snapshots, branches, merges.

#![allow(
    clippy::disallowed_methods,
    reason = "tests run programs and look at the directory from outside"
)]

use crate::common::{Room, masked};

/// A room whose home has the workspace `notes`.
fn notes() -> Room {
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    room
}

/// Runs a command on `notes`.
fn on(room: &Room, arguments: &[&str]) -> crate::common::Ran {
    room.run(&[&["-w", "notes"], arguments].concat())
}

#[test]
fn a_write_is_logged_undone_and_redone() {
    let room = notes();
    on(&room, &["write", "a.txt", "one\n"]).done();
    let log = on(&room, &["log", "--json"]).data();
    assert_eq!(log["changes"].as_array().unwrap().len(), 1);
    assert_eq!(log["changes"][0]["summary"], "write `a.txt`");
    assert_eq!(log["changes"][0]["actor"]["door"], "cli");
    on(&room, &["undo"]).done();
    assert_eq!(on(&room, &["cat", "a.txt"]).failed(), "not_found");
    on(&room, &["redo"]).done();
    assert_eq!(on(&room, &["cat", "a.txt"]).done(), "one\n");
    assert_eq!(on(&room, &["redo"]).failed(), "not_found");
}

#[test]
fn undo_after_a_run_of_the_tests_reverses_the_edit() {
    for storage in ["filestore", "local:w"] {
        let room = Room::new();
        std::fs::create_dir(room.path().join("w")).unwrap();
        room.run(&["create", "box", "--storage", storage, "--capability", "fs,shell"])
            .done();
        let on = |arguments: &[&str]| room.run(&[&["-w", "box"], arguments].concat());
        on(&["write", "a.py", "answer = 1\n"]).done();
        on(&["write", "a.py", "answer = 42\n"]).done();
        on(&["run", "-c", "python3 -c 'import a'"]).done();
        on(&["run", "-c", "mkdir .pytest_cache"]).done();
        assert_eq!(
            on(&["log", "--json"]).data()["changes"][0]["kind"],
            "derived",
            "{storage}"
        );
        if storage == "filestore" {
            insta::assert_snapshot!("log_of_derived_files", masked(on(&["log"]).done()));
            let all = on(&["log", "--all"]);
            assert_eq!(all.done().lines().count(), 4, "{}", all.done());
        }
        let undone = on(&["undo", "--json"]).data();
        assert_eq!(undone["stepped_over"]["count"], 2, "{storage}: {undone}");
        assert_eq!(on(&["cat", "a.py"]).done(), "answer = 1\n", "{storage}");
        assert!(on(&["ls", "__pycache__"]).done().contains("a.cpython"), "{storage}");
        on(&["redo"]).done();
        assert_eq!(on(&["cat", "a.py"]).done(), "answer = 42\n", "{storage}");
        let told = on(&["undo"]);
        assert!(
            told.done().contains("stepped over 2 changes of derived files: "),
            "{storage}: {}",
            told.done()
        );
        on(&["undo"]).done();
        let refused = on(&["undo"]);
        assert!(
            refused.err().contains("only changes of derived files are left"),
            "{storage}"
        );
    }
}

#[test]
fn what_history_prints_is_fit_to_be_read() {
    let room = notes();
    on(&room, &["write", "docs/a.txt", "one\n"]).done();
    on(&room, &["edit", "docs/a.txt", "one", "eleven"]).done();
    on(&room, &["mv", "docs/a.txt", "docs/b.txt"]).done();
    insta::assert_snapshot!("undo", masked(on(&room, &["undo"]).done()));
    insta::assert_snapshot!("redo", masked(on(&room, &["redo"]).done()));
    insta::assert_snapshot!("log", masked(on(&room, &["log"]).done()));
    insta::assert_snapshot!(
        "log_page",
        masked(on(&room, &["log", "docs/a.txt", "--limit", "1"]).done())
    );
    insta::assert_snapshot!("show", masked(on(&room, &["show", "2"]).done()));
    insta::assert_snapshot!("show_undo", masked(on(&room, &["show", "4"]).done()));
    insta::assert_snapshot!("versions", masked(on(&room, &["versions", "docs/b.txt"]).done()));
    insta::assert_snapshot!("undo_of_the_middle", masked(on(&room, &["undo", "1"]).err()));
}

#[test]
fn a_dry_run_names_the_paths_that_the_operation_then_changes_and_writes_nothing() {
    let room = notes();
    let directory = room.path().join("project");
    std::fs::create_dir(&directory).unwrap();
    for workspace in ["notes", directory.to_str().unwrap()] {
        let on = |arguments: &[&str]| room.run(&[&["-w", workspace], arguments].concat());
        on(&["write", "a.txt", "one\n"]).done();
        on(&["snapshot", "create", "before"]).done();
        on(&["write", "a.txt", "two\n"]).done();
        on(&["write", "b.txt", "new\n"]).done();
        let newest = || on(&["log", "--json"]).data()["changes"][0]["number"].clone();
        for (operation, expected) in [
            (&["undo", "--last", "2"][..], ["~ a.txt", "- b.txt"]),
            (&["redo"][..], ["~ a.txt", "+ b.txt"]),
            (&["restore", "before"][..], ["~ a.txt", "- b.txt"]),
        ] {
            let before = (
                newest(),
                on(&["ls"]).done().to_owned(),
                on(&["cat", "a.txt"]).done().to_owned(),
            );
            let planned = on(&[operation, &["--dry-run", "--json"]].concat()).data();
            assert_eq!(
                planned["paths"],
                serde_json::json!(expected),
                "{workspace} {operation:?}"
            );
            assert_eq!((&planned["dry_run"], &planned["path_count"]), (&true.into(), &2.into()));
            let after = (
                newest(),
                on(&["ls"]).done().to_owned(),
                on(&["cat", "a.txt"]).done().to_owned(),
            );
            assert_eq!(before, after, "{workspace} {operation:?}");
            let done = on(&[operation, &["--json"]].concat()).data();
            assert_eq!(done["paths"], planned["paths"], "{workspace} {operation:?}");
        }
        // The undo of the first write would meet later content.
        on(&["write", "a.txt", "three\n"]).done();
        assert_eq!(on(&["undo", "1", "--dry-run"]).failed(), on(&["undo", "1"]).failed());
    }
}

#[test]
fn repeated_undos_step_back_and_redos_step_forward() {
    let room = notes();
    for content in ["1", "2", "3"] {
        on(&room, &["write", "a.txt", content]).done();
    }
    let read = || on(&room, &["cat", "a.txt"]).out().to_owned();
    on(&room, &["undo"]).done();
    assert_eq!(read(), "2");
    on(&room, &["undo"]).done();
    assert_eq!(read(), "1");
    on(&room, &["redo"]).done();
    assert_eq!(read(), "2");
    on(&room, &["redo"]).done();
    assert_eq!(read(), "3");
    on(&room, &["undo", "--last", "3"]).done();
    assert_eq!(on(&room, &["ls"]).done(), "");
}

#[test]
fn a_change_out_of_the_middle_is_undone_alone() {
    let room = notes();
    on(&room, &["write", "a.txt", "a"]).done();
    on(&room, &["write", "b.txt", "b"]).done();
    on(&room, &["undo", "1"]).done();
    assert_eq!(on(&room, &["ls"]).done(), "b.txt\n");
    assert_eq!(on(&room, &["undo", "1"]).failed(), "invalid");
    assert_eq!(on(&room, &["undo", "99"]).failed(), "not_found");
    assert_eq!(on(&room, &["undo", "1", "--last", "2"]).code(), 2);
}

#[test]
fn a_file_is_read_listed_and_searched_as_it_was() {
    let room = notes();
    on(&room, &["write", "a.txt", "needle\n"]).done();
    on(&room, &["snapshot", "create", "before"]).done();
    on(&room, &["write", "a.txt", "hay\n"]).done();
    on(&room, &["write", "b.txt", "hay\n"]).done();
    assert_eq!(on(&room, &["cat", "a.txt", "--at", "before"]).done(), "needle\n");
    assert_eq!(on(&room, &["cat", "a.txt", "--at", "1"]).done(), "needle\n");
    assert_eq!(on(&room, &["ls", "--at", "before"]).done(), "a.txt\n");
    assert_eq!(on(&room, &["tree", "--at", "before"]).done(), ".\n└── a.txt\n");
    assert_eq!(on(&room, &["glob", "*", "--at", "before"]).done(), "a.txt\n");
    assert_eq!(on(&room, &["stat", "b.txt", "--at", "before"]).failed(), "not_found");
    assert_eq!(
        room.run(&["-w", "notes@before", "grep", "needle"]).done(),
        "a.txt:1:needle\n"
    );
    assert_eq!(
        room.run(&["-w", "notes@before", "write", "a.txt", "x"]).failed(),
        "denied"
    );
    assert_eq!(room.run(&["-w", "notes@2", "cat", "a.txt"]).done(), "hay\n");
    assert_eq!(room.run(&["-w", "notes@nothing", "ls"]).failed(), "not_found");
    let twice = room.run(&["-w", "notes@before", "cat", "a.txt", "--at", "1"]);
    assert_eq!(twice.misused(), "invalid");
    assert_eq!(room.run(&["-w", "notes@before", "log"]).misused(), "invalid");
}

#[test]
fn versions_follow_a_file_across_its_names() {
    let room = notes();
    on(&room, &["write", "a.txt", "one"]).done();
    on(&room, &["write", "a.txt", "three"]).done();
    on(&room, &["mv", "a.txt", "b.txt"]).done();
    let versions = on(&room, &["versions", "b.txt", "--json"]).data()["versions"].clone();
    let told: Vec<_> = versions
        .as_array()
        .unwrap()
        .iter()
        .map(|version| (version["path"].as_str().unwrap(), version["size"].as_u64().unwrap()))
        .collect();
    assert_eq!(told.last(), Some(&("a.txt", 3)), "{versions}");
    let first = on(&room, &["versions", "b.txt", "--limit", "1", "--json"]).data();
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = on(
        &room,
        &["versions", "b.txt", "--limit", "1", "--cursor", cursor, "--json"],
    )
    .data();
    assert_eq!(second["versions"][0], versions[1]);
    let oldest = versions.as_array().unwrap().last().unwrap()["version"]
        .as_str()
        .unwrap();
    on(&room, &["restore", "--version", oldest, "b.txt"]).done();
    assert_eq!(on(&room, &["cat", "b.txt"]).done(), "one");
    let again = on(&room, &["restore", "--version", oldest, "b.txt"]);
    assert_eq!(again.done(), "no differences\n");
}

#[test]
fn a_snapshot_is_restored_whole_in_part_and_into_a_new_workspace() {
    let room = notes();
    on(&room, &["write", "docs/a.md", "a"]).done();
    on(&room, &["write", "b.md", "b"]).done();
    insta::assert_snapshot!(
        "snapshot_create",
        masked(on(&room, &["snapshot", "create", "before"]).done())
    );
    on(&room, &["write", "docs/a.md", "changed"]).done();
    on(&room, &["rm", "b.md"]).done();
    on(&room, &["restore", "before", "docs/a.md"]).done();
    assert_eq!(on(&room, &["cat", "docs/a.md"]).done(), "a");
    assert_eq!(on(&room, &["cat", "b.md"]).failed(), "not_found");
    on(&room, &["restore", "before", "--into", "trial"]).done();
    assert_eq!(room.run(&["-w", "trial", "cat", "b.md"]).done(), "b");
    assert_eq!(on(&room, &["cat", "b.md"]).failed(), "not_found");
    insta::assert_snapshot!("restore", masked(on(&room, &["restore", "before"]).done()));
    assert_eq!(on(&room, &["cat", "b.md"]).done(), "b");
    on(&room, &["undo"]).done();
    assert_eq!(on(&room, &["cat", "b.md"]).failed(), "not_found");
    assert_eq!(on(&room, &["restore", "nothing"]).failed(), "not_found");
}

#[test]
fn snapshots_are_listed_and_forgotten() {
    let room = notes();
    on(&room, &["write", "a", "1"]).done();
    on(&room, &["snapshot", "create", "first"]).done();
    on(&room, &["write", "a", "2"]).done();
    on(&room, &["snapshot", "create", "earlier", "--at", "first"]).done();
    insta::assert_snapshot!("snapshot_list", masked(on(&room, &["snapshot", "list"]).done()));
    assert_eq!(on(&room, &["snapshot", "create", "first"]).failed(), "already_exists");
    assert_eq!(room.run(&["-w", "notes@earlier", "cat", "a"]).done(), "1");
    on(&room, &["snapshot", "delete", "first"]).done();
    assert_eq!(on(&room, &["snapshot", "delete", "first"]).failed(), "not_found");
    let left = on(&room, &["snapshot", "list", "--json"]).data();
    assert_eq!(left["snapshots"].as_array().unwrap().len(), 1);
}

#[test]
fn a_branch_goes_its_own_way() {
    let room = notes();
    on(&room, &["write", "a.txt", "base"]).done();
    on(&room, &["snapshot", "create", "before"]).done();
    on(&room, &["write", "a.txt", "later"]).done();
    insta::assert_snapshot!(
        "branch_create",
        masked(on(&room, &["branch", "create", "try", "--from", "before"]).done())
    );
    room.run(&["-w", "try", "write", "b.txt", "b"]).done();
    assert_eq!(room.run(&["-w", "try", "cat", "a.txt"]).done(), "base");
    assert_eq!(on(&room, &["ls"]).done(), "a.txt\n");
    insta::assert_snapshot!("branch_list", masked(on(&room, &["branch", "list"]).done()));
    assert_eq!(on(&room, &["branch", "create", "try"]).failed(), "already_exists");
    assert_eq!(on(&room, &["branch", "delete", "notes"]).failed(), "not_found");
    on(&room, &["branch", "delete", "try"]).done();
    assert_eq!(room.run(&["-w", "try", "ls"]).misused(), "invalid");
    room.run(&["recover", "try"]).done();
    assert_eq!(room.run(&["-w", "try", "cat", "b.txt"]).done(), "b");
}

#[test]
fn a_workspace_without_a_history_says_so() {
    let room = Room::new();
    room.run(&["create", "plain", "--history", "off"]).done();
    room.run(&["-w", "plain", "write", "a", "x"]).done();
    for arguments in [&["log"][..], &["undo"], &["versions", "a"], &["cat", "a", "--at", "1"]] {
        let ran = room.run(&[&["-w", "plain"], arguments].concat());
        assert_eq!(ran.failed(), "unsupported", "{arguments:?}");
    }
}

#[test]
fn what_is_not_declared_is_refused() {
    let room = Room::new();
    room.run(&["create", "plain", "--capability", "fs"]).done();
    room.run(&["-w", "plain", "write", "a", "x"]).done();
    room.run(&["-w", "plain", "undo"]).done();
    for arguments in [&["snapshot", "list"][..], &["branch", "list"], &["restore", "1"]] {
        let ran = room.run(&[&["-w", "plain"], arguments].concat());
        assert_eq!(ran.failed(), "denied", "{arguments:?}");
    }
    let none = room.run(&["create", "other", "--capability", "fs,git"]);
    assert_eq!(none.misused(), "invalid");
}

#[test]
fn memory_has_a_history_that_a_tool_call_can_see() {
    let room = Room::new();
    let ran = room.run(&["-w", "memory:", "branch", "create", "x"]);
    assert_eq!(ran.failed(), "invalid");
    assert_eq!(
        room.run(&["-w", "memory:", "log", "--json"]).data()["changes"],
        serde_json::json!([])
    );
}

#[test]
fn the_difference_to_a_snapshot_is_a_patch_and_a_table() {
    let room = notes();
    on(&room, &["write", "a.txt", "one\ntwo\n"]).done();
    on(&room, &["write", "gone.txt", "x\n"]).done();
    on(&room, &["snapshot", "create", "before"]).done();
    on(&room, &["edit", "a.txt", "two", "2"]).done();
    on(&room, &["write", "docs/b.txt", "b\n"]).done();
    room.run_with(&["-w", "notes", "write", "raw.bin"], b"\0\x01\x02")
        .done();
    on(&room, &["rm", "gone.txt"]).done();
    insta::assert_snapshot!("diff", masked(on(&room, &["diff", "before"]).done()));
    insta::assert_snapshot!("diff_stat", masked(on(&room, &["diff", "before", "--stat"]).done()));
    insta::assert_snapshot!("diff_newest", masked(on(&room, &["diff"]).done()));
    let within = on(&room, &["diff", "before", "--path", "docs", "--json"]).data();
    assert_eq!(
        within["paths"].as_array().unwrap().last().unwrap()["path"],
        "docs/b.txt"
    );
    assert_eq!(on(&room, &["diff", "before", "before"]).done(), "");
    assert_eq!(on(&room, &["diff", "now", "--stat"]).done(), "no differences\n");
    assert_eq!(on(&room, &["diff", "nothing"]).failed(), "not_found");
}

#[test]
fn a_patch_of_a_difference_does_it_again() {
    let room = notes();
    on(&room, &["write", "a.txt", "one\n"]).done();
    on(&room, &["branch", "create", "other"]).done();
    on(&room, &["write", "a.txt", "two\n"]).done();
    let diff = on(&room, &["diff", "1"]).done().to_owned();
    room.run_with(&["-w", "other", "patch"], diff.as_bytes()).done();
    assert_eq!(room.run(&["-w", "other", "cat", "a.txt"]).done(), "two\n");
}

#[test]
fn a_branch_is_merged_and_the_merge_undone() {
    let room = notes();
    on(&room, &["write", "a.txt", "1\n2\n3\n4\n5\n"]).done();
    on(&room, &["snapshot", "create", "before"]).done();
    on(&room, &["branch", "create", "try", "--from", "before"]).done();
    room.run(&["-w", "try", "edit", "a.txt", "1", "one"]).done();
    room.run(&["-w", "try", "write", "b.txt", "b\n"]).done();
    on(&room, &["edit", "a.txt", "5", "five"]).done();
    insta::assert_snapshot!(
        "merge_dry_run",
        masked(on(&room, &["merge", "try", "--dry-run"]).done())
    );
    assert_eq!(on(&room, &["ls"]).done(), "a.txt\n");
    insta::assert_snapshot!("merge", masked(on(&room, &["merge", "try"]).done()));
    assert_eq!(on(&room, &["cat", "a.txt"]).done(), "one\n2\n3\n4\nfive\n");
    assert_eq!(on(&room, &["cat", "b.txt"]).done(), "b\n");
    assert_eq!(
        on(&room, &["merge", "try"]).done(),
        "nothing to merge from try: this workspace has all of its changes\n"
    );
    on(&room, &["undo"]).done();
    assert_eq!(on(&room, &["cat", "a.txt"]).done(), "1\n2\n3\n4\nfive\n");
}

#[test]
fn a_merge_that_leaves_every_conflict_as_it_is_here_says_so_and_counts_nothing() {
    let room = notes();
    on(&room, &["write", "a.txt", "base\n"]).done();
    on(&room, &["branch", "create", "try"]).done();
    on(&room, &["write", "a.txt", "ours\n"]).done();
    room.run(&["-w", "try", "write", "a.txt", "theirs\n"]).done();
    let rest =
        "1 conflict with try: all files of this workspace stay unchanged\n  conflict  a.txt: both sides changed it\n";
    let dry = on(&room, &["merge", "try", "--ours", "--dry-run"]);
    assert_eq!(dry.done(), format!("would resolve {rest}"));
    assert_eq!(
        on(&room, &["merge", "try", "--ours"]).done(),
        format!("resolved {rest}")
    );
    assert_eq!(
        on(&room, &["merge", "try"]).done(),
        "nothing to merge from try: this workspace has all of its changes\n"
    );
    on(&room, &["write", "a.txt", "ours again\n"]).done();
    room.run(&["-w", "try", "write", "a.txt", "theirs again\n"]).done();
    room.run(&["-w", "try", "write", "b.txt", "new\n"]).done();
    let merged = on(&room, &["merge", "try", "--ours", "--json"]).data();
    assert_eq!(merged["paths"], serde_json::json!(["+ b.txt"]), "{merged}");
}

#[test]
fn a_copy_of_a_directory_is_called_a_copy() {
    let room = notes();
    on(&room, &["write", "d/a.txt", "a\n"]).done();
    on(&room, &["cp", "d", "e"]).done();
    let log = on(&room, &["log", "--json"]).data();
    assert_eq!(log["changes"][0]["summary"], "copy `d` to `e`", "{log}");
}

#[test]
fn a_conflict_is_told_path_by_path_and_settled_as_asked() {
    let room = notes();
    on(&room, &["write", "a.txt", "base\n"]).done();
    on(&room, &["write", "b.txt", "base\n"]).done();
    on(&room, &["branch", "create", "try"]).done();
    on(&room, &["write", "a.txt", "ours\n"]).done();
    on(&room, &["rm", "b.txt"]).done();
    room.run(&["-w", "try", "write", "a.txt", "theirs\n"]).done();
    room.run(&["-w", "try", "write", "b.txt", "theirs\n"]).done();
    let refused = on(&room, &["merge", "try"]);
    assert_eq!(refused.code(), 1);
    insta::assert_snapshot!("merge_conflict", format!("{}{}", refused.out(), refused.err()));
    let object = on(&room, &["merge", "try", "--json"]).json();
    assert_eq!(object["ok"], false);
    assert_eq!(object["error"]["kind"], "conflict");
    assert_eq!(object["data"]["conflicts"][0]["theirs"]["text"], "theirs\n");
    assert_eq!(on(&room, &["cat", "a.txt"]).done(), "ours\n");
    assert_eq!(on(&room, &["merge", "try", "--ours", "--theirs"]).code(), 2);
    on(&room, &["merge", "try", "--markers"]).done();
    insta::assert_snapshot!("merge_markers", on(&room, &["cat", "a.txt"]).done());
    on(&room, &["undo"]).done();
    on(&room, &["merge", "try", "--theirs"]).done();
    assert_eq!(on(&room, &["cat", "a.txt"]).done(), "theirs\n");
    assert_eq!(on(&room, &["merge", "nobody"]).failed(), "not_found");
    room.run(&["create", "stranger"]).done();
    assert_eq!(on(&room, &["merge", "stranger"]).failed(), "not_found");
}

#[test]
fn a_model_has_the_same_way_back() {
    let room = notes();
    let call = |tool: &str, arguments: &str| on(&room, &["call", tool, arguments, "--json"]).data();
    call("write_file", r#"{"path": "a.txt", "content": "one"}"#);
    call("snapshot", r#"{"label": "before"}"#);
    call("write_file", r#"{"path": "a.txt", "content": "two"}"#);
    assert_eq!(
        call("read_file", r#"{"path": "a.txt", "at": "before"}"#)["content"],
        "one"
    );
    call("undo", "{}");
    assert_eq!(on(&room, &["cat", "a.txt"]).done(), "one");
    on(&room, &["redo"]).done();
    call("restore", r#"{"to": "before"}"#);
    assert_eq!(on(&room, &["cat", "a.txt"]).done(), "one");
}

#[test]
fn now_can_be_written_wherever_a_point_can() {
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    room.run(&["-w", "notes", "write", "a.txt", "one"]).done();
    assert_eq!(room.run(&["-w", "notes@now", "cat", "a.txt"]).done(), "one");
    assert_eq!(room.run(&["-w", "notes", "cat", "a.txt", "--at", "now"]).done(), "one");
    room.run(&["-w", "notes", "restore", "now"]).done();
    room.run(&["-w", "notes", "restore", "now", "--into", "other"]).done();
    assert_eq!(room.run(&["-w", "other", "cat", "a.txt"]).done(), "one");
    room.run(&["-w", "notes", "show", "now"]).done();
    assert_eq!(
        room.run(&["-w", "notes", "snapshot", "create", "now"]).failed(),
        "invalid"
    );
}

#[test]
fn what_is_missing_or_nothing_is_said() {
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    assert_eq!(
        room.run(&["-w", "notes", "write", "a", "x"]).done(),
        "created a (1 byte)\n"
    );
    assert_eq!(
        room.run(&["-w", "notes", "append", "a", "y"]).done(),
        "appended to a (2 bytes now)\n"
    );
    for command in [&["log"][..], &["versions", "a"]] {
        let ran = room.run(&[&["-w", "notes"], command, &["--limit", "0"]].concat());
        assert_eq!(ran.failed(), "invalid");
        assert!(ran.err().contains("--limit must be at least 1"), "{}", ran.err());
    }
    let pathless = room.run(&["-w", "notes", "restore", "--version", "v"]);
    assert_eq!(pathless.misused(), "invalid");
    assert!(
        pathless.err().contains("the path of the file is missing"),
        "{}",
        pathless.err()
    );
    assert_eq!(room.run(&["-w", "notes", "restore"]).misused(), "invalid");
}
