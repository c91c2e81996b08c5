//! Named workspaces and the home they are kept in.

#![allow(
    clippy::disallowed_methods,
    reason = "tests run programs and look at the directory from outside"
)]

use crate::common::{Room, masked};

#[test]
fn a_workspace_is_made_listed_renamed_deleted_and_recovered() {
    let room = Room::new();
    assert!(room.run(&["list"]).done().contains("garret create"));
    assert_eq!(
        room.run(&["create", "notes"]).done(),
        "created workspace notes on filestore\n"
    );
    room.run(&["-w", "notes", "write", "a.txt", "x"]).done();
    assert_eq!(room.run(&["create", "notes"]).failed(), "already_exists");
    room.run(&["-w", "notes", "branch", "create", "try"]).done();
    room.run(&["rename", "notes", "diary"]).done();
    assert_eq!(room.run(&["-w", "diary", "cat", "a.txt"]).done(), "x");
    room.run(&["create", "old"]).done();
    insta::assert_snapshot!("delete", room.run(&["delete", "old"]).done());
    assert_eq!(room.run(&["delete", "old"]).failed(), "not_found");
    insta::assert_snapshot!("list", masked(room.run(&["list"]).done()));
    insta::assert_snapshot!("list_all", masked(room.run(&["list", "--all"]).done()));
    insta::assert_snapshot!("deleted", room.run(&["-w", "old", "ls"]).err());
    assert_eq!(room.run(&["recover", "old"]).done(), "recovered old\n");
    assert_eq!(room.run(&["recover", "old"]).done(), "old is not deleted\n");
    assert_eq!(room.run(&["recover", "never"]).failed(), "not_found");
    let all = room.run(&["list", "--json"]).data()["workspaces"].clone();
    assert_eq!(all.as_array().unwrap().len(), 3, "{all}");
    assert!(
        all.as_array()
            .unwrap()
            .iter()
            .any(|one| one["branch_of"]["name"] == "diary")
    );
}

/// A user who has nothing.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn allow(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("its owner may change it");
}

/// Runs the program as another user, which only root may.
fn as_nobody(room: &Room, arguments: &[&str]) -> crate::common::Ran {
    use std::os::unix::process::CommandExt as _;
    allow(room.path(), 0o755);
    allow(&room.home(), 0o755);
    let command = room.command(arguments);
    // The program itself may lie where no other user may go.
    let copy = room.path().join("program");
    std::fs::copy(command.get_program(), &copy).expect("the program can be copied");
    let mut other = std::process::Command::new(copy);
    other.args(command.get_args()).current_dir(room.path()).env_clear();
    other.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    other.uid(NOBODY).gid(NOBODY);
    crate::common::Ran::of(other, b"")
}

/// Runs the program as the owner of the home, who has no right to open what is in it.
fn without_permission(room: &Room, arguments: &[&str]) -> crate::common::Ran {
    allow(&room.home().join("depot.lock"), 0o000);
    if !is_root() {
        return crate::common::Ran::of(room.command(arguments), b"");
    }
    std::os::unix::fs::chown(room.home(), Some(NOBODY), None).expect("root may give it away");
    as_nobody(room, arguments)
}

#[test]
fn a_home_of_another_user_is_denied_and_not_taken_for_a_failing_disk() {
    if !is_root() {
        return;
    }
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    let refused = as_nobody(&room, &["list"]);
    assert_eq!(refused.failed(), "denied");
    let told = refused.err();
    assert!(told.contains("it belongs to the user with the id 0"), "{told}");
    assert!(told.contains("--home or GARRET_HOME"), "{told}");
    let doctor = as_nobody(&room, &["doctor"]);
    assert!(
        doctor.out().contains("do: choose a home of your own with --home"),
        "{}",
        doctor.out()
    );
}

#[test]
fn a_home_of_ones_own_that_its_permissions_close_is_denied_and_says_so() {
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    let refused = without_permission(&room, &["list"]);
    assert_eq!(refused.failed(), "denied");
    let told = refused.err();
    assert!(told.contains("its permissions do not allow access"), "{told}");
    assert!(!told.contains("belongs to"), "{told}");
}

#[test]
fn a_home_that_is_no_directory_is_said_to_be_none() {
    let room = Room::new();
    room.put("file", "");
    for home in ["file", "/dev/null"] {
        let refused = room.run(&["--home", home, "create", "notes"]);
        assert_eq!(refused.failed(), "not_a_directory", "{home}");
        assert!(
            refused.err().contains("the home is not a directory"),
            "{}",
            refused.err()
        );
        let named = format!("the home is `{home}`");
        assert!(refused.err().contains(&named), "{}", refused.err());
    }
}

#[test]
fn a_named_directory_is_opened_from_anywhere() {
    let room = Room::new();
    room.put("site/a.txt", "x").put("elsewhere/b", "");
    let made = room.run(&["create", "site", "--storage", "local:site", "--durability", "relaxed"]);
    made.done();
    let ran = room
        .command(&["-w", "site", "cat", "a.txt"])
        .current_dir(room.path().join("elsewhere"))
        .output()
        .unwrap();
    assert_eq!(ran.stdout, b"x", "{}", String::from_utf8_lossy(&ran.stderr));
    room.run(&["delete", "site"]).done();
    assert_eq!(room.get("site/a.txt"), b"x");
    let missing = room.run(&["create", "other", "--storage", "local:nowhere"]);
    assert_eq!(missing.failed(), "not_found");
    assert!(
        !missing.err().contains(room.path().to_str().unwrap()),
        "{}",
        missing.err()
    );
}

#[test]
fn a_name_that_cannot_be_one_is_refused() {
    let room = Room::new();
    for name in ["a/b", "a@b", ".a", "a b", "memory:", ""] {
        let ran = room.run(&["create", name]);
        assert_eq!(ran.failed(), "invalid", "{name:?}");
    }
    for storage in ["memory:", "s3:bucket", "local", "filestore:x"] {
        let ran = room.run(&["create", "a", "--storage", storage]);
        assert_eq!(ran.misused(), "invalid", "{storage}");
    }
}

#[test]
fn a_name_of_the_home_wins_over_a_directory_and_clashes_with_that_of_a_found_file() {
    let room = Room::new();
    room.put("notes/directory", "");
    room.run(&["create", "notes"]).done();
    room.run(&["-w", "notes", "write", "home", ""]).done();
    assert_eq!(room.run(&["-w", "notes", "ls"]).done(), "home\n");
    assert_eq!(room.run(&["-w", "./notes", "ls"]).done(), "directory\n");
    assert_eq!(room.run(&["-w", "filestore:notes", "ls"]).done(), "home\n");
    room.put("garret.toml", "[workspaces.notes]\nstorage = 'memory:'\n");
    let clash = room.run(&["-w", "notes", "ls"]);
    assert_eq!(clash.misused(), "invalid");
    assert!(clash.err().contains("of another one in the home"), "{}", clash.err());
    assert!(clash.err().contains("`-w filestore:notes`"), "{}", clash.err());
    room.put("garret.toml", "[workspaces.fresh]\nstorage = 'memory:'\n");
    let made = room.run(&["create", "fresh"]);
    assert_eq!(made.failed(), "already_exists");
    assert!(made.err().contains("`fresh` is a workspace of"), "{}", made.err());
    assert_eq!(room.run(&["rename", "notes", "fresh"]).failed(), "already_exists");
    room.put("garret.toml", "[workspaces.notes]\nstorage = 'memory:'\n");
    room.trust();
    assert_eq!(
        room.run(&["-w", "notes", "ls"]).misused(),
        "invalid",
        "trust does not say which"
    );
    assert_eq!(room.run(&["--config", "garret.toml", "-w", "notes", "ls"]).done(), "");
    assert_eq!(room.run(&["-w", "./notes", "ls"]).done(), "directory\n");
    room.put("garret.toml", "[workspaces.notes]\nstorage = 'filestore:notes'\n")
        .trust();
    assert_eq!(
        room.run(&["-w", "notes", "ls"]).done(),
        "home\n",
        "both mean one workspace"
    );
}

#[test]
fn a_configured_name_takes_a_point_too() {
    let room = Room::new();
    room.put("garret.toml", "[workspaces.here]\nstorage = 'filestore:kept'\n")
        .trust();
    room.run(&["-w", "here", "write", "a", "1"]).done();
    room.run(&["-w", "here", "write", "a", "2"]).done();
    assert_eq!(room.run(&["-w", "here@1", "cat", "a"]).done(), "1");
    assert_eq!(room.run(&["-w", "kept", "cat", "a"]).done(), "2");
}

#[test]
fn the_home_is_the_one_that_was_named() {
    let room = Room::new();
    room.run(&["--home", "mine", "create", "notes"]).done();
    assert!(room.path().join("mine").is_dir());
    assert!(!room.home().exists());
    assert_eq!(room.run(&["-w", "notes", "ls"]).misused(), "invalid");
    room.run(&["--home", "mine", "-w", "notes", "ls"]).done();
}

#[test]
fn a_home_inside_a_workspace_is_left_out_of_it() {
    let room = Room::new();
    let inside = |arguments: &[&str]| room.run(&[&["--home", ".data/mine"], arguments].concat());
    inside(&["create", "notes"]).done();
    for change in [&["write", "a.txt", "o"][..], &["edit", "a.txt", "o", "x"]] {
        let ran = inside(change);
        ran.done();
        assert!(ran.err().contains("note: the home lies inside"), "{}", ran.err());
    }
    let ran = inside(&["cat", "a.txt"]);
    assert_eq!((ran.done(), ran.err()), ("x", ""), "only a change is remarked on");
    let ran = inside(&["run", "-c", "echo y > made; rm made; true"]);
    assert_eq!(ran.err(), "", "the command left no change");
    let ran = inside(&["run", "touch", "b.txt"]);
    assert!(ran.err().contains("note: the home lies inside"), "{}", ran.err());
    inside(&["rm", "b.txt"]).done();
    assert_eq!(inside(&["cat", ".data/mine/depot.db"]).failed(), "denied");
    assert_eq!(inside(&["rm", "-r", ".data/mine"]).failed(), "denied");
    assert_eq!(inside(&["glob", "**"]).done(), "a.txt\n");
    for arguments in [
        &["log"][..],
        &["snapshot", "create", "s"],
        &["cat", "a.txt", "--at", "1"],
    ] {
        let ran = inside(arguments);
        assert_eq!(ran.failed(), "invalid", "{arguments:?}");
        assert!(ran.err().contains("the home lies inside"), "{}", ran.err());
    }
    room.put("sub/b.txt", "");
    inside(&["-w", "sub", "write", "b.txt", "y"]).done();
    inside(&["-w", "sub", "undo"]).done();
    assert_eq!(inside(&["-w", "notes", "ls"]).done(), "");
}

#[test]
fn looking_for_a_name_makes_no_home() {
    let room = Room::new();
    room.put("d/a", "");
    room.run(&["-w", "d", "ls"]).done();
    assert_eq!(room.run(&["-w", "e", "ls"]).misused(), "invalid");
    room.run(&["doctor"]).done();
    assert!(!room.home().exists());
}

#[test]
fn without_a_place_for_a_home_only_what_needs_one_fails() {
    let room = Room::new();
    room.put("a", "x");
    let without = |arguments: &[&str]| {
        let output = room.command(arguments).env_remove("GARRET_HOME").output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(without(&["cat", "a"]), (0, String::new()));
    assert_eq!(without(&["-w", "memory:", "write", "a", "y"]), (0, String::new()));
    let note = "note: there is no home, so this change cannot be undone later; set GARRET_HOME\n";
    assert_eq!(without(&["write", "a", "y"]), (0, note.to_owned()));
    let doctor = room.command(&["doctor"]).env_remove("GARRET_HOME").output().unwrap();
    let told = String::from_utf8(doctor.stdout).unwrap();
    let is_wanting = told.ends_with("a requirement is missing: see the lines marked MISSING\n");
    assert!(
        is_wanting || told.contains("all required checks passed, but changes cannot be undone later"),
        "{told}"
    );
    for arguments in [
        &["list"][..],
        &["create", "notes"],
        &["-w", "filestore:notes", "ls"],
        &["snapshot", "create", "before"],
        &["branch", "create", "try"],
    ] {
        let (code, text) = without(arguments);
        assert_eq!(code, 2, "{text}");
        assert!(text.contains("--home or GARRET_HOME"), "{text}");
    }
}

#[test]
fn the_doctor_tells_of_the_home_as_it_was_written() {
    let room = Room::new();
    room.run(&["--home", "mine", "create", "notes"]).done();
    let ran = room.run(&["--home", "mine", "-w", "memory:", "doctor"]);
    // What the sandbox can enforce depends on the machine.
    let (before, sandbox) = ran.done().split_once("sandbox namespace: ").unwrap();
    assert!(
        sandbox.contains(" files ") && sandbox.contains(" network "),
        "{sandbox}"
    );
    insta::assert_snapshot!("doctor_home", before);
    std::fs::write(room.path().join("mine/depot.db"), "this is no database").unwrap();
    // It holds all of a database that is new.
    let _ = std::fs::remove_file(room.path().join("mine/depot.db-wal"));
    let broken = room.run(&["--home", "mine", "-w", "memory:", "doctor"]);
    assert_eq!(broken.code(), 1, "{}", broken.out());
    assert!(
        !broken.out().contains(room.path().to_str().unwrap()),
        "{}",
        broken.out()
    );
}

#[test]
fn a_ref_names_the_workspace_and_no_place() {
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    let reference = room.run(&["-w", "notes", "ref"]).done().to_owned();
    let value: serde_json::Value = serde_json::from_str(&reference).unwrap();
    assert_eq!((&value["kind"], &value["name"]), (&"filestore".into(), &"notes".into()));
    assert!(!reference.contains(room.home().to_str().unwrap()));
}

#[test]
fn a_workspace_goes_out_as_one_file_and_comes_in_again() {
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    room.run(&["-w", "notes", "write", "docs/a.txt", "one"]).done();
    room.run(&["-w", "notes", "snapshot", "create", "before"]).done();
    room.run(&["-w", "notes", "write", "docs/a.txt", "two"]).done();
    let exported = room.run(&["export", "notes", "notes.garret"]).done().to_owned();
    insta::assert_snapshot!("export", exported);
    assert_eq!(
        room.run(&["export", "notes", "notes.garret"]).failed(),
        "already_exists"
    );
    assert_eq!(room.run(&["import", "notes.garret"]).failed(), "already_exists");
    insta::assert_snapshot!("import", room.run(&["import", "notes.garret", "--name", "copy"]).done());
    assert_eq!(room.run(&["-w", "copy@before", "cat", "docs/a.txt"]).done(), "one");
    room.run(&["-w", "copy", "undo"]).done();
    assert_eq!(room.run(&["-w", "copy", "cat", "docs/a.txt"]).done(), "one");
    assert_eq!(room.run(&["-w", "notes", "cat", "docs/a.txt"]).done(), "two");
    room.run(&["export", "notes@before", "files.garret"]).done();
    room.run(&["--home", "other", "import", "files.garret"]).done();
    assert_eq!(
        room.run(&["--home", "other", "-w", "notes", "cat", "docs/a.txt"])
            .done(),
        "one"
    );
    let mut damaged = room.get("notes.garret");
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    room.put("damaged.garret", damaged);
    assert_eq!(
        room.run(&["import", "damaged.garret", "--name", "bad"]).failed(),
        "corrupt"
    );
    assert_eq!(room.run(&["recover", "bad"]).failed(), "not_found");
    assert_eq!(room.run(&["import", "nothing.garret"]).failed(), "not_found");
}

#[test]
fn plain_files_come_in_and_go_out() {
    let room = Room::new();
    room.put("tree/docs/a.txt", "one")
        .put("tree/b.txt", "b")
        .link("tree/link", "b.txt");
    insta::assert_snapshot!(
        "import_directory",
        room.run(&["import", "--from", "tree", "--name", "tree"]).done()
    );
    assert_eq!(room.run(&["-w", "tree", "cat", "link"]).done(), "b");
    for archive in ["out.tar", "out.tar.gz", "out.tar.zst"] {
        room.run(&["export", "tree", "--to", archive]).done();
        let name = archive.replace('.', "-");
        room.run(&["import", "--from", archive, "--name", &name]).done();
        assert_eq!(room.run(&["-w", &name, "cat", "docs/a.txt"]).done(), "one");
    }
    room.run(&["export", "tree", "--to", "out"]).done();
    assert_eq!(room.get("out/docs/a.txt"), b"one");
    assert_eq!(
        room.path().join("out/link").read_link().unwrap().to_str(),
        Some("b.txt")
    );
    for archive in ["x.zip", "x.tar.xz", "x.tar.bz2", "x.7z", "x.RAR", "x.garret"] {
        assert_eq!(
            room.run(&["export", "tree", "--to", archive]).failed(),
            "invalid",
            "{archive}"
        );
        assert!(!room.path().join(archive).exists());
    }
    std::fs::create_dir(room.path().join("taken.zip")).unwrap();
    room.run(&["export", "tree", "--to", "taken.zip"]).done();
    let full = room.run(&["export", "tree", "--to", "out"]);
    assert_eq!(full.code(), 1, "{}", full.out());
    assert!(!full.err().contains(room.path().to_str().unwrap()), "{}", full.err());
    room.put(
        "broken.tar",
        "this is no archive, whatever its name says, and it is long enough to look".repeat(20),
    );
    let broken = room.run(&["import", "--from", "broken.tar", "--name", "broken"]);
    assert_eq!(broken.code(), 1, "{}", broken.out());
    room.run(&["create", "broken"]).done();
    assert_eq!(
        room.run(&["import", "--from", "nowhere", "--name", "x"]).failed(),
        "not_found"
    );
    assert_eq!(room.run(&["import", "--from", "tree"]).code(), 2);
}

#[test]
fn the_option_names_the_workspace_where_no_argument_does() {
    let room = Room::new();
    room.run(&["-w", "k", "create"]).done();
    room.run(&["create", "other"]).done();
    room.run(&["-w", "k", "write", "a", "x"]).done();
    assert_eq!(room.run(&["-w", "k", "usage", "--json"]).data()["name"], "k");
    assert_eq!(room.run(&["-w", "k", "keep"]).done(), "k keeps everything\n");
    assert_eq!(
        room.run(&["-w", "k", "keep", "3"]).done(),
        room.run(&["keep", "k"]).done()
    );
    room.run(&["-w", "k", "export", "k.garret"]).done();
    room.run(&["-w", "k", "export", "--to", "files"]).done();
    assert_eq!(room.get("files/a"), b"x");
    room.run(&["-w", "k", "rename", "new"]).done();
    room.run(&["-w", "new", "delete"]).done();
    room.run(&["-w", "new", "recover"]).done();
    assert_eq!(room.run(&["-w", "new", "cat", "a"]).done(), "x");
    let twice: [&[&str]; 6] = [
        &["create", "x"],
        &["usage", "other"],
        &["keep", "other", "3"],
        &["rename", "other", "x"],
        &["delete", "other"],
        &["export", "other", "x.garret"],
    ];
    for arguments in twice {
        let ran = room.run(&[&["-w", "new"], arguments].concat());
        assert_eq!(ran.misused(), "invalid", "{arguments:?}");
        assert!(ran.err().contains("given twice"), "{}", ran.err());
    }
    for arguments in [
        &["keep"][..],
        &["rename", "new"],
        &["delete"],
        &["recover"],
        &["create"],
        &["export", "new"],
    ] {
        assert_eq!(room.run(arguments).misused(), "invalid", "{arguments:?}");
    }
}

#[test]
fn the_option_is_refused_where_it_would_be_without_effect() {
    let room = Room::new();
    room.run(&["create", "k"]).done();
    let all: [&[&str]; 7] = [
        &["list"],
        &["gc"],
        &["fsck"],
        &["demo"],
        &["import", "x.garret"],
        &["config", "check"],
        &["completions", "bash"],
    ];
    for arguments in all {
        let ran = room.run(&[&["-w", "k"], arguments].concat());
        assert_eq!(ran.misused(), "invalid", "{arguments:?}");
        assert!(ran.err().contains("leave out -w"), "{}", ran.err());
    }
}

#[test]
fn the_options_of_a_named_workspace_are_set_and_shown_one_by_one() {
    let room = Room::new();
    let create = [
        "create",
        "box",
        "--capability",
        "fs,shell",
        "--set",
        "shell.max_processes=3",
    ];
    room.run(&create).done();
    let all = room.run(&["configure", "box"]).done().to_owned();
    assert!(all.contains("shell.network = \"none\"  (default)\n"), "{all}");
    assert!(all.contains("shell.limits.timeout_s = 120  (default)\n"), "{all}");
    assert!(all.contains("shell.max_processes = 3\n"), "{all}");

    let set = [
        "configure",
        "box",
        "shell.limits.timeout_s=600",
        "exclude=target/",
        "keep=30d",
        "fs.deny_read=['.env']",
    ];
    let shown = "shell.limits.timeout_s = 600\nexclude = [\"target/\"]\nkeep = \"30d\"\nfs.deny_read = [\".env\"]\n";
    let lines = |text: &str| {
        text.lines()
            .map(str::to_owned)
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(lines(room.run(&set).done()), lines(shown));
    assert_eq!(room.run(&["keep", "box"]).done(), "box keeps 30d\n");
    assert_eq!(room.run(&["-w", "box", "write", ".env", "x"]).failed(), "denied");

    // Back to the defaults, with the name given by -w.
    let reset = ["-w", "box", "configure", "fs.deny_read=", "--unset", "keep", "--json"];
    let data = room.run(&reset).json()["data"].clone();
    assert_eq!(data["name"], "box");
    let option = |key: &str| {
        let options = data["options"].as_array().expect("a list");
        options
            .iter()
            .find(|option| option["key"] == key)
            .expect("an option")
            .clone()
    };
    assert_eq!(option("keep")["is_default"], true);
    assert_eq!(option("exclude")["value"], serde_json::json!(["target/"]));
    assert_eq!(room.run(&["keep", "box"]).done(), "box keeps everything\n");
    room.run(&["-w", "box", "write", ".env", "x"]).done();
}

#[test]
fn a_wrong_option_of_a_named_workspace_changes_nothing() {
    let room = Room::new();
    room.run(&["create", "box", "--capability", "fs,shell"]).done();
    let before = room.run(&["configure", "box"]).done().to_owned();
    for (wrong, reason) in [
        ("shell.netwrk=full", "did you mean `shell.network`?"),
        ("shell.network=sometimes", "the network is `none`"),
        ("shell.limits.max_timeout_s=-1", "limits.max_timeout_s"),
        ("shell.sandbox=moon", "sandbox"),
        ("fs.require_approval=fly", "fly"),
        ("storage.durability=relaxed", "cannot be changed"),
        ("code.is_stateful=true", "code=true"),
        ("nothing", "KEY=VALUE"),
    ] {
        let refused = room.run(&["configure", "box", "exclude=a", wrong]);
        assert_ne!(refused.code(), 0, "{wrong}");
        assert!(refused.err().contains(reason), "{wrong}: {}", refused.err());
    }
    assert_eq!(room.run(&["configure", "box"]).done(), before);
    let refused = room.run(&["create", "other", "--set", "shell.network=full"]);
    assert!(refused.err().contains("shell=true"), "{}", refused.err());

    room.put("garret.toml", "[workspaces.notes]\nstorage = 'memory:'\n");
    let refused = room.run(&["configure", "notes", "exclude=a"]);
    assert!(refused.err().contains("edit that file"), "{}", refused.err());
}

#[test]
fn what_may_be_done_in_a_workspace_can_be_said_later() {
    let room = Room::new();
    room.run(&["create", "box"]).done();
    assert_eq!(room.run(&["capabilities", "box"]).done(), "box declares fs, snapshot\n");
    let refused = room.run(&["-w", "box", "run", "-c", "true"]);
    assert_eq!(refused.failed(), "denied");
    assert!(
        refused.err().contains("garret capabilities box fs,snapshot,shell"),
        "{}",
        refused.err()
    );
    room.run(&["-w", "box", "capabilities", "fs,snapshot,shell"]).done();
    room.run(&["-w", "box", "run", "-c", "echo x > a"]).done();
    assert_eq!(room.run(&["-w", "box", "cat", "a"]).done(), "x\n");
    assert_eq!(room.run(&["capabilities", "box", "git"]).misused(), "invalid");
    assert_eq!(room.run(&["capabilities", "nosuch", "fs"]).failed(), "not_found");
    room.run(&["capabilities", "box", "snapshot"]).done();
    assert_eq!(room.run(&["-w", "box", "ls"]).failed(), "denied");
    room.put("tree/a", "one");
    room.run(&["import", "--from", "tree", "--name", "tree", "--capability", "fs,shell"])
        .done();
    assert_eq!(room.run(&["-w", "tree", "run", "-c", "cat a"]).done(), "one");
    room.run(&["export", "tree", "tree.garret"]).done();
    room.run(&["import", "tree.garret", "--name", "again", "--capability", "fs"])
        .done();
    assert_eq!(room.run(&["capabilities", "again"]).done(), "again declares fs\n");
    assert_eq!(
        room.run(&["import", "tree.garret", "--name", "more", "--capability", "git"])
            .misused(),
        "invalid"
    );
}
