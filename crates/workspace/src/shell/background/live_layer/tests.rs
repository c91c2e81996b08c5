//! The effects of background processes when the files, the history or the sandbox fail.

use std::sync::Arc;

use garret_core::{Batch, ErrorKind, FsPolicy, MemoryStorage, Mutation, Storage, SystemClock, WsPath};
use garret_testkit::faults::Call;
use garret_testkit::{Fault, FaultStorage, Moment};

use super::*;
use crate::Workspace;
use crate::shell::RunRequest;
use crate::shell::interpreter::{InterpreterProcess, InterpreterProgram};
use crate::shell::testing::FakeMachine;

/// A workspace with a background process, on files that can be out of reach.
struct Scene {
    stage: Arc<FakeMachine>,
    files: Arc<MemoryStorage>,
    faults: Arc<FaultStorage>,
    workspace: Workspace,
}

impl Scene {
    async fn new() -> Self {
        let stage = FakeMachine::new();
        let files = Arc::new(MemoryStorage::new(Arc::new(SystemClock::default())));
        let faults = Arc::new(FaultStorage::planned(files.clone(), Vec::new()));
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
            files,
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
    let path = WsPath::parse("g").unwrap();
    let foreseen = ForeseenChange {
        gone: Vec::new(),
        come: vec![path.clone().into()],
    };
    scene.lose_sight(0);
    let write = Batch::from(Mutation::write(path, "done"));
    let shell = scene.workspace.commands().unwrap().shell;
    let done = shell.change_files(&foreseen, scene.files.apply(write)).await;
    assert!(done.is_ok(), "{done:?}");
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
