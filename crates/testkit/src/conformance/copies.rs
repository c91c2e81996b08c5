//! Copying one file.

use garret_core::{ErrorKind, Precondition};

use crate::Probe;
use crate::mutations::{copy, copy_into, copy_over, write_if, write_mode};

/// A copy has the content and mode, and lives on its own.
pub async fn a_copy_lives_on_its_own(probe: Probe) {
    probe.apply(write_mode("a", "content", 0o750)).await;
    let applied = probe.apply(copy("a", "b")).await;
    assert_eq!((applied.size, applied.created), (7, true));
    if probe.info().has_modes {
        assert_eq!(probe.stat("b").await.mode, Some(0o750));
    }
    probe.write("a", "changed").await;
    probe.apply(crate::mutations::append("b", "!")).await;
    assert_eq!(probe.text("a").await, "changed");
    assert_eq!(probe.text("b").await, "content!");
}

/// A copy that is alone in its batch tells the version of the new file, and a write on that version is taken.
pub async fn a_copy_alone_tells_the_version_of_the_file(probe: Probe) {
    probe.write("a", "content").await;
    probe.write("there", "old").await;
    for (mutation, path) in [
        (copy("a", "b"), "b"),
        (copy_over("a", "there"), "there"),
        (copy("a", "a"), "a"),
    ] {
        let version = probe.apply(mutation).await.version.expect("a copy tells the version");
        probe
            .apply(write_if(path, "next", Precondition::Version(version)))
            .await;
        assert_eq!(probe.text(path).await, "next");
    }
}

/// Without `overwrite`, whatever is at the new path is `already_exists`.
pub async fn a_copy_replaces_nothing_by_default(probe: Probe) {
    probe.write("f", "x").await;
    probe.write("g", "y").await;
    probe.make_dirs("d").await;
    for to in ["g", "d", ""] {
        probe.refuses(ErrorKind::AlreadyExists, copy("f", to)).await;
    }
}

/// With `overwrite`, a copy takes the place of a file, with the source's mode.
pub async fn a_copy_replaces_a_file_when_told(probe: Probe) {
    probe.apply(write_mode("f", "new", 0o700)).await;
    probe.apply(write_mode("g", "old content", 0o640)).await;
    assert!(!probe.apply(copy_over("f", "g")).await.created);
    assert_eq!(probe.text("g").await, "new");
    assert_eq!(probe.text("f").await, "new");
    if probe.info().has_modes {
        assert_eq!(probe.stat("g").await.mode, Some(0o700));
    }
}

/// A copy never takes the place of a directory.
pub async fn a_copy_never_replaces_a_directory(probe: Probe) {
    probe.write("f", "x").await;
    probe.make_dirs("d").await;
    probe.refuses(ErrorKind::IsADirectory, copy_over("f", "d")).await;
}

/// A copy onto itself leaves the file intact.
pub async fn a_copy_onto_itself_is_a_no_op(probe: Probe) {
    probe.write("f", "precious").await;
    for mutation in [copy("f", "f"), copy_over("f", "f"), copy_into("f", "f")] {
        assert!(!probe.apply(mutation).await.created);
    }
    assert_eq!(probe.text("f").await, "precious");
}

/// Directories above the copy are made with `parents`, and missed without.
pub async fn a_copy_makes_directories_only_when_told(probe: Probe) {
    probe.write("f", "x").await;
    probe.refuses(ErrorKind::NotFound, copy("f", "a/b/f")).await;
    probe.apply(copy_into("f", "a/b/f")).await;
    assert_eq!(probe.text("a/b/f").await, "x");
    assert_eq!(probe.text("f").await, "x");
}

/// Only a file can be copied, and not to below a file.
pub async fn only_files_can_be_copied(probe: Probe) {
    probe.write("d/f", "x").await;
    probe.refuses(ErrorKind::IsADirectory, copy("d", "e")).await;
    probe.refuses(ErrorKind::IsADirectory, copy("", "e")).await;
    probe.refuses(ErrorKind::NotFound, copy("missing", "e")).await;
    probe.refuses(ErrorKind::NotADirectory, copy("d/f/x", "e")).await;
    probe.refuses(ErrorKind::NotADirectory, copy("d/f", "d/f/x")).await;
    probe
        .refuses(ErrorKind::NotADirectory, copy_into("d/f", "d/f/x/y"))
        .await;
}
