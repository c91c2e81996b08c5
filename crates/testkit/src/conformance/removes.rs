//! Removing: what goes, what stays, what is refused.

use garret_core::ErrorKind;

use crate::Probe;
use crate::mutations::{remove, remove_tree};

/// A removed file is gone, from reads and lists.
pub async fn a_removed_file_is_gone(probe: Probe) {
    probe.write("d/f", "x").await;
    probe.write("d/g", "y").await;
    let applied = probe.apply(remove("d/f")).await;
    assert_eq!((applied.version, applied.size, applied.created), (None, 0, false));
    probe.expect_error(ErrorKind::NotFound, "the removed file", probe.try_read("d/f").await);
    assert_eq!(probe.names("d").await, ["d/g"]);
}

/// An empty directory is removed like a file.
pub async fn an_empty_directory_is_removed(probe: Probe) {
    probe.make_dirs("d/e").await;
    probe.apply(remove("d/e")).await;
    probe.apply(remove_tree("d")).await;
    assert_eq!(probe.names_deep("").await, Vec::<String>::new());
}

/// A directory with entries needs `recursive`.
pub async fn a_full_directory_needs_recursive(probe: Probe) {
    probe.write("d/e/f", "x").await;
    probe.refuses(ErrorKind::NotEmpty, remove("d")).await;
    probe.refuses(ErrorKind::NotEmpty, remove("d/e")).await;
    probe.apply(remove_tree("d")).await;
    assert_eq!(probe.names_deep("").await, Vec::<String>::new());
}

/// A recursive removal takes everything below, and nothing whose name merely begins the same.
pub async fn a_recursive_removal_takes_only_what_lies_below(probe: Probe) {
    for at in ["a/x", "a/b/y", "a/b/c/z", "a-b/x", "a.txt", "a0", "ab/x", "b/a/x"] {
        probe.write(at, "x").await;
    }
    probe.apply(remove_tree("a")).await;
    let left = ["a-b", "a-b/x", "a.txt", "a0", "ab", "ab/x", "b", "b/a", "b/a/x"];
    assert_eq!(probe.names_deep("").await, left);
}

/// `recursive` on a file removes the file.
pub async fn a_recursive_removal_of_a_file_removes_it(probe: Probe) {
    probe.write("f", "x").await;
    probe.apply(remove_tree("f")).await;
    assert!(!probe.exists("f").await);
}

/// What is not there cannot be removed.
pub async fn nothing_cannot_be_removed(probe: Probe) {
    probe.write("f", "x").await;
    for (at, kind) in [
        ("missing", ErrorKind::NotFound),
        ("missing/x", ErrorKind::NotFound),
        ("f/x", ErrorKind::NotADirectory),
    ] {
        probe.refuses(kind, remove(at)).await;
        probe.refuses(kind, remove_tree(at)).await;
    }
}

/// The root is never removed.
pub async fn the_root_is_never_removed(probe: Probe) {
    probe.refuses(ErrorKind::Denied, remove_tree("")).await;
    probe.write("d/f", "x").await;
    probe.refuses(ErrorKind::Denied, remove("")).await;
    probe.refuses(ErrorKind::Denied, remove_tree("")).await;
}

/// A name is free again after a removal, for the other kind too.
pub async fn a_removed_name_is_free(probe: Probe) {
    probe.write("n", "file").await;
    probe.apply(remove("n")).await;
    probe.write("n/f", "in a directory").await;
    probe.apply(remove_tree("n")).await;
    probe.write("n", "file again").await;
    assert_eq!(probe.text("n").await, "file again");
}
