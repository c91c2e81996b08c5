//! Paths that policy hides or protects, and what survives of unusual files.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use garret_core::{ErrorKind, Layer, PlacedEntry, SandboxCommand, SandboxRequest, WsPath};
use garret_testkit::sandbox::isolation::HiddenPaths;

use crate::room::{Room, directory, finish, paths, run_on, shell};

fn ws(path: &str) -> WsPath {
    WsPath::parse(path).unwrap()
}

fn hide(request: &mut SandboxRequest, paths: &[&str]) {
    request.read_filter = Some(Arc::new(HiddenPaths(paths.iter().map(|path| ws(path)).collect())));
}

/// How a layer is laid over a bench.
#[derive(Debug, Clone, Copy)]
enum Bench {
    /// Nobody changes it.
    Steady,
    /// Others may change it at any time.
    Shared,
}

const BENCHES: [Bench; 2] = [Bench::Steady, Bench::Shared];

async fn lay(room: &Room, bench: Bench) -> Arc<dyn Layer> {
    match bench {
        Bench::Steady => room.open.create_layer_on("as it is").await.unwrap(),
        Bench::Shared => room.open.create_layer().await.unwrap(),
    }
}

#[tokio::test]
async fn a_hidden_path_is_not_there_and_stays_as_it_is() {
    for kind in BENCHES {
        hidden_paths_are_not_there(kind).await;
    }
}

async fn hidden_paths_are_not_there(kind: Bench) {
    let directory = directory();
    let bench = directory.path().join("bench");
    std::fs::create_dir_all(bench.join("a/b")).unwrap();
    std::fs::create_dir_all(bench.join("keys")).unwrap();
    for path in ["a/b/secret", "a/b/plain", "keys/one", ".env"] {
        std::fs::write(bench.join(path), path).unwrap();
    }
    let room = Room::on(directory, |request| {
        hide(request, &["a/b/secret", "keys", ".env", "not/there"]);
    })
    .await;
    let layer = lay(&room, kind).await;
    let found = run_on(&*layer, shell("find . | sort")).await;
    assert_eq!(found.text(), ".\n./a\n./a/b\n./a/b/plain\n", "{kind:?}");
    let text = "cat a/b/secret .env keys/one; cat a/b/plain; echo more >> a/b/plain; stat -c %a a";
    let outcome = run_on(&*layer, shell(text)).await;
    assert_eq!(outcome.text(), "a/b/plain755\n", "{kind:?}");
    layer.lift().await.unwrap();
    let effects = layer.read_effects(None).await.unwrap();
    assert_eq!(paths(&effects), ["a/b/plain"], "{kind:?}");
    layer.remove().await.unwrap();
    assert_eq!(std::fs::read(bench.join(".env")).unwrap(), b".env");
}

#[tokio::test]
async fn a_name_that_is_not_utf_8_is_hidden_where_not_everything_shows() {
    for kind in BENCHES {
        let directory = directory();
        let bench = directory.path().join("bench");
        std::fs::create_dir_all(bench.join("a/open")).unwrap();
        for name in [&b"caf\xe9"[..], b"a/caf\xe9", b"a/open/caf\xe9", b"a/secret", b"plain"] {
            std::fs::write(bench.join(OsStr::from_bytes(name)), "content").unwrap();
        }
        std::fs::create_dir(bench.join(OsStr::from_bytes(b"d\xff"))).unwrap();
        let room = Room::on(directory, |request| hide(request, &["a/secret"])).await;
        let layer = lay(&room, kind).await;
        let found = run_on(&*layer, shell("LC_ALL=C find . -type f | sort; ls -d d*")).await;
        assert_eq!(found.stdout, b"./a/open/caf\xe9\n./plain\n", "{kind:?}");
        layer.remove().await.unwrap();
    }
}

/// A denied file has such a name until all of its content is there.
#[tokio::test]
async fn a_file_that_garret_is_still_writing_is_hidden() {
    let directory = directory();
    let bench = directory.path().join("bench");
    std::fs::create_dir_all(bench.join("open/.garret-tmp-2")).unwrap();
    for path in [
        ".garret-tmp-1",
        "open/.garret-tmp-2/key",
        "open/.garret-merging-1",
        "open/plain",
    ] {
        std::fs::write(bench.join(path), "content").unwrap();
    }
    let room = Room::on(directory, |request| hide(request, &["secret"])).await;
    assert_eq!(room.text("find . -type f").await, "./open/plain\n");
}

#[tokio::test]
async fn what_comes_to_a_shared_bench_later_is_not_seen() {
    let directory = directory();
    let bench = directory.path().join("bench");
    std::fs::create_dir(bench.join("a")).unwrap();
    std::fs::write(bench.join("a/plain"), "plain").unwrap();
    std::fs::write(bench.join("b"), "b").unwrap();
    let room = Room::on(directory, |request| hide(request, &["secret", "a/secret"])).await;
    let layer = room.open.create_layer().await.unwrap();
    std::fs::write(bench.join("secret"), "secret").unwrap();
    std::fs::write(bench.join("a/secret"), "secret").unwrap();
    // A visible file is moved to a hidden name, and written there.
    std::fs::rename(bench.join("b"), bench.join("a/moved")).unwrap();
    std::fs::rename(bench.join("a/moved"), bench.join("secret")).unwrap();
    std::fs::write(bench.join("secret"), "secret").unwrap();
    let found = run_on(&*layer, shell("find . -type f | sort | xargs grep ''")).await;
    assert_eq!(found.text(), "./a/plain:plain\n./b:b\n");
    layer.pause().await.unwrap();
    let news = layer.refresh_bench().await.unwrap();
    let news: Vec<_> = news.iter().map(|path| path.display_path()).collect();
    assert!(!news.iter().any(|path| path.contains("secret")), "{news:?}");
    assert!(news.iter().any(|path| path == "b"), "{news:?}");
    layer.resume().await.unwrap();
    layer.remove().await.unwrap();
    crate::room::is_tidy(&room.directory).await;
}

#[tokio::test]
async fn a_second_name_of_a_hidden_file_is_hidden() {
    let directory = directory();
    let bench = directory.path().join("bench");
    std::fs::create_dir(bench.join("keys")).unwrap();
    for path in [".env", "keys/one", "plain", "twice"] {
        std::fs::write(bench.join(path), path).unwrap();
    }
    for (from, to) in [(".env", "env"), ("keys/one", "one"), ("twice", "again")] {
        std::fs::hard_link(bench.join(from), bench.join(to)).unwrap();
    }
    let room = Room::on(directory, |request| hide(request, &[".env", "keys"])).await;
    assert_eq!(room.text("ls -A").await, "again\nplain\ntwice\n");
}

#[tokio::test]
async fn what_a_filter_shows_looks_as_on_the_bench() {
    let directory = directory();
    let bench = directory.path().join("bench");
    std::fs::create_dir_all(bench.join("empty/deep")).unwrap();
    std::fs::write(bench.join("script"), "#!/bin/sh\necho ran\n").unwrap();
    std::os::unix::fs::symlink("script", bench.join("link")).unwrap();
    std::os::unix::fs::symlink("secret", bench.join("to-secret")).unwrap();
    std::fs::write(bench.join("secret"), "secret").unwrap();
    let set = |path: &str, mode| std::fs::set_permissions(bench.join(path), std::fs::Permissions::from_mode(mode));
    set("script", 0o750).unwrap();
    set("empty/deep", 0o710).unwrap();
    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    for path in ["script", "empty/deep", "empty"] {
        std::fs::File::open(bench.join(path))
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
    }
    let inode = std::fs::metadata(bench.join("script")).unwrap();
    let room = Room::on(directory, |request| hide(request, &["secret"])).await;
    for _ in 0..2 {
        let (outcome, effects) = room
            .run("./link; stat -c '%a %Y %U' script empty/deep; readlink link; cat to-secret; echo x >> script; rmdir empty/deep")
            .await;
        let text = "ran\n750 1000000000 agent\n710 1000000000 agent\nscript\n";
        assert_eq!(outcome.text(), text, "{}", outcome.errors());
        assert_eq!(paths(&effects), ["empty/deep", "script"]);
    }
    let now = std::fs::metadata(bench.join("script")).unwrap();
    let looks = |one: &std::fs::Metadata| (one.ino(), one.nlink(), one.ctime(), one.ctime_nsec());
    assert_eq!(looks(&now), looks(&inode), "the user's file is as it was");
}

#[tokio::test]
async fn a_read_only_root_can_be_read_and_not_changed() {
    let directory = directory();
    std::fs::write(directory.path().join("bench/file"), "file").unwrap();
    let room = Room::on(directory, |request| request.read_only = vec![WsPath::root()]).await;
    let text =
        "cat file; echo x > file; echo x > new; mkdir d; rm file; touch file; echo y > /tmp/free && cat /tmp/free";
    let (outcome, effects) = room.run(text).await;
    assert_eq!(outcome.text(), "filey\n");
    assert_eq!(
        outcome.errors().matches("Read-only file system").count(),
        5,
        "{}",
        outcome.errors()
    );
    assert!(effects.effects.is_empty(), "{effects:?}");
}

#[tokio::test]
async fn a_read_only_path_can_be_read_and_not_changed() {
    let directory = directory();
    let bench = directory.path().join("bench");
    std::fs::create_dir_all(bench.join("docs")).unwrap();
    std::fs::write(bench.join("docs/page"), "page").unwrap();
    std::fs::write(bench.join("lock"), "lock").unwrap();
    let room = Room::on(directory, |request| {
        request.read_only = vec![ws("docs"), ws("lock"), ws("missing")]
    })
    .await;
    let text = "cat docs/page lock; echo x > docs/page; echo x > docs/new; rm -rf docs; echo x > lock; rm lock; mv docs d; echo y > free";
    let (outcome, effects) = room.run(text).await;
    assert_eq!(outcome.text(), "pagelock");
    assert_eq!(paths(&effects), ["free"]);
}

#[tokio::test]
async fn a_command_begins_behind_a_link_only_where_that_leads_inside() {
    let room = Room::new().await;
    let layer = room.open.create_layer().await.unwrap();
    let made =
        "mkdir -p a/b; ln -s a/b in; ln -s ../../tmp out; ln -s /tmp away; ln -s /workspace/a back; ln -s a/../.. up";
    run_on(&*layer, shell(made)).await;
    let begin = async |cwd: &str| {
        layer
            .start_process(SandboxCommand {
                cwd: ws(cwd),
                ..shell("pwd -P")
            })
            .await
    };
    let mut inside = begin("in").await.unwrap();
    assert_eq!(finish(&mut *inside).await.text(), "/workspace/a/b\n");
    for cwd in ["out", "away", "back", "up", "up/tmp", "away/home"] {
        assert_eq!(begin(cwd).await.unwrap_err().kind(), ErrorKind::PathEscape, "{cwd}");
    }
    for cwd in ["none", "a/b/none"] {
        assert_eq!(begin(cwd).await.unwrap_err().kind(), ErrorKind::NotFound, "{cwd}");
    }
    layer.remove().await.unwrap();
}

/// The kernel gives up a look over `..` when anything on the machine is renamed meanwhile.
#[tokio::test]
async fn a_command_begins_behind_a_link_while_others_rename() {
    let room = Room::new().await;
    let layer = room.open.create_layer().await.unwrap();
    run_on(
        &*layer,
        shell("mkdir -p a/b; ln -s a/../a/../a/../a/b in; ln -s a/../a/../a/../.. up"),
    )
    .await;
    let other = directory();
    let names = ["one", "two"].map(|name| other.path().join(name));
    std::fs::write(&names[0], "").unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let renaming = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            while !is_over.load(Ordering::Relaxed) {
                std::fs::rename(&names[0], &names[1]).unwrap();
                std::fs::rename(&names[1], &names[0]).unwrap();
            }
        }
    });
    for _ in 0..50 {
        let begin = |cwd: &str| {
            layer.start_process(SandboxCommand {
                cwd: ws(cwd),
                ..shell("pwd -P")
            })
        };
        let mut inside = begin("in").await.unwrap();
        assert_eq!(finish(&mut *inside).await.text(), "/workspace/a/b\n");
        assert_eq!(begin("up").await.unwrap_err().kind(), ErrorKind::PathEscape);
    }
    is_over.store(true, Ordering::Relaxed);
    renaming.join().unwrap();
    layer.remove().await.unwrap();
}

#[tokio::test]
async fn unusual_names_and_files_come_back_as_they_are() {
    let room = Room::new().await;
    let text = "mkdir -p .git/hooks empty; printf x > $'new\\nline'; printf y > $'caf\\xe9'; printf z > ' sp ace '; \
                truncate -s 5M sparse; printf s >> sparse; ln a1 a2 2>/dev/null; echo l > a1; ln a1 a2; mkfifo pipe; chmod u+s a1";
    let (outcome, effects) = room.run(text).await;
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    let names: Vec<Vec<u8>> = effects
        .effects
        .iter()
        .map(|effect| effect.path.as_bytes().to_vec())
        .collect();
    for name in [
        &b"new\nline"[..],
        b"caf\xe9",
        b" sp ace ",
        b"sparse",
        b".git/hooks",
        b"empty",
        b"a1",
        b"a2",
    ] {
        assert!(
            names.iter().any(|found| found == name),
            "{} is missing",
            name.escape_ascii()
        );
    }
    let dropped: Vec<_> = effects
        .dropped
        .iter()
        .map(|one| (one.path.display_path().to_string(), one.what))
        .collect();
    assert!(
        dropped.iter().any(|(path, what)| path == "pipe" && *what == "fifo"),
        "{dropped:?}"
    );
    let linked = effects
        .effects
        .iter()
        .find(|effect| effect.path.as_bytes() == b"a1")
        .unwrap();
    assert!(matches!(linked.placed, PlacedEntry::File { mode, .. } if mode & 0o4000 == 0));
}

#[tokio::test]
async fn a_tree_that_is_hard_to_remove_is_removed() {
    let room = Room::new().await;
    let deep = "for i in $(seq 300); do mkdir d; cd d; done; touch x; cd /workspace; mkdir closed; touch closed/f; chmod 0 closed";
    let layer = room.open.create_layer().await.unwrap();
    crate::room::run_on(&*layer, crate::room::shell(deep)).await;
    layer.remove().await.unwrap();
    crate::room::is_tidy(&room.directory).await;
}
