//! What a command may leave at most, and files that are damaged.

use std::path::{Path, PathBuf};
use std::time::Duration;

use garret::{DeclaredCapability, ListRequest, RunRequest, ScopeOptions, ShellLimits, ShellPolicy};

use crate::shell::support::{On, Room, each, everywhere, room, room_with};

/// A workspace whose commands may leave 100 paths, and write 64 MiB.
async fn tight(on: On) -> Room {
    room_with(on, |config| {
        config.capabilities.shell = DeclaredCapability::Options(ShellPolicy {
            limits: ShellLimits {
                changed_files: Some(100),
                written_mb: Some(64.0),
                ..ShellLimits::default()
            },
            ..ShellPolicy::default()
        });
    })
    .await
}

#[test]
fn promise_33_what_is_over_a_limit_on_effects_leaves_nothing_and_is_named() {
    let long = "n".repeat(240);
    let scripts = [
        (
            "for i in $(seq 101); do : > f$i; done".to_owned(),
            "limits.changed_files",
        ),
        (
            "for i in $(seq 101); do mkdir d$i; done".to_owned(),
            "limits.changed_files",
        ),
        (
            "for i in $(seq 101); do ln -s x l$i; done".to_owned(),
            "limits.changed_files",
        ),
        (
            format!("for i in $(seq 80); do : > {long}$i; done"),
            "limits.changed_files",
        ),
        (
            format!("for i in $(seq 80); do ln -s {long} l$i; done"),
            "limits.changed_files",
        ),
        (
            format!(
                "mkdir -p {long}/{long}/{long}/{long}/{long} && cd {long}/{long}/{long}/{long}/{long} && for i in $(seq 20); do : > $i; done"
            ),
            "limits.changed_files",
        ),
        (
            "for i in $(seq 60); do truncate -s 60M s$i; done".to_owned(),
            "limits.written_mb",
        ),
        (
            "truncate -s 60M one && for i in $(seq 60); do ln one s$i; done".to_owned(),
            "limits.written_mb",
        ),
        (
            "perl -e 'for (1..60) { open(my $f, \">\", \"s$_\"); seek($f, 60 << 20, 0); print $f 1 }'".to_owned(),
            "limits.written_mb",
        ),
    ];
    everywhere(|on| {
        let scripts = scripts.clone();
        async move {
            let room = tight(on).await;
            room.sh("mkdir kept && echo kept > kept/file").await;
            for (script, rule) in scripts {
                let result = room.run(&script).await;
                let refused = result.changed.refused.clone();
                let refused = refused.unwrap_or_else(|| panic!("{on:?}: {script}: {result:?}"));
                assert_eq!(refused.rule.as_deref(), Some(rule), "{on:?}: {script}");
                assert_eq!(
                    room.sh("find . -type f").await.output,
                    "./kept/file\n",
                    "{on:?}: {script}"
                );
            }
            assert_eq!(room.tree().await.len(), 2, "{on:?}");
            room.sh("for i in $(seq 90); do : > f$i; done").await;
            assert_eq!(room.tree().await.len(), 92, "{on:?}: what is within the limits is kept");
        }
    });
}

#[test]
fn processes_that_leave_more_than_can_be_read_are_ended_and_rolled_back() {
    each(|on| async move {
        let room = tight(on).await;
        room.sh("echo kept > kept").await;
        let flood = "i=0; while :; do i=$((i+1)); mkdir d$i; (cd d$i && seq 400 | xargs touch); done";
        room.start(flood).await;
        let mut told = Vec::new();
        for round in 0..60 {
            // Longer each time: an operation takes over what is there by then, which must become too much at some time.
            tokio::time::sleep(Duration::from_millis(100 * round)).await;
            assert_eq!(room.read("kept").await, "kept\n", "{on:?}: no operation fails");
            let list = room.workspace().processes().await.unwrap();
            told.extend(list.notices);
            if list.processes.iter().all(|process| !process.running) {
                break;
            }
        }
        let is_told = |notice: &String| notice.contains("rolled back") && notice.contains("more than 100");
        assert!(told.iter().any(is_told), "{on:?}: {told:?}");
        let files = "find . -mindepth 1 | wc -l";
        assert_eq!(
            room.sh(files).await.output.trim(),
            room.tree().await.len().to_string(),
            "{on:?}"
        );
        room.sh("echo fine > after").await;
        assert_eq!(room.read("after").await, "fine\n", "{on:?}");
        let id = room.start("echo up; sleep 1000").await;
        room.output_with(&id, "up").await;
        let beside = room.run("seq 400 | xargs touch").await;
        assert!(beside.changed.refused.is_some(), "{on:?}: {beside:?}");
    });
}

/// Damages the content of every file that lies in a blob of its own.
fn damage(home: &Path) {
    let folders = home.join("blobs").read_dir().unwrap().map(|one| one.unwrap().path());
    let blobs: Vec<PathBuf> = folders
        .filter(|folder| folder.is_dir())
        .flat_map(|folder| folder.read_dir().unwrap().map(|file| file.unwrap().path()))
        .collect();
    assert!(!blobs.is_empty());
    for blob in blobs {
        let mut bytes = std::fs::read(&blob).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&blob, bytes).unwrap();
    }
}

/// A workspace with a file of each size, of which the large ones are damaged, and that no bench holds yet.
async fn damaged() -> Room {
    let room = room(On::Filestore).await;
    let noise: String = (0..400_000_u32)
        .map(|number| format!("{:08x}", number.wrapping_mul(2_654_435_761)))
        .collect();
    for (path, text) in [("dir/large", &noise[..]), ("dir/small", "small"), ("other", "other")] {
        room.write(path, text).await;
    }
    damage(room.home.path());
    room
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_named_and_keeps_no_command_from_running() {
    let room = damaged().await;
    for _ in 0..2 {
        let result = room.sh("find . -type f | sort; echo new >> other").await;
        assert_eq!(result.output, "./dir/small\n./other\n");
        assert_eq!(result.corrupt, ["dir/large"]);
        assert_eq!(
            (result.changed.deleted_count, result.changed.changed_count),
            (0, 1),
            "{:?}",
            result.changed
        );
    }
    let listed = room.workspace().list("dir", ListRequest::default()).await.unwrap();
    assert_eq!(listed.entries.len(), 2, "it is in the workspace as before");
    let nothing = room.sh("true").await;
    assert!(nothing.changed.is_nothing() && nothing.changed.change.is_none());
    let result = room.sh("echo written > dir/large").await;
    assert_eq!(
        (result.changed.changed_count, result.changed.created_count),
        (1, 0),
        "{:?}",
        result.changed
    );
    let result = room.sh("cat dir/large").await;
    assert_eq!((&*result.output, result.corrupt.len()), ("written\n", 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_goes_with_the_directory_that_a_command_removes() {
    for script in ["rm -r dir", "rm -r dir && echo file > dir", "mv dir elsewhere"] {
        let room = damaged().await;
        let result = room.sh(script).await;
        assert!(result.changed.change.is_some(), "{script}: {:?}", result.changed);
        assert!(
            result.changed.paths.contains(&"- dir/large".to_owned()),
            "{script}: {:?}",
            result.changed
        );
        assert_eq!(room.sh("true").await.corrupt, [""; 0], "{script}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_told_to_nobody_who_may_not_see_it() {
    let room = damaged().await;
    let scope = room.workspace().scope("dir", ScopeOptions::default()).unwrap();
    let other = scope.run(RunRequest::shell("ls")).await.unwrap();
    assert_eq!(
        (&*other.output, &other.corrupt[..]),
        ("small\n", &["large".to_owned()][..])
    );
    room.workspace().make_dir("apart", false).await.unwrap();
    let apart = room.workspace().scope("apart", ScopeOptions::default()).unwrap();
    let result = apart.run(RunRequest::shell("true")).await.unwrap();
    assert_eq!(result.corrupt, [""; 0]);
}
