//! Reading: whole files, ranges, and the limits of both.

use std::ops::Range;

use garret_core::{ErrorKind, ReadOptions, ReadResult, Result};

use crate::Probe;
use crate::mutations::path;

async fn range(probe: &Probe, start: u64, end: u64) -> ReadResult {
    let options = ReadOptions {
        range: Some(Range { start, end }),
        ..ReadOptions::default()
    };
    probe
        .storage()
        .read(&path("f"), options)
        .await
        .expect("a range of a file can be read")
}

async fn limited(probe: &Probe, range: Option<Range<u64>>, max_bytes: u64) -> Result<ReadResult> {
    let options = ReadOptions {
        range,
        max_bytes: Some(max_bytes),
        ..ReadOptions::default()
    };
    probe.storage().read(&path("f"), options).await
}

/// A range gives its bytes, and the size of the whole file.
pub async fn a_range_gives_its_bytes(probe: Probe) {
    probe.write("f", "0123456789").await;
    for (start, end, wanted) in [(0, 10, "0123456789"), (0, 1, "0"), (3, 6, "345"), (9, 10, "9")] {
        let read = range(&probe, start, end).await;
        assert_eq!(read.bytes, wanted.as_bytes(), "{start}..{end}");
        assert_eq!(read.size, 10, "{start}..{end}");
    }
}

/// What lies past the end is left out.
pub async fn a_range_past_the_end_is_cut(probe: Probe) {
    probe.write("f", "0123456789").await;
    for (start, end, wanted) in [
        (8, 99, "89"),
        (10, 11, ""),
        (99, 100, ""),
        (5, u64::MAX, "56789"),
        (u64::MAX - 1, u64::MAX, ""),
    ] {
        let read = range(&probe, start, end).await;
        assert_eq!(read.bytes, wanted.as_bytes(), "{start}..{end}");
        assert_eq!(read.size, 10, "{start}..{end}");
    }
}

/// An empty range, or one that runs backwards, gives nothing.
pub async fn an_empty_range_gives_nothing(probe: Probe) {
    probe.write("f", "0123456789").await;
    for (start, end) in [(0, 0), (4, 4), (10, 10), (7, 3), (u64::MAX, 0)] {
        assert!(range(&probe, start, end).await.bytes.is_empty(), "{start}..{end}");
    }
}

/// An empty file has only empty ranges.
pub async fn an_empty_file_has_empty_ranges(probe: Probe) {
    probe.write("f", "").await;
    let read = range(&probe, 0, 10).await;
    assert!(read.bytes.is_empty());
    assert_eq!(read.size, 0);
}

/// A file of more than `max_bytes` is `too_large`, one of just as many is read.
pub async fn a_read_over_the_limit_is_too_large(probe: Probe) {
    probe.write("f", "0123456789").await;
    assert_eq!(
        limited(&probe, None, 10).await.expect("ten are allowed").bytes.len(),
        10
    );
    let error = probe.expect_error(ErrorKind::TooLarge, "ten of nine", limited(&probe, None, 9).await);
    assert_eq!(error.path(), Some("f"));
    probe.expect_error(ErrorKind::TooLarge, "ten of none", limited(&probe, None, 0).await);
}

/// The limit counts the bytes asked for that exist, not the file.
pub async fn the_limit_counts_what_is_read(probe: Probe) {
    probe.write("f", "0123456789").await;
    assert_eq!(
        limited(&probe, Some(2..5), 3).await.expect("three are allowed").bytes,
        "234".as_bytes()
    );
    assert_eq!(
        limited(&probe, Some(8..99), 2).await.expect("two exist").bytes,
        "89".as_bytes()
    );
    assert!(
        limited(&probe, Some(4..4), 0)
            .await
            .expect("none are wanted")
            .bytes
            .is_empty()
    );
    probe.expect_error(
        ErrorKind::TooLarge,
        "four of three",
        limited(&probe, Some(2..6), 3).await,
    );
}

/// Only files can be read.
pub async fn only_files_can_be_read(probe: Probe) {
    probe.write("d/f", "x").await;
    for (at, kind) in [
        ("missing", ErrorKind::NotFound),
        ("missing/x", ErrorKind::NotFound),
        ("d/missing", ErrorKind::NotFound),
        ("d", ErrorKind::IsADirectory),
        ("", ErrorKind::IsADirectory),
        ("d/f/x", ErrorKind::NotADirectory),
        ("d/f/x/y", ErrorKind::NotADirectory),
    ] {
        probe.expect_error(kind, at, probe.try_read(at).await);
    }
}

/// What is not there cannot be described.
pub async fn only_entries_can_be_described(probe: Probe) {
    probe.write("d/f", "x").await;
    for (at, kind) in [
        ("missing", ErrorKind::NotFound),
        ("missing/x", ErrorKind::NotFound),
        ("d/f/x", ErrorKind::NotADirectory),
        ("d/f/x/y", ErrorKind::NotADirectory),
    ] {
        probe.expect_error(kind, at, probe.try_stat(at).await);
    }
}

/// A read says which content it read: the version changes with it.
pub async fn a_read_carries_the_version_of_its_bytes(probe: Probe) {
    probe.write("f", "one").await;
    let first = probe.read("f").await;
    probe.write("f", "two").await;
    let second = probe.read("f").await;
    assert_ne!(first.version, second.version);
}
