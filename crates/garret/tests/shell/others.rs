//! Processes that live on, and others who change the same files from elsewhere: another program with Garret, or any program in the directory.

use std::path::Path;
use std::time::Duration;

use garret::{DeclaredCapability, Garret, Home, ShellPolicy, Toolbox};
use serde_json::json;

use crate::shell::support::{On, Room, on_all, room, room_with};

/// The storages that another program can open too.
const SHARED: [On; 3] = [On::Filestore, On::Local, On::S3];

/// The same workspace, opened by somebody else.
async fn somebody_else(room: &Room) -> Toolbox {
    let garret = Garret::new().home(Home::new(room.home.path()));
    garret.open_config("box", &room.config).await.unwrap()
}

async fn write(toolbox: &Toolbox, path: &str, content: &str) {
    let content = content.to_owned().into_bytes();
    let written = toolbox.workspace().write(path, content, Default::default()).await;
    written.unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Runs a text beside the processes whose work must become a change.
async fn changing(room: &Room, text: &str) -> String {
    let result = room.sh(text).await;
    let changed = &result.changed;
    assert!(
        changed.change.is_some() && changed.branch.is_none(),
        "{:?}: {text}: {changed:?}",
        room.on
    );
    result.output
}

async fn branches(room: &Room) -> Vec<String> {
    let branches = room.workspace().branches().await.unwrap();
    branches.into_iter().filter_map(|branch| branch.name).collect()
}

#[test]
fn promise_36_a_command_beside_processes_sees_what_others_did_before_it_and_its_work_is_kept() {
    on_all(&SHARED, |on| async move {
        let room = room(on).await;
        write(&room.toolbox, "old/file", "old\n").await;
        let other = somebody_else(&room).await;
        let id = room.start("sleep 1000").await;
        // The kernel remembers that it is not there.
        room.run("cat d").await;
        write(&other, "d", "4\n").await;
        assert_eq!(changing(&room, "cat d; echo more >> d").await, "4\n", "{on:?}");
        assert_eq!(room.read("d").await, "4\nmore\n", "{on:?}");
        write(&other, "d", "5\n").await;
        assert_eq!(changing(&room, "cat d; echo again >> d").await, "5\n", "{on:?}");
        other.call("rm", json!({"path": "old", "recursive": true})).await;
        assert_eq!(room.sh("ls").await.output, "d\n", "{on:?}");
        let read = other.workspace().read_bytes("d").await.unwrap();
        assert_eq!(read.bytes.as_ref(), b"5\nagain\n", "{on:?}");
        write(&other, "for-it", "seen\n").await;
        let second = room.start("cat for-it; sleep 1000").await;
        room.output_with(&second, "seen").await;
        assert_eq!(branches(&room).await, Vec::<String>::new(), "{on:?}");
        room.workspace().kill(&id).await.unwrap();
        room.workspace().kill(&second).await.unwrap();
        assert_eq!(room.sh("cat d").await.output, "5\nagain\n", "{on:?}: the bench follows");
    });
}

#[test]
fn what_others_made_and_took_away_beside_a_process_that_writes_nothing_leaves_no_branch() {
    on_all(&SHARED, |on| async move {
        let room = room(on).await;
        let other = somebody_else(&room).await;
        let id = room.start("sleep 1000").await;
        for round in 0..3 {
            write(&other, "c", &format!("{round}\n")).await;
            assert_eq!(room.sh("cat c").await.output, format!("{round}\n"), "{on:?}");
            other.call("rm", json!({"path": "c"})).await;
            assert_eq!(room.sh("ls").await.output, "", "{on:?}");
        }
        assert_eq!(branches(&room).await, Vec::<String>::new(), "{on:?}");
        let told = room.workspace().processes().await.unwrap();
        assert_eq!(told.notices, Vec::<String>::new(), "{on:?}");
        room.workspace().kill(&id).await.unwrap();
        assert_eq!(branches(&room).await, Vec::<String>::new(), "{on:?}");
    });
}

#[test]
fn what_a_process_and_others_did_to_the_same_file_is_on_a_branch_and_that_is_told_once() {
    on_all(&[On::Filestore, On::Local], |on| async move {
        // Without isolation a process can say outside of the workspace that it is done: nobody need look at what it did before the others come.
        let room = room_with(on, |config| config.capabilities.shell = shell_in("host")).await;
        let other = somebody_else(&room).await;
        let done = room.home.path().join("done");
        let id = room
            .start(&format!("echo mine > shared; touch '{}'; sleep 1000", done.display()))
            .await;
        until_there(&done).await;
        write(&other, "shared", "theirs\n").await;
        room.toolbox.call("ls", json!({})).await;
        let notices = room.workspace().processes().await.unwrap().notices;
        let branch = branches(&room).await.pop().unwrap_or_else(|| panic!("{on:?}"));
        assert!(notices.iter().any(|one| one.contains(&branch)), "{on:?}: {notices:?}");
        let again = room.workspace().processes().await.unwrap().notices;
        assert_eq!(again, Vec::<String>::new(), "{on:?}");
        assert_eq!(room.read("shared").await, "theirs\n", "{on:?}");
        room.workspace().kill(&id).await.unwrap();
    });
}

#[test]
fn a_process_writes_over_nothing_that_another_program_changed_since_its_work_was_last_kept() {
    on_all(&[On::Local], |on| async move {
        let room = room_with(on, |config| config.capabilities.shell = shell_in("host")).await;
        let (directory, home) = (room.directory.path(), room.home.path());
        // The journal knows A of `stale`, and never met `unmet`.
        write(&room.toolbox, "stale", "A").await;
        std::fs::write(directory.join("stale"), "B").unwrap();
        std::fs::write(directory.join("unmet"), "B").unwrap();
        let text = |name: &str| {
            format!(
                "touch '{0}/up-{name}'; until test -e '{0}/go-{name}'; do sleep 0.02; done; \
                 printf A > {name}; printf A > own-{name}; touch '{0}/done-{name}'; sleep 1000",
                home.display()
            )
        };
        for name in ["stale", "unmet"] {
            let known = branches(&room).await.len();
            let id = room.start(&text(name)).await;
            until_there(&home.join(format!("up-{name}"))).await;
            std::fs::write(directory.join(name), "C").unwrap();
            std::fs::write(home.join(format!("go-{name}")), "").unwrap();
            until_there(&home.join(format!("done-{name}"))).await;
            room.toolbox.call("ls", json!({})).await;
            assert_eq!(branches(&room).await.len(), known + 1, "{name}");
            assert_eq!(std::fs::read_to_string(directory.join(name)).unwrap(), "C", "{name}");
            assert!(!directory.join(format!("own-{name}")).exists(), "{name}");
            room.workspace().kill(&id).await.unwrap();
        }
    });
}

/// Waits until something is at a path of the machine.
async fn until_there(path: &Path) {
    for _ in 0..600 {
        if path.exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{} did not appear", path.display());
}

/// Puts a file in place as editors do: beside it, and by a rename.
fn replace(directory: &Path, name: &str, content: &str) {
    let draft = directory.join("draft~");
    std::fs::write(&draft, content).unwrap();
    std::fs::rename(draft, directory.join(name)).unwrap();
}

/// On a layer over the directory, and on a copy of it.
const SANDBOXES: [&str; 2] = ["namespace", "host"];

async fn room_in(sandbox: &str) -> Room {
    room_with(On::Local, |config| {
        config.exclude = vec!["target/".into()];
        config.capabilities.shell = shell_in(sandbox);
    })
    .await
}

fn shell_in(sandbox: &str) -> DeclaredCapability<ShellPolicy> {
    DeclaredCapability::Options(ShellPolicy {
        sandbox: sandbox.into(),
        host_as_root: true,
        ..ShellPolicy::default()
    })
}

fn in_each_sandbox<F: Future<Output = ()>>(test: impl Fn(&'static str) -> F) {
    for sandbox in SANDBOXES {
        on_all(&[On::Local], |_| test(sandbox));
    }
}

#[test]
fn a_command_beside_processes_sees_what_any_program_did_in_the_directory() {
    in_each_sandbox(|sandbox| async move {
        let room = room_in(sandbox).await;
        let directory = room.directory.path();
        std::fs::write(directory.join("e"), "old\n").unwrap();
        std::fs::create_dir_all(directory.join("deep/er")).unwrap();
        std::fs::write(directory.join("deep/er/file"), "deep\n").unwrap();
        // It has the kernel remember all of it, and what is not there; it holds nothing open.
        let id = room.start("echo up; until test -e go; do test -e e; test -e new; test -e deep/er/file; test -e deep/er/new; sleep 0.05; done; \
             while :; do cat e; sleep 0.05; done",
        )
        .await;
        room.output_with(&id, "up").await;
        replace(directory, "e", "edited\n");
        std::fs::write(directory.join("new"), "made\n").unwrap();
        std::fs::write(directory.join("deep/er/new"), "deeper\n").unwrap();
        std::fs::remove_file(directory.join("deep/er/file")).unwrap();
        let seen = changing(&room, "cat e new deep/er/new; ls deep/er; echo agent >> e").await;
        assert_eq!(seen, "edited\nmade\ndeeper\nnew\n", "{sandbox}");
        assert_eq!(
            std::fs::read_to_string(directory.join("e")).unwrap(),
            "edited\nagent\n",
            "{sandbox}"
        );
        // Now the layer has it.
        replace(directory, "e", "edited again\n");
        assert_eq!(
            changing(&room, "cat e; echo agent >> e").await,
            "edited again\n",
            "{sandbox}"
        );
        std::fs::write(directory.join("e"), "in place\n").unwrap();
        assert_eq!(
            changing(&room, "cat e; echo agent >> e").await,
            "in place\n",
            "{sandbox}"
        );
        write(&room.toolbox, "new", "by a tool\n").await;
        std::fs::remove_file(directory.join("new")).unwrap();
        let listed = room.sh("ls").await;
        assert_eq!(listed.output, "deep\ne\n", "{sandbox}");
        assert!(listed.changed.change.is_none() && listed.changed.branch.is_none());
        std::fs::remove_dir_all(directory.join("deep")).unwrap();
        assert_eq!(room.sh("ls").await.output, "e\n", "{sandbox}");
        assert_eq!(branches(&room).await, Vec::<String>::new(), "{sandbox}");
        // A process sees it with the next call, whichever that is.
        replace(directory, "e", "for the process\n");
        std::fs::write(directory.join("go"), "").unwrap();
        room.output_with(&id, "for the process").await;
        room.workspace().kill(&id).await.unwrap();
        assert_eq!(
            std::fs::read_to_string(directory.join("e")).unwrap(),
            "for the process\n",
            "{sandbox}"
        );
    });
}

#[test]
fn what_any_program_does_in_directories_that_processes_made_or_removed_shows_to_commands() {
    in_each_sandbox(|sandbox| async move {
        let room = room_in(sandbox).await;
        let directory = room.directory.path();
        std::fs::create_dir_all(directory.join("gone/below")).unwrap();
        std::fs::write(directory.join("gone/below/file"), "1").unwrap();
        let id = room.start("sleep 1000").await;
        changing(
            &room,
            "rm -r gone; mkdir -p made/below target; echo mine > made/mine; echo mine > target/mine",
        )
        .await;
        std::fs::write(directory.join("made/theirs"), "theirs\n").unwrap();
        std::fs::create_dir(directory.join("made/below/dir")).unwrap();
        std::fs::write(directory.join("made/below/dir/file"), "below\n").unwrap();
        assert_eq!(
            room.sh("cat made/mine made/theirs made/below/dir/file target/mine")
                .await
                .output,
            "mine\ntheirs\nbelow\nmine\n",
            "{sandbox}"
        );
        std::fs::create_dir_all(directory.join("gone/below")).unwrap();
        assert_eq!(
            room.sh("ls gone gone/below").await.output,
            "gone:\nbelow\n\ngone/below:\n",
            "{sandbox}"
        );
        std::fs::write(directory.join("gone/below/back"), "back\n").unwrap();
        assert_eq!(
            changing(&room, "cat gone/below/*; echo more >> gone/below/back").await,
            "back\n",
            "{sandbox}"
        );
        std::fs::remove_dir_all(directory.join("made")).unwrap();
        assert_eq!(room.sh("ls").await.output, "gone\ntarget\n", "{sandbox}");
        assert_eq!(branches(&room).await, Vec::<String>::new(), "{sandbox}");
        room.workspace().kill(&id).await.unwrap();
        assert!(directory.join("target/mine").exists());
        assert_eq!(
            std::fs::read_to_string(directory.join("gone/below/back")).unwrap(),
            "back\nmore\n",
            "{sandbox}"
        );
    });
}
