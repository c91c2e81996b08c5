//! The effects of background processes when the files, the history or the sandbox fail.

use std::sync::Arc;

use garret_core::{
    Actor, ErrorKind, FsPolicy, HistoryMode, MemoryStorage, Mutation, OpenContext, RandomIds, SystemClock, WsPath,
};
use garret_depot::{Depot, DepotOptions, NewWorkspace};
use garret_testkit::faults::Call;
use garret_testkit::{Fault, FaultStorage, Moment};

use super::*;
use crate::shell::RunRequest;
use crate::shell::interpreter::{InterpreterProcess, InterpreterProgram};
use crate::shell::testing::{FakeMachine, file};
use crate::{UndoRequest, Workspace};

/// A workspace with a background process, on files that can be out of reach.
struct Scene {
    stage: Arc<FakeMachine>,
    faults: Arc<FaultStorage>,
    workspace: Workspace,
}

impl Scene {
    async fn new() -> Self {
        let stage = FakeMachine::new();
        let files = Arc::new(MemoryStorage::new(Arc::new(SystemClock::default())));
        let faults = Arc::new(FaultStorage::planned(files, Vec::new()));
        let workspace = Workspace::builder(faults.clone())
            .policy(FsPolicy {
                deny_write: vec!["denied".to_owned()],
                ..FsPolicy::default()
            })
            .shell(Some(stage.parts()))
            .open()
            .unwrap();
        workspace.start(RunRequest::shell("sleep 1000")).await.unwrap();
        Self {
            stage,
            faults,
            workspace,
        }
    }

    /// Makes a later `stat` of the files fail as unavailable, after `after` calls that work.
    fn lose_sight(&self, after: u64) {
        self.faults.add(Fault {
            call: Some(Call::Stat),
            after_calls: after,
            kind: ErrorKind::Unavailable,
            moment: Moment::Before,
        });
    }

    fn is_live(&self) -> bool {
        self.workspace.commands().unwrap().shell.live.is_live()
    }

    async fn settle(&self) -> std::result::Result<(), ErrorKind> {
        self.workspace.settle_live().await.map_err(|error| error.kind())
    }

    async fn notices(&self) -> Vec<String> {
        self.workspace.processes().await.unwrap().notices
    }

    async fn driven(&self) -> InterpreterProcess {
        let driven = InterpreterProgram {
            operation: "create_code_context",
            request: RunRequest::shell("python3"),
            judged: None,
            label: "python3".to_owned(),
        };
        self.workspace
            .commands()
            .unwrap()
            .start_interpreter(driven)
            .await
            .unwrap()
    }

    fn origin(&self) -> Origin {
        self.workspace.files.change_origin("create_code_context", String::new())
    }
}

#[tokio::test]
async fn files_that_are_out_of_reach_for_a_moment_are_not_the_death_of_the_sandbox() {
    let scene = Scene::new().await;
    scene.stage.write("f", "1");
    scene.lose_sight(0);
    assert_eq!(scene.settle().await, Err(ErrorKind::Unavailable));
    assert!(scene.is_live());
    assert_eq!(scene.settle().await, Ok(()));
    let read = scene.workspace.read_bytes("f").await.unwrap();
    assert_eq!(read.bytes.as_ref(), b"1");
    assert_eq!(scene.notices().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_sandbox_that_died_holds_nothing_up_and_that_is_told() {
    let scene = Scene::new().await;
    scene.stage.write("f", "1");
    scene.stage.die();
    assert_eq!(scene.settle().await, Ok(()));
    assert!(!scene.is_live());
    let notices = scene.notices().await;
    assert!(notices[0].contains("kept as a leftover"), "{notices:?}");
}

#[tokio::test]
async fn what_was_refused_is_taken_off_the_layer_once_the_files_can_be_seen_again() {
    let scene = Scene::new().await;
    scene.stage.write("denied", "1");
    scene.lose_sight(1);
    assert_eq!(scene.settle().await, Err(ErrorKind::Unavailable));
    assert_eq!(scene.stage.placed(), Vec::<String>::new());
    assert_eq!(scene.settle().await, Ok(()));
    assert_eq!(scene.stage.placed(), ["denied"]);
}

#[tokio::test]
async fn work_that_was_done_is_no_failure_where_the_processes_cannot_be_shown_it() {
    let scene = Scene::new().await;
    let write = Mutation::write(WsPath::parse("g").unwrap(), "done");
    scene.lose_sight(0);
    let done = scene
        .workspace
        .files
        .commit_mutations("write_file", vec![write], Default::default());
    assert!(done.await.is_ok());
    assert!(scene.is_live());
    let notices = scene.notices().await;
    assert!(notices[0].contains("do not see the last change yet"), "{notices:?}");
}

#[tokio::test]
async fn what_a_program_did_last_and_may_not_do_is_noted_where_nobody_waits_for_it() {
    let scene = Scene::new().await;
    let driven = scene.driven().await;
    scene.stage.write("denied", "1");
    driven.end_unreported(scene.origin()).await;
    let notices = scene.notices().await;
    assert!(notices[0].contains("were rolled back"), "{notices:?}");
}

#[tokio::test]
async fn what_cannot_be_kept_at_all_is_noted_where_nobody_waits_for_it() {
    let scene = Scene::new().await;
    let driven = scene.driven().await;
    scene.stage.write("f", "1");
    scene.lose_sight(0);
    driven.end_unreported(scene.origin()).await;
    let notices = scene.notices().await;
    assert!(notices[0].contains("were not kept"), "{notices:?}");
}

#[tokio::test]
async fn whoever_is_told_in_the_answer_is_not_told_again() {
    let scene = Scene::new().await;
    let driven = scene.driven().await;
    scene.stage.write("denied", "1");
    let changed = driven
        .end_and_report(scene.origin(), &scene.workspace.commands().unwrap())
        .await
        .unwrap();
    assert!(changed.refused.is_some(), "{changed:?}");
    assert_eq!(scene.notices().await, Vec::<String>::new());
}

#[tokio::test]
async fn what_a_pause_ends_is_told_once_by_whoever_caused_it() {
    let scene = Scene::new().await;
    scene.stage.end_at_pause(2);
    scene.workspace.write("file", "x", Default::default()).await.unwrap();
    let told = scene.workspace.take_pause_notices();
    assert!(told.len() == 1 && told[0].starts_with("2 commands"), "{told:?}");
    assert_eq!(scene.workspace.take_pause_notices(), Vec::<String>::new());
}

/// Returns a workspace with a history and a background process on `stage`.
async fn open_with_history(stage: &Arc<FakeMachine>, policy: FsPolicy) -> Workspace {
    let context = OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
        history: HistoryMode::Durable,
    };
    let depot = Depot::in_memory(DepotOptions::default(), context).unwrap();
    let files = Arc::new(depot.create(NewWorkspace::named("box")).await.unwrap());
    let builder = Workspace::builder(files.clone()).history(Some(files)).policy(policy);
    let workspace = builder.shell(Some(stage.parts())).open().unwrap();
    workspace.start(RunRequest::shell("sleep 1000")).await.unwrap();
    workspace
}

#[tokio::test]
async fn undo_succeeds_beside_a_process_that_always_writes_other_paths() {
    let stage = FakeMachine::new();
    let workspace = open_with_history(&stage, FsPolicy::default()).await;
    stage.repeat(|number| file(&format!("busy-{number}"), "x"));
    for name in ["one", "two", "three"] {
        let session = Some(name.to_owned());
        let acting = workspace.acting_as(Actor {
            session,
            ..Actor::default()
        });
        acting.write("mine", "x", Default::default()).await.unwrap();
        workspace.undo(UndoRequest::Session(name.to_owned())).await.unwrap();
        assert!(!workspace.exists("mine").await.unwrap().exists);
        let undone = workspace.undo(UndoRequest::Last(1)).await.unwrap();
        assert!(undone.paths[0].starts_with("- busy-"), "{undone:?}");
    }
}

#[tokio::test]
async fn what_processes_write_last_counts_before_the_quota_of_an_undo() {
    const KIB: usize = 1024;
    let stage = FakeMachine::new();
    let policy = FsPolicy {
        max_total_mb: Some(1.0),
        ..FsPolicy::default()
    };
    let workspace = open_with_history(&stage, policy).await;
    workspace
        .write("big", "x".repeat(600 * KIB), Default::default())
        .await
        .unwrap();
    workspace.remove("big", Default::default()).await.unwrap();
    let changes = workspace.log(Default::default()).await.unwrap().changes;
    let removal = changes
        .iter()
        .find(|change| change.summary.starts_with("remove"))
        .unwrap();
    // 300 KiB when the undo begins, and 300 KiB more until it is planned.
    stage.repeat(|number| file(&format!("busy-{number}"), &"x".repeat(300 * KIB)));
    let undone = workspace.undo(UndoRequest::Change(removal.id.clone())).await;
    assert_eq!(undone.unwrap_err().kind(), ErrorKind::QuotaExceeded);
    assert!(!workspace.exists("big").await.unwrap().exists);
}
