//! `garret run` as a user runs it.

#![allow(
    clippy::disallowed_methods,
    reason = "tests look at the machine from outside, as another program would"
)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::Room;

fn room() -> Room {
    let room = Room::new();
    room.run(&["create", "box", "--capability", "fs,shell"]).done();
    room
}

#[test]
fn a_command_runs_and_is_a_change_that_undo_and_redo_move_over() {
    let room = room();
    room.run(&[
        "-w",
        "box",
        "run",
        "-c",
        "mkdir -p src && echo hi > src/a && chmod +x src/a",
    ])
    .done();
    assert!(room.run(&["-w", "box", "log"]).done().contains("exit 0 after"));
    assert_eq!(room.run(&["-w", "box", "cat", "src/a"]).done(), "hi\n");
    room.run(&["-w", "box", "undo"]).done();
    assert_eq!(room.run(&["-w", "box", "ls"]).done(), "");
    room.run(&["-w", "box", "redo"]).done();
    assert_eq!(room.run(&["-w", "box", "cat", "src/a"]).done(), "hi\n");
}

#[test]
fn a_command_runs_with_a_relative_home() {
    let room = Room::new();
    let home = ["--home", "own/home"];
    room.run(&[&home[..], &["create", "box", "--capability", "fs,shell"]].concat())
        .done();
    let ran = room.run(&[&home[..], &["-w", "box", "run", "-c", "echo hi | tee a"]].concat());
    assert_eq!(ran.done(), "hi\n");
}

#[test]
fn a_directory_is_worked_on_where_it_is() {
    let room = Room::new();
    room.put("w/a.txt", "one\n");
    room.run(&["create", "site", "--storage", "local:w", "--capability", "fs,shell"])
        .done();
    room.run(&["-w", "site", "run", "-c", "echo two >> a.txt; mkdir out"])
        .done();
    assert_eq!(room.get("w/a.txt"), b"one\ntwo\n");
    room.run(&["-w", "site", "undo"]).done();
    assert_eq!(room.get("w/a.txt"), b"one\n");
    assert!(!room.path().join("w/out").exists());
}

#[test]
fn a_model_sees_the_error_behind_much_output_and_can_ask_for_the_rest() {
    let room = room();
    let call = |arguments: serde_json::Value| {
        let ran = room.run(&["-w", "box", "call", "run", &arguments.to_string(), "--json"]);
        let answer = ran.json();
        assert_eq!(answer["ok"], true, "{answer}");
        answer["text"].as_str().expect("a text").to_owned()
    };
    let command = "seq 1 3000; echo 'error: the reason' >&2; exit 1";
    let text = call(serde_json::json!({"cmd": command}));
    assert!(text.len() <= 8_000, "{}", text.len());
    assert!(
        text.starts_with("stderr:\nerror: the reason\nstdout:\n1\n2\n"),
        "{text}"
    );
    let (output, footer) = text.rsplit_once('\n').expect("a footer");
    assert!(output.ends_with("\n2999\n3000"), "{text}");
    assert!(footer.starts_with("[exit code 1 after "), "{footer}");
    // What the footer says is true.
    let most = footer
        .split_once("`max_output_bytes` (at most ")
        .expect("how to get more")
        .1;
    let most: u64 = most.split_once(')').expect("a number").0.parse().expect("a number");
    let whole = call(serde_json::json!({"command": command, "max_output_bytes": most}));
    let lines: Vec<&str> = whole.lines().collect();
    assert_eq!(lines.len(), 3_002, "every line, the error and the footer");
    assert!(lines.contains(&"1500") && lines.contains(&"error: the reason"));
    assert!(!whole.contains("left out"));
}

#[test]
fn a_time_limit_above_the_maximum_is_lowered_and_the_answer_says_so() {
    let room = room();
    let arguments = serde_json::json!({"command": "echo done", "timeoutMs": 86_400_000});
    let answer = room
        .run(&["-w", "box", "call", "run", &arguments.to_string(), "--json"])
        .json();
    let text = answer["text"].as_str().expect("a text");
    assert!(text.starts_with("done\n[exit code 0 after "), "{text}");
    assert!(text.contains("; its time limit was lowered to "), "{text}");
    assert!(answer["data"]["lowered_timeout_ms"].is_u64(), "{answer}");
    // From 10,000 on, the bare name is in milliseconds.
    let arguments = serde_json::json!({"command": "true", "timeout": 120_000});
    let answer = room
        .run(&["-w", "box", "call", "run", &arguments.to_string(), "--json"])
        .json();
    assert_eq!(
        answer["data"]["lowered_timeout_ms"],
        serde_json::Value::Null,
        "{answer}"
    );
    let ran = room.run(&["-w", "box", "run", "--timeout", "24h", "-c", "echo done"]);
    assert_eq!(ran.code(), 0);
    let note = "garret: the time limit is 3600 s, the maximum of the workspace; to raise it, set it with \
                `garret configure box shell.limits.max_timeout_s=VALUE`";
    assert!(ran.err().contains(note), "{}", ran.err());
}

#[test]
fn a_limit_that_ends_a_command_is_named_with_its_value_and_how_to_raise_it() {
    let room = room();
    let ran = room.run(&["-w", "box", "run", "--timeout", "300ms", "-c", "sleep 1000"]);
    let note = "garret: its limit is 0.3 s (time): raise it with --timeout (up to 3600 s), or set it with \
                `garret configure box shell.limits.timeout_s=VALUE`";
    assert!(ran.err().contains(note), "{}", ran.err());
    let arguments = serde_json::json!({"command": "sleep 1000", "timeout_s": 0.3});
    let answer = room
        .run(&["-w", "box", "call", "run", &arguments.to_string(), "--json"])
        .json();
    let text = answer["text"].as_str().expect("a text");
    let note = "; its limit is 0.3 s (time): raise it with `timeout_s` (up to 3600 s), or set `shell.limits.timeout_s` \
                (of a named workspace with `garret configure NAME shell.limits.timeout_s=VALUE`)";
    assert!(text.contains(note), "{text}");
    assert_eq!(
        answer["data"]["reached"]["option"], "shell.limits.timeout_s",
        "{answer}"
    );
}

#[test]
fn a_command_that_looks_for_a_network_is_told_that_there_is_none() {
    let room = room();
    let look = "import socket; socket.getaddrinfo('not-allowed.example', 443)";
    let ran = room.run(&["-w", "box", "run", "--", "/usr/bin/python3", "-c", look]);
    let note = "garret: commands have no network (`network = \"none\"`): open it for one call with `--network HOST` or \
                `--network registries`, or set it with `garret configure box shell.network.allow=VALUE`";
    assert!(ran.err().contains(note), "{}", ran.err());
    let arguments = serde_json::json!({"command": format!("/usr/bin/python3 -c \"{look}\"")});
    let answer = room
        .run(&["-w", "box", "call", "run", &arguments.to_string(), "--json"])
        .json();
    assert_eq!(answer["data"]["reached"]["option"], "shell.network.allow", "{answer}");
    // Elsewhere, the error has another reason.
    let ran = room.run(&[
        "-w",
        "box",
        "run",
        "--network",
        "example.org",
        "--",
        "/usr/bin/python3",
        "-c",
        look,
    ]);
    assert!(!ran.err().contains("no network"), "{}", ran.err());
}

#[test]
fn output_and_exit_code_are_the_commands_own() {
    let room = room();
    let ran = room.run(&[
        "-w",
        "box",
        "run",
        "--",
        "sh",
        "-c",
        "printf out; printf err >&2; exit 7",
    ]);
    assert_eq!((ran.code(), ran.out(), ran.err()), (7, "out", "err"));
    let ran = room.run(&["-w", "box", "run", "-c", "kill -TERM $$"]);
    assert_eq!(ran.code(), 143);
    let ran = room.run_with(
        &[
            "-w",
            "box",
            "run",
            "--stdin",
            "--env",
            "A=b c",
            "--",
            "sh",
            "-c",
            "cat; echo $A",
        ],
        b"in\xff\n",
    );
    assert_eq!(ran.bytes(), b"in\xff\nb c\n");
    let json = room.run(&["-w", "box", "run", "--json", "-c", "echo x > y; exit 3"]);
    assert_eq!(json.code(), 3);
    let json = json.json();
    assert_eq!((&json["ok"], &json["data"]["exit_code"]), (&true.into(), &3.into()));
    assert_eq!(json["data"]["paths"], serde_json::json!(["+ y"]));
}

#[test]
fn what_does_not_run_says_why() {
    let room = room();
    let ran = room.run(&["-w", "box", "run", "--", "no-such-program"]);
    assert_eq!(ran.code(), 1);
    assert!(ran.err().starts_with("error: not_found"), "{}", ran.err());
    let moved = "mkdir -p .venv/bin; printf '#!/elsewhere/python\\n' > .venv/bin/pytest; chmod +x .venv/bin/pytest";
    room.run(&["-w", "box", "run", "-c", moved]).done();
    let ran = room.run(&["-w", "box", "run", "pytest"]);
    assert_eq!(ran.failed(), "not_found");
    let told = "`pytest` names an interpreter that is not in the sandbox";
    assert!(
        ran.err().contains(told) && ran.err().contains("`python -m`"),
        "{}",
        ran.err()
    );
    // The search goes on behind it.
    let found = "mv .venv/bin/pytest .venv/bin/true";
    room.run(&["-w", "box", "run", "-c", found]).done();
    room.run(&["-w", "box", "run", "true"]).done();
    let ran = room.run(&["-w", "box", "run"]);
    assert_eq!(ran.code(), 2);
    room.run(&["create", "plain"]).done();
    let ran = room.run(&["-w", "plain", "run", "-c", "true"]);
    assert!(
        ran.err().contains("does not declare the capability `shell`"),
        "{}",
        ran.err()
    );
}

#[test]
fn the_time_limit_ends_everything() {
    let room = room();
    let began = Instant::now();
    let ran = room.run(&[
        "-w",
        "box",
        "run",
        "--timeout",
        "2s",
        "-c",
        "sleep 100 & disown; setsid sleep 100 & sleep 100",
    ]);
    assert_eq!(ran.code(), 137);
    assert!(ran.err().contains("exceeded its time limit"), "{}", ran.err());
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

/// A command that runs and has said `up`, and the rest of its output.
fn started(room: &Room, text: &str) -> (Child, BufReader<ChildStdout>) {
    started_with(room, &[], text)
}

fn started_with(room: &Room, options: &[&str], text: &str) -> (Child, BufReader<ChildStdout>) {
    started_by(room, &[&["run"], options].concat(), text)
}

/// Starts a text by `run` or `code` in `box`, and waits for its first line.
fn started_by(room: &Room, command: &[&str], text: &str) -> (Child, BufReader<ChildStdout>) {
    let mut child = room
        .command(&[&["-w", "box"], command, &["-c", text]].concat())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("garret starts");
    let mut output = BufReader::new(child.stdout.take().expect("it is a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("it says a line");
    assert_eq!(line, "up\n");
    (child, output)
}

#[test]
fn what_is_discarded_is_told_and_forgotten() {
    let room = room();
    room.run(&["-w", "box", "write", "a", "kept"]).done();
    let ran = room.run(&["-w", "box", "run", "--discard", "-c", "rm -rf *"]);
    assert_eq!((ran.code(), ran.err()), (0, "garret: discarded: 1 deleted\n"));
    assert_eq!(room.run(&["-w", "box", "cat", "a"]).done(), "kept");
}

#[test]
fn promise_38_work_of_a_command_whose_garret_was_killed_is_found_and_can_be_kept() {
    let room = room();
    let (mut child, _output) = started(&room, "echo half > half; echo up; sleep 1000");
    child.kill().unwrap();
    child.wait().unwrap();
    let found = room.run(&["-w", "box", "leftovers", "--json"]);
    let found = found.json();
    let left = &found["data"]["leftovers"][0];
    assert_eq!(left["paths"], serde_json::json!(["+ half"]), "{found}");
    let id = left["id"].as_str().unwrap();
    assert!(
        room.run(&["-w", "box", "leftovers", "--keep", id])
            .done()
            .contains("1 created")
    );
    assert_eq!(room.run(&["-w", "box", "cat", "half"]).done(), "half\n");
    assert_eq!(
        room.run(&["-w", "box", "leftovers"]).done(),
        "no leftovers in this workspace\n"
    );
}

#[test]
fn a_layer_whose_effects_are_in_a_change_is_no_leftover() {
    for storage in ["filestore:box", "local:files"] {
        let room = Room::new();
        let config = format!("[workspaces.box]\nstorage = '{storage}'\ncapabilities = {{ fs = true, shell = true }}\n");
        room.put("garret.toml", &config).trust();
        std::fs::create_dir_all(room.path().join("files")).unwrap();
        room.run(&["-w", "box", "write", "old", "1"]).done();
        let (mut child, _output) = started(&room, "echo half > half; rm old; echo up; sleep 1000");
        child.kill().unwrap();
        child.wait().unwrap();
        // A second run makes the same change. Now the change and the layer are both there, as after a kill between the
        // commit and the removal of the layer, and after the recovery of a commit that was half done.
        room.run(&["-w", "box", "run", "-c", "echo half > half; rm old"]).done();
        // Later work on the same path does not bring the layer back.
        room.run(&["-w", "box", "write", "half", "more"]).done();
        let next = room.run(&["-w", "box", "run", "true"]);
        assert_eq!((next.code(), next.err()), (0, ""), "{storage}");
        assert_eq!(
            room.run(&["-w", "box", "leftovers"]).done(),
            "no leftovers in this workspace\n",
            "{storage}"
        );
    }
}

#[test]
fn the_doctor_tells_what_the_sandbox_can_enforce() {
    let room = room();
    let ran = room.run(&["-w", "box", "doctor", "--json"]);
    let data = &ran.json()["data"]["sandbox"];
    assert_eq!(data["kind"], "namespace");
    assert_eq!(data["enforced"].as_array().unwrap().len(), 9, "{data}");
    assert_eq!(ran.code() == 0, data["missing"].as_array().unwrap().is_empty());
}

#[test]
fn ctrl_c_ends_the_command_and_keeps_nothing_of_it() {
    let room = room();
    let arguments = [
        "-w",
        "box",
        "run",
        "-c",
        "echo half > file; echo ready; exec sleep 7681",
    ];
    let mut child = room
        .command(&arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    // As a terminal does it: to everything that belongs to the job.
    let job = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process_group(job, rustix::process::Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{ended:?}");
    assert!(
        String::from_utf8_lossy(&ended.stderr).contains("interrupted"),
        "{ended:?}"
    );
    assert_eq!(room.run(&["-w", "box", "ls"]).done(), "");
    assert!(room.run(&["-w", "box", "leftovers"]).done().contains("no leftovers"));
}

#[test]
fn a_command_ends_when_nobody_reads_its_output() {
    let room = room();
    let mut child = room
        .command(&["-w", "box", "run", "-c", "yes"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "y\n");
    assert_eq!(child.wait().unwrap().code(), Some(141));
}

#[test]
fn what_a_command_did_is_not_lost_where_it_cannot_be_kept() {
    let room = room();
    // It waits for somebody to read what it writes.
    let text = "echo work > work; echo up; head -c 20000000 /dev/zero; echo more >> work";
    let (child, mut output) = started(&room, text);
    room.run(&["delete", "box"]).done();
    std::io::copy(&mut output, &mut std::io::sink()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(75), "{told}");
    assert!(told.starts_with("garret: Not applied: "), "{told}");
    assert!(
        told.contains("was deleted") && told.contains("see `garret -w box leftovers`"),
        "{told}"
    );
    room.run(&["recover", "box"]).done();
    let found = room.run(&["-w", "box", "leftovers", "--json"]).data();
    let id = found["leftovers"][0]["id"]
        .as_str()
        .unwrap_or_else(|| panic!("{found}"));
    assert_eq!(found["leftovers"][0]["discarded"], serde_json::Value::Null);
    let next = room.run(&["-w", "box", "run", "true"]);
    assert_eq!(
        next.err(),
        "garret: the work of an earlier command could not be saved; see `garret -w box leftovers`\n"
    );
    room.run(&["-w", "box", "leftovers", "--keep", id]).done();
    assert_eq!(room.run(&["-w", "box", "cat", "work"]).done(), "work\nmore\n");
}

/// What lies in the home to be deleted.
fn layers_to_delete(room: &Room) -> usize {
    let benches = std::fs::read_dir(room.home().join("benches"))
        .expect("the home has benches")
        .flatten();
    let layers = benches.filter_map(|bench| std::fs::read_dir(bench.path().join("scratch/layers")).ok());
    let names = layers.flatten().flatten().map(|entry| entry.file_name());
    names
        .filter(|name| name.to_string_lossy().starts_with(".gone-"))
        .count()
}

#[test]
fn the_answer_comes_before_the_layer_is_deleted_and_the_next_start_deletes_the_rest() {
    let room = Room::new();
    let config = "[workspaces.box]\nstorage = 'filestore:box'\n[workspaces.box.capabilities.shell]\nlimits = { changed_files = 10 }\n";
    room.put("garret.toml", config).trust();
    let text = "/usr/bin/python3 -c 'for n in range(100000): open(str(n), \"x\").close()'";
    let mut child = room
        .command(&["-w", "box", "run", "--json", "-c", text])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("garret starts");
    let mut answer = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("it is a pipe"));
    output.read_line(&mut answer).expect("it answers");
    assert_eq!(layers_to_delete(&room), 1, "{answer}");
    std::io::copy(&mut output, &mut std::io::sink()).unwrap();
    child.wait().unwrap();
    assert_eq!(
        room.run(&["-w", "box", "leftovers"]).done(),
        "no leftovers in this workspace\n"
    );
    let is_deleted = (0..100).any(|_| {
        room.run(&["-w", "box", "run", "true"]).done();
        layers_to_delete(&room) == 0
    });
    assert!(is_deleted);
}

#[test]
fn a_leftover_that_cannot_be_read_is_listed_all_the_same_and_can_be_discarded() {
    let room = room();
    let (mut child, _output) = started(&room, "echo half > half; echo up; sleep 1000");
    child.kill().unwrap();
    child.wait().unwrap();
    // As a disk may leave it.
    let found = room.run(&["-w", "box", "leftovers", "--json"]).data();
    let id = found["leftovers"][0]["id"].as_str().unwrap().to_owned();
    let benches = std::fs::read_dir(room.home().join("benches")).unwrap().flatten();
    let layers: Vec<_> = benches.map(|one| one.path().join("scratch/layers").join(&id)).collect();
    let [layer] = &layers[..] else { panic!("{layers:?}") };
    std::fs::rename(layer.join("upper"), layer.join("lost")).unwrap();
    let listed = room.run(&["-w", "box", "leftovers"]).done().to_owned();
    assert!(
        listed.contains("cannot be kept") && listed.contains("echo half"),
        "{listed}"
    );
    room.run(&["-w", "box", "leftovers", "--discard", &id]).done();
    assert_eq!(
        room.run(&["-w", "box", "leftovers"]).done(),
        "no leftovers in this workspace\n"
    );
}

#[test]
fn what_would_end_with_the_call_is_refused_with_what_to_do_instead() {
    let room = room();
    let ran = room.run(&["-w", "box", "call", "start", r#"{"command": "sleep 60"}"#, "--json"]);
    let json = ran.json();
    assert_eq!(
        (ran.code(), &json["error"]["kind"]),
        (1, &"unsupported".into()),
        "{json}"
    );
    let hint = json["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("`garret run`") && hint.contains("`garret mcp`"), "{hint}");
}

#[test]
fn a_branch_of_a_command_is_merged_by_whoever_may_run_commands_and_no_other_branch() {
    let room = Room::new();
    room.put("w/shared", "before\n").put("w/bell", "");
    room.run(&["create", "box", "--storage", "local:w", "--capability", "fs,shell"])
        .done();
    let branch = collide(&room, "echo by the command > shared; echo new > fresh");
    let tried = room.run(&["-w", "box", "merge", &branch, "--theirs", "--dry-run"]);
    assert!(tried.done().contains("fresh"), "{}", tried.out());
    assert_eq!(room.get("w/shared"), b"by somebody else\nbefore\n");
    let elsewhere = room.run(&["merge", &branch]);
    let hint = format!("hint: `{branch}` is a branch of `box`: `garret -w box merge {branch}`\n");
    assert!(elsewhere.err().ends_with(&hint), "{}", elsewhere.err());
    let listed = room.run(&["-w", "box", "branch", "list"]);
    assert!(listed.done().starts_with(&branch), "{}", listed.out());
    room.run(&["-w", "box", "merge", &branch, "--theirs"]).done();
    room.run(&["-w", "box", "branch", "delete", &branch]).done();
    assert_eq!(room.get("w/shared"), b"by the command\n");
    assert_eq!(room.get("w/fresh"), b"new\n");
    let refused = room.run(&["-w", "box", "merge", "mine"]).err().to_owned();
    assert!(
        refused.contains("does not declare the capability `snapshot`"),
        "{refused}"
    );
}

/// Runs a text in the middle of which, where it waits for the file `bell` to ring, somebody else writes `shared`; gives the branch.
fn collide(room: &Room, text: &str) -> String {
    let ended = collided(room, &[], text);
    assert_eq!(ended.status.code(), Some(75));
    let told = String::from_utf8_lossy(&ended.stderr);
    let first = told.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("garret: Not applied: the files changed while the command ran."),
        "{told}"
    );
    let branch = first.split('`').find(|word| word.starts_with("run-"));
    branch.unwrap_or_else(|| panic!("{told}")).to_owned()
}

/// How a command ends that is run in this way, with these options.
fn collided(room: &Room, options: &[&str], text: &str) -> Output {
    collided_by(room, &[&["run"], options].concat(), text, || write_shared(room))
}

/// Writes `shared` with a content that it did not have: the same bytes again are no collision.
fn write_shared(room: &Room) {
    let shared = room.run(&["-w", "box", "cat", "shared"]).done().to_owned();
    let content = format!("by somebody else\n{shared}");
    room.run(&["-w", "box", "write", "shared", "--", &content]).done();
}

const WAIT_FOR_BELL: &str = "until grep -q ring bell; do sleep 0.02; done";

fn ring(room: &Room) {
    let bell = std::fs::OpenOptions::new()
        .append(true)
        .open(room.path().join("w/bell"));
    bell.and_then(|mut bell| bell.write_all(b"ring")).expect("it rings");
}

/// How a command ends in the middle of which others do `theirs`.
fn collided_by(room: &Room, command: &[&str], text: &str, theirs: impl FnOnce()) -> Output {
    let text = format!("echo up; {WAIT_FOR_BELL}; {text}");
    let (child, mut output) = started_by(room, command, &text);
    theirs();
    ring(room);
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut output, &mut rest).expect("it is read");
    let mut ended = child.wait_with_output().expect("it ends");
    ended.stdout = rest;
    ended
}

#[test]
fn a_command_writes_over_nothing_that_another_program_changed_since_it_began() {
    let room = Room::new();
    room.put("w/unmet", "10\n").put("w/bell", "");
    room.run(&["create", "box", "--storage", "local:w", "--capability", "fs,shell"])
        .done();
    let told = |ended: &Output| String::from_utf8_lossy(&ended.stderr).into_owned();
    // The journal never met the file.
    let ended = collided_by(&room, &["run"], "echo 11 > unmet", || {
        room.put("w/unmet", "500\n");
    });
    assert_eq!(ended.status.code(), Some(75), "{}", told(&ended));
    assert!(told(&ended).starts_with("garret: Not applied"), "{}", told(&ended));
    assert_eq!(room.get("w/unmet"), b"500\n");
    // The journal knows an older content of the files.
    for name in ["f", "g"] {
        room.run(&["-w", "box", "write", name, "A"]).done();
        room.put(&format!("w/{name}"), "B");
    }
    room.put("w/bell", "");
    let text = "printf A > f; printf NEW > g; echo n > h";
    let ended = collided_by(&room, &["run"], text, || {
        room.put("w/f", "C");
    });
    assert_eq!(ended.status.code(), Some(75), "{}", told(&ended));
    assert_eq!((room.get("w/f"), room.get("w/g")), (b"C".to_vec(), b"B".to_vec()));
    assert!(!room.path().join("w/h").exists());
}

#[test]
fn a_command_whose_effects_went_to_a_branch_says_so_first_and_ends_with_75() {
    let room = Room::new();
    room.put("w/shared", "before\n").put("w/bell", "");
    room.run(&["create", "box", "--storage", "local:w", "--capability", "fs,shell"])
        .done();
    let code = |options: &[&str], text: &str| {
        room.put("w/bell", "");
        let ended = collided(&room, options, text);
        (ended.status.code(), ended)
    };
    let (ended, output) = code(&[], "echo one >> shared");
    assert_eq!(ended, Some(75));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let branch = told.split('`').nth(1).unwrap().to_owned();
    assert_eq!(
        told.lines().next().unwrap(),
        format!(
            "garret: Not applied: the files changed while the command ran. Its effects are on branch `{branch}`; \
             merge it with `garret -w box merge {branch}`."
        )
    );
    let (ended, output) = code(&["--accept-branch"], "echo two >> shared");
    assert_eq!(ended, Some(0));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.starts_with("garret: Not applied"), "{told}");
    assert_eq!(
        code(&[], "echo three >> shared; exit 3").0,
        Some(3),
        "the command's own"
    );
}

#[test]
fn code_whose_effects_went_to_a_branch_says_so_first_and_ends_with_75() {
    let room = Room::new();
    room.put("w/shared", "before\n");
    room.run(&["create", "box", "--storage", "local:w", "--capability", "fs,code"])
        .done();
    for (options, code) in [(&[][..], 75), (&["--accept-branch"][..], 0)] {
        room.put("w/bell", "");
        let command = [&["code", "bash"], options].concat();
        let ended = collided_by(&room, &command, "echo one >> shared", || write_shared(&room));
        let told = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{told}");
        let first = "garret: Not applied: the files changed while the code ran. Its effects are on branch `";
        assert!(told.starts_with(first), "{told}");
    }
}

#[test]
fn a_json_report_begins_with_effects_that_went_to_a_branch() {
    let room = Room::new();
    room.put("w/shared", "before\n").put("w/bell", "");
    room.run(&["create", "box", "--storage", "local:w", "--capability", "fs,shell"])
        .done();
    let text = format!("head -c 1000000 > /dev/null; {WAIT_FOR_BELL}; echo one | tee -a shared");
    let mut child = room
        .command(&["-w", "box", "run", "--json", "--stdin", "-c", &text])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("garret starts");
    // No buffer on the way holds so much: the command has begun when it is written.
    let mut input = child.stdin.take().expect("it is a pipe");
    input.write_all(&[b'x'; 1_000_000]).expect("the command reads it");
    drop(input);
    write_shared(&room);
    ring(&room);
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(75));
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("it is JSON");
    let text = report["text"].as_str().expect("a text");
    assert!(text.starts_with("Not applied: the files changed while"), "{text}");
    assert!(text.ends_with("\none\n"), "{text}");
}

#[test]
fn commands_of_several_processes_take_turns_and_none_is_diverted() {
    for storage in ["local:w", "filestore"] {
        let room = Room::new();
        room.put("w/lines", "");
        room.run(&["create", "box", "--storage", storage, "--capability", "fs,shell"])
            .done();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let room = &room;
                scope.spawn(move || {
                    for number in 0..15 {
                        let text = format!("echo {writer}-{number} >> lines");
                        let ran = room.run(&["-w", "box", "run", "-c", &text]);
                        assert_eq!(ran.code(), 0, "{storage}: {}{}", ran.out(), ran.err());
                    }
                });
            }
        });
        let mut lines: Vec<_> = room
            .run(&["-w", "box", "cat", "lines"])
            .done()
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines.dedup();
        assert_eq!(lines.len(), 60, "{storage}");
        assert!(
            !room.run(&["list"]).done().contains("run-"),
            "{storage}: no branch was made"
        );
    }
}

#[test]
fn who_waits_for_a_command_is_told_at_once_which_and_need_not_wait() {
    for storage in ["local:w", "filestore"] {
        let room = Room::new();
        room.put("w/a", "");
        room.run(&["create", "box", "--storage", storage, "--capability", "fs,shell"])
            .done();
        let (mut first, _output) = started(&room, "echo up; sleep 60");
        let refused = room.run(&["-w", "box", "run", "--no-wait", "-c", "true"]);
        assert_eq!(refused.code(), 1, "{storage}: {}", refused.err());
        let told = refused.err();
        assert!(
            told.starts_with(
                "error: unavailable: another command runs in this workspace: `echo up; sleep 60` (process "
            ),
            "{storage}: {told}"
        );
        let process = format!("(process {}, started ", first.id());
        assert!(told.contains(&process), "{storage}: {told}");
        let mut second = room
            .command(&["-w", "box", "run", "-c", "echo second"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("garret starts");
        let mut notes = BufReader::new(second.stderr.take().expect("it is a pipe"));
        let mut line = String::new();
        notes.read_line(&mut line).expect("it says a line");
        assert!(
            line.starts_with("garret: waiting for `echo up; sleep 60` (process ") && line.contains(&process),
            "{storage}: {line}"
        );
        // The turn of a process that dies is free.
        first.kill().expect("it is killed");
        first.wait().expect("it has ended");
        let ended = second.wait_with_output().expect("it ends");
        assert_eq!(
            (ended.status.code(), &ended.stdout[..]),
            (Some(0), &b"second\n"[..]),
            "{storage}"
        );
    }
}

#[test]
fn no_branch_is_named_as_those_of_commands_are() {
    let room = Room::new();
    room.run(&["create", "box", "--capability", "fs,snapshot,shell"]).done();
    room.run(&["-w", "box", "write", "a", "1"]).done();
    let refused = room.run(&["-w", "box", "branch", "create", "run-2bb56b1b6e94"]);
    assert!(refused.err().starts_with("error: invalid"), "{}", refused.err());
    room.run(&["-w", "box", "branch", "create", "run-tests"]).done();
}
