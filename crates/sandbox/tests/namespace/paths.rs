//! Paths that policy hides or protects, and what survives of unusual files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use garret_core::{Command, ErrorKind, Placed, WsPath};

use crate::room::{Room, directory, finish, paths, run_on, shell};

fn ws(path: &str) -> WsPath {
    WsPath::parse(path).unwrap()
}

#[tokio::test]
async fn a_hidden_path_is_not_there_and_stays_as_it_is() {
    let directory = directory();
    let bench = directory.path().join("bench");
    std::fs::create_dir_all(bench.join("a/b")).unwrap();
    std::fs::create_dir_all(bench.join("keys")).unwrap();
    for path in ["a/b/secret", "a/b/plain", "keys/one", ".env"] {
        std::fs::write(bench.join(path), path).unwrap();
    }
    let room = Room::on(directory, |request| {
        request.hidden = vec![ws("a/b/secret"), ws("keys"), ws(".env"), ws("not/there")];
    })
    .await;
    assert_eq!(room.text("find . | sort").await, ".\n./a\n./a/b\n./a/b/plain\n");
    let (outcome, effects) = room
        .run("cat a/b/secret .env keys/one; cat a/b/plain; echo more >> a/b/plain; stat -c %a a")
        .await;
    assert_eq!(outcome.text(), "a/b/plain755\n");
    assert_eq!(paths(&effects), ["a/b/plain"]);
    assert_eq!(std::fs::read(bench.join(".env")).unwrap(), b".env");
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
    let layer = room.open.lay().await.unwrap();
    let made =
        "mkdir -p a/b; ln -s a/b in; ln -s ../../tmp out; ln -s /tmp away; ln -s /workspace/a back; ln -s a/../.. up";
    run_on(&*layer, shell(made)).await;
    let begin = async |cwd: &str| {
        layer
            .start(Command {
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
    let layer = room.open.lay().await.unwrap();
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
            layer.start(Command {
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
        .map(|one| (one.path.shown().to_string(), one.what))
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
    assert!(matches!(linked.placed, Placed::File { mode, .. } if mode & 0o4000 == 0));
}

#[tokio::test]
async fn a_tree_that_is_hard_to_remove_is_removed() {
    let room = Room::new().await;
    let deep = "for i in $(seq 300); do mkdir d; cd d; done; touch x; cd /workspace; mkdir closed; touch closed/f; chmod 0 closed";
    let layer = room.open.lay().await.unwrap();
    crate::room::run_on(&*layer, crate::room::shell(deep)).await;
    layer.remove().await.unwrap();
    crate::room::is_tidy(&room.directory).await;
}
