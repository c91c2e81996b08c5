//! Directories are real: they exist by themselves, and no file shares their name.

use garret_core::{EntryKind, ErrorKind};

use crate::Probe;
use crate::mutations::{append_or_create, make_dir, make_dirs, remove, write, write_beside};

/// A new storage is an empty directory.
pub async fn the_root_is_a_directory(probe: Probe) {
    let stat = probe.stat("").await;
    assert_eq!((stat.kind, stat.size), (EntryKind::Directory, 0));
    assert_eq!(probe.names("").await, Vec::<String>::new());
}

/// A write makes the directories above as real ones.
pub async fn a_write_makes_real_directories(probe: Probe) {
    probe.write("a/b/c.txt", "x").await;
    for directory in ["a", "a/b"] {
        let stat = probe.stat(directory).await;
        assert_eq!((stat.kind, stat.size), (EntryKind::Directory, 0), "{directory}");
        assert_eq!(stat.version, None, "a directory has no version");
    }
    assert_eq!(probe.names_deep("").await, ["a", "a/b", "a/b/c.txt"]);
}

/// A directory stays when the last file in it goes.
pub async fn a_directory_stays_when_its_last_file_goes(probe: Probe) {
    probe.write("a/b/c.txt", "x").await;
    probe.apply(remove("a/b/c.txt")).await;
    assert_eq!(probe.names_deep("").await, ["a", "a/b"]);
}

/// A directory is made once, and says that it was created.
pub async fn make_dir_makes_one_directory(probe: Probe) {
    let applied = probe.apply(make_dir("a")).await;
    assert!(applied.created);
    assert_eq!((applied.version, applied.size), (None, 0));
    assert_eq!(probe.kind("a").await, Some(EntryKind::Directory));
    assert_eq!(probe.names("a").await, Vec::<String>::new());
}

/// Without `parents`, whatever is there already is `already_exists`.
pub async fn make_dir_refuses_what_exists(probe: Probe) {
    probe.write("d/f", "x").await;
    for at in ["d", "d/f", ""] {
        probe.refuses(ErrorKind::AlreadyExists, make_dir(at)).await;
    }
}

/// With `parents`, directories above are made, and one that exists is fine.
pub async fn make_dir_with_parents_is_idempotent(probe: Probe) {
    assert!(probe.apply(make_dirs("a/b/c")).await.created);
    assert!(!probe.apply(make_dirs("a/b/c")).await.created);
    assert!(!probe.apply(make_dirs("a")).await.created);
    assert!(!probe.apply(make_dirs("")).await.created);
    assert_eq!(probe.names_deep("").await, ["a", "a/b", "a/b/c"]);
}

/// With `parents`, a file at the path is still `already_exists`.
pub async fn make_dir_with_parents_refuses_a_file(probe: Probe) {
    probe.write("f", "x").await;
    probe.refuses(ErrorKind::AlreadyExists, make_dirs("f")).await;
}

/// Without `parents`, a missing directory above is `not_found`.
pub async fn make_dir_needs_its_parent(probe: Probe) {
    probe.refuses(ErrorKind::NotFound, make_dir("a/b")).await;
    probe.refuses(ErrorKind::NotFound, make_dir("a/b/c")).await;
}

/// A file and a directory cannot share a name.
pub async fn a_file_cannot_take_a_directory_s_name(probe: Probe) {
    probe.make_dirs("d/e").await;
    for at in ["d", "d/e", ""] {
        probe.refuses(ErrorKind::IsADirectory, write(at, "x")).await;
        probe.refuses(ErrorKind::IsADirectory, append_or_create(at, "x")).await;
    }
}

/// Nothing can be put below a file.
pub async fn nothing_lives_below_a_file(probe: Probe) {
    probe.write("d/f", "x").await;
    for at in ["d/f/x", "d/f/x/y"] {
        probe.refuses(ErrorKind::NotADirectory, write(at, "y")).await;
        probe.refuses(ErrorKind::NotADirectory, write_beside(at, "y")).await;
        probe.refuses(ErrorKind::NotADirectory, append_or_create(at, "y")).await;
        probe.refuses(ErrorKind::NotADirectory, make_dirs(at)).await;
        probe.refuses(ErrorKind::NotADirectory, make_dir(at)).await;
        probe.refuses(ErrorKind::NotADirectory, remove(at)).await;
    }
}
