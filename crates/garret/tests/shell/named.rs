//! Named shells, which keep what a command leaves in them for the next one.

use std::time::Duration;

use garret::{DeclaredCapability, EffectsMode, ErrorKind, RunRequest, RunResult, ShellPolicy, Workspace};
use serde_json::json;

use super::support::{ALL, On, Room, room, room_with};

async fn run_in(workspace: &Workspace, shell: &str, text: &str) -> RunResult {
    let request = RunRequest {
        shell: Some(shell.to_owned()),
        ..RunRequest::shell(text)
    };
    workspace.run(request).await.unwrap()
}

async fn output_of(room: &Room, shell: &str, text: &str) -> String {
    let ran = run_in(room.workspace(), shell, text).await;
    assert_eq!(ran.exit_code, 0, "{text}: {}", ran.output);
    ran.output
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_47_a_named_shell_keeps_its_state_and_each_command_is_a_change() {
    for on in ALL {
        let room = room(on).await;
        let first = run_in(room.workspace(), "dev", "mkdir -p src; cd src; A=1; f() { echo f$1; }").await;
        assert!(first.shell_is_new && first.shell_ended.is_none(), "{on:?}");
        assert_eq!(first.paths_of_change(), ["+ src"], "{on:?}");
        let second = run_in(room.workspace(), "dev", "f $A > out; pwd; echo err >&2; (exit 3)").await;
        assert_eq!((second.exit_code, second.shell_is_new), (3, false), "{on:?}");
        assert!(
            second.stdout.0.ends_with(b"/src\n") && second.stderr.0 == "err\n",
            "{on:?} {second:?}"
        );
        assert_eq!(second.paths_of_change(), ["+ src/out"], "{on:?}");
        // Another shell has nothing of this one, but sees its files.
        assert_eq!(
            output_of(&room, "other", "cat src/out; echo \"<$A>\"").await,
            "f1\n<>\n",
            "{on:?}"
        );
        // Each is undone by itself; the shell goes on, and sees it.
        room.undo().await;
        assert_eq!(output_of(&room, "dev", "ls; echo $A").await, "1\n", "{on:?}");
        let log = room.toolbox.call("history", json!({})).await;
        let text = log.text;
        assert!(
            text.contains("run `f $A > out; pwd") && text.contains("exit 3"),
            "{on:?} {text}"
        );
        room.workspace().close().await.unwrap();
    }
}

trait ChangedPaths {
    fn paths_of_change(&self) -> Vec<&str>;
}

impl ChangedPaths for RunResult {
    fn paths_of_change(&self) -> Vec<&str> {
        self.changed.paths.iter().map(String::as_str).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_that_ends_says_how_and_the_next_call_makes_a_new_one() {
    let room = room(On::Memory).await;
    output_of(&room, "dev", "A=1").await;
    let ended = run_in(room.workspace(), "dev", "echo x > kept; exit 4").await;
    assert_eq!((ended.exit_code, ended.shell_ended.as_deref()), (4, Some("exit 4")));
    assert_eq!(ended.paths_of_change(), ["+ kept"]);
    let next = run_in(room.workspace(), "dev", "echo \"<$A>\"").await;
    assert!(next.shell_is_new && next.output == "<>\n");
    let late = RunRequest {
        shell: Some("dev".to_owned()),
        timeout: Some(Duration::from_millis(300)),
        ..RunRequest::shell("echo begun > begun; sleep 1000")
    };
    let late = room.workspace().run(late).await.unwrap();
    assert!(late.timed_out && late.shell_ended.is_some(), "{late:?}");
    assert_eq!(late.paths_of_change(), ["+ begun"]);
    let text = room
        .toolbox
        .call("run", json!({"command": "exit 1", "shell": "dev"}))
        .await
        .text;
    assert!(
        text.contains("in a new shell") && text.contains("what it kept is gone"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn shells_are_listed_and_killed_as_processes() {
    let room = room(On::Local).await;
    output_of(&room, "dev", "sleep 1000 & echo started").await;
    let listed = room.workspace().processes().await.unwrap().processes;
    assert_eq!(listed.len(), 1);
    assert!(listed[0].id == "shell:dev" && listed[0].command == "bash" && listed[0].running);
    let killed = room.workspace().kill("shell:dev").await.unwrap();
    assert!(
        !killed.running && killed.ended.as_deref() == Some("it was killed"),
        "{killed:?}"
    );
    assert!(room.workspace().processes().await.unwrap().processes.is_empty());
    let error = room.workspace().kill("shell:dev").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    // The number of a shell names no context.
    assert!(run_in(room.workspace(), "dev", "true").await.shell_is_new);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_line_is_judged_as_a_command_of_its_own() {
    let room = room_with(On::Memory, |config| {
        let policy = ShellPolicy {
            denied_commands: vec!["curl".to_owned()],
            ..ShellPolicy::default()
        };
        config.capabilities.shell = DeclaredCapability::Options(policy);
    })
    .await;
    let request = |text: &str| RunRequest {
        shell: Some("dev".to_owned()),
        ..RunRequest::shell(text)
    };
    let refused = room
        .workspace()
        .run(request("cd /; curl example.org"))
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    assert!(room.workspace().processes().await.unwrap().processes.is_empty());
    room.workspace().run(request("true")).await.unwrap();
    let arguments = RunRequest {
        shell: Some("dev".to_owned()),
        ..RunRequest::arguments(["echo", "a  b", "$HOME", "it's"])
    };
    let ran = room.workspace().run(arguments).await.unwrap();
    assert_eq!(ran.output, "a  b $HOME it's\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_shell_takes_nothing_that_it_keeps_itself() {
    let room = room(On::Memory).await;
    let base = || RunRequest {
        shell: Some("dev".to_owned()),
        ..RunRequest::shell("true")
    };
    let with_cwd = RunRequest {
        cwd: "src".to_owned(),
        ..base()
    };
    let with_env = RunRequest {
        env: [("A".to_owned(), "1".to_owned())].into(),
        ..base()
    };
    let with_input = RunRequest {
        stdin: Some("x".into()),
        ..base()
    };
    let with_name = RunRequest {
        shell: Some("a b".to_owned()),
        ..base()
    };
    for request in [with_cwd, with_env, with_input, with_name] {
        let error = room.workspace().run(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    let discarded = RunRequest {
        effects: Some(EffectsMode::Discard),
        ..base()
    };
    assert_eq!(
        room.workspace().run(discarded).await.unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}
