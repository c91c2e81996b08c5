//! A batch happens as a whole or not at all, and leaves no trace of its own.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tests are the other program that changes files behind the storage"
)]

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Room, append, copy, kind, make_dir, remove, rename, set_mode};
use garret_core::{Content, ErrorKind, Mutation, Precondition};
use garret_storage::Durability;

fn furnished(durability: Durability) -> Room {
    let room = Room::with(durability);
    room.write("keep.txt", "keep").unwrap();
    room.write("tree/a/deep.txt", "deep").unwrap();
    room.write("tree/b.txt", "b").unwrap();
    room.apply(make_dir("empty")).unwrap();
    room
}

/// Everything that can be seen on the host: path, mode and content.
fn seen(room: &Room) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![room.host("")];
    while let Some(directory) = todo.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let is_directory = path.is_dir();
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            let content = (!is_directory).then(|| std::fs::read_to_string(&path).unwrap());
            found.push(format!("{path:?} {mode:o} {content:?}"));
            todo.extend(is_directory.then_some(path));
        }
    }
    found.sort();
    found
}

#[test]
fn a_batch_that_fails_at_its_end_leaves_everything_as_it_was() {
    for durability in [Durability::Full, Durability::Relaxed] {
        let room = furnished(durability);
        let before = seen(&room);
        let outcome = room.batch(vec![
            Mutation::write(crate::common::at("keep.txt"), "changed"),
            Mutation::write(crate::common::at("new/dir/file.txt"), "new"),
            append("tree/b.txt", "more"),
            set_mode("tree/b.txt", 0o600),
            rename("tree/b.txt", "empty/b.txt", false),
            copy("empty/b.txt", "keep.txt", true),
            rename("keep.txt", "tree/a/deep.txt", true),
            remove("tree", true),
            rename("new/dir", "empty-too", false),
            remove("empty-too/file.txt", false),
            remove("empty-too", false),
            make_dir("x/y/z"),
            Mutation::Symlink {
                path: crate::common::at("link"),
                target: "keep.txt".into(),
            },
            Mutation::Write {
                path: crate::common::at("x/y/z/last.txt"),
                content: "".into(),
                precondition: Precondition::Version(garret_core::Version::new("none")),
                mode: None,
                parents: true,
            },
        ]);
        assert_eq!(kind(outcome), ErrorKind::Conflict);
        assert_eq!(seen(&room), before);
    }
}

#[test]
fn a_batch_that_succeeds_leaves_only_its_result() {
    let room = furnished(Durability::Full);
    let applied = room
        .batch(vec![
            Mutation::write(crate::common::at("keep.txt"), "changed"),
            rename("tree/b.txt", "keep.txt", true),
            remove("tree", true),
            rename("empty", "full", false),
            Mutation::write(crate::common::at("full/file.txt"), "new"),
        ])
        .unwrap();
    assert_eq!(applied.len(), 5);
    assert_eq!(room.deep(), ["full", "full/file.txt", "keep.txt"]);
    assert_eq!(room.text("keep.txt"), "b");
    assert_eq!(room.host_names(""), ["full", "keep.txt"], "no temporary name is left");
}

#[test]
fn what_a_batch_removed_piece_by_piece_comes_back_when_it_fails() {
    let room = furnished(Durability::Relaxed);
    let before = seen(&room);
    let mut steps = vec![
        remove("tree/a/deep.txt", false),
        remove("tree/a", false),
        remove("tree/b.txt", false),
        rename("empty", "tree", true),
    ];
    steps.push(remove("missing", false));
    assert_eq!(kind(room.batch(steps.clone())), ErrorKind::NotFound);
    assert_eq!(seen(&room), before);
    steps.pop();
    room.batch(steps).unwrap();
    assert_eq!(room.host_names(""), ["keep.txt", "tree"]);
    assert_eq!(room.host_names("tree"), Vec::<String>::new());
}

#[test]
fn a_batch_may_end_with_removing_the_directory_that_it_emptied() {
    let room = furnished(Durability::Relaxed);
    room.batch(vec![remove("tree/a/deep.txt", false), remove("tree/a", false)])
        .unwrap();
    room.batch(vec![remove("tree/b.txt", false), rename("empty", "tree", true)])
        .unwrap();
    assert_eq!(room.host_names(""), ["keep.txt", "tree"]);
}

#[test]
fn a_move_onto_a_hard_link_of_the_same_file_removes_the_old_name() {
    let room = Room::new();
    room.write("a.txt", "one").unwrap();
    std::fs::hard_link(room.host("a.txt"), room.host("b.txt")).unwrap();
    room.apply(rename("a.txt", "b.txt", true)).unwrap();
    assert_eq!(room.host_names(""), ["b.txt"]);
    assert_eq!(room.text("b.txt"), "one");
}

fn names_of(room: &Room, path: &str) -> u64 {
    std::fs::metadata(room.host(path)).unwrap().nlink()
}

/// A write of content that is at `other` too.
fn named_again(path: &str, content: &'static str, other: &str) -> Mutation {
    Mutation::Write {
        path: crate::common::at(path),
        content: Content::from(content).with_other_name(crate::common::at(other)),
        precondition: Precondition::Any,
        mode: Some(0o640),
        parents: true,
    }
}

#[test]
fn content_that_is_at_another_path_too_becomes_another_name_of_that_file() {
    let room = Room::new();
    let batch = vec![
        named_again("a", "one", "a"),
        named_again("d/b", "one", "a"),
        named_again("other-content", "two", "a"),
        named_again("no-such-file", "one", "nowhere"),
    ];
    room.batch(batch).unwrap();
    let counts = ["a", "d/b", "other-content", "no-such-file"].map(|path| names_of(&room, path));
    assert_eq!(counts, [2, 2, 1, 1]);
    room.apply(named_again("c", "one", "a")).unwrap();
    assert_eq!(names_of(&room, "c"), 3, "and of one that was there before");
    room.apply(named_again("c", "one", "a")).unwrap();
    assert_eq!(names_of(&room, "c"), 3, "twice is no more than once");
    room.apply(set_mode("c", 0o600)).unwrap();
    room.apply(named_again("e", "one", "c")).unwrap();
    assert_eq!(names_of(&room, "c"), 1, "a file of another mode is another file");
    assert_eq!(room.text("e"), "one");
    assert!(room.host_names("").iter().all(|name| !name.starts_with('.')));
}

#[test]
fn a_name_that_is_changed_parts_from_the_others() {
    for durability in [Durability::Full, Durability::Relaxed] {
        let room = Room::with(durability);
        for (index, change) in [
            append("b", " more"),
            set_mode("b", 0o600),
            Mutation::write(crate::common::at("b"), "new"),
        ]
        .into_iter()
        .enumerate()
        {
            let other = format!("a{index}");
            room.apply(named_again(&other, "one", &other)).unwrap();
            room.batch(vec![named_again("b", "one", &other)]).unwrap();
            assert_eq!(names_of(&room, "b"), 2);
            let modified = || std::fs::metadata(room.host("b")).unwrap().modified().unwrap();
            let before = modified();
            room.apply(change).unwrap();
            assert_eq!(names_of(&room, &other), 1);
            assert_eq!(room.text(&other), "one");
            let mode = std::fs::metadata(room.host(&other)).unwrap().mode() & 0o777;
            assert_eq!(mode, 0o640);
            match index {
                0 => assert_eq!(room.text("b"), "one more"),
                1 => assert_eq!(modified(), before, "a mode is no content"),
                _ => assert_eq!(room.text("b"), "new"),
            }
        }
    }
}

#[test]
fn a_batch_may_be_bound_to_versions_of_several_names_of_one_file() {
    let room = Room::new();
    room.batch(vec![named_again("a", "one", "a"), named_again("b", "one", "a")])
        .unwrap();
    let bound = |path: &str| Mutation::Remove {
        path: crate::common::at(path),
        recursive: false,
        precondition: Precondition::Version(room.version("a")),
    };
    let batch = vec![bound("b"), bound("a")];
    std::fs::write(room.host("a"), "two").unwrap();
    assert_eq!(kind(room.batch(batch)), ErrorKind::Conflict);
    room.batch(vec![bound("b"), bound("a")]).unwrap();
    assert_eq!(room.host_names(""), Vec::<String>::new());
}

#[test]
fn a_batch_that_fails_takes_back_the_names_that_it_added() {
    let room = Room::new();
    room.batch(vec![named_again("a", "one", "a"), named_again("b", "one", "a")])
        .unwrap();
    room.write("c", "c").unwrap();
    let before = seen(&room);
    let batch = vec![
        named_again("c", "one", "a"),
        named_again("d/e", "one", "a"),
        append("b", "more"),
        set_mode("a", 0o600),
        remove("nowhere", false),
    ];
    assert_eq!(kind(room.batch(batch)), ErrorKind::NotFound);
    assert_eq!(seen(&room), before);
    assert_eq!((names_of(&room, "a"), names_of(&room, "c")), (2, 1));
}

#[test]
fn readers_see_the_old_or_the_new_content_and_never_a_mix() {
    let room = Room::new();
    let content = |letter: char| letter.to_string().repeat(300_000);
    room.write("a.txt", &content('a')).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for letter in "bcdefghijklmnopqrstuvwxyz".chars().cycle().take(300) {
                let other = Mutation::write(crate::common::at("b.txt"), "x");
                room.batch(vec![
                    Mutation::write(crate::common::at("a.txt"), content(letter)),
                    other,
                ])
                .unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut reads = 0;
        while !is_over.load(Ordering::Relaxed) {
            let bytes = room.read("a.txt").unwrap().bytes;
            assert_eq!(bytes.len(), 300_000);
            assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a mix of two contents");
            reads += 1;
        }
        assert!(reads > 10);
    });
}

#[test]
fn what_other_programs_delete_and_replace_meanwhile_gives_clean_errors() {
    let room = Room::new();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..400 {
                let _ = std::fs::create_dir(room.host("d"));
                let _ = std::fs::write(room.host("d/f.txt"), "foreign");
                let _ = std::fs::remove_dir_all(room.host("d"));
                let _ = std::fs::write(room.host("d"), "a file for a change");
                let _ = std::fs::remove_file(room.host("d"));
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let clean = [
            ErrorKind::NotFound,
            ErrorKind::Conflict,
            ErrorKind::NotADirectory,
            ErrorKind::IsADirectory,
            ErrorKind::AlreadyExists,
            ErrorKind::NotEmpty,
            ErrorKind::Unavailable,
        ];
        let check = |outcome: garret_core::Result<()>| {
            if let Err(error) = outcome {
                assert!(clean.contains(&error.kind()), "{error}");
            }
        };
        while !is_over.load(Ordering::Relaxed) {
            check(room.read("d/f.txt").map(drop));
            check(room.stat("d/f.txt").map(drop));
            check(room.write("d/f.txt", "ours").map(drop));
            check(room.append("d/f.txt", "ours").map(drop));
            check(room.apply(copy("d/f.txt", "copy.txt", true)).map(drop));
            check(room.apply(rename("d/f.txt", "moved.txt", true)).map(drop));
            check(room.apply(remove("d", true)).map(drop));
            room.deep();
        }
    });
    let leftovers: Vec<_> = room
        .host_names("")
        .into_iter()
        .filter(|name| name.starts_with(".garret-tmp-"))
        .collect();
    assert_eq!(leftovers, Vec::<String>::new());
}

#[test]
fn a_lock_held_by_another_program_is_waited_for() {
    let room = Room::new();
    room.write("d/f.txt", "one").unwrap();
    let directory = std::fs::File::open(room.host("d")).unwrap();
    rustix::fs::flock(&directory, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            room.write("d/f.txt", "two").unwrap();
            is_done.store(true, Ordering::Relaxed);
        });
        std::thread::sleep(std::time::Duration::from_millis(150));
        assert!(!is_done.load(Ordering::Relaxed), "the lock was ignored");
        assert_eq!(room.text("d/f.txt"), "one", "readers need no lock");
        drop(directory);
    });
    assert_eq!(room.text("d/f.txt"), "two");
}
