//! Each limit, hit.

use std::time::{Duration, Instant};

use garret_core::{Command, Ended, Enforced, Guard, Limit};

use crate::room::{Room, limited, processes_named, run_on, shell};

const MEBIBYTE: u64 = 1024 * 1024;

#[tokio::test]
async fn at_the_time_limit_every_process_ends_however_it_hid() {
    let room = Room::new().await;
    let before = Instant::now();
    let text = "sleep @8765@1 & disown; setsid sleep @8765@2 & (setsid sh -c 'trap \"\" TERM INT HUP; sleep @8765@3 & wait' &) ; \
                trap '' TERM; sleep @8765@4";
    let (outcome, _) = room
        .run_command(limited(text, |limits| limits.wall = Some(Duration::from_millis(700))))
        .await;
    assert_eq!(outcome.exit.limit, Some(Limit::Wall));
    assert_eq!(outcome.exit.ended, Ended::Signalled(9));
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    assert_eq!(processes_named("@8765@"), Vec::<String>::new());
}

#[tokio::test]
async fn processor_time_is_limited_for_all_processes_together() {
    let room = Room::new().await;
    for text in [
        "while :; do :; done",
        "for i in 1 2 3; do (while :; do :; done) & done; wait",
    ] {
        let command = limited(text, |limits| limits.cpu = Some(Duration::from_millis(300)));
        let (outcome, _) = room.run_command(command).await;
        assert_eq!(outcome.exit.limit, Some(Limit::Cpu), "{text}");
        assert!(
            outcome.exit.duration < Duration::from_secs(8),
            "{:?}",
            outcome.exit.duration
        );
    }
}

const HOG: &str =
    "/usr/bin/python3 -c 'import time\nx = []\nwhile True: x.append(bytearray(8 << 20)); time.sleep(0.005)'";

#[tokio::test]
async fn memory_is_limited() {
    let room = Room::with(|request| request.limits.memory = Some(192 * MEBIBYTE)).await;
    let (outcome, _) = room.run(HOG).await;
    let told = by(room.open.enforced(), Guard::Memory);
    // Without a control group a process is refused the memory, and Python says so by itself.
    let is_limited = outcome.exit.limit == Some(Limit::Memory) || outcome.errors().contains("MemoryError");
    assert!(is_limited && outcome.code() != 0, "{outcome:?} by {told:?}");
    assert_eq!(room.text("echo alive").await, "alive\n");
}

#[tokio::test]
async fn memory_is_limited_for_all_processes_together() {
    let room = Room::with(|request| request.limits.memory = Some(256 * MEBIBYTE)).await;
    let each = "/usr/bin/python3 -c 'import time\nx = bytearray(120 << 20)\ntime.sleep(30)'";
    let (outcome, _) = room.run(&format!("{each} & {each} & {each} & wait -n; exit $?")).await;
    assert_eq!(outcome.exit.limit, Some(Limit::Memory), "{outcome:?}");
    assert!(outcome.exit.duration < Duration::from_secs(15));
}

#[tokio::test]
async fn a_command_may_have_less_memory_than_its_sandbox() {
    let room = Room::new().await;
    let (outcome, _) = room
        .run_command(limited(HOG, |limits| limits.memory = Some(128 * MEBIBYTE)))
        .await;
    let is_limited = outcome.exit.limit == Some(Limit::Memory) || outcome.errors().contains("MemoryError");
    assert!(is_limited, "{outcome:?}");
    assert!(outcome.exit.usage.max_memory < 256 * MEBIBYTE, "{outcome:?}");
}

#[tokio::test]
async fn a_fork_bomb_fills_its_sandbox_and_ends_with_it() {
    let room = Room::with(|request| request.limits.processes = Some(48)).await;
    let text = "bomb() { bomb | bomb & }; bomb; sleep @8764@1";
    let command = limited(text, |limits| limits.wall = Some(Duration::from_millis(1500)));
    let before = Instant::now();
    let (outcome, _) = room.run_command(command).await;
    assert_eq!(outcome.exit.limit, Some(Limit::Wall));
    assert!(
        outcome.errors().contains("fork"),
        "nothing was refused: {}",
        outcome.errors()
    );
    assert!(before.elapsed() < Duration::from_secs(20), "{:?}", before.elapsed());
    assert_eq!(room.text("echo alive").await, "alive\n");
}

#[tokio::test]
async fn processes_are_counted() {
    let room = Room::with(|request| request.limits.processes = Some(20)).await;
    let (outcome, _) = room
        .run("for i in $(seq 40); do sleep 5 & done 2>/dev/null; jobs -p | wc -l")
        .await;
    let started: u64 = outcome.text().trim().parse().unwrap_or(0);
    assert!(started < 24, "{started} were started");
}

#[tokio::test]
async fn the_size_of_a_file_is_limited() {
    let room = Room::new().await;
    let command = limited("dd if=/dev/zero of=big bs=64k count=100 2>/dev/null", |limits| {
        limits.file_size = Some(MEBIBYTE)
    });
    let (outcome, _) = room.run_command(command).await;
    assert_eq!(outcome.exit.limit, Some(Limit::FileSize), "{outcome:?}");
}

#[tokio::test]
async fn what_is_written_is_limited_in_all_wherever_it_goes() {
    let room = Room::new().await;
    for text in [
        "i=0; while :; do i=$((i+1)); dd if=/dev/zero of=part$i bs=1M count=4 2>/dev/null; done",
        "i=0; while :; do i=$((i+1)); dd if=/dev/zero of=/tmp/part$i bs=1M count=4 2>/dev/null; done",
        // Space that no directory shows.
        "/usr/bin/python3 -c 'import os\nf = open(\"gone\", \"wb\")\nos.unlink(\"gone\")\nwhile True: f.write(bytes(1 << 20)); f.flush()'",
    ] {
        let command = limited(text, |limits| limits.written = Some(32 * MEBIBYTE));
        let (outcome, _) = room.run_command(command).await;
        // Who writes more quickly than anybody looks is stopped at twice the limit in each file.
        let is_stopped = outcome.exit.limit == Some(Limit::Written) || outcome.errors().contains("File too large");
        assert!(is_stopped, "{text}: {outcome:?}");
        room.run("rm -rf /tmp/*").await;
    }
}

#[tokio::test]
async fn open_files_are_limited() {
    let room = Room::new().await;
    let text = "/usr/bin/python3 -c 'f = [open(\"/dev/null\") for _ in range(100)]'";
    let (outcome, _) = room
        .run_command(limited(text, |limits| limits.open_files = Some(40)))
        .await;
    assert!(outcome.errors().contains("Too many open files"), "{outcome:?}");
}

#[tokio::test]
async fn who_does_not_read_holds_the_command_up() {
    let room = Room::new().await;
    let layer = room.open.lay().await.unwrap();
    let text = "yes & while sleep 0.1; do grep wchar /proc/$!/io > count.new; mv count.new count; done";
    let mut process = layer.start(shell(text)).await.unwrap();
    let count = run_on(&*layer, shell("sleep 0.8; cat count")).await.text();
    let written: u64 = count.trim().trim_start_matches("wchar: ").parse().unwrap();
    assert!(written < 2 * MEBIBYTE, "{written} bytes were written ahead");
    let first = process.output().await.unwrap();
    assert!(first.bytes.starts_with(b"y\n"));
    layer.remove().await.unwrap();
}

#[tokio::test]
async fn endless_output_ends_with_the_time() {
    let room = Room::new().await;
    let command = limited("yes", |limits| limits.wall = Some(Duration::from_millis(500)));
    let (outcome, _) = room.run_command(command).await;
    assert_eq!(outcome.exit.limit, Some(Limit::Wall));
    assert!(outcome.stdout.len() as u64 > MEBIBYTE);
}

#[tokio::test]
async fn a_command_cannot_have_more_than_its_sandbox() {
    let room = Room::with(|request| request.limits.wall = Some(Duration::from_millis(400))).await;
    let command: Command = limited("sleep @8763@1", |limits| limits.wall = None);
    assert_eq!(room.run_command(command).await.0.exit.limit, Some(Limit::Wall));
}

fn by(enforced: &[Enforced], guard: Guard) -> &Enforced {
    enforced.iter().find(|one| one.guard == guard).unwrap()
}
