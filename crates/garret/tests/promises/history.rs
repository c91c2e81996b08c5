//! The way back: undo, snapshots, branches, merges.

use super::*;

#[tokio::test]
async fn promise_20_undo_brings_back_bytes_mode_and_absence() {
    for room in open_rooms().await {
        room.write("dir/kept", "before\n").await;
        room.workspace()
            .write(
                "dir/script",
                "#!/bin/sh\n",
                garret::WriteOptions {
                    mode: Some(0o755),
                    ..Default::default()
                },
            )
            .await
            .unwrap();
        let bytes = vec![0_u8, 255, 10, 13, 7];
        room.workspace()
            .write("dir/bytes", bytes.clone(), Default::default())
            .await
            .unwrap();
        room.call("rm", json!({"path": "dir", "recursive": true})).await;
        room.workspace().undo(UndoRequest::Last(1)).await.unwrap();
        assert_eq!(room.read("dir/kept").await, "before\n", "{}", room.kind);
        assert_eq!(room.mode("dir/script").await.as_deref(), Some("0755"), "{}", room.kind);
        assert_eq!(room.bytes("dir/bytes").await, bytes, "{}", room.kind);
        room.write("new/deep/file", "x").await;
        room.workspace().undo(UndoRequest::Last(1)).await.unwrap();
        assert!(
            !room.exists("new").await,
            "{}: what was not there is not there again",
            room.kind
        );
        room.call("move", json!({"src": "dir/kept", "dest": "dir/moved"})).await;
        room.workspace().undo(UndoRequest::Last(1)).await.unwrap();
        assert!(
            room.exists("dir/kept").await && !room.exists("dir/moved").await,
            "{}",
            room.kind
        );
    }
}

#[tokio::test]
async fn promise_21_undo_is_a_change_that_can_be_undone() {
    for room in open_rooms().await {
        for content in ["one", "two", "three"] {
            room.write("f", content).await;
        }
        let workspace = room.workspace();
        workspace.undo(UndoRequest::Last(1)).await.unwrap();
        workspace.undo(UndoRequest::Last(1)).await.unwrap();
        assert_eq!(room.read("f").await, "one", "{}: repeating it steps back", room.kind);
        workspace.redo().await.unwrap();
        assert_eq!(room.read("f").await, "two", "{}", room.kind);
        let log = workspace.log(LogRequest::default()).await.unwrap();
        let kinds: Vec<_> = log.changes.iter().map(|change| change.kind.as_str()).collect();
        assert_eq!(
            kinds,
            ["redo", "undo", "undo", "change", "change", "change"],
            "{}",
            room.kind
        );
        room.write("f", "new work").await;
        let error = workspace.redo().await.unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::NotFound,
            "{}: a new change clears redo",
            room.kind
        );
    }
}

#[tokio::test]
async fn promise_22_undo_never_takes_along_what_came_after() {
    for room in open_rooms().await {
        let patch = "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+a\n--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+b\n";
        room.call("apply_patch", json!({"diff": patch})).await;
        room.write("a", "later").await;
        room.write("elsewhere", "later").await;
        let both = room.workspace().log(LogRequest::default()).await.unwrap().changes[2]
            .id
            .clone();
        let error = room
            .workspace()
            .undo(UndoRequest::Change(both.clone()))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{}", room.kind);
        assert!(error.message().contains("`a` was changed since"), "{error}");
        assert_eq!(room.read("b").await, "b\n", "{}: nothing was touched", room.kind);
        room.write("a", "a\n").await;
        room.workspace().undo(UndoRequest::Change(both)).await.unwrap();
        assert!(!room.exists("a").await && !room.exists("b").await, "{}", room.kind);
        assert_eq!(
            room.read("elsewhere").await,
            "later",
            "{}: later changes to other paths stay",
            room.kind
        );
    }
    let room = Room::open("local", FsPolicy::default()).await;
    room.write("f", "ours").await;
    std::fs::write(room.host_path().unwrap().join("f"), "another program's").unwrap();
    let error = room.workspace().undo(UndoRequest::Last(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(room.read("f").await, "another program's");
    let log = room.workspace().log(LogRequest::default()).await.unwrap();
    assert_eq!(
        log.changes[0].actor.door, "outside",
        "what others did is in the journal"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn promise_22_undo_succeeds_beside_many_writers_of_other_paths() {
    const WRITERS: usize = 8;
    const UNDOS: usize = 10;
    for room in open_rooms().await {
        // There is a last change also before the writers have begun.
        for number in 0..UNDOS {
            room.write(&format!("earlier-{number}"), "x").await;
        }
        let is_done = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (workspace, is_done) = (room.workspace().clone(), is_done.clone());
                tokio::spawn(async move {
                    let mut number = 0;
                    while !is_done.load(Ordering::Relaxed) {
                        let path = format!("{writer}-{number}");
                        workspace.write(&path, "x", Default::default()).await.unwrap();
                        number += 1;
                    }
                })
            })
            .collect();
        let session = |name: &str| {
            let session = Some(name.to_owned());
            room.workspace().acting_as(garret::Actor {
                session,
                ..Default::default()
            })
        };
        for number in 0..UNDOS {
            let (name, path) = (format!("session-{number}"), format!("mine-{number}"));
            session(&name).write(&path, "mine", Default::default()).await.unwrap();
            let undone = room.workspace().undo(UndoRequest::Session(name)).await;
            undone.unwrap_or_else(|error| panic!("{}: {error}", room.kind));
            assert!(!room.exists(&path).await, "{}", room.kind);
            let undone = room.workspace().undo(UndoRequest::Last(1)).await;
            let undone = undone.unwrap_or_else(|error| panic!("{}: {error}", room.kind));
            assert_eq!(undone.paths().len(), 1, "{}: {undone:?}", room.kind);
        }
        is_done.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.await.unwrap();
        }
    }
}

#[tokio::test]
async fn promise_23_a_snapshot_stays_what_it_is() {
    for room in open_rooms().await {
        room.write("f", "then").await;
        room.write("gone", "x").await;
        room.workspace()
            .snapshot("before", SnapshotOptions::default())
            .await
            .unwrap();
        room.write("f", "now").await;
        room.call("rm", json!({"path": "gone"})).await;
        room.write("new", "x").await;
        let past = room
            .toolbox
            .on(room.workspace().at_point(&Point::Named("before".into())).await.unwrap());
        let read = past.call("read_file", json!({"path": "f"})).await;
        assert_eq!(read.data.unwrap()["content"], "then", "{}", room.kind);
        let found = past.call("grep", json!({"pattern": "then|now"})).await;
        assert!(
            found.text.contains("then") && !found.text.contains("now"),
            "{}: {}",
            room.kind,
            found.text
        );
        let refused = past.call("write_file", json!({"path": "f", "content": "forged"})).await;
        assert_eq!(refused.error.unwrap().kind(), ErrorKind::Denied, "{}", room.kind);
        let point = Point::Named("before".into());
        room.workspace()
            .restore(RestoreRequest { point, path: None })
            .await
            .unwrap();
        assert_eq!(room.read("f").await, "then", "{}", room.kind);
        assert!(room.exists("gone").await && !room.exists("new").await, "{}", room.kind);
        room.workspace().undo(UndoRequest::Last(1)).await.unwrap();
        assert_eq!(room.read("f").await, "now", "{}: a restore can be undone", room.kind);
        let taken = room
            .workspace()
            .snapshot("before", SnapshotOptions::default())
            .await
            .unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists, "{}", room.kind);
    }
}

#[tokio::test]
async fn promise_24_a_branch_and_its_parent_never_disturb_each_other() {
    for room in open_rooms().await {
        let kind = room.kind;
        room.write("shared", "one\ntwo\nthree\n").await;
        room.workspace().branch("try", &Point::Now).await.unwrap();
        let branch = room.branch("try").await;
        branch
            .call("write_file", json!({"path": "shared", "content": "one\ntwo\nTHREE\n"}))
            .await;
        branch
            .call("write_file", json!({"path": "theirs", "content": "x"}))
            .await;
        room.write("shared", "ONE\ntwo\nthree\n").await;
        assert!(!room.exists("theirs").await, "{kind}");
        let read = branch.call("read_file", json!({"path": "shared"})).await;
        assert_eq!(read.data.unwrap()["content"], "one\ntwo\nTHREE\n", "{kind}");
        let merged = room.workspace().merge("try", MergeOptions::default()).await.unwrap();
        assert!(merged.conflicts.is_empty(), "{kind}: {merged:?}");
        assert_eq!(
            room.read("shared").await,
            "ONE\ntwo\nTHREE\n",
            "{kind}: both sides are there"
        );
        assert!(room.exists("theirs").await, "{kind}");
        room.workspace().undo(UndoRequest::Last(1)).await.unwrap();
        assert_eq!(
            room.read("shared").await,
            "ONE\ntwo\nthree\n",
            "{kind}: a merge is one change"
        );
    }
}

#[tokio::test]
async fn promise_25_a_merge_that_conflicts_says_so_and_writes_nothing() {
    for room in open_rooms().await {
        let kind = room.kind;
        room.write("f", "base\n").await;
        room.workspace().branch("try", &Point::Now).await.unwrap();
        let branch = room.branch("try").await;
        branch
            .call("write_file", json!({"path": "f", "content": "theirs\n"}))
            .await;
        branch
            .call("write_file", json!({"path": "other", "content": "x"}))
            .await;
        room.write("f", "ours\n").await;
        let merged = room.workspace().merge("try", MergeOptions::default()).await.unwrap();
        let conflict = &merged.conflicts[0];
        assert_eq!(conflict.path, "f", "{kind}");
        assert!(
            merged.outcome.change.is_none() && !room.exists("other").await,
            "{kind}: nothing was written"
        );
        assert_eq!(room.read("f").await, "ours\n", "{kind}");
    }
}

#[tokio::test]
async fn promise_26_every_mutation_is_one_change_that_says_who_made_it() {
    for room in open_rooms().await {
        let actor = garret::Actor {
            agent: Some("writer".into()),
            session: Some("s1".into()),
            tool_call: Some("call-7".into()),
            door: "api".into(),
            command: None,
        };
        let toolbox = room.toolbox.on(room.workspace().acting_as(actor));
        let secret = "s3cr3t-in-content";
        toolbox
            .call("write_file", json!({"path": "a/f", "content": secret}))
            .await;
        toolbox
            .call("edit_file", json!({"path": "a/f", "old_text": "s3", "new_text": "S3"}))
            .await;
        toolbox.call("copy", json!({"src": "a", "dest": "b"})).await;
        toolbox.call("rm", json!({"path": "a", "recursive": true})).await;
        toolbox.call("read_file", json!({"path": "b/f"})).await;
        toolbox
            .call("write_file", json!({"path": "../x", "content": "refused"}))
            .await;
        let log = room.workspace().log(LogRequest::default()).await.unwrap();
        let made: Vec<_> = log.changes.iter().map(|change| change.operation.as_str()).collect();
        assert_eq!(made, ["rm", "copy", "edit_file", "write_file"], "{}", room.kind);
        for change in &log.changes {
            assert_eq!(change.actor.agent.as_deref(), Some("writer"), "{}", room.kind);
            assert_eq!(change.actor.tool_call.as_deref(), Some("call-7"), "{}", room.kind);
        }
        let text = serde_json::to_string(&log).unwrap();
        assert!(
            !text.contains("cr3t"),
            "{}: the journal tells what was done, not what was written",
            room.kind
        );
        room.workspace().undo(UndoRequest::Session("s1".into())).await.unwrap();
        assert!(
            !room.exists("b").await && !room.exists("a").await,
            "{}: all of a session",
            room.kind
        );
    }
}

#[tokio::test]
async fn promise_27_the_past_obeys_the_same_rules() {
    for room in rooms(denying(&["secret"])).await {
        room.write("plain", "x").await;
        let workspace = room.workspace();
        let denied = workspace.versions("secret/key", 10).await.unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::Denied, "{}", room.kind);
        let point = Point::Number(0);
        let denied = workspace
            .restore(RestoreRequest {
                point,
                path: Some("secret/key".into()),
            })
            .await;
        assert!(denied.is_err() || denied.unwrap().change.is_none(), "{}", room.kind);
    }
    for kind in ["local", "filestore"] {
        let room = Room::open(kind, FsPolicy::default()).await;
        room.write("secret/key", "hidden words").await;
        room.write("plain", "x").await;
        let fenced = without_secret(&room).await;
        let log = fenced.workspace().log(LogRequest::default()).await.unwrap();
        let shown = serde_json::to_string(&log).unwrap();
        assert!(!shown.contains("key"), "{kind}: {shown}");
        assert_eq!(log.changes.len(), 1, "{kind}: {shown}");
        let past = fenced.workspace().at_point(&Point::Number(1)).await.unwrap();
        assert_eq!(
            past.read_bytes("secret/key").await.unwrap_err().kind(),
            ErrorKind::Denied,
            "{kind}"
        );
        let hidden = UndoRequest::Change("1".into());
        let refused = fenced.workspace().undo(hidden).await.unwrap_err();
        assert_eq!(
            refused.kind(),
            ErrorKind::Denied,
            "{kind}: what may not be written is not brought back"
        );
        assert!(room.exists("plain").await, "{kind}");
        fenced.workspace().undo(UndoRequest::Last(2)).await.unwrap();
        assert!(
            room.exists("secret/key").await && !room.exists("plain").await,
            "{kind}: the last changes are the last that show"
        );
    }
}

/// The workspace of a room, in which `secret` may not be read.
async fn without_secret(room: &Room) -> Toolbox {
    let mut config = WorkspaceConfig::with_storage(StorageConfig::Table {
        kind: room.kind.into(),
        options: room.workspace().reference().unwrap().payload,
    });
    config.capabilities.fs = DeclaredCapability::Options(denying(&["secret"]));
    let garret = Garret::new().home(Home::new(room.home.path()));
    garret.open_config("room", &config).await.unwrap()
}

#[tokio::test]
async fn promise_27_a_hard_link_to_a_denied_file_has_no_past() {
    let room = Room::open("local", FsPolicy::default()).await;
    room.write("secret/key", "hidden words").await;
    room.write("plain", "x").await;
    let host = room.host_path().unwrap();
    std::fs::hard_link(host.join("secret/key"), host.join("second")).unwrap();
    room.workspace()
        .snapshot("linked", SnapshotOptions::default())
        .await
        .unwrap();
    let toolbox = without_secret(&room).await;
    let fenced = toolbox.workspace();
    let past = fenced.at_point(&Point::Named("linked".into())).await.unwrap();
    assert_eq!(past.read_bytes("plain").await.unwrap().bytes, "x");
    assert_eq!(past.read_bytes("second").await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(past.stat("second").await.unwrap_err().kind(), ErrorKind::Denied);
    let words = GrepRequest {
        pattern: "words".into(),
        ..GrepRequest::default()
    };
    assert_eq!(past.grep(words).await.unwrap().match_count, 0);
    let listed = past.list("", ListRequest::default()).await.unwrap();
    assert!(listed.entries.iter().all(|entry| entry.name != "second"), "{listed:?}");
    assert_eq!(
        fenced.versions("second", 10).await.unwrap_err().kind(),
        ErrorKind::Denied
    );
    let diff = fenced.diff(DiffRequest::default()).await.unwrap();
    assert!(
        !diff.diff.contains("words") && diff.diff.contains("plain"),
        "{}",
        diff.diff
    );
    // In place, so that both names still lead to one file.
    std::fs::write(host.join("secret/key"), "later words").unwrap();
    let restored = fenced.restore(RestoreRequest {
        point: Point::Named("linked".into()),
        path: Some("second".into()),
    });
    assert_eq!(restored.await.unwrap_err().kind(), ErrorKind::Denied);
}
