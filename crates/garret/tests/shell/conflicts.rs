//! Somebody else writes while a command runs.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use garret::{Capabilities, Chunk, OutputSink, RunRequest, UndoRequest};
use serde_json::json;
use tokio::sync::oneshot;

use crate::shell::support::{On, Room, everywhere, on_all, room, room_with};

#[test]
fn promise_32_work_on_the_same_file_is_kept_on_a_branch_and_nothing_is_lost() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.write("shared", "before\n").await;
        room.write("mine", "before\n").await;
        let workspace = room.workspace().clone();
        let request =
            RunRequest::shell("echo started > /tmp/x; sleep 2; echo by the command >> shared; echo new > fresh");
        let running = tokio::spawn(async move { workspace.run(request).await });
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        room.write("shared", "by a tool\n").await;
        let result = running.await.unwrap().unwrap();
        let branch = result
            .changed
            .branch
            .clone()
            .unwrap_or_else(|| panic!("{on:?}: {:?}", result.changed));
        assert!(result.changed.change.is_none());
        assert_eq!(room.read("shared").await, "by a tool\n", "{on:?}");
        assert!(!room.tree().await.contains_key("fresh"), "{on:?}");
        let branches = room.workspace().branches().await.unwrap();
        assert!(
            branches.iter().any(|one| one.name.as_deref() == Some(&branch)),
            "{on:?}"
        );
        let merged = room.workspace().merge(&branch, Default::default()).await;
        let told = format!("{merged:?}");
        assert!(told.contains("shared"), "{on:?}: {told}");
        assert_eq!(
            room.sh("cat shared").await.output,
            "by a tool\n",
            "the bench follows the files"
        );
    });
}

#[test]
fn work_on_other_files_goes_in_beside_it() {
    everywhere(|on| async move {
        let room = room(on).await;
        room.write("shared", "before\n").await;
        let workspace = room.workspace().clone();
        let request = RunRequest::shell("sleep 2; echo by the command > own");
        let running = tokio::spawn(async move { workspace.run(request).await });
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        room.write("shared", "by a tool\n").await;
        let result = running.await.unwrap().unwrap();
        assert!(
            result.changed.change.is_some() && result.changed.branch.is_none(),
            "{on:?}: {:?}",
            result.changed
        );
        assert_eq!(
            room.sh("cat shared own").await.output,
            "by a tool\nby the command\n",
            "{on:?}"
        );
    });
}

/// Says when a command has said something.
struct Ready(Option<oneshot::Sender<()>>);

#[async_trait]
impl OutputSink for Ready {
    async fn take(&mut self, _chunk: &Chunk) {
        if let Some(ready) = self.0.take() {
            ready.send(()).unwrap();
        }
    }
}

/// Runs a text in the middle of which, where it waits for the file `bell` to ring, a tool writes `theirs` to `shared`; gives the branch.
async fn collide(room: &Room, text: &str, theirs: &str) -> Option<String> {
    collide_with(room, text, room.write("shared", theirs)).await
}

/// Runs a text in the middle of which others do `theirs`; gives the branch.
async fn collide_with(room: &Room, text: &str, theirs: impl Future<Output = ()>) -> Option<String> {
    collide_after(room, ":", text, theirs).await
}

/// Runs two texts between which others do `theirs`; gives the branch.
async fn collide_after(room: &Room, begun: &str, text: &str, theirs: impl Future<Output = ()>) -> Option<String> {
    // On `local` a command sees the bell ring; elsewhere it is given the time.
    let bell = room.directory.path().join("bell");
    std::fs::write(&bell, "").unwrap();
    let wait = match room.on {
        On::Local => "until grep -q ring bell; do sleep 0.02; done",
        _ => "sleep 2",
    };
    let request = RunRequest::shell(format!("{begun}; echo ready; {wait}; {text}"));
    let (ready, is_ready) = oneshot::channel();
    let workspace = room.workspace().clone();
    let running = tokio::spawn(async move { workspace.run_with(request, &mut Ready(Some(ready))).await });
    is_ready.await.unwrap();
    theirs.await;
    let mut bell = std::fs::OpenOptions::new().append(true).open(bell).unwrap();
    bell.write_all(b"ring").unwrap();
    running.await.unwrap().unwrap().changed.branch
}

#[test]
fn promise_32_whoever_runs_commands_merges_what_one_did_without_the_capability_for_branches() {
    on_all(&[On::Local], |on| async move {
        let room = room_with(on, |config| {
            config.capabilities = Capabilities::from_names(["fs", "shell"]).unwrap();
        })
        .await;
        room.write("shared", "before\n").await;
        let branch = collide(&room, "echo by the command > shared; echo new > fresh", "by a tool\n")
            .await
            .unwrap();
        let merge = |from: &str, dry_run: bool| {
            let arguments = json!({"from": from, "on_conflict": "theirs", "dry_run": dry_run});
            room.toolbox.call("merge", arguments)
        };
        let tried = merge(&branch, true).await;
        assert!(tried.ok && tried.text.contains("fresh"), "{}", tried.text);
        assert_eq!(room.read("shared").await, "by a tool\n");
        let merged = merge(&branch, false).await;
        assert!(merged.ok, "{}", merged.text);
        assert_eq!(room.read("shared").await, "by the command\n");
        assert_eq!(room.read("fresh").await, "new\n");
        let refused = merge("somebody", false).await;
        assert!(refused.text.contains("snapshot"), "{}", refused.text);
    });
}

#[test]
fn what_a_command_left_as_it_was_is_no_work_that_could_collide() {
    on_all(&[On::Local], |on| async move {
        let room = room(on).await;
        room.write("shared", "before\n").await;
        assert_eq!(collide(&room, "echo before > shared", "theirs\n").await, None);
        assert_eq!(room.read("shared").await, "theirs\n");
        assert_eq!(
            collide(&room, "touch shared; echo own > own", "theirs again\n").await,
            None
        );
        assert_eq!(room.sh("cat shared own").await.output, "theirs again\nown\n");
        assert_eq!(room.workspace().branches().await.unwrap(), []);
    });
}

#[test]
fn what_others_rewrote_with_the_bytes_that_it_had_is_no_collision() {
    on_all(&[On::Filestore, On::Local], |on| async move {
        let room = room(on).await;
        room.write("shared", "before\n").await;
        let branch = collide_with(&room, "echo by the command >> shared", async {
            room.write("shared", "between\n").await;
            room.write("shared", "before\n").await;
        })
        .await;
        assert_eq!(branch, None, "{on:?}: through Garret, with another content in between");
        assert_eq!(room.read("shared").await, "before\nby the command\n", "{on:?}");
        if on != On::Local {
            return;
        }
        room.write("shared", "before\n").await;
        let branch = collide_with(&room, "echo again >> shared", async {
            std::fs::write(room.directory.path().join("shared"), "before\n").unwrap();
        })
        .await;
        assert_eq!(branch, None, "by another program");
        assert_eq!(room.read("shared").await, "before\nagain\n");
        let branch = collide_with(&room, "echo once more >> shared", async {
            put_by_rename(room.directory.path(), "shared", "before\nagain\n");
        })
        .await;
        assert_eq!(branch, None, "by another program, in another file");
        assert_eq!(room.read("shared").await, "before\nagain\nonce more\n");
    });
}

/// What others do in the directory while a command runs.
type Theirs = fn(&Path);

/// A collision of a command with another program: what lies in the directory before, what the command does before and after the other program,
/// what that does, and what it leaves at `f`.
struct Collision {
    name: &'static str,
    before: Theirs,
    begun: &'static str,
    text: &'static str,
    theirs: Theirs,
    left: Option<&'static str>,
}

fn put(directory: &Path, path: &str, content: &str) {
    let path = directory.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// Puts a file in place as editors do: beside it, and by a rename.
fn put_by_rename(directory: &Path, path: &str, content: &str) {
    put(directory, "draft~", content);
    std::fs::rename(directory.join("draft~"), directory.join(path)).unwrap();
}

fn set_mode(directory: &Path, path: &str, mode: u32) {
    std::fs::set_permissions(directory.join(path), std::fs::Permissions::from_mode(mode)).unwrap();
}

fn get(directory: &Path, path: &str) -> Option<String> {
    std::fs::read_to_string(directory.join(path)).ok()
}

const COLLISIONS: [Collision; 16] = [
    Collision {
        name: "given another mode and deleted by the other program",
        before: |at| {
            put(at, "f", "10");
            put(at, "kept", "kept");
        },
        begun: "chmod 700 f; mv kept kept.bak; echo new > kept",
        text: ":",
        theirs: |at| std::fs::remove_file(at.join("f")).unwrap(),
        left: None,
    },
    Collision {
        name: "written in place",
        before: |at| put(at, "f", "10"),
        begun: "cat f",
        text: "echo 11 > f",
        theirs: |at| put(at, "f", "500"),
        left: Some("500"),
    },
    Collision {
        name: "replaced by rename",
        before: |at| put(at, "f", "10"),
        begun: "cat f",
        text: "echo 11 > f",
        theirs: |at| put_by_rename(at, "f", "500"),
        left: Some("500"),
    },
    Collision {
        name: "replaced by an older file",
        before: |at| {
            put(at, "f", "10");
            put(at, "older", "500");
            let older = std::fs::File::options().write(true).open(at.join("older")).unwrap();
            older.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        },
        begun: ":",
        text: "echo 11 > f",
        theirs: |at| std::fs::rename(at.join("older"), at.join("f")).unwrap(),
        left: Some("500"),
    },
    Collision {
        name: "with the size and the time that it had",
        before: |at| put(at, "f", "10"),
        begun: ":",
        text: "echo 11 > f",
        theirs: |at| {
            let time = std::fs::metadata(at.join("f")).unwrap().modified().unwrap();
            put(at, "f", "50");
            let file = std::fs::File::options().write(true).open(at.join("f")).unwrap();
            file.set_modified(time).unwrap();
        },
        left: Some("50"),
    },
    Collision {
        name: "replaced by the command, too",
        before: |at| put(at, "f", "10"),
        begun: ":",
        text: "echo 11 > draft; mv draft f",
        theirs: |at| put(at, "f", "500"),
        left: Some("500"),
    },
    Collision {
        name: "deleted by the command",
        before: |at| put(at, "f", "10"),
        begun: ":",
        text: "rm f",
        theirs: |at| put(at, "f", "500"),
        left: Some("500"),
    },
    Collision {
        name: "deleted by the command with its directory",
        before: |at| put(at, "d/f", "10"),
        begun: ":",
        text: "rm -r d",
        theirs: |at| {
            put(at, "d/f", "500");
            put(at, "f", "500");
        },
        left: Some("500"),
    },
    Collision {
        name: "deleted by the other program",
        before: |at| put(at, "f", "10"),
        begun: "echo 11 > f",
        text: ":",
        theirs: |at| std::fs::remove_file(at.join("f")).unwrap(),
        left: None,
    },
    Collision {
        name: "deleted by the other program with its directory",
        before: |at| {
            put(at, "f", "10");
            put(at, "d/f", "10");
        },
        begun: "echo 11 > d/new",
        text: ":",
        theirs: |at| std::fs::remove_dir_all(at.join("d")).unwrap(),
        left: Some("10"),
    },
    Collision {
        name: "another mode by the command",
        before: |at| put(at, "f", "10"),
        begun: ":",
        text: "chmod 700 f",
        theirs: |at| put(at, "f", "500"),
        left: Some("500"),
    },
    Collision {
        name: "another mode by the other program",
        before: |at| put(at, "f", "10"),
        begun: ":",
        text: "echo 11 > f",
        theirs: |at| set_mode(at, "f", 0o600),
        left: Some("10"),
    },
    Collision {
        name: "new on both sides",
        before: |_| {},
        begun: ":",
        text: "echo 11 > f",
        theirs: |at| put(at, "f", "500"),
        left: Some("500"),
    },
    Collision {
        name: "in a new directory on both sides",
        before: |at| put(at, "f", "10"),
        begun: ":",
        text: "mkdir -p d/e; echo 11 > d/e/f",
        theirs: |at| put(at, "d/e/f", "500"),
        left: Some("10"),
    },
    Collision {
        name: "in a directory that was exchanged",
        before: |at| {
            put(at, "f", "10");
            put(at, "d/f", "10");
            put(at, "other/f", "500");
        },
        begun: ":",
        text: "echo 11 > d/f",
        theirs: |at| {
            std::fs::rename(at.join("d"), at.join("away")).unwrap();
            std::fs::rename(at.join("other"), at.join("d")).unwrap();
        },
        left: Some("10"),
    },
    Collision {
        name: "a link",
        before: |at| put(at, "f", "10"),
        begun: ":",
        text: "ln -sf target f",
        theirs: |at| put(at, "f", "500"),
        left: Some("500"),
    },
];

#[test]
fn promise_32_a_command_writes_over_nothing_that_another_program_changed_meanwhile() {
    for collision in &COLLISIONS {
        on_all(&[On::Local], |on| async move {
            let (room, name) = (room(on).await, collision.name);
            let directory = room.directory.path();
            (collision.before)(directory);
            let text = format!("{}; echo own > own", collision.text);
            let theirs = async { (collision.theirs)(directory) };
            let branch = collide_after(&room, collision.begun, &text, theirs).await;
            assert!(branch.is_some(), "{name}");
            assert_eq!(get(directory, "f").as_deref(), collision.left, "{name}");
            assert_eq!(get(directory, "own"), None, "{name}: nothing of the command is applied");
            assert_eq!(get(directory, "d/new"), None, "{name}");
        });
    }
}

#[test]
fn promise_32_what_other_programs_changed_before_a_command_is_what_it_begins_with() {
    on_all(&[On::Local], |on| async move {
        let room = room(on).await;
        let directory = room.directory.path();
        for name in ["f", "g", "k"] {
            room.write(name, "A").await;
            put(directory, name, "B");
        }
        // At its start `f` holds B, so A is a real effect.
        let text = "printf A > f; printf NEW > g; echo n > h";
        let branch = collide_with(&room, text, async { put(directory, "f", "C") }).await;
        assert!(branch.is_some());
        let left: Vec<_> = ["f", "g", "h"].map(|name| get(directory, name)).into();
        assert_eq!(left, [Some("C".to_owned()), Some("B".to_owned()), None]);
        // The journal knows A, the command began with B, and the other program goes back to A: that is not noticed, and A is not lost.
        let branch = collide_with(&room, "printf NEW > k", async { put(directory, "k", "A") }).await;
        assert_eq!(branch, None);
        assert_eq!(get(directory, "k").as_deref(), Some("NEW"));
        room.workspace().undo(UndoRequest::Last(1)).await.unwrap();
        assert_eq!(get(directory, "k").as_deref(), Some("A"));
    });
}

#[test]
fn promise_32_what_the_journal_met_while_a_command_ran_was_changed_all_the_same() {
    on_all(&[On::Local], |on| async move {
        let room = room(on).await;
        let directory = room.directory.path();
        put(directory, "unmet", "10");
        room.write("met", "10").await;
        room.write("same", "10").await;
        put(directory, "same", "20");
        for (name, theirs) in [("unmet", "500"), ("met", "500"), ("same", "10")] {
            let branch = collide_with(&room, &format!("echo 11 > {name}"), async {
                put(directory, name, theirs);
                room.workspace().snapshot(name, Default::default()).await.unwrap();
            })
            .await;
            assert!(branch.is_some(), "{name}");
            assert_eq!(get(directory, name).as_deref(), Some(theirs), "{name}");
        }
    });
}

#[test]
fn nothing_of_a_command_is_applied_where_others_changed_some_of_its_many_files() {
    on_all(&[On::Local], |on| async move {
        let room = room(on).await;
        let directory = room.directory.path();
        let names: Vec<_> = (0..40).map(|number| format!("d{}/f{number}", number % 4)).collect();
        names.iter().for_each(|name| put(directory, name, "before"));
        let branch = collide_with(&room, "for f in d*/f*; do echo mine > $f; done; rm d0/f0", async {
            names.iter().step_by(2).for_each(|name| put(directory, name, "theirs"));
        })
        .await;
        assert!(branch.is_some());
        for (number, name) in names.iter().enumerate() {
            let left = if number % 2 == 0 { "theirs" } else { "before" };
            assert_eq!(get(directory, name).as_deref(), Some(left), "{name}");
        }
    });
}

#[test]
fn what_others_changed_just_before_a_command_or_beside_its_files_is_no_collision() {
    on_all(&[On::Local], |on| async move {
        let room = room(on).await;
        let directory = room.directory.path();
        put(directory, "moved", "moved\n");
        room.write("met", "").await;
        for round in 0..8 {
            put(directory, "unmet", "a\n");
            put(directory, "met", &format!("{round}\n"));
            set_mode(directory, "met", 0o640);
            let changed = room.sh("echo b >> unmet; echo b >> met").await.changed;
            assert!(changed.change.is_some() && changed.branch.is_none(), "{changed:?}");
            assert_eq!(get(directory, "unmet").as_deref(), Some("a\nb\n"));
        }
        let text = "mv moved moved.bak; echo new > moved; echo own > own; echo same > same; rm met";
        let branch = collide_with(&room, text, async {
            put(directory, "theirs", "theirs\n");
            put(directory, "same", "same\n");
            put_by_rename(directory, "unmet", "theirs\n");
            std::fs::remove_file(directory.join("met")).unwrap();
        })
        .await;
        assert_eq!(branch, None);
        let left: Vec<_> = ["moved.bak", "moved", "own", "same", "unmet", "met"]
            .map(|name| get(directory, name).unwrap_or_default())
            .into();
        assert_eq!(left, ["moved\n", "new\n", "own\n", "same\n", "theirs\n", ""]);
    });
}
