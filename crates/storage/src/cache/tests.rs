//! The promises of the cache, without a storage and over one.

#![allow(
    clippy::disallowed_methods,
    reason = "the tests look at the files of the cache, and damage them"
)]

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use futures::executor::block_on;
use garret_core::{
    Batch, Follow, ListOptions, LocalContent, MemoryStorage, Mutation, ReadOptions, Storage, SystemClock, Version,
    WsPath,
};

use super::*;

struct Desk {
    home: tempfile::TempDir,
}

impl Desk {
    fn new() -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
        }
    }

    fn cache(&self, max_bytes: u64) -> ContentCache {
        let directory = self.home.path().join("cache");
        ContentCache::open(&CacheOptions { directory, max_bytes }).unwrap()
    }

    /// The entries, the oldest first by name.
    fn files(&self) -> Vec<PathBuf> {
        files_below(&self.home.path().join("cache"))
    }
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        if entry.path().is_dir() {
            found.extend(files_below(&entry.path()));
        } else if entry.file_name() != "opened" {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

fn key(name: &str) -> CacheKey {
    CacheKey::from_parts(&[name.as_bytes()])
}

const LARGE: u64 = 1 << 30;

#[test]
fn what_was_kept_is_given_back_to_every_process_of_the_home() {
    let desk = Desk::new();
    let cache = desk.cache(LARGE);
    assert_eq!(cache.get(&key("a")), None);
    cache.put(&key("a"), b"content");
    cache.put(&key("empty"), b"");
    assert_eq!(cache.get(&key("a")).unwrap(), "content");
    assert_eq!(desk.cache(LARGE).get(&key("a")).unwrap(), "content");
    assert_eq!(desk.cache(LARGE).get(&key("empty")).unwrap(), "");
}

#[test]
fn the_parts_of_a_key_cannot_be_taken_for_each_other() {
    assert_ne!(
        CacheKey::from_parts(&[b"ab", b"c"]),
        CacheKey::from_parts(&[b"a", b"bc"])
    );
    assert_ne!(CacheKey::from_parts(&[b"a"]), CacheKey::from_parts(&[b"a", b""]));
}

#[test]
fn a_damaged_entry_is_gone_wherever_the_damage_is() {
    let desk = Desk::new();
    let cache = desk.cache(LARGE);
    cache.put(&key("a"), b"content");
    let path = desk.files().remove(0);
    let whole = std::fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        assert_eq!(cache.get(&key("a")), None, "byte {at}");
        assert!(desk.files().is_empty(), "byte {at}");
    }
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert_eq!(cache.get(&key("a")), None, "cut at {length}");
    }
    cache.put(&key("a"), b"content");
    assert_eq!(cache.get(&key("a")).unwrap(), "content", "it can be kept again");
}

#[test]
fn an_entry_under_another_name_is_not_taken_for_what_it_is_not() {
    let desk = Desk::new();
    let cache = desk.cache(LARGE);
    cache.put(&key("a"), b"content");
    let path = desk.files().remove(0);
    cache.put(&key("b"), b"another");
    let other = desk.files().into_iter().find(|file| *file != path).unwrap();
    std::fs::copy(&path, &other).unwrap();
    assert_eq!(cache.get(&key("b")), None);
    assert_eq!(cache.get(&key("a")).unwrap(), "content");
}

#[test]
fn nobody_else_can_look_into_it() {
    let desk = Desk::new();
    desk.cache(LARGE).put(&key("a"), b"content");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = desk.files().remove(0);
    assert_eq!(mode(&file), 0o600);
    for directory in file.ancestors().skip(1).take(2) {
        assert_eq!(mode(directory), 0o700, "{directory:?}");
    }
}

#[test]
fn it_stays_within_its_bounds_and_lets_go_of_what_was_used_least_recently() {
    const SHARE: u64 = 64 * 1024;
    let desk = Desk::new();
    let cache = desk.cache(SHARE * SHARDS as u64);
    let content = [7; 3000];
    let names: Vec<_> = (0..4000).map(|number| number.to_string()).collect();
    for (number, name) in names.iter().enumerate() {
        cache.put(&key(name), &content);
        // Each a second after the one before, long ago.
        let path = cache.shards[key(name).shard_number() % SHARDS].path_of(&key(name));
        if let Ok(file) = File::options().write(true).open(path) {
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000 + number as u64))
                .unwrap();
        }
    }
    let total: u64 = desk.files().len() as u64 * 4096;
    // The share, and the bytes that may be added before the next count.
    assert!(total <= (SHARE + SHARE / 8) * SHARDS as u64, "{total} bytes");
    assert!(total >= SHARE * SHARDS as u64 / 2, "{total} bytes");
    let kept = |range: std::ops::Range<usize>| {
        names[range]
            .iter()
            .filter(|name| cache.get(&key(name)).is_some())
            .count()
    };
    assert_eq!(kept(0..1000), 0, "the first are long gone");
    assert_eq!(kept(3900..4000), 100, "the last are all there");
}

#[test]
fn what_is_used_stays_and_a_short_process_keeps_the_bounds_too() {
    const SHARE: u64 = 64 * 1024;
    let desk = Desk::new();
    let shard_of = |name: &str| key(name).shard_number() % SHARDS;
    let names: Vec<_> = (0..)
        .map(|number: u32| number.to_string())
        .filter(|name| shard_of(name) == 5)
        .take(60)
        .collect();
    let age = |cache: &ContentCache, name: &str, seconds: u64| {
        let path = cache.shards[5].path_of(&key(name));
        if let Ok(file) = File::options().write(true).open(path) {
            file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
        }
    };
    for (number, name) in names.iter().enumerate() {
        // A process for each, as commands are.
        let cache = desk.cache(SHARE * SHARDS as u64);
        cache.put(&key(name), &[1; 3000]);
        age(&cache, name, 1_000_000 + number as u64);
        assert!(
            cache.get(&key(&names[0])).is_some(),
            "the one that is used all the time, at {number}"
        );
        assert!(desk.files().len() as u64 * 4096 <= SHARE + 4096, "at {number}");
    }
}

#[test]
fn a_content_larger_than_a_share_is_passed_by() {
    let desk = Desk::new();
    let cache = desk.cache(64 * 1024 * SHARDS as u64);
    assert_eq!(cache.max_content_bytes(), 32 * 1024);
    cache.put(&key("large"), &[0; 40 * 1024]);
    assert_eq!(cache.get(&key("large")), None);
    assert!(desk.files().is_empty());
}

#[test]
fn a_cache_that_was_removed_is_made_again() {
    let desk = Desk::new();
    let cache = desk.cache(LARGE);
    std::fs::remove_dir_all(desk.home.path().join("cache")).unwrap();
    cache.put(&key("a"), b"content");
    assert_eq!(cache.get(&key("a")).unwrap(), "content");
}

#[test]
fn many_threads_see_all_of_an_entry_or_nothing() {
    let desk = Desk::new();
    let caches = [desk.cache(LARGE), desk.cache(LARGE)];
    let content = |number: usize| vec![u8::try_from(number % 251).unwrap(); 10_000 + number];
    std::thread::scope(|scope| {
        for (thread, cache) in caches.iter().cycle().take(4).enumerate() {
            scope.spawn(move || {
                for number in (0..200).map(|number| (number * (thread + 1)) % 50) {
                    let key = key(&number.to_string());
                    if let Some(found) = cache.get(&key) {
                        assert_eq!(found, content(number));
                    }
                    cache.put(&key, &content(number));
                    assert_eq!(cache.get(&key).unwrap(), content(number));
                }
            });
        }
    });
}

/// A storage in memory over a cache.
fn cached(desk: &Desk, scope: &str) -> CachedStorage {
    let memory = Arc::new(MemoryStorage::new(Arc::new(SystemClock::default())));
    CachedStorage::new(memory, Arc::new(desk.cache(LARGE)), scope)
}

fn at(path: &str) -> WsPath {
    WsPath::parse(path).unwrap()
}

fn write(storage: &CachedStorage, path: &str, content: &str) {
    let batch = Batch {
        follow: Follow::Never,
        ..Mutation::write(at(path), content.to_owned().into_bytes()).into()
    };
    block_on(storage.apply(batch)).unwrap();
}

fn listed(storage: &CachedStorage, path: &str) -> (Version, u64) {
    let page = block_on(storage.list(&WsPath::root(), ListOptions::default())).unwrap();
    let entry = page
        .entries
        .into_iter()
        .find(|entry| entry.path == at(path).into())
        .unwrap();
    (entry.version.unwrap(), entry.size)
}

#[test]
fn what_was_written_or_read_lies_at_hand_by_the_version_of_the_list() {
    let desk = Desk::new();
    let storage = cached(&desk, "one");
    write(&storage, "a", "first");
    let (first, size) = listed(&storage, "a");
    assert_eq!(storage.find_content(&at("a"), &first, size).unwrap(), "first");
    write(&storage, "a", "second");
    let (second, size) = listed(&storage, "a");
    assert_eq!(storage.find_content(&at("a"), &second, size).unwrap(), "second");
    assert_eq!(
        storage.find_content(&at("a"), &first, size),
        None,
        "the size is another"
    );
    assert_eq!(storage.find_content(&at("b"), &second, size), None, "so is the path");
    // Another program wrote it: it is cached when it is read.
    block_on(storage.inner.apply(Mutation::write(at("b"), "theirs").into())).unwrap();
    let (theirs, size) = listed(&storage, "b");
    assert_eq!(storage.find_content(&at("b"), &theirs, size), None);
    let options = ReadOptions {
        follow: Follow::Never,
        ..ReadOptions::default()
    };
    block_on(storage.read(
        &at("b"),
        ReadOptions {
            range: Some(0..2),
            ..options.clone()
        },
    ))
    .unwrap();
    assert_eq!(
        storage.find_content(&at("b"), &theirs, size),
        None,
        "a part is not the whole"
    );
    block_on(storage.read(&at("b"), options)).unwrap();
    assert_eq!(storage.find_content(&at("b"), &theirs, size).unwrap(), "theirs");
}

#[test]
fn places_share_what_is_the_same_and_nothing_else() {
    let desk = Desk::new();
    let outer = cached(&desk, "server/bucket");
    write(&outer, "team/a", "shared");
    let version = block_on(outer.stat(
        &at("team/a"),
        garret_core::StatOptions {
            with_version: true,
            ..Default::default()
        },
    ));
    let version = version.unwrap().version.unwrap();
    let inner = cached(&desk, "server/bucket/team");
    assert_eq!(inner.find_content(&at("a"), &version, 6).unwrap(), "shared");
    let elsewhere = cached(&desk, "server/another");
    assert_eq!(elsewhere.find_content(&at("team/a"), &version, 6), None);
}
