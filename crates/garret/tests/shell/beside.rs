//! Commands beside processes that live on, where what they do must be told from what those do.

use std::sync::Arc;
use std::time::Duration;

use garret::{
    Capabilities, DeclaredCapability, EffectsMode, ErrorKind, FsPolicy, HistoryMode, RunRequest, RunResult,
    ScopeOptions, ShellPolicy, Workspace,
};

use crate::shell::approvals::Asked;
use crate::shell::support::{On, Room, each, room, room_asking, room_with};

async fn run_as(workspace: &Workspace, effects: EffectsMode, text: &str) -> RunResult {
    let request = RunRequest {
        effects: Some(effects),
        ..RunRequest::shell(text)
    };
    let ran = workspace.run(request).await;
    let result = ran.unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(result.exit_code, 0, "{text}: {}", result.output);
    result
}

/// Waits until a file is there.
async fn appears(room: &Room, path: &str) {
    for _ in 0..600 {
        if room.workspace().exists(path).await.unwrap().exists {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{:?}: {path} did not appear", room.on);
}

/// The paths of a change.
async fn paths_of(room: &Room, number: u64) -> Vec<String> {
    let shown = room.workspace().show(&garret::Point::Number(number)).await.unwrap();
    shown.change.paths.iter().map(|one| one.path.display_path()).collect()
}

#[test]
fn what_is_discarded_leaves_no_trace_while_processes_live_on() {
    each(|on| async move {
        let room = room_with(on, |config| config.exclude = vec!["target/".into()]).await;
        room.sh("mkdir -p dir target && echo old > dir/old && echo built > target/built")
            .await;
        // It works while the command runs: it answers what the command asks it by a file of its own, and stops for nobody.
        let id = room.start("echo mine > by-process; mkdir new; echo 1 > new/a; rm dir/old; i=0; while true; do i=$((i+1)); echo $i > count; sleep 0.02; done",
        )
        .await;
        appears(&room, "count").await;
        let seen = run_as(
            room.workspace(),
            EffectsMode::Discard,
            "cat by-process new/a target/built; ls dir; echo theirs > by-command; rm -r new target; echo x > by-process",
        )
        .await;
        assert_eq!(seen.output, "mine\n1\nbuilt\n", "{on:?}");
        assert!(
            seen.changed.discarded && seen.changed.change.is_none(),
            "{:?}",
            seen.changed
        );
        assert_eq!(
            seen.changed.paths,
            ["+ by-command", "~ by-process", "- new", "- new/a"],
            "{on:?}: what the process did meanwhile is not told as the command's"
        );
        let after = room.sh("cat by-process new/a target/built; test ! -e by-command").await;
        assert_eq!(after.output, "mine\n1\nbuilt\n", "{on:?}");
        room.workspace().kill(&id).await.unwrap();
        assert_eq!(
            room.sh("cat target/built; ls").await.output,
            "built\nby-process\ncount\ndir\nnew\ntarget\n",
            "{on:?}"
        );
        assert!(room.workspace().leftovers().await.unwrap().is_empty(), "{on:?}");
    });
}

#[test]
fn what_is_asked_about_is_the_commands_work_alone() {
    each(|on| async move {
        let asked = Arc::new(Asked::default());
        let room = room_asking(on, asked.clone(), |config| config.exclude = vec!["target/".into()]).await;
        let id = room.start("i=0; while true; do i=$((i+1)); echo $i > count; test -e made && cp made .s && mv .s seen; test -e target/made && cp target/made .k && mv .k kept; sleep 0.02; done").await;
        appears(&room, "count").await;
        *asked.refuses.lock().unwrap() = Some("bad");
        let refused = run_as(
            room.workspace(),
            EffectsMode::Ask,
            "echo x > bad; mkdir target; echo x > target/bad",
        )
        .await;
        assert!(
            refused.changed.refused.is_some() && refused.changed.excluded.is_empty(),
            "{on:?}: {:?}",
            refused.changed
        );
        room.sh("test ! -e bad && test ! -e target").await;
        let kept = run_as(
            room.workspace(),
            EffectsMode::Ask,
            "echo y > made; mkdir target; echo z > target/made",
        )
        .await;
        let change = kept.changed.change.unwrap_or_else(|| panic!("{on:?}"));
        assert_eq!(paths_of(&room, change.number.unwrap()).await, ["made"], "{on:?}");
        let effects: Vec<_> = asked
            .requests
            .lock()
            .unwrap()
            .iter()
            .map(|one| one.effects.clone())
            .collect();
        assert_eq!(effects, [["+ bad"], ["+ made"]], "{on:?}");
        appears(&room, "seen").await;
        appears(&room, "kept").await;
        assert_eq!(
            (room.read("seen").await, room.read("kept").await),
            ("y\n".into(), "z\n".into()),
            "{on:?}"
        );
        room.workspace().kill(&id).await.unwrap();
        assert_eq!(
            room.sh("cat made target/made").await.output,
            "y\nz\n",
            "{on:?}: the bench has both"
        );
    });
}

#[test]
fn what_both_touched_is_kept_on_a_branch() {
    each(|on| async move {
        let asked = Arc::new(Asked::default());
        let room = room_asking(on, asked, |_| {}).await;
        room.write("both", "first\n").await;
        let id = room
            .start("while ! test -e go; do sleep 0.02; done; echo process > both; touch done; sleep 1000")
            .await;
        let workspace = room.workspace().clone();
        let command = tokio::spawn(async move {
            run_as(
                &workspace,
                EffectsMode::Ask,
                "for i in $(seq 100); do sleep 0.02; done; cat both; echo command > both",
            )
            .await
        });
        room.write("go", "").await;
        appears(&room, "done").await;
        let result = command.await.unwrap();
        // Whichever of them was quicker, nothing is lost: what the command saw is what its work is bound to.
        let (output, now) = (result.output.as_str(), room.read("both").await);
        match &result.changed.branch {
            Some(_) => assert_eq!(now, "process\n", "{on:?}: {output}"),
            None => assert_eq!((output, now.as_str()), ("process\n", "command\n"), "{on:?}"),
        }
        room.workspace().kill(&id).await.unwrap();
    });
}

#[test]
fn a_command_of_another_view_runs_while_processes_live_on_and_sees_what_it_may() {
    each(|on| async move {
        let room = room(on).await;
        room.sh("mkdir -p tenant other && echo a > tenant/a && echo key > tenant/key && echo o > other/o")
            .await;
        let id = room.start("echo new > tenant/new; echo new > other/new; echo new > tenant/key; touch tenant/up; while ! test -e tenant/theirs; do sleep 0.02; done; touch other/seen; sleep 1000").await;
        appears(&room, "tenant/up").await;
        let scope = || {
            let policy = FsPolicy {
                deny_read: vec!["key".into()],
                ..FsPolicy::default()
            };
            let options = ScopeOptions {
                policy,
                ..ScopeOptions::default()
            };
            room.workspace().scope("tenant", options).unwrap()
        };
        let result = run_as(
            &scope(),
            EffectsMode::Commit,
            "ls -R /workspace; cat new; echo t > theirs",
        )
        .await;
        assert_eq!(
            result.output, "/workspace:\ntenant\n\n/workspace/tenant:\na\nnew\nup\nnew\n",
            "{on:?}: neither the key nor what is beside the scope"
        );
        assert_eq!(result.changed.paths, ["+ theirs"], "{on:?}");
        let number = result
            .changed
            .change
            .unwrap_or_else(|| panic!("{on:?}"))
            .number
            .unwrap();
        assert_eq!(paths_of(&room, number).await, ["tenant/theirs"], "{on:?}");
        appears(&room, "other/seen").await;
        let error = scope().start(RunRequest::shell("true")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{on:?}: {error}");
        assert!(error.hint_text().contains("end them first"), "{error}");
        let listed = scope().processes().await.unwrap();
        assert!(
            listed.processes.is_empty(),
            "{on:?}: processes of a wider view are not a scope's to see: {listed:?}"
        );
        assert_eq!(
            scope().kill(&id).await.unwrap_err().kind(),
            ErrorKind::NotFound,
            "{on:?}"
        );
        assert!(!room.workspace().kill(&id).await.unwrap().running);
        // The same rules made anew are the same view.
        let own = scope().start(RunRequest::shell("sleep 1000")).await.unwrap();
        assert_eq!(scope().processes().await.unwrap().processes.len(), 1, "{on:?}");
        assert_eq!(
            room.workspace().processes().await.unwrap().processes.len(),
            2,
            "{on:?}: and known to those around it"
        );
        scope().kill(&own.id).await.unwrap();
    });
}

#[test]
fn processes_may_end_and_commands_be_given_up_in_any_order() {
    each(|on| async move {
        let room = room(on).await;
        let id = room.start("echo mine > by-process; sleep 1000").await;
        appears(&room, "by-process").await;
        let workspace = room.workspace().clone();
        let command = tokio::spawn(async move {
            run_as(
                &workspace,
                EffectsMode::Discard,
                "cat by-process; while test -e by-process; do sleep 0.02; done",
            )
            .await
        });
        // The process ends while the command runs on what it left; its layer stays for as long.
        tokio::time::sleep(Duration::from_millis(300)).await;
        room.workspace().kill(&id).await.unwrap();
        command.abort();
        let _ = command.await;
        assert_eq!(room.sh("cat by-process").await.output, "mine\n", "{on:?}");
        assert!(room.workspace().leftovers().await.unwrap().is_empty(), "{on:?}");
        room.workspace().close().await.unwrap();
    });
}

#[test]
fn what_lives_on_cannot_be_discarded_or_asked_about_and_says_what_to_do() {
    each(|on| async move {
        let room = room_with(on, |config| {
            config.capabilities.shell = DeclaredCapability::Options(ShellPolicy {
                effects: EffectsMode::Ask,
                ..ShellPolicy::default()
            });
        })
        .await;
        let error = room.workspace().start(RunRequest::shell("true")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{on:?}");
        assert!(error.hint_text().contains("foreground"), "{error}");
    });
}

/// Whether something that processes did was refused by the quota, now or soon.
async fn refused(room: &Room) -> bool {
    for _ in 0..600 {
        let notices = room.workspace().processes().await.unwrap().notices;
        if notices.iter().any(|notice| notice.contains("4 files")) {
            return true;
        }
        room.workspace().exists("1").await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

#[test]
fn a_quota_holds_for_processes_whoever_takes_over_what_they_did() {
    each(|on| async move {
        // What lives in the depot has a history.
        let histories: &[_] = match on {
            On::Filestore => &[None],
            On::Memory | On::Local | On::S3 => &[None, Some(HistoryMode::Off)],
        };
        for history in histories.iter().copied() {
            let room = room_with(on, |config| {
                if history.is_some() {
                    config.history = history;
                    config.capabilities = Capabilities::from_names(["fs", "shell"]).unwrap();
                }
                config.capabilities.fs = DeclaredCapability::Options(FsPolicy {
                    max_files: Some(4),
                    ..FsPolicy::default()
                });
            })
            .await;
            room.write("other", "").await;
            let text = "while ! test -e go; do sleep 0.02; done; while true; do touch $((++i)); sleep 0.005; done";
            let id = room.start(text).await;
            // Writers and readers come at once, and each takes over what the process did: they have their turns.
            let write = async {
                room.write("go", "").await;
                for round in 0..40 {
                    room.write("other", &round.to_string()).await;
                }
            };
            let read = async {
                for _ in 0..40 {
                    room.workspace().exists("1").await.unwrap();
                }
            };
            let both = async { tokio::join!(write, read) };
            tokio::time::timeout(Duration::from_secs(120), both)
                .await
                .unwrap_or_else(|_| panic!("{on:?}: they wait for each other"));
            assert!(refused(&room).await, "{on:?}: nobody said no");
            let files = room.tree().await;
            assert!(files.len() <= 4 && files.contains_key("go"), "{on:?}: {files:?}");
            room.workspace().kill(&id).await.unwrap();
        }
    });
}
