//! What a policy refuses, and that no alias, move or race of names gets around it.

use crate::workspace::support::{fill, get, globs, link, shown, storage, with_policy};
use garret_core::{ErrorKind, FsPolicy, OnEscape, Precondition, Version};
use garret_workspace::{Edit, EditOptions, PatchOptions, ReadRequest, RemoveOptions, TransferOptions, WriteOptions};

fn secrets_denied() -> FsPolicy {
    FsPolicy {
        deny_read: globs(&["secrets", "**/.env"]),
        ..FsPolicy::default()
    }
}

#[tokio::test]
async fn a_denied_path_is_invisible_to_lists_and_refused_to_reads() {
    let storage = storage();
    fill(
        &storage,
        &[("a.txt", "a"), ("secrets/key", "CANARY"), ("src/.env", "CANARY")],
    )
    .await;
    let workspace = with_policy(&storage, secrets_denied());
    assert_eq!(shown(&workspace).await, ["a.txt", "src"]);
    for path in ["secrets/key", "src/.env", "secrets"] {
        let error = workspace.read(path, ReadRequest::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{path}");
        assert!(error.refused_by().unwrap().starts_with("deny_read"), "{path}");
        assert_eq!(
            workspace.stat(path).await.unwrap_err().kind(),
            ErrorKind::Denied,
            "{path}"
        );
        assert_eq!(
            workspace.exists(path).await.unwrap_err().kind(),
            ErrorKind::Denied,
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_write_does_not_tell_what_is_at_a_denied_path() {
    let storage = storage();
    fill(&storage, &[("secrets/key", "CANARY")]).await;
    let workspace = with_policy(&storage, secrets_denied());
    for path in ["secrets/key", "secrets/missing"] {
        let written = workspace.write(path, "x", WriteOptions::default()).await;
        assert_eq!(written.unwrap_err().kind(), ErrorKind::Denied, "{path}");
        let appended = workspace.append(path, "x", Default::default()).await;
        assert_eq!(appended.unwrap_err().kind(), ErrorKind::Denied, "{path}");
    }
}

#[tokio::test]
async fn a_link_is_no_way_around_a_rule() {
    let storage = storage();
    fill(&storage, &[("secrets/key", "CANARY"), ("open/a", "a")]).await;
    link(&storage, "alias", "secrets").await;
    link(&storage, "open/key", "../secrets/key").await;
    let workspace = with_policy(&storage, secrets_denied());
    for path in ["alias/key", "open/key"] {
        assert_eq!(
            workspace.read(path, ReadRequest::default()).await.unwrap_err().kind(),
            ErrorKind::Denied,
            "{path}"
        );
        let copied = workspace.copy(path, "copy", TransferOptions::default()).await;
        assert_eq!(copied.unwrap_err().kind(), ErrorKind::Denied, "{path}");
    }
    assert_eq!(
        workspace.list("alias", Default::default()).await.unwrap_err().kind(),
        ErrorKind::Denied
    );
}

#[tokio::test]
async fn moving_or_copying_a_directory_does_not_rename_what_is_denied_in_it() {
    let storage = storage();
    fill(&storage, &[("app/.env", "CANARY"), ("app/main.rs", "x")]).await;
    let workspace = with_policy(
        &storage,
        FsPolicy {
            deny_read: globs(&["app/.env"]),
            ..FsPolicy::default()
        },
    );
    let options = TransferOptions::default();
    assert_eq!(
        workspace.rename("app", "other", options).await.unwrap_err().kind(),
        ErrorKind::Denied
    );
    assert_eq!(
        workspace.copy("app", "other", options).await.unwrap_err().kind(),
        ErrorKind::Denied
    );
    let recursive = RemoveOptions {
        recursive: true,
        ..RemoveOptions::default()
    };
    assert_eq!(
        workspace.remove("app", recursive).await.unwrap_err().kind(),
        ErrorKind::Denied
    );
    assert_eq!(get(&workspace, "app/main.rs").await, "x");
}

#[tokio::test]
async fn every_mutation_of_a_path_that_may_not_be_written_is_refused() {
    let storage = storage();
    fill(&storage, &[("locked/a", "old\n"), ("free/b", "b")]).await;
    let workspace = with_policy(
        &storage,
        FsPolicy {
            deny_write: globs(&["locked"]),
            ..FsPolicy::default()
        },
    );
    let edit = Edit {
        old_text: "old".into(),
        new_text: "new".into(),
        ..Edit::default()
    };
    let diff = "--- a/locked/a\n+++ b/locked/a\n@@ -1 +1 @@\n-old\n+new\n";
    let refusals = [
        workspace
            .write("locked/a", "x", WriteOptions::default())
            .await
            .unwrap_err(),
        workspace.append("locked/a", "x", Default::default()).await.unwrap_err(),
        workspace
            .edit("locked/a", &[edit], EditOptions::default())
            .await
            .unwrap_err(),
        workspace.apply_patch(diff, PatchOptions::default()).await.unwrap_err(),
        workspace
            .remove("locked/a", RemoveOptions::default())
            .await
            .unwrap_err(),
        workspace.make_dir("locked/new", true).await.unwrap_err(),
        workspace
            .rename("locked/a", "free/a", TransferOptions::default())
            .await
            .unwrap_err(),
        workspace
            .rename("free/b", "locked/b", TransferOptions::default())
            .await
            .unwrap_err(),
        workspace
            .copy("free/b", "locked/b", TransferOptions::default())
            .await
            .unwrap_err(),
        workspace
            .copy("free", "locked/free", TransferOptions::default())
            .await
            .unwrap_err(),
    ];
    for error in refusals {
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert_eq!(error.refused_by(), Some("deny_write = locked"), "{error}");
    }
    assert_eq!(get(&workspace, "locked/a").await, "old\n");
}

#[tokio::test]
async fn read_only_refuses_and_says_that_reading_is_allowed() {
    let storage = storage();
    fill(&storage, &[("a", "a")]).await;
    let workspace = with_policy(
        &storage,
        FsPolicy {
            read_only: true,
            ..FsPolicy::default()
        },
    );
    let error = workspace.write("a", "b", WriteOptions::default()).await.unwrap_err();
    assert_eq!(
        error.hint_text(),
        "nothing in this workspace may be changed; reading is allowed"
    );
    assert_eq!(get(&workspace, "a").await, "a");
}

#[tokio::test]
async fn an_allow_list_shows_only_what_leads_to_it() {
    let storage = storage();
    fill(
        &storage,
        &[("docs/public/a.md", "a"), ("docs/private/b.md", "b"), ("src/c.rs", "c")],
    )
    .await;
    let workspace = with_policy(
        &storage,
        FsPolicy {
            allow_read: globs(&["docs/public/**"]),
            ..FsPolicy::default()
        },
    );
    assert_eq!(shown(&workspace).await, ["docs", "docs/public", "docs/public/a.md"]);
    let error = workspace.read("src/c.rs", ReadRequest::default()).await.unwrap_err();
    assert_eq!(error.hint_text(), "only paths that match `docs/public/**` may be read");
}

#[tokio::test]
async fn a_patch_with_one_refused_file_changes_none() {
    let storage = storage();
    fill(&storage, &[("a", "old\n"), ("locked/b", "old\n")]).await;
    let workspace = with_policy(
        &storage,
        FsPolicy {
            deny_write: globs(&["locked"]),
            ..FsPolicy::default()
        },
    );
    let diff = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-old\n+new\n--- a/locked/b\n+++ b/locked/b\n@@ -1 +1 @@\n-old\n+new\n";
    assert_eq!(
        workspace
            .apply_patch(diff, PatchOptions::default())
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::Denied
    );
    assert_eq!(get(&workspace, "a").await, "old\n");
}

#[tokio::test]
async fn sizes_are_limited_for_writes_appends_copies_and_reads() {
    let storage = storage();
    fill(&storage, &[("big", &"x".repeat(3000)), ("small", &"x".repeat(1000))]).await;
    let kib = 1.0 / 1024.0;
    let policy = FsPolicy {
        max_file_size_mb: Some(2.0 * kib),
        max_read_mb: Some(2.0 * kib),
        ..FsPolicy::default()
    };
    let workspace = with_policy(&storage, policy);
    let too_large = |error: garret_core::Error| assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    too_large(
        workspace
            .write("new", "x".repeat(2049), WriteOptions::default())
            .await
            .unwrap_err(),
    );
    too_large(
        workspace
            .append("small", "x".repeat(1049), Default::default())
            .await
            .unwrap_err(),
    );
    too_large(
        workspace
            .copy("big", "copy", TransferOptions::default())
            .await
            .unwrap_err(),
    );
    too_large(workspace.read("big", ReadRequest::default()).await.unwrap_err());
    workspace
        .append("small", "x".repeat(1048), Default::default())
        .await
        .unwrap();
    let page = workspace.read(
        "big",
        ReadRequest {
            unit: garret_workspace::ReadUnit::Bytes,
            limit: Some(5000),
            ..Default::default()
        },
    );
    assert_eq!(page.await.unwrap().next_offset, Some(2048));
}

#[tokio::test]
async fn clamp_stops_at_the_root() {
    let storage = storage();
    fill(&storage, &[("etc/passwd", "mine")]).await;
    let workspace = with_policy(
        &storage,
        FsPolicy {
            on_escape: OnEscape::Clamp,
            ..FsPolicy::default()
        },
    );
    assert_eq!(get(&workspace, "../../etc/passwd").await, "mine");
    let strict = with_policy(&storage, FsPolicy::default());
    let error = strict
        .read("../../etc/passwd", ReadRequest::default())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PathEscape);
}

#[tokio::test]
async fn no_write_tells_the_size_or_version_of_what_may_not_be_read() {
    let storage = storage();
    fill(&storage, &[("secrets/key", "CANARY")]).await;
    let policy = FsPolicy {
        allow_read: globs(&["open"]),
        ..FsPolicy::default()
    };
    let workspace = with_policy(&storage, policy);
    let appended = workspace.append("secrets/key", "", Default::default()).await;
    assert_eq!(appended.unwrap_err().kind(), ErrorKind::Denied);
    for precondition in [Precondition::Absent, Precondition::Version(Version::new("guess"))] {
        let options = WriteOptions {
            precondition,
            ..WriteOptions::default()
        };
        let written = workspace.write("secrets/key", "x", options).await;
        assert_eq!(written.unwrap_err().kind(), ErrorKind::Denied);
    }
    let blind = workspace.write("secrets/key", "x", WriteOptions::default()).await;
    assert_eq!(blind.unwrap().size, 1, "what is written is known to the writer");
}
