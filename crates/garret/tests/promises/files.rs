//! Files: what a write, a read and a path mean.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promise_01_writes_are_atomic() {
    for room in open_rooms().await {
        let contents = ["a".repeat(100_000), "b".repeat(70_000)];
        room.write("f", &contents[0]).await;
        let done = Arc::new(AtomicBool::new(false));
        let (workspace, stop) = (room.toolbox.workspace().clone(), done.clone());
        let reader = tokio::spawn(async move {
            let mut seen = BTreeSet::new();
            while !stop.load(Ordering::SeqCst) {
                let bytes = workspace.read_bytes("f").await.unwrap().bytes;
                seen.insert((bytes.len(), bytes.iter().copied().collect::<BTreeSet<u8>>()));
                tokio::task::yield_now().await;
            }
            seen
        });
        for round in 0..60 {
            room.write("f", &contents[round % 2]).await;
        }
        done.store(true, Ordering::SeqCst);
        let whole = [(100_000, BTreeSet::from([b'a'])), (70_000, BTreeSet::from([b'b']))];
        let seen = reader.await.unwrap();
        assert!(
            seen.iter().all(|content| whole.contains(content)),
            "{}: {seen:?}",
            room.kind
        );
    }
}

#[tokio::test]
async fn promise_02_you_read_what_you_wrote() {
    for room in open_rooms().await {
        for round in 0..20 {
            room.write("d/f.txt", &format!("needle{round}\n")).await;
            assert_eq!(room.read("d/f.txt").await, format!("needle{round}\n"));
            let found = room.call("grep", json!({"pattern": format!("needle{round}$")})).await;
            assert_eq!(found["matches"][0]["path"], "d/f.txt", "{}", room.kind);
            let found = room.call("glob", json!({"pattern": "**/*.txt"})).await;
            assert_eq!(found["paths"], json!(["d/f.txt"]));
            room.call("rm", json!({"path": "d/f.txt"})).await;
            assert_eq!(room.call("grep", json!({"pattern": "needle"})).await["match_count"], 0);
        }
    }
}

#[tokio::test]
async fn promise_03_a_conflict_is_reported_with_the_current_version() {
    for room in open_rooms().await {
        let first = room.write("f", "one").await["version"].clone();
        let second = room
            .call(
                "write_file",
                json!({"path": "f", "content": "two", "if_version": first}),
            )
            .await["version"]
            .clone();
        let answer = room
            .toolbox
            .call(
                "write_file",
                json!({"path": "f", "content": "lost", "if_version": first}),
            )
            .await;
        let error = answer.to_json()["error"].clone();
        assert_eq!(error["kind"], "conflict", "{}", room.kind);
        let current = &error["current_version"];
        assert!(current.is_string());
        room.call(
            "write_file",
            json!({"path": "f", "content": "three", "if_version": current}),
        )
        .await;
        let edit = json!({"path": "f", "old_text": "three", "new_text": "x", "if_version": second});
        assert_eq!(room.refused("edit_file", edit).await, "conflict");
        let create = json!({"path": "f", "content": "x", "if_version": "absent"});
        assert_eq!(room.refused("write_file", create).await, "conflict");
        assert_eq!(room.read("f").await, "three");
    }
}

/// A version taken while a file is young is still good when it is old, for a trial as for a real edit.
#[tokio::test]
async fn a_young_version_holds_for_an_old_file() {
    for room in open_rooms().await {
        let version = room.write("f", "one").await["version"].clone();
        tokio::time::sleep(std::time::Duration::from_millis(80)).await;
        for dry_run in [true, false] {
            let edit =
                json!({"path": "f", "old_text": "one", "new_text": "1", "if_version": version, "dry_run": dry_run});
            room.call("edit_file", edit).await;
        }
        let stale = json!({"path": "f", "old_text": "1", "new_text": "2", "if_version": version, "dry_run": true});
        assert_eq!(room.refused("edit_file", stale).await, "conflict", "{}", room.kind);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promise_04_appends_all_arrive() {
    for room in open_rooms().await {
        let tasks: Vec<_> = (0..100)
            .map(|number| {
                let toolbox = room.toolbox.clone();
                let arguments = json!({"path": "log", "content": format!("{number:03}\n")});
                tokio::spawn(async move { toolbox.call("append_file", arguments).await.ok })
            })
            .collect();
        for task in tasks {
            assert!(task.await.unwrap());
        }
        let log = room.read("log").await;
        let lines: BTreeSet<_> = log.lines().map(|line| line.parse::<u32>().unwrap()).collect();
        assert_eq!(lines, (0..100).collect(), "{}", room.kind);
    }
}

#[tokio::test]
async fn promise_05_a_change_is_all_or_nothing() {
    for room in open_rooms().await {
        room.write("a", "a\n").await;
        room.write("b", "b\n").await;
        let diff = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+A\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-wrong\n+B\n";
        assert_eq!(room.refused("apply_patch", json!({"diff": diff})).await, "invalid");
        // The last name is taken by a directory, which only the storage finds out, after the first parts were done.
        room.call("mkdir", json!({"path": "taken/x"})).await;
        let diff = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+A\ndiff --git a/b b/taken\nsimilarity index 100%\nrename from b\nrename to taken\n";
        assert_eq!(
            room.refused("apply_patch", json!({"diff": diff})).await,
            "already_exists"
        );
        let edits = json!({"path": "a", "edits": [{"old_text": "a", "new_text": "A"}, {"old_text": "missing", "new_text": "x"}]});
        assert_eq!(room.refused("edit_file", edits).await, "invalid");
        assert_eq!(
            (room.read("a").await.as_str(), room.read("b").await.as_str()),
            ("a\n", "b\n"),
            "{}",
            room.kind
        );
        assert_eq!(room.call("exists", json!({"path": "new"})).await["exists"], false);
    }
}

#[tokio::test]
async fn promise_06_no_path_leads_outside() {
    for room in open_rooms().await {
        for path in ["../x", "/workspace/../x", "a/../../x", "../../../../etc/passwd"] {
            for tool in ["read_file", "stat", "exists", "rm", "ls", "mkdir"] {
                assert_eq!(
                    room.refused(tool, json!({"path": path})).await,
                    "path_escape",
                    "{tool} {path}"
                );
            }
        }
        assert_eq!(
            room.refused("read_file", json!({"path": "/etc/passwd"})).await,
            "not_found",
            "{}",
            room.kind
        );
    }
    let room = Room::open("local", FsPolicy::default()).await;
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "CANARY").unwrap();
    room.link("dir", outside.path().to_str().unwrap()).await;
    room.link("file", outside.path().join("secret").to_str().unwrap()).await;
    room.link("up", "../..").await;
    room.link("dangling", outside.path().join("made").to_str().unwrap())
        .await;
    for path in ["dir/secret", "file", "up/etc/passwd"] {
        assert_eq!(
            room.refused("read_file", json!({"path": path})).await,
            "path_escape",
            "{path}"
        );
    }
    for path in ["dir/made", "file", "dangling"] {
        assert_eq!(
            room.refused("write_file", json!({"path": path, "content": "x"})).await,
            "path_escape",
            "{path}"
        );
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"CANARY");
    room.write("real/f", "inside").await;
    room.link("alias", "real").await;
    assert_eq!(room.read("alias/f").await, "inside");
}

#[tokio::test]
async fn promise_07_one_file_has_one_name() {
    for room in open_rooms().await {
        room.write("a/b", "same").await;
        for path in ["a/b", "/a/b", "./a//b", "a/x/../b", "/workspace/a/b"] {
            assert_eq!(room.read(path).await, "same", "{path}");
        }
        assert_eq!(
            room.refused("write_file", json!({"path": "a", "content": ""})).await,
            "is_a_directory"
        );
        assert_eq!(
            room.refused("write_file", json!({"path": "a/b/c", "content": ""}))
                .await,
            "not_a_directory"
        );
        for name in [
            "[...slug]/page.tsx",
            "report..final.md",
            "$(touch x)",
            "a;b",
            "-rf",
            "~/x",
            "new\nline",
        ] {
            room.write(name, name).await;
            assert_eq!(room.read(name).await, name, "{}", room.kind);
        }
        for path in ["/home/me/x", "/tmp/x", "/Users"] {
            let arguments = json!({"path": path, "content": "x"});
            assert_eq!(
                room.refused("write_file", arguments).await,
                "path_escape",
                "{}",
                room.kind
            );
        }
        room.write("tmp/x", "own").await;
        room.write("/tmp/y", "own").await;
        assert_eq!(room.read("/workspace/tmp/y").await, "own");
        if let Some(host) = room.host_path() {
            let path = host.join("a/b");
            assert_eq!(room.read(path.to_str().unwrap()).await, "same");
        }
    }
}

#[tokio::test]
async fn a_directory_is_known_by_the_path_given_and_by_the_one_behind_links() {
    let around = tempfile::tempdir().unwrap();
    let around = around.path().canonicalize().unwrap();
    std::fs::create_dir(around.join("real")).unwrap();
    std::os::unix::fs::symlink(around.join("real"), around.join("link")).unwrap();
    let given = around.join("link");
    let toolbox = Garret::new().open_dir(&given).await.unwrap();
    let write = async |path: std::path::PathBuf| {
        let arguments = json!({"path": path.to_str().unwrap(), "content": "x"});
        let answer = toolbox.call("write_file", arguments).await;
        assert!(answer.ok, "{}", answer.text);
        assert!(!answer.text.contains(around.to_str().unwrap()), "{}", answer.text);
    };
    write(given.join("one")).await;
    write(around.join("real/two")).await;
    let names = std::fs::read_dir(&given).unwrap().count();
    assert_eq!(names, 2, "both are in the directory itself");
}

#[tokio::test]
async fn promise_08_bytes_survive() {
    use base64::Engine;
    for room in open_rooms().await {
        let all: Vec<u8> = (0..=255).collect();
        let encoded = base64::engine::general_purpose::STANDARD.encode(&all);
        room.call(
            "write_file",
            json!({"path": "bin", "content": encoded, "encoding": "base64"}),
        )
        .await;
        room.call("append_file", json!({"path": "bin", "content": "tail"}))
            .await;
        assert_eq!(
            room.bytes("bin").await,
            [all.as_slice(), b"tail"].concat(),
            "{}",
            room.kind
        );

        room.write("crlf", "\u{feff}one\r\ntwo\r\nthree").await;
        room.call(
            "edit_file",
            json!({"path": "crlf", "old_text": "one\ntwo\n", "new_text": "1\n$& $1\n"}),
        )
        .await;
        assert_eq!(room.bytes("crlf").await, "\u{feff}1\r\n$& $1\r\nthree".as_bytes());
        let diff = "--- a/crlf\n+++ b/crlf\n@@ -2,2 +2,2 @@\n-$& $1\n+2\n three\n\\ No newline at end of file\n";
        room.call("apply_patch", json!({"diff": diff})).await;
        assert_eq!(room.bytes("crlf").await, "\u{feff}1\r\n2\r\nthree".as_bytes());

        room.call("write_file", json!({"path": "run.sh", "content": "a", "mode": "0755"}))
            .await;
        room.write("run.sh", "b").await;
        assert_eq!(room.call("stat", json!({"path": "run.sh"})).await["mode"], "0755");
    }
}
