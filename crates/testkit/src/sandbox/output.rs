//! What a command writes reaches its reader: byte for byte, each stream by itself, and no faster than it is read.

use std::time::Duration;

use garret_core::{Limits, OutputCollector, Secrets, Signal};

use super::{STILL, Stand, finish, in_time, noise, run, says, sh, shell, start};

/// Promise of `Chunk`: the bytes, exactly.
pub async fn every_byte_arrives_as_it_was_written(stand: Stand) {
    let all: Vec<u8> = (0..=255).collect();
    stand.put("bytes", &all);
    let (_room, layer) = stand.lay().await;
    assert_eq!(sh(&layer, "cat bytes").await.stdout, all);
    assert_eq!(sh(&layer, "cat bytes >&2").await.stderr, all);
}

/// Promise of `Chunk::stream`: where it was written.
pub async fn the_streams_are_apart(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let ran = sh(&layer, "echo one; echo two >&2; echo three; exit 3").await;
    assert_eq!(
        (ran.stdout.as_slice(), ran.stderr.as_slice()),
        (&b"one\nthree\n"[..], &b"two\n"[..])
    );
}

/// Promise of `Process::next_output`: all of it, in order.
pub async fn output_larger_than_any_pipe_arrives_whole(stand: Stand) {
    let large = noise(3_000_000);
    stand.put("large", &large);
    let (_room, layer) = stand.lay().await;
    let ran = sh(&layer, "cat large; cat large >&2").await;
    assert!(ran.stdout == large, "{} bytes of {}", ran.stdout.len(), large.len());
    assert!(ran.stderr == large, "{} bytes of {}", ran.stderr.len(), large.len());
}

/// Promise of `Process::next_output`: nothing is read ahead without bound; who does not ask holds the command up.
pub async fn a_reader_who_waits_holds_the_command_up(stand: Stand) {
    const LINE: u64 = 10_000;
    stand.put("line", vec![b'x'; LINE as usize]);
    let (_room, layer) = stand.lay().await;
    let script = "echo ready; while :; do cat line; echo x >> beat; done";
    let mut process = start(&layer, shell(script)).await;
    says(process.as_mut(), "ready").await;
    let mut before = super::beats(&layer).await;
    in_time(async {
        // A busy machine may make it seem to stand still for a moment; one that is held up does so for good.
        while !super::is_still(&layer).await || super::beats(&layer).await == 0 {
            tokio::time::sleep(STILL).await;
        }
    })
    .await;
    let held = super::beats(&layer).await;
    assert!(held * LINE / 2 < 16 * 1024 * 1024, "{held} lines were read ahead");
    in_time(async {
        while before <= held {
            process.next_output().await.expect("there is no end to it");
            before = super::beats(&layer).await;
        }
    })
    .await;
    process.send_signal(Signal::Kill).await.expect("it can be killed");
    in_time(process.wait()).await.expect("it ends");
}

/// Promise of `Process::wait`: output that was not asked for is dropped.
pub async fn output_that_nobody_asks_for_holds_nothing_up_once_waited_for(stand: Stand) {
    stand.put("large", noise(3_000_000));
    let (_room, layer) = stand.lay().await;
    let mut process = start(&layer, shell("cat large; cat large >&2; exit 5")).await;
    let exit = in_time(process.wait()).await.expect("it ends");
    assert_eq!(exit.ended.exit_code(), 5);
}

/// Promise of `Process::next_output`: it ends with the process that was started, even where one that it left behind holds the streams open.
pub async fn output_ends_with_the_process_whatever_it_left_behind(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let ran = sh(&layer, "sleep 1000 & echo done").await;
    assert_eq!(ran.text(), "done");
}

/// Promise of `Limits::next_output`, kept by the collector: however much is written, what is held stays within bounds.
pub async fn endless_output_is_kept_in_bounds(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let mut command = shell("echo begin; while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done");
    command.limits.wall = Some(Duration::from_secs(1));
    let mut process = start(&layer, command).await;
    let mut collector = OutputCollector::new(1_000, &Secrets::default());
    while let Some(chunk) = in_time(process.next_output()).await {
        collector.push_chunk(&chunk);
    }
    let exit = in_time(process.wait()).await.expect("it ends");
    let (_, output) = collector.finish();
    assert_eq!(exit.limit, Some(garret_core::ResourceLimit::Wall));
    assert!(output.stdout.head.starts_with(b"begin\n") && output.is_truncated());
    assert_eq!(output.stdout.head.len() + output.stdout.tail.len(), 1_000);
    assert!(output.stdout.written > 1_000);
    let after = run(&layer, shell("echo on")).await;
    assert_eq!(after.text(), "on", "one command's end is not the next one's");
    let mut last = start(
        &layer,
        super::SandboxCommand {
            limits: Limits::default(),
            ..shell("true")
        },
    )
    .await;
    assert_eq!(finish(last.as_mut()).await.code(), 0);
}
