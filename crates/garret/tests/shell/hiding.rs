//! What a view may not read does not exist for its commands, whenever it comes to the files and under whatever name.

#![allow(
    clippy::print_stdout,
    reason = "it says how many starts were made, and how many leaked"
)]

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use garret::{FsPolicy, RunRequest, ScopeOptions, Workspace};
use garret_testkit::s3::Server;

use crate::shell::support::{ALL, On, Room, S3_ENDPOINT, each, everywhere, on_all, room, room_with};

/// What no command of a narrowed view may see.
const SECRET: &str = "secret-9d2f";

/// The workspace without every `.env` and the directories `keys` and `team/b`.
fn narrowed(room: &Room) -> Workspace {
    let policy = FsPolicy {
        deny_read: vec!["**/.env".into(), "keys".into(), "team/b".into()],
        ..FsPolicy::default()
    };
    scope(room, "", policy)
}

fn scope(room: &Room, path: &str, policy: FsPolicy) -> Workspace {
    let env = Default::default();
    room.workspace().scope(path, ScopeOptions { policy, env }).unwrap()
}

async fn run(workspace: &Workspace, text: &str) -> String {
    let ran = workspace.run(RunRequest::shell(text)).await;
    ran.unwrap_or_else(|error| panic!("{text}: {error}")).output
}

/// The user that this test runs as.
fn user() -> u32 {
    std::fs::metadata("/proc/self").unwrap().uid()
}

/// How many commands are started: few by default, since each takes a while.
fn starts() -> usize {
    let asked = std::env::var("GARRET_STARTS").ok();
    asked.map_or(30, |asked| asked.parse().expect("GARRET_STARTS is a number"))
}

/// Writes denied files through the wider view, over and over: made, moved from a visible name, moved with their directory, removed.
async fn write_through_garret(workspace: Workspace, is_over: Arc<AtomicBool>) {
    let write = async |path: &str, text: &str| {
        let _ = workspace
            .write(path, text.as_bytes().to_vec(), Default::default())
            .await;
    };
    for round in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let number = round % 7;
        write(&format!("d{number}/.env"), SECRET).await;
        write(&format!("keys/k{number}"), SECRET).await;
        write(&format!("team/b/note{number}"), SECRET).await;
        write(&format!("d{number}/plain"), "plain").await;
        let _ = workspace
            .remove(
                &format!("d{number}"),
                garret::RemoveOptions {
                    recursive: true,
                    ..Default::default()
                },
            )
            .await;
        tokio::task::yield_now().await;
    }
}

/// Does the same as another program: with renames between visible and denied names, and writes into files that were moved.
fn write_as_another_program(root: &Path, is_over: &AtomicBool) {
    for round in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let directory = root.join(format!("x{}", round % 5));
        let (plain, hidden) = (directory.join("plain"), directory.join(".env"));
        let _ = std::fs::create_dir_all(&directory);
        let _ = std::fs::write(&plain, "plain");
        let _ = std::fs::rename(&plain, &hidden);
        let _ = std::fs::write(&hidden, SECRET);
        let _ = std::fs::create_dir_all(root.join("keys/deep"));
        let _ = std::fs::write(root.join("keys/deep/key"), SECRET);
        let _ = std::fs::write(root.join("keys/deep/key"), "empty");
        let _ = std::fs::rename(root.join("keys/deep"), directory.join("deep"));
        let _ = std::fs::rename(directory.join("deep"), root.join("keys/deep"));
        let _ = std::fs::write(root.join("keys/deep/key"), SECRET);
        let _ = std::fs::remove_file(root.join("keys/deep/key"));
        let _ = std::fs::remove_dir_all(&directory);
    }
}

/// Starts commands of two narrowed views while others write what they may not see; gives how many saw it.
async fn leaks_beside_a_busy_writer(on: On) -> usize {
    let room = room(on).await;
    room.sh(
        "mkdir -p team/a team/b src && echo mine > team/a/own && for i in 1 2 3 4 5 6 7 8; do echo $i > src/$i; done",
    )
    .await;
    let is_over = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn(write_through_garret(room.workspace().clone(), is_over.clone()));
    let other = (on == On::Local).then(|| {
        let (root, is_over) = (room.directory.path().to_owned(), is_over.clone());
        std::thread::spawn(move || write_as_another_program(&root, &is_over))
    });
    let views = [narrowed(&room), scope(&room, "team/a", FsPolicy::default())];
    let mut leaks = 0;
    for number in 0..starts() {
        let view = &views[number % views.len()];
        let seen = run(
            view,
            "cd /workspace && cat src/1 team/a/own; find . -name .env; find keys team/b; grep -rs secret-9d2f .; sleep 0.01; grep -rs secret-9d2f .",
        )
        .await;
        let denied = [SECRET, "/.env", "keys/", "team/b/"];
        if denied.iter().any(|denied| seen.contains(denied)) {
            println!("{on:?}: {seen}");
            leaks += 1;
        }
        assert!(seen.contains("mine"), "{on:?}: {seen}");
        if number % 100 == 99 {
            println!("{on:?}: {} starts so far, {leaks} leaks", number + 1);
        }
    }
    is_over.store(true, Ordering::Relaxed);
    writing.await.unwrap();
    if let Some(other) = other {
        other.join().unwrap();
    }
    room.workspace().close().await.unwrap();
    leaks
}

fn start_beside_a_busy_writer(storages: &[On]) {
    let user = user();
    on_all(storages, |on| async move {
        let leaks = leaks_beside_a_busy_writer(on).await;
        println!("{on:?} as user {user}: {} starts, {leaks} leaks", starts());
        assert_eq!(leaks, 0, "{on:?}");
    });
}

#[test]
fn promise_34_no_start_beside_a_busy_writer_shows_what_is_denied() {
    start_beside_a_busy_writer(&ALL);
}

#[test]
fn no_start_beside_a_busy_writer_in_a_bucket_shows_what_is_denied() {
    start_beside_a_busy_writer(&[On::S3]);
}

#[test]
fn no_start_of_an_unprivileged_user_shows_what_is_denied() {
    if user() == 0 {
        run_unprivileged("promise_34_no_start_beside_a_busy_writer_shows_what_is_denied", &[]);
    }
}

#[test]
fn no_start_of_an_unprivileged_user_in_a_bucket_shows_what_is_denied() {
    if user() == 0 {
        let endpoint = Server::shared_seaweed().endpoint();
        run_unprivileged(
            "no_start_beside_a_busy_writer_in_a_bucket_shows_what_is_denied",
            &[(S3_ENDPOINT, &endpoint)],
        );
    }
}

/// Runs a test of this file in another process, as a user without rights.
fn run_unprivileged(test: &str, environment: &[(&str, &str)]) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let tests = std::env::current_exe().unwrap();
    let supervisor = tests
        .ancestors()
        .skip(1)
        .take(2)
        .map(|above| above.join("garret-supervisor"));
    let supervisor = supervisor
        .into_iter()
        .find(|path| path.exists())
        .expect("the supervisor is built");
    std::fs::copy(&supervisor, directory.path().join("garret-supervisor")).unwrap();
    std::fs::copy(&tests, directory.path().join("tests")).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"])
        .arg(directory.path().join("tests"))
        .args(["--nocapture", "--exact"])
        .arg(format!("shell::hiding::{test}"))
        .env("TMPDIR", directory.path())
        .envs(environment.iter().copied())
        .current_dir(directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{text}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
}

/// How many rounds a process has made that counts them.
async fn rounds(view: &Workspace, id: &str) -> (usize, String) {
    let request = garret::OutputRequest {
        id: id.to_owned(),
        cursor: 0,
        wait: std::time::Duration::from_millis(50),
        max_bytes: 1_000_000,
        with_tail: false,
        with_details: false,
    };
    let output = view.output(request).await.unwrap().output;
    (output.matches("round").count(), output)
}

async fn wait_for_rounds(view: &Workspace, id: &str, more: usize) -> String {
    let (before, _) = rounds(view, id).await;
    for _ in 0..600 {
        let (now, output) = rounds(view, id).await;
        if now >= before + more {
            return output;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the process stands still");
}

#[test]
fn promise_34_a_denied_path_that_comes_later_is_not_there_for_what_runs() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.sh("mkdir -p sub other && echo 1 > sub/plain && echo secret-9d2f > other/moved && echo a > kept")
            .await;
        let view = narrowed(&room);
        let text = "while true; do cat .env sub/.env sub/deep/.env keys/key keys/moved 2>/dev/null; ls -A . sub; echo round; sleep 0.02; done";
        let id = view.start(RunRequest::shell(text)).await.unwrap().id;
        wait_for_rounds(&view, &id, 1).await;
        // Through Garret, by a wider view: made, and moved.
        room.write(".env", SECRET).await;
        room.write("sub/deep/.env", SECRET).await;
        room.write("sub/new", "new").await;
        room.workspace()
            .rename("other", "keys", Default::default())
            .await
            .unwrap();
        room.workspace()
            .rename("kept", "sub/.env", Default::default())
            .await
            .unwrap();
        // By another program, where the files lie in a directory.
        if on == On::Local {
            std::fs::write(room.directory.path().join("sub/.env"), SECRET).unwrap();
            std::fs::write(room.directory.path().join("keys/key"), SECRET).unwrap();
            std::fs::write(room.directory.path().join("by-others"), "theirs").unwrap();
        }
        let output = wait_for_rounds(&view, &id, 3).await;
        let is_denied = |text: &str| [SECRET, ".env", "keys"].iter().any(|denied| text.contains(denied));
        assert!(!is_denied(&output), "{on:?}: {output}");
        assert!(output.contains("new"), "{on:?}: what may be seen comes: {output}");
        // A command that joins sees the same files.
        let joined = run(&view, "cat sub/new by-others; find . | sort; grep -rs secret-9d2f .").await;
        assert!(!is_denied(&joined) && joined.contains("new"), "{on:?}: {joined}");
        assert_eq!(joined.contains("theirs"), on == On::Local, "{on:?}: {joined}");
        let beside = RunRequest {
            effects: Some(garret::EffectsMode::Discard),
            ..RunRequest::shell("find . | sort; grep -rs secret-9d2f .")
        };
        let beside = view.run(beside).await.unwrap().output;
        assert!(!is_denied(&beside), "{on:?}: {beside}");
        view.kill(&id).await.unwrap();
        let (_, output) = rounds(&view, &id).await;
        assert!(!is_denied(&output), "{on:?}: {output}");
        assert_eq!(room.read(".env").await, SECRET, "{on:?}");
        room.workspace().close().await.unwrap();
    });
}

#[test]
fn promise_34_denied_paths_are_absent_where_history_leaves_them_out() {
    everywhere(|on| async move {
        let room = room_with(on, |config| config.exclude = vec!["target/".into()]).await;
        room.sh("mkdir -p target/deep src && for at in target target/deep src; do echo secret-9d2f > $at/.env; echo built > $at/built; done")
            .await;
        let allowing = FsPolicy {
            allow_read: vec!["src".into(), "target/built".into()],
            deny_read: vec!["**/.env".into()],
            ..FsPolicy::default()
        };
        let text = "find . -type f | sort; cat target/.env target/deep/.env src/.env; cat target/built";
        let denied = run(&narrowed(&room), text).await;
        assert!(
            !denied.contains(SECRET) && !denied.contains("/.env\n"),
            "{on:?}: {denied}"
        );
        assert!(
            denied.starts_with("./src/built\n./target/built\n./target/deep/built\n"),
            "{on:?}: {denied}"
        );
        let allowed = run(&scope(&room, "", allowing), text).await;
        assert!(!allowed.contains(SECRET), "{on:?}: {allowed}");
        assert!(
            allowed.starts_with("./src/built\n./target/built\n"),
            "{on:?}: {allowed}"
        );
        assert!(!allowed.contains("./target/deep"), "{on:?}: {allowed}");
        let scoped = run(
            &scope(&room, "src", FsPolicy::default()),
            "cd /workspace; find . -type f; cat target/built",
        )
        .await;
        assert!(!scoped.contains("./target"), "{on:?}: {scoped}");
        // What is left out is still the bench's own for whoever may see it.
        assert_eq!(room.sh("cat target/.env").await.output, format!("{SECRET}\n"), "{on:?}");
    });
}

#[test]
fn promise_09_names_that_are_not_utf_8_are_hidden_from_views_that_cannot_judge_them() {
    each(|on| async move {
        let room = room(on).await;
        room.sh("mkdir -p sub team/a team/b $'d\\xe9' && for at in $'k\\xe9y' $'sub/k\\xe9y' $'d\\xe9/key' $'team/b/k\\xe9y'; do echo secret-9d2f > $at; done; echo own > $'team/a/k\\xe9y'")
            .await;
        let seen = run(&narrowed(&room), "grep -rs secret-9d2f .; ls").await;
        assert_eq!(seen, "sub\nteam\n", "{on:?}");
        let seen = run(
            &scope(&room, "team/a", FsPolicy::default()),
            "cd /workspace; grep -rsh '' .; ls",
        )
        .await;
        assert_eq!(seen, "own\nteam\n", "{on:?}");
        if on == On::Local {
            let name = std::ffi::OsStr::from_bytes(b"k\xe9y");
            assert!(room.directory.path().join(name).exists(), "it stays as it is");
        }
    });
}

#[test]
fn promise_34_a_second_name_of_a_denied_file_is_not_there() {
    on_all(&[On::Local], |on| async move {
        let room = room(on).await;
        let root = room.directory.path();
        for directory in ["keys", "sub"] {
            std::fs::create_dir(root.join(directory)).unwrap();
        }
        for (path, other) in [(".env", "env"), ("keys/key", "sub/key"), ("sub/.env", "sub/plain")] {
            std::fs::write(root.join(path), SECRET).unwrap();
            std::fs::hard_link(root.join(path), root.join(other)).unwrap();
        }
        std::fs::write(root.join("open"), "open").unwrap();
        std::fs::hard_link(root.join("open"), root.join("sub/open")).unwrap();
        let seen = run(&narrowed(&room), "find . -type f | sort | xargs grep ''").await;
        assert_eq!(seen, "./open:open\n./sub/open:open\n", "{on:?}");
    });
}

/// An owner without the bits can look into a directory as little as a user that it does not belong to.
#[test]
fn promise_09_a_file_that_may_have_a_name_in_a_directory_that_cannot_be_read_is_denied() {
    if user() == 0 {
        run_unprivileged(
            "promise_09_a_file_that_may_have_a_name_in_a_directory_that_cannot_be_read_is_denied",
            &[],
        );
        return;
    }
    on_all(&[On::Local], |on| async move {
        let room = room(on).await;
        let root = room.directory.path();
        for directory in ["keys", "sub"] {
            std::fs::create_dir(root.join(directory)).unwrap();
        }
        for (path, other, content) in [("keys/key", "sub/key", SECRET), ("open", "sub/open", "open")] {
            std::fs::write(root.join(path), content).unwrap();
            std::fs::hard_link(root.join(path), root.join(other)).unwrap();
        }
        let set_mode = |mode| std::fs::set_permissions(root.join("keys"), PermissionsExt::from_mode(mode)).unwrap();
        for mode in [0o000, 0o400] {
            set_mode(mode);
            let view = narrowed(&room);
            let seen = run(&view, "find . -type f | sort | xargs grep ''").await;
            assert_eq!(seen, "./open:open\n./sub/open:open\n", "{on:?}: {mode:o}");
            let error = view.read_bytes("sub/key").await.unwrap_err();
            assert_eq!(error.kind(), garret::ErrorKind::Denied, "{on:?}: {error}");
        }
        set_mode(0o700);
    });
}

#[test]
fn promise_34_a_second_name_that_comes_later_is_not_there_for_what_runs() {
    on_all(&[On::Local], |on| async move {
        let room = room(on).await;
        room.write(".env", SECRET).await;
        let view = narrowed(&room);
        view.start(RunRequest::shell("sleep 1000")).await.unwrap();
        let other = garret::Garret::new().home(garret::Home::new(room.home.path()));
        let other = other.open_config("box", &room.config).await.unwrap();
        let link = RunRequest::shell("ln .env by-another-program && echo seen > plain");
        other.workspace().run(link).await.unwrap();
        room.sh("ln .env by-a-wider-view").await;
        let joined = run(&view, "cat plain; grep -rs secret-9d2f .; ls -A").await;
        assert_eq!(joined, "seen\nplain\n", "{on:?}");
        room.workspace().close().await.unwrap();
    });
}

#[test]
fn promise_34_a_directory_with_a_denied_file_stays_and_a_denied_file_is_not_replaced() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.sh("mkdir -p sub && echo secret-9d2f > sub/.env && echo plain > sub/plain")
            .await;
        let view = narrowed(&room);
        for text in [
            "rm -rf sub",
            "mv sub moved",
            "echo mine > sub/.env",
            "rm -rf sub; mkdir sub",
            "rm -rf sub; echo x > sub",
        ] {
            let result = view.run(RunRequest::shell(text)).await.unwrap();
            assert!(result.changed.change.is_none(), "{on:?}: {text}: {:?}", result.changed);
            assert_eq!(room.read("sub/.env").await, format!("{SECRET}\n"), "{on:?}: {text}");
            assert_eq!(room.read("sub/plain").await, "plain\n", "{on:?}: {text}");
        }
        let result = view
            .run(RunRequest::shell(
                "echo more >> sub/plain; rm -f sub/absent; mkdir sub/new",
            ))
            .await
            .unwrap();
        assert!(result.changed.change.is_some(), "{on:?}: {:?}", result.changed);
        assert_eq!(room.read("sub/plain").await, "plain\nmore\n", "{on:?}");
    });
}

#[test]
fn a_read_only_workspace_is_mounted_read_only() {
    each(|on| async move {
        let room = room(on).await;
        room.sh("mkdir d && echo kept > file").await;
        let policy = FsPolicy {
            read_only: true,
            ..FsPolicy::default()
        };
        let view = scope(&room, "", policy);
        for text in ["echo x > new", "echo x > file", "rm file", "mkdir e", "touch d"] {
            let result = view.run(RunRequest::shell(text)).await.unwrap();
            assert!(
                result.output.contains("Read-only file system"),
                "{on:?}: {text}: {}",
                result.output
            );
            assert!(result.changed.is_nothing(), "{on:?}: {text}: {:?}", result.changed);
        }
        assert_eq!(
            run(&view, "cat file; echo free > /tmp/free && cat /tmp/free").await,
            "kept\nfree\n",
            "{on:?}"
        );
    });
}
