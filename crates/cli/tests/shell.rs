//! `garret shell` and `garret run --tty`, driven by keys.

#![allow(clippy::unwrap_used, reason = "a test ends where it is surprised")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tests look at the directory of the workspace"
)]

use std::process::Command;

use rustix::process::Signal;

use crate::common::{GARRET, Room, tell_not_tried};
use crate::typist::{Typist, eventually};

const PROMPT: &str = "$ ";

fn shell(room: &Room, arguments: &[&str]) -> Typist {
    let arguments: Vec<&str> = ["shell"].iter().chain(arguments).copied().collect();
    let mut typist = Typist::start(&room.command(&arguments));
    typist.see(PROMPT);
    typist
}

fn summaries(room: &Room) -> Vec<String> {
    let log = room.run(&["log", "--json"]).data();
    let changes = log["changes"].as_array().unwrap().iter();
    changes
        .map(|change| change["summary"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn promise_46_a_shell_is_one_change_that_undo_takes_back() {
    let room = Room::new();
    room.put("kept", "kept");
    let mut typist = shell(&room, &[]);
    assert!(!typist.is_as_before());
    typist.run_line("echo one > one");
    assert!(
        typist
            .run_line("mkdir dir; echo two > dir/two; rm kept; ls")
            .contains("dir")
    );
    assert!(!room.path().join("one").exists());
    typist.press("exit 7\n");
    assert_eq!(typist.finish().0, 7);
    assert!(typist.is_as_before());
    assert_eq!(room.get("dir/two"), b"two\n");
    let log = summaries(&room);
    assert!(log[0].starts_with("shell `bash`: exit 7 after "), "{log:?}");
    room.run(&["undo"]).done();
    assert!(room.path().join("kept").exists() && !room.path().join("one").exists());
}

#[test]
fn keys_signals_and_sizes_reach_the_program_in_the_foreground() {
    let room = Room::new();
    let mut typist = shell(&room, &[]);
    assert!(typist.run_line("stty size; tty").contains("30 100\r\n/dev/pts/0"));
    // The interrupt ends the child, and the shell goes on.
    typist.press("(echo re''ady; exec sleep 1000)\n");
    typist.see("ready");
    typist.press("\x03");
    typist.see(PROMPT);
    assert!(typist.run_line("echo status $?").contains("status 130"));
    typist.press("bash -c 'trap \"stty size; exit\" WINCH; echo re\"\"ady; while :; do sleep 0.05; done'\n");
    typist.see("ready\r\n");
    typist.resize(50, 132);
    typist.see("50 132");
    // Job control.
    typist.press("(echo re''ady; exec sleep 1000)\n");
    typist.see("ready");
    typist.press("\x1a");
    typist.see("Stopped");
    typist.press("bg\njobs\n");
    typist.see("Running");
    typist.press("fg\n");
    typist.see("fg\r\n");
    typist.see("sleep 1000 )\r\n");
    typist.press_until("\x03", PROMPT);
    typist.press("exit\n");
    assert_eq!(typist.finish().0, 130);
}

#[test]
fn a_user_without_rights_works_in_a_shell() {
    let Some(room) = Room::of_nobody() else { return };
    let mut typist = shell(&room, &[]);
    assert!(typist.run_line("stty size; tty").contains("30 100\r\n/dev/pts/0"));
    typist.run_line("echo one > one; echo kept > ~/kept");
    typist.press("(echo re''ady; exec sleep 1000)\n");
    typist.see("ready");
    typist.press("\x1a");
    typist.see("Stopped");
    typist.see(PROMPT);
    typist.press("fg\n");
    typist.see("sleep 1000 )\r\n");
    typist.press_until("\x03", PROMPT);
    typist.resize(50, 132);
    typist.run_line("until stty size | grep '50 132'; do sleep 0.05; done");
    typist.press("exit 7\n");
    assert_eq!(typist.finish().0, 7);
    assert!(typist.is_as_before());
    assert_eq!(room.get("one"), b"one\n");
    assert_eq!(room.run(&["run", "-c", "cat ~/kept"]).done(), "kept\n");
    room.run(&["undo"]).done();
    assert!(!room.path().join("one").exists());
}

/// A terminal with a screen, in a server of tmux that ends with the test.
struct Tmux<'a>(&'a Room);

impl Tmux<'_> {
    fn run(&self, arguments: &[&str]) -> std::io::Result<String> {
        let mut command = Command::new("tmux");
        command
            .args(["-f", "/dev/null", "-S", "tmux"])
            .args(arguments)
            .current_dir(self.0.path())
            // The shell of the user's account may be one that refuses to run.
            .env("SHELL", "/bin/sh")
            .env_remove("TMUX");
        let ran = command.output()?;
        Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
    }

    fn screen(&self) -> String {
        self.run(&["capture-pane", "-p"]).unwrap()
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        let _ = self.run(&["kill-server"]);
    }
}

#[test]
fn the_screen_goes_on_below_what_the_shell_has_shown() {
    let room = Room::new();
    let tmux = Tmux(&room);
    let home = format!("GARRET_HOME={}", room.home().display());
    let program = format!("{GARRET} shell; echo af''ter; exec cat");
    let size = ["-x", "100", "-y", "30"];
    let start = [&["new-session", "-d", "-e", &home], &size[..], &[&program]].concat();
    if let Err(error) = tmux.run(&start) {
        return tell_not_tried(format!("`tmux` cannot be run: {error}"));
    }
    eventually(|| tmux.screen().contains('$'));
    tmux.run(&["send-keys", "stty size; exit", "Enter"]).unwrap();
    eventually(|| tmux.screen().contains("after"));
    let screen = tmux.screen();
    let place_of = |text: &str| screen.lines().position(|line| line == text);
    assert!(place_of("30 100").is_some(), "{screen}");
    assert!(place_of("30 100") < place_of("after"), "{screen}");
}

#[test]
fn each_prompt_is_a_change_if_asked() {
    let room = Room::new();
    let mut typist = shell(&room, &["--per-prompt"]);
    // All of it is typed before the first line has ended.
    typist.press("echo one > one\ntrue\n(echo two > two; exit 3)\necho l''ast; echo three > three\n");
    typist.see("last\r\n");
    typist.see(PROMPT);
    assert_eq!(room.get("two"), b"two\n");
    // A file that another program makes meanwhile is there at the next prompt.
    room.put("beside", "beside");
    typist.run_line("true");
    typist.see(PROMPT);
    assert!(typist.run_line("cat beside").contains("beside"));
    typist.see(PROMPT);
    typist.press("echo four > four; exit\n");
    assert_eq!(typist.finish().0, 0);
    let log = summaries(&room);
    let expected = [
        "shell `bash`: exit 0",
        "shell `echo l''ast; echo three > three`: exit 0",
        "shell `(echo two > two; exit 3)`: exit 3",
        "shell `echo one > one`: exit 0",
    ];
    let of_shell: Vec<_> = log.iter().filter(|text| text.starts_with("shell")).collect();
    assert_eq!(of_shell.len(), expected.len(), "{log:?}");
    for (found, expected) in of_shell.iter().zip(expected) {
        assert!(found.starts_with(expected), "{log:?}");
    }
}

#[test]
fn a_discarded_shell_leaves_nothing() {
    let room = Room::new();
    let mut typist = shell(&room, &["--discard"]);
    typist.run_line("echo one > one; echo kept > ~/kept");
    typist.press("exit\n");
    let (code, shown) = typist.finish();
    assert_eq!(code, 0);
    assert!(shown.contains("discarded: 1 created"), "{shown}");
    assert!(!room.path().join("one").exists());
    assert!(room.run(&["run", "-c", "ls ~"]).done().is_empty());
}

#[test]
fn a_shell_that_loses_its_terminal_keeps_its_work() {
    let room = Room::new();
    for (signal, name) in [(Signal::HUP, "made-hup"), (Signal::TERM, "made-term")] {
        let mut typist = shell(&room, &[]);
        typist.run_line(&format!(
            "echo x > {name}; trap '' HUP; (while :; do sleep 1; done) & true"
        ));
        typist.signal(signal);
        let (code, shown) = typist.finish();
        assert!(
            code > 128 && shown.contains("what it did until then is kept"),
            "{code} {shown}"
        );
        assert!(typist.is_as_before());
        assert!(room.path().join(name).exists());
    }
}

#[test]
fn a_command_runs_on_a_terminal() {
    let room = Room::new();
    let mut typist = Typist::start(&room.command(&[
        "run",
        "--tty",
        "-c",
        "echo kind $TERM; read line; echo \"$line\" > read; exit 4",
    ]));
    typist.see("kind xterm");
    eventually(|| !typist.is_as_before());
    typist.press("typed\n");
    assert_eq!(typist.finish().0, 4);
    assert!(typist.is_as_before());
    assert_eq!(room.get("read"), b"typed\n");
    assert!(summaries(&room)[0].starts_with("run `"));
}

#[test]
fn the_answer_to_a_question_is_typed_after_the_command() {
    let room = Room::new();
    room.put("garret.toml", "[workspaces.box]\nstorage = 'local:tree'\n[workspaces.box.capabilities]\nfs = true\nshell = { effects = 'ask' }\n");
    std::fs::create_dir(room.path().join("tree")).unwrap();
    room.trust();
    let mut typist = Typist::start(&room.command(&["-w", "box", "shell"]));
    typist.see(PROMPT);
    typist.run_line("echo x > made");
    typist.press("exit\n");
    typist.see("approve shell");
    assert!(typist.is_as_before());
    typist.press("y\n");
    assert_eq!(typist.finish().0, 0);
    assert!(room.path().join("tree/made").exists());
}

#[test]
fn without_a_terminal_there_is_no_shell() {
    let room = Room::new();
    assert_eq!(room.run(&["shell"]).misused(), "invalid");
    assert!(room.run(&["shell"]).err().contains("garret run"));
    assert_eq!(room.run(&["run", "-t", "true"]).misused(), "invalid");
    assert_eq!(room.run(&["shell", "--json"]).misused(), "invalid");
}

#[test]
fn rules_on_commands_hold_for_opening_a_shell() {
    let room = Room::new();
    std::fs::create_dir(room.path().join("tree")).unwrap();
    let config = |rules: &str| {
        let text = format!(
            "[workspaces.box]\nstorage = 'local:tree'\n[workspaces.box.capabilities]\nfs = true\n[workspaces.box.capabilities.shell]\n{rules}\n"
        );
        room.put("garret.toml", text).trust();
    };
    config("allowed_commands = ['ls']");
    let mut typist = Typist::start(&room.command(&["-w", "box", "shell"]));
    let (code, shown) = typist.finish();
    assert_eq!(code, 1);
    assert!(
        shown.contains("`bash` may not be run") && shown.contains("allowed_commands"),
        "{shown}"
    );
    config("allowed_commands = ['ls', 'sh']");
    let mut typist = Typist::start(&room.command(&["-w", "box", "shell"]));
    typist.see("not checked inside the shell");
    typist.see(PROMPT);
    typist.press("exit 3\n");
    assert_eq!(typist.finish().0, 3);
    config("denied_commands = ['bash', 'sh']");
    let mut typist = Typist::start(&room.command(&["-w", "box", "shell"]));
    assert_eq!(typist.finish().0, 1);
}
