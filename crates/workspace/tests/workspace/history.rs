//! The history of a workspace through its policies: what was done, the way back, and what a view may see and do of it.

use std::sync::Arc;

use garret_core::{
    Actor, CountedIds, ErrorKind, EventOutcome, FixedClock, FsPolicy, HistoryMode, MemoryEvents, OpenContext, Point,
    SnapshotOptions, Timestamp,
};
use garret_depot::{Depot, DepotOptions, DepotWorkspace, NewWorkspace};
use garret_workspace::{
    DiffRequest, LogRequest, RemoveOptions, RestoreRequest, ScopeOptions, TransferOptions, UndoRequest,
    VersionsRequest, Workspace, WorkspaceBuilder, WriteOptions,
};

use crate::workspace::support::{builder_on, get, globs, put, shown, workspace};

/// A room of a depot in memory whose clock stands still.
async fn room() -> DepotWorkspace {
    let context = OpenContext {
        clock: Arc::new(FixedClock::starting_at(Timestamp::UNIX_EPOCH)),
        ids: Arc::new(CountedIds::default()),
        history: HistoryMode::Durable,
    };
    let depot = Depot::in_memory(DepotOptions::default(), context).unwrap();
    depot.create(NewWorkspace::named("box")).await.unwrap()
}

fn on(room: &DepotWorkspace) -> WorkspaceBuilder {
    builder_on(Arc::new(room.clone())).history(Some(Arc::new(room.clone())))
}

async fn kept() -> Workspace {
    on(&room().await).open().unwrap()
}

/// An open view of a room, and one under `policy`.
async fn under(policy: FsPolicy) -> (Workspace, Workspace) {
    let room = room().await;
    (on(&room).open().unwrap(), on(&room).policy(policy).open().unwrap())
}

fn acting(workspace: &Workspace, session: &str, tool_call: &str) -> Workspace {
    workspace.acting_as(Actor {
        agent: Some("writer".into()),
        session: Some(session.into()),
        tool_call: Some(tool_call.into()),
        door: "mcp".into(),
        command: None,
    })
}

fn scope(workspace: &Workspace, path: &str) -> Workspace {
    workspace.scope(path, ScopeOptions::default()).unwrap()
}

fn named(text: &str) -> Point {
    Point::Named(text.to_owned())
}

/// The summaries of the journal, newest first.
async fn log(workspace: &Workspace) -> Vec<String> {
    let log = workspace.log(LogRequest::default()).await.unwrap();
    log.changes.into_iter().map(|change| change.summary).collect()
}

async fn undo(workspace: &Workspace, request: UndoRequest) -> ErrorOr<u64> {
    workspace
        .undo(request)
        .await
        .map(|result| result.change.unwrap().number)
        .map_err(|error| (error.kind(), error.to_string()))
}

type ErrorOr<T> = Result<T, (ErrorKind, String)>;

fn kind_of<T>(result: ErrorOr<T>) -> ErrorKind {
    result.map(drop).unwrap_err().0
}

async fn remove(workspace: &Workspace, path: &str) {
    let options = RemoveOptions {
        recursive: true,
        ..RemoveOptions::default()
    };
    workspace.remove(path, options).await.unwrap();
}

fn restore_to(point: &str) -> RestoreRequest {
    RestoreRequest {
        point: named(point),
        path: None,
    }
}

#[tokio::test]
async fn every_way_to_change_files_is_a_change_with_its_tool_and_actor() {
    let workspace = acting(&kept().await, "s1", "c1");
    put(&workspace, "a", "one\n").await;
    workspace.append("a", "two\n", Default::default()).await.unwrap();
    workspace.make_dir("d", true).await.unwrap();
    workspace.copy("a", "d/a", TransferOptions::default()).await.unwrap();
    workspace.rename("d", "e", TransferOptions::default()).await.unwrap();
    let diff = "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";
    workspace.apply_patch(diff, Default::default()).await.unwrap();
    remove(&workspace, "e").await;
    let log = workspace.log(LogRequest::default()).await.unwrap();
    let operations: Vec<_> = log
        .changes
        .iter()
        .rev()
        .map(|change| change.operation.as_str())
        .collect();
    let expected = [
        "write_file",
        "append_file",
        "mkdir",
        "copy",
        "move",
        "apply_patch",
        "rm",
    ];
    assert_eq!(operations, expected);
    for change in &log.changes {
        assert_eq!(change.actor.session.as_deref(), Some("s1"));
        assert_eq!(change.actor.tool_call.as_deref(), Some("c1"));
        assert!(!change.summary.is_empty() && change.path_count as usize == change.paths.len());
    }
}

#[tokio::test]
async fn a_failed_operation_leaves_no_change() {
    let workspace = kept().await;
    put(&workspace, "a", "x").await;
    workspace
        .rename("a", "a/b", TransferOptions::default())
        .await
        .unwrap_err();
    workspace.read("none", Default::default()).await.unwrap_err();
    assert_eq!(log(&workspace).await.len(), 1);
}

#[tokio::test]
async fn the_log_comes_in_pages_and_by_path() {
    let workspace = kept().await;
    for n in 0..7 {
        put(&workspace, &format!("d{}/f", n % 2), &format!("{n}")).await;
    }
    let (mut numbers, mut cursor) = (Vec::new(), None);
    loop {
        let request = LogRequest {
            path: Some("d0".into()),
            limit: 3,
            cursor,
        };
        let page = workspace.log(request).await.unwrap();
        numbers.extend(page.changes.iter().map(|change| change.number));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(numbers, [7, 5, 3, 1]);
    let request = LogRequest {
        cursor: Some("x".into()),
        ..LogRequest::default()
    };
    assert_eq!(workspace.log(request).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn one_change_is_shown_with_what_each_path_was() {
    let workspace = kept().await;
    put(&workspace, "a", "one").await;
    put(&workspace, "a", "three").await;
    let shown = workspace.show(&Point::Number(2)).await.unwrap();
    assert_eq!(shown.change.paths[0].to_string(), "~ a");
    let [path] = shown.entries.as_slice() else {
        panic!("{:?}", shown.entries)
    };
    let sizes = (path.before.as_ref().unwrap().size, path.after.as_ref().unwrap().size);
    assert_eq!((path.path.display_path().as_str(), sizes), ("a", (3, 5)));
    let missing = workspace.show(&named("nowhere")).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn versions_follow_renames_in_pages_and_one_can_be_restored() {
    let workspace = kept().await;
    for n in 0..5 {
        put(&workspace, "a", &"x".repeat(n)).await;
    }
    workspace.rename("a", "b", TransferOptions::default()).await.unwrap();
    remove(&workspace, "b").await;
    let (mut sizes, mut cursor) = (Vec::new(), None);
    loop {
        let request = VersionsRequest { limit: 2, cursor };
        let page = workspace.versions_page("b", request).await.unwrap();
        sizes.extend(page.versions.iter().map(|version| (version.path.clone(), version.size)));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let expected = [("b", 4), ("a", 4), ("a", 3), ("a", 2), ("a", 1), ("a", 0)];
    assert_eq!(sizes, expected.map(|(path, size)| (path.to_owned(), size)));
    let versions = workspace.versions("b", 100).await.unwrap();
    let wanted = versions.iter().find(|version| version.size == 2).unwrap();
    workspace.restore_version("b", &wanted.version).await.unwrap();
    assert_eq!(get(&workspace, "b").await, "xx");
    assert_eq!(
        workspace.restore_version("b", &wanted.change).await.unwrap().change,
        None
    );
}

#[tokio::test]
async fn a_path_through_a_link_has_the_history_of_what_it_leads_to() {
    let room = room().await;
    let workspace = on(&room).open().unwrap();
    put(&workspace, "real/a", "one").await;
    let storage: Arc<dyn garret_core::Storage> = Arc::new(room);
    crate::workspace::support::link(&storage, "alias", "real").await;
    put(&workspace, "real/a", "two").await;
    assert_eq!(workspace.versions("alias/a", 10).await.unwrap().len(), 2);
    let request = RestoreRequest {
        point: Point::Number(1),
        path: Some("alias/a".into()),
    };
    workspace.restore(request).await.unwrap();
    assert_eq!(get(&workspace, "real/a").await, "one");
}

#[tokio::test]
async fn undo_brings_back_bytes_mode_and_absence() {
    let workspace = kept().await;
    let options = WriteOptions {
        mode: Some(0o755),
        ..WriteOptions::default()
    };
    workspace.write("a", vec![0, 159, 255], options).await.unwrap();
    remove(&workspace, "a").await;
    put(&workspace, "d/new", "x").await;
    workspace.undo(UndoRequest::Last(2)).await.unwrap();
    assert_eq!(workspace.read_bytes("a").await.unwrap().bytes.as_ref(), [0, 159, 255]);
    assert_eq!(workspace.stat("a").await.unwrap().mode.as_deref(), Some("0755"));
    assert_eq!(shown(&workspace).await, ["a"], "the directory goes with the file");
}

#[tokio::test]
async fn repeated_undo_steps_back_and_redo_forward_until_something_new_is_done() {
    let workspace = kept().await;
    for n in 1..=3 {
        put(&workspace, "a", &format!("{n}")).await;
    }
    for expected in ["2", "1"] {
        workspace.undo(UndoRequest::Last(1)).await.unwrap();
        assert_eq!(get(&workspace, "a").await, expected);
    }
    for expected in ["2", "3"] {
        workspace.redo().await.unwrap();
        assert_eq!(get(&workspace, "a").await, expected);
    }
    assert_eq!(workspace.redo().await.unwrap_err().kind(), ErrorKind::NotFound);
    workspace.undo(UndoRequest::Last(1)).await.unwrap();
    put(&workspace, "b", "new").await;
    assert_eq!(workspace.redo().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(
        kind_of(undo(&workspace, UndoRequest::Last(0)).await),
        ErrorKind::Invalid
    );
}

#[tokio::test]
async fn a_change_out_of_the_middle_is_undone_and_later_work_stays() {
    let workspace = kept().await;
    put(&workspace, "a", "1").await;
    put(&workspace, "a", "2").await;
    put(&workspace, "b", "1").await;
    let change = workspace.undo(UndoRequest::Change("2".into())).await.unwrap();
    assert_eq!(change.reverses(), [2]);
    assert_eq!(
        (get(&workspace, "a").await, get(&workspace, "b").await),
        ("1".into(), "1".into())
    );
    let log = workspace.log(LogRequest::default()).await.unwrap();
    assert_eq!(log.changes[2].undone_by, Some(4));
    let again = undo(&workspace, UndoRequest::Change(log.changes[2].id.clone())).await;
    assert_eq!(kind_of(again), ErrorKind::Invalid);
    assert_eq!(
        kind_of(undo(&workspace, UndoRequest::Change("none".into())).await),
        ErrorKind::NotFound
    );
}

#[tokio::test]
async fn a_clash_names_each_path_and_touches_nothing() {
    let workspace = kept().await;
    let diff = "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+1\n--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+1\n--- /dev/null\n+++ b/c\n@@ -0,0 +1 @@\n+1\n";
    workspace.apply_patch(diff, Default::default()).await.unwrap();
    put(&workspace, "a", "2").await;
    remove(&workspace, "b").await;
    let (kind, text) = undo(&workspace, UndoRequest::Change("1".into())).await.unwrap_err();
    assert_eq!(kind, ErrorKind::Conflict);
    assert!(
        text.contains("`a` was changed since") && text.contains("`b` was changed since"),
        "{text}"
    );
    assert!(!text.contains("`c`"), "{text}");
    assert_eq!(shown(&workspace).await, ["a", "c"]);
    assert_eq!(log(&workspace).await.len(), 3);
}

fn tool_call(call: &str, session: Option<&str>) -> UndoRequest {
    UndoRequest::ToolCall {
        call: call.into(),
        session: session.map(Into::into),
    }
}

/// Every connection counts its calls from 1, so the same id says nothing about whose work it was.
#[tokio::test]
async fn a_tool_call_is_undone_in_one_session_alone() {
    let workspace = kept().await;
    put(&acting(&workspace, "s1", "2"), "a", "1").await;
    put(&acting(&workspace, "s2", "2"), "b", "1").await;
    put(&acting(&workspace, "s2", "3"), "c", "1").await;
    for view in [workspace.clone(), scope(&workspace, "")] {
        let error = view.undo(tool_call("2", None)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.message().contains("`s1`, `s2`"), "{error}");
    }
    assert_eq!(shown(&workspace).await, ["a", "b", "c"]);
    assert_eq!(
        kind_of(undo(&workspace, tool_call("3", Some("s1"))).await),
        ErrorKind::NotFound
    );
    workspace.undo(tool_call("2", Some("s2"))).await.unwrap();
    assert_eq!(shown(&workspace).await, ["a", "c"]);
    workspace.undo(tool_call("2", None)).await.unwrap();
    assert_eq!(shown(&workspace).await, ["c"], "one that is undone is in nobody's way");
}

#[tokio::test]
async fn everything_of_a_session_or_a_tool_call_is_undone_together() {
    let workspace = kept().await;
    put(&acting(&workspace, "s1", "c1"), "a", "1").await;
    put(&acting(&workspace, "s2", "c2"), "b", "1").await;
    put(&acting(&workspace, "s1", "c3"), "a", "2").await;
    put(&acting(&workspace, "s1", "c4"), "c", "1").await;
    workspace.undo(tool_call("c4", None)).await.unwrap();
    assert_eq!(shown(&workspace).await, ["a", "b"]);
    let change = workspace.undo(UndoRequest::Session("s1".into())).await.unwrap();
    assert_eq!(change.reverses(), [3, 1]);
    assert_eq!(shown(&workspace).await, ["b"]);
    assert_eq!(
        kind_of(undo(&workspace, UndoRequest::Session("s9".into())).await),
        ErrorKind::NotFound
    );
}

#[tokio::test]
async fn a_snapshot_never_changes_and_can_be_gone_back_to_as_one_change() {
    let workspace = kept().await;
    put(&workspace, "a", "1").await;
    workspace.snapshot("before", SnapshotOptions::default()).await.unwrap();
    put(&workspace, "a", "2").await;
    put(&workspace, "d/b", "1").await;
    assert_eq!(
        get(&workspace.at_point(&named("before")).await.unwrap(), "a").await,
        "1"
    );
    let change = workspace.restore(restore_to("before")).await.unwrap().change.unwrap();
    assert_eq!((change.kind.as_str(), change.path_count), ("restore", 3));
    assert_eq!(
        (shown(&workspace).await, get(&workspace, "a").await),
        (vec!["a".into()], "1".into())
    );
    assert_eq!(workspace.restore(restore_to("before")).await.unwrap().change, None);
    workspace.undo(UndoRequest::Last(1)).await.unwrap();
    assert_eq!(get(&workspace, "d/b").await, "1");
    let again = workspace
        .snapshot("before", SnapshotOptions::default())
        .await
        .unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let labels: Vec<_> = workspace
        .snapshots()
        .await
        .unwrap()
        .into_iter()
        .map(|one| one.label)
        .collect();
    assert_eq!(labels, ["before"]);
    workspace.delete_snapshot("before").await.unwrap();
    assert!(workspace.snapshots().await.unwrap().is_empty());
    assert_eq!(
        workspace.delete_snapshot("before").await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[tokio::test]
async fn the_past_is_for_reading() {
    let workspace = kept().await;
    put(&workspace, "a", "1").await;
    put(&workspace, "a", "2").await;
    let past = workspace.at_point(&Point::Number(1)).await.unwrap();
    assert_eq!(get(&past, "a").await, "1");
    let error = past.write("a", "x", WriteOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(!past.has_history());
    assert_eq!(get(&workspace, "a").await, "2");
}

#[tokio::test]
async fn a_branch_and_its_origin_never_disturb_each_other() {
    let room = room().await;
    let workspace = on(&room).open().unwrap();
    put(&workspace, "a", "1").await;
    let branch = workspace.branch("try", &Point::Now).await.unwrap();
    assert_eq!((branch.fork, branch.change_count), (1, 0));
    put(&workspace, "a", "2").await;
    let depot = room.depot();
    let other = on(&depot.workspace("try").await.unwrap()).open().unwrap();
    assert_eq!(get(&other, "a").await, "1");
    put(&other, "b", "1").await;
    assert_eq!(shown(&workspace).await, ["a"]);
    let branches = workspace.branches().await.unwrap();
    assert_eq!((branches.len(), branches[0].change_count), (1, 1));
    assert_eq!(
        workspace.branch("try", &Point::Now).await.unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
}

#[tokio::test]
async fn the_state_before_a_change_is_found_on_a_branch_too() {
    let room = room().await;
    let workspace = on(&room).open().unwrap();
    for n in 1..=3 {
        put(&workspace, "a", &format!("{n}")).await;
    }
    workspace.branch("try", &Point::Now).await.unwrap();
    let branch = on(&room.depot().workspace("try").await.unwrap()).open().unwrap();
    assert_eq!(branch.before(&Point::Now).await.unwrap(), Point::Number(0));
    put(&branch, "a", "4").await;
    let content_before = async |point: Point| {
        let point = branch.before(&point).await.unwrap();
        let past = branch.at_point(&point).await.unwrap();
        match past.exists("a").await.unwrap().exists {
            true => get(&past, "a").await,
            false => String::new(),
        }
    };
    assert_eq!(content_before(Point::Now).await, "3");
    let log = workspace.log(LogRequest::default()).await.unwrap();
    assert_eq!(content_before(named(&log.changes[0].id)).await, "2");
    assert_eq!(content_before(named(&log.changes[2].id)).await, "");
}

#[tokio::test]
async fn each_operation_on_the_history_leaves_one_event() {
    let events = Arc::new(MemoryEvents::default());
    let workspace = on(&room().await).events(events.clone()).open().unwrap();
    put(&workspace, "a", "1").await;
    workspace.log(LogRequest::default()).await.unwrap();
    workspace.show(&Point::Now).await.unwrap();
    workspace.versions("a", 10).await.unwrap();
    workspace.diff(DiffRequest::default()).await.unwrap();
    workspace.undo(UndoRequest::Last(1)).await.unwrap();
    workspace.redo().await.unwrap();
    workspace.snapshot("s", SnapshotOptions::default()).await.unwrap();
    workspace.snapshots().await.unwrap();
    workspace.restore(restore_to("0")).await.unwrap();
    workspace.restore_version("a", "none").await.unwrap_err();
    workspace.branch("try", &Point::Now).await.unwrap();
    workspace.branches().await.unwrap();
    let told: Vec<_> = events
        .events()
        .into_iter()
        .map(|event| (event.operation, event.outcome))
        .collect();
    let expected = [
        "write_file",
        "history",
        "history",
        "history",
        "diff",
        "undo",
        "redo",
        "snapshot",
        "list_snapshots",
        "restore",
        "restore_version",
        "branch",
        "list_branches",
    ];
    assert_eq!(
        told.iter().map(|(operation, _)| operation.as_ref()).collect::<Vec<_>>(),
        expected
    );
    for (operation, outcome) in told {
        let failed = EventOutcome::Failed {
            kind: ErrorKind::NotFound,
        };
        let expected = if operation == "restore_version" {
            failed
        } else {
            EventOutcome::Done
        };
        assert_eq!(outcome, expected, "{operation}");
    }
}

#[tokio::test]
async fn without_a_history_everything_about_it_is_unsupported() {
    let workspace = workspace();
    assert!(!workspace.has_history());
    let errors = [
        workspace.log(LogRequest::default()).await.unwrap_err(),
        workspace.undo(UndoRequest::Last(1)).await.unwrap_err(),
        workspace.redo().await.unwrap_err(),
        workspace.versions("a", 1).await.unwrap_err(),
        workspace.snapshots().await.unwrap_err(),
        workspace.at_point(&Point::Now).await.unwrap_err(),
        workspace.diff(DiffRequest::default()).await.unwrap_err(),
    ];
    assert!(
        errors.iter().all(|error| error.kind() == ErrorKind::Unsupported),
        "{errors:?}"
    );
}

#[tokio::test]
async fn what_may_not_be_read_does_not_show_in_the_past() {
    let policy = FsPolicy {
        deny_read: globs(&["secrets/**"]),
        ..FsPolicy::default()
    };
    let (open, fenced) = under(policy).await;
    put(&open, "secrets/key", "CANARY\n").await;
    put(&open, "public", "p\n").await;
    open.copy("public", "secrets/copy", TransferOptions::default())
        .await
        .unwrap();
    open.rename("secrets/key", "shown", TransferOptions::default())
        .await
        .unwrap();
    open.rename("public", "secrets/public", TransferOptions::default())
        .await
        .unwrap();
    open.snapshot("s", SnapshotOptions::default()).await.unwrap();
    let journal = format!("{:?}", fenced.log(LogRequest::default()).await.unwrap());
    assert!(
        !journal.contains("key") && !journal.contains("copy") && journal.contains("shown"),
        "{journal}"
    );
    for number in 1..=5 {
        let told = match fenced.show(&Point::Number(number)).await {
            Ok(told) => format!("{told:?}"),
            Err(error) => error.to_string(),
        };
        assert!(!told.contains("secrets/"), "{told}");
    }
    let versions = fenced.versions("shown", 10).await.unwrap();
    assert_eq!(
        versions.len(),
        1,
        "its past was where this view may not look: {versions:?}"
    );
    assert_eq!(
        fenced.versions("secrets/key", 10).await.unwrap_err().kind(),
        ErrorKind::Denied
    );
    let request = LogRequest {
        path: Some("secrets/key".into()),
        ..LogRequest::default()
    };
    assert_eq!(fenced.log(request).await.unwrap_err().kind(), ErrorKind::Denied);
    let past = fenced.at_point(&Point::Number(2)).await.unwrap();
    assert_eq!(
        past.read("secrets/key", Default::default()).await.unwrap_err().kind(),
        ErrorKind::Denied
    );
    assert!(!shown(&past).await.iter().any(|path| path.starts_with("secrets/")));
    let request = DiffRequest {
        to: Point::Number(3),
        ..DiffRequest::default()
    };
    let diff = format!("{:?}", fenced.diff(request).await.unwrap());
    assert!(
        !diff.contains("CANARY") && !diff.contains("secrets/") && diff.contains("public"),
        "{diff}"
    );
}

#[tokio::test]
async fn what_may_not_be_seen_is_not_brought_back_nor_named() {
    let policy = FsPolicy {
        deny_read: globs(&["secrets/**"]),
        ..FsPolicy::default()
    };
    let (open, fenced) = under(policy).await;
    put(&open, "secrets/old", "o").await;
    put(&fenced, "a", "1").await;
    put(&open, "secrets/key", "k").await;
    for result in [
        undo(&fenced, UndoRequest::Change("3".into())).await,
        fenced
            .restore(restore_to("2"))
            .await
            .map(|_| 0)
            .map_err(|error| (error.kind(), error.to_string())),
    ] {
        let (kind, text) = result.unwrap_err();
        assert_eq!(kind, ErrorKind::Denied);
        assert!(!text.contains("secrets"), "{text}");
    }
    assert_eq!(get(&open, "secrets/key").await, "k");
    // Its own work is the newest that it can see.
    undo(&fenced, UndoRequest::Last(1)).await.unwrap();
    assert_eq!(shown(&open).await, ["secrets", "secrets/key", "secrets/old"]);
    fenced.redo().await.unwrap();
    assert_eq!(get(&open, "a").await, "1");
}

#[tokio::test]
async fn what_may_be_written_can_be_undone_with_the_directories_it_made() {
    let policy = FsPolicy {
        allow_read: globs(&["docs/**/*.md"]),
        allow_write: globs(&["docs/**/*.md"]),
        ..FsPolicy::default()
    };
    let (open, fenced) = under(policy).await;
    put(&fenced, "docs/deep/a.md", "1").await;
    undo(&fenced, UndoRequest::Last(1)).await.unwrap();
    assert!(shown(&open).await.is_empty());
    put(&open, "docs/b.txt", "1").await;
    assert_eq!(
        kind_of(undo(&fenced, UndoRequest::Change("3".into())).await),
        ErrorKind::Denied
    );
}

#[tokio::test]
async fn what_may_not_be_written_is_not_brought_back() {
    let policy = FsPolicy {
        deny_write: globs(&["locked/**"]),
        ..FsPolicy::default()
    };
    let (open, fenced) = under(policy).await;
    put(&open, "locked/a", "1").await;
    put(&open, "locked/a", "2").await;
    let versions = fenced.versions("locked/a", 10).await.unwrap();
    assert_eq!(versions.len(), 2, "it may be looked at");
    assert_eq!(kind_of(undo(&fenced, UndoRequest::Last(1)).await), ErrorKind::Denied);
    let restored = fenced.restore_version("locked/a", &versions[1].version).await;
    assert_eq!(restored.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(
        fenced.restore(restore_to("1")).await.unwrap_err().kind(),
        ErrorKind::Denied
    );
    assert_eq!(get(&open, "locked/a").await, "2");
}

#[tokio::test]
async fn a_version_from_under_a_hidden_name_is_not_brought_to_one_that_shows() {
    let policy = FsPolicy {
        deny_read: globs(&["secret/**"]),
        ..FsPolicy::default()
    };
    let (open, fenced) = under(policy).await;
    put(&open, "secret/key", "old").await;
    put(&open, "secret/key", "new").await;
    open.rename("secret/key", "plain", TransferOptions::default())
        .await
        .unwrap();
    for version in open.versions("plain", 10).await.unwrap() {
        for named in [&version.change, &version.version] {
            let _ = fenced.restore_version("plain", named).await;
            assert_eq!(get(&fenced, "plain").await, "new", "{version:?}");
        }
    }
}

#[tokio::test]
async fn going_back_does_not_tell_what_was_under_a_hidden_name() {
    let policy = FsPolicy {
        deny_read: globs(&["secret/**"]),
        ..FsPolicy::default()
    };
    let (open, fenced) = under(policy).await;
    put(&open, "a", "1").await;
    put(&open, "secret/key", "1").await;
    let mut answers = Vec::new();
    for path in ["secret/key", "secret/other"] {
        let request = RestoreRequest {
            path: Some(path.to_owned()),
            ..restore_to("1")
        };
        let error = fenced.restore(request).await.unwrap_err();
        answers.push((error.kind(), error.message().replace(path, "")));
    }
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test]
async fn a_read_only_view_looks_at_the_past_and_changes_nothing() {
    let policy = FsPolicy {
        read_only: true,
        ..FsPolicy::default()
    };
    let (open, fenced) = under(policy).await;
    put(&open, "a", "1").await;
    put(&open, "a", "2").await;
    open.undo(UndoRequest::Last(1)).await.unwrap();
    assert_eq!(log(&fenced).await.len(), 3);
    assert_eq!(get(&fenced.at_point(&Point::Number(2)).await.unwrap(), "a").await, "2");
    let version = fenced.versions("a", 10).await.unwrap().pop().unwrap().version;
    let refusals = [
        fenced.undo(UndoRequest::Last(1)).await.map(drop).unwrap_err(),
        fenced.redo().await.map(drop).unwrap_err(),
        fenced.restore(restore_to("2")).await.map(drop).unwrap_err(),
        fenced.restore_version("a", &version).await.map(drop).unwrap_err(),
        fenced
            .snapshot("s", SnapshotOptions::default())
            .await
            .map(drop)
            .unwrap_err(),
        fenced.branch("try", &Point::Now).await.map(drop).unwrap_err(),
    ];
    for refusal in refusals {
        assert_eq!(refusal.kind(), ErrorKind::Denied, "{refusal}");
        assert_eq!(refusal.refused_by(), Some("read_only = true"), "{refusal}");
    }
    assert_eq!(get(&open, "a").await, "1");
}

#[tokio::test]
async fn a_scope_sees_and_reverses_its_own_changes_alone() {
    let workspace = kept().await;
    let (alice, bob) = (scope(&workspace, "users/alice"), scope(&workspace, "users/bob"));
    put(&alice, "a", "1").await;
    put(&alice, "a", "2").await;
    put(&bob, "b", "1").await;
    let log = alice.log(LogRequest::default()).await.unwrap();
    assert_eq!(log.changes.len(), 2);
    let told = format!("{log:?}");
    assert!(!told.contains("users") && !told.contains("bob"), "{told}");
    assert_eq!(alice.versions("a", 10).await.unwrap().len(), 2);
    assert_eq!(
        alice.versions("../bob/b", 10).await.unwrap_err().kind(),
        ErrorKind::PathEscape
    );
    let (kind, text) = undo(&alice, UndoRequest::Change("3".into())).await.unwrap_err();
    assert_eq!(kind, ErrorKind::Denied);
    assert!(!text.contains("bob"), "{text}");
    undo(&alice, UndoRequest::Last(1)).await.unwrap();
    assert_eq!(get(&alice, "a").await, "1");
    put(&bob, "b", "2").await;
    undo(&bob, UndoRequest::Last(1)).await.unwrap();
    alice.redo().await.unwrap();
    assert_eq!((get(&alice, "a").await, get(&bob, "b").await), ("2".into(), "1".into()));
    assert_eq!(alice.redo().await.unwrap_err().kind(), ErrorKind::NotFound);
    bob.redo().await.unwrap();
    assert_eq!(get(&bob, "b").await, "2");
    alice.restore(restore_to("1")).await.unwrap();
    assert_eq!((get(&alice, "a").await, get(&bob, "b").await), ("1".into(), "2".into()));
    let diff = DiffRequest::default();
    let paths: Vec<_> = alice
        .diff(diff)
        .await
        .unwrap()
        .paths
        .into_iter()
        .map(|one| one.path)
        .collect();
    assert!(
        paths
            .iter()
            .all(|path| !path.contains("bob") && !path.contains("users")),
        "{paths:?}"
    );
    assert_eq!(get(&alice.at_point(&Point::Number(2)).await.unwrap(), "a").await, "2");
}

#[tokio::test]
async fn a_scope_undoes_what_a_session_did_in_it() {
    let workspace = kept().await;
    let session = acting(&workspace, "s1", "c1");
    put(&session, "other", "1").await;
    put(&scope(&session, "mine"), "a", "1").await;
    undo(&scope(&workspace, "mine"), UndoRequest::Session("s1".into()))
        .await
        .unwrap();
    assert_eq!(shown(&workspace).await, ["other"]);
}

#[tokio::test]
async fn a_scope_makes_no_snapshots_or_branches_of_the_whole() {
    let workspace = kept().await;
    let alice = scope(&workspace, "alice");
    put(&alice, "a", "1").await;
    let refusals = [
        alice
            .snapshot("s", SnapshotOptions::default())
            .await
            .map(drop)
            .unwrap_err(),
        alice.branch("try", &Point::Now).await.map(drop).unwrap_err(),
        alice.branches().await.map(drop).unwrap_err(),
        alice.delete_snapshot("s").await.unwrap_err(),
    ];
    assert!(
        refusals.iter().all(|error| error.kind() == ErrorKind::Denied),
        "{refusals:?}"
    );
    workspace.snapshot("s", SnapshotOptions::default()).await.unwrap();
    put(&alice, "a", "2").await;
    alice.restore(restore_to("s")).await.unwrap();
    assert_eq!(get(&alice, "a").await, "1");
}

#[tokio::test]
async fn the_way_back_does_not_lead_past_a_quota() {
    let policy = FsPolicy {
        max_files: Some(2),
        ..FsPolicy::default()
    };
    let (_, fenced) = under(policy).await;
    put(&fenced, "a", "1").await;
    put(&fenced, "b", "1").await;
    remove(&fenced, "a").await;
    put(&fenced, "c", "1").await;
    let (kind, text) = undo(&fenced, UndoRequest::Change("3".into())).await.unwrap_err();
    assert_eq!(kind, ErrorKind::QuotaExceeded, "{text}");
    assert_eq!(shown(&fenced).await, ["b", "c"]);
    remove(&fenced, "b").await;
    undo(&fenced, UndoRequest::Change("3".into())).await.unwrap();
    let full = fenced.write("d", "1", WriteOptions::default()).await.unwrap_err();
    assert_eq!(full.kind(), ErrorKind::QuotaExceeded, "what came back counts");
}

#[tokio::test]
async fn who_must_agree_to_an_undo_is_asked_for_a_redo_too() {
    let policy = FsPolicy {
        require_approval: globs(&["undo"]),
        ..FsPolicy::default()
    };
    let (open, fenced) = under(policy).await;
    put(&open, "a", "1").await;
    open.undo(UndoRequest::Last(1)).await.unwrap();
    let refusal = fenced.redo().await.unwrap_err();
    assert_eq!(refusal.refused_by(), Some("require_approval = undo"));
    assert_eq!(refusal.operation(), Some("redo"));
    assert!(shown(&open).await.is_empty());
}
