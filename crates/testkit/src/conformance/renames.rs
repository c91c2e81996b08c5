//! Moving files and directories.

use garret_core::{EntryKind, ErrorKind, Precondition};

use crate::Probe;
use crate::mutations::{rename, rename_into, rename_over, set_mode, write, write_if, write_mode};

/// A moved file has its content and mode at the new path, and nothing at the old.
pub async fn a_file_moves(probe: Probe) {
    probe.apply(write_mode("a", "content", 0o700)).await;
    let applied = probe.apply(rename("a", "b")).await;
    assert!(applied.created);
    assert_eq!(probe.names("").await, ["b"]);
    assert_eq!(probe.text("b").await, "content");
    if probe.info().has_modes {
        assert_eq!(probe.stat("b").await.mode, Some(0o700));
    }
}

/// A move that is alone in its batch tells the version of the file at its new path, and a write on that version is taken.
pub async fn a_move_alone_tells_the_version_of_the_file(probe: Probe) {
    for path in ["a", "b", "there", "same"] {
        probe.write(path, "content").await;
    }
    for (mutation, path) in [
        (rename("a", "moved"), "moved"),
        (rename_over("b", "there"), "there"),
        (rename("same", "same"), "same"),
    ] {
        let version = probe.apply(mutation).await.version.expect("a move tells the version");
        probe
            .apply(write_if(path, "next", Precondition::Version(version)))
            .await;
        assert_eq!(probe.text(path).await, "next");
    }
    probe.make_dirs("d").await;
    assert_eq!(
        probe.apply(rename("d", "e")).await.version,
        None,
        "a directory has none"
    );
}

/// A directory moves with everything below it.
pub async fn a_directory_moves_with_everything(probe: Probe) {
    for at in ["a/x", "a/b/y", "a/b/c/z", "a-b", "ab"] {
        probe.write(at, at).await;
    }
    probe.make_dirs("a/empty").await;
    if probe.info().has_modes {
        probe.apply(set_mode("a/b", 0o700)).await;
    }
    probe.apply(rename("a", "m")).await;
    let wanted = ["a-b", "ab", "m", "m/b", "m/b/c", "m/b/c/z", "m/b/y", "m/empty", "m/x"];
    assert_eq!(probe.names_deep("").await, wanted);
    assert_eq!(probe.text("m/b/c/z").await, "a/b/c/z");
    if probe.info().has_modes {
        assert_eq!(probe.stat("m/b").await.mode, Some(0o700));
    }
}

/// A directory of 1,500 files moves whole.
pub async fn a_directory_of_1500_files_moves(probe: Probe) {
    let count = probe.many(1_500);
    let files = (0..count).map(|index| write(&format!("from/{index:04}"), format!("{index}")));
    probe.batch(files.collect()).await;
    probe.apply(rename_into("from", "deep/to")).await;
    assert!(!probe.exists("from").await);
    let moved = probe.names("deep/to").await;
    assert_eq!(moved.len(), count);
    let last = count - 1;
    assert_eq!(probe.text(&format!("deep/to/{last:04}")).await, last.to_string());
}

/// A move up or down the tree works.
pub async fn a_move_crosses_directories(probe: Probe) {
    probe.write("a/b/f", "x").await;
    probe.apply(rename("a/b/f", "f")).await;
    probe.apply(rename("f", "a/f")).await;
    probe.apply(rename("a/b", "b")).await;
    assert_eq!(probe.names_deep("").await, ["a", "a/f", "b"]);
}

/// A move onto itself leaves the entry intact, with `overwrite` and without.
pub async fn a_move_onto_itself_is_a_no_op(probe: Probe) {
    probe.write("d/f", "precious").await;
    let before = probe.tree().await;
    for at in ["d/f", "d"] {
        for mutation in [rename(at, at), rename_over(at, at), rename_into(at, at)] {
            let applied = probe.apply(mutation).await;
            assert!(!applied.created);
        }
    }
    assert_eq!(probe.tree().await, before);
    probe
        .refuses(ErrorKind::NotFound, rename_over("missing", "missing"))
        .await;
}

/// A move below itself is `invalid`, with `overwrite` and `parents` and without.
pub async fn a_move_into_itself_is_invalid(probe: Probe) {
    probe.write("d/e/f", "x").await;
    for (from, to) in [
        ("d", "d/x"),
        ("d", "d/e"),
        ("d", "d/e/x"),
        ("d", "d/new/x"),
        ("d/e", "d/e/f"),
        ("d/e/f", "d/e/f/x"),
    ] {
        probe.refuses(ErrorKind::Invalid, rename(from, to)).await;
        probe.refuses(ErrorKind::Invalid, rename_over(from, to)).await;
        probe.refuses(ErrorKind::Invalid, rename_into(from, to)).await;
    }
}

/// A name that merely begins the same is not below it.
pub async fn a_move_to_a_name_that_begins_the_same_works(probe: Probe) {
    probe.write("a/x", "x").await;
    probe.apply(rename("a", "ab")).await;
    probe.apply(rename("ab", "a-")).await;
    assert_eq!(probe.names_deep("").await, ["a-", "a-/x"]);
}

/// Without `overwrite`, whatever is at the new path is `already_exists`.
pub async fn a_move_replaces_nothing_by_default(probe: Probe) {
    probe.write("f", "x").await;
    probe.write("g", "y").await;
    probe.make_dirs("d").await;
    probe.make_dirs("e").await;
    for (from, to) in [("f", "g"), ("f", "d"), ("d", "f"), ("d", "e"), ("f", ""), ("d", "")] {
        probe.refuses(ErrorKind::AlreadyExists, rename(from, to)).await;
    }
}

/// With `overwrite`, a file takes the place of a file.
pub async fn a_move_replaces_a_file_when_told(probe: Probe) {
    probe.write("f", "new").await;
    probe.write("g", "old").await;
    assert!(!probe.apply(rename_over("f", "g")).await.created);
    assert_eq!(probe.names("").await, ["g"]);
    assert_eq!(probe.text("g").await, "new");
    probe.apply(rename_over("g", "h")).await;
    assert_eq!(probe.names("").await, ["h"]);
}

/// With `overwrite`, a directory takes the place of an empty directory only.
pub async fn a_move_replaces_an_empty_directory_only(probe: Probe) {
    probe.write("d/f", "x").await;
    probe.write("full/g", "y").await;
    probe.make_dirs("empty").await;
    probe.refuses(ErrorKind::NotEmpty, rename_over("d", "full")).await;
    probe.apply(rename_over("d", "empty")).await;
    assert_eq!(probe.names_deep("").await, ["empty", "empty/f", "full", "full/g"]);
}

/// A file never takes the place of a directory, nor a directory that of a file.
pub async fn a_move_never_changes_the_kind(probe: Probe) {
    probe.write("f", "x").await;
    probe.write("full/g", "y").await;
    probe.make_dirs("empty").await;
    probe.refuses(ErrorKind::IsADirectory, rename_over("f", "empty")).await;
    probe.refuses(ErrorKind::IsADirectory, rename_over("f", "full")).await;
    probe.refuses(ErrorKind::NotADirectory, rename_over("empty", "f")).await;
    probe.refuses(ErrorKind::NotADirectory, rename_over("full", "f")).await;
}

/// An entry cannot take the place of a directory it lies in.
pub async fn a_move_onto_a_directory_above_is_refused(probe: Probe) {
    probe.write("d/e/f", "x").await;
    probe.refuses(ErrorKind::AlreadyExists, rename("d/e", "d")).await;
    probe.refuses(ErrorKind::NotEmpty, rename_over("d/e", "d")).await;
    probe.refuses(ErrorKind::IsADirectory, rename_over("d/e/f", "d")).await;
}

/// Directories above the new path are made with `parents`, and missed without.
pub async fn a_move_makes_directories_only_when_told(probe: Probe) {
    probe.write("f", "x").await;
    probe.refuses(ErrorKind::NotFound, rename("f", "a/b/f")).await;
    probe.apply(rename_into("f", "a/b/f")).await;
    assert_eq!(probe.kind("a/b").await, Some(EntryKind::Directory));
    assert_eq!(probe.text("a/b/f").await, "x");
}

/// Nothing moves from nowhere, or to below a file.
pub async fn a_move_needs_a_source_and_a_place(probe: Probe) {
    probe.write("f", "x").await;
    probe.write("g", "y").await;
    probe.refuses(ErrorKind::NotFound, rename("missing", "new")).await;
    probe.refuses(ErrorKind::NotFound, rename_over("missing", "g")).await;
    probe.refuses(ErrorKind::NotFound, rename_into("missing", "a/b")).await;
    probe.refuses(ErrorKind::NotADirectory, rename("f/x", "new")).await;
    probe.refuses(ErrorKind::NotADirectory, rename("f", "g/x")).await;
    probe.refuses(ErrorKind::NotADirectory, rename_into("f", "g/x/y")).await;
}

/// The root does not move.
pub async fn the_root_does_not_move(probe: Probe) {
    probe.make_dirs("d").await;
    probe.refuses(ErrorKind::Denied, rename("", "new")).await;
    probe.refuses(ErrorKind::Denied, rename_over("", "d")).await;
}
