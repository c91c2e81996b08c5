//! Commands on a terminal.
//!
//! A sandbox without terminals says `unsupported`, with a hint; nothing more is asked of it.

use std::sync::Arc;

use bytes::Bytes;
use garret_core::{
    ANSWER_DESCRIPTOR, CommandStdin, CommandTerminal, ErrorKind, Layer, MARK_DESCRIPTOR, OutputStream, Process,
    SandboxCommand, TerminalSize,
};

use super::{Stand, finish, in_time, says, shell, start};

const INTERRUPT: &[u8] = b"\x03";
const SUSPEND: &[u8] = b"\x1a";

fn on_terminal(text: &str) -> SandboxCommand {
    SandboxCommand {
        stdin: CommandStdin::Piped,
        terminal: Some(CommandTerminal {
            size: TerminalSize::default(),
            has_mark_pipe: false,
        }),
        ..shell(text)
    }
}

/// Starts a command on a terminal; `None` if the sandbox has none, and says so as it must.
async fn start_on_terminal(layer: &Arc<dyn Layer>, command: SandboxCommand) -> Option<Box<dyn Process>> {
    match layer.start_process(command).await {
        Ok(process) => Some(process),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(!error.hint_text().is_empty(), "{error}");
            None
        }
    }
}

/// Returns the output up to `text`, and what came with it.
async fn hear(process: &mut dyn Process, text: &str) -> String {
    let mut heard = Vec::new();
    while !String::from_utf8_lossy(&heard).contains(text) {
        heard.extend(
            in_time(process.next_output())
                .await
                .expect("it says so before it ends")
                .bytes,
        );
    }
    String::from_utf8_lossy(&heard).into_owned()
}

async fn type_on(process: &mut dyn Process, keys: &[u8]) {
    process
        .write_stdin(Bytes::copy_from_slice(keys))
        .await
        .expect("there is somebody to type to");
}

/// Promise of `CommandTerminal`: the streams are the terminal, and all output is one stream.
pub async fn the_streams_are_one_terminal(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let text = "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && stty size && echo error >&2 && echo tty > /dev/tty";
    let Some(mut process) = start_on_terminal(&layer, on_terminal(text)).await else {
        return;
    };
    let ran = finish(process.as_mut()).await;
    assert_eq!(ran.text(), "24 80\r\nerror\r\ntty");
    assert!(ran.stderr.is_empty());
}

/// Promise of `CommandTerminal`: what is typed is shown and read, line by line, and its end is that of the input.
pub async fn what_is_typed_is_shown_and_read(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let text = "while read line; do echo \"got <$line>\"; done; echo end";
    let Some(mut process) = start_on_terminal(&layer, on_terminal(text)).await else {
        return;
    };
    type_on(process.as_mut(), "größe\x7f\x7fß\n".as_bytes()).await;
    says(process.as_mut(), "got <größ>").await;
    process.close_stdin().await.expect("the input can be ended");
    assert_eq!(finish(process.as_mut()).await.text().trim_start(), "end");
}

/// Promise of `CommandTerminal`: given input is typed, and its end, too.
pub async fn given_input_is_typed(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    for (stdin, expected) in [
        (CommandStdin::Bytes("line\n".into()), "line\r\nline\r\nend"),
        (CommandStdin::Closed, "end"),
    ] {
        let command = SandboxCommand {
            stdin,
            ..on_terminal("stty -echoctl; sed p; echo end")
        };
        let Some(mut process) = start_on_terminal(&layer, command).await else {
            return;
        };
        let text = finish(process.as_mut()).await.text();
        assert!(text.ends_with(expected), "{text:?}");
    }
}

/// Promise of `CommandTerminal`: Ctrl-C interrupts what runs in the foreground.
pub async fn an_interrupt_reaches_the_foreground(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let text = "trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.05; done";
    let Some(mut process) = start_on_terminal(&layer, on_terminal(text)).await else {
        return;
    };
    says(process.as_mut(), "ready").await;
    type_on(process.as_mut(), INTERRUPT).await;
    let ran = finish(process.as_mut()).await;
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(text.ends_with("interrupted\r\n"), "{text:?}");
    assert_eq!(ran.code(), 5);
}

/// Promise of `CommandTerminal`: a shell on it suspends and resumes its jobs.
pub async fn a_shell_controls_its_jobs(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let Some(mut process) = start_on_terminal(&layer, on_terminal("PS1='$ ' ENV= exec sh -i")).await else {
        return;
    };
    says(process.as_mut(), "$ ").await;
    type_on(process.as_mut(), b"echo sta''rted; sleep 1000\n").await;
    says(process.as_mut(), "started").await;
    // Typed again until the shell answers: it may not have started its job at the first time.
    let mut listed = None;
    while listed.is_none() {
        type_on(process.as_mut(), SUSPEND).await;
        type_on(process.as_mut(), b"jobs; echo lis''ted\n").await;
        listed = tokio::time::timeout(super::STILL, hear(process.as_mut(), "listed"))
            .await
            .ok();
    }
    let listed = listed.expect("the loop ends with it");
    assert!(listed.contains("Stopped"), "{listed:?}");
    // Twice: a shell that still takes the job for stopped refuses the first time.
    type_on(process.as_mut(), b"kill -9 %1; exit 7; exit 7\n").await;
    assert_eq!(finish(process.as_mut()).await.code(), 7);
}

/// Promise of `Process::resize`: the program learns of the new size.
pub async fn a_new_size_is_told_to_the_program(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let text = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done";
    let Some(mut process) = start_on_terminal(&layer, on_terminal(text)).await else {
        return;
    };
    says(process.as_mut(), "ready").await;
    let size = TerminalSize { rows: 50, columns: 132 };
    process.resize(size).await.expect("it has a terminal");
    let text = finish(process.as_mut()).await.text();
    assert!(text.ends_with("50 132"), "{text:?}");
}

/// Promise of `Process::resize`: `invalid` without a terminal.
pub async fn only_a_terminal_has_a_size(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let mut process = start(&layer, shell("sleep 1000")).await;
    let error = process.resize(TerminalSize::default()).await.expect_err("it has none");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// Promise of `CommandTerminal::has_mark_pipe`: marks are not on the terminal.
pub async fn marks_come_apart_from_the_terminal(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let text = format!(
        "echo shown; echo mark > /dev/fd/{MARK_DESCRIPTOR}; read answer < /dev/fd/{ANSWER_DESCRIPTOR}; echo \"answered <$answer>\""
    );
    let mut command = on_terminal(&text);
    command.terminal = command.terminal.map(|terminal| CommandTerminal {
        has_mark_pipe: true,
        ..terminal
    });
    let Some(mut process) = start_on_terminal(&layer, command).await else {
        return;
    };
    let mut marks = Vec::new();
    while marks != b"mark\n" {
        let chunk = in_time(process.next_output()).await.expect("it waits for an answer");
        if chunk.stream == OutputStream::Stderr {
            marks.extend(chunk.bytes);
        }
    }
    process.answer_mark().await.expect("it writes marks");
    assert!(finish(process.as_mut()).await.text().ends_with("answered <>"));
}

/// Promise of `CommandTerminal`: no other command sees the terminal.
pub async fn a_terminal_is_of_one_command(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let Some(mut first) = start_on_terminal(&layer, on_terminal("tty; sleep 1000")).await else {
        return;
    };
    says(first.as_mut(), "/dev/pts/").await;
    let Some(mut second) = start_on_terminal(&layer, on_terminal("ls /dev/pts")).await else {
        return;
    };
    assert_eq!(finish(second.as_mut()).await.text(), "0  ptmx");
    // Without a terminal of its own, a command has none at all.
    let none = super::sh(&layer, "ls /dev/pts; true < /dev/tty 2>/dev/null || echo no tty").await;
    assert_eq!(none.text(), "ptmx\nno tty");
}

/// Promise of `Process`: the output ends with the process on the terminal, whatever it left behind.
pub async fn a_session_ends_with_its_program(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let text = "trap '' HUP; (while :; do echo x >> beat; sleep 0.02; done) & while [ ! -e beat ]; do sleep 0.02; done; exit 3";
    let Some(mut process) = start_on_terminal(&layer, on_terminal(text)).await else {
        return;
    };
    assert_eq!(finish(process.as_mut()).await.code(), 3);
    assert!(super::is_still(&layer).await);
}
