//! A file with several names is denied under all of them if one of them is denied.

#![allow(clippy::disallowed_methods, reason = "hard links are made behind the workspace")]

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use garret_core::{
    CountedIds, DirectoryHandle, Error, ErrorKind, FsPolicy, HistoryMode, OpenContext, Precondition, Result, Storage,
    SystemClock, Version,
};
use garret_storage::{Durability, LocalOptions, LocalStorage};
use garret_testkit::{Hook, Hooked};
use garret_workspace::{
    AppendOptions, Edit, EditOptions, GrepRequest, PatchOptions, PutEntry, PutItem, ReadRequest, ReadUnit,
    RemoveOptions, ScopeOptions, TransferOptions, Workspace, WriteOptions,
};
use tempfile::TempDir;

use crate::workspace::support::{get, globs, shown, with_policy};

const CANARY: &str = "CANARY\n";

/// Counts how often the tree is opened for a walk.
#[derive(Debug, Default, Clone)]
struct WalkCount(Arc<AtomicUsize>);

impl Hook for WalkCount {
    fn directory(&self, opened: Option<Box<dyn DirectoryHandle>>) -> Option<Box<dyn DirectoryHandle>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        opened
    }
}

/// A directory, with a storage on it that counts walks.
struct Linked {
    directory: TempDir,
    storage: Arc<dyn Storage>,
    walks: WalkCount,
}

impl Linked {
    /// A directory with these files, and with these links: the first name is there, the second one is new.
    fn new(files: &[(&str, &str)], links: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = LocalOptions {
            dir: directory.path().to_str().unwrap().to_owned(),
            durability: Durability::Relaxed,
        };
        let context = OpenContext {
            clock: Arc::new(SystemClock::default()),
            ids: Arc::new(CountedIds::default()),
            history: HistoryMode::Durable,
        };
        let walks = WalkCount::default();
        let local = Arc::new(LocalStorage::open(&options, &context).unwrap());
        let linked = Self {
            storage: Arc::new(Hooked::new(local, walks.clone())),
            directory,
            walks,
        };
        for (path, content) in files {
            linked.make(path.as_bytes(), content);
        }
        for (path, other) in links {
            linked.link(path, other);
        }
        linked
    }

    fn make(&self, path: &[u8], content: &str) {
        let path = self.path().join(OsStr::from_bytes(path));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn link(&self, path: &str, other: &str) {
        let other = self.path().join(other);
        std::fs::create_dir_all(other.parent().unwrap()).unwrap();
        std::fs::hard_link(self.path().join(path), other).unwrap();
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn denying(&self, patterns: &[&str]) -> Workspace {
        let policy = FsPolicy {
            deny_read: globs(patterns),
            ..FsPolicy::default()
        };
        with_policy(&self.storage, policy)
    }

    fn walks(&self) -> usize {
        self.walks.0.swap(0, Ordering::Relaxed)
    }
}

/// `open/alias` is a second name of the denied `secret/key`.
fn secret() -> Linked {
    Linked::new(
        &[("secret/key", CANARY), ("open/plain", "plain\n")],
        &[("secret/key", "open/alias")],
    )
}

fn check_refusal<T: std::fmt::Debug>(tool: &str, result: Result<T>) {
    let error: Error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{tool}: {error}");
    let text = format!("{error:?}");
    assert!(!text.contains("key") && !text.contains("CANARY"), "{tool}: {text}");
}

async fn lines_of(workspace: &Workspace, path: &str) -> Result<Vec<String>> {
    let request = GrepRequest {
        pattern: ".".into(),
        path: path.into(),
        ..GrepRequest::default()
    };
    let found = workspace.grep(request).await?;
    assert!(found.skipped.is_empty(), "what is denied is not named: {found:?}");
    Ok(found.matches.into_iter().map(|one| one.line).collect())
}

#[tokio::test]
async fn no_tool_reads_a_denied_file_by_another_name() {
    let linked = secret();
    let workspace = linked.denying(&["secret"]);
    let path = "open/alias";
    check_refusal("read", workspace.read(path, ReadRequest::default()).await);
    for unit in [ReadUnit::Lines, ReadUnit::Bytes] {
        let window = ReadRequest {
            unit,
            limit: Some(1),
            ..ReadRequest::default()
        };
        check_refusal("read a window", workspace.read(path, window).await);
    }
    let tail = ReadRequest {
        tail: Some(1),
        ..ReadRequest::default()
    };
    check_refusal("read the tail", workspace.read(path, tail).await);
    check_refusal("read_bytes", workspace.read_bytes(path).await);
    let streamed = workspace.read_stream(path, 0..9, |piece| panic!("it handed over {piece:?}"));
    check_refusal("read_stream", streamed.await);
    check_refusal("stat", workspace.stat(path).await);
    check_refusal("exists", workspace.exists(path).await);
    check_refusal("grep one file", lines_of(&workspace, path).await);
    assert_eq!(lines_of(&workspace, "").await.unwrap(), ["plain"]);
    assert_eq!(shown(&workspace).await, ["open", "open/plain"]);
}

#[tokio::test]
async fn no_tool_changes_a_denied_file_by_another_name() {
    let linked = secret();
    let workspace = linked.denying(&["secret"]);
    let path = "open/alias";
    let transfer = TransferOptions { overwrite: true };
    check_refusal("copy", workspace.copy(path, "copy", transfer).await);
    check_refusal("copy over it", workspace.copy("open/plain", path, transfer).await);
    check_refusal("copy the directory", workspace.copy("open", "copy", transfer).await);
    check_refusal("move", workspace.rename(path, "moved", transfer).await);
    check_refusal("move over it", workspace.rename("open/plain", path, transfer).await);
    check_refusal("move the directory", workspace.rename("open", "moved", transfer).await);
    check_refusal("rm", workspace.remove(path, RemoveOptions::default()).await);
    let recursive = RemoveOptions {
        recursive: true,
        ..RemoveOptions::default()
    };
    check_refusal("rm the directory", workspace.remove("open", recursive).await);
    check_refusal("append", workspace.append(path, "x", AppendOptions::default()).await);
    check_refusal("write", workspace.write(path, "x", WriteOptions::default()).await);
    let guess = WriteOptions {
        precondition: Precondition::Version(Version::new("guess")),
        ..WriteOptions::default()
    };
    check_refusal("write on a condition", workspace.write(path, "x", guess).await);
    let put = PutEntry {
        path: path.into(),
        item: PutItem::File {
            content: "x".into(),
            mode: None,
        },
    };
    check_refusal("put", workspace.put_entries(vec![put]).await);
    let edit = Edit {
        old_text: "CAN".into(),
        new_text: "x".into(),
        ..Edit::default()
    };
    check_refusal(
        "edit",
        workspace
            .edit(path, std::slice::from_ref(&edit), EditOptions::default())
            .await,
    );
    let guess = EditOptions {
        precondition: Precondition::Version(Version::new("guess")),
        dry_run: true,
    };
    check_refusal("edit on a condition", workspace.edit(path, &[edit], guess).await);
    let patch = "--- a/open/alias\n+++ b/open/alias\n@@ -1 +1 @@\n-A guess\n+x\n";
    check_refusal("patch", workspace.apply_patch(patch, PatchOptions::default()).await);
    let key = std::fs::read_to_string(linked.path().join("secret/key")).unwrap();
    assert_eq!(key, CANARY);
    assert_eq!(get(&workspace, "open/plain").await, "plain\n");
}

#[tokio::test]
async fn a_limit_tells_no_size_of_a_denied_file() {
    let linked = secret();
    let policy = FsPolicy {
        deny_read: globs(&["secret"]),
        max_read_mb: Some(0.000_001),
        ..FsPolicy::default()
    };
    let workspace = with_policy(&linked.storage, policy);
    check_refusal("read", workspace.read_bytes("open/alias").await);
}

#[tokio::test]
async fn what_allow_read_leaves_out_is_denied_by_every_name() {
    let linked = secret();
    let policy = FsPolicy {
        allow_read: globs(&["open"]),
        ..FsPolicy::default()
    };
    let workspace = with_policy(&linked.storage, policy);
    check_refusal("read", workspace.read_bytes("open/alias").await);
    assert_eq!(lines_of(&workspace, "").await.unwrap(), ["plain"]);
}

#[tokio::test]
async fn a_scope_never_shows_a_file_of_its_neighbour() {
    let linked = Linked::new(
        &[("bob/key", CANARY), ("alice/a", "alice\n"), ("key", CANARY)],
        &[
            ("bob/key", "alice/b"),
            ("key", "alice/above"),
            ("alice/a", "alice/again"),
        ],
    );
    let whole = linked.denying(&[]);
    let alice = whole.scope("alice", ScopeOptions::default()).unwrap();
    for path in ["b", "above"] {
        check_refusal("read", alice.read_bytes(path).await);
        check_refusal("copy", alice.copy(path, "copy", TransferOptions::default()).await);
        assert_eq!(get(&whole, &format!("alice/{path}")).await, CANARY);
    }
    assert_eq!(shown(&alice).await, ["a", "again"]);
    assert_eq!(lines_of(&alice, "").await.unwrap(), ["alice", "alice"]);
}

#[tokio::test]
async fn a_name_that_no_rule_can_judge_is_denied() {
    let linked = Linked::new(&[("open/plain", "plain\n")], &[]);
    linked.make(b"k\xe9y", CANARY);
    let raw = linked.path().join(OsStr::from_bytes(b"k\xe9y"));
    std::fs::hard_link(raw, linked.path().join("open/alias")).unwrap();
    check_refusal("read", linked.denying(&["secret"]).read_bytes("open/alias").await);
}

#[tokio::test]
async fn a_file_stays_readable_whose_other_names_are_allowed_or_outside() {
    let outside = tempfile::tempdir_in(std::env::temp_dir()).unwrap();
    let linked = Linked::new(
        &[("a", "a\n"), ("shared", "shared\n"), ("secret/key", CANARY)],
        &[("a", "b"), ("secret/key", "secret/again")],
    );
    std::fs::hard_link(linked.path().join("shared"), outside.path().join("elsewhere")).unwrap();
    let workspace = linked.denying(&["secret"]);
    assert_eq!(get(&workspace, "b").await, "a\n");
    assert_eq!(get(&workspace, "shared").await, "shared\n");
    assert_eq!(shown(&workspace).await, ["a", "b", "shared"]);
    workspace.write("a", "new\n", WriteOptions::default()).await.unwrap();
    assert_eq!(get(&workspace, "a").await, "new\n");
}

#[tokio::test]
async fn a_view_without_read_rules_reads_every_name() {
    let linked = secret();
    let policy = FsPolicy {
        deny_write: globs(&["secret"]),
        ..FsPolicy::default()
    };
    let workspace = with_policy(&linked.storage, policy);
    assert_eq!(get(&workspace, "open/alias").await, CANARY);
    assert_eq!(linked.walks(), 0);
}

#[tokio::test]
async fn the_tree_is_walked_once_for_one_operation_and_never_for_files_with_one_name() {
    let linked = Linked::new(
        &[("a", "a\n"), ("b", "b\n"), ("plain", "plain\n"), ("secret/key", CANARY)],
        &[("a", "more/a"), ("b", "more/b")],
    );
    let workspace = linked.denying(&["secret"]);
    get(&workspace, "plain").await;
    workspace.write("plain", "x\n", WriteOptions::default()).await.unwrap();
    assert_eq!(linked.walks(), 0, "one name");
    let patch = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+x\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-b\n+x\n";
    workspace.apply_patch(patch, PatchOptions::default()).await.unwrap();
    assert_eq!(linked.walks(), 1, "a patch of two files");
    linked.link("a", "c");
    linked.link("b", "d");
    assert_eq!(shown(&workspace).await.len(), 8);
    assert_eq!(linked.walks(), 1, "a list");
    lines_of(&workspace, "").await.unwrap();
    assert_eq!(linked.walks(), 2, "a search, which walks by itself");
    let copied = workspace.copy("more", "copy", TransferOptions::default()).await;
    assert_eq!(copied.unwrap().files, 2);
    assert_eq!(linked.walks(), 0, "the patch parted the names of those files");
    workspace.read("c", ReadRequest::default()).await.unwrap();
    assert_eq!(linked.walks(), 1, "a read");
}

/// Returns whether this test runs in this process. File modes do not bind root, so as root the test runs again as an unprivileged user.
fn is_somebody(test: &str) -> bool {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return true;
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
    let tests = directory.path().join("tests");
    std::fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    let output = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&tests)
        .args(["--exact", &format!("workspace::hard_links::{test}")])
        .env("TMPDIR", directory.path())
        .current_dir(directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    false
}

#[tokio::test]
async fn no_tool_reads_a_file_that_may_have_a_name_where_garret_cannot_look() {
    if !is_somebody("no_tool_reads_a_file_that_may_have_a_name_where_garret_cannot_look") {
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    let linked = Linked::new(
        &[
            ("keys/key", CANARY),
            ("open/plain", "plain\n"),
            ("open/a", "a\n"),
            ("open/shared", "shared\n"),
        ],
        &[("keys/key", "open/alias"), ("open/a", "open/b")],
    );
    std::fs::hard_link(linked.path().join("open/shared"), outside.path().join("elsewhere")).unwrap();
    let keys = linked.path().join("keys");
    // Nothing; the names alone; or what is in it, but not the names.
    for mode in [0o000, 0o400, 0o100] {
        std::fs::set_permissions(&keys, Permissions::from_mode(mode)).unwrap();
        for pattern in ["keys", "keys/**", "**/key"] {
            let workspace = linked.denying(&[pattern]);
            check_refusal(pattern, workspace.read_bytes("open/alias").await);
            check_refusal(pattern, workspace.stat("open/alias").await);
            let transfer = TransferOptions { overwrite: true };
            check_refusal(pattern, workspace.copy("open/alias", "copy", transfer).await);
            // Its other name is outside, but nobody can tell.
            check_refusal(pattern, workspace.read_bytes("open/shared").await);
            assert_eq!(get(&workspace, "open/b").await, "a\n", "{pattern}: both names are seen");
            let mut lines = lines_of(&workspace, "open").await.unwrap();
            lines.sort();
            assert_eq!(lines, ["a", "a", "plain"], "{pattern}");
        }
        let hidden = linked.denying(&["keys"]);
        assert_eq!(shown(&hidden).await, ["open", "open/a", "open/b", "open/plain"]);
    }
    std::fs::set_permissions(&keys, Permissions::from_mode(0o700)).unwrap();
    assert_eq!(get(&linked.denying(&["keys"]), "open/shared").await, "shared\n");
}
