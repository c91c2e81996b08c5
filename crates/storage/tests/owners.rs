//! Whose files are when Garret is root and the directory is somebody else's.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::print_stdout, reason = "a test that shows nothing here says why")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tests are the other program that changes files behind the storage"
)]

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown};

use crate::common::{Room, at, copy};
use futures::executor::block_on;
use garret_core::{Batch, Content, EntryAlteration, Mutation, NewEntry, Storage, WsPath};

/// A room in a directory of the user 1234, with a file of the user 1236 in it; `None` where this is not root.
fn room_of_another() -> Option<Room> {
    if !rustix::process::geteuid().is_root() {
        println!("not shown here, because only root works in directories of others");
        return None;
    }
    let room = Room::new();
    std::fs::write(room.host("old"), "old").unwrap();
    std::fs::set_permissions(room.host("old"), std::fs::Permissions::from_mode(0o4750)).unwrap();
    chown(room.host("old"), Some(1236), Some(1237)).unwrap();
    std::fs::set_permissions(room.host("old"), std::fs::Permissions::from_mode(0o4750)).unwrap();
    lchown(room.host(""), Some(1234), Some(1235)).unwrap();
    Some(room)
}

fn owner(room: &Room, path: &str) -> (u32, u32) {
    let meta = std::fs::symlink_metadata(room.host(path)).unwrap();
    (meta.uid(), meta.gid())
}

fn apply(room: &Room, mutation: Mutation) {
    block_on(room.storage.apply(Batch::from(mutation))).unwrap();
}

#[test]
fn a_replaced_file_keeps_its_owner_and_its_mode() {
    let Some(room) = room_of_another() else { return };
    room.write("old", "new").unwrap();
    assert_eq!(owner(&room, "old"), (1236, 1237));
    let mode = std::fs::metadata(room.host("old")).unwrap().mode() & 0o7777;
    assert_eq!(mode, 0o4750);
}

#[test]
fn what_comes_to_be_belongs_to_the_owner_of_its_directory() {
    let Some(room) = room_of_another() else { return };
    room.write("made/deep/file", "x").unwrap();
    apply(
        &room,
        Mutation::Symlink {
            path: at("made/link"),
            target: "file".to_owned(),
        },
    );
    apply(&room, copy("old", "made/copy", false));
    apply(
        &room,
        Mutation::Append {
            path: at("made/appended"),
            content: "x".into(),
            precondition: garret_core::Precondition::Any,
            create: true,
        },
    );
    for path in [
        "made",
        "made/deep",
        "made/deep/file",
        "made/link",
        "made/copy",
        "made/appended",
    ] {
        assert_eq!(owner(&room, path), (1234, 1235), "{path}");
    }
    let mode = std::fs::metadata(room.host("made/copy")).unwrap().mode() & 0o7777;
    assert_eq!(mode, 0o4750, "changing hands takes no bits");
}

#[test]
fn a_copy_over_a_file_keeps_the_owner_of_that_file() {
    let Some(room) = room_of_another() else { return };
    room.write("source", "new").unwrap();
    apply(&room, copy("source", "old", true));
    assert_eq!(owner(&room, "old"), (1236, 1237));
}

#[test]
fn entries_with_names_that_no_path_spells_belong_to_the_owner_of_their_directory() {
    let Some(room) = room_of_another() else { return };
    let directory = room.storage.open_directory(&WsPath::root()).unwrap().unwrap();
    let make = |name: &[u8], entry| directory.alter_entry(name, EntryAlteration::Make(entry)).unwrap();
    make(b"d", NewEntry::Directory { mode: 0o750 });
    let content = &Content::from("x");
    make(b"f", NewEntry::File { content, mode: 0o640 });
    make(b"l", NewEntry::Symlink { target: "f" });
    for path in ["d", "f", "l"] {
        assert_eq!(owner(&room, path), (1234, 1235), "{path}");
    }
    assert_eq!(std::fs::metadata(room.host("d")).unwrap().mode() & 0o7777, 0o750);
    assert_eq!(std::fs::metadata(room.host("f")).unwrap().mode() & 0o7777, 0o640);
}

#[test]
fn a_file_that_gives_way_to_another_by_handle_leaves_it_its_owner() {
    let Some(room) = room_of_another() else { return };
    let directory = room.storage.open_directory(&WsPath::root()).unwrap().unwrap();
    let content = &Content::from("new");
    let replace = EntryAlteration::Replace { content, mode: 0o600 };
    directory.alter_entry(b"old", replace).unwrap();
    assert_eq!(owner(&room, "old"), (1236, 1237));
    assert_eq!(std::fs::read_to_string(room.host("old")).unwrap(), "new");
}
