//! Workspaces in a bucket, put together as a program does it: how many requests each operation takes, history included, and that what others
//! do is neither missed nor overwritten.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::disallowed_methods, reason = "tests look at the home from outside")]

use std::collections::BTreeSet;

use garret::text::edit::Edit;
use garret::{
    CommandProgram, EditOptions, ErrorKind, Garret, GrepRequest, Home, Point, RunRequest, StorageConfig, Toolbox,
    Workspace, WorkspaceConfig, WriteOptions,
};
use garret_testkit::s3::{Fault, Proxy, Rule, Seen, Server};
use serde_json::json;
use tempfile::TempDir;

/// A program with a home, and a server behind a proxy that counts.
struct Desk {
    home: TempDir,
    server: &'static Server,
    proxy: Proxy,
    prefix: String,
}

impl Desk {
    fn new() -> Self {
        let server = Server::shared_seaweed();
        Self {
            home: tempfile::tempdir().unwrap(),
            proxy: Proxy::before(server),
            prefix: server.prefix(),
            server,
        }
    }

    fn config(&self) -> WorkspaceConfig {
        let keys = self.server.keys();
        let options = json!({
            "bucket": self.server.bucket(), "prefix": self.prefix, "endpoint": self.proxy.endpoint(), "force_path_style": true,
            "retry_backoff_ms": 1, "access_key_id": keys.access_key_id, "secret_access_key": keys.secret_access_key,
        });
        let mut config = WorkspaceConfig::with_storage(StorageConfig::Table {
            kind: "s3".into(),
            options: options.as_object().unwrap().clone(),
        });
        config.capabilities = garret::Capabilities::from_names(["fs", "shell", "snapshot"]).unwrap();
        config
    }

    /// A workspace that has met its server.
    async fn open(&self) -> Toolbox {
        let toolbox = self.open_unmet().await;
        toolbox.workspace().stat("never/there").await.unwrap_err();
        self.proxy.forget();
        toolbox
    }

    /// A workspace of a program that begins anew, as it is right after opening.
    async fn open_unmet(&self) -> Toolbox {
        let garret = Garret::new().home(Home::new(self.home.path()));
        garret.open_config("cloud", &self.config()).await.unwrap()
    }

    /// What was asked of the server since the last time, in order.
    fn asked(&self) -> Vec<&'static str> {
        let mut operations = self.proxy.operations();
        self.proxy.forget();
        operations.sort_unstable();
        operations
    }

    /// What another program does.
    fn put(&self, path: &str, content: &str) {
        let key = format!("{}/{path}", self.prefix);
        self.server.boto().put(&key, content.as_bytes(), &[]);
    }

    fn get(&self, path: &str) -> String {
        let key = format!("{}/{path}", self.prefix);
        String::from_utf8(self.server.boto().get(&key).body).unwrap()
    }
}

async fn write(workspace: &Workspace, path: &str, content: &str) {
    workspace
        .write(path, content.to_owned(), WriteOptions::default())
        .await
        .unwrap();
}

async fn edit(workspace: &Workspace, path: &str, old: &str, new: &str) {
    let edits = [Edit {
        old_text: old.into(),
        new_text: new.into(),
        ..Edit::default()
    }];
    workspace.edit(path, &edits, EditOptions::default()).await.unwrap();
}

fn grepping(pattern: &str) -> GrepRequest {
    GrepRequest {
        pattern: pattern.into(),
        ..GrepRequest::default()
    }
}

async fn run(workspace: &Workspace, script: &str) -> garret::RunResult {
    workspace
        .run(RunRequest::for_program(CommandProgram::Shell(script.into())))
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_operation_takes_few_requests_history_included() {
    let desk = Desk::new();
    let toolbox = desk.open().await;
    let workspace = toolbox.workspace();
    write(workspace, "warm.txt", "up\n").await;
    println!("first write: {:?}", desk.asked());
    for round in ["a.txt", "b.txt"] {
        write(workspace, round, "one\n").await;
        let asked = desk.asked();
        println!("create: {asked:?}");
        assert_eq!(asked.len(), 1, "create: {asked:?}");
        workspace.stat(round).await.unwrap();
        let asked = desk.asked();
        println!("stat: {asked:?}");
        assert_eq!(asked.len(), 1, "stat: {asked:?}");
        write(workspace, round, "two\n").await;
        let asked = desk.asked();
        println!("overwrite: {asked:?}");
        assert!(asked.len() <= 2, "overwrite: {asked:?}");
        edit(workspace, round, "two", "three").await;
        let asked = desk.asked();
        println!("edit: {asked:?}");
        assert_eq!(asked.len(), 2, "edit: {asked:?}");
        workspace
            .append(round, "more\n", garret::AppendOptions::default())
            .await
            .unwrap();
        let asked = desk.asked();
        println!("append: {asked:?}");
        assert!(asked.len() <= 3, "append: {asked:?}");
    }
    assert_eq!(desk.get("a.txt"), "three\nmore\n");
    // A program that begins anew knows what the one before knew.
    let toolbox = desk.open().await;
    let workspace = toolbox.workspace();
    write(workspace, "a.txt", "anew\n").await;
    let asked = desk.asked();
    println!("overwrite after reopening: {asked:?}");
    assert!(asked.len() <= 2, "overwrite after reopening: {asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_a_snapshot_and_a_command_fetch_only_what_is_new() {
    let desk = Desk::new();
    for number in 0..30 {
        desk.put(&format!("d{}/f{number}.txt", number % 3), &format!("canary {number}\n"));
    }
    let toolbox = desk.open().await;
    let workspace = toolbox.workspace();
    let gets = |asked: &[&str]| asked.iter().filter(|one| **one == "GET").count();
    assert_eq!(workspace.grep(grepping("canary")).await.unwrap().match_count, 30);
    let asked = desk.asked();
    assert_eq!(gets(&asked), 30, "{asked:?}");
    assert_eq!(workspace.grep(grepping("canary")).await.unwrap().match_count, 30);
    let asked = desk.asked();
    println!("second grep: {asked:?}");
    assert_eq!(gets(&asked), 0, "{asked:?}");
    assert!(asked.len() <= 2, "{asked:?}");
    workspace
        .snapshot("first", garret::SnapshotOptions::default())
        .await
        .unwrap();
    println!("first snapshot: {}", desk.asked().len());
    workspace
        .snapshot("second", garret::SnapshotOptions::default())
        .await
        .unwrap();
    let asked = desk.asked();
    println!("second snapshot: {asked:?}");
    assert_eq!(asked, ["LIST"]);
    desk.put("d1/f1.txt", "canary changed\n");
    let ran = run(
        workspace,
        "cat d1/f1.txt; echo made > made.txt; rm d2/f2.txt; echo new > d0/f0.txt",
    )
    .await;
    assert_eq!(ran.stdout.0, "canary changed\n");
    let asked = desk.asked();
    println!("first command: {asked:?}");
    // What others changed, and what the storage puts by of the two files that the command takes away, should a later step fail.
    assert!(gets(&asked) <= 3, "only what changed: {asked:?}");
    assert_eq!(
        (desk.get("made.txt"), desk.get("d0/f0.txt")),
        ("made\n".into(), "new\n".into())
    );
    run(workspace, "cat d0/f0.txt").await;
    let asked = desk.asked();
    println!("a command that only reads: {asked:?}");
    assert_eq!(asked, ["LIST"]);
    workspace.undo(garret::UndoRequest::Last(1)).await.unwrap();
    println!("undo: {:?}", desk.asked());
    assert_eq!(desk.get("d0/f0.txt"), "canary 0\n");
    assert_eq!(desk.get("d2/f2.txt"), "canary 2\n");
    let past = workspace.at_point(&Point::Snapshot("first".into())).await.unwrap();
    assert_eq!(past.read_bytes("d1/f1.txt").await.unwrap().bytes, "canary 1\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_several_pages_is_whole_and_its_directories_are_listed_side_by_side() {
    const EACH: usize = 400;
    let desk = Desk::new();
    let toolbox = desk.open().await;
    let workspace = toolbox.workspace();
    run(
        workspace,
        &format!("for d in one two three; do mkdir -p $d/deep; for i in $(seq {EACH}); do echo $d $i > $d/deep/f$i; done; done; echo top > top.txt"),
    )
    .await;
    let start = format!("{}/", desk.prefix);
    let keys = desk.server.boto().keys(&start);
    let keys: Vec<_> = keys
        .iter()
        .filter(|key| !key.contains("/.garret/") && !key.ends_with('/'))
        .collect();
    assert_eq!(keys.len(), 3 * EACH + 1);
    desk.proxy.forget();
    let found = workspace
        .glob(garret::GlobRequest {
            pattern: "**".into(),
            ..Default::default()
        })
        .await
        .unwrap();
    let asked = desk.asked();
    let mut expected: Vec<_> = keys.iter().map(|key| key[start.len()..].to_owned()).collect();
    expected.sort();
    assert!(found.next_cursor.is_some());
    assert_eq!(found.paths, expected[..found.paths.len()]);
    // A page that has more to come, the directories, and one list for each of them, and of what Garret keeps for itself.
    assert!(
        asked.iter().all(|one| *one == "LIST") && (5..=6).contains(&asked.len()),
        "{asked:?}"
    );
}

fn writes(asked: &[&str]) -> usize {
    let is_write = |one: &&&str| !matches!(**one, "GET" | "HEAD" | "LIST");
    asked.iter().filter(is_write).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_probed_once_and_asked_only_where_an_operation_needs_it() {
    let desk = Desk::new();
    let toolbox = desk.open_unmet().await;
    assert_eq!(desk.asked(), [""; 0], "opening");
    write(toolbox.workspace(), "a.txt", "one\n").await;
    let asked = desk.asked();
    println!("first write, with the probe: {asked:?}");
    assert!(writes(&asked) > 5, "the server is probed: {asked:?}");
    drop(toolbox);

    let toolbox = desk.open_unmet().await;
    let workspace = toolbox.workspace();
    let log = workspace.log(Default::default()).await.unwrap();
    assert_eq!(log.changes.len(), 1);
    workspace.snapshots().await.unwrap();
    workspace.branches().await.unwrap();
    assert_eq!(desk.asked(), [""; 0], "what the journal knows needs no server");
    assert_eq!(workspace.read_bytes("a.txt").await.unwrap().bytes, "one\n");
    let asked = desk.asked();
    println!("first read of a program that knows the server: {asked:?}");
    assert!(asked.len() <= 2 && writes(&asked) == 0, "{asked:?}");
    drop(toolbox);

    let toolbox = desk.open_unmet().await;
    write(toolbox.workspace(), "b.txt", "two\n").await;
    let asked = desk.asked();
    println!("first write of a program that knows the server: {asked:?}");
    assert_eq!(writes(&asked), 1, "{asked:?}");
    let probes = std::fs::read_dir(desk.home.path().join("probes")).unwrap();
    for record in probes {
        let text = std::fs::read_to_string(record.unwrap().path()).unwrap();
        let keys = desk.server.keys();
        assert!(
            !text.contains(&keys.access_key_id) && !text.contains(&keys.secret_access_key),
            "{text}"
        );
    }
}

/// Each probe writes into a directory of its own.
fn probes_of(seen: &[Seen]) -> usize {
    let place = |seen: &Seen| Some(seen.target.split_once("/probe/")?.1.split('/').next()?.to_owned());
    let written = seen.iter().filter(|seen| seen.operation == "PUT");
    written.filter_map(place).collect::<BTreeSet<_>>().len()
}

impl Desk {
    /// How often the server was probed since the last time.
    fn probes(&self) -> usize {
        let probes = probes_of(&self.proxy.seen());
        self.proxy.forget();
        probes
    }

    /// How many probes the home remembers.
    fn remembered(&self) -> usize {
        std::fs::read_dir(self.home.path().join("probes")).unwrap().count()
    }
}

/// The answers contradict a probe that another program has left: the write is refused, the probe is dropped, and the next operation of
/// any program probes before it writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_remembered_probe_is_dropped_when_an_answer_contradicts_it() {
    for (status, code, kind, probes) in [
        // The journal tries once more, after a probe.
        (501, "NotImplemented", ErrorKind::Unsupported, 1),
        // The condition holds, and yet the server refuses it.
        (412, "PreconditionFailed", ErrorKind::Unavailable, 0),
    ] {
        let desk = Desk::new();
        write(desk.open().await.workspace(), "a.txt", "one\n").await;
        let toolbox = desk.open_unmet().await;
        desk.proxy.forget();
        write(toolbox.workspace(), "b.txt", "two\n").await;
        assert_eq!((desk.probes(), desk.remembered()), (0, 1), "{status}: it is remembered");

        let refusing = Rule::new(Fault::Answer { status, code })
            .operation("PUT")
            .target("/c.txt");
        let struck = desk.proxy.add(refusing);
        let refused = toolbox
            .workspace()
            .write("c.txt", "three\n", WriteOptions::default())
            .await;
        let error = refused.expect_err("the server refuses the write");
        assert_eq!(error.kind(), kind, "{status}: {error:?}");
        assert!(struck.struck() > 0, "{status}");
        assert_eq!(
            (desk.probes(), desk.remembered()),
            (probes, 0),
            "{status}: it is dropped"
        );

        desk.proxy.clear();
        write(toolbox.workspace(), "c.txt", "three\n").await;
        assert_eq!(
            (desk.probes(), desk.remembered()),
            (1, 1),
            "{status}: it is asked again"
        );
        assert_eq!(desk.get("c.txt"), "three\n", "{status}");
        write(desk.open_unmet().await.workspace(), "d.txt", "four\n").await;
        assert_eq!((desk.probes(), desk.remembered()), (0, 1), "{status}: it is remembered");
    }
}

/// A server that ignores conditions takes the place of one that keeps them: for a program that has met the first one, and for one that only
/// remembers it.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_the_place_of_another_is_probed_before_anything_is_written() {
    let desk = Desk::new();
    let other = Server::rclone();
    let key = format!("{}/d/a.txt", desk.prefix);
    other.boto().put(&key, b"theirs\n", &[]);
    desk.put("d/a.txt", "one\n");
    let met = desk.open().await;
    let unmet = desk.open_unmet().await;
    assert_eq!(desk.remembered(), 1);

    for (toolbox, name) in [(&met, "met"), (&unmet, "unmet")] {
        desk.proxy.switch_to(desk.server);
        write(desk.open().await.workspace(), "other.txt", name).await;
        assert_eq!(desk.remembered(), 1, "{name}");
        desk.proxy.switch_to(&other);
        desk.proxy.forget();
        for attempt in 1..=2 {
            let refused = toolbox
                .workspace()
                .write("d/a.txt", "two\n", WriteOptions::default())
                .await;
            let error = refused.expect_err("the server ignores preconditions");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error:?}");
            assert!(error.to_string().contains("ignores preconditions"), "{name}: {error}");
            let seen = desk.proxy.seen();
            assert!(
                !seen
                    .iter()
                    .any(|seen| seen.operation == "PUT" && seen.target.contains("/a.txt")),
                "{name}: {seen:?}"
            );
            assert!(desk.probes() > 0 && desk.remembered() == 0, "{name}, attempt {attempt}");
        }
        assert_eq!(other.boto().get(&key).body, b"theirs\n", "{name}");
    }

    desk.proxy.switch_to(desk.server);
    for toolbox in [&met, &unmet] {
        assert_eq!(toolbox.workspace().read_bytes("d/a.txt").await.unwrap().bytes, "one\n");
    }
    write(met.workspace(), "d/a.txt", "two\n").await;
    assert_eq!(desk.get("d/a.txt"), "two\n");
}
