//! The promises of SEMANTICS.md, each with a test of its number, on every storage it speaks of.
//!
//! These tests go through the tools, as a model does. Finer ones stand beside the code they test.

#![allow(clippy::unwrap_used, reason = "a test ends where it is surprised")]
#![allow(
    clippy::disallowed_methods,
    reason = "a test prepares and inspects the directory behind Garret's back"
)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use garret::{
    Approval, ApprovalRequest, Approver, Declared, ErrorKind, FsPolicy, Garret, Home, LogRequest, MemoryEvents,
    MergeOptions, Outcome, Point, RestoreRequest, ScopeOptions, SnapshotOptions, StorageConfig, Toolbox, UndoRequest,
    Workspace, WorkspaceConfig,
};
use serde_json::{Value, json};

/// A workspace under test, on one storage.
struct Room {
    kind: &'static str,
    toolbox: Toolbox,
    events: Arc<MemoryEvents>,
    directory: Option<tempfile::TempDir>,
    home: tempfile::TempDir,
}

impl Room {
    async fn open(kind: &'static str, policy: FsPolicy) -> Self {
        let directory = (kind == "local").then(|| tempfile::tempdir().unwrap());
        let url = match (&directory, kind) {
            (Some(directory), _) => format!("local:{}", directory.path().display()),
            (None, "filestore") => "filestore:room".to_owned(),
            (None, _) => "memory:".to_owned(),
        };
        let home = tempfile::tempdir().unwrap();
        let events = Arc::new(MemoryEvents::default());
        let mut config = WorkspaceConfig::on(StorageConfig::Url(url));
        config.capabilities.fs = Declared::Options(policy);
        let toolbox = Garret::new()
            .home(Home::new(home.path()))
            .events(events.clone())
            .open_config("room", &config)
            .await
            .unwrap();
        Self {
            kind,
            toolbox,
            events,
            directory,
            home,
        }
    }

    /// What a program that opens the same home finds there.
    async fn reopened(&self) -> Toolbox {
        let reference = self.toolbox.workspace().reference().unwrap();
        let garret = Garret::new().home(Home::new(self.home.path()));
        garret.resolve(&reference).await.unwrap()
    }

    /// A branch, as another program finds it in the home; of files that end with this one, as this one does.
    async fn branch(&self, name: &str) -> Toolbox {
        let garret = Garret::new().home(Home::new(self.home.path()));
        match self.kind {
            "memory" => garret.open_branch(self.workspace(), name).await.unwrap(),
            _ => garret.open_named(name).await.unwrap(),
        }
    }

    fn workspace(&self) -> &Workspace {
        self.toolbox.workspace()
    }

    async fn mode(&self, path: &str) -> Option<String> {
        self.workspace().stat(path).await.unwrap().mode
    }

    async fn exists(&self, path: &str) -> bool {
        self.call("exists", json!({"path": path})).await["exists"] == true
    }

    /// Calls a tool that must succeed; its data comes back.
    async fn call(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.toolbox.call(tool, arguments.clone()).await;
        assert!(answer.ok, "{tool} {arguments} on {}: {}", self.kind, answer.text);
        answer.data.unwrap()
    }

    /// Calls a tool that must fail; the kind of its error comes back.
    async fn refused(&self, tool: &str, arguments: Value) -> String {
        let answer = self.toolbox.call(tool, arguments.clone()).await;
        assert!(!answer.ok, "{tool} {arguments} on {} should fail", self.kind);
        answer.error.unwrap().kind().to_string()
    }

    async fn write(&self, path: &str, content: &str) -> Value {
        self.call("write_file", json!({"path": path, "content": content})).await
    }

    async fn read(&self, path: &str) -> String {
        self.call("read_file", json!({"path": path})).await["content"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    async fn bytes(&self, path: &str) -> Vec<u8> {
        self.toolbox.workspace().read_bytes(path).await.unwrap().bytes.to_vec()
    }

    /// Puts a link where tools cannot: behind the workspace.
    async fn link(&self, path: &str, target: &str) {
        if let Some(directory) = &self.directory {
            std::os::unix::fs::symlink(target, directory.path().join(path)).unwrap();
        }
    }

    fn host_path(&self) -> Option<PathBuf> {
        self.directory.as_ref().map(|directory| directory.path().to_owned())
    }
}

async fn rooms(policy: FsPolicy) -> [Room; 3] {
    [
        Room::open("memory", policy.clone()).await,
        Room::open("local", policy.clone()).await,
        Room::open("filestore", policy).await,
    ]
}

async fn open_rooms() -> [Room; 3] {
    rooms(FsPolicy::default()).await
}

fn denying(patterns: &[&str]) -> FsPolicy {
    FsPolicy {
        deny_read: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
        ..FsPolicy::default()
    }
}

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
    }
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

#[tokio::test]
async fn promise_09_a_denied_path_stays_denied_under_every_name() {
    let room = Room::open("local", denying(&["secret", "app/.env"])).await;
    let host = room.host_path().unwrap();
    for directory in ["secret", "app"] {
        std::fs::create_dir(host.join(directory)).unwrap();
    }
    std::fs::write(host.join("secret/key"), "CANARY\n").unwrap();
    std::fs::write(host.join("app/.env"), "CANARY\n").unwrap();
    room.link("alias", "secret").await;
    room.link("link", "app/.env").await;
    for path in ["secret/key", "alias/key", "link", "app/.env"] {
        let answer = room.toolbox.call("read_file", json!({"path": path})).await;
        assert_eq!(answer.to_json()["error"]["kind"], "denied", "{path}");
        assert!(
            answer.text.contains("deny_read"),
            "the refusal names the rule: {}",
            answer.text
        );
    }
    for tool in ["copy", "move"] {
        let answer = room.toolbox.call(tool, json!({"src": "app", "dest": "other"})).await;
        assert_eq!(answer.to_json()["error"]["kind"], "denied", "{tool}");
        assert!(
            answer.text.contains("deny_read") && !answer.to_json().to_string().contains(".env"),
            "what lists do not show is not named: {}",
            answer.text
        );
        assert_eq!(
            room.refused(tool, json!({"src": "secret/key", "dest": "other"})).await,
            "denied",
            "{tool}"
        );
    }
    for (tool, arguments) in [
        ("grep", json!({"pattern": "CANARY", "include_ignored": true})),
        ("glob", json!({"pattern": "**"})),
        ("ls", json!({"recursive": true})),
    ] {
        let shown = room.toolbox.call(tool, arguments).await.to_json().to_string();
        let names = ["key", ".env", "CANARY\\n"];
        assert!(names.iter().all(|name| !shown.contains(name)), "{tool}: {shown}");
    }
}

#[tokio::test]
async fn promise_10_a_scope_is_never_wider() {
    for room in rooms(denying(&["**/.env"])).await {
        room.write("users/alice/a", "a").await;
        room.write("users/bob/b", "b").await;
        let alice = room
            .toolbox
            .workspace()
            .scope("users/alice", ScopeOptions::default())
            .unwrap();
        assert_eq!(
            alice
                .scope("../bob", ScopeOptions::default())
                .unwrap_err()
                .kind()
                .as_str(),
            "path_escape"
        );
        assert_eq!(
            alice.read_bytes("../bob/b").await.unwrap_err().kind().as_str(),
            "path_escape"
        );
        assert_eq!(
            alice.read_bytes(".env").await.unwrap_err().kind().as_str(),
            "denied",
            "the outer rule holds inside"
        );
        if room.kind == "local" {
            room.link("users/alice/peek", "../bob").await;
            assert_eq!(
                alice.read_bytes("peek/b").await.unwrap_err().kind().as_str(),
                "path_escape"
            );
        }
    }
}

#[tokio::test]
async fn promise_11_no_message_shows_a_path_of_the_host() {
    let room = Room::open("local", denying(&["denied"])).await;
    let host = room.host_path().unwrap();
    std::fs::create_dir(host.join("dir")).unwrap();
    room.link("out", "/etc").await;
    room.link("loop", "loop").await;
    let tools = [
        "read_file",
        "write_file",
        "append_file",
        "edit_file",
        "ls",
        "stat",
        "mkdir",
        "rm",
        "copy",
        "move",
        "grep",
        "glob",
    ];
    for tool in tools {
        for path in [
            "missing/x",
            "dir",
            "out/passwd",
            "loop/x",
            "denied/x",
            "../x",
            "a\0b",
            "dir/../../x",
        ] {
            let arguments = match tool {
                "write_file" | "append_file" => json!({"path": path, "content": "x"}),
                "edit_file" => json!({"path": path, "old_text": "a", "new_text": "b"}),
                "copy" | "move" => json!({"src": path, "dest": "dir"}),
                "grep" | "glob" => json!({"path": path, "pattern": "x"}),
                _ => json!({"path": path}),
            };
            let shown = room.toolbox.call(tool, arguments).await.to_json().to_string();
            assert!(!shown.contains(host.to_str().unwrap()), "{tool} {path}: {shown}");
        }
    }
}

#[tokio::test]
async fn promise_12_no_event_holds_content_or_secrets() {
    for room in open_rooms().await {
        room.write("f", "CANARY").await;
        room.call(
            "edit_file",
            json!({"path": "f", "old_text": "CANARY", "new_text": "CANARY2"}),
        )
        .await;
        room.refused(
            "edit_file",
            json!({"path": "f", "old_text": "CANARY9", "new_text": "x"}),
        )
        .await;
        room.call("grep", json!({"pattern": "CANARY"})).await;
        room.refused("apply_patch", json!({"diff": "CANARY"})).await;
        let log = serde_json::to_string(&room.events.events()).unwrap();
        assert_eq!(room.events.events().len(), 5);
        assert!(!log.contains("CANARY"), "{}: {log}", room.kind);
    }
}

#[tokio::test]
async fn promise_13_every_operation_leaves_one_event() {
    for room in rooms(denying(&["denied"])).await {
        room.write("f", "x").await;
        room.refused("read_file", json!({"path": "denied"})).await;
        room.refused("read_file", json!({"path": "missing"})).await;
        room.refused("read_file", json!({"pth": "f"})).await;
        let broken = json!({"path": "f", "content": "%", "encoding": "base64"});
        room.refused("write_file", broken).await;
        room.refused("teleport", json!({})).await;
        let names: Vec<_> = room.events.events().into_iter().map(|event| event.operation).collect();
        let expected = [
            "write_file",
            "read_file",
            "read_file",
            "read_file",
            "write_file",
            "unknown_tool",
        ];
        assert_eq!(names, expected, "{}", room.kind);
        let outcomes: Vec<_> = room.events.events().into_iter().map(|event| event.outcome).collect();
        assert!(
            matches!(
                &outcomes[..],
                [
                    Outcome::Done,
                    Outcome::Refused { rule: Some(_) },
                    Outcome::Failed { .. },
                    Outcome::Failed { .. },
                    Outcome::Failed { .. },
                    Outcome::Failed { .. }
                ]
            ),
            "{outcomes:?}"
        );
    }
}

/// Never answers, so that an operation can be given up while it runs.
#[derive(Debug)]
struct Silent;

#[garret::async_trait]
impl Approver for Silent {
    async fn ask(&self, _request: ApprovalRequest) -> Approval {
        std::future::pending().await
    }
}

#[tokio::test]
async fn promise_13_a_cancelled_operation_leaves_one_event_too() {
    let events = Arc::new(MemoryEvents::default());
    let mut config = WorkspaceConfig::on(StorageConfig::Url("memory:".into()));
    config.capabilities.fs = Declared::Options(FsPolicy {
        require_approval: vec!["read_file".into()],
        ..FsPolicy::default()
    });
    let garret = Garret::new().events(events.clone()).approver(Arc::new(Silent));
    let toolbox = garret.open_config("room", &config).await.unwrap();
    let call = toolbox.call("read_file", json!({"path": "f"}));
    assert!(tokio::time::timeout(Duration::from_millis(20), call).await.is_err());
    let outcomes: Vec<_> = events.events().into_iter().map(|event| event.outcome).collect();
    assert_eq!(outcomes, [Outcome::Cancelled]);
}

#[tokio::test]
async fn promise_14_a_search_is_complete_or_says_what_it_left_out() {
    for room in open_rooms().await {
        for path in [
            "a.txt",
            "b.txt",
            "src/x",
            "src/deep/x",
            "m.rs",
            "m.md",
            "src/m.rs",
            "t.ts",
            "t.js",
        ] {
            room.write(path, "needle\n").await;
        }
        room.write("bin", "needle\0").await;
        room.write(".hidden", "needle\n").await;
        room.write(".gitignore", "ignored\n").await;
        room.write("ignored", "needle\n").await;
        let found = room.call("grep", json!({"pattern": "needle"})).await;
        assert_eq!(
            (found["match_count"].as_u64(), found["truncated"].as_bool()),
            (Some(10), Some(false)),
            "{}: {found}",
            room.kind
        );
        assert_eq!(found["skipped"][0]["path"], "bin");
        let found = room.call("grep", json!({"pattern": "needle", "limit": 3})).await;
        assert_eq!(
            (found["matches"].as_array().unwrap().len(), found["truncated"].as_bool()),
            (3, Some(true))
        );
        for (pattern, paths) in [
            ("[!a].txt", json!(["b.txt"])),
            ("{*.ts,*.js}", json!(["t.js", "t.ts"])),
            ("**/x", json!(["src/deep/x", "src/x"])),
            ("*.{rs,md}", json!(["m.md", "m.rs"])),
            ("src/*.rs", json!(["src/m.rs"])),
        ] {
            assert_eq!(
                room.call("glob", json!({"pattern": pattern})).await["paths"],
                paths,
                "{} {pattern}",
                room.kind
            );
        }
    }
}

#[tokio::test]
async fn promise_15_pages_add_up() {
    for room in open_rooms().await {
        let names: Vec<_> = (0..230).map(|number| format!("d/{number:03}.txt")).collect();
        for name in &names {
            room.write(name, "x\n").await;
        }
        for (tool, key, mut arguments) in [
            ("ls", "entries", json!({"path": "d", "limit": 37})),
            ("glob", "paths", json!({"pattern": "d/*", "limit": 37})),
        ] {
            let mut seen = Vec::new();
            loop {
                let page = room.call(tool, arguments.clone()).await;
                let entries = page[key].as_array().unwrap().iter();
                seen.extend(entries.map(|entry| entry.get("path").unwrap_or(entry).as_str().unwrap().to_owned()));
                match page.get("next_cursor") {
                    Some(cursor) if cursor.is_string() => arguments["cursor"] = cursor.clone(),
                    _ => break,
                }
            }
            assert_eq!(seen, names, "{tool} on {}", room.kind);
        }
    }
}

#[tokio::test]
async fn promise_16_a_wrong_call_is_answered() {
    for room in open_rooms().await {
        room.write("f", "x").await;
        for (tool, arguments) in [
            ("read_file", json!({})),
            ("read_file", json!({"path": 3})),
            ("read_file", json!({"pth": "f"})),
            ("read_file", json!(["f"])),
            (
                "write_file",
                json!({"path": "f", "content": "%%%", "encoding": "base64"}),
            ),
            ("edit_file", json!({"path": "f", "old_text": "", "new_text": "y"})),
            ("apply_patch", json!({"diff": "not a diff"})),
            ("grep", json!({"pattern": "("})),
            ("glob", json!({"pattern": "[a"})),
            ("ls", json!({"cursor": "%zz"})),
            ("raed_file", json!({})),
        ] {
            let answer = room.toolbox.call(tool, arguments.clone()).await;
            let error = answer.to_json()["error"].clone();
            assert!(!answer.ok, "{tool} {arguments}");
            assert!(
                error["hint"].as_str().is_some_and(|hint| !hint.is_empty()),
                "{tool} {arguments}: {error}"
            );
        }
        assert_eq!(room.read("f").await, "x", "{}", room.kind);
    }
}

#[tokio::test]
async fn promise_17_nothing_is_ignored_silently() {
    for text in [
        r#"{"storage": "memory:", "capabilities": {"fs": {"readonly": true}}}"#,
        r#"{"storage": "memory:", "capabilities": {"git": true}}"#,
        r#"{"storage": "memory:", "naming": "bare"}"#,
    ] {
        assert_eq!(
            WorkspaceConfig::from_json(text).unwrap_err().kind().as_str(),
            "invalid",
            "{text}"
        );
    }
    for text in [
        r#"{"storage": {"kind": "memory", "durability": "full"}}"#,
        r#"{"storage": {"kind": "local", "dir": ".", "durabilty": "full"}}"#,
        r#"{"storage": {"kind": "s4"}}"#,
        r#"{"storage": "memory:", "capabilities": {"fs": {"require_approval": ["delete"]}}}"#,
    ] {
        let config = WorkspaceConfig::from_json(text).unwrap();
        assert!(Garret::new().open_config("x", &config).await.is_err(), "{text}");
    }
}

#[tokio::test]
async fn promise_18_the_same_calls_give_the_same_results() {
    let mut answers = Vec::new();
    for room in open_rooms().await {
        let mut transcript = Vec::new();
        for (tool, arguments) in [
            ("write_file", json!({"path": "a/b.txt", "content": "one\ntwo\n"})),
            ("append_file", json!({"path": "a/b.txt", "content": "three"})),
            (
                "edit_file",
                json!({"path": "a/b.txt", "old_text": "two", "new_text": "2"}),
            ),
            ("copy", json!({"src": "a", "dest": "c"})),
            ("move", json!({"src": "c/b.txt", "dest": "c/d.txt"})),
            ("move", json!({"src": "a", "dest": "a/in"})),
            ("move", json!({"src": "a/b.txt", "dest": "c/d.txt"})),
            ("rm", json!({"path": "c"})),
            ("rm", json!({"path": "", "recursive": true})),
            ("mkdir", json!({"path": "a/b.txt/x"})),
            ("ls", json!({"recursive": true})),
            ("read_file", json!({"path": "c/d.txt", "offset": 1, "limit": 1})),
            ("grep", json!({"pattern": "t[a-z]+"})),
            ("read_file", json!({"path": "a"})),
            ("read_file", json!({"path": "a/b.txt/x"})),
        ] {
            let mut answer = room.toolbox.call(tool, arguments).await.to_json();
            forget_what_differs(&mut answer);
            transcript.push(answer);
        }
        answers.push(transcript);
    }
    let local = answers.pop().unwrap();
    for (memory, local) in answers.pop().unwrap().into_iter().zip(local) {
        assert_eq!(memory, local);
    }
}

/// Takes out versions and times, which differ by their nature.
fn forget_what_differs(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|key, _| !["version", "modified_at", "text"].contains(&key.as_str()));
            object.values_mut().for_each(forget_what_differs);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_what_differs),
        _ => {}
    }
}

/// Shown from outside: the system calls of a whole `garret` process, in their order.
#[test]
fn promise_19_a_returned_write_is_durable() {
    let directory = tempfile::tempdir().unwrap();
    let calls = |durability: &str| {
        let log = directory.path().join(format!("{durability}.log"));
        let mut command = std::process::Command::new("strace");
        command
            .args(["-f", "-o"])
            .arg(&log)
            .args(["-e", "trace=fsync,fdatasync,rename,renameat,renameat2"]);
        command
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_writes_one_file", "--nocapture"]);
        command
            .env("GARRET_TEST_DIRECTORY", directory.path())
            .env("GARRET_TEST_DURABILITY", durability);
        let status = command
            .output()
            .expect("strace is installed by scripts/setup-tests")
            .status;
        assert!(status.success());
        let log = std::fs::read_to_string(log).unwrap();
        let names = log.lines().filter_map(|line| {
            line.split_whitespace()
                .nth(1)?
                .split_once('(')
                .map(|(name, _)| name.to_owned())
        });
        names
            .map(|name| {
                if name.contains("sync") {
                    "sync".to_owned()
                } else {
                    "rename".to_owned()
                }
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(calls("full"), ["sync", "rename", "sync"]);
    assert_eq!(calls("relaxed"), ["rename"]);
}

/// The process that the test above watches; by itself it has nothing to do.
#[tokio::test]
async fn child_that_writes_one_file() {
    let (Ok(directory), Ok(durability)) = (
        std::env::var("GARRET_TEST_DIRECTORY"),
        std::env::var("GARRET_TEST_DURABILITY"),
    ) else {
        return;
    };
    let storage = json!({"storage": {"kind": "local", "dir": directory, "durability": durability}});
    let config = WorkspaceConfig::from_json(&storage.to_string()).unwrap();
    let toolbox = Garret::new().open_config("room", &config).await.unwrap();
    assert!(
        toolbox
            .call("write_file", json!({"path": "f", "content": "x"}))
            .await
            .ok
    );
}

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
            .on(room.workspace().at(&Point::Named("before".into())).await.unwrap());
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
            merged.change.is_none() && !room.exists("other").await,
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
            door: "api",
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
        assert!(denied.is_err() || denied.unwrap().is_none(), "{}", room.kind);
    }
    for kind in ["local", "filestore"] {
        let room = Room::open(kind, FsPolicy::default()).await;
        room.write("secret/key", "hidden words").await;
        room.write("plain", "x").await;
        let mut config = WorkspaceConfig::on(StorageConfig::Table {
            kind: kind.into(),
            options: room.workspace().reference().unwrap().payload,
        });
        config.capabilities.fs = Declared::Options(denying(&["secret"]));
        let garret = Garret::new().home(Home::new(room.home.path()));
        let fenced = garret.open_config("room", &config).await.unwrap();
        let log = fenced.workspace().log(LogRequest::default()).await.unwrap();
        let shown = serde_json::to_string(&log).unwrap();
        assert!(!shown.contains("key"), "{kind}: {shown}");
        assert_eq!(log.changes.len(), 1, "{kind}: {shown}");
        let past = fenced.workspace().at(&Point::Number(1)).await.unwrap();
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

/// The child of promise 28: writes until it is killed, and says what it was told is done.
async fn write_until_killed(home: &str, url: &str) -> ! {
    let toolbox = Garret::new().home(Home::new(home)).open_url(url).await.unwrap();
    for number in 0.. {
        let file = |name: &str| format!("--- /dev/null\n+++ b/{number}/{name}\n@@ -0,0 +1 @@\n+{number}\n");
        let patch = [file("a"), file("b")].concat();
        let answer = toolbox.call("apply_patch", json!({"diff": patch})).await;
        assert!(answer.ok, "{}", answer.text);
        // Straight to the descriptor: the test harness keeps what is printed.
        use std::io::Write;
        writeln!(
            std::fs::File::options().write(true).open("/dev/stderr").unwrap(),
            "done {number}"
        )
        .unwrap();
    }
    unreachable!("it is killed before")
}

#[tokio::test]
async fn promise_28_a_crash_leaves_every_change_that_was_done_and_no_half_of_one() {
    use std::io::BufRead;
    let asked = std::env::var("GARRET_PROMISE_28");
    if let Some((home, url)) = asked.as_deref().ok().and_then(|asked| asked.split_once('|')) {
        write_until_killed(home, url).await;
    }
    for kind in ["filestore", "local"] {
        let room = Room::open(kind, FsPolicy::default()).await;
        let url = match room.host_path() {
            Some(path) => format!("local:{}", path.display()),
            None => "filestore:room".to_owned(),
        };
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "promise_28_a_crash_leaves_every_change_that_was_done_and_no_half_of_one",
            ])
            .args(["--nocapture", "--test-threads=1"])
            .env("GARRET_PROMISE_28", format!("{}|{url}", room.home.path().display()))
            .stderr(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
        let said = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("done ")?.parse::<u32>().ok());
        let last = said.take(25).last().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let found = room.reopened().await;
        for number in 0..=last {
            for name in ["a", "b"] {
                let read = found.workspace().read_bytes(&format!("{number}/{name}")).await;
                assert_eq!(read.unwrap().bytes, format!("{number}\n"), "{kind}");
            }
        }
        let (a, b) = (format!("{}/a", last + 1), format!("{}/b", last + 1));
        let has = |path: String| {
            let workspace = found.workspace().clone();
            async move { workspace.read_bytes(&path).await.is_ok() }
        };
        assert_eq!(
            has(a).await,
            has(b).await,
            "{kind}: both files of the change that was under way, or neither"
        );
        let log = found.workspace().log(LogRequest::default()).await.unwrap();
        assert!(log.changes.len() > last as usize, "{kind}: each is in the journal");
    }
}

#[tokio::test]
async fn promise_29_damaged_content_is_an_error_never_wrong_bytes() {
    let room = Room::open("filestore", FsPolicy::default()).await;
    let content = (0..200_000_u32).map(|number| (number % 251) as u8).collect::<Vec<_>>();
    room.workspace()
        .write("large", content, Default::default())
        .await
        .unwrap();
    room.write("small", "untouched").await;
    let mut blobs = walk(&room.home.path().join("blobs"));
    let blob = blobs.pop().unwrap();
    let mut bytes = std::fs::read(&blob).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&blob, &bytes).unwrap();
    let error = room.workspace().read_bytes("large").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(error.path(), Some("large"));
    assert!(error.to_string().contains("`large`"), "in text, too: {error}");
    std::fs::remove_file(&blob).unwrap();
    let error = room.workspace().read_bytes("large").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(room.read("small").await, "untouched");
}

fn walk(directory: &std::path::Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { walk(&path) } else { vec![path] };
    entries.flat_map(below).collect()
}
