//! Options that mean what they mean in other programs, files in and out, and what a terminal is shown.

#![allow(
    clippy::disallowed_methods,
    reason = "tests run programs and look at the directory from outside"
)]
#![allow(clippy::print_stdout, reason = "a test that shows nothing here says why")]
#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

use crate::common::{GARRET, Ran, Room};

fn words() -> Room {
    let room = Room::new();
    room.put("f.txt", "a word\nnothing\nwordy -n WORD\n")
        .put("g.txt", "nothing\n");
    room
}

#[test]
fn the_options_of_grep_mean_what_they_mean_elsewhere() {
    let room = words();
    let cases: [(&[&str], &str); 12] = [
        (&["-n", "word"], "f.txt:1:a word\nf.txt:3:wordy -n WORD\n"),
        (&["-rn", "word"], "f.txt:1:a word\nf.txt:3:wordy -n WORD\n"),
        (&["-w", "word"], "f.txt:1:a word\n"),
        (&["-wi", "word"], "f.txt:1:a word\nf.txt:3:wordy -n WORD\n"),
        (&["-v", "word", "f.txt"], "f.txt:2:nothing\n"),
        (&["-l", "word"], "f.txt\n"),
        (&["-vl", "nothing"], "f.txt\n"),
        (&["-c", "word"], "f.txt:2\n"),
        (&["-E", "w(or)d$"], "f.txt:1:a word\n"),
        (&["-F", "w(or)d"], ""),
        (&["-A", "1", "a word"], "f.txt:1:a word\nf.txt-2-nothing\n"),
        (&["-B1", "-C0", "wordy"], "f.txt-2-nothing\nf.txt:3:wordy -n WORD\n"),
    ];
    for (arguments, expected) in cases {
        assert_eq!(
            room.run(&[&["grep"], arguments].concat()).done(),
            expected,
            "{arguments:?}"
        );
    }
}

#[test]
fn a_pattern_that_begins_with_a_dash_is_marked_as_one() {
    let room = words();
    for arguments in [
        &["grep", "-e", "-n"][..],
        &["grep", "--", "-n"],
        &["grep", "-e", "-n", "f.txt"],
    ] {
        assert_eq!(room.run(arguments).done(), "f.txt:3:wordy -n WORD\n", "{arguments:?}");
    }
    assert_eq!(room.run(&["grep", "-e", "-n", "f.txt", "g.txt"]).misused(), "invalid");
}

#[test]
fn an_unknown_option_is_an_error_and_changes_nothing() {
    let room = words();
    let cases: [&[&str]; 7] = [
        &["grep", "-Z", "word"],
        &["glob", "-x"],
        &["write", "f.txt", "-n"],
        &["append", "f.txt", "--what"],
        &["edit", "f.txt", "word", "--what"],
        &["rm", "-x", "f.txt"],
        &["run", "--what", "ls"],
    ];
    for arguments in cases {
        let ran = room.run(arguments);
        assert_eq!(ran.code(), 2, "{arguments:?}");
        assert!(
            ran.err().contains("unexpected argument"),
            "{arguments:?}: {}",
            ran.err()
        );
    }
    assert_eq!(room.get("f.txt"), b"a word\nnothing\nwordy -n WORD\n");
    room.run(&["write", "dash", "--", "-n"]).done();
    assert_eq!(room.get("dash"), b"-n");
}

#[test]
fn w_before_grep_is_the_workspace_and_after_it_whole_words() {
    let room = words();
    room.run(&["create", "notes"]).done();
    room.run(&["-w", "notes", "write", "a", "milk\nmilky\n"]).done();
    assert_eq!(room.run(&["-w", "notes", "grep", "-w", "milk"]).done(), "a:1:milk\n");
    assert_eq!(
        room.run(&["grep", "--workspace", "notes", "-w", "milk"]).done(),
        "a:1:milk\n"
    );
    let misread = room.run(&["grep", "-w", "notes", "milk"]);
    assert_eq!(misread.failed(), "not_found");
    assert!(misread.err().contains("-w means whole words"), "{}", misread.err());
    assert!(misread.err().contains("garret -w notes grep"), "{}", misread.err());
}

#[test]
fn rm_ls_cp_mkdir_and_log_take_the_options_of_other_programs() {
    let room = Room::new();
    room.put("d/e/f", "x").put(".hidden", "y");
    room.run(&["mkdir", "-p", "a/b/c"]).done();
    room.run(&["mkdir", "-p", "a/b/c"]).done();
    room.run(&["cp", "-r", "d", "copy"]).done();
    assert_eq!(room.get("copy/e/f"), b"x");
    for arguments in [&["ls", "-la"][..], &["ls", "-l", "-a"], &["ls", "-lA"]] {
        let listed = room.run(arguments).done().to_owned();
        assert!(listed.contains("file") && listed.contains(".hidden"), "{listed}");
    }
    assert!(room.run(&["ls", "-a"]).done().contains(".hidden\n"));
    assert_eq!(room.run(&["rm", "-f", "d"]).failed(), "not_empty");
    assert_eq!(room.run(&["rm", "nothing"]).failed(), "not_found");
    assert_eq!(
        room.run(&["rm", "-rf", "d", "nothing", "copy"]).done(),
        "removed d\nremoved copy\n"
    );
    assert!(!room.path().join("d").exists() && !room.path().join("copy").exists());
    assert_eq!(room.run(&["rm", "-f", "nothing"]).done(), "");
    assert_eq!(
        room.run(&["log", "-n", "2"]).done().lines().count(),
        3,
        "two changes, and how to get more"
    );
}

#[test]
fn a_mistyped_name_of_the_home_makes_nothing() {
    let room = Room::new();
    for arguments in [&["ls"][..], &["write", "a", "x"], &["log"]] {
        let ran = room.run(&[&["-w", "filestore:typo"], arguments].concat());
        assert_eq!(ran.misused(), "not_found", "{arguments:?}");
        assert!(ran.err().contains("garret create typo"), "{}", ran.err());
    }
    assert!(!room.home().exists());
    room.run(&["create", "notes"]).done();
    let ran = room.run(&["-w", "filestore:ntoes", "write", "a", "x"]);
    assert!(ran.err().contains("did you mean `notes`?"), "{}", ran.err());
    assert_eq!(room.run(&["mcp", "filestore:ntoes"]).misused(), "not_found");
    assert_eq!(room.run(&["list"]).done().lines().count(), 1);
    room.run(&["-w", "filestore:notes", "write", "a", "x"]).done();
}

#[test]
fn a_program_runs_without_dashes_and_in_a_plain_directory() {
    let room = Room::new();
    room.put("sub/a.txt", "x");
    assert_eq!(room.run(&["run", "ls"]).done(), "sub\n");
    assert_eq!(
        room.run(&["-w", "sub", "run", "ls", "-1", "--all"]).done(),
        ".\n..\na.txt\n"
    );
    assert_eq!(room.run(&["run", "--cwd", "sub", "--", "ls", "-1"]).done(), "a.txt\n");
    room.run(&["run", "touch", "new"]).done();
    assert!(room.path().join("new").exists());
    room.run(&["undo"]).done();
    assert!(!room.path().join("new").exists());
    assert_eq!(room.run(&["code", "bash", "-c", "echo hi"]).done(), "hi\n");
    // A name of the home says itself what may be done in it.
    room.run(&["create", "plain"]).done();
    let refused = room.run(&["-w", "plain", "run", "ls"]);
    assert_eq!(refused.failed(), "denied");
    assert!(refused.err().contains("garret capabilities plain"), "{}", refused.err());
    assert_eq!(room.run(&["-w", "filestore:plain", "run", "ls"]).failed(), "denied");
}

#[test]
fn standard_input_is_passed_on_as_it_is_read() {
    let room = Room::new();
    let input: Vec<u8> = (0..6_000_000_u32).map(|number| (number / 3) as u8).collect();
    let ran = room.run_with(&["run", "--stdin", "sh", "-c", "wc -c; head -c 3 | wc -c"], &input);
    assert_eq!(ran.done(), "6000000\n0\n");
    let mut child = room
        .command(&["run", "--stdin", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    // The command holds its writer up while nobody reads what it prints.
    let writer = std::thread::spawn({
        let input = input.clone();
        move || pipe.write_all(&input).unwrap()
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.stdout == input, "{} bytes", output.stdout.len());
}

/// 300 MB are read; half of that may be held, all that the program itself needs included.
#[test]
fn standard_input_without_end_takes_no_memory_and_ends_with_the_command() {
    let room = Room::new();
    let script = format!("yes | '{GARRET}' run --stdin head -1");
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(room.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("GARRET_HOME", room.home())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "y\n");
    let mut yes = Command::new("yes").stdout(Stdio::piped()).spawn().unwrap();
    let mut child = room
        .command(&[
            "run",
            "--stdin",
            "sh",
            "-c",
            "head -c 300000000 | wc -c; echo up; sleep 1000",
        ])
        .stdin(yes.stdout.take().unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    assert_eq!(lines.next().unwrap().unwrap(), "300000000");
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let most: u64 = most.trim().trim_end_matches(" kB").parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap();
    yes.kill().unwrap();
    yes.wait().unwrap();
    assert!(most < 150_000, "{most} kB at most");
}

/// Runs a script to its end; gives the most memory that Garret itself had, in kB, and what it printed.
fn peak_of_run(room: &Room, script: &str) -> (u64, String) {
    let mut child = room
        .command(&["run", "-c", script])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let most = most.and_then(|most| most.trim().trim_end_matches(" kB").parse().ok());
        peak = most.unwrap_or(0).max(peak);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let output = child.wait_with_output().unwrap();
    (peak, String::from_utf8(output.stderr).unwrap())
}

/// Each of these files took 28 kB before their names were counted; the program itself takes 50 MB.
#[test]
fn a_command_that_leaves_more_than_is_allowed_takes_little_memory() {
    let deep = "n=$(printf 'n%.0s' $(seq 246)); p=.; for i in $(seq 14); do p=$p/$n; done; mkdir -p $p && cd $p";
    for (script, refusal) in [
        (format!("{deep} && seq 10000 | xargs touch"), "the names of the paths"),
        (
            "for i in $(seq 60); do truncate -s 4G sparse$i; done".to_owned(),
            "including holes of sparse files",
        ),
    ] {
        let room = Room::new();
        let (peak, said) = peak_of_run(&room, &script);
        assert!(said.contains(refusal), "{script}: {said}");
        assert!(peak < 150_000, "{script}: {peak} kB at most");
    }
}

#[test]
fn undo_says_where_fewer_changes_are_left_than_were_asked_for() {
    let room = Room::new();
    room.run(&["write", "a", "x"]).done();
    let undone = room.run(&["undo", "--last", "3"]);
    assert!(
        undone.done().contains("only 1 change was left to undo, not 3"),
        "{}",
        undone.out()
    );
    room.run(&["redo"]).done();
    assert!(!room.run(&["undo", "--last", "1"]).done().contains("only"));
}

#[test]
fn list_names_directories_and_gc_its_grace_period() {
    let room = Room::new();
    room.run(&["write", "a", "x"]).done();
    let place = room.path().canonicalize().unwrap();
    let listed = room.run(&["list", "--all"]).done().to_owned();
    assert!(listed.contains(&format!("local:{}", place.display())), "{listed}");
    let collected = room.run(&["gc"]);
    assert!(collected.err().contains("grace period of 24 h"), "{}", collected.err());
    let collected = room.run(&["gc", "--grace", "7d", "--dry-run"]);
    assert!(collected.err().contains("grace period of 7 d"), "{}", collected.err());
    assert_eq!(room.run(&["gc", "--grace", "0s"]).err(), "");
}

fn tree(room: &Room) {
    room.put("from/a.txt", "one").put("from/deep/b", "two");
    let script = room.path().join("from/run.sh");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o4755)).unwrap();
    symlink("a.txt", room.path().join("from/link")).unwrap();
    symlink("/etc/passwd", room.path().join("from/out")).unwrap();
}

#[test]
fn files_go_into_a_workspace_as_one_change() {
    let room = Room::new();
    tree(&room);
    room.run(&["create", "notes"]).done();
    let notes = |arguments: &[&str]| room.run(&[&["-w", "notes"], arguments].concat());
    notes(&["put", "from", "from/a.txt", "sub/"]).done();
    assert_eq!(notes(&["log"]).done().lines().count(), 1);
    assert_eq!(notes(&["cat", "sub/from/deep/b"]).done(), "two");
    assert_eq!(notes(&["cat", "sub/a.txt"]).done(), "one");
    let stat = |path: &str| notes(&["stat", path, "--json"]).data();
    assert_eq!(stat("sub/from/run.sh")["mode"], "0755", "no set-user-id");
    assert_eq!(stat("sub/from/link")["target"], "a.txt");
    assert_eq!(stat("sub/from/out")["target"], "/etc/passwd", "a link stays a link");
    // A directory that is there takes the file; another path is its new name. What is there is replaced, and can be had again.
    notes(&["put", "from/a.txt", "sub"]).done();
    notes(&["put", "from/deep/b", "sub/a.txt"]).done();
    assert_eq!(notes(&["cat", "sub/a.txt"]).done(), "two");
    notes(&["put", "from", "sub"]).done();
    notes(&["put", "from/.", "."]).done();
    assert_eq!(notes(&["cat", "deep/b"]).done(), "two");
    room.run_with(&["-w", "notes", "put", "-", "piped"], b"in\xff").done();
    assert_eq!(notes(&["cat", "piped"]).bytes(), b"in\xff");
    notes(&["undo", "--last", "6"]).done();
    assert_eq!(notes(&["ls"]).done(), "");
}

#[test]
fn what_cannot_be_put_is_refused_whole() {
    let room = Room::new();
    tree(&room);
    room.run(&["create", "notes"]).done();
    let notes = |arguments: &[&str]| room.run(&[&["-w", "notes"], arguments].concat());
    assert_eq!(notes(&["put", "from/a.txt", "missing", "sub/"]).failed(), "not_found");
    assert_eq!(notes(&["put", "from/a.txt", "from", "sub"]).misused(), "invalid");
    assert_eq!(notes(&["put", "-", "sub/"]).misused(), "invalid");
    notes(&["write", "file", "x"]).done();
    assert_ne!(notes(&["put", "from/deep", "file"]).code(), 0);
    assert_eq!(notes(&["ls"]).done(), "file\n");
    Command::new("mkfifo")
        .arg(room.path().join("from/pipe"))
        .status()
        .unwrap();
    let put = notes(&["put", "from", "all"]);
    assert!(
        put.err().contains("left out: `from/pipe` (it is a special file)"),
        "{}",
        put.err()
    );
}

#[test]
fn files_come_out_and_nothing_is_replaced_without_force() {
    let room = Room::new();
    tree(&room);
    room.run(&["create", "notes"]).done();
    let notes = |arguments: &[&str]| room.run(&[&["-w", "notes"], arguments].concat());
    notes(&["put", "from", "d"]).done();
    notes(&["get", "d", "out"]).done();
    assert_eq!(room.get("out/deep/b"), b"two");
    let mode = |name: &str| room.path().join(name).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("out/run.sh"), 0o755);
    assert_eq!(
        std::fs::read_link(room.path().join("out/out")).unwrap().to_str(),
        Some("/etc/passwd")
    );
    notes(&["get", "d/a.txt", "renamed.txt"]).done();
    assert_eq!(room.get("renamed.txt"), b"one");
    notes(&["get", "d/a.txt", "d/deep/", "into/"]).done();
    assert_eq!(
        (room.get("into/a.txt"), room.get("into/deep/b")),
        (b"one".to_vec(), b"two".to_vec())
    );
    assert_eq!(notes(&["get", "d/a.txt", "-"]).bytes(), b"one");
    // Nothing at all is written where one place is taken.
    room.put("renamed.txt", "mine").put("part/d/a.txt", "mine");
    assert_eq!(notes(&["get", "d/a.txt", "renamed.txt"]).failed(), "already_exists");
    assert_eq!(notes(&["get", "d", "part"]).failed(), "already_exists");
    assert_eq!(room.get("renamed.txt"), b"mine");
    assert!(!room.path().join("part/d/deep").exists());
    notes(&["get", "--force", "d", "part"]).done();
    assert_eq!(room.get("part/d/a.txt"), b"one");
    notes(&["write", "d/a.txt", "later"]).done();
    notes(&["get", "--at", "1", "d/a.txt", "old.txt"]).done();
    assert_eq!(room.get("old.txt"), b"one");
    assert_eq!(notes(&["get", "d/none", "x"]).failed(), "not_found");
    let left = std::fs::read_dir(room.path()).unwrap().flatten();
    assert!(
        left.map(|entry| entry.file_name())
            .all(|name| !name.to_string_lossy().starts_with(".garret-"))
    );
}

/// What a workspace says is a directory now may have been a link when it was copied out before.
#[test]
fn nothing_is_written_through_a_link() {
    let room = Room::new();
    room.put("precious/key", "mine");
    room.run(&["create", "notes"]).done();
    let notes = |arguments: &[&str]| room.run(&[&["-w", "notes"], arguments].concat());
    notes(&["write", "d/x/key", "theirs"]).done();
    std::fs::create_dir_all(room.path().join("out")).unwrap();
    symlink(room.path().join("precious"), room.path().join("out/x")).unwrap();
    assert_eq!(notes(&["get", "--force", "d/.", "out"]).failed(), "not_a_directory");
    assert_eq!(room.get("precious/key"), b"mine");
    symlink(room.path().join("precious/key"), room.path().join("key")).unwrap();
    notes(&["get", "--force", "d/x/key", "key"]).done();
    assert_eq!(
        room.get("precious/key"),
        b"mine",
        "the link is replaced, not what it leads to"
    );
    assert_eq!(room.get("key"), b"theirs");
}

#[test]
fn an_import_can_live_elsewhere_than_in_the_home() {
    let room = Room::new();
    tree(&room);
    std::fs::create_dir(room.path().join("site")).unwrap();
    room.run(&["import", "--from", "from", "--name", "site", "--storage", "local:site"])
        .done();
    assert_eq!(room.get("site/deep/b"), b"two");
    room.run(&["-w", "site", "write", "a.txt", "changed"]).done();
    assert_eq!(room.get("site/a.txt"), b"changed");
    room.run(&["-w", "site", "undo"]).done();
    assert_eq!(room.get("site/a.txt"), b"one");
    // With its history, from a portable file.
    room.run(&["create", "notes"]).done();
    room.run(&["-w", "notes", "write", "a", "1"]).done();
    room.run(&["-w", "notes", "write", "a", "2"]).done();
    room.run(&["export", "notes", "notes.garret"]).done();
    std::fs::create_dir(room.path().join("copy")).unwrap();
    room.run(&["import", "notes.garret", "--name", "copy", "--storage", "local:copy"])
        .done();
    assert_eq!(room.get("copy/a"), b"2");
    assert_eq!(room.run(&["-w", "copy@1", "cat", "a"]).done(), "1");
    // What is not empty is left alone, and the name stays free.
    let refused = room.run(&["import", "notes.garret", "--name", "third", "--storage", "local:from"]);
    assert_eq!(refused.failed(), "not_empty");
    assert!(refused.err().contains("nothing was imported"), "{}", refused.err());
    assert_eq!(room.get("from/a.txt"), b"one");
    room.run(&["create", "third"]).done();
    let wrong = room.run(&["import", "notes.garret", "--name", "x", "--storage", "memory:"]);
    assert_eq!(wrong.misused(), "invalid");
}

/// Runs the program on a terminal, and gives everything that the terminal got.
fn on_terminal(room: &Room, arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let spawn = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    let mut command = Command::new("python3");
    command
        .args(["-c", spawn, GARRET])
        .args(arguments)
        .current_dir(room.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TERM", "xterm")
        .env("GARRET_HOME", room.home())
        .envs(environment.iter().copied())
        .stdin(Stdio::null());
    let output = command.output().expect("the tests need Python 3");
    String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n")
}

#[test]
fn diff_grep_and_log_have_colour_on_a_terminal_alone() {
    let room = Room::new();
    room.run(&["write", "a", "one\ntwo\n"]).done();
    room.run(&["write", "a", "one\nthree\n"]).done();
    for (arguments, expected) in [
        (&["diff"][..], "\x1b[32m+three\x1b[0m\n"),
        (
            &["grep", "thr"],
            "\x1b[35ma\x1b[0m:\x1b[32m2\x1b[0m:\x1b[1;31mthr\x1b[0mee\n",
        ),
        (&["log"], "\x1b[33m2\x1b[0m  "),
    ] {
        let shown = on_terminal(&room, arguments, &[]);
        assert!(shown.contains(expected), "{shown:?}");
        let plain = on_terminal(&room, arguments, &[("NO_COLOR", "1")]);
        assert!(!plain.contains('\x1b'), "{plain:?}");
        let never = on_terminal(&room, &[arguments, &["--color", "never"]].concat(), &[]);
        assert!(!never.contains('\x1b'), "{never:?}");
        assert!(!room.run(arguments).done().contains('\x1b'));
        let always = room.run(&[arguments, &["--color", "always"]].concat());
        assert!(always.done().contains('\x1b'), "{:?}", always.out());
        let json = room.run(&[arguments, &["--json", "--color", "always"]].concat());
        assert!(!json.out().contains("\\u001b"), "{}", json.out());
    }
}

#[test]
fn times_are_local_on_a_terminal_and_rfc_3339_elsewhere() {
    let room = Room::new();
    room.run(&["write", "a", "x"]).done();
    room.run(&["snapshot", "create", "s"]).done();
    let zone = [("TZ", "Asia/Kathmandu"), ("NO_COLOR", "1")];
    for arguments in [
        &["log"][..],
        &["show", "1"],
        &["versions", "a"],
        &["ls", "-l"],
        &["stat", "a"],
        &["snapshot", "list"],
    ] {
        let shown = on_terminal(&room, arguments, &zone);
        assert!(shown.contains("+05:45") && !shown.contains("Z "), "{shown}");
        let piped = Ran::of(
            {
                let mut command = room.command(arguments);
                command.envs(zone);
                command
            },
            b"",
        );
        assert!(!piped.done().contains("+05:45"), "{}", piped.out());
        let json = on_terminal(&room, &[arguments, &["--json"]].concat(), &zone);
        assert!(!json.contains("+05:45"), "{json}");
    }
}

/// Everything that a file, a name, a configuration or a pattern may say to a terminal.
#[test]
fn no_escape_of_a_file_a_name_or_a_pattern_reaches_the_terminal() {
    let room = Room::new();
    let evil = "\x1b]0;evil\x07\x1b[2J\u{9b}31m";
    room.put("content", format!("needle {evil}\nsecond\n"))
        .put(&format!("name{evil}"), "needle\n")
        .put(
            "bad.patch",
            format!("--- a/{evil}\n+++ b/{evil}\n@@ -1 +1 @@\n-{evil}\n+x\n"),
        )
        .put(
            "worse.patch",
            format!("--- a/content\n+++ b/content\n@@ -1 +1 @@ {evil}\n-{evil}\n+x\n"),
        );
    configure_name(&room, evil);
    let pattern = format!("({evil}");
    let named = format!("name{evil}");
    let elsewhere = format!("/nonexistent/{named}");
    let cases: Vec<Vec<&str>> = vec![
        vec!["cat", "content"],
        vec!["cat", "content", "--limit", "1"],
        vec!["get", "content", "-"],
        vec!["--json", "cat", "content"],
        vec!["grep", "needle"],
        vec!["--color", "never", "grep", "needle"],
        vec!["grep", &pattern],
        vec!["grep", "x", &named],
        vec!["glob", "*"],
        vec!["ls", "-l"],
        vec!["tree"],
        vec!["tree", &named],
        vec!["patch", "bad.patch"],
        vec!["patch", "worse.patch"],
        vec!["-w", "xx", "ls"],
        vec!["-w", &named, "ls"],
        vec!["config", "check"],
        vec!["--config", "garret.toml", "-w", "nosuch", "ls"],
        vec!["stat", &named],
        vec!["cat", &pattern],
        vec!["write", "content", "later"],
        vec!["diff"],
        vec!["--color", "never", "diff"],
        vec!["log"],
        vec!["show", "1"],
        vec!["diff", &named],
        vec!["restore", &named],
        vec!["--color", &named, "ls"],
        vec![&named],
        vec!["--events", "console", "cat", &named],
        vec!["snapshot", "create", &named],
        vec!["put", &named, &named],
        vec!["get", "content", &elsewhere],
        vec!["create", &named],
        vec!["code", "python", &named],
        vec!["call", "grep", "{\"pattern\": \"needle\"}"],
        vec!["edit", "content", &pattern, "x"],
    ];
    for arguments in cases {
        let shown = on_terminal(&room, &arguments, &[]);
        let without_colour = without_colour(&shown);
        let is_obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!without_colour.contains(is_obeyed), "{arguments:?}: {shown:?}");
    }
    let whole = on_terminal(&room, &["get", "content", "-"], &[]);
    assert!(!whole.is_empty());
    // Elsewhere than on a terminal, content is what it is.
    room.put("content", evil);
    assert_eq!(room.run(&["cat", "content"]).bytes(), evil.as_bytes());
}

/// Configures a workspace whose name has control characters.
fn configure_name(room: &Room, evil: &str) {
    let name: String = evil.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    room.put(
        "garret.toml",
        format!("[workspaces.\"x{name}\"]\nstorage = 'memory:'\n"),
    );
}

/// The text without the colours that Garret uses itself and without what clears its line of progress.
fn without_colour(text: &str) -> String {
    let own = ["1", "31", "1;31", "32", "33", "35", "36", "0"].map(|code| format!("\x1b[{code}m"));
    let own = own.into_iter().chain(["\r\x1b[2K".to_owned()]);
    own.fold(text.to_owned(), |text, code| text.replace(&code, ""))
}

#[test]
fn work_of_more_than_two_seconds_shows_that_it_goes_on() {
    for command in [&["ls"][..], &["run", "true"], &["code", "bash", "-c", "true"]] {
        shows_progress(command);
    }
}

/// Runs a command that lasts until it is ended, and waits for its line of progress.
fn shows_progress(command: &[&str]) {
    let room = Room::new();
    // A workspace on a server that never answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "s3://bucket/x?endpoint=http://{}&force_path_style=true",
        listener.local_addr().unwrap()
    );
    room.put(
        "far.toml",
        format!("[workspaces.far]\nstorage = '{url}'\ncapabilities = {{ fs = true, shell = true, code = true }}\n"),
    );
    let script = "import os, pty, select, sys, signal\n\
                  pid, fd = pty.fork()\n\
                  if pid == 0: os.execv(sys.argv[1], sys.argv[1:])\n\
                  seen = b''\n\
                  while b'working' not in seen:\n    seen += os.read(fd, 4096)\n\
                  os.kill(pid, signal.SIGKILL)\n\
                  os.waitpid(pid, 0)\n\
                  print('seen')";
    let output = Command::new("python3")
        .args(["-c", script, GARRET, "--config", "far.toml", "-w", "far"])
        .args(command)
        .current_dir(room.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("TERM", "xterm")
        .env("AWS_ACCESS_KEY_ID", "x")
        .env("AWS_SECRET_ACCESS_KEY", "x")
        .env("GARRET_HOME", room.home())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "seen\n", "{output:?}");
}

#[test]
fn put_creates_no_tree_of_a_machine_and_reads_files_without_a_size() {
    let room = Room::new();
    room.put("a", "x");
    assert_eq!(room.run(&["put", "a", "/etc/a"]).failed(), "path_escape");
    assert_eq!(room.run(&["put", "a", "/tmp/"]).failed(), "path_escape");
    assert!(!room.path().join("etc").exists());
    room.run(&["put", "/proc/version", "version"]).done();
    let version = std::fs::read_to_string("/proc/version").unwrap();
    assert_eq!(std::fs::read_to_string(room.path().join("version")).unwrap(), version);
}

#[test]
fn names_are_completed_and_nothing_is_made_by_it() {
    let room = Room::new();
    let kinds = ["workspaces", "deleted", "snapshots", "branches"];
    for kind in kinds {
        let ran = room.run(&["__complete", kind]);
        assert_eq!((ran.code(), ran.out(), ran.err()), (0, "", ""), "{kind}");
        let ran = room.run(&["-w", "nosuch", "__complete", kind]);
        assert_eq!((ran.code(), ran.out(), ran.err()), (0, "", ""), "{kind}");
    }
    assert!(!room.home().exists());
    room.put("garret.toml", "[workspaces.site]\nstorage = 'memory:'\n");
    room.run(&["create", "notes"]).done();
    room.run(&["-w", "notes", "write", "a", "x"]).done();
    room.run(&["-w", "notes", "snapshot", "create", "before"]).done();
    room.run(&["-w", "notes", "branch", "create", "try"]).done();
    room.run(&["create", "gone"]).done();
    room.run(&["delete", "gone"]).done();
    room.run(&["write", "b", "x"]).done();
    room.run(&["snapshot", "create", "here"]).done();
    assert_eq!(room.run(&["__complete", "workspaces"]).done(), "notes\nsite\ntry\n");
    assert_eq!(room.run(&["__complete", "deleted"]).done(), "gone\n");
    assert_eq!(room.run(&["-w", "notes", "__complete", "snapshots"]).done(), "before\n");
    assert_eq!(room.run(&["-w", "notes", "__complete", "branches"]).done(), "try\n");
    assert_eq!(
        room.run(&["__complete", "snapshots"]).done(),
        "here\n",
        "of the current directory"
    );
}

/// The names that a shell offers for the end of a line when a key is pressed.
type CompleteLine = fn(&Room, &str) -> Vec<String>;

/// Runs a shell in which `garret` is the program under test; gives its standard output.
fn run_shell(room: &Room, shell: &str, arguments: &[&str]) -> String {
    let programs = std::path::Path::new(GARRET).parent().unwrap();
    let output = Command::new(shell)
        .args(arguments)
        .current_dir(room.path())
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
        .env("HOME", room.home())
        .env("TERM", "dumb")
        .env("GARRET_HOME", room.home())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{shell}");
    String::from_utf8(output.stdout).unwrap()
}

fn complete_in_bash(room: &Room, line: &str) -> Vec<String> {
    let script = r#"source <(garret completions bash)
        IFS=' '; COMP_WORDS=($1); [[ "$1" == *' ' ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        IFS=$' \t\n'; _garret_names garret "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    lines_of(&run_shell(room, "bash", &["-c", script, "bash", line]))
}

fn complete_in_fish(room: &Room, line: &str) -> Vec<String> {
    let script = "garret completions fish | source; complete -C $argv[1]";
    let offered = run_shell(room, "fish", &["--no-config", "-c", script, line]);
    // A description follows after a tab.
    let name = |line: String| line.split('\t').next().unwrap_or_default().to_owned();
    lines_of(&offered).into_iter().map(name).collect()
}

/// Presses the key in an interactive zsh on a terminal of its own: completion does not work without a line editor.
fn complete_in_zsh(room: &Room, line: &str) -> Vec<String> {
    let directory = room.home().join("zsh");
    std::fs::create_dir_all(&directory).unwrap();
    let place = directory.to_str().unwrap();
    std::fs::write(directory.join("_garret"), room.run(&["completions", "zsh"]).done()).unwrap();
    let inner = r#"PROMPT=
        fpath=(PLACE $fpath)
        autoload -Uz compinit && compinit -u -D
        compadd() {
            local -a offered
            [[ " ${@[1,(i)(-|--)]} " == *' '-[OAD]' '* ]] || { builtin compadd -A offered "$@"; print -lr -- $offered >> PLACE/offered }
            builtin compadd "$@"
        }
        comppostfuncs=(exit)
        bindkey '^I' complete-word
        print ready
    "#;
    std::fs::write(directory.join("inner"), inner.replace("PLACE", place)).unwrap();
    let _ = std::fs::remove_file(directory.join("offered"));
    let outer = r#"zmodload zsh/zpty
        zpty inner zsh -f -i
        zpty -w inner "source $1/inner"
        while zpty -r inner text && [[ $text != *ready* ]]; do :; done
        zpty -w -n inner "$2"$'\t'
        while zpty -r inner text; do :; done"#;
    run_shell(room, "zsh", &["-f", "-c", outer, "zsh", place, line]);
    lines_of(&std::fs::read_to_string(directory.join("offered")).unwrap_or_default())
}

fn lines_of(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.trim_end_matches('/').to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

fn check_completions(shell: &str, complete: CompleteLine) {
    if Command::new(shell).arg("--version").output().is_err() {
        println!("skipped: {shell} is not installed; `scripts/setup-tests` installs it");
        return;
    }
    let room = Room::new();
    for name in ["notes", "novel", "gone"] {
        room.run(&["create", name]).done();
    }
    room.run(&["delete", "gone"]).done();
    room.run(&["-w", "notes", "write", "a", "x"]).done();
    room.run(&["-w", "notes", "snapshot", "create", "before"]).done();
    room.run(&["-w", "notes", "branch", "create", "try"]).done();
    let all = ["notes", "novel", "gone", "before", "try"];
    // Shells offer files of the directory, too.
    let names = |line: &str| {
        let offered = complete(&room, line);
        all.into_iter()
            .filter(|name| offered.iter().any(|one| one == name))
            .collect::<Vec<_>>()
    };
    assert_eq!(names("garret -w no"), ["notes", "novel"], "{shell}");
    assert_eq!(names("garret --workspace no"), ["notes", "novel"], "{shell}");
    assert_eq!(names("garret delete not"), ["notes"], "{shell}");
    assert_eq!(names("garret recover "), ["gone"], "{shell}");
    assert_eq!(names("garret -w notes restore "), ["before"], "{shell}");
    assert_eq!(names("garret -w notes diff "), ["before"], "{shell}");
    assert_eq!(names("garret -w notes cat a --at b"), ["before"], "{shell}");
    assert_eq!(names("garret -w notes branch create x --from b"), ["before"], "{shell}");
    assert_eq!(names("garret -w notes snapshot delete "), ["before"], "{shell}");
    assert_eq!(names("garret -w notes branch delete "), ["try"], "{shell}");
    assert_eq!(names("garret -w notes merge "), ["try"], "{shell}");
    assert!(
        names("garret grep -w no").is_empty(),
        "{shell}: after grep, it is no workspace"
    );
    assert!(
        complete(&room, "garret sna").contains(&"snapshot".to_owned()),
        "{shell}"
    );
    check_hostile_names(&room, shell, complete);
}

/// Names that others chose hold commands. A shell that completes them must neither run nor offer them.
fn check_hostile_names(room: &Room, shell: &str, complete: CompleteLine) {
    let hostile = [
        "$(touch ran)",
        "`touch ran`",
        "x;touch ran",
        "$(touch${IFS}ran)",
        "(touch ran)",
        "~root",
    ];
    let workspaces = hostile.map(|name| format!("[workspaces.'{name}']\nstorage = 'memory:'\n"));
    room.put("garret.toml", workspaces.concat());
    for name in hostile {
        room.run(&["-w", "notes", "snapshot", "create", name]).done();
    }
    for line in ["garret -w ", "garret -w notes restore ", "garret -w notes diff "] {
        let offered = complete(room, line);
        assert!(
            !offered.iter().any(|one| hostile.contains(&one.as_str())),
            "{shell}: {offered:?}"
        );
    }
    assert!(!room.path().join("ran").exists(), "{shell} ran a name");
}

#[test]
fn bash_completes_names_of_workspaces_snapshots_and_branches() {
    check_completions("bash", complete_in_bash);
}

#[test]
fn zsh_completes_names_of_workspaces_snapshots_and_branches() {
    check_completions("zsh", complete_in_zsh);
}

#[test]
fn fish_completes_names_of_workspaces_snapshots_and_branches() {
    check_completions("fish", complete_in_fish);
}

#[test]
fn wrong_usage_is_answered_with_what_may_have_been_meant() {
    let room = Room::new();
    room.put("k", "x");
    for (arguments, told) in [
        (&["history"][..], "tip: did you mean `garret log`?"),
        (&["status"], "tip: did you mean `garret log` or `garret diff`?"),
        (&["init"], "tip: did you mean `garret create`?"),
        (&["exec", "ls"], "tip: did you mean `garret run`?"),
        (
            &["snapshot", "before"],
            "tip: did you mean `garret snapshot create before`?",
        ),
        (
            &["write", "list.md", "- milk"],
            "tip: text that begins with a dash comes after `--`: `garret write list.md -- '- milk'`",
        ),
        (&["get", "k"], "not provided:\n  <LOCAL>\n"),
        (&["put", "k"], "not provided:\n  <PATH>\n"),
        (&["undo", "--last", "x"], "use a number"),
        (&["-w", "./nosite", "ls"], "there is no directory `./nosite`"),
        (
            &["--config", "nope.toml", "ls"],
            "there is no configuration file `nope.toml`",
        ),
    ] {
        let ran = room.run(arguments);
        assert_eq!(ran.code(), 2, "{}", ran.err());
        assert!(ran.err().contains(told), "{}", ran.err());
        assert_eq!(ran.err().matches("tip:").count(), usize::from(told.starts_with("tip:")));
    }
    assert!(!room.run(&["--json"]).out().contains("__complete"));
}

#[test]
fn a_failure_is_answered_with_the_command_that_helps() {
    let room = Room::new();
    room.put("k", "x");
    room.run(&["write", "k", "y"]).done();
    room.run(&["create", "notes"]).done();
    for (arguments, told) in [
        (&["undo", "abc"][..], "hint: `garret log` shows the changes"),
        (
            &["undo", "--tool-call", "nope"],
            "no change of the call `nope` is left to undo",
        ),
        (&["redo"], "there is no undo left to redo"),
        (&["delete", "nope"], "hint: `garret list` shows the workspaces"),
        (&["recover", "nope"], "hint: `garret list --all`"),
        (&["export", "notes", "/nope/x"], "the directory `/nope` does not exist"),
        (&["branch", "create", "notes"], "the name `notes` is taken"),
        (&["patch", "nofile"], "nofile"),
    ] {
        let ran = room.run(arguments);
        assert_eq!(ran.code(), 1, "{arguments:?}: {}", ran.err());
        assert!(ran.err().contains(told), "{arguments:?}: {}", ran.err());
    }
    room.run(&["undo"]).done();
    assert!(room.run(&["undo"]).err().contains("there is no change left to undo"));
    let named = room.run(&["tools", "--naming", "prefixed"]).done().to_owned();
    assert!(!named.contains("workspace__workspace__"), "{named}");
}
