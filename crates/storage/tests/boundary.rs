//! Nothing leads outside: not a link, not a race, and no message tells where the root is.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tests are the other program that changes files behind the storage"
)]

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Room, append, at, copy, kind, make_dir, remove, rename, set_mode};
use futures::executor::block_on;
use garret_core::{
    Batch, DirectoryHandle, EntryKind, ErrorKind, Follow, ListOptions, Mutation, ReadOptions, Result, StatOptions,
    Storage,
};
use rustix::fs::{CWD, RenameFlags, renameat_with};

const SECRET: &str = "the secret outside";

/// A room with a secret beside it, and the ways that people have tried.
fn room_with_links() -> Room {
    let room = Room::new();
    std::fs::create_dir(room.outside("safe")).unwrap();
    std::fs::write(room.outside("safe/secret.txt"), SECRET).unwrap();
    room.write("inside/file.txt", "inside").unwrap();
    symlink(room.outside("safe"), room.host("absolute")).unwrap();
    symlink("../safe", room.host("relative")).unwrap();
    symlink("inside/../../safe", room.host("winding")).unwrap();
    symlink(room.host("inside"), room.host("absolute-inside")).unwrap();
    symlink("../safe/new.txt", room.host("dangling.txt")).unwrap();
    symlink("../safe/secret.txt", room.host("direct.txt")).unwrap();
    room
}

#[test]
fn no_operation_passes_a_link_that_leads_outside() {
    let room = room_with_links();
    for link in ["absolute", "relative", "winding", "absolute-inside"] {
        let secret = format!("{link}/secret.txt");
        assert_eq!(kind(room.read(&secret)), ErrorKind::PathEscape, "{link}");
        assert_eq!(kind(room.stat(&secret)), ErrorKind::PathEscape, "{link}");
        assert_eq!(
            kind(block_on(room.storage.resolve(&at(&secret)))),
            ErrorKind::PathEscape
        );
        assert_eq!(
            kind(block_on(room.storage.list(&at(link), ListOptions::default()))),
            ErrorKind::PathEscape
        );
        assert!(
            room.storage
                .open_directory(&at(link))
                .is_err_and(|error| error.kind() == ErrorKind::PathEscape)
        );
        for mutation in mutations_at(&secret) {
            assert_eq!(
                kind(room.apply(mutation.clone())),
                ErrorKind::PathEscape,
                "{mutation:?}"
            );
        }
    }
    for link in ["dangling.txt", "direct.txt"] {
        assert_eq!(kind(room.read(link)), ErrorKind::PathEscape);
        assert_eq!(kind(room.write(link, "x")), ErrorKind::PathEscape);
        assert_eq!(kind(room.append(link, "x")), ErrorKind::PathEscape);
        assert_eq!(kind(room.apply(set_mode(link, 0o777))), ErrorKind::PathEscape);
        assert_eq!(kind(room.apply(copy(link, "copied.txt", true))), ErrorKind::PathEscape);
    }
    assert_eq!(std::fs::read_dir(room.outside("safe")).unwrap().count(), 1);
    assert_eq!(
        std::fs::read_to_string(room.outside("safe/secret.txt")).unwrap(),
        SECRET
    );
}

fn mutations_at(path: &str) -> Vec<Mutation> {
    vec![
        Mutation::write(at(path), "x"),
        append(path, "x"),
        remove(path, true),
        rename(path, "stolen.txt", true),
        rename("inside/file.txt", path, true),
        copy(path, "stolen.txt", true),
        copy("inside/file.txt", path, true),
        make_dir(path),
        set_mode(path, 0o777),
        Mutation::Symlink {
            path: at(path),
            target: "x".into(),
        },
    ]
}

#[test]
fn links_that_stay_inside_work() {
    let room = Room::new();
    room.write("real/deep/file.txt", "one").unwrap();
    symlink("real", room.host("alias")).unwrap();
    symlink("../real/deep/file.txt", room.host("real/to-file")).unwrap();
    assert_eq!(room.text("alias/deep/file.txt"), "one");
    assert_eq!(room.text("alias/to-file"), "one");
    room.write("alias/to-file", "two").unwrap();
    assert_eq!(room.text("real/deep/file.txt"), "two");
    assert_eq!(
        room.stat("alias/to-file").unwrap().kind,
        EntryKind::Symlink,
        "the link itself stays a link"
    );
    assert_eq!(
        block_on(room.storage.resolve(&at("alias/to-file"))).unwrap(),
        at("real/deep/file.txt")
    );
    assert_eq!(room.list("alias", false), ["real/deep", "real/to-file"]);
    room.apply(remove("alias", false)).unwrap();
    assert_eq!(
        room.text("real/deep/file.txt"),
        "two",
        "removing a link leaves what it leads to"
    );
}

#[test]
fn a_link_to_itself_is_invalid_and_does_not_hang() {
    let room = Room::new();
    symlink("b", room.host("a")).unwrap();
    symlink("a", room.host("b")).unwrap();
    assert_eq!(kind(room.read("a")), ErrorKind::Invalid);
    assert_eq!(kind(room.write("a/x", "")), ErrorKind::Invalid);
}

#[test]
fn with_links_never_followed_even_one_that_stays_inside_is_refused() {
    let room = Room::new();
    room.write("real/file.txt", "one").unwrap();
    symlink("real", room.host("alias")).unwrap();
    symlink("file.txt", room.host("real/link")).unwrap();
    let follow = Follow::Never;
    for path in ["alias/file.txt", "real/link"] {
        let read = block_on(room.storage.read(
            &at(path),
            ReadOptions {
                follow,
                ..ReadOptions::default()
            },
        ));
        assert_eq!(kind(read), ErrorKind::PathEscape);
        let batch = Batch {
            mutations: vec![Mutation::write(at(path), "x")],
            follow,
            ..Batch::default()
        };
        assert_eq!(kind(block_on(room.storage.apply(batch))), ErrorKind::PathEscape);
    }
    let options = StatOptions {
        follow,
        ..StatOptions::default()
    };
    assert_eq!(
        block_on(room.storage.stat(&at("real/link"), options)).unwrap().kind,
        EntryKind::Symlink
    );
    assert_eq!(
        kind(block_on(room.storage.stat(&at("alias/link"), options))),
        ErrorKind::PathEscape
    );
}

#[test]
fn no_error_shows_a_path_of_the_host() {
    let room = room_with_links();
    let host = room.outside("").to_str().unwrap().trim_end_matches('/').to_owned();
    let mut errors = Vec::new();
    let mut note = |outcome: Result<()>| errors.extend(outcome.err());
    for path in [
        "absolute/secret.txt",
        "dangling.txt",
        "missing/x",
        "inside/file.txt/x",
        "inside",
        "",
        "relative",
    ] {
        note(room.read(path).map(drop));
        note(room.stat(path).map(drop));
        note(block_on(room.storage.list(&at(path), ListOptions::default())).map(drop));
        for mutation in mutations_at(path) {
            note(room.apply(mutation).map(drop));
        }
    }
    assert!(errors.len() > 30, "the paths above are meant to fail");
    for error in errors {
        let shown = format!("{error} {error:?} {}", error.to_json());
        assert!(!shown.contains(&host) && !shown.contains("secret outside"), "{shown}");
    }
}

#[test]
fn a_missing_directory_is_not_found_with_what_to_do() {
    let room = Room::new();
    let open = |path: &str| crate::common::open(&room.host(path), garret_storage::Durability::Full).unwrap_err();
    assert_eq!(open("missing").kind(), ErrorKind::NotFound);
    assert!(open("missing").hint_text().contains("create it"));
    room.write("file.txt", "").unwrap();
    assert_eq!(open("file.txt").kind(), ErrorKind::NotADirectory);
}

/// What the attacker's victim does, over and over; true where it got through.
fn tempt(room: &Room, round: usize) -> bool {
    let path = "swap/file.txt";
    let outcome = match round % 13 {
        0 | 1 => room
            .read(path)
            .map(|read| assert_eq!(read.bytes, "inside", "the secret was read")),
        2 => room.write(path, "inside").map(drop),
        3 => room.append("swap/log.txt", "x").map(drop),
        4 => room.stat("swap/secret.txt").map(|_| panic!("the secret was seen")),
        5 => room.apply(make_dir("swap/made/deep")).map(drop),
        6 => room.apply(remove("swap/made", true)).map(drop),
        7 => room.apply(copy(path, "swap/copy.txt", true)).map(drop),
        8 => room.apply(rename("swap/copy.txt", "swap/moved.txt", true)).map(drop),
        9 => room.apply(set_mode(path, 0o640)).map(drop),
        10 => walk(room),
        11 => block_on(room.storage.list(
            &at("swap"),
            ListOptions {
                is_deep: true,
                ..ListOptions::default()
            },
        ))
        .map(|page| {
            assert!(
                page.entries
                    .iter()
                    .all(|entry| !entry.path.display_path().contains("secret"))
            )
        }),
        _ => room
            .apply(remove("swap/secret.txt", true))
            .map(|_| panic!("the secret was removed")),
    };
    outcome.is_ok()
}

fn walk(room: &Room) -> Result<()> {
    let directory: Box<dyn DirectoryHandle> = room.storage.open_directory(&at(""))?.unwrap();
    let swapped = directory.open_directory(b"swap")?;
    for entry in swapped.list_entries()? {
        assert_ne!(entry.name, b"secret.txt", "the walk went outside");
        if entry.kind == EntryKind::File {
            let mut content = String::new();
            swapped
                .open_file(&entry.name)
                .map(|mut file| file.content.read_to_string(&mut content))?
                .unwrap();
            assert_ne!(content, SECRET);
        }
    }
    Ok(())
}

#[test]
fn an_attacker_who_swaps_a_directory_for_a_link_gets_nothing() {
    let room = Room::new();
    std::fs::create_dir(room.outside("safe")).unwrap();
    std::fs::write(room.outside("safe/secret.txt"), SECRET).unwrap();
    std::fs::write(room.outside("safe/file.txt"), SECRET).unwrap();
    room.write("swap/file.txt", "inside").unwrap();
    symlink(room.outside("safe"), room.host("trap")).unwrap();
    let (real, trap) = (room.host("swap"), room.host("trap"));
    let is_over = AtomicBool::new(false);
    let swaps = AtomicUsize::new(0);
    let (mut done, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        let attacker = || {
            while !is_over.load(Ordering::Relaxed) {
                renameat_with(CWD, &real, CWD, &trap, RenameFlags::EXCHANGE).unwrap();
                // Now and then the real directory stays for a moment, so that the other side gets its turns.
                if swaps.fetch_add(1, Ordering::Relaxed) % 32 == 31 {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        };
        scope.spawn(attacker);
        let start = Instant::now();
        let victim = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0.. {
                match tempt(&room, round) {
                    true => done += 1,
                    false => refused += 1,
                }
                let is_enough = done > 2_000 && refused > 2_000;
                if start.elapsed() > Duration::from_secs(5) || (is_enough && start.elapsed() > Duration::from_secs(2)) {
                    break;
                }
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        victim.unwrap();
    });
    assert!(
        done > 100 && refused > 100,
        "both sides had their turns: {done} done, {refused} refused"
    );
    assert!(swaps.load(Ordering::Relaxed) > 1_000);
    let mut outside: Vec<_> = std::fs::read_dir(room.outside("safe"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    outside.sort();
    assert_eq!(outside, ["file.txt", "secret.txt"], "something was written outside");
    for name in ["file.txt", "secret.txt"] {
        assert_eq!(
            std::fs::read_to_string(room.outside("safe").join(name)).unwrap(),
            SECRET
        );
    }
}
