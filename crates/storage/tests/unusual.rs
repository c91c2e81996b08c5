//! Entries that are no plain files, and names that are no text.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tests are the other program that changes files behind the storage"
)]

mod common;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;

use common::{Room, append, at, copy, kind, remove, rename, set_mode};
use futures::executor::block_on;
use garret_core::{Content, EntryAlteration, EntryKind, ErrorKind, ListOptions, Mutation, NewEntry, Storage};
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn room_with_special_files() -> Room {
    let room = Room::new();
    std::fs::create_dir(room.host("d")).unwrap();
    for path in ["fifo", "d/fifo"] {
        mkfifoat(CWD, room.host(path), Mode::from_raw_mode(0o644)).unwrap();
    }
    drop(UnixListener::bind(room.host("socket")).unwrap());
    room
}

#[test]
fn special_files_are_listed_as_other_and_never_opened() {
    let room = room_with_special_files();
    room.write("d/plain.txt", "makes the directory a known one").unwrap();
    room.read("d/plain.txt").unwrap();
    // A reader of a fifo would let this writer's open succeed; it must go on failing.
    let has_reader = |path: &str| {
        let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
        rustix::fs::open(room.host(path), flags, Mode::empty()).is_ok()
    };
    for path in ["fifo", "d/fifo", "socket"] {
        assert_eq!(room.stat(path).unwrap().kind, EntryKind::Other);
        assert_eq!(
            kind(room.read(path)),
            ErrorKind::Unsupported,
            "a read must not hang either"
        );
        let mutations = [
            Mutation::write(at(path), "x"),
            append(path, "x"),
            copy(path, "copy", true),
            set_mode(path, 0o600),
        ];
        for mutation in mutations {
            assert_eq!(kind(room.apply(mutation)), ErrorKind::Unsupported);
        }
        assert!(!has_reader(path));
    }
    let page = block_on(room.storage.list(&at(""), ListOptions::default())).unwrap();
    let kinds: Vec<_> = page
        .entries
        .iter()
        .map(|entry| (entry.path.display_path(), entry.kind))
        .collect();
    let other = |name: &str| (name.to_owned(), EntryKind::Other);
    assert_eq!(
        kinds,
        [("d".to_owned(), EntryKind::Directory), other("fifo"), other("socket")]
    );
    let directory = room.storage.open_directory(&at("")).unwrap().unwrap();
    assert_eq!(kind(directory.open_file(b"fifo")), ErrorKind::Unsupported);
    assert_eq!(kind(directory.open_file(b"d")), ErrorKind::Unsupported);
}

#[test]
fn special_files_can_be_moved_and_removed() {
    let room = room_with_special_files();
    room.apply(rename("fifo", "moved", false)).unwrap();
    room.apply(remove("moved", false)).unwrap();
    room.apply(remove("socket", false)).unwrap();
    room.apply(remove("d", true)).unwrap();
    assert_eq!(room.host_names(""), Vec::<String>::new());
}

#[test]
fn names_that_are_not_utf8_are_listed_escaped_and_go_with_their_directory() {
    let room = Room::new();
    let name = OsStr::from_bytes(b"caf\xe9");
    std::fs::create_dir_all(room.host("d").join(name)).unwrap();
    std::fs::write(room.host("d").join(name).join("inside.txt"), "x").unwrap();
    assert_eq!(room.deep(), ["d", "d/caf\\xE9", "d/caf\\xE9/inside.txt"]);
    let page = block_on(room.storage.list(&at("d"), ListOptions::default())).unwrap();
    assert!(page.entries[0].path.is_escaped());
    assert_eq!(page.entries[0].kind, EntryKind::Directory);
    let after = ListOptions {
        is_deep: true,
        after: Some(page.entries[0].path.clone()),
        ..ListOptions::default()
    };
    let rest = block_on(room.storage.list(&at(""), after)).unwrap();
    assert_eq!(rest.entries.len(), 1, "a cursor may be such a name");
    let directory = room.storage.open_directory(&at("d")).unwrap().unwrap();
    let inner = directory.open_directory(b"caf\xe9").unwrap();
    assert_eq!(inner.open_file(b"inside.txt").unwrap().size, 1);
    assert_eq!(
        inner.open_file(b"missing").unwrap_err().path(),
        Some("d/caf\\xE9/missing")
    );
    room.apply(rename("d", "e", false)).unwrap();
    room.apply(remove("e", true)).unwrap();
    assert_eq!(room.host_names(""), Vec::<String>::new());
}

#[test]
fn the_walk_follows_no_link_and_leaves_no_directory() {
    let room = Room::new();
    room.write("d/file.txt", "x").unwrap();
    std::os::unix::fs::symlink("d", room.host("link")).unwrap();
    let root = room.storage.open_directory(&at("")).unwrap().unwrap();
    assert_eq!(kind(root.open_directory(b"link").map(drop)), ErrorKind::NotADirectory);
    assert_eq!(kind(root.open_file(b"link")), ErrorKind::Unsupported);
    for name in [&b".."[..], b".", b"", b"d/file.txt", b"../root", b".garret-tmp-x"] {
        assert_eq!(kind(root.open_file(name)), ErrorKind::Invalid);
        assert_eq!(kind(root.open_directory(name).map(drop)), ErrorKind::Invalid);
    }
    let names = |directory: &dyn garret_core::DirectoryHandle| directory.list_entries().unwrap().len();
    assert_eq!((names(&*root), names(&*root)), (2, 2), "entries can be asked for twice");
}

#[test]
fn a_tree_deeper_than_the_process_has_handles_is_listed_and_removed() {
    let room = Room::new();
    let few = Rlimit {
        current: Some(256),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, few).unwrap();
    let deep = ["d"; 1_000].join("/");
    std::fs::create_dir_all(room.host(&deep)).unwrap();
    room.write(&format!("{deep}/file.txt"), "x").unwrap();
    let options = ListOptions {
        is_deep: true,
        limit: 10_000,
        ..ListOptions::default()
    };
    let page = block_on(room.storage.list(&at(""), options)).unwrap();
    assert_eq!(page.entries.len(), 1_001);
    room.apply(remove("d", true)).unwrap();
    assert_eq!(room.host_names(""), Vec::<String>::new());
}

#[test]
fn directories_without_the_right_bits_are_removed_whole() {
    use std::os::unix::fs::{PermissionsExt, chown};

    let room = Room::new();
    for (path, mode) in [("a/unwritable", 0o555), ("a/unsearchable", 0o444), ("a/closed", 0o000)] {
        room.write(&format!("{path}/below/file"), "x").unwrap();
        std::fs::set_permissions(room.host(path), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    // Bits mean nothing to root, so a thread of root becomes somebody else.
    let is_root = rustix::process::geteuid().is_root();
    let somebody = rustix::process::Uid::from_raw(65_534);
    if is_root {
        for entry in ["", "a", "a/unwritable", "a/unsearchable", "a/closed"] {
            chown(room.host(entry), Some(somebody.as_raw()), None).unwrap();
        }
        for entry in ["a/unwritable/below", "a/unsearchable/below", "a/closed/below"] {
            chown(room.host(entry), Some(somebody.as_raw()), None).unwrap();
        }
    }
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            if is_root {
                rustix::thread::set_thread_res_uid(somebody, somebody, somebody).unwrap();
            }
            room.apply(remove("a", true)).unwrap();
        });
        work.join().unwrap();
    });
    let left: Vec<_> = std::fs::read_dir(room.host("")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_entry_is_made_replaced_and_removed_by_handle_whatever_its_name() {
    let room = Room::new();
    let root = room.storage.open_directory(&at("")).unwrap().unwrap();
    let odd = b"odd-\xff";
    let (old, new) = (&Content::from("old"), &Content::from(vec![b'n'; 3_000_000]));
    let make = |content| EntryAlteration::Make(NewEntry::File { content, mode: 0o640 });
    root.alter_entry(odd, make(old)).unwrap();
    assert_eq!(kind(root.alter_entry(odd, make(new))), ErrorKind::AlreadyExists);
    root.alter_entry(
        odd,
        EntryAlteration::Replace {
            content: new,
            mode: 0o600,
        },
    )
    .unwrap();
    let stat = root.stat_entry(odd).unwrap();
    assert_eq!((stat.size, stat.mode), (3_000_000, Some(0o600)));
    root.alter_entry(odd, EntryAlteration::SetMode(0o400)).unwrap();
    assert_eq!(root.stat_entry(odd).unwrap().mode, Some(0o400));
    root.alter_entry(odd, EntryAlteration::Remove).unwrap();
    assert_eq!(
        kind(root.alter_entry(odd, EntryAlteration::Remove)),
        ErrorKind::NotFound
    );
    root.alter_entry(odd, EntryAlteration::Make(NewEntry::Directory { mode: 0o700 }))
        .unwrap();
    root.open_directory(odd).unwrap().alter_entry(b"in", make(old)).unwrap();
    assert_eq!(
        kind(root.alter_entry(odd, EntryAlteration::Remove)),
        ErrorKind::NotEmpty
    );
    let replace = EntryAlteration::Replace {
        content: old,
        mode: 0o600,
    };
    assert_eq!(kind(root.alter_entry(odd, replace)), ErrorKind::IsADirectory);
    for name in [b"..".as_slice(), b"a/b", b"", b".garret-tmp-x"] {
        assert_eq!(
            kind(root.alter_entry(name, EntryAlteration::Remove)),
            ErrorKind::Invalid,
            "{name:?}"
        );
    }
    assert_eq!(room.host_names("").len(), 1, "nothing temporary is left");
}
