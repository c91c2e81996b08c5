//! The life of the data: what is kept, what goes, what is looked over.

#![allow(clippy::unwrap_used, reason = "a test ends where it is surprised")]
#![allow(
    clippy::disallowed_methods,
    reason = "tests run programs and look at the directory from outside"
)]

mod common;

use common::{Room, masked};

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
    assert_eq!(room.run(&["gc", "--dry-run"]).done(), "there is nothing to remove\n");
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
fn what_was_deleted_goes_after_its_grace() {
    let room = Room::new();
    room.run(&["create", "notes"]).done();
    room.run(&["-w", "notes", "write", "a", &"x".repeat(3_000)]).done();
    room.run(&["delete", "notes"]).done();
    assert_eq!(room.run(&["gc"]).done(), "there is nothing to remove\n");
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
    assert!(long.contains("alone"), "{long}");
    let branches = room.run(&["-w", "notes", "branch", "list", "--long"]).done().to_owned();
    assert!(branches.contains("alone 0 B"), "{branches}");
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
