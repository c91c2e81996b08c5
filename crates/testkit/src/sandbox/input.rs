//! What a command reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use garret_core::{CommandStdin, ErrorKind, InputSource, InputStream, SandboxCommand};

use super::{Stand, finish, in_time, noise, run, says, shell, start};

fn reading(text: &str, stdin: CommandStdin) -> SandboxCommand {
    SandboxCommand { stdin, ..shell(text) }
}

/// Promise of `CommandStdin::Closed`: it is at its end at once.
pub async fn what_is_closed_is_at_its_end(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    assert_eq!(
        run(&layer, reading("cat; echo end", CommandStdin::Closed)).await.text(),
        "end"
    );
}

/// Promise of `CommandStdin::Bytes`: these bytes, and then the end.
pub async fn bytes_are_read_and_then_the_end(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let bytes: Vec<u8> = (0..=255).collect();
    let ran = run(&layer, reading("cat", CommandStdin::Bytes(bytes.clone().into()))).await;
    assert_eq!(ran.stdout, bytes);
    assert_eq!(
        run(&layer, reading("cat; echo end", CommandStdin::Bytes("".into())))
            .await
            .text(),
        "end"
    );
}

/// Promise of `CommandStdin::Bytes`: all of them, also while output waits to be read.
pub async fn input_larger_than_any_pipe_is_read_whole(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let large = noise(2_000_000);
    let ran = run(&layer, reading("cat", CommandStdin::Bytes(large.clone()))).await;
    assert!(ran.stdout == large, "{} bytes of {}", ran.stdout.len(), large.len());
}

/// Promise of `CommandStdin::Bytes`: who does not read them ends as ever.
pub async fn a_command_may_leave_its_input_unread(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let ran = run(&layer, reading("exit 4", CommandStdin::Bytes(noise(2_000_000)))).await;
    assert_eq!(ran.code(), 4);
}

/// Gives a piece so many times, and counts how often it was asked.
struct Repeated {
    piece: Bytes,
    times: usize,
    asked: Arc<AtomicUsize>,
}

#[async_trait]
impl InputSource for Repeated {
    async fn next_piece(&self) -> Option<Bytes> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        (asked < self.times).then(|| self.piece.clone())
    }
}

fn repeated(piece: impl Into<Bytes>, times: usize) -> (CommandStdin, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let source = Repeated {
        piece: piece.into(),
        times,
        asked: asked.clone(),
    };
    (CommandStdin::Stream(InputStream::new(source)), asked)
}

/// Promise of `CommandStdin::Stream`: every piece, and then the end, also while output waits to be read.
pub async fn a_stream_is_read_whole(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let piece = noise(100_000);
    let (stdin, _) = repeated(piece.clone(), 30);
    let ran = run(&layer, reading("cat; echo end", stdin)).await;
    let expected = [piece.repeat(30).as_slice(), b"end\n"].concat();
    assert!(
        ran.stdout == expected,
        "{} bytes of {}",
        ran.stdout.len(),
        expected.len()
    );
}

/// Promise of `CommandStdin::Stream`: no piece is asked for before the command has room for it, and a stream without end ends with the command.
pub async fn a_stream_is_not_read_ahead_of_the_command(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let (stdin, asked) = repeated(noise(1_000_000), usize::MAX);
    let ran = run(&layer, reading("head -c 10; sleep 1", stdin)).await;
    assert_eq!((ran.code(), ran.stdout.len()), (0, 10));
    let asked = asked.load(Ordering::Relaxed);
    assert!(asked <= 4, "{asked} MB were read for a command that read 10 bytes");
}

/// Promise of `Process::write_stdin` and `Process::close_stdin`.
pub async fn what_is_piped_is_read_as_it_comes(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let mut process = start(
        &layer,
        reading(
            "while read line; do echo got $line; done; echo end",
            CommandStdin::Piped,
        ),
    )
    .await;
    for word in ["one", "two"] {
        process.write_stdin(format!("{word}\n").into()).await.expect("it reads");
        says(process.as_mut(), &format!("got {word}")).await;
    }
    process.close_stdin().await.expect("it can be ended");
    assert_eq!(finish(process.as_mut()).await.text(), "end");
}

/// Promise of `Process::write_stdin`: `invalid` unless the input is piped.
pub async fn only_a_pipe_can_be_written_to(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    for stdin in [CommandStdin::Closed, CommandStdin::Bytes("x".into())] {
        let mut process = start(&layer, reading("sleep 1000", stdin)).await;
        let error = in_time(process.write_stdin("y".into()))
            .await
            .expect_err("nobody reads it");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}
