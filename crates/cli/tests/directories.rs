//! The way back in a directory of the user's own, which other programs change too.

#![allow(
    clippy::disallowed_methods,
    reason = "tests run programs and look at the directory from outside"
)]

use crate::common::{Room, masked};

#[test]
fn a_write_in_a_directory_is_logged_undone_and_redone() {
    let room = Room::new();
    room.put("kept.txt", "kept\n");
    for choice in [&[][..], &["-w", "local:."]] {
        let on = |arguments: &[&str]| room.run(&[choice, arguments].concat());
        on(&["write", "a.txt", "one\n"]).done();
        on(&["write", "a.txt", "two\n"]).done();
        let log = on(&["log", "--json"]).data();
        assert_eq!(log["changes"][0]["summary"], "write `a.txt`", "{log}");
        on(&["undo"]).done();
        assert_eq!(room.get("a.txt"), b"one\n");
        on(&["redo"]).done();
        assert_eq!(room.get("a.txt"), b"two\n");
        on(&["undo", "--last", "2"]).done();
        assert!(!room.path().join("a.txt").exists());
    }
    assert_eq!(room.get("kept.txt"), b"kept\n");
}

#[test]
fn a_snapshot_of_a_directory_is_compared_restored_branched_and_merged() {
    let room = Room::new();
    room.put("docs/a.txt", "1\n2\n3\n4\n5\n").put("b.txt", "b\n");
    room.run(&["create", "site", "--storage", "local:."]).done();
    let on = |arguments: &[&str]| room.run(&[&["-w", "site"], arguments].concat());
    on(&["snapshot", "create", "before"]).done();
    room.put("docs/a.txt", "1\n2\n3\n4\nfive\n");
    on(&["rm", "b.txt"]).done();
    insta::assert_snapshot!("diff_of_a_directory", on(&["diff", "before", "--stat"]).done());
    assert_eq!(on(&["cat", "docs/a.txt", "--at", "before"]).done(), "1\n2\n3\n4\n5\n");
    assert_eq!(room.run(&["-w", "site@before", "grep", "b"]).done(), "b.txt:1:b\n");
    on(&["branch", "create", "try", "--from", "before"]).done();
    room.run(&["-w", "try", "edit", "docs/a.txt", "1", "one"]).done();
    on(&["merge", "try"]).done();
    assert_eq!(room.get("docs/a.txt"), b"one\n2\n3\n4\nfive\n");
    on(&["restore", "before"]).done();
    assert_eq!(room.get("docs/a.txt"), b"1\n2\n3\n4\n5\n");
    assert_eq!(room.get("b.txt"), b"b\n");
    insta::assert_snapshot!("log_of_a_directory", masked(on(&["log"]).done()));
}

#[test]
fn what_others_changed_is_never_overwritten_unseen() {
    let room = Room::new();
    room.run(&["write", "a.txt", "one\n"]).done();
    room.run(&["write", "a.txt", "two\n"]).done();
    room.put("a.txt", "by another program\n");
    let ran = room.run(&["undo"]);
    assert_eq!(ran.failed(), "conflict");
    assert!(ran.err().contains("`a.txt` was changed since"), "{}", ran.err());
    assert_eq!(room.get("a.txt"), b"by another program\n");
    let versions = room.run(&["versions", "a.txt", "--json"]).data();
    assert_eq!(versions["versions"][0]["actor"]["door"], "outside", "{versions}");
}

#[test]
fn a_branch_is_checked_out_to_a_directory_and_merged_back() {
    for storage in ["filestore", "local:site"] {
        let room = Room::new();
        room.put("site/.keep", "");
        room.run(&["create", "site", "--storage", storage]).done();
        let on = |arguments: &[&str]| room.run(&[&["-w", "site"], arguments].concat());
        on(&["write", "docs/a.txt", "1\n2\n3\n4\n5\n"]).done();
        on(&["branch", "create", "work", "--checkout", "place"]).done();
        assert_eq!(room.get("place/docs/a.txt"), b"1\n2\n3\n4\n5\n");
        on(&["edit", "docs/a.txt", "1", "one"]).done();
        room.put("place/docs/a.txt", "1\n2\n3\n4\nfive\n");
        room.run(&["-w", "work", "write", "new.txt", "new\n"]).done();
        assert_eq!(room.get("place/new.txt"), b"new\n");
        on(&["merge", "work"]).done();
        assert_eq!(on(&["cat", "docs/a.txt"]).done(), "one\n2\n3\n4\nfive\n", "{storage}");
        assert_eq!(on(&["cat", "new.txt"]).done(), "new\n");
        let full = on(&["branch", "create", "more", "--checkout", "place"]);
        assert_eq!(full.failed(), "not_empty");
        assert_eq!(room.run(&["-w", "more", "ls"]).misused(), "invalid");
        let branches = on(&["branch", "list", "--json"]).data();
        assert_eq!(branches["branches"][0]["name"], "work", "{branches}");
    }
}

#[test]
fn a_checkout_that_fails_takes_nothing_from_the_branch_or_its_parent() {
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    let on = |arguments: &[&str]| room.run(&[&["-w", "notes"], arguments].concat());
    on(&["write", "a.txt", "kept"]).done();
    // A name that a directory keeps for Garret's own files.
    on(&["write", ".garret-tmp-x", "odd"]).done();
    let ran = on(&["branch", "create", "try", "--checkout", "place"]);
    assert_eq!(ran.failed(), "invalid");
    assert!(ran.err().contains("no branch was created"), "{}", ran.err());
    room.run(&["-w", "place", "write", "mine", "hello"]).done();
    room.run(&["-w", "place", "snapshot", "create", "then"]).done();
    on(&["rm", ".garret-tmp-x"]).done();
    on(&["branch", "create", "try", "--checkout", "another"]).done();
    on(&["merge", "try"]).done();
    assert_eq!(on(&["cat", "a.txt"]).done(), "kept");
    assert_eq!(room.get("another/a.txt"), b"kept");
}

#[test]
fn a_branch_that_never_saw_a_file_neither_replaces_nor_deletes_it_by_a_merge() {
    let room = Room::new();
    room.put("site/d/q", "original\n").put("site/d/other", "other\n");
    room.run(&["create", "site", "--storage", "local:site"]).done();
    let on = |arguments: &[&str]| room.run(&[&["-w", "site"], arguments].concat());
    let tried = |arguments: &[&str]| room.run(&[&["-w", "try"], arguments].concat());
    on(&["write", "a", "x"]).done();
    on(&["branch", "create", "try", "--from", "1"]).done();
    tried(&["write", "d/q", "by the branch\n"]).done();
    for ran in [on(&["merge", "try"]), tried(&["merge", "site"])] {
        assert_eq!(ran.failed(), "conflict");
        assert!(
            ran.out().contains("d/q: both sides added it with different content"),
            "{}",
            ran.out()
        );
    }
    assert_eq!(room.get("site/d/q"), b"original\n");
    tried(&["merge", "site", "--theirs"]).done();
    assert_eq!(
        tried(&["cat", "d/other"]).done(),
        "other\n",
        "what it never saw is new to it"
    );
    tried(&["write", "new", "new\n"]).done();
    on(&["merge", "try"]).done();
    assert_eq!(room.get("site/d/q"), b"original\n");
    assert_eq!(room.get("site/d/other"), b"other\n");
    assert_eq!(room.get("site/new"), b"new\n");
}

#[test]
fn a_view_of_the_past_that_lacks_files_says_so_wherever_it_is_listed_searched_or_compared() {
    let room = Room::new();
    room.put("keep.txt", "needle\n");
    room.run(&["write", "a", "x\n"]).done();
    room.run(&["write", "a", "y\n"]).done();
    let views: [&[&str]; 6] = [
        &["ls", "--at", "1"],
        &["tree", "--at", "1"],
        &["glob", "**", "--at", "1"],
        &["grep", "x", "--at", "1"],
        &["diff", "1", "2"],
        &["branch", "create", "try", "--from", "1"],
    ];
    for view in views {
        let ran = room.run(view);
        ran.done();
        assert!(ran.err().contains("incomplete: "), "{view:?}: {}", ran.err());
    }
    for view in &views[..5] {
        let data = room.run(&[view, &["--json"][..]].concat()).data();
        assert_eq!(data["incomplete"], true, "{view:?}: {data}");
    }
    assert_eq!(
        room.run(&["grep", "x", "a", "--at", "1", "--json"]).data()["incomplete"],
        serde_json::Value::Null
    );
    for (tool, arguments) in [
        ("ls", r#"{"at": 1}"#),
        ("glob", r#"{"pattern": "**", "at": 1}"#),
        ("grep", r#"{"pattern": "needle", "at": 1}"#),
        ("diff", r#"{"from": 1, "to": 2}"#),
        ("branch", r#"{"name": "by-tool", "from": 1}"#),
    ] {
        let ran = room.run(&["call", tool, arguments]);
        let told = ran.done();
        assert!(told.contains("the history"), "{tool}: {told}");
    }
    room.run(&["snapshot", "create", "all"]).done();
    for view in [
        &["ls", "--at", "all"][..],
        &["grep", "x", "--at", "all"],
        &["diff", "all"],
    ] {
        let ran = room.run(view);
        assert!(!ran.err().contains("incomplete"), "{view:?}: {}", ran.err());
    }
}
