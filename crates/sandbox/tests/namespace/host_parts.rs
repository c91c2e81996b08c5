//! The parts of the host that commands see besides the system: mounts, the workspace at its own path, the home.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use garret_core::{ErrorKind, GitAuthor, MountAccess, Sandbox, SandboxCommand, SandboxMount, WsPath};
use tempfile::TempDir;

use crate::room::{Room, directory, directory_in, paths, request, run_on, sandbox, shell};

fn mount(source: &Path, target: &str, access: MountAccess) -> SandboxMount {
    SandboxMount {
        source: source.to_owned(),
        target: Some(target.into()),
        access,
    }
}

/// A directory of the host with a file.
fn tools() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let tools = directory.path().join("tools");
    fs::create_dir(&tools).unwrap();
    fs::write(tools.join("file"), "of the host\n").unwrap();
    directory
}

#[tokio::test]
async fn a_mount_has_its_access_and_no_more() {
    let (host, other) = (tools(), tools());
    let source = host.path().join("tools");
    let room = Room::with(|request| {
        request.mounts = vec![
            mount(&source, "/data/read", MountAccess::Read),
            mount(&source, "/data/write", MountAccess::Write),
            mount(&other.path().join("tools"), "/data/layer", MountAccess::Layer),
        ];
    })
    .await;
    let (outcome, effects) = room
        .run("cat /data/*/file; for a in read layer write; do echo $a > /data/$a/new-$a; done; ls /data/*; id -u; stat -c %u /data/write/new-write")
        .await;
    assert!(
        outcome.errors().contains("Read-only file system"),
        "{}",
        outcome.errors()
    );
    let lists = "/data/layer:\nfile\nnew-layer\n\n/data/read:\nfile\nnew-write\n\n/data/write:\nfile\nnew-write\n";
    let said = format!("{}{lists}1000\n1000\n", "of the host\n".repeat(3));
    assert_eq!(outcome.text(), said);
    assert!(paths(&effects).is_empty(), "a mount is no part of the workspace");
    assert!(source.join("new-write").exists() && !other.path().join("tools/new-layer").exists());
    let owner = |path: &Path| std::os::unix::fs::MetadataExt::uid(&fs::metadata(path).unwrap());
    assert_eq!(
        owner(&source.join("new-write")),
        owner(&source),
        "files belong to the owner of the directory"
    );
    room.open.close().await.unwrap();
    let layers: Vec<_> = fs::read_dir(room.directory.path().join("scratch/layers"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(".mount"))
        .collect();
    assert!(layers.is_empty(), "{layers:?}");
}

#[tokio::test]
async fn a_mount_is_shown_from_a_private_directory() {
    let host = tools();
    fs::set_permissions(host.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let room = Room::with(|request| {
        request.mounts = vec![
            SandboxMount::readable(host.path().join("tools")),
            mount(&host.path().join("tools/file"), "/data/one", MountAccess::Read),
        ];
    })
    .await;
    let file = host.path().join("tools/file");
    let text = format!("cat {} /data/one; ls {}", file.display(), host.path().display());
    assert_eq!(room.text(&text).await, "of the host\nof the host\ntools\n");
}

#[tokio::test]
async fn a_source_with_a_link_in_its_path_is_refused() {
    let host = tools();
    symlink("tools", host.path().join("link")).unwrap();
    for source in ["link", "link/file"] {
        let directory = directory();
        let mut request = request(&directory);
        request.mounts = vec![mount(&host.path().join(source), "/data", MountAccess::Read)];
        let error = sandbox().open(request).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.message().contains("`/data`"), "{error}");
    }
}

#[tokio::test]
async fn a_source_that_is_missing_is_named_with_the_remedy() {
    let directory = directory();
    let mut request = request(&directory);
    request.mounts = vec![mount(Path::new("/not/there"), "/data/tools", MountAccess::Read)];
    let error = sandbox().open(request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        error.message().contains("`/data/tools`") && error.hint_text().contains("create it"),
        "{error}"
    );
}

#[tokio::test]
async fn commands_cannot_move_a_mount_that_lies_in_a_directory_they_write() {
    let host = tools();
    let source = host.path().join("tools");
    let room = Room::with(|request| {
        request.mounts = vec![mount(&source, "/tmp/a/b/tools", MountAccess::Read)];
        request.host_paths = vec!["/tmp/c/project".into()];
    })
    .await;
    let layer = room.open.create_layer().await.unwrap();
    let attack = "mv /tmp/a /tmp/x; mv /tmp/a/b /tmp/a/x; rm -rf /tmp/a /tmp/c; mkdir /tmp/c/other; rmdir /tmp/c/project; \
        ln -s / /tmp/c/link; echo x > /tmp/a/file";
    let attacked = run_on(&*layer, shell(attack)).await;
    assert_eq!(attacked.text(), "");
    let after = run_on(&*layer, shell("cat /tmp/a/b/tools/file; find /tmp | sort; pwd")).await;
    let found = "/tmp\n/tmp/a\n/tmp/a/b\n/tmp/a/b/tools\n/tmp/a/b/tools/file\n/tmp/c\n/tmp/c/project\n";
    assert_eq!(after.text(), format!("of the host\n{found}/tmp/c/project\n"));
    layer.remove().await.unwrap();
}

#[tokio::test]
async fn the_workspace_is_one_tree_at_both_paths() {
    let directory = directory();
    let bench = directory.path().join("bench");
    fs::create_dir_all(bench.join("docs")).unwrap();
    fs::write(bench.join("docs/file"), "one\n").unwrap();
    let host = bench.clone();
    let room = Room::on(directory, |request| {
        request.host_paths = vec![host];
        request.read_only = vec![WsPath::parse("docs").unwrap()];
    })
    .await;
    let host = bench.display();
    let text = format!(
        "pwd; echo new > {host}/new; cat /workspace/new; echo x > docs/file; echo x > /workspace/docs/file; rm -r docs; cat {host}/docs/file; mv {host}/new /workspace/moved"
    );
    let (outcome, effects) = room.run(&text).await;
    assert_eq!(outcome.text(), format!("{host}\nnew\none\n"));
    assert_eq!(paths(&effects), ["moved"]);
    let in_docs = SandboxCommand {
        cwd: WsPath::parse("docs").unwrap(),
        ..shell("pwd")
    };
    assert_eq!(room.run_command(in_docs).await.0.text(), format!("{host}/docs\n"));
}

#[tokio::test]
async fn a_workspace_in_a_directory_of_the_system_is_not_seen_there() {
    if rustix::fs::access("/usr/local", rustix::fs::Access::WRITE_OK).is_err() {
        println!("not tried: this user can make no directory below /usr/local");
        return;
    }
    let directory = directory_in("/usr/local");
    let bench = directory.path().join("bench");
    fs::write(bench.join("file"), "of the workspace\n").unwrap();
    let room = Room::on(directory, |_| {}).await;
    let bench = bench.display();
    let text = format!("cat /workspace/file; ls -A {bench}; touch {bench}/new; ls {bench}/..");
    let (outcome, effects) = room.run(&text).await;
    assert_eq!(outcome.text(), "of the workspace\nbench\nscratch\n");
    assert!(
        outcome.errors().contains("Read-only file system"),
        "{}",
        outcome.errors()
    );
    assert!(paths(&effects).is_empty());
}

#[tokio::test]
async fn the_home_outlives_commands_and_sandboxes_but_not_for_a_command_that_is_discarded() {
    let directory = directory();
    let home = directory.path().join("homes/one");
    let other = home.clone();
    let room = Room::on(directory, |request| request.home = Some(other)).await;
    let say = "echo ~; stat -c '%U %a' ~; echo kept >> ~/file; cat ~/file; ls -A ~";
    assert_eq!(room.text(say).await, "/home/agent\nagent 700\nkept\nfile\n");
    let discarded = SandboxCommand {
        has_empty_home: true,
        ..shell("ls -A ~; echo lost > ~/other; cat ~/other; mount | grep -c 'home/agent type tmpfs' ")
    };
    assert_eq!(room.run_command(discarded).await.0.text(), "lost\n1\n");
    // A command may shut out everybody; the next sandbox opens the home all the same.
    assert_eq!(room.text("chmod 000 ~").await, "");
    room.open.close().await.unwrap();
    let mut again = request(&room.directory);
    again.home = Some(home);
    let open = sandbox().open(again).await.unwrap();
    let layer = open.create_layer().await.unwrap();
    let outcome = run_on(&*layer, shell("cat ~/file; ls -A ~; echo set-id > ~/x; chmod 4755 ~/x")).await;
    assert_eq!(outcome.text(), "kept\nfile\n");
    layer.remove().await.unwrap();
    open.close().await.unwrap();
}

#[tokio::test]
async fn git_has_the_author_that_the_request_names() {
    let author = GitAuthor {
        name: "Ada \"L\" B".to_owned(),
        email: "ada@example.org".to_owned(),
    };
    let room = Room::with(|request| request.git_author = Some(author)).await;
    let text = "git init -q . && git commit -q --allow-empty -m one && git log --format='%an <%ae>' && git config user.name Other && git config user.name";
    let command = SandboxCommand {
        env: room.open.environment(),
        ..shell(text)
    };
    assert_eq!(
        room.run_command(command).await.0.text(),
        "Ada \"L\" B <ada@example.org>\nOther\n"
    );
}

#[tokio::test]
async fn no_command_leaves_a_set_id_program_in_a_mount_that_it_writes() {
    let host = tools();
    let source = host.path().join("tools");
    let room = Room::with(|request| {
        request.mounts = vec![mount(&source, "/data", MountAccess::Write)];
    })
    .await;
    let text = "mkdir sub && cd sub && cp /bin/true /data/a; chmod 4755 /data/a; chmod g+s /data/a; install -m 6755 /bin/true /data/b; \
        perl -e 'use Fcntl; umask 0; sysopen(F, \"/data/c\", O_CREAT | O_WRONLY, 06755)'; chmod 700 /data/a; stat -c %a /data/a";
    assert_eq!(room.text(text).await, "700\n");
    for name in ["a", "b", "c"] {
        if let Ok(made) = fs::metadata(source.join(name)) {
            assert_eq!(made.permissions().mode() & 0o6000, 0, "{name}");
        }
    }
}
