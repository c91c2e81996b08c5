//! The commands on files, each against the directory as another program sees it.

#![allow(
    clippy::disallowed_methods,
    reason = "tests run programs and look at the directory from outside"
)]

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::common::Room;
use serde_json::json;

#[test]
fn write_and_cat_keep_every_byte() {
    let room = Room::new();
    let bytes: Vec<u8> = (0..=255).chain([b'\r', b'\n', 0]).collect();
    room.run_with(&["write", "deep/er/bytes"], &bytes).done();
    assert_eq!(room.get("deep/er/bytes"), bytes);
    assert_eq!(room.run(&["cat", "deep/er/bytes"]).bytes(), bytes);
    assert_eq!(
        room.run(&["cat", "deep/er/bytes", "--bytes", "--offset", "250", "--limit", "7"])
            .bytes(),
        &bytes[250..257]
    );
}

#[test]
fn write_takes_the_argument_exactly_and_a_dash_as_standard_input() {
    let room = Room::new();
    room.run(&["write", "a", "--", "-not an option\n"]).done();
    assert_eq!(room.get("a"), b"-not an option\n");
    room.run_with(&["write", "a", "-"], b"from a pipe").done();
    assert_eq!(room.get("a"), b"from a pipe");
}

#[test]
fn a_set_user_id_file_is_made_by_no_door() {
    let room = Room::new();
    for mode in ["4755", "2755", "1777", "77777"] {
        let written = room.run(&["write", "su", "x", "--mode", mode]);
        assert_ne!(written.code(), 0, "{mode}");
        let arguments = json!({"path": "su", "content": "x", "mode": mode}).to_string();
        assert_eq!(
            room.run(&["call", "write_file", &arguments]).failed(),
            "invalid",
            "{mode}"
        );
    }
    let patch = "diff --git a/su b/su\nnew file mode 104755\n--- /dev/null\n+++ b/su\n@@ -0,0 +1 @@\n+x\n";
    assert_eq!(room.run_with(&["patch"], patch.as_bytes()).failed(), "invalid");
    assert!(!room.path().join("su").exists());
    room.put("from/su", "x");
    let su = room.path().join("from/su");
    std::fs::set_permissions(&su, std::fs::Permissions::from_mode(0o4755)).unwrap();
    room.run(&["import", "--from", "from", "--name", "taken"]).done();
    assert_eq!(
        room.run(&["-w", "taken", "stat", "su", "--json"]).data()["mode"],
        "0755"
    );
    // A directory that is a workspace has its files as they are; what is exported of it has not.
    room.run(&["create", "here", "--storage", "local:from"]).done();
    room.run(&["-w", "here", "branch", "create", "try"]).done();
    room.run(&["export", "try", "--to", "out"]).done();
    assert_eq!(room.path().join("out/su").metadata().unwrap().mode() & 0o7777, 0o755);
}

/// More than is kept in memory of a pipe, and a file that is redirected from a place in its middle.
#[test]
fn write_takes_what_is_larger_than_memory_should_hold() {
    let room = Room::new();
    let bytes: Vec<u8> = (0..20_000_003_u32).map(|number| (number / 7) as u8).collect();
    room.run_with(&["write", "piped"], &bytes).done();
    assert!(room.get("piped") == bytes);
    assert!(room.run(&["cat", "piped"]).bytes() == bytes);
    let part = room.run(&["cat", "piped", "--bytes", "--offset", "5000000", "--limit", "9000000"]);
    assert!(part.bytes() == &bytes[5_000_000..14_000_000]);
    let script = "exec 3<piped; dd bs=1000 count=3 status=none <&3 >/dev/null; \"$0\" write rest <&3";
    let status = std::process::Command::new("sh")
        .args(["-c", script, crate::common::GARRET])
        .env("GARRET_HOME", room.home())
        .current_dir(room.path())
        .status();
    assert!(status.unwrap().success());
    assert!(room.get("rest") == bytes[3_000..]);
}

#[test]
fn a_conditional_write_tells_the_current_version() {
    let room = Room::new();
    let version = room.run(&["write", "a", "one", "--json"]).data()["version"]
        .as_str()
        .unwrap()
        .to_owned();
    room.run(&["write", "a", "two", "--if-version", &version]).done();
    let refused = room.run(&["write", "a", "three", "--if-version", &version, "--json"]);
    assert_eq!(refused.failed(), "conflict");
    assert!(refused.json()["error"]["current_version"].is_string());
    assert_eq!(
        room.run(&["write", "a", "three", "--if-version", "absent"]).failed(),
        "conflict"
    );
    assert_eq!(room.get("a"), b"two");
}

#[test]
fn append_makes_a_file_unless_told_not_to() {
    let room = Room::new();
    assert_eq!(room.run(&["append", "log", "x", "--no-create"]).failed(), "not_found");
    room.run(&["append", "log", "one\n"]).done();
    room.run_with(&["append", "log"], b"two\n").done();
    assert_eq!(room.get("log"), b"one\ntwo\n");
}

#[test]
fn edit_replaces_what_is_there_once_or_says_why_not() {
    let room = Room::new();
    room.put("a", "one\r\ntwo\r\none\r\n");
    assert_eq!(room.run(&["edit", "a", "one", "1"]).failed(), "invalid");
    room.run(&["edit", "a", "one", "1", "--replace-all"]).done();
    assert_eq!(room.get("a"), b"1\r\ntwo\r\n1\r\n");
    let missed = room.run(&["edit", "a", "  two", "2"]);
    assert_eq!(missed.failed(), "invalid");
    assert!(missed.err().contains("two"), "{}", missed.err());
    let edits = r#"[{"old_text": "two", "new_text": "2"}, {"old_text": "2", "new_text": "3"}]"#;
    room.run(&["edit", "a", "--edits", edits, "--dry-run"]).done();
    assert_eq!(room.get("a"), b"1\r\ntwo\r\n1\r\n", "a trial writes nothing");
    room.run(&["edit", "a", "--edits", edits]).done();
    assert_eq!(room.get("a"), b"1\r\n3\r\n1\r\n");
}

#[test]
fn patch_changes_every_file_or_none() {
    let room = Room::new();
    room.put("a", "one\n").put("b", "two\n");
    let good = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+1\n--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-two\n";
    let bad = good.replace("-two", "-other");
    assert_eq!(room.run_with(&["patch"], bad.as_bytes()).code(), 1);
    assert_eq!((room.get("a"), room.get("b")), (b"one\n".to_vec(), b"two\n".to_vec()));
    let other = Room::new();
    other.put("change.diff", good);
    let file = other.path().join("change.diff");
    assert_eq!(
        room.run(&["patch", file.to_str().unwrap()]).done(),
        "modified a (+1 -1)\ndeleted b (+0 -1)\n"
    );
    assert_eq!(room.get("a"), b"1\n");
    assert!(!room.path().join("b").exists());
}

#[test]
fn cp_and_mv_refuse_to_overwrite_unless_told() {
    let room = Room::new();
    room.put("a/x", "1").put("a/y", "2").put("b", "3");
    assert_eq!(room.run(&["cp", "a", "c"]).done(), "copied a -> c (2 files)\n");
    assert_eq!(room.get("c/y"), b"2");
    assert_eq!(room.run(&["mv", "a/x", "b"]).failed(), "already_exists");
    room.run(&["mv", "a/x", "b", "-f"]).done();
    assert_eq!(room.get("b"), b"1");
    assert!(!room.path().join("a/x").exists());
}

#[test]
fn rm_takes_a_full_directory_only_when_told() {
    let room = Room::new();
    room.put("a/x", "1").link("l", "a");
    assert_eq!(room.run(&["rm", "a"]).failed(), "not_empty");
    room.run(&["rm", "l"]).done();
    assert_eq!(room.get("a/x"), b"1", "removing a link leaves what it leads to");
    room.run(&["rm", "-r", "a"]).done();
    assert!(!room.path().join("a").exists());
    assert_eq!(room.run(&["rm", "-r", "/"]).failed(), "denied");
}

#[test]
fn mkdir_makes_parents_when_told() {
    let room = Room::new();
    assert_eq!(room.run(&["mkdir", "a/b"]).failed(), "not_found");
    assert_eq!(room.run(&["mkdir", "-p", "a/b"]).done(), "made a/b\n");
    assert_eq!(room.run(&["mkdir", "a/b"]).failed(), "already_exists");
}

#[test]
fn ls_marks_kinds_and_pages() {
    let room = Room::new();
    room.put("a/x", "1").put("b", "22").link("l", "b");
    assert_eq!(room.run(&["ls"]).done(), "a/\nb\nl@\n");
    assert_eq!(room.run(&["ls", "--depth", "2"]).done(), "a/\na/x\nb\nl@\n");
    assert_eq!(room.run(&["ls", "a/x"]).done(), "a/x\n");
    assert!(
        room.run(&["ls", "-l"])
            .done()
            .lines()
            .nth(1)
            .unwrap()
            .starts_with("file               2 20"),
        "kind, size, time"
    );
    let page = room.run(&["ls", "--limit", "2", "--json"]).data();
    let rest = room
        .run(&["ls", "--cursor", page["next_cursor"].as_str().unwrap(), "--json"])
        .data();
    assert_eq!(
        (page["entries"][1]["path"].clone(), rest["entries"][0]["path"].clone()),
        (json!("b"), json!("l"))
    );
    assert_eq!(rest["entries"].as_array().unwrap().len(), 1);
}

#[test]
fn an_error_names_the_file_and_what_to_do() {
    let room = Room::new();
    room.put("a/x", "1").put("b", "22");
    for (arguments, kind, told) in [
        (&["tree", "b"][..], "not_a_directory", "`b` is a file, not a directory"),
        (&["mkdir", "b"], "already_exists", "hint: choose another name\n"),
        (&["cp", "a", "a/y"], "invalid", "choose a destination outside `a`"),
        (&["mv", "b", "new/"], "not_a_directory", "there is no directory `new`"),
        (&["cp", "b", "new/"], "not_a_directory", "leave out the slash"),
        (&["mv", "b", "a/"], "already_exists", "name the new path: `a/b`"),
        (&["put", "b", "/mnt/x/y"], "path_escape", "leave out the leading slash"),
    ] {
        let ran = room.run(arguments);
        assert_eq!(ran.failed(), kind, "{arguments:?}");
        assert!(ran.err().contains(told), "{}", ran.err());
    }
    assert!(room.run(&["-w", "memory:x", "ls"]).err().contains("write `memory:`"));
    room.run(&["mv", "a", "c/"]).done();
    assert_eq!(room.get("c/x"), b"1");
}

#[test]
fn tree_draws_the_directory() {
    let room = Room::new();
    room.put("a/b/x", "").put("z", "");
    assert_eq!(
        room.run(&["tree"]).done(),
        ".\n├── a/\n│   └── b/\n│       └── x\n└── z\n"
    );
    assert_eq!(room.run(&["tree", "a", "-d", "1"]).done(), "a\n└── b/\n");
}

#[test]
fn stat_describes_a_link_itself() {
    let room = Room::new();
    room.put("a", "123").link("l", "a");
    let data = room.run(&["stat", "a", "--json"]).data();
    assert_eq!((&data["type"], &data["size"]), (&json!("file"), &json!(3)));
    assert!(data["version"].is_string() && data["modified_at"].as_str().unwrap().ends_with('Z'));
    assert!(
        room.run(&["stat", "l"])
            .done()
            .contains("type     symlink\ntarget   a\n")
    );
}

#[test]
fn glob_finds_paths_in_order() {
    let room = Room::new();
    room.put("src/b.rs", "")
        .put("src/a.rs", "")
        .put("src/deep/c.rs", "")
        .put(".git/d.rs", "")
        .put(".hidden.rs", "");
    assert_eq!(
        room.run(&["glob", "**/*.rs"]).done(),
        ".hidden.rs\nsrc/a.rs\nsrc/b.rs\nsrc/deep/c.rs\n"
    );
    assert_eq!(room.run(&["glob", "*.rs", "src"]).done(), "src/a.rs\nsrc/b.rs\n");
    assert_eq!(room.run(&["glob", "*.py"]).done(), "", "finding nothing is no failure");
}

#[test]
fn a_file_that_is_not_there_is_a_failure_on_standard_error() {
    let room = Room::new();
    let ran = room.run(&["cat", "nothing"]);
    assert_eq!(ran.failed(), "not_found");
    assert_eq!(ran.out(), "");
    assert_eq!(
        ran.err(),
        "error: not_found: no such file or directory: `nothing`\n  hint: list the directory to see its entries\n"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let room = Room::new();
    room.put("large", "line\n".repeat(200_000));
    let script = format!("{} cat large | head -n 1", crate::common::GARRET);
    let ran = std::process::Command::new("sh")
        .args(["-c", &script])
        .env("GARRET_HOME", room.home())
        .current_dir(room.path())
        .output()
        .unwrap();
    assert_eq!((&ran.stdout[..], &ran.stderr[..]), (&b"line\n"[..], &b""[..]));
}

#[test]
fn a_copy_of_many_directories_does_not_run_out_of_handles() {
    let room = Room::new();
    for number in 0..150 {
        room.put(&format!("many/{number}/file"), "x");
    }
    // The usual limit is 1024 handles; this one makes the test a short one.
    let script = "ulimit -S -n 100 && exec \"$0\" -w . cp many copy";
    let output = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_garret")])
        .env("GARRET_HOME", room.home())
        .current_dir(room.path())
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    assert_eq!(room.get("copy/149/file"), b"x");
}

/// Each as the layer below gives it to a model, and as a person who typed a command reads it.
#[test]
fn hints_speak_of_the_options_that_a_person_can_give() {
    let room = Room::new();
    room.put("f", "a a\n").put("g", "x").put("dir/inner", "x");
    let cases: [(&[&str], &str); 14] = [
        (&["mv", "f", "g"], "give -f to replace it"),
        (&["cp", "f", "g"], "give -f to replace it"),
        (&["mv", "f", "dir/"], "name the new path: `dir/f`"),
        (&["mv", "-f", "f", "dir"], "name the new path: `dir/f`"),
        (&["cp", "f", "dir"], "name the new path: `dir/f`"),
        (&["mkdir", "new/er"], "give -p to make"),
        (&["rm", "dir"], "give -r to remove"),
        (&["append", "--no-create", "new", "x"], "leave out --no-create"),
        (&["grep", "("], "give -F"),
        (&["edit", "f", "", "x"], "Use `garret write`"),
        (
            &["edit", "f", "a", "x"],
            "give --replace-all, or --expect with the count",
        ),
        (&["edit", "f", "a", "x", "--expect", "3"], "correct --expect"),
        (&["ls", "--limit", "0"], "--depth and --limit must be at least 1"),
        (
            &["ls", "--at", "2026-11-16"],
            "a time is written as 2026-11-15T20:00:00Z",
        ),
    ];
    for (arguments, words) in cases {
        let ran = room.run(arguments);
        assert_eq!(ran.code(), 1, "{arguments:?}: {}", ran.out());
        assert!(ran.err().contains(words), "{arguments:?}: {}", ran.err());
        let object = room.run(&[arguments, &["--json"]].concat()).json();
        assert!(object["error"].to_string().contains(words), "{object}");
    }
    let call = room.run(&["call", "move", r#"{"src": "f", "dest": "g"}"#]);
    assert!(
        call.err().contains("set `overwrite`"),
        "a tool is spoken of in its own words: {}",
        call.err()
    );
}
