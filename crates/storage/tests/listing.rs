//! Lists: order, pages, and what is not in them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tests are the other program that changes files behind the storage"
)]

use std::sync::Arc;

use crate::common::{Room, at};
use futures::executor::block_on;
use garret_core::{ListOptions, MemoryStorage, Mutation, Storage, SystemClock, WsPath};

/// Every page of a list, one after the other.
fn pages(storage: &dyn Storage, path: &str, is_deep: bool, limit: usize) -> Vec<String> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let options = ListOptions {
            is_deep,
            after,
            limit,
            ..ListOptions::default()
        };
        let page = block_on(storage.list(&at(path), options)).unwrap();
        assert!(page.entries.len() <= limit);
        all.extend(
            page.entries
                .iter()
                .map(|entry| format!("{} {:?} {}", entry.path.display_path(), entry.kind, entry.size)),
        );
        if !page.has_more {
            return all;
        }
        after = page.entries.last().map(|entry| entry.path.clone());
    }
}

#[test]
fn pages_of_any_size_join_to_the_list_of_the_reference() {
    let room = Room::new();
    let memory = MemoryStorage::new(Arc::new(SystemClock::default()));
    let paths = [
        "a/x",
        "a/y/z",
        "a/y-z",
        "a-b",
        "a.txt",
        "a0",
        "a/y/é",
        "b/c/d/e/f",
        "b/c/d.txt",
        "b/c-d/x",
        "ab/a",
    ];
    for path in paths {
        for storage in [&room.storage as &dyn Storage, &memory] {
            block_on(storage.apply(Mutation::write(at(path), "text").into())).unwrap();
        }
    }
    let whole = pages(&memory, "", true, 1_000);
    assert_eq!(whole.len(), paths.len() + 8);
    let place = |text: &str| whole.iter().position(|line| line.starts_with(text)).unwrap();
    assert!(
        place("a ") < place("a-b ") && place("a-b ") < place("a/x "),
        "the order is that of the bytes"
    );
    for (path, is_deep) in [("", true), ("", false), ("a", true), ("a", false), ("b/c", true)] {
        for limit in [1, 2, 3, 7, 1_000] {
            assert_eq!(
                pages(&room.storage, path, is_deep, limit),
                pages(&memory, path, is_deep, limit)
            );
        }
    }
}

#[test]
fn five_thousand_entries_come_in_pages_none_missing_none_twice() {
    let room = Room::new();
    std::fs::create_dir(room.host("many")).unwrap();
    for number in 0..5_000 {
        std::fs::write(room.host(&format!("many/{number:05}")), "").unwrap();
    }
    let listed = pages(&room.storage, "many", false, 700);
    let expected: Vec<_> = (0..5_000).map(|number| format!("many/{number:05} File 0")).collect();
    assert_eq!(listed, expected);
}

#[test]
fn entries_that_vanish_while_they_are_listed_are_left_out() {
    let room = Room::new();
    std::thread::scope(|scope| {
        let churn = scope.spawn(|| {
            for number in 0..300 {
                room.write(&format!("d/{number}/x"), "").unwrap();
                room.apply(crate::common::remove(&format!("d/{number}"), true)).unwrap();
            }
        });
        room.write("d/stays", "").unwrap();
        while !churn.is_finished() {
            let deep = ListOptions {
                is_deep: true,
                ..ListOptions::default()
            };
            let page = block_on(room.storage.list(&WsPath::root(), deep)).unwrap();
            let shown: Vec<_> = page.entries.iter().map(|entry| entry.path.display_path()).collect();
            assert!(shown.contains(&"d/stays".to_owned()), "{shown:?}");
            assert!(shown.iter().all(|path| !path.contains(".garret-tmp-")), "{shown:?}");
        }
    });
}
