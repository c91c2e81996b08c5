//! Versions change whenever the content does, also within one tick of the clock.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tests are the other program that changes files behind the storage"
)]

use std::collections::HashSet;
use std::io::{Seek, SeekFrom, Write};
use std::time::Duration;

use crate::common::{Room, at, kind};
use futures::executor::block_on;
use garret_core::{ErrorKind, Precondition, ReadOptions, StatOptions, Storage, Version};

#[test]
fn a_hundred_rapid_rewrites_in_place_are_each_seen() {
    let room = Room::new();
    room.write("a.txt", "0000").unwrap();
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .open(room.host("a.txt"))
        .unwrap();
    let mut versions = HashSet::new();
    for number in 0..100 {
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(format!("{number:04}").as_bytes()).unwrap();
        assert!(versions.insert(room.version("a.txt")), "rewrite {number} went unseen");
    }
}

#[test]
fn a_stale_version_conflicts_after_a_rewrite_in_place_of_the_same_size() {
    let room = Room::new();
    for number in 0..100 {
        room.write("a.txt", "before").unwrap();
        let version = room.version("a.txt");
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .open(room.host("a.txt"))
            .unwrap();
        file.write_all(b"behind").unwrap();
        let error = room
            .write_if("a.txt", "mine", Precondition::Version(version))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "round {number}");
        let current = error.current_version().unwrap().clone();
        room.write_if("a.txt", "mine", Precondition::Version(current)).unwrap();
    }
}

#[test]
fn versions_of_rapid_writes_through_the_storage_never_repeat() {
    let room = Room::new();
    let versions: HashSet<Version> = (0..500)
        .map(|number| room.write("a.txt", &format!("{number:04}")).unwrap().version.unwrap())
        .collect();
    assert_eq!(versions.len(), 500);
}

#[test]
fn a_version_read_young_still_holds_when_the_file_is_old() {
    let room = Room::new();
    room.write("a.txt", "one").unwrap();
    let young = room.version("a.txt");
    assert!(young.as_str().contains('~'));
    std::thread::sleep(Duration::from_millis(120));
    let old = room.version("a.txt");
    assert!(!old.as_str().contains('~'), "an old file needs no hash: {old}");
    room.write_if("a.txt", "two", Precondition::Version(young)).unwrap();
    assert_eq!(
        kind(room.write_if("a.txt", "three", Precondition::Version(old))),
        ErrorKind::Conflict
    );
}

#[test]
fn stat_and_a_read_of_a_part_give_the_version_of_the_whole() {
    let room = Room::new();
    room.write("a.txt", "0123456789").unwrap();
    let stat = block_on(room.storage.stat(
        &at("a.txt"),
        StatOptions {
            with_version: true,
            ..StatOptions::default()
        },
    ))
    .unwrap();
    let part = ReadOptions {
        range: Some(2..5),
        ..ReadOptions::default()
    };
    let read = block_on(room.storage.read(&at("a.txt"), part)).unwrap();
    assert_eq!((&read.bytes[..], read.size), (&b"234"[..], 10));
    assert_eq!(Some(&read.version), stat.version.as_ref());
    room.write_if("a.txt", "new", Precondition::Version(read.version))
        .unwrap();
}

#[test]
fn times_are_those_of_the_file_system() {
    let room = Room::new();
    room.write("a.txt", "one").unwrap();
    let stat = room.stat("a.txt").unwrap();
    let modified = std::fs::metadata(room.host("a.txt")).unwrap().modified().unwrap();
    assert_eq!(std::time::SystemTime::from(stat.modified.unwrap()), modified);
    assert_eq!(
        stat.created.map(std::time::SystemTime::from),
        std::fs::metadata(room.host("a.txt")).unwrap().created().ok()
    );
}
