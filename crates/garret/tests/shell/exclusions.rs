//! What history leaves out.

use garret::{ErrorKind, Garret, Point, RestoreRequest, RunRequest, UndoRequest, WorkspaceConfig};

use crate::shell::support::{On, Room, each, everywhere, on_all, room_with};

async fn room(on: On) -> Room {
    room_with(on, |config| config.exclude = vec!["target/".into(), "*.log".into()]).await
}

#[test]
fn excluded_paths_live_in_the_bench_alone() {
    everywhere(|on| async move {
        let room = room(on).await;
        let built = room
            .sh("mkdir -p src target/debug && echo code > src/a && echo binary > target/debug/a && echo x > b.log")
            .await;
        assert_eq!(built.changed.paths, ["+ src", "+ src/a"], "{on:?}");
        assert_eq!(
            built.changed.excluded.written, 4,
            "{on:?}: {:?}",
            built.changed.excluded
        );
        assert_eq!(built.changed.excluded.places, ["b.log", "target"], "{on:?}");
        assert_eq!(
            room.sh("cat target/debug/a b.log").await.output,
            "binary\nx\n",
            "{on:?}: the next command has them"
        );
        let shown = room.workspace().snapshot("s", Default::default()).await.unwrap();
        let past = room
            .workspace()
            .at_point(&garret::Point::Snapshot(shown.label))
            .await
            .unwrap();
        assert!(!past.exists("target").await.unwrap().exists, "{on:?}");
        let log = room.workspace().log(Default::default()).await.unwrap();
        let mut touched = log.changes.iter().flat_map(|change| &change.paths);
        assert!(
            touched.all(|one| {
                let path = one.path.display_path();
                !path.starts_with("target") && path != "b.log"
            }),
            "{on:?}: {log:?}"
        );
    });
}

#[test]
fn promise_37_undo_leaves_what_is_kept_out_and_a_command_that_deletes_it_says_so() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.sh("mkdir -p p/target && echo code > p/a && echo binary > p/target/x")
            .await;
        room.undo().await;
        assert_eq!(room.sh("find . -type f").await.output, "./p/target/x\n", "{on:?}");
        room.redo().await;
        assert_eq!(room.sh("cat p/a p/target/x").await.output, "code\nbinary\n", "{on:?}");
        let gone = room.sh("rm -rf p/target").await;
        assert!(gone.changed.is_nothing(), "{on:?}: {:?}", gone.changed);
        assert_eq!(
            gone.changed.excluded.deleted_paths,
            ["p/target", "p/target/x"],
            "{on:?}"
        );
        assert_eq!(room.sh("ls p").await.output, "a\n", "{on:?}");
    });
}

#[test]
fn promise_37_a_tool_writes_nothing_where_history_leaves_out_what_commands_make() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.sh("mkdir -p target d p && echo built > target/x && echo f > f")
            .await;
        let workspace = room.workspace();
        let write = async |path: &str| {
            let written = workspace.write(path, "by hand", Default::default()).await;
            written.map(|_| ()).map_err(|error| error.kind())
        };
        for path in ["target/x", "target/new", "p/target/y", "b.log"] {
            assert_eq!(write(path).await, Err(ErrorKind::Denied), "{on:?}: {path}");
        }
        assert_eq!(room.sh("cat target/x; ls target").await.output, "built\nx\n", "{on:?}");
        let moved = workspace.rename("d", "p/target", Default::default()).await;
        assert_eq!(moved.unwrap_err().kind(), ErrorKind::Denied, "{on:?}: a directory");
        workspace.rename("f", "p/target", Default::default()).await.unwrap();
        assert_eq!(
            room.sh("cat p/target").await.output,
            "f\n",
            "{on:?}: a file of that name is none"
        );
    });
}

#[test]
fn promise_37_no_link_and_no_move_leads_a_tool_past_what_history_leaves_out() {
    everywhere(|on| async move {
        let room = room_with(on, |config| {
            config.exclude = vec!["target/".into(), "/dist/*.js".into()]
        })
        .await;
        room.sh("mkdir -p target/d out plain && echo built > target/x && echo js > out/a.js && echo text > plain/a && ln -s target door && ln -s target/x file && ln -s plain side")
            .await;
        let workspace = room.workspace();
        for path in ["door/new", "door/x", "door/d/new", "file"] {
            let written = workspace.write(path, "by hand", Default::default()).await;
            assert_eq!(written.unwrap_err().kind(), ErrorKind::Denied, "{on:?}: {path}");
        }
        let made = workspace.make_dir("door/made", true).await;
        assert_eq!(made.unwrap_err().kind(), ErrorKind::Denied, "{on:?}: a directory");
        for (from, to) in [("plain", "door/plain"), ("out", "dist"), ("out/a.js", "dist/b.js")] {
            let moved = workspace.rename(from, to, Default::default()).await;
            assert_eq!(moved.unwrap_err().kind(), ErrorKind::Denied, "{on:?}: move {from} {to}");
            let copied = workspace.copy(from, to, Default::default()).await;
            assert_eq!(
                copied.unwrap_err().kind(),
                ErrorKind::Denied,
                "{on:?}: copy {from} {to}"
            );
        }
        assert_eq!(
            room.sh("cat target/x; ls target").await.output,
            "built\nd\nx\n",
            "{on:?}"
        );
        workspace.write("side/b", "by hand", Default::default()).await.unwrap();
        workspace.rename("plain", "dist", Default::default()).await.unwrap();
        assert_eq!(
            room.sh("ls dist").await.output,
            "a\nb\n",
            "{on:?}: what no pattern matches goes"
        );
    });
}

#[test]
fn promise_37_undo_and_restore_leave_what_is_excluded_after_it_was_recorded_and_name_it() {
    on_all(&[On::Local, On::Filestore], |on| async move {
        let mut room = room_with(on, |_| {}).await;
        room.write("a", "1").await;
        room.workspace().snapshot("start", Default::default()).await.unwrap();
        room.write("a", "2").await;
        room.write("b.log", "recorded").await;
        room.config.exclude = vec!["*.log".into()];
        room.toolbox = room.garret.open_config("box", &room.config).await.unwrap();
        let log = room.directory.path().join("b.log");
        let expected = if on == On::Local { "by hand" } else { "recorded" };
        if on == On::Local {
            std::fs::write(&log, expected).unwrap();
        }
        let named = |result: garret::HistoryOperationResult| result.left_alone.map(|left| left.paths);
        let undone = room.workspace().undo(UndoRequest::Last(2)).await.unwrap();
        assert_eq!(named(undone), Some(vec!["b.log".to_owned()]), "{on:?}");
        assert_eq!(room.read("a").await, "1", "{on:?}");
        assert_eq!(room.read("b.log").await, expected, "{on:?}");
        room.redo().await;
        let point = Point::Snapshot("start".into());
        let restored = room.workspace().restore(RestoreRequest { point, path: None }).await;
        assert_eq!(named(restored.unwrap()), Some(vec!["b.log".to_owned()]), "{on:?}");
        assert_eq!(room.read("a").await, "1", "{on:?}");
        assert_eq!(room.read("b.log").await, expected, "{on:?}");
        let changes = room.workspace().log(Default::default()).await.unwrap().changes;
        assert!(
            changes.iter().all(|change| change.kind != garret::ChangeKind::Outside),
            "{changes:?}"
        );
    });
}

#[test]
fn promise_37_a_directory_stays_above_what_is_excluded_after_it_was_recorded() {
    on_all(&[On::Local, On::Filestore], |on| async move {
        let mut room = room_with(on, |_| {}).await;
        room.write("a", "1").await;
        room.write("d/e/b.log", "recorded").await;
        room.write("d/c", "beside").await;
        room.config.exclude = vec!["*.log".into()];
        room.toolbox = room.garret.open_config("box", &room.config).await.unwrap();
        let planned = room.workspace().plan_undo(UndoRequest::Last(2)).await.unwrap();
        let undone = room.workspace().undo(UndoRequest::Last(2)).await.unwrap();
        for result in [planned, undone] {
            let left = result.left_alone.map(|left| left.paths);
            assert_eq!(left, Some(vec!["d/e/b.log".to_owned()]), "{on:?}");
        }
        assert_eq!(room.read("d/e/b.log").await, "recorded", "{on:?}");
        assert!(!room.workspace().exists("d/c").await.unwrap().exists, "{on:?}");
        room.redo().await;
        assert_eq!(room.read("d/c").await, "beside", "{on:?}");
        assert_eq!(room.read("d/e/b.log").await, "recorded", "{on:?}");
    });
}

#[test]
fn promise_37_an_undo_of_only_excluded_paths_changes_nothing_and_can_be_redone() {
    on_all(&[On::Local, On::Filestore], |on| async move {
        let mut room = room_with(on, |_| {}).await;
        room.write("a", "1").await;
        room.write("b.log", "recorded").await;
        room.config.exclude = vec!["*.log".into()];
        room.toolbox = room.garret.open_config("box", &room.config).await.unwrap();
        let undone = room.workspace().undo(UndoRequest::Last(1)).await.unwrap();
        assert_eq!(undone.left_alone.unwrap().paths, ["b.log"], "{on:?}");
        assert_eq!(room.read("b.log").await, "recorded", "{on:?}");
        room.redo().await;
        let undone = room.workspace().undo(UndoRequest::Last(2)).await.unwrap();
        assert_eq!(undone.left_alone.unwrap().paths, ["b.log"], "{on:?}");
        assert!(!room.workspace().exists("a").await.unwrap().exists, "{on:?}");
    });
}

#[test]
fn promise_37_a_merge_leaves_what_is_excluded_after_it_was_recorded() {
    on_all(&[On::Local, On::Filestore], |on| async move {
        let mut room = room_with(on, |_| {}).await;
        room.write("b.log", "recorded").await;
        room.workspace().branch("side", &Point::Now).await.unwrap();
        let side = room.garret.open_branch(room.workspace(), "side").await.unwrap();
        for path in ["a", "b.log"] {
            side.workspace()
                .write(path, "theirs", Default::default())
                .await
                .unwrap();
        }
        room.config.exclude = vec!["*.log".into()];
        room.toolbox = room.garret.open_config("box", &room.config).await.unwrap();
        let merged = room.workspace().merge("side", Default::default()).await.unwrap();
        assert_eq!(merged.outcome.left_alone.unwrap().paths, ["b.log"], "{on:?}");
        assert_eq!(room.read("a").await, "theirs", "{on:?}");
        assert_eq!(room.read("b.log").await, "recorded", "{on:?}");
    });
}

#[test]
fn a_real_project_is_built_and_its_output_stays_out_of_history() {
    each(|on| async move {
        let room = room(on).await;
        room.write(
            "Makefile",
            "target/app: src/main.c\n\tmkdir -p target\n\tcc -o $@ $<\ntest: target/app\n\t./target/app\n",
        )
        .await;
        room.write(
            "src/main.c",
            "#include <stdio.h>\nint main(void) { puts(\"built\"); return 0; }\n",
        )
        .await;
        let before = room.tree().await;
        let built = room.sh("make -s test").await;
        assert_eq!(built.output, "built\n", "{on:?}");
        assert!(built.changed.is_nothing(), "{on:?}: {:?}", built.changed);
        assert_eq!(
            room.sh("make test").await.output,
            "./target/app\nbuilt\n",
            "{on:?}: nothing is built twice"
        );
        room.sh("sed -i s/built/anew/ src/main.c && make -s test && echo note > NOTES")
            .await;
        room.undo().await;
        if on != On::Local {
            assert_eq!(room.tree().await, before, "{on:?}");
        }
        let again = room
            .workspace()
            .run(RunRequest::shell("make -s test; test ! -e NOTES"))
            .await
            .unwrap();
        assert_eq!((again.exit_code, again.output.as_str()), (0, "built\n"), "{on:?}");
    });
}

#[test]
fn an_undo_tells_what_it_leaves_alone_and_what_is_gone_for_good() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.sh("mkdir -p old/target && touch old/target/x && for n in $(seq 30); do echo $n > a$n.log; done")
            .await;
        let built = room
            .sh("echo code > a && mkdir -p p/target && echo binary > p/target/x && echo new > new.log && rm -r *[0-9].log")
            .await;
        assert_eq!(built.changed.excluded.deleted, 30, "{on:?}");
        let undone = room.workspace().undo(UndoRequest::Last(1)).await.unwrap();
        let left = undone.left_alone.expect("something was left");
        assert_eq!(
            (left.paths, left.more),
            (vec!["new.log".into(), "p/target".to_owned()], 0),
            "{on:?}"
        );
        assert_eq!((left.deleted.len(), left.more_deleted), (20, 10), "{on:?}");
        room.redo().await;
        let told = room.toolbox.call("undo", serde_json::json!({})).await;
        assert!(
            told.text
                .contains("left unchanged (excluded from history): `new.log`, `p/target`"),
            "{}",
            told.text
        );
        assert!(told.text.contains(" and 10 more"), "{}", told.text);
        room.sh("echo plain > b").await;
        let undone = room.workspace().undo(UndoRequest::Last(1)).await.unwrap();
        assert_eq!(undone.left_alone, None, "{on:?}");
    });
}

#[tokio::test]
async fn promise_37_a_tool_writes_nothing_there_in_a_workspace_without_commands() {
    let text = "storage = 'memory:'\nexclude = ['target/']\n[capabilities]\nfs = true\n";
    let config = WorkspaceConfig::from_toml(text).unwrap();
    let opened = Garret::new().open_config("box", &config).await.unwrap();
    let write = async |path: &str| {
        let written = opened.workspace().write(path, "by hand", Default::default()).await;
        written.map(drop).map_err(|error| error.kind())
    };
    assert_eq!(write("target/x").await, Err(ErrorKind::Denied));
    assert_eq!(write("src/x").await, Ok(()));
}
