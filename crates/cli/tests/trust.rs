//! How far a `garret.toml` that is found counts, and how its user comes to trust it.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests run programs and look at the directory from outside"
)]

use std::process::{Command, Stdio};

use crate::common::{GARRET, Ran, Room};

const NARROW: &str =
    "[workspaces.site]\nstorage = 'local:site'\n[workspaces.site.capabilities.fs]\ndeny_read = ['.env']\n";
const WIDE: &str = "[workspaces.site]\nstorage = 'local:site'\nhistory = 'off'\n[workspaces.site.capabilities]\nfs = true\n[workspaces.site.capabilities.shell]\nnetwork = 'full'\n";

fn room(config: &str) -> Room {
    let room = Room::new();
    room.put("garret.toml", config)
        .put("site/a", "x")
        .put("site/.env", "secret");
    room
}

/// Runs the program on a terminal on which somebody types `answer`.
fn on_a_terminal(room: &Room, arguments: &str, answer: &str) -> Ran {
    let mut command = Command::new("script");
    command
        .args(["-qec", &format!("{GARRET} {arguments}"), "/dev/null"])
        .current_dir(room.path())
        .env("GARRET_HOME", room.home());
    Ran::of(command, format!("{answer}\n").as_bytes())
}

#[test]
fn a_found_file_narrows_without_trust() {
    let room = room(NARROW);
    assert_eq!(room.run(&["-w", "site", "ls"]).done(), "a\n");
    assert_eq!(room.run(&["-w", "site", "cat", ".env"]).failed(), "denied");
}

#[test]
fn a_found_file_that_widens_is_refused_with_each_key_until_it_is_trusted() {
    let room = room(WIDE);
    let refused = room.run(&["-w", "site", "ls"]);
    assert_eq!(refused.misused(), "denied");
    for part in ["`history`", "`capabilities.shell.network`", "`garret trust`"] {
        assert!(refused.err().contains(part), "{}", refused.err());
    }
    let trusted = room.run(&["trust", "--yes"]);
    assert!(
        trusted
            .done()
            .contains("workspaces.site.capabilities.shell.network = \"full\""),
        "{}",
        trusted.out()
    );
    assert!(room.run(&["trust", "--yes"]).done().contains("is trusted already"));
    assert_eq!(room.run(&["-w", "site", "cat", "a"]).done(), "x");
}

#[test]
fn config_check_names_the_keys_of_a_found_file_that_need_trust() {
    let room = room(WIDE);
    let checked = room.run(&["config", "check"]);
    assert_eq!(
        checked.done(),
        "garret.toml is valid (workspaces: site)\n\
         note: garret.toml is not trusted; these settings are refused until you run `garret trust`: \
         `workspaces.site.capabilities.shell.network`, `workspaces.site.history`\n"
    );
    let data = room.run(&["config", "check", "--json"]).data();
    assert_eq!(data["needs_trust"], true, "{data}");
    assert_eq!(
        data["untrusted_keys"],
        serde_json::json!(["workspaces.site.capabilities.shell.network", "workspaces.site.history"])
    );
    let valid = "garret.toml is valid (workspaces: site)\n";
    assert_eq!(room.run(&["--config", "garret.toml", "config", "check"]).done(), valid);
    room.trust();
    assert_eq!(room.run(&["config", "check"]).done(), valid);
    room.put("garret.toml", NARROW);
    let changed = room.run(&["config", "check"]);
    assert!(
        changed.done().contains("changed since it was trusted"),
        "{}",
        changed.out()
    );
    assert_eq!(room.run(&["config", "check", "--json"]).data()["needs_trust"], true);
}

#[test]
fn a_file_that_is_given_is_trusted_and_still_names_no_path() {
    let room = room(WIDE);
    assert_eq!(
        room.run(&["--config", "garret.toml", "-w", "site", "cat", "a"]).done(),
        "x"
    );
    room.put("dot.toml", "[workspaces.'.']\nstorage = 'local:site'\n");
    for arguments in [
        ["--config", "dot.toml", "-w", ".", "ls"],
        ["--config", "dot.toml", "-w", "site", "ls"],
    ] {
        let refused = room.run(&arguments);
        assert_eq!(refused.misused(), "invalid");
        assert!(
            refused.err().contains("cannot be the name of a workspace"),
            "{}",
            refused.err()
        );
    }
    assert_eq!(room.run(&["config", "check", "dot.toml"]).failed(), "invalid");
}

#[test]
fn a_change_shows_the_difference_and_asks_again() {
    let room = room(NARROW);
    room.trust();
    room.put("garret.toml", NARROW.replace("deny_read", "deny_write"));
    let refused = room.run(&["-w", "site", "cat", ".env"]);
    assert_eq!(refused.misused(), "denied");
    assert!(
        refused.err().contains("changed since it was trusted"),
        "{}",
        refused.err()
    );
    let asked = room.run(&["trust"]);
    assert_eq!(asked.failed(), "denied");
    assert!(
        asked
            .out()
            .contains("  -deny_read = ['.env']\n  +deny_write = ['.env']\n"),
        "{}",
        asked.out()
    );
    assert_eq!(
        room.run(&["-w", "site", "cat", ".env"]).misused(),
        "denied",
        "nobody said yes"
    );
    room.trust();
    assert_eq!(room.run(&["-w", "site", "cat", ".env"]).done(), "secret");
    room.put("garret.toml", NARROW).trust();
    assert_eq!(room.run(&["-w", "site", "cat", ".env"]).failed(), "denied");
}

#[test]
fn a_person_says_yes_or_no_on_a_terminal() {
    let room = room(WIDE);
    let no = on_a_terminal(&room, "trust", "");
    assert!(
        no.out().contains("trust ") && no.out().contains("the file is not trusted"),
        "{}",
        no.out()
    );
    assert_eq!(room.run(&["-w", "site", "ls"]).misused(), "denied");
    let yes = on_a_terminal(&room, "trust", "y");
    assert!(yes.out().contains("commands reach the network"), "{}", yes.out());
    assert_eq!(room.run(&["-w", "site", "cat", "a"]).done(), "x");
}

#[test]
fn what_is_trusted_is_listed_and_forgotten() {
    let room = room(WIDE);
    assert_eq!(room.run(&["trust", "--list"]).done(), "");
    room.trust();
    let path = room.path().canonicalize().unwrap().join("garret.toml");
    let state = |room: &Room| room.run(&["trust", "--list", "--json"]).data()["files"][0]["state"].clone();
    assert_eq!(room.run(&["trust", "--list"]).done(), format!("{}\n", path.display()));
    assert_eq!(state(&room), "same");
    room.put("garret.toml", NARROW);
    assert_eq!(state(&room), "changed");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(state(&room), "gone");
    assert_eq!(
        room.run(&["-w", "site", "ls"]).misused(),
        "denied",
        "its rules are not taken for none"
    );
    room.run(&["trust", "--remove", "garret.toml"]).done();
    assert_eq!(room.run(&["trust", "--remove", "garret.toml"]).failed(), "not_found");
    assert_eq!(room.run(&["-w", "site", "cat", "a"]).done(), "x");
}

#[test]
fn a_file_that_cannot_be_trusted_says_why() {
    let room = room(WIDE);
    room.put("other.toml", NARROW);
    assert_eq!(room.run(&["trust", "--yes", "other.toml"]).misused(), "invalid");
    assert_eq!(
        room.run(&["trust", "--yes", "nowhere/garret.toml"]).misused(),
        "not_found"
    );
    assert_eq!(room.run(&["-w", "site", "trust"]).misused(), "invalid");
    let mut homeless = room.command(&["trust", "--yes"]);
    homeless.env_remove("GARRET_HOME");
    let homeless = Ran::of(homeless, b"");
    assert_eq!(homeless.misused(), "invalid");
    assert!(homeless.err().contains("recorded in the home"), "{}", homeless.err());
    let mut untrusted = room.command(&["-w", "site", "ls"]);
    untrusted.env_remove("GARRET_HOME");
    assert_eq!(Ran::of(untrusted, b"").misused(), "denied");
}

#[test]
fn a_server_withholds_commands_of_an_untrusted_file_and_says_so_once() {
    let config = "[workspaces.site]\nstorage = 'local:site'\ncapabilities = { fs = true, shell = true, code = true }\n";
    let room = room(config);
    let said = |arguments: &[&str]| {
        let mut command = room.command(arguments);
        // The client is gone at once; what counts is what was said before.
        let output = command.stdin(Stdio::null()).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let note = "note: garret.toml is not trusted, so its settings for `shell` and `code` are ignored";
    assert_eq!(said(&["mcp", "site"]).matches(note).count(), 1);
    assert!(said(&["mcp", "site", "--shell"]).contains("its settings for `code` are ignored"));
    assert!(!said(&["mcp", "site", "--shell", "--code"]).contains("note:"));
    assert_eq!(
        room.run(&["-w", "site", "run", "-c", "echo hi"]).done(),
        "hi\n",
        "a person typed it"
    );
    room.trust();
    assert!(!said(&["mcp", "site"]).contains("note:"));
}

#[test]
fn trust_shows_a_directory_that_a_link_leads_out_of_that_of_the_file() {
    let room = Room::new();
    room.put("inner/garret.toml", "[workspaces.docs]\nstorage = 'local:docs'\n")
        .put("outer/s", "x");
    std::os::unix::fs::symlink("../outer", room.path().join("inner/docs")).unwrap();
    let trusted = room.run(&["trust", "--yes", "inner/garret.toml"]);
    let expected = "workspaces.docs.storage = \"local:docs\"  (a link leads to a directory outside that of the file)";
    assert!(trusted.done().contains(expected), "{}", trusted.out());
}

#[test]
fn an_untrusted_file_leads_no_name_away_from_the_directory_of_that_name() {
    let room = room("[workspaces.site]\nstorage = 'local:.'\n");
    let refused = room.run(&["-w", "site", "ls"]);
    assert_eq!(refused.misused(), "denied");
    assert!(refused.err().contains("./site"), "{}", refused.err());
    assert_eq!(room.run(&["-w", "./site", "ls"]).done(), ".env\na\n");
    room.trust();
    assert!(room.run(&["-w", "site", "ls"]).done().contains("garret.toml"));
}

#[test]
fn a_path_or_a_url_asks_no_file_that_is_found() {
    let room = room("this is not TOML");
    assert_eq!(room.run(&["-w", "./site", "cat", "a"]).done(), "x");
    assert_eq!(room.run(&["-w", "local:site", "cat", "a"]).done(), "x");
    assert_eq!(
        room.run(&["-w", "site", "cat", "a"]).misused(),
        "invalid",
        "rules that cannot be read are not none"
    );
}
