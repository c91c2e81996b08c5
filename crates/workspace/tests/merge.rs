//! Merging through a workspace: one change, policies, undo, and the next merge.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![allow(
    clippy::disallowed_methods,
    reason = "one test changes a directory as another program would"
)]

use std::sync::Arc;

use garret_core::StorageFactory;
use garret_core::{Durability, ErrorKind, FsPolicy, HistoryMode, OpenContext, Point, RandomIds, SystemClock};
use garret_depot::{Depot, DepotOptions, LazyDepot};
use garret_journal::Journaled;
use garret_storage::local::LocalFactory;
use garret_workspace::{
    Conflict, ConflictKind, DiffRequest, LogRequest, MergeOptions, MergeResult, OnConflict, ScopeOptions,
    TransferOptions, UndoRequest, Workspace, WriteOptions,
};

fn depot() -> Depot {
    let options = DepotOptions {
        durability: Durability::Relaxed,
        ..DepotOptions::default()
    };
    Depot::in_memory(options, context()).unwrap()
}

fn context() -> OpenContext {
    OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
        history: HistoryMode::Durable,
    }
}

/// A directory with a journal in `depot`.
async fn open_directory(depot: &Depot, directory: &std::path::Path) -> Workspace {
    let mut options = serde_json::Map::new();
    options.insert("dir".into(), directory.to_str().unwrap().into());
    let opened = LocalFactory.open(options, &context()).await.unwrap();
    let lazy = Arc::new(LazyDepot::from_opened(depot.clone()));
    let journaled = Journaled::open(opened, lazy, Durability::Relaxed).await.unwrap();
    let workspace = Workspace::builder(journaled.clone()).name("directory");
    workspace.history(Some(journaled)).open().unwrap()
}

async fn open_with(depot: &Depot, name: &str, policy: FsPolicy) -> Workspace {
    let room = Arc::new(depot.workspace(name).await.unwrap());
    let workspace = Workspace::builder(room.clone()).name(name).history(Some(room));
    workspace.policy(policy).open().unwrap()
}

async fn open(depot: &Depot, name: &str) -> Workspace {
    open_with(depot, name, FsPolicy::default()).await
}

/// A workspace with some files, and a branch of it.
async fn pair() -> (Depot, Workspace, Workspace) {
    let depot = depot();
    depot.create(garret_depot::NewWorkspace::named("notes")).await.unwrap();
    let ours = open(&depot, "notes").await;
    write(&ours, "a.txt", "1\n2\n3\n4\n5\n").await;
    write(&ours, "b.txt", "b\n").await;
    ours.branch("try", &Point::Now).await.unwrap();
    let theirs = open(&depot, "try").await;
    (depot, ours, theirs)
}

async fn write(workspace: &Workspace, path: &str, content: &str) {
    let written = workspace.write(path, content.to_owned(), WriteOptions::default()).await;
    written.unwrap();
}

async fn read(workspace: &Workspace, path: &str) -> String {
    let read = workspace.read_bytes(path).await.unwrap();
    String::from_utf8(read.bytes.to_vec()).unwrap()
}

fn asking(on_conflict: OnConflict) -> MergeOptions {
    MergeOptions {
        on_conflict,
        dry_run: false,
    }
}

fn told(conflicts: &[Conflict]) -> Vec<(&str, ConflictKind)> {
    conflicts
        .iter()
        .map(|conflict| (conflict.path.as_str(), conflict.kind))
        .collect()
}

async fn change_count(workspace: &Workspace) -> usize {
    workspace.log(LogRequest::default()).await.unwrap().changes.len()
}

/// The paths that a merge changed or would change.
fn paths(merged: &MergeResult) -> Vec<String> {
    merged.outcome.paths().iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_merge_is_one_change_that_can_be_undone_and_redone() {
    let (_depot, ours, theirs) = pair().await;
    write(&ours, "a.txt", "one\n2\n3\n4\n5\n").await;
    write(&theirs, "a.txt", "1\n2\n3\n4\nfive\n").await;
    theirs
        .rename("b.txt", "dir/c.txt", TransferOptions::default())
        .await
        .unwrap();
    let merged = ours.merge("try", MergeOptions::default()).await.unwrap();
    assert_eq!(paths(&merged), ["~ a.txt", "- b.txt", "+ dir", "+ dir/c.txt"]);
    assert_eq!(merged.conflicts, []);
    let change = merged.outcome.change.unwrap();
    assert_eq!((change.kind.as_str(), change.operation.as_str()), ("merge", "merge"));
    assert_eq!(change.summary, "merge `try`");
    assert_eq!(read(&ours, "a.txt").await, "one\n2\n3\n4\nfive\n");
    assert_eq!(read(&ours, "dir/c.txt").await, "b\n");
    assert!(!ours.exists("b.txt").await.unwrap().exists);
    let versions = ours.versions("dir/c.txt", 10).await.unwrap();
    assert_eq!(
        versions.last().unwrap().path,
        "b.txt",
        "its history is followed through the merge"
    );
    ours.undo(UndoRequest::Last(1)).await.unwrap();
    assert_eq!(read(&ours, "a.txt").await, "one\n2\n3\n4\n5\n");
    assert_eq!(read(&ours, "b.txt").await, "b\n");
    assert!(!ours.exists("dir").await.unwrap().exists);
    ours.redo().await.unwrap();
    assert_eq!(read(&ours, "a.txt").await, "one\n2\n3\n4\nfive\n");
    assert_eq!(
        read(&theirs, "a.txt").await,
        "1\n2\n3\n4\nfive\n",
        "the other is not disturbed"
    );
}

#[tokio::test]
async fn a_merge_that_was_undone_can_be_made_again() {
    let (_depot, ours, theirs) = pair().await;
    write(&theirs, "new.txt", "new\n").await;
    ours.merge("try", MergeOptions::default()).await.unwrap();
    ours.undo(UndoRequest::Last(1)).await.unwrap();
    let again = ours.merge("try", MergeOptions::default()).await.unwrap();
    assert_eq!(paths(&again), ["+ new.txt"]);
    assert_eq!(read(&ours, "new.txt").await, "new\n");
}

#[tokio::test]
async fn a_second_merge_brings_only_what_is_new() {
    let (_depot, ours, theirs) = pair().await;
    write(&theirs, "a.txt", "1\n2\n3\n4\nfive\n").await;
    ours.merge("try", MergeOptions::default()).await.unwrap();
    // With the fork as its base, this would clash with what was merged already.
    write(&ours, "a.txt", "1\n2\n3\n4\nFIVE\n").await;
    write(&theirs, "a.txt", "one\n2\n3\n4\nfive\n").await;
    let again = ours.merge("try", MergeOptions::default()).await.unwrap();
    assert_eq!(again.conflicts, []);
    assert_eq!(read(&ours, "a.txt").await, "one\n2\n3\n4\nFIVE\n");
    let nothing = ours.merge("try", MergeOptions::default()).await.unwrap();
    assert_eq!(
        (nothing.outcome.path_count(), nothing.outcome.change, nothing.conflicts),
        (0, None, vec![])
    );
    theirs.merge("notes", MergeOptions::default()).await.unwrap();
    assert_eq!(read(&theirs, "a.txt").await, "one\n2\n3\n4\nFIVE\n");
}

#[tokio::test]
async fn a_conflict_leaves_everything_untouched_unless_it_was_said_what_becomes_of_it() {
    let (_depot, ours, theirs) = pair().await;
    write(&ours, "a.txt", "1\n2\nmine\n4\n5\n").await;
    write(&theirs, "a.txt", "1\n2\nyours\n4\n5\n").await;
    write(&theirs, "new.txt", "new\n").await;
    let before = change_count(&ours).await;
    let blocked = ours.merge("try", MergeOptions::default()).await.unwrap();
    assert_eq!(told(&blocked.conflicts), [("a.txt", ConflictKind::Content)]);
    assert_eq!((blocked.outcome.path_count(), blocked.outcome.change), (0, None));
    assert_eq!(change_count(&ours).await, before);
    assert!(!ours.exists("new.txt").await.unwrap().exists);
    let merged = ours.merge("try", asking(OnConflict::Markers)).await.unwrap();
    assert!(merged.outcome.change.is_some());
    let expected = "1\n2\n<<<<<<< notes\nmine\n||||||| base\n3\n=======\nyours\n>>>>>>> try\n4\n5\n";
    assert_eq!(read(&ours, "a.txt").await, expected);
    assert_eq!(read(&ours, "new.txt").await, "new\n");
}

#[tokio::test]
async fn a_side_that_was_chosen_wins() {
    for (choice, line) in [(OnConflict::Ours, "mine"), (OnConflict::Theirs, "yours")] {
        let (_depot, ours, theirs) = pair().await;
        write(&ours, "a.txt", "1\n2\nmine\n4\n5\n").await;
        write(&theirs, "a.txt", "one\n2\nyours\n4\n5\n").await;
        let merged = ours.merge("try", asking(choice)).await.unwrap();
        assert_eq!(told(&merged.conflicts), [("a.txt", ConflictKind::Content)]);
        assert_eq!(read(&ours, "a.txt").await, format!("one\n2\n{line}\n4\n5\n"));
    }
}

#[tokio::test]
async fn a_dry_run_tells_and_touches_nothing() {
    let (_depot, ours, theirs) = pair().await;
    write(&theirs, "new.txt", "new\n").await;
    let before = change_count(&ours).await;
    let options = MergeOptions {
        dry_run: true,
        ..MergeOptions::default()
    };
    let tried = ours.merge("try", options).await.unwrap();
    assert_eq!(
        (paths(&tried), tried.outcome.is_dry_run(), tried.outcome.change),
        (vec!["+ new.txt".to_owned()], true, None)
    );
    assert_eq!(change_count(&ours).await, before);
    assert!(!ours.exists("new.txt").await.unwrap().exists);
}

#[tokio::test]
async fn what_the_policy_keeps_from_writing_is_not_merged_either() {
    let (depot, _ours, theirs) = pair().await;
    write(&theirs, "secret/key", "k\n").await;
    write(&theirs, "new.txt", "new\n").await;
    let policies = [
        FsPolicy {
            deny_write: vec!["secret/**".into()],
            ..FsPolicy::default()
        },
        FsPolicy {
            deny_read: vec!["secret/**".into()],
            ..FsPolicy::default()
        },
        FsPolicy {
            read_only: true,
            ..FsPolicy::default()
        },
    ];
    for policy in policies {
        let fenced = open_with(&depot, "notes", policy.clone()).await;
        for dry_run in [true, false] {
            let options = MergeOptions {
                dry_run,
                ..MergeOptions::default()
            };
            let refused = fenced.merge("try", options).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Denied, "{policy:?}");
        }
        assert!(!fenced.exists("new.txt").await.unwrap().exists);
    }
    let whole = open(&depot, "notes").await;
    let part = whole.scope("dir", ScopeOptions::default()).unwrap();
    assert_eq!(
        part.merge("try", MergeOptions::default()).await.unwrap_err().kind(),
        ErrorKind::Denied
    );
}

#[tokio::test]
async fn a_conflict_shows_nothing_of_what_may_not_be_read() {
    let (depot, ours, theirs) = pair().await;
    write(&ours, "secret/key", "mine\n").await;
    write(&theirs, "secret/key", "yours\n").await;
    let policy = FsPolicy {
        deny_read: vec!["secret/**".into()],
        ..FsPolicy::default()
    };
    let fenced = open_with(&depot, "notes", policy).await;
    let told = fenced.merge("try", MergeOptions::default()).await;
    let shown = format!("{told:?}");
    assert!(
        !shown.contains("mine") && !shown.contains("yours") && !shown.contains("secret"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_diff_between_points_is_what_was_done() {
    let (_depot, ours, _theirs) = pair().await;
    write(&ours, "a.txt", "1\n2\nthree\n4\n5\n").await;
    let request = DiffRequest {
        from: Point::Number(2),
        ..DiffRequest::default()
    };
    let diff = ours.diff(request).await.unwrap();
    assert!(diff.diff.contains("-3\n+three\n"), "{}", diff.diff);
    assert_eq!(
        (diff.paths.len(), diff.paths[0].insertions, diff.paths[0].deletions),
        (1, 1, 1)
    );
}

#[tokio::test]
async fn a_branch_of_a_directory_is_merged_back_into_it_and_what_others_did_there_counts() {
    let depot = depot();
    let directory = tempfile::tempdir().unwrap();
    let ours = open_directory(&depot, directory.path()).await;
    write(&ours, "d/a.txt", "1\n2\n3\n4\n5\n").await;
    write(&ours, "d/b.txt", "b\n").await;
    ours.branch("try", &Point::Now).await.unwrap();
    let theirs = open(&depot, "try").await;
    write(&theirs, "d/a.txt", "1\n2\n3\n4\nfive\n").await;
    theirs.rename("d", "e", TransferOptions::default()).await.unwrap();
    // Another program, which no journal saw.
    std::fs::write(directory.path().join("d/a.txt"), "one\n2\n3\n4\n5\n").unwrap();
    std::fs::write(directory.path().join("d/new.txt"), "new\n").unwrap();
    let merged = ours.merge("try", MergeOptions::default()).await.unwrap();
    assert_eq!(merged.conflicts, []);
    let found = |path: &str| std::fs::read_to_string(directory.path().join(path)).unwrap();
    assert_eq!(found("e/a.txt"), "one\n2\n3\n4\nfive\n");
    assert_eq!(
        (found("e/b.txt").as_str(), found("e/new.txt").as_str()),
        ("b\n", "new\n")
    );
    assert!(!directory.path().join("d").exists());
    ours.undo(UndoRequest::Last(1)).await.unwrap();
    assert_eq!(found("d/a.txt"), "one\n2\n3\n4\n5\n");
    assert_eq!(found("d/new.txt"), "new\n");
    assert!(!directory.path().join("e").exists());
    let again = ours.merge("try", MergeOptions::default()).await.unwrap();
    assert!(again.outcome.change.is_some());
    let nothing = ours.merge("try", MergeOptions::default()).await.unwrap();
    assert_eq!(paths(&nothing), Vec::<String>::new());
}
