//! Somebody else writes while a command runs.

use std::io::Write;
use std::time::Duration;

use async_trait::async_trait;
use garret::{Capabilities, Chunk, OutputSink, RunRequest};
use serde_json::json;
use tokio::sync::oneshot;

use crate::support::{On, Room, everywhere, on_all, room, room_with};

#[test]
fn promise_32_work_on_the_same_file_is_kept_on_a_branch_and_nothing_is_lost() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.write("shared", "before\n").await;
        room.write("mine", "before\n").await;
        let workspace = room.workspace().clone();
        let request =
            RunRequest::shell("echo started > /tmp/x; sleep 2; echo by the command >> shared; echo new > fresh");
        let running = tokio::spawn(async move { workspace.run(request).await });
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        room.write("shared", "by a tool\n").await;
        let result = running.await.unwrap().unwrap();
        let branch = result
            .changed
            .branch
            .clone()
            .unwrap_or_else(|| panic!("{on:?}: {:?}", result.changed));
        assert!(result.changed.change.is_none());
        assert_eq!(room.read("shared").await, "by a tool\n", "{on:?}");
        assert!(!room.tree().await.contains_key("fresh"), "{on:?}");
        let branches = room.workspace().branches().await.unwrap();
        assert!(
            branches.iter().any(|one| one.name.as_deref() == Some(&branch)),
            "{on:?}"
        );
        let merged = room.workspace().merge(&branch, Default::default()).await;
        let told = format!("{merged:?}");
        assert!(told.contains("shared"), "{on:?}: {told}");
        assert_eq!(
            room.sh("cat shared").await.output,
            "by a tool\n",
            "the bench follows the files"
        );
    });
}

#[test]
fn work_on_other_files_goes_in_beside_it() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.write("shared", "before\n").await;
        let workspace = room.workspace().clone();
        let request = RunRequest::shell("sleep 2; echo by the command > own");
        let running = tokio::spawn(async move { workspace.run(request).await });
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        room.write("shared", "by a tool\n").await;
        let result = running.await.unwrap().unwrap();
        assert!(
            result.changed.change.is_some() && result.changed.branch.is_none(),
            "{on:?}: {:?}",
            result.changed
        );
        assert_eq!(
            room.sh("cat shared own").await.output,
            "by a tool\nby the command\n",
            "{on:?}"
        );
    });
}

/// Says when a command has said something.
struct Ready(Option<oneshot::Sender<()>>);

#[async_trait]
impl OutputSink for Ready {
    async fn take(&mut self, _chunk: &Chunk) {
        if let Some(ready) = self.0.take() {
            ready.send(()).unwrap();
        }
    }
}

/// Runs a text in the middle of which, where it waits for the file `bell` to ring, a tool writes `theirs` to `shared`; gives the branch.
async fn collide(room: &Room, text: &str, theirs: &str) -> Option<String> {
    collide_with(room, text, room.write("shared", theirs)).await
}

/// Runs a text in the middle of which others do `theirs`; gives the branch.
async fn collide_with(room: &Room, text: &str, theirs: impl Future<Output = ()>) -> Option<String> {
    // On `local` a command sees the bell ring; elsewhere it is given the time.
    let bell = room.directory.path().join("bell");
    std::fs::write(&bell, "").unwrap();
    let wait = match room.on {
        On::Local => "until grep -q ring bell; do sleep 0.02; done",
        _ => "sleep 2",
    };
    let request = RunRequest::shell(format!("echo ready; {wait}; {text}"));
    let (ready, is_ready) = oneshot::channel();
    let workspace = room.workspace().clone();
    let running = tokio::spawn(async move { workspace.run_with(request, &mut Ready(Some(ready))).await });
    is_ready.await.unwrap();
    theirs.await;
    let mut bell = std::fs::OpenOptions::new().append(true).open(bell).unwrap();
    bell.write_all(b"ring").unwrap();
    running.await.unwrap().unwrap().changed.branch
}

#[test]
fn promise_32_whoever_runs_commands_merges_what_one_did_without_the_capability_for_branches() {
    on_all(&[On::Local], |on| async move {
        let room = room_with(on, |config| {
            config.capabilities = Capabilities::named(["fs", "shell"]).unwrap();
        })
        .await;
        room.write("shared", "before\n").await;
        let branch = collide(&room, "echo by the command > shared; echo new > fresh", "by a tool\n")
            .await
            .unwrap();
        let merge = |from: &str, dry_run: bool| {
            let arguments = json!({"from": from, "on_conflict": "theirs", "dry_run": dry_run});
            room.toolbox.call("merge", arguments)
        };
        let tried = merge(&branch, true).await;
        assert!(tried.ok && tried.text.contains("fresh"), "{}", tried.text);
        assert_eq!(room.read("shared").await, "by a tool\n");
        let merged = merge(&branch, false).await;
        assert!(merged.ok, "{}", merged.text);
        assert_eq!(room.read("shared").await, "by the command\n");
        assert_eq!(room.read("fresh").await, "new\n");
        let refused = merge("somebody", false).await;
        assert!(refused.text.contains("snapshot"), "{}", refused.text);
    });
}

#[test]
fn what_a_command_left_as_it_was_is_no_work_that_could_collide() {
    on_all(&[On::Local], |on| async move {
        let room = room(on).await;
        room.write("shared", "before\n").await;
        assert_eq!(collide(&room, "echo before > shared", "theirs\n").await, None);
        assert_eq!(room.read("shared").await, "theirs\n");
        assert_eq!(
            collide(&room, "touch shared; echo own > own", "theirs again\n").await,
            None
        );
        assert_eq!(room.sh("cat shared own").await.output, "theirs again\nown\n");
        assert_eq!(room.workspace().branches().await.unwrap(), []);
    });
}

#[test]
fn what_others_rewrote_with_the_bytes_that_it_had_is_no_collision() {
    on_all(&[On::Filestore, On::Local], |on| async move {
        let room = room(on).await;
        room.write("shared", "before\n").await;
        let branch = collide_with(&room, "echo by the command >> shared", async {
            room.write("shared", "between\n").await;
            room.write("shared", "before\n").await;
        })
        .await;
        assert_eq!(branch, None, "{on:?}: through Garret, with another content in between");
        assert_eq!(room.read("shared").await, "before\nby the command\n", "{on:?}");
        if on != On::Local {
            return;
        }
        room.write("shared", "before\n").await;
        let branch = collide_with(&room, "echo again >> shared", async {
            std::fs::write(room.directory.path().join("shared"), "before\n").unwrap();
        })
        .await;
        assert_eq!(branch, None, "another program");
        assert_eq!(room.read("shared").await, "before\nagain\n");
    });
}
