//! How sandboxes begin and end.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use garret_core::{ErrorKind, Guard, Sandbox};

use crate::room::{Room, directory, paths, processes_named, request, request_apart, run_apart, run_on, sandbox, shell};

#[tokio::test]
async fn a_trial_on_this_machine_confirms_every_guard() {
    let enforced = sandbox().probe().await;
    assert_eq!(enforced.iter().map(|one| one.guard).collect::<Vec<_>>(), Guard::ALL);
    for one in &enforced {
        let may_lack = one.guard == Guard::Memory && rustix::process::geteuid().as_raw() != 0;
        assert!(one.is_enforced || (may_lack && one.remedy.is_some()), "{one:?}");
    }
    assert_eq!(sandbox().probe().await, enforced);
}

#[tokio::test]
async fn what_is_required_and_cannot_be_enforced_is_an_error_with_a_remedy() {
    let directory = directory();
    let mut request = request(&directory);
    request.require = Guard::ALL.to_vec();
    let opened = sandbox().open(request).await;
    if rustix::process::geteuid().as_raw() == 0 {
        assert!(opened.is_ok());
    } else {
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.hint_text().contains("require"), "{error}");
    }
}

#[tokio::test]
async fn closing_ends_everything_and_may_be_done_twice() {
    let room = Room::new().await;
    let layer = room.open.create_layer().await.unwrap();
    let mut process = layer
        .start_process(shell("echo kept > kept; echo up; sleep @8761@1"))
        .await
        .unwrap();
    assert_eq!(&process.next_output().await.unwrap().bytes[..], b"up\n");
    room.open.close().await.unwrap();
    room.open.close().await.unwrap();
    assert_eq!(processes_named("@8761@"), Vec::<String>::new());
    assert_eq!(process.wait().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(paths(&layer.read_effects(None).await.unwrap()), ["kept"]);
    layer.remove().await.unwrap();
    assert!(room.open.create_layer().await.is_err());
}

#[tokio::test]
async fn nothing_is_left_on_the_host_when_a_sandbox_has_gone() {
    let room = Room::new().await;
    room.run("true").await;
    room.open.close().await.unwrap();
    let directory = room.directory;
    drop(room.open);
    assert_eq!(
        std::fs::read_dir(directory.path().join("scratch/locks"))
            .unwrap()
            .count(),
        0
    );
    crate::room::is_tidy(&directory).await;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&*directory.path().to_string_lossy()), "{mounts}");
}

/// Is run by the test below as a process of its own, which is then killed; does nothing when it is run with all others.
#[tokio::test]
async fn is_killed_in_the_middle() {
    let Some(request) = request_apart() else {
        return;
    };
    let open = sandbox().open(request).await.unwrap();
    let layer = open.create_layer().await.unwrap();
    let mut process = layer
        .start_process(shell("echo work > work; echo up > up; sleep @8760@1"))
        .await
        .unwrap();
    process.wait().await.unwrap();
}

#[tokio::test]
async fn what_a_killed_garret_left_is_found_and_its_processes_are_dead() {
    let directory = directory();
    let mut child = run_apart("life::is_killed_in_the_middle", &directory, &[]);
    let layers = directory.path().join("scratch/layers");
    let has_begun = || {
        let found = std::fs::read_dir(&layers).into_iter().flatten().flatten().next();
        found.is_some_and(|layer| layer.path().join("upper/up").exists())
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while !has_begun() {
        assert!(Instant::now() < deadline, "the other process did not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    let room = Room::on(directory, |_| {}).await;
    assert!(room.open.leftover_layers().await.unwrap().is_empty(), "its owner lives");
    child.kill().unwrap();
    child.wait().unwrap();
    let left = room.open.leftover_layers().await.unwrap();
    assert_eq!(processes_named("@8760@"), Vec::<String>::new());
    assert_eq!(left.len(), 1);
    assert_eq!(paths(&left[0].read_effects(None).await.unwrap()), ["up", "work"]);
    assert_eq!(
        left[0].start_process(shell("true")).await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
    left[0].remove().await.unwrap();
    drop(left);
    assert!(room.open.leftover_layers().await.unwrap().is_empty());
}

#[tokio::test]
async fn control_groups_of_a_supervisor_that_was_killed_are_removed_by_the_next() {
    let room = Room::new().await;
    let locks = std::fs::read_dir(room.directory.path().join("scratch/locks")).unwrap();
    let name = locks.flatten().next().unwrap().file_name();
    let groups = groups_named(&format!("garret-{}", name.to_string_lossy()));
    let has_groups = room.open.guard_statuses().iter().any(|one| one.by.contains("cgroup"));
    assert_eq!(groups.is_empty(), !has_groups, "{groups:?}");
    let inside = |group: &Path| std::fs::read_to_string(group.join("main/cgroup.procs")).unwrap_or_default();
    for group in &groups {
        if let Some(server) = inside(group).lines().next() {
            let keeper = rustix::process::Pid::from_raw(parent_of(server)).unwrap();
            rustix::process::kill_process(keeper, rustix::process::Signal::KILL).unwrap();
            until("everything inside has ended", || inside(group).is_empty());
        }
    }
    let _next = Room::new().await;
    until("they are gone", || !groups.iter().any(|group| group.exists()));
}

/// The control groups of this name, in all hierarchies.
fn groups_named(name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && entry.file_name() == name => found.push(entry.path()),
                Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                _ => {}
            }
        }
    }
    found
}

fn parent_of(pid: &str) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    parent.trim().parse().unwrap()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "it does not come true that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
async fn the_trial_of_a_sandbox_that_opens_just_now_is_left_alone() {
    let directory = directory();
    let [layers, locks] = ["layers", "locks"].map(|name| directory.path().join("scratch").join(name));
    let trial = layers.join(".trial-other");
    std::fs::create_dir_all(trial.join("upper")).unwrap();
    std::fs::create_dir_all(&locks).unwrap();
    let lock = std::fs::File::create(locks.join("other")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockShared).unwrap();
    let room = Room::on(directory, |_| {}).await;
    room.run("true").await;
    assert!(trial.exists());
    drop(lock);
    let next = Room::on(room.directory, |_| {}).await;
    until("it is removed when nobody opens", || !trial.exists());
    drop(next);
}

#[tokio::test]
async fn files_in_tmp_last_as_long_as_the_sandbox_and_are_its_own() {
    let (one, other) = (Room::new().await, Room::new().await);
    one.run("echo mine > /tmp/note").await;
    assert_eq!(one.text("cat /tmp/note").await, "mine\n");
    assert_eq!(other.text("ls /tmp").await, "");
}

#[tokio::test]
async fn sandboxes_do_not_meet() {
    let (one, other) = (Room::new().await, Room::new().await);
    let layer = one.open.create_layer().await.unwrap();
    let _sleeping = layer.start_process(shell("sleep @8759@1")).await.unwrap();
    assert_eq!(
        other
            .text("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[8]759'")
            .await,
        "0\n"
    );
    assert_eq!(run_on(&*layer, shell("echo fine")).await.text(), "fine\n");
    layer.remove().await.unwrap();
}
