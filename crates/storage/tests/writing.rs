//! What a write leaves on the disk.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tests look at the disk and change it behind the storage"
)]

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::common::{Room, at, kind, remove, set_mode};
use garret_core::{ErrorKind, Mutation, Precondition};
use garret_storage::Durability;

#[test]
fn a_write_makes_the_directories_above_and_leaves_nothing_else() {
    for durability in [Durability::Full, Durability::Relaxed] {
        let room = Room::with(durability);
        let applied = room.write("a/b/c.txt", "hello").unwrap();
        assert!(applied.created);
        assert_eq!(applied.size, 5);
        assert_eq!(room.text("a/b/c.txt"), "hello");
        assert_eq!(room.host_names("a/b"), ["c.txt"]);
        assert!(!room.write("a/b/c.txt", "again").unwrap().created);
        assert_eq!(room.host_names("a/b"), ["c.txt"]);
    }
}

#[test]
fn the_version_a_write_returns_is_the_version_a_read_finds() {
    let room = Room::new();
    let written = room.write("a.txt", "one").unwrap().version.unwrap();
    room.write_if("a.txt", "two", Precondition::Version(written)).unwrap();
    let read = room.version("a.txt");
    room.write_if("a.txt", "three", Precondition::Version(read)).unwrap();
    assert_eq!(room.text("a.txt"), "three");
}

#[test]
fn the_mode_is_kept_on_overwrite_and_can_be_set() {
    let room = Room::new();
    room.write("tool.sh", "#!/bin/sh\n").unwrap();
    room.apply(set_mode("tool.sh", 0o4751)).unwrap();
    let mode = |room: &Room| std::fs::metadata(room.host("tool.sh")).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&room), 0o4751);
    room.write("tool.sh", "#!/bin/sh\nexit 1\n").unwrap();
    assert_eq!(mode(&room), 0o4751);
    assert_eq!(room.stat("tool.sh").unwrap().mode, Some(0o4751));
    room.apply(Mutation::Write {
        path: at("tool.sh"),
        content: "x".into(),
        precondition: Precondition::Any,
        mode: Some(0o666),
        parents: false,
    })
    .unwrap();
    assert_eq!(mode(&room), 0o666, "the umask does not cut a mode that was given");
}

#[test]
fn root_gives_a_replaced_file_back_to_its_owner() {
    let room = Room::new();
    room.write("theirs.txt", "one").unwrap();
    if std::os::unix::fs::chown(room.host("theirs.txt"), Some(1234), Some(1235)).is_err() {
        // Only root can set the scene; anybody else's overwrite must still work.
        room.write("theirs.txt", "two").unwrap();
        return;
    }
    room.write("theirs.txt", "two").unwrap();
    let now = std::fs::metadata(room.host("theirs.txt")).unwrap();
    assert_eq!((now.uid(), now.gid()), (1234, 1235));
}

#[test]
fn a_reserved_name_cannot_be_named_and_is_not_listed() {
    let room = Room::new();
    std::fs::write(room.host(".garret-tmp-x"), "half").unwrap();
    assert_eq!(room.deep(), Vec::<String>::new());
    assert_eq!(kind(room.read(".garret-tmp-x")), ErrorKind::Invalid);
    assert_eq!(kind(room.stat("a/.garret-tmp-x/b")), ErrorKind::Invalid);
    assert_eq!(kind(room.write(".garret-tmp-y", "")), ErrorKind::Invalid);
    assert_eq!(kind(room.apply(remove(".garret-tmp-x", false))), ErrorKind::Invalid);
    assert!(room.write("notes.garret-tmp-x", "ordinary").is_ok());
}

#[test]
fn a_directory_with_only_the_leftovers_of_a_crash_is_empty() {
    let room = Room::new();
    std::fs::create_dir_all(room.host("d/.garret-tmp-tree/deep")).unwrap();
    std::fs::write(room.host("d/.garret-tmp-file"), "half").unwrap();
    std::fs::write(room.host("d/.garret-tmp-tree/deep/f"), "x").unwrap();
    room.apply(remove("d", false)).unwrap();
    assert!(!room.host("d").exists());
}
