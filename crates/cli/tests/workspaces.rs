//! Which workspace is meant, and what a wrong configuration is answered with.

#![allow(
    clippy::disallowed_methods,
    reason = "tests run programs and look at the directory from outside"
)]

use std::process::Command;

use crate::common::{Ran, Room};

const NOTES: &str = "[workspaces.notes]\nstorage = 'local:notes'\ncapabilities = { fs = { read_only = true } }\n";

#[test]
fn a_configuration_without_a_choice_from_it_is_wrong_usage() {
    let room = Room::new();
    let ran = room.run(&["--config", "nowhere.toml", "ls", "--json"]);
    assert_eq!(ran.code(), 2);
    assert_eq!(
        ran.json()["error"]["message"],
        "there is no configuration file `nowhere.toml`"
    );
    room.put("notes.toml", NOTES);
    let ran = room.run(&["--config", "notes.toml", "ls", "--json"]);
    assert_eq!(ran.code(), 2);
    assert_eq!(
        ran.json()["error"]["message"],
        "--config is given, but no workspace of that file is chosen"
    );
}

#[test]
fn the_default_is_the_current_directory() {
    let room = Room::new();
    room.put("a", "x");
    assert_eq!(room.run(&["ls"]).done(), "a\n");
}

#[test]
fn a_workspace_is_a_directory_a_url_or_a_name() {
    let room = Room::new();
    room.put("garret.toml", NOTES).put("notes/n", "").put("other/o", "");
    assert_eq!(room.run(&["-w", "other", "ls"]).done(), "o\n");
    assert_eq!(room.run(&["-w", "local:other", "ls"]).done(), "o\n");
    assert_eq!(room.run(&["-w", "memory:", "ls"]).done(), "");
    assert_eq!(room.run(&["-w", "notes", "ls"]).done(), "n\n");
}

#[test]
fn a_name_wins_over_a_directory_so_that_its_policy_holds() {
    let room = Room::new();
    room.put("garret.toml", NOTES).put("notes/n", "");
    assert_eq!(room.run(&["-w", "notes", "write", "x", "y"]).failed(), "denied");
    room.run(&["-w", "./notes", "write", "x", "y"]).done();
}

#[test]
fn the_configuration_is_found_above_and_its_directories_are_relative_to_it() {
    let room = Room::new();
    room.put("garret.toml", NOTES).put("notes/n", "").put("deep/er/x", "");
    let below = room
        .command(&["-w", "notes", "ls"])
        .current_dir(room.path().join("deep/er"))
        .output()
        .unwrap();
    assert_eq!(below.stdout, b"n\n");
    let given = room
        .command(&["--config", "../garret.toml", "-w", "notes", "ls"])
        .current_dir(room.path().join("deep"))
        .output()
        .unwrap();
    assert_eq!(given.stdout, b"n\n");
}

#[test]
fn an_unknown_workspace_is_wrong_usage_with_a_hint() {
    let room = Room::new();
    room.put("garret.toml", NOTES);
    let ran = room.run(&["-w", "note", "ls"]);
    assert_eq!(ran.misused(), "invalid");
    assert!(ran.err().contains("did you mean `notes`?"), "{}", ran.err());
    assert!(
        room.run(&["-w", "memroy:", "ls"])
            .err()
            .contains("did you mean `memory`?")
    );
    assert_eq!(room.run(&["-w", "nowhere", "ls", "--json"]).misused(), "invalid");
}

#[test]
fn a_directory_that_is_gone_is_named_as_it_was_written() {
    let room = Room::new();
    room.put("garret.toml", NOTES);
    let ran = room.run(&["-w", "notes", "ls"]);
    assert_eq!(ran.failed(), "not_found");
    assert!(
        ran.err().contains("`notes`") && !ran.err().contains(room.path().to_str().unwrap()),
        "{}",
        ran.err()
    );
}

#[test]
fn a_workspace_without_files_has_no_file_commands_and_no_tools() {
    let room = Room::new();
    room.put(
        "garret.toml",
        "[workspaces.bare]\nstorage = 'local:.'\ncapabilities = { fs = false }\n",
    );
    assert_eq!(room.run(&["-w", "bare", "ls"]).failed(), "denied");
    assert_eq!(room.run(&["-w", "bare", "edit", "a", "b", "c"]).failed(), "unsupported");
    assert_eq!(room.run(&["-w", "bare", "call", "ls", "--json"]).code(), 1);
    assert_eq!(room.run(&["-w", "bare", "tools", "--format", "mcp"]).done(), "[]\n");
}

#[test]
fn config_check_names_the_place_and_the_nearest_key() {
    let room = Room::new();
    room.put("garret.toml", NOTES).put("notes/a", "");
    assert_eq!(
        room.run(&["config", "check"]).done(),
        "garret.toml is valid (workspaces: notes)\n"
    );
    let wrong = |text: &str| {
        room.put("wrong.toml", text);
        let ran = room.run(&["config", "check", "wrong.toml"]);
        assert_eq!(ran.code(), 1, "{}", ran.out());
        ran.err().to_owned()
    };
    insta::assert_snapshot!(
        "config_check_unknown_key",
        wrong("[workspaces.a]\nstorage = 'memory:'\n[workspaces.a.capabilities.fs]\nmax_fils = 3\n")
    );
    insta::assert_snapshot!(
        "config_check_unknown_capability",
        wrong("[workspaces.a]\nstorage = 'memory:'\ncapabilities = { git = true }\n")
    );
    insta::assert_snapshot!(
        "config_check_unknown_storage",
        wrong("[workspaces.a]\nstorage = 'lokal:x'\n")
    );
    insta::assert_snapshot!(
        "config_check_wrong_glob",
        wrong("[workspaces.a]\nstorage = 'memory:'\ncapabilities = { fs = { deny_read = ['a[b'] } }\n")
    );
    insta::assert_snapshot!(
        "config_check_unknown_storage_option",
        wrong("[workspaces.a]\nstorage = { kind = 'local', dir = 'x', durabilty = 'full' }\n")
    );
    insta::assert_snapshot!(
        "config_check_unknown_url_option",
        wrong("[workspaces.a]\nstorage = 's3://bucket/prefix?fo=1'\n")
    );
    insta::assert_snapshot!(
        "config_check_missing_directory",
        wrong("[workspaces.a]\nstorage = 'local:missing'\n")
    );
    insta::assert_snapshot!(
        "config_check_wrong_type",
        wrong("[workspaces.a]\nstorage = 'memory:'\n[workspaces.a.capabilities.fs]\nmax_files = 'a'\n")
    );
    insta::assert_snapshot!(
        "config_check_memory_option",
        wrong("[workspaces.a]\nstorage = { kind = 'memory', size = 3 }\n")
    );
    insta::assert_snapshot!("config_check_not_toml", wrong("[workspaces.a\n"));
    insta::assert_snapshot!("config_check_no_storage", wrong("[workspaces.a]\n"));
}

#[test]
fn config_check_reads_json_too() {
    let room = Room::new();
    room.put(
        "garret.json",
        r#"{"workspaces": {"a": {"storage": {"kind": "memory"}}}}"#,
    );
    assert_eq!(
        room.run(&["config", "check", "garret.json", "--json"]).data()["workspaces"][0],
        "a"
    );
    assert_eq!(room.run(&["config", "check", "nothing.toml"]).failed(), "not_found");
    assert_eq!(room.run(&["config", "check"]).failed(), "not_found");
}

#[test]
fn a_wrong_configuration_is_wrong_usage_where_it_is_used() {
    let room = Room::new();
    room.put("garret.toml", "[workspaces.a]\nstorge = 'memory:'\n");
    let ran = room.run(&["-w", "a", "ls"]);
    assert_eq!(ran.misused(), "invalid");
    assert!(ran.err().contains("storage"), "{}", ran.err());
    room.put("deep/er/x", "");
    let from_below = |text: &str| {
        room.put("garret.toml", text);
        let mut command = room.command(&["-w", "a", "ls"]);
        command.current_dir(room.path().join("deep/er"));
        let ran = Ran::of(command, b"");
        assert_eq!(ran.misused(), "invalid");
        ran.err().to_owned()
    };
    let wrong_key = from_below("[workspaces.a]\nstorge = 'memory:'\n");
    assert!(
        wrong_key.contains("in ../../garret.toml: unknown key `workspaces.a.storge`"),
        "{wrong_key}"
    );
    let wrong_kind = from_below("[workspaces.a]\nstorage = 'lokal:x'\n");
    assert!(
        wrong_kind.contains("in ../../garret.toml, workspaces.a: unknown storage kind"),
        "{wrong_kind}"
    );
}

#[test]
fn rules_that_cannot_be_read_are_not_taken_for_none() {
    let room = Room::new();
    room.put("notes/a.txt", "a");
    let file = room.path().join("garret.toml");
    let is_refused = |why: &str| {
        let ran = room.run(&["-w", "notes", "ls"]);
        ran.misused();
        assert!(ran.err().contains(why), "{}", ran.err());
        std::fs::remove_file(&file).unwrap();
    };
    std::os::unix::fs::symlink("garret.toml", &file).unwrap();
    is_refused("the configuration file `garret.toml` is a symbolic link");
    std::os::unix::fs::symlink("nowhere", &file).unwrap();
    is_refused("the configuration file `garret.toml` is a symbolic link");
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    is_refused("the configuration file `garret.toml` is not a text file");
    std::fs::write(&file, b"# \xff\n").unwrap();
    is_refused("the configuration file `garret.toml` is not a text file");
    room.run(&["-w", "notes", "ls"]).done();
}

#[test]
fn the_file_that_sets_the_rules_is_not_written_by_those_whom_they_bind() {
    let room = Room::new();
    room.put("garret.toml", "[workspaces.here]\nstorage = 'local:.'\n");
    for arguments in [
        vec!["-w", "here", "write", "garret.toml", "x"],
        vec!["-w", "here", "rm", "garret.toml"],
        vec!["-w", "here", "mv", "garret.toml", "other"],
    ] {
        let ran = room.run(&arguments);
        assert_eq!(ran.code(), 1, "{arguments:?}");
        assert!(ran.err().contains("deny_write = garret.toml"), "{}", ran.err());
    }
    assert_eq!(room.run(&["-w", "here", "write", "other.toml", "x"]).code(), 0);
}
