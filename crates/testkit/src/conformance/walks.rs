//! The synchronous walk, where a storage offers one.

use std::io::Read;

use garret_core::{DirectoryHandle, EntryKind, ErrorKind};

use crate::Probe;
use crate::mutations::{link, path};

fn open(probe: &Probe, at: &str) -> Option<Box<dyn DirectoryHandle>> {
    probe
        .storage()
        .open_directory(&path(at))
        .unwrap_or_else(|error| panic!("{at:?} cannot be opened: {error:?}"))
}

fn names(directory: &dyn DirectoryHandle) -> Vec<(String, EntryKind)> {
    let entries = directory.list_entries().expect("an open directory can be listed");
    let mut names: Vec<_> = entries
        .into_iter()
        .map(|entry| (String::from_utf8_lossy(&entry.name).into_owned(), entry.kind))
        .collect();
    names.sort_by(|one, other| one.0.cmp(&other.0));
    names
}

/// A walk sees the entries that a list sees, and reads the files.
pub async fn a_walk_sees_what_a_list_sees(probe: Probe) {
    probe.write("d/e/f", "content").await;
    probe.write("d/g", "").await;
    let Some(root) = open(&probe, "") else { return };
    assert_eq!(names(&*root), [("d".to_owned(), EntryKind::Directory)]);
    let below = open(&probe, "d").expect("a storage that walks one directory walks all");
    assert_eq!(
        names(&*below),
        [
            ("e".to_owned(), EntryKind::Directory),
            ("g".to_owned(), EntryKind::File)
        ]
    );
    let inner = below.open_directory(b"e").expect("the directory is there");
    let mut file = inner.open_file(b"f").expect("the file is there");
    let mut content = String::new();
    file.content.read_to_string(&mut content).expect("the file can be read");
    assert_eq!((content.as_str(), file.size), ("content", 7));
}

/// A walk refuses what is not what it was asked for.
pub async fn a_walk_opens_only_what_it_names(probe: Probe) {
    probe.write("d/f", "x").await;
    let Some(root) = open(&probe, "") else { return };
    let kind_of = |outcome: garret_core::Result<()>| outcome.expect_err("this must fail").kind();
    assert_eq!(kind_of(root.open_directory(b"missing").map(drop)), ErrorKind::NotFound);
    assert_eq!(kind_of(root.open_file(b"missing").map(drop)), ErrorKind::NotFound);
    let directory = root.open_directory(b"d").expect("the directory is there");
    assert_eq!(
        kind_of(directory.open_directory(b"f").map(drop)),
        ErrorKind::NotADirectory
    );
    assert_eq!(kind_of(root.open_file(b"d").map(drop)), ErrorKind::Unsupported);
    for name in [b"..".as_slice(), b".", b"d/f", b"../d", b""] {
        assert!(
            directory.open_directory(name).is_err(),
            "{name:?} is no name of a directory"
        );
        assert!(directory.open_file(name).is_err(), "{name:?} is no name of a file");
    }
}

/// A walk follows no link.
pub async fn a_walk_follows_no_link(probe: Probe) {
    if !probe.info().has_symlinks {
        return;
    }
    probe.write("d/f", "x").await;
    for (at, target) in [("to_dir", "d"), ("to_file", "d/f"), ("out", "/etc")] {
        probe.apply(link(at, target)).await;
    }
    let Some(root) = open(&probe, "") else { return };
    for name in [b"to_dir".as_slice(), b"to_file", b"out"] {
        let error = root.open_directory(name).map(drop).expect_err("a link is not followed");
        assert_eq!(error.kind(), ErrorKind::NotADirectory);
        let error = root.open_file(name).map(drop).expect_err("a link is not followed");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}

/// A directory that cannot be walked says why.
pub async fn a_walk_begins_at_a_directory(probe: Probe) {
    probe.write("d/f", "x").await;
    if open(&probe, "").is_none() {
        return;
    }
    for (at, kind) in [
        ("missing", ErrorKind::NotFound),
        ("d/f", ErrorKind::NotADirectory),
        ("d/f/x", ErrorKind::NotADirectory),
    ] {
        probe.expect_error(kind, at, probe.storage().open_directory(&path(at)).map(|_| ()));
    }
}
