//! The life of the data: what is kept, what goes, what is looked over.

#![allow(clippy::unwrap_used, reason = "a test ends where it is surprised")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests run programs and look at the directory from outside"
)]

use crate::common::{Room, masked};

#[test]
fn a_workspace_keeps_what_it_was_told_to() {
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    for number in 1..=5 {
        room.run(&["-w", "notes", "write", "a", &number.to_string()]).done();
    }
    assert_eq!(room.run(&["keep", "notes"]).done(), "notes keeps everything\n");
    assert_eq!(room.run(&["keep", "notes", "2"]).done(), "notes keeps 2\n");
    assert_eq!(room.run(&["keep", "notes", "some"]).misused(), "invalid");
    let log = room.run(&["-w", "notes", "log", "--json"]).data();
    assert_eq!(
        log["changes"].as_array().unwrap().len(),
        5,
        "nothing goes before a collection"
    );
    assert_eq!(
        room.run(&["gc", "--dry-run"]).done(),
        "would remove 3 old changes: 0 B\n"
    );
    room.run(&["gc"]).done();
    let log = room.run(&["-w", "notes", "log", "--json"]).data();
    assert_eq!(log["changes"].as_array().unwrap().len(), 2, "{log}");
    assert_eq!(
        room.run(&["-w", "notes", "cat", "a", "--at", "1"]).failed(),
        "not_found"
    );
    assert_eq!(room.run(&["-w", "notes", "cat", "a", "--at", "4"]).done(), "4");
}

#[test]
fn a_deleted_workspace_whose_directory_has_another_history_is_recovered_when_that_is_given_up() {
    let room = Room::new();
    room.put("d/there", "");
    room.run(&["create", "p", "--storage", "local:d"]).done();
    let named = |arguments: &[&str]| room.run(&[&["-w", "p"], arguments].concat());
    let bare = |arguments: &[&str]| room.run(&[&["-w", "local:d"], arguments].concat());
    named(&["write", "a", "1"]).done();
    named(&["snapshot", "create", "s"]).done();
    named(&["write", "a", "2"]).done();
    let before = named(&["log", "--json"]).data();
    room.run(&["delete", "p"]).done();
    bare(&["write", "b", "1"]).done();
    let log = bare(&["log", "--json"]).data();
    assert_eq!(log["changes"].as_array().unwrap().len(), 1, "{log}");

    let refused = room.run(&["recover", "p"]);
    assert_eq!(refused.failed(), "already_exists");
    let all = room.run(&["list", "--all", "--json"]).data();
    let rows = all["workspaces"].as_array().unwrap();
    let nameless = rows.iter().find(|row| row["name"].is_null()).unwrap()["id"]
        .as_str()
        .unwrap();
    assert!(refused.err().contains(nameless), "{}", refused.err());
    room.run(&["delete", nameless]).done();
    room.run(&["recover", "p"]).done();
    assert_eq!(named(&["log", "--json"]).data(), before);
    assert!(named(&["snapshot", "list"]).done().contains('s'));
    named(&["undo"]).done();
    assert_eq!(room.get("d/a"), b"1");
    assert_eq!(room.run(&["recover", nameless]).failed(), "already_exists");
}

#[test]
fn a_directory_is_never_two_workspaces() {
    let room = Room::new();
    room.put("d/there", "");
    room.run(&["create", "old", "--storage", "local:d"]).done();
    room.run(&["-w", "old", "write", "a", "1"]).done();
    room.run(&["delete", "old"]).done();
    room.run(&["create", "new", "--storage", "local:d"]).done();
    for (wanted, owner) in [("old", "new"), ("new", "old")] {
        let refused = room.run(&["recover", wanted]);
        assert_eq!(refused.failed(), "already_exists");
        let owned = format!("the files of `{wanted}` now belong to the workspace `{owner}`");
        assert!(refused.err().contains(&owned), "{}", refused.err());
        room.run(&["delete", owner]).done();
        room.run(&["recover", wanted]).done();
    }
    room.run(&["delete", "new"]).done();
    room.run(&["recover", "old"]).done();
    room.run(&["gc", "--grace", "0s"]).done();
    let log = room.run(&["-w", "old", "log"]);
    assert!(log.done().contains("write `a`"), "{}", log.out());
}

#[test]
fn a_dry_run_tells_which_history_would_go() {
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    for turn in 1..=6 {
        room.run(&["-w", "notes", "write", "a", &turn.to_string()]).done();
    }
    room.run(&["keep", "notes", "2"]).done();
    let dry = room.run(&["gc", "--dry-run"]);
    assert!(dry.done().starts_with("would remove 4 old changes: "), "{}", dry.out());
    let foreseen = room.run(&["gc", "--dry-run", "--json"]).data();
    let told = room.run(&["gc", "--json"]).data();
    assert_eq!(foreseen["histories"], told["histories"]);
    assert_eq!(told["histories"][0]["retained"]["changes"], 4, "{told}");
    assert_eq!(room.run(&["gc", "--dry-run"]).done(), "nothing to remove\n");
}

#[test]
fn what_was_deleted_goes_after_its_grace() {
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    room.run(&["-w", "notes", "write", "a", &"x".repeat(3_000)]).done();
    room.run(&["delete", "notes"]).done();
    assert_eq!(room.run(&["gc"]).done(), "nothing to remove\n");
    room.run(&["recover", "notes"]).done();
    room.run(&["delete", "notes"]).done();
    let dry = room.run(&["gc", "--dry-run", "--grace", "0s"]);
    assert!(
        dry.done()
            .starts_with("would remove 1 deleted workspace, 1 piece of content:"),
        "{}",
        dry.out()
    );
    room.run(&["recover", "notes"]).done();
    room.run(&["delete", "notes"]).done();
    let wet = room.run(&["gc", "--grace", "0s"]);
    assert!(wet.done().starts_with("removed 1 deleted workspace"), "{}", wet.out());
    assert_eq!(room.run(&["recover", "notes"]).failed(), "not_found");
    assert_eq!(room.run(&["gc", "--grace", "soon"]).code(), 2);
}

#[test]
fn usage_tells_what_each_workspace_holds() {
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    room.run(&["-w", "notes", "write", "a", &"x".repeat(2_000)]).done();
    room.run(&["-w", "notes", "snapshot", "create", "before"]).done();
    room.run(&["-w", "notes", "branch", "create", "try"]).done();
    let usage = room.run(&["usage", "--json"]).data();
    assert_eq!(usage["workspaces"][0]["bytes"], 2_000, "{usage}");
    assert_eq!(
        usage["workspaces"][1]["alone_bytes"], 0,
        "a branch shares its content: {usage}"
    );
    let all = room.run(&["usage"]).done().to_owned();
    assert!(
        all.contains("1 file  2.0 KiB") || all.contains("1 file  1.9 KiB"),
        "{all}"
    );
    assert!(all.contains("the home: "), "{all}");
    let one = room.run(&["usage", "notes"]).done().to_owned();
    assert!(one.contains("snapshot before"), "{one}");
    assert_eq!(room.run(&["usage", "nobody"]).failed(), "not_found");
    let long = room.run(&["list", "--long"]).done().to_owned();
    assert!(long.contains("freed if deleted"), "{long}");
    let branches = room.run(&["-w", "notes", "branch", "list", "--long"]).done().to_owned();
    assert!(branches.contains("freed if deleted 0 B"), "{branches}");
    let snapshots = room
        .run(&["-w", "notes", "snapshot", "list", "--long"])
        .done()
        .to_owned();
    assert!(snapshots.contains("1 file"), "{snapshots}");
}

#[test]
fn a_flipped_bit_is_found_and_named() {
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    let content: Vec<u8> = (0..200_000_u32)
        .map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    room.run_with(&["-w", "notes", "write", "large.bin"], &content).done();
    insta::assert_snapshot!("fsck", room.run(&["fsck"]).done());
    let blob = any_blob(&room.home().join("blobs"));
    let mut bytes = std::fs::read(&blob).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&blob, bytes).unwrap();
    let wrong = room.run(&["fsck"]);
    assert_eq!(wrong.code(), 1, "{}", wrong.out());
    assert!(wrong.out().contains("large.bin"), "{}", wrong.out());
    insta::assert_snapshot!("fsck_damage", masked(wrong.out()));
    assert_eq!(room.run(&["-w", "notes", "cat", "large.bin"]).failed(), "corrupt");
    let repaired = room.run(&["fsck", "--repair", "--json"]);
    assert_eq!(repaired.code(), 1, "bytes follow from nothing");
    assert_eq!(repaired.json()["data"]["sound"], false);
}

fn any_blob(blobs: &std::path::Path) -> std::path::PathBuf {
    let folders = blobs.read_dir().unwrap().map(|folder| folder.unwrap().path());
    let mut files = folders
        .filter(|folder| folder.is_dir())
        .flat_map(|folder| folder.read_dir().unwrap().map(|file| file.unwrap().path()));
    files.next().expect("a large file is a blob")
}

/// Runs a line in a shell, with the program as `$0`.
fn shell(room: &Room, line: &str) -> String {
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", line, crate::common::GARRET])
        .current_dir(room.path());
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("GARRET_HOME", room.home());
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// What others may do with what lies in the home, at any depth that they reach.
fn open_to_others(directory: &std::path::Path) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt;
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            found.push(format!("{} {mode:o}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

#[test]
fn what_the_home_holds_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let work = "umask 000; \"$0\" create notes && \"$0\" -w notes write a x && \"$0\" write b y";
    let fresh = Room::new();
    shell(&fresh, work);
    assert_eq!(mode(&fresh.home()), 0o700);
    let wide = Room::new();
    std::fs::create_dir(wide.home()).unwrap();
    std::fs::set_permissions(wide.home(), std::fs::Permissions::from_mode(0o755)).unwrap();
    shell(&wide, work);
    assert_eq!(mode(&wide.home()), 0o755, "a directory that was there keeps its mode");
    assert_eq!(
        open_to_others(&wide.home()),
        Vec::<String>::new(),
        "what is in it is private all the same"
    );
    assert!(!wide.run(&["fsck"]).done().contains("note"));
    std::fs::set_permissions(wide.home().join("depot.db"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let told = wide.run(&["fsck"]).done().to_owned();
    assert!(
        told.contains("`depot.db` (0644)") && told.contains("no problems found"),
        "{told}"
    );
    std::fs::set_permissions(wide.home(), std::fs::Permissions::from_mode(0o700)).unwrap();
    assert!(!wide.run(&["fsck"]).done().contains("note"), "nobody else gets there");
}

#[test]
fn an_export_that_fails_leaves_no_directory_behind() {
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    room.run(&["-w", "notes", "write", "a", "first"]).done();
    room.run_with(&["-w", "notes", "write", "z", "-"], &noise(200_000))
        .done();
    let blobs = std::fs::read_dir(room.home().join("blobs")).unwrap();
    let blob = blobs
        .flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap())
        .next();
    std::fs::remove_file(blob.unwrap().unwrap().path()).unwrap();
    let ran = room.run(&["export", "notes", "--to", "new/deep/place"]);
    assert_eq!(ran.failed(), "corrupt");
    assert!(ran.err().contains("`z`"), "the file is named: {}", ran.err());
    assert!(!room.path().join("new").exists());
    std::fs::create_dir(room.path().join("there")).unwrap();
    assert_eq!(room.run(&["export", "notes", "--to", "there"]).failed(), "corrupt");
    assert_eq!(std::fs::read_dir(room.path().join("there")).unwrap().count(), 0);
    room.run(&["-w", "notes", "rm", "z"]).done();
    room.run(&["export", "notes", "--to", "new/deep/place"]).done();
    assert_eq!(room.get("new/deep/place/a"), b"first");
    let beside = std::fs::read_dir(room.path().join("new/deep")).unwrap().count();
    assert_eq!(beside, 1, "nothing is left aside");
    room.run(&["export", "notes@now", "--to", "there"]).done();
    assert_eq!(room.get("there/a"), b"first");
}

#[test]
fn collected_content_is_not_legible_in_the_database() {
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    let secrets = [
        "sk-0123456789-SMALL".to_owned(),
        "sk-9876543210-LARGE".to_owned() + &hex(&noise(20_000)),
    ];
    for secret in &secrets {
        room.run_with(&["-w", "notes", "write", "key", "-"], secret.as_bytes())
            .done();
    }
    room.run(&["-w", "notes", "write", "key", "none"]).done();
    let holds = |secret: &str| {
        ["depot.db", "depot.db-wal"].iter().any(|name| {
            let bytes = std::fs::read(room.home().join(name)).unwrap_or_default();
            bytes.windows(19).any(|window| window == &secret.as_bytes()[..19])
        })
    };
    assert!(holds(&secrets[0]), "it is there while it is history");
    room.run(&["keep", "notes", "0"]).done();
    room.run(&["gc", "--grace", "0s"]).done();
    for secret in &secrets {
        assert!(!holds(secret));
    }
    assert_eq!(room.run(&["-w", "notes", "cat", "key"]).done(), "none");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that no compression makes small.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Everything below a directory that others may write, links aside.
fn writable_by_others(directory: &std::path::Path) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt;
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(place) = waiting.pop() {
        let described = std::fs::symlink_metadata(&place).unwrap();
        let mode = described.permissions().mode();
        if described.is_symlink() {
            continue;
        }
        // A socket and a directory with the sticky bit are for others by their nature.
        if mode & 0o022 != 0 && mode & 0o1000 == 0 {
            found.push(format!("{} {:o}", place.display(), mode & 0o7777));
        }
        if described.is_dir() {
            waiting.extend(place.read_dir().unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found
}

#[test]
fn with_umask_0_nothing_is_for_others_to_write() {
    let room = Room::new();
    let config = "[workspaces.plain]\nstorage = 'local:plain'\n[workspaces.plain.capabilities]\nfs = true\n[workspaces.plain.capabilities.shell]\n\
                  [workspaces.open]\nstorage = 'local:open'\n[workspaces.open.capabilities]\nfs = true\n[workspaces.open.capabilities.shell]\nsandbox = 'host'\nhost_as_root = true\n";
    std::fs::write(room.path().join("garret.toml"), config).unwrap();
    std::fs::set_permissions(
        room.path().join("garret.toml"),
        std::os::unix::fs::PermissionsExt::from_mode(0o644),
    )
    .unwrap();
    for name in ["plain", "open"] {
        std::fs::create_dir(room.path().join(name)).unwrap();
    }
    let lines = [
        "umask 000",
        "\"$0\" create notes",
        "head -c 300000 /dev/urandom | \"$0\" -w notes write large -",
        "\"$0\" -w notes write dir/small x",
        "for box in plain open; do",
        "\"$0\" --config garret.toml -w $box write deep/er/file x",
        "\"$0\" --config garret.toml -w $box run -- sh -c 'mkdir made && echo x > made/file && touch top'",
        "done",
        "\"$0\" export notes --to tree",
        "\"$0\" export notes notes.garret",
    ];
    shell(&room, &lines.join("\n"));
    assert!(room.path().join("open/made/file").exists() && room.path().join("tree/large").exists());
    assert_eq!(writable_by_others(room.path()), Vec::<String>::new());
    assert_eq!(writable_by_others(&room.home()), Vec::<String>::new());
}

#[test]
fn a_damaged_file_keeps_no_command_from_running_and_is_named() {
    let room = Room::new();
    room.run(&["create", "notes", "--capability", "fs,shell"]).done();
    room.run_with(&["-w", "notes", "write", "large.bin", "-"], &noise(300_000))
        .done();
    room.run(&["-w", "notes", "write", "small", "x"]).done();
    let blob = any_blob(&room.home().join("blobs"));
    std::fs::write(blob, "not what was stored").unwrap();
    let ran = room.run(&["-w", "notes", "run", "--", "ls"]);
    assert_eq!((ran.code(), ran.out()), (0, "small\n"), "{}", ran.err());
    assert!(
        ran.err().contains("`large.bin` was missing for the command"),
        "{}",
        ran.err()
    );
    let told = room.run(&["-w", "notes", "run", "--json", "--", "true"]);
    assert_eq!(told.json()["data"]["corrupt"], serde_json::json!(["large.bin"]));
}
