//! How much a workspace may hold.

use crate::workspace::support::{builder_on, fill, link, put, storage, with_policy};
use garret_core::{ErrorKind, FsPolicy};
use garret_workspace::{PatchOptions, RemoveOptions, ScopeOptions, TransferOptions, Workspace, WriteOptions};

fn at_most(files: u64) -> FsPolicy {
    FsPolicy {
        max_files: Some(files),
        ..FsPolicy::default()
    }
}

async fn write(workspace: &Workspace, path: &str, size: usize) -> Result<(), ErrorKind> {
    let written = workspace.write(path, "x".repeat(size), WriteOptions::default()).await;
    written.map(|_| ()).map_err(|error| error.kind())
}

#[tokio::test]
async fn what_is_there_already_counts() {
    let storage = storage();
    fill(&storage, &[("a", ""), ("d/b", "")]).await;
    let workspace = with_policy(&storage, at_most(3));
    put(&workspace, "c", "").await;
    assert_eq!(write(&workspace, "d/e", 0).await, Err(ErrorKind::QuotaExceeded));
    assert_eq!(write(&workspace, "c", 9).await, Ok(()), "an overwrite adds no file");
}

#[tokio::test]
async fn removing_makes_room_again() {
    let storage = storage();
    let workspace = with_policy(&storage, at_most(2));
    put(&workspace, "d/a", "").await;
    put(&workspace, "d/b", "").await;
    assert_eq!(write(&workspace, "c", 0).await, Err(ErrorKind::QuotaExceeded));
    workspace
        .remove(
            "d",
            RemoveOptions {
                recursive: true,
                ..Default::default()
            },
        )
        .await
        .unwrap();
    assert_eq!(write(&workspace, "c", 0).await, Ok(()));
    assert_eq!(write(&workspace, "e", 0).await, Ok(()));
    assert_eq!(write(&workspace, "f", 0).await, Err(ErrorKind::QuotaExceeded));
}

#[tokio::test]
async fn room_that_others_made_is_found_before_a_refusal() {
    let storage = storage();
    let workspace = with_policy(&storage, at_most(1));
    put(&workspace, "a", "").await;
    let other = builder_on(storage.clone()).open().unwrap();
    other.remove("a", RemoveOptions::default()).await.unwrap();
    assert_eq!(write(&workspace, "b", 0).await, Ok(()));
}

#[tokio::test]
async fn bytes_are_counted_through_writes_appends_and_copies() {
    let storage = storage();
    let policy = FsPolicy {
        max_total_mb: Some(1.0 / 1024.0),
        ..FsPolicy::default()
    };
    let workspace = with_policy(&storage, policy);
    assert_eq!(write(&workspace, "a", 600).await, Ok(()));
    let copied = workspace.copy("a", "b", TransferOptions::default()).await;
    assert_eq!(copied.unwrap_err().kind(), ErrorKind::QuotaExceeded);
    let appended = workspace.append("a", "x".repeat(425), Default::default()).await;
    assert_eq!(appended.unwrap_err().kind(), ErrorKind::QuotaExceeded);
    workspace
        .append("a", "x".repeat(424), Default::default())
        .await
        .unwrap();
    assert_eq!(
        write(&workspace, "a", 10).await,
        Ok(()),
        "shrinking a full workspace is allowed"
    );
    assert_eq!(write(&workspace, "c", 1014).await, Ok(()));
}

#[tokio::test]
async fn moving_inside_adds_nothing() {
    let storage = storage();
    let workspace = with_policy(&storage, at_most(1));
    put(&workspace, "a", "").await;
    workspace.rename("a", "b", TransferOptions::default()).await.unwrap();
    assert_eq!(write(&workspace, "c", 0).await, Err(ErrorKind::QuotaExceeded));
}

#[tokio::test]
async fn a_scope_has_its_own_quota_within_the_outer_one() {
    let storage = storage();
    let workspace = with_policy(&storage, at_most(3));
    let scope = workspace
        .scope(
            "s",
            ScopeOptions {
                policy: at_most(1),
                ..Default::default()
            },
        )
        .unwrap();
    assert_eq!(write(&scope, "a", 0).await, Ok(()));
    assert_eq!(write(&scope, "b", 0).await, Err(ErrorKind::QuotaExceeded));
    assert_eq!(write(&workspace, "c", 0).await, Ok(()));
    assert_eq!(write(&workspace, "d", 0).await, Ok(()));
    assert_eq!(write(&workspace, "e", 0).await, Err(ErrorKind::QuotaExceeded));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_at_the_same_time_do_not_pass_the_limit_together() {
    let storage = storage();
    let workspace = with_policy(&storage, at_most(10));
    let tasks = (0..40).map(|number| {
        let workspace = workspace.clone();
        tokio::spawn(async move { write(&workspace, &format!("f{number}"), 1).await.is_ok() })
    });
    let mut written = 0;
    for task in tasks.collect::<Vec<_>>() {
        written += usize::from(task.await.unwrap());
    }
    assert_eq!(written, 10);
}

#[tokio::test]
async fn what_one_part_of_a_patch_takes_away_counts_once() {
    let storage = storage();
    let workspace = with_policy(&storage, at_most(3));
    for path in ["a", "b", "c"] {
        put(&workspace, path, "one\n").await;
    }
    let diff = "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n\
                diff --git a/b b/a\nrename from b\nrename to a\n--- a/b\n+++ b/a\n@@ -1 +1 @@\n-one\n+two\n";
    workspace.apply_patch(diff, PatchOptions::default()).await.unwrap();
    assert_eq!(write(&workspace, "d", 0).await, Ok(()), "three became two");
    assert_eq!(write(&workspace, "e", 0).await, Err(ErrorKind::QuotaExceeded));
}

#[tokio::test]
async fn a_link_that_goes_takes_nothing_of_its_target_along() {
    let storage = storage();
    fill(&storage, &[("a", ""), ("b", "")]).await;
    link(&storage, "removed", "a").await;
    link(&storage, "overwritten", "a").await;
    link(&storage, "outside", "/etc").await;
    let workspace = with_policy(&storage, at_most(2));
    for link in ["removed", "outside"] {
        workspace.remove(link, RemoveOptions::default()).await.unwrap();
    }
    assert_eq!(write(&workspace, "c", 0).await, Err(ErrorKind::QuotaExceeded), "rm");
    let overwrite = TransferOptions { overwrite: true };
    workspace.rename("b", "overwritten", overwrite).await.unwrap();
    assert_eq!(write(&workspace, "c", 0).await, Err(ErrorKind::QuotaExceeded), "move");
}
