//! Writing: content, mode, and the version that comes back.

use std::collections::HashSet;
use std::io::{Cursor, Read};

use garret_core::{Content, ContentSource, EntryKind, ErrorKind, ReadOptions};

use crate::Probe;
use crate::mutations::{append, path, set_mode, write, write_beside, write_mode};

/// A write gives the new version and size, and says whether the file is new.
pub async fn a_write_says_what_it_left(probe: Probe) {
    let first = probe.apply(write("a.txt", "hello")).await;
    assert!(first.created);
    assert_eq!(first.size, 5);
    let second = probe.apply(write("a.txt", "hi")).await;
    assert!(!second.created);
    assert_eq!(second.size, 2);
    assert!(first.version.is_some() && second.version.is_some());
    assert_ne!(first.version, second.version);
}

/// A write replaces the whole content.
pub async fn an_overwrite_replaces_everything(probe: Probe) {
    probe.write("a.txt", "a long first content").await;
    probe.write("a.txt", "short").await;
    assert_eq!(probe.text("a.txt").await, "short");
    assert_eq!(probe.stat("a.txt").await.size, 5);
}

/// An empty file is a file.
pub async fn an_empty_file_is_a_file(probe: Probe) {
    probe.write("empty", "").await;
    let stat = probe.stat("empty").await;
    assert_eq!((stat.kind, stat.size), (EntryKind::File, 0));
    assert!(probe.read("empty").await.bytes.is_empty());
}

/// Every byte survives, in small files and in large ones.
pub async fn bytes_are_kept_exactly(probe: Probe) {
    let every: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = (0..3_000_007_u32)
        .map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for (at, content) in [("every", every), ("large", large)] {
        probe.write(at, content.clone()).await;
        let read = probe.read(at).await;
        assert!(read.bytes == content, "{at} came back changed");
        assert_eq!(read.size, content.len() as u64);
    }
}

/// Content from a source is the same file as the same bytes, small or large.
pub async fn a_source_is_stored_as_it_is_read(probe: Probe) {
    for size in [0, 10, 70_000, 20_000_003] {
        let applied = probe.apply(write("d/f", Content::from_source(Pattern::of(size)))).await;
        assert_eq!(applied.size, size);
        let read = probe.read("d/f").await;
        assert!(read.bytes == pattern(size as usize), "{size} bytes came back changed");
        assert_eq!(read.size, size);
    }
    let before = probe.unchanged("d/f").await;
    for range in [0..10, 9_999_990..10_000_010, 19_999_999..30_000_000] {
        let options = ReadOptions {
            range: Some(range.clone()),
            precondition: before.clone(),
            ..ReadOptions::default()
        };
        let read = probe.storage().read(&path("d/f"), options).await;
        let read = read.expect("a range can be read").bytes;
        let end = (range.end as usize).min(20_000_003);
        assert!(read == pattern(end)[range.start as usize..], "{range:?}");
    }
}

/// A source that is shorter or longer than it said, or breaks off, changes nothing: neither the file, nor the rest of its batch.
pub async fn a_source_that_fails_changes_nothing(probe: Probe) {
    probe.write("kept", "as it was").await;
    for size in [100, 5_000_000] {
        let good = Pattern::of(size);
        let bad = [
            Pattern {
                given: size - 1,
                ..good
            },
            Pattern {
                given: size + 1,
                ..good
            },
            Pattern { given: 0, ..good },
            Pattern {
                breaks: Some(size / 2),
                ..good
            },
        ];
        for source in bad {
            let batch = vec![
                write("new/first", "x"),
                write("kept", Content::from_source(source)),
                write("after", "x"),
            ];
            probe.refuses_batch(ErrorKind::Unavailable, batch).await;
        }
    }
}

/// A source of known bytes that may not keep its word.
#[derive(Debug, Clone, Copy)]
struct Pattern {
    said: u64,
    given: u64,
    breaks: Option<u64>,
}

impl Pattern {
    fn of(size: u64) -> Self {
        Self {
            said: size,
            given: size,
            breaks: None,
        }
    }
}

impl ContentSource for Pattern {
    fn size(&self) -> u64 {
        self.said
    }

    fn open(&self) -> garret_core::Result<Box<dyn Read + Send>> {
        let bytes = pattern(self.given as usize);
        Ok(match self.breaks {
            Some(at) => Box::new(Cursor::new(bytes).take(at).chain(Broken)),
            None => Box::new(Cursor::new(bytes)),
        })
    }
}

/// A disk that fails.
struct Broken;

impl Read for Broken {
    fn read(&mut self, _buffer: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("the disk fails"))
    }
}

fn pattern(size: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size + 8);
    let mut number: u64 = 1;
    while bytes.len() < size {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// Without `parents`, a missing directory above is `not_found`.
pub async fn a_write_without_parents_needs_its_directory(probe: Probe) {
    probe.refuses(ErrorKind::NotFound, write_beside("a/b.txt", "x")).await;
    probe.make_dirs("a").await;
    probe.apply(write_beside("a/b.txt", "x")).await;
    assert_eq!(probe.text("a/b.txt").await, "x");
}

/// An overwrite and an append keep the mode.
pub async fn an_overwrite_keeps_the_mode(probe: Probe) {
    if !probe.info().has_modes {
        return;
    }
    probe.apply(write_mode("run.sh", "one", 0o750)).await;
    probe.write("run.sh", "two").await;
    assert_eq!(probe.stat("run.sh").await.mode, Some(0o750));
    probe.apply(append("run.sh", "!")).await;
    assert_eq!(probe.stat("run.sh").await.mode, Some(0o750));
    assert_eq!(probe.read("run.sh").await.mode, Some(0o750));
}

/// A write sets the mode it is given, whatever was there.
pub async fn a_write_sets_the_mode_it_is_given(probe: Probe) {
    if !probe.info().has_modes {
        return;
    }
    for mode in [0o600, 0o777, 0o640, 0o755] {
        probe.apply(write_mode("f", "x", mode)).await;
        assert_eq!(probe.stat("f").await.mode, Some(mode));
    }
}

/// The mode of a file or directory can be set, and its content stays.
pub async fn a_mode_can_be_set(probe: Probe) {
    if !probe.info().has_modes {
        return;
    }
    probe.write("d/f", "x").await;
    for (at, mode) in [("d/f", 0o700), ("d", 0o750), ("d/f", 0o604)] {
        let applied = probe.apply(set_mode(at, mode)).await;
        assert!(!applied.created);
        assert_eq!(probe.stat(at).await.mode, Some(mode), "{at}");
    }
    assert_eq!(probe.text("d/f").await, "x");
}

/// The root keeps its mode, and nothing has none.
pub async fn a_mode_needs_an_entry(probe: Probe) {
    if !probe.info().has_modes {
        return;
    }
    probe.write("f", "x").await;
    probe.refuses(ErrorKind::Denied, set_mode("", 0o700)).await;
    probe.refuses(ErrorKind::NotFound, set_mode("missing", 0o700)).await;
    probe.refuses(ErrorKind::NotFound, set_mode("missing/x", 0o700)).await;
    probe.refuses(ErrorKind::NotADirectory, set_mode("f/x", 0o700)).await;
}

/// Quick rewrites of one size never share a version.
pub async fn every_content_has_its_own_version(probe: Probe) {
    let mut seen = HashSet::new();
    for turn in 0..200 {
        let version = probe.write("f", format!("{turn:04}")).await;
        assert!(
            seen.insert(version.clone()),
            "the version {version} came twice, at turn {turn}"
        );
    }
}

/// Appends change the version too.
pub async fn every_append_changes_the_version(probe: Probe) {
    let mut seen = HashSet::from([probe.write("f", "").await]);
    for turn in 0..50 {
        let version = probe.apply(append("f", "x")).await.version;
        let version = version.expect("an append gives the new version");
        assert!(seen.insert(version), "a version came twice, at turn {turn}");
    }
}

/// What `stat` and `list` say of an entry agrees.
pub async fn stat_and_list_agree(probe: Probe) {
    probe.write("d/f", "four").await;
    probe.write("g", "").await;
    let page = probe
        .page(
            "",
            garret_core::ListOptions {
                is_deep: true,
                ..Default::default()
            },
        )
        .await;
    assert_eq!(page.entries.len(), 3);
    for entry in page.entries {
        let stat = probe.stat(&entry.path.display_path()).await;
        assert_eq!((entry.kind, entry.size), (stat.kind, stat.size), "{:?}", entry.path);
        if entry.modified.is_some() {
            assert_eq!(entry.modified, stat.modified, "{:?}", entry.path);
        }
    }
}
