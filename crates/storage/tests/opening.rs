//! Opening by URL and by table.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use crate::common::{Room, at, context, kind};
use futures::executor::block_on;
use garret_core::{ErrorKind, ReadOptions, StorageConfig, StorageRegistry};
use garret_storage::LocalFactory;
use serde_json::json;

fn registry() -> StorageRegistry {
    let mut registry = StorageRegistry::empty();
    registry.register(LocalFactory);
    registry
}

#[test]
fn a_url_and_a_table_open_the_same_directory() {
    let room = Room::new();
    room.write("a.txt", "here").unwrap();
    let dir = room.host("").to_str().unwrap().to_owned();
    let table = json!({"dir": dir, "durability": "relaxed"})
        .as_object()
        .unwrap()
        .clone();
    let configs = [
        StorageConfig::Url(format!("local:{dir}")),
        StorageConfig::Table {
            kind: "local".into(),
            options: table,
        },
    ];
    for config in configs {
        let storage = block_on(registry().open(&config, &context())).unwrap();
        let storage = storage.storage;
        assert_eq!(storage.info().kind, "local");
        let read = block_on(storage.read(&at("a.txt"), ReadOptions::default())).unwrap();
        assert_eq!(read.bytes, "here");
    }
}

#[test]
fn an_unknown_option_is_refused_with_the_nearest_name() {
    let config = StorageConfig::Table {
        kind: "local".into(),
        options: json!({"dir": ".", "durabilty": "full"}).as_object().unwrap().clone(),
    };
    let error = block_on(registry().open(&config, &context())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.hint_text().contains("did you mean `durability`?"), "{error}");
}

#[test]
fn the_storage_goes_with_its_directory_when_that_is_renamed() {
    let room = Room::new();
    room.write("a.txt", "here").unwrap();
    rustix::fs::rename(room.host(""), room.outside("elsewhere")).unwrap();
    assert_eq!(room.text("a.txt"), "here");
    room.write("b.txt", "there").unwrap();
    assert_eq!(kind(room.stat("missing")), ErrorKind::NotFound);
    assert_eq!(Room::at(&room.outside("elsewhere")).text("b.txt"), "there");
}
