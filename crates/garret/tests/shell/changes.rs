//! What a command does to the files is one change, and every part of it can be taken back.

use garret::{EffectsMode, EventOutcome, HistoryMode, RunRequest};

use crate::shell::support::{On, each, everywhere, room, room_with};

#[test]
fn a_command_is_one_change_that_undo_takes_back_and_redo_brings_again() {
    everywhere(|on| async move {
        let room = room(on).await;
        let result = room.sh("mkdir -p src && echo hi > src/a && chmod +x src/a").await;
        assert_eq!(result.changed.describe_counts(), "2 created", "{on:?}");
        assert_eq!(result.changed.paths, ["+ src", "+ src/a"], "{on:?}");
        let number = result.changed.change.expect("it is a change").number.unwrap();
        let log = room.workspace().log(Default::default()).await.unwrap();
        let newest = &log.changes[0];
        assert_eq!((newest.number, newest.operation.as_str()), (number, "run"), "{on:?}");
        let command = newest.actor.command.as_deref();
        assert_eq!(command, Some("mkdir -p src && echo hi > src/a && chmod +x src/a"));
        assert!(newest.summary.contains("exit 0"), "{}", newest.summary);
        let made = room.tree().await;
        assert!(made["src/a"].contains("755"), "{:?}", made["src/a"]);
        room.undo().await;
        assert!(room.tree().await.is_empty(), "{on:?}");
        room.redo().await;
        assert_eq!(room.tree().await, made, "{on:?}");
    });
}

#[test]
fn promise_30_undo_reverses_whatever_a_command_did() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.sh(
            "mkdir -p d/e/f empty gone/deep && echo one > a && echo two > d/b && echo three > d/e/c && ln -s a link \
             && chmod 640 a && echo x > gone/x && echo y > gone/deep/y && printf '#!/bin/sh\\n' > tool && chmod 755 tool",
        )
        .await;
        let before = room.tree().await;
        assert_eq!(before.len(), 13, "{before:?}");
        room.sh(
            "rm -rf gone empty && mv d moved && echo new > fresh && echo changed >> a && chmod 600 tool && ln -sfn tool link \
             && mkdir -p gone/other && rm moved/b && mkdir moved/b && echo in > moved/b/in",
        )
        .await;
        let after = room.tree().await;
        assert!(
            !after.contains_key("d/e/c") && after.contains_key("moved/b/in"),
            "{after:?}"
        );
        room.undo().await;
        assert_eq!(room.tree().await, before, "{on:?}");
        room.redo().await;
        assert_eq!(room.tree().await, after, "{on:?}");
        // And what the next command sees is what undo left.
        room.undo().await;
        let seen = room
            .sh("cat a d/e/c link/. 2>/dev/null || cat a d/e/c; test -d empty && test ! -e moved && readlink link")
            .await;
        assert!(
            seen.output.contains("one") && seen.output.contains("three"),
            "{}",
            seen.output
        );
        assert!(seen.changed.is_nothing(), "{:?}", seen.changed);
    });
}

#[test]
fn everything_removed_is_brought_back() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.sh("for d in 1 2 3; do mkdir -p t/$d; for f in a b c; do echo $d$f > t/$d/$f; done; done; echo top > top")
            .await;
        let before = room.tree().await;
        let ruined = room.sh("rm -rf *").await;
        assert_eq!(ruined.changed.describe_counts(), format!("{} deleted", before.len()));
        assert!(room.tree().await.is_empty());
        room.undo().await;
        assert_eq!(room.tree().await, before, "{on:?}");
    });
}

#[test]
fn a_command_that_changed_nothing_leaves_an_event_and_no_change() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.write("a", "one").await;
        let before = room.changes().await;
        let result = room.sh("cat a > /tmp/copy && cat /tmp/copy && touch a").await;
        assert!(
            result.changed.is_nothing() && result.changed.change.is_none(),
            "{:?}",
            result.changed
        );
        assert_eq!(room.changes().await, before);
        let events = room.events.events();
        let ran = events
            .iter()
            .filter(|event| event.operation == "run" && event.outcome == EventOutcome::Done);
        assert_eq!(ran.count(), 1, "{on:?}");
    });
}

#[test]
fn what_a_command_would_do_can_be_looked_at_and_forgotten() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.write("a", "one").await;
        let request = RunRequest {
            effects: Some(EffectsMode::Discard),
            ..RunRequest::shell("rm a; echo two > b")
        };
        let result = room.workspace().run(request).await.unwrap();
        assert!(result.changed.discarded && result.changed.change.is_none());
        assert_eq!(result.changed.describe_counts(), "1 created, 1 deleted", "{on:?}");
        assert_eq!(room.tree().await.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(room.sh("ls").await.output, "a\n", "the bench is as it was, too");
    });
}

#[test]
fn commands_and_tools_see_each_others_work() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.write("notes/a.txt", "by a tool\n").await;
        assert_eq!(room.sh("cat notes/a.txt").await.output, "by a tool\n", "{on:?}");
        room.sh("echo by a command > notes/b.txt").await;
        assert_eq!(room.read("notes/b.txt").await, "by a command\n");
        room.workspace()
            .remove("notes/a.txt", Default::default())
            .await
            .unwrap();
        assert_eq!(room.sh("ls notes").await.output, "b.txt\n", "{on:?}");
        let found = room
            .toolbox
            .call("grep", serde_json::json!({"pattern": "command"}))
            .await;
        assert!(found.text.contains("notes/b.txt"), "{}", found.text);
    });
}

#[test]
fn unusual_names_survive_and_come_back() {
    each(|on| async move {
        let room = room(on).await;
        room.sh("mkdir 'a dir' && echo 1 > 'a dir/with space' && echo 2 > \"$(printf 'new\\nline')\" && mkdir empty")
            .await;
        let made = room.tree().await;
        assert_eq!(made.len(), 4, "{made:?}");
        room.sh("rm -rf ./*").await;
        room.undo().await;
        assert_eq!(room.tree().await, made, "{on:?}");
        let raw = room.sh("printf x > \"$(printf 'caf\\351')\"").await;
        assert_eq!(raw.changed.created_count, 1, "{on:?}: {:?}", raw.changed);
        assert_eq!(room.sh("ls -b | grep -c caf").await.output, "1\n");
        room.undo().await;
        assert_eq!(room.tree().await, made, "{on:?}");
    });
}

#[test]
fn a_git_repository_lives_in_the_workspace_and_its_commits_can_be_undone() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.sh("git init -q . && git config user.email a@b && git config user.name n && echo 1 > f && git add f && git commit -qm one").await;
        room.sh("echo 2 > f && git commit -qam two").await;
        assert_eq!(room.sh("git log --oneline | wc -l").await.output.trim(), "2", "{on:?}");
        room.undo().await;
        let log = room.sh("git log --format=%s && git status --porcelain && cat f").await;
        assert_eq!(log.output, "one\n1\n", "{on:?}");
    });
}

#[test]
fn hard_links_that_a_command_makes_last_and_split_on_a_later_write() {
    each(|on| async move {
        let room = room(on).await;
        let made = room.sh("echo a > x && ln x y && echo b >> x && stat -c %h x y").await;
        assert_eq!(made.output, "2\n2\n", "{on:?}");
        assert_eq!(made.changed.created_count, 2, "{on:?}");
        assert_eq!(room.sh("stat -c %h x y").await.output, "2\n2\n", "{on:?}");
        room.sh("echo c >> x").await;
        assert_eq!(
            room.read("y").await,
            "a\nb\n",
            "{on:?}: an older link splits on a write"
        );
        assert_eq!(room.read("x").await, "a\nb\nc\n", "{on:?}");
        assert_eq!(room.sh("stat -c %h x y").await.output, "1\n1\n", "{on:?}");
    });
}

#[test]
fn a_file_that_was_there_before_gets_another_name() {
    each(|on| async move {
        let room = room(on).await;
        room.write("old", "a\n").await;
        let made = room.sh("mkdir d && ln old d/b && ln old a").await;
        let changed = made.changed;
        assert_eq!(
            (changed.created_count, changed.changed_count),
            (3, 0),
            "{on:?}: {:?}",
            changed.paths
        );
        assert_eq!(room.sh("stat -c %h old a d/b").await.output, "3\n3\n3\n", "{on:?}");
        room.sh("chmod 600 a").await;
        assert_eq!(
            room.sh("stat -c '%h %a' old a d/b").await.output,
            "2 644\n1 600\n2 644\n",
            "{on:?}"
        );
        let appended = room
            .workspace()
            .append("old", b"b\n".to_vec(), Default::default())
            .await;
        appended.unwrap();
        assert_eq!(room.read("d/b").await, "a\n", "{on:?}: a tool changes one name");
        assert_eq!(room.changes().await, 4, "{on:?}");
    });
}

#[test]
fn undo_and_redo_treat_each_name_of_a_file_by_itself() {
    each(|on| async move {
        let room = room(on).await;
        room.write("old", "old").await;
        room.sh("echo a > x; ln x y; ln old z; ln -f x old").await;
        let (after, changes) = (room.tree().await, room.changes().await);
        room.undo().await;
        assert_eq!(room.tree().await.into_keys().collect::<Vec<_>>(), ["old"], "{on:?}");
        assert_eq!(room.read("old").await, "old", "{on:?}");
        room.redo().await;
        assert_eq!(room.tree().await, after, "{on:?}");
        assert_eq!(
            room.changes().await,
            changes,
            "{on:?}: nothing looks like the work of others"
        );
    });
}

#[test]
fn hard_links_last_where_nothing_keeps_a_history() {
    each(|on| async move {
        let room = room_with(on, |config| config.history = Some(HistoryMode::Off)).await;
        room.write("old", "a\n").await;
        room.sh("echo a > x && ln x y && ln old a").await;
        assert_eq!(room.sh("stat -c %h x y old a").await.output, "2\n2\n2\n2\n", "{on:?}");
    });
}

#[test]
fn what_is_deeper_than_any_path_is_named_and_the_rest_is_kept() {
    each(|on| async move {
        let room = room(on).await;
        let made = room
            .sh("echo x > beside; python3 -c \"import os\nfor i in range(20): os.mkdir('d' * 255); os.chdir('d' * 255)\nopen('f', 'w').write('x')\"")
            .await;
        assert_eq!(made.changed.created_count, 17, "{on:?}: {:?}", made.changed.refused);
        let dropped = &made.changed.dropped;
        assert_eq!(dropped.len(), 1, "{on:?}");
        assert_eq!(dropped[0].what, "path that is too long", "{on:?}");
        assert_eq!(room.sh("find . | wc -l").await.output.trim(), "18", "{on:?}");
        room.undo().await;
        assert_eq!(room.sh("ls").await.output, "", "{on:?}");
    });
}

#[test]
fn commands_that_change_nothing_see_whatever_was_changed_between_them() {
    each(|on| async move {
        let room = room_with(on, |config| config.exclude = vec!["target/".into()]).await;
        let look = async || room.sh("cat a target/x 2>/dev/null || true; ls").await.output;
        room.write("a", "1 ").await;
        assert_eq!((look().await, look().await), ("1 a\n".into(), "1 a\n".into()), "{on:?}");
        room.write("a", "2 ").await;
        assert_eq!((look().await, look().await), ("2 a\n".into(), "2 a\n".into()), "{on:?}");
        room.undo().await;
        assert_eq!((look().await, look().await), ("1 a\n".into(), "1 a\n".into()), "{on:?}");
        room.sh("mkdir target; echo built > target/x").await;
        assert_eq!(look().await, "1 built\na\ntarget\n", "{on:?}");
        assert_eq!(look().await, "1 built\na\ntarget\n", "{on:?}");
        if on == On::Memory {
            return;
        }
        // And what others changed, who have it open too.
        let other = room.garret.open_config("box", &room.config).await.unwrap();
        let run = |text| other.workspace().run(RunRequest::shell(text));
        run("echo again > target/x").await.unwrap();
        assert_eq!(look().await, "1 again\na\ntarget\n", "{on:?}");
        run("rm -r target; echo 3 > b").await.unwrap();
        assert_eq!(look().await, "1 a\nb\n", "{on:?}");
    });
}
