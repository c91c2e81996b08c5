//! Commands of one process take turns: the wait has an end, and names the command that has the turn.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use garret::{
    Chunk, DeclaredCapability, Error, ErrorKind, OutputSink, Result, RunRequest, RunResult, ScopeOptions, ShellPolicy,
    TurnWaiting, Workspace,
};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::shell::support::{On, Room, on_all, room_with};

const CANARY: &str = "canary-7d1f00dcafe";
const HOLDING: &str = "`echo up; : [TOKEN]; until grep -q ring bell; do sleep 0.02; …` (process ";

/// A command with the turn, which ends when the bell rings.
struct HeldTurn<'a> {
    room: &'a Room,
    running: JoinHandle<Result<RunResult>>,
}

impl<'a> HeldTurn<'a> {
    async fn new(room: &'a Room) -> Self {
        std::fs::write(room.directory.path().join("bell"), "").unwrap();
        let text = format!("echo up; : {CANARY}; until grep -q ring bell; do sleep 0.02; done");
        let request = RunRequest {
            env: BTreeMap::from([("TOKEN".to_owned(), CANARY.to_owned())]),
            ..RunRequest::shell(text)
        };
        let (running, mut notices) = spawn(room.workspace(), request);
        assert_eq!(notices.recv().await, Some(Notice::Output));
        Self { room, running }
    }

    async fn end(self) {
        std::fs::write(self.room.directory.path().join("bell"), "ring").unwrap();
        assert_eq!(self.running.await.unwrap().unwrap().exit_code, 0);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Notice {
    Output,
    Waiting(TurnWaiting),
}

/// Hands on that there is output, and that the command waits.
struct Notices(mpsc::UnboundedSender<Notice>);

#[async_trait]
impl OutputSink for Notices {
    async fn take(&mut self, _chunk: &Chunk) {
        let _ = self.0.send(Notice::Output);
    }

    async fn wait_for_turn(&mut self, waiting: &TurnWaiting) {
        let _ = self.0.send(Notice::Waiting(waiting.clone()));
    }
}

fn spawn(
    workspace: &Workspace,
    request: RunRequest,
) -> (JoinHandle<Result<RunResult>>, mpsc::UnboundedReceiver<Notice>) {
    let (sender, notices) = mpsc::unbounded_channel();
    let workspace = workspace.clone();
    let running = tokio::spawn(async move { workspace.run_with(request, &mut Notices(sender)).await });
    (running, notices)
}

fn waiting_at_most(wait: Duration) -> RunRequest {
    RunRequest {
        turn_wait: Some(wait),
        ..RunRequest::shell("true")
    }
}

/// Checks the error of a command that did not get its turn; gives its text.
fn refusal(ran: Result<RunResult>) -> String {
    let error: Error = ran.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(!format!("{error:?}").contains(CANARY), "{error:?}");
    error.message().to_owned()
}

async fn room_with_secret(on: On) -> Room {
    let policy = ShellPolicy {
        secrets: vec!["TOKEN".into()],
        ..ShellPolicy::default()
    };
    room_with(on, |config| {
        config.capabilities.shell = DeclaredCapability::Options(policy)
    })
    .await
}

#[test]
fn a_command_of_the_same_process_waits_no_longer_than_asked_and_names_the_holder() {
    on_all(&[On::Local], |on| async move {
        let room = room_with_secret(on).await;
        let held = HeldTurn::new(&room).await;
        let at_once = refusal(room.workspace().run(waiting_at_most(Duration::ZERO)).await);
        let process = std::process::id();
        let named = format!("another command runs in this workspace: {HOLDING}{process}, started ");
        assert!(at_once.starts_with(&named), "{at_once}");

        let (running, mut notices) = spawn(room.workspace(), waiting_at_most(Duration::from_millis(1_100)));
        let Some(Notice::Waiting(waiting)) = notices.recv().await else {
            panic!("it is told that it waits");
        };
        assert!(waiting.describe().starts_with(HOLDING), "{}", waiting.describe());
        let late = refusal(running.await.unwrap());
        assert!(late.contains(" after ") && late.contains(HOLDING), "{late}");
        assert_eq!(notices.recv().await, None, "it is told once");

        let narrowed = room.workspace().scope("part", ScopeOptions::default()).unwrap();
        let hidden = refusal(narrowed.run(waiting_at_most(Duration::ZERO)).await);
        assert_eq!(
            hidden, "another command runs in this workspace",
            "a narrowed view does not see the command"
        );
        held.end().await;
        assert_eq!(room.sh("true").await.waited, None, "the turn is free");
    });
}

#[test]
fn a_long_wait_is_told_in_the_result_and_in_the_answer_of_the_tool() {
    on_all(&[On::Local], |on| async move {
        let room = room_with_secret(on).await;
        let held = HeldTurn::new(&room).await;
        let (running, mut notices) = spawn(room.workspace(), RunRequest::shell("echo second"));
        let (watch, mut turn) = watch::channel(None);
        let toolbox = room.toolbox.on(room.workspace().watching_turns(watch));
        let answer = tokio::spawn(async move { toolbox.call("run", json!({"command": "echo third"})).await });
        assert!(matches!(notices.recv().await, Some(Notice::Waiting(_))));
        let named = turn.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        assert!(named.describe().starts_with(HOLDING), "{}", named.describe());
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        held.end().await;
        let second = running.await.unwrap().unwrap();
        let waited = second.waited.unwrap();
        assert!(waited.duration_ms >= 1_000, "{waited:?}");
        assert!(waited.command.unwrap().starts_with("echo up; : [TOKEN]"));
        let answer = answer.await.unwrap();
        assert!(
            answer.text.contains(" s for `echo up; : [TOKEN];") && answer.text.contains("; waited "),
            "{}",
            answer.text
        );
        assert_eq!(*turn.borrow(), None, "the wait is over");
    });
}
