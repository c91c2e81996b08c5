//! Processes that live on.

use std::time::Duration;

use garret::{DeclaredCapability, ErrorKind, OutputRequest, RunRequest, ShellPolicy};
use serde_json::json;

use crate::shell::support::{each, everywhere, room, room_with};

#[test]
fn promise_36_a_process_sees_what_tools_write_and_tools_see_what_it_writes() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.write("dir/old", "old\n").await;
        let id = room.start("echo up; while ! test -e dir/ping; do sleep 0.05; done; cat dir/ping dir/old; cp dir/ping pong; sleep 1000").await;
        room.output_with(&id, "up").await;
        room.write("dir/ping", "hello\n").await;
        let text = room.output_with(&id, "old").await;
        assert!(text.contains("hello"), "{on:?}: {text}");
        // `cp` makes the file before it fills it, and a look may come between.
        for _ in 0..100 {
            if room.workspace().exists("pong").await.unwrap().exists && !room.read("pong").await.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(room.read("pong").await, "hello\n", "{on:?}");
        let log = room.workspace().log(Default::default()).await.unwrap();
        let made = log
            .changes
            .iter()
            .find(|change| change.paths.iter().map(ToString::to_string).eq(["+ pong"]))
            .unwrap_or_else(|| panic!("{on:?}: {log:?}"));
        assert_eq!(made.operation, "start");
        assert!(made.summary.starts_with("start `echo up; "), "{made:?}");
        assert!(made.summary.ends_with("`: in the background"), "{made:?}");
        assert!(made.actor.command.as_deref().unwrap().contains("dir/ping"), "{made:?}");
        let ended = room.workspace().kill(&id).await.unwrap();
        assert!(!ended.running, "{ended:?}");
        assert_eq!(
            room.sh("cat dir/ping pong").await.output,
            "hello\nhello\n",
            "{on:?}: the bench follows"
        );
    });
}

#[test]
fn a_server_serves_what_was_written_after_it_started() {
    each(|on| async move {
        let room = room(on).await;
        room.write("index.html", "first").await;
        let id = room.start("exec python3 -u -m http.server 8000").await;
        room.output_with(&id, "Serving HTTP").await;
        room.write("page.html", "written later").await;
        let fetch = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8000/page.html\").read().decode())'";
        let served = room.run(fetch).await;
        assert_eq!(served.output, "written later\n", "{on:?}");
        room.workspace().kill(&id).await.unwrap();
    });
}

#[test]
fn commands_run_beside_processes_and_one_change_names_all_who_may_have_written() {
    everywhere(|on| async move {
        let room = room(on).await;
        let id = room.start("echo mine > by-process; echo up; while ! test -e by-command; do sleep 0.05; done; echo seen; sleep 1000",
        )
        .await;
        room.output_with(&id, "up").await;
        let result = room.sh("cat by-process; echo theirs > by-command").await;
        assert_eq!(result.output, "mine\n", "{on:?}");
        room.output_with(&id, "seen").await;
        assert_eq!(room.read("by-command").await, "theirs\n");
        let change = result.changed.change.unwrap_or_else(|| panic!("{on:?}"));
        let shown = room
            .workspace()
            .show(&garret::Point::Change(change.id.clone()))
            .await
            .unwrap();
        let command = shown.change.actor.command.unwrap();
        assert!(
            command.contains("by-process") && command.contains("theirs"),
            "{on:?}: {command}"
        );
        room.undo().await;
        assert!(
            !room.run("ls").await.output.contains("by-command"),
            "{on:?}: undo shows on the layer"
        );
        room.workspace().kill(&id).await.unwrap();
    });
}

#[test]
fn undo_and_rm_show_to_processes_at_once() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.write("a/one", "1").await;
        let id = room.start("echo up; while test -e a/one; do sleep 0.05; done; echo gone; while ! test -e a/one; do sleep 0.05; done; echo back; sleep 1000").await;
        room.output_with(&id, "up").await;
        room.toolbox.call("rm", json!({"path": "a", "recursive": true})).await;
        room.output_with(&id, "gone").await;
        room.undo().await;
        room.output_with(&id, "back").await;
        room.workspace().close().await.unwrap();
        assert_eq!(room.tree().await.len(), 2, "{on:?}");
    });
}

#[test]
fn a_model_sees_the_newest_output_of_a_process_and_can_get_what_lies_between() {
    everywhere(|on| async move {
        let room = room(on).await;
        let id = room.start("seq 1 9999; echo 'error: the reason'; sleep 600").await;
        room.output_with(&id, "the reason").await;
        let mut arguments = json!({"id": id});
        let answer = room.toolbox.call("output", arguments.clone()).await;
        let text = answer.text;
        assert!(text.len() <= 8_000, "{on:?}: {}", text.len());
        assert!(
            text.starts_with("1\n2\n") && text.contains("\n9999\nerror: the reason\n["),
            "{on:?}: {text}"
        );
        // What is said of the rest is true: following it gives every line.
        let data = answer.data.unwrap();
        let written = data["written"].as_u64().unwrap();
        assert!(text.ends_with(&format!("next cursor {written}]")), "{on:?}: {text}");
        let mut all = data["stdout"].as_str().unwrap().to_owned();
        let mut cursor = data["cursor"].as_u64().unwrap();
        assert!(text.contains(&format!("pass `cursor` {cursor} or")), "{on:?}: {text}");
        while cursor < written {
            arguments["cursor"] = json!(cursor);
            arguments["max_output_bytes"] = json!(20_000);
            let data = room.toolbox.call("output", arguments.clone()).await.data.unwrap();
            all.push_str(data["stdout"].as_str().unwrap());
            cursor = data["cursor"].as_u64().unwrap();
        }
        let numbers: String = (1..=9_999).map(|number| format!("{number}\n")).collect();
        assert_eq!(all, format!("{numbers}error: the reason\n"), "{on:?}");
        room.workspace().close().await.unwrap();
    });
}

#[test]
fn a_process_that_ends_is_told_with_its_exit_code_and_its_work_is_kept() {
    everywhere(|on| async move {
        let room = room(on).await;
        let id = room.start("echo out; echo work > made; exit 7").await;
        let request = |cursor| OutputRequest {
            id: id.clone(),
            cursor,
            wait: Duration::from_secs(20),
            max_bytes: 1_000,
            with_tail: false,
            with_details: false,
        };
        let mut last = room.workspace().output(request(0)).await.unwrap();
        let mut text = last.output.clone();
        while last.process.running {
            last = room.workspace().output(request(last.cursor)).await.unwrap();
            text.push_str(&last.output);
        }
        assert_eq!((text.as_str(), last.process.exit_code), ("out\n", Some(7)), "{on:?}");
        assert_eq!(room.read("made").await, "work\n", "{on:?}");
        let listed = room.workspace().processes().await.unwrap();
        assert_eq!(listed.processes.len(), 1);
        assert!(!listed.processes[0].running);
    });
}

#[test]
fn processes_are_limited_in_number_and_end_with_the_workspace() {
    each(|on| async move {
        let room = room_with(on, |config| {
            config.capabilities.shell = DeclaredCapability::Options(ShellPolicy {
                max_processes: 2,
                ..ShellPolicy::default()
            });
        })
        .await;
        let mark = format!("96{}", std::process::id());
        // All at once: whoever comes first has the room.
        let text = format!("setsid sleep {mark} & sleep {mark}");
        let starts = (0..20).map(|_| room.workspace().start(RunRequest::shell(text.clone())));
        let started = futures::future::join_all(starts).await;
        assert_eq!(
            started.iter().filter(|one| one.is_ok()).count(),
            2,
            "{on:?}: {started:?}"
        );
        let error = room.workspace().start(RunRequest::shell("true")).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.refused_by()),
            (ErrorKind::QuotaExceeded, Some("max_processes = 2"))
        );
        let answer = room.toolbox.call("processes", json!({})).await;
        assert!(answer.text.contains("p1 is running"), "{}", answer.text);
        room.workspace().close().await.unwrap();
        let cmdline = |process: std::fs::DirEntry| std::fs::read(process.path().join("cmdline")).ok();
        let wanted = format!("sleep\0{mark}\0").into_bytes();
        let left = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(cmdline)
            .filter(|line| *line == wanted);
        assert_eq!(left.count(), 0, "{on:?}");
    });
}
