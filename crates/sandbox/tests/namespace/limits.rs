//! Each limit, hit.

use std::time::{Duration, Instant};

use garret_core::{ExitCause, Guard, GuardStatus, ResourceLimit, SandboxCommand};

use crate::room::{Room, directory_in, limited, processes_named, python, run_on, shell};

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
    assert_eq!(outcome.exit.limit, Some(ResourceLimit::Wall));
    assert_eq!(outcome.exit.ended, ExitCause::Signalled(9));
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    assert_eq!(processes_named("@8765@"), Vec::<String>::new());
}

#[tokio::test]
async fn a_time_limit_that_ends_before_the_program_begins_is_a_time_limit() {
    let room = Room::new().await;
    for wall in [0, 1, 1_000, 2_000, 3_000, 5_000].map(Duration::from_micros) {
        let command = limited("sleep 1000", |limits| limits.wall = Some(wall));
        let layer = room.open.create_layer().await.unwrap();
        let outcome = run_on(&*layer, command.clone()).await;
        assert_eq!(outcome.exit.limit, Some(ResourceLimit::Wall), "{wall:?}");
        let mut last = layer.start_last_process(command).await.unwrap();
        let exit = last.wait().await.unwrap();
        assert_eq!(
            (exit.limit, exit.ended),
            (Some(ResourceLimit::Wall), ExitCause::Signalled(9)),
            "{wall:?}"
        );
        layer.remove().await.unwrap();
    }
}

#[tokio::test]
async fn what_a_command_used_is_told_whatever_limit_ended_it() {
    let room = Room::new().await;
    // Memory that is touched, time on a processor in children, and a daemon that nobody waits for.
    let text = python(
        "import os, time\nx = bytearray(64 << 20)\nif os.fork() == 0:\n  os.setsid()\n  while True: pass\n\
         while time.process_time() < 0.1: pass\nprint('used', flush=True)\ntime.sleep(1000)",
    );
    for (limit, command) in [
        (
            ResourceLimit::Wall,
            limited(&text, |limits| limits.wall = Some(Duration::from_secs(3))),
        ),
        (
            ResourceLimit::Cpu,
            limited(&text, |limits| limits.cpu = Some(Duration::from_millis(400))),
        ),
    ] {
        let (outcome, _) = room.run_command(command).await;
        assert_eq!(outcome.exit.limit, Some(limit), "{outcome:?}");
        let usage = outcome.exit.usage;
        assert!(usage.user_ms + usage.system_ms >= 100, "{limit:?}: {usage:?}");
        // On a machine that is busy with others, it may not have come as far as that by then.
        let is_through = !outcome.text().is_empty();
        assert!(!is_through || usage.max_memory >= 64 * MEBIBYTE, "{limit:?}: {usage:?}");
    }
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
        assert_eq!(outcome.exit.limit, Some(ResourceLimit::Cpu), "{text}");
        assert!(
            outcome.exit.duration < Duration::from_secs(8),
            "{:?}",
            outcome.exit.duration
        );
    }
}

#[tokio::test]
async fn the_processor_time_of_children_that_nobody_waits_for_is_limited() {
    let room = Room::new().await;
    for seconds in [0.15, 0.03] {
        let text = python(&format!(
            "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nwhile True:\n  if os.fork() == 0:\n    \
             while time.process_time() < {seconds}: pass\n    os._exit(0)\n  try: os.wait()\n  except ChildProcessError: pass"
        ));
        let command = limited(&text, |limits| {
            limits.cpu = Some(Duration::from_millis(600));
            limits.wall = Some(Duration::from_secs(30));
        });
        let (outcome, _) = room.run_command(command).await;
        assert_eq!(outcome.exit.limit, Some(ResourceLimit::Cpu), "{seconds}: {outcome:?}");
    }
}

const HOG: &str =
    "/usr/bin/python3 -c 'import time\nx = []\nwhile True: x.append(bytearray(8 << 20)); time.sleep(0.005)'";

#[tokio::test]
async fn memory_is_limited() {
    let room = Room::with(|request| request.limits.memory = Some(192 * MEBIBYTE)).await;
    let (outcome, _) = room.run(HOG).await;
    let told = by(room.open.guard_statuses(), Guard::Memory);
    // Without a control group a process is refused the memory, and Python says so by itself.
    let is_limited = outcome.exit.limit == Some(ResourceLimit::Memory) || outcome.errors().contains("MemoryError");
    assert!(is_limited && outcome.code() != 0, "{outcome:?} by {told:?}");
    assert_eq!(room.text("echo alive").await, "alive\n");
}

/// Memory that no process has, but that lasts as long as the command: shared memory, messages and semaphores.
const HELD_BY_NO_PROCESS: [&str; 3] = [
    "for _ in range(12):\n  n = libc.shmget(0, 40 << 20, 0o1600)\n  assert n >= 0\n  if os.fork() == 0:\n    \
     libc.shmat.restype = ctypes.c_void_p\n    at = libc.shmat(n, None, 0)\n    ctypes.memset(at, 1, 40 << 20)\n    os._exit(0)\n  \
     os.wait()",
    "message = ctypes.create_string_buffer(b'\\1' + bytes(8 + 8191), 8 + 8192)\nfor _ in range(25000):\n  n = libc.msgget(0, 0o1600)\n  \
     assert n >= 0\n  for _ in range(2): assert libc.msgsnd(n, message, 8192, 0o4000) == 0",
    "for _ in range(300): assert libc.semget(0, 30000, 0o1600) >= 0",
];

#[tokio::test]
async fn memory_that_no_process_has_is_limited() {
    for hold in HELD_BY_NO_PROCESS {
        let room = Room::with(|request| request.limits.memory = Some(128 * MEBIBYTE)).await;
        let text = python(&format!(
            "import ctypes, os, time\nlibc = ctypes.CDLL(None, use_errno=True)\n{hold}\nprint('held', flush=True)\ntime.sleep(20)"
        ));
        let (outcome, _) = room.run(&text).await;
        assert_eq!(outcome.exit.limit, Some(ResourceLimit::Memory), "{hold}: {outcome:?}");
        assert_eq!(room.text("echo alive").await, "alive\n");
    }
}

#[tokio::test]
async fn memory_is_limited_for_all_processes_together() {
    let room = Room::with(|request| request.limits.memory = Some(256 * MEBIBYTE)).await;
    let each = "/usr/bin/python3 -c 'import time\nx = bytearray(120 << 20)\ntime.sleep(30)'";
    let (outcome, _) = room.run(&format!("{each} & {each} & {each} & wait -n; exit $?")).await;
    assert_eq!(outcome.exit.limit, Some(ResourceLimit::Memory), "{outcome:?}");
    assert!(outcome.exit.duration < Duration::from_secs(15));
}

#[tokio::test]
async fn where_memory_ends_the_kernel_ends_a_command_before_its_supervisor() {
    let room = Room::new().await;
    for text in ["cat /proc/self/oom_score_adj", "cat < /proc/self/oom_score_adj"] {
        assert_eq!(room.text(text).await, "1000\n");
    }
}

#[tokio::test]
async fn who_fills_the_files_in_memory_ends_nobody_but_itself() {
    let room = Room::with(|request| request.limits.memory = Some(128 * MEBIBYTE)).await;
    let shared = "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.shmat.restype = ctypes.c_void_p\nsize = 24 << 20\n\
                  for i in range(4): ctypes.memset(libc.shmat(libc.shmget(0, size, 0o600), None, 0), 1, size)";
    let many = "n = 0\nwhile True:\n  open(f'/tmp/{n}', 'w').close()\n  n += 1";
    for (text, complaint) in [
        ("rm -rf /tmp/[0-9]*; head -c 1G /dev/zero > /tmp/full", "No space left"),
        ("head -c 1G /dev/zero > /dev/shm/full", "No space left"),
        ("rm -rf /tmp/full /dev/shm/full", ""),
        (&python(many), "No space left"),
        (&python(shared), ""),
        (&python(shared), ""),
    ] {
        let (outcome, _) = room.run(text).await;
        assert!(outcome.errors().contains(complaint), "{text}: {outcome:?}");
        assert_eq!(room.text("echo alive").await, "alive\n", "{text}");
    }
}

#[tokio::test]
async fn a_command_may_have_less_memory_than_its_sandbox() {
    let room = Room::new().await;
    let (outcome, _) = room
        .run_command(limited(HOG, |limits| limits.memory = Some(128 * MEBIBYTE)))
        .await;
    let is_limited = outcome.exit.limit == Some(ResourceLimit::Memory) || outcome.errors().contains("MemoryError");
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
    assert_eq!(outcome.exit.limit, Some(ResourceLimit::Wall));
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
    assert_eq!(outcome.exit.limit, Some(ResourceLimit::FileSize), "{outcome:?}");
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
        let is_stopped =
            outcome.exit.limit == Some(ResourceLimit::Written) || outcome.errors().contains("File too large");
        assert!(is_stopped, "{text}: {outcome:?}");
        room.run("rm -rf /tmp/*").await;
    }
}

/// Python that no other process, of the same user or not, may look into.
const HIDDEN_FROM_VIEW: &str = "import ctypes, os, signal, time\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n";

#[tokio::test]
async fn who_lets_nobody_count_what_it_writes_is_limited_all_the_same() {
    let room = Room::new().await;
    let files = "for i in range(30):\n  open(f'part{i}', 'wb').write(bytes(4 << 20))\ntime.sleep(60)";
    let text = python(&format!("{HIDDEN_FROM_VIEW}{files}"));
    let (outcome, _) = room.run_command(limited(&text, writing(32, 30))).await;
    assert_eq!(outcome.exit.limit, Some(ResourceLimit::Written), "{outcome:?}");
}

#[tokio::test]
async fn what_children_write_that_nobody_waits_for_is_limited() {
    let room = Room::new().await;
    let text = python(
        "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nfor i in range(60):\n  if os.fork() == 0:\n    \
         open(f'part{i}', 'wb').write(bytes(2 << 20))\n    os._exit(0)\n  try: os.wait()\n  except ChildProcessError: pass\n\
         time.sleep(60)",
    );
    let (outcome, _) = room.run_command(limited(&text, writing(32, 30))).await;
    assert_eq!(outcome.exit.limit, Some(ResourceLimit::Written), "{outcome:?}");
}

#[tokio::test]
async fn who_hides_both_itself_and_its_files_is_limited_by_what_the_file_system_lost() {
    // A file system that nobody else fills or empties meanwhile.
    let room = Room::on(directory_in("/dev/shm"), |_| {}).await;
    let file = "kept = []\nfor i in range(7):\n  kept.append(open('gone', 'wb', buffering=0))\n  os.unlink('gone')\n  \
                kept[-1].write(bytes(4 << 20))\ntime.sleep(60)";
    let text = python(&format!("{HIDDEN_FROM_VIEW}{file}"));
    let (outcome, _) = room.run_command(limited(&text, writing(8, 30))).await;
    assert_eq!(outcome.exit.limit, Some(ResourceLimit::Written), "{outcome:?}");
}

#[tokio::test]
async fn what_was_on_a_layer_before_is_not_laid_to_a_command() {
    let room = Room::new().await;
    let layer = room.open.create_layer().await.unwrap();
    let before = run_on(&*layer, shell("head -c 48M /dev/zero > before")).await;
    assert_eq!(before.code(), 0, "{before:?}");
    let small = "for i in 1 2 3 4; do head -c 1M /dev/zero > $i; sleep 0.1; done; echo fine";
    let outcome = run_on(&*layer, limited(small, writing(32, 30))).await;
    assert_eq!(outcome.text(), "fine\n", "{outcome:?}");
    layer.remove().await.unwrap();
}

/// A limit on what is written, with a time after which a test that waits for it has failed.
fn writing(mebibytes: u64, seconds: u64) -> impl FnOnce(&mut garret_core::Limits) {
    move |limits| {
        limits.written = Some(mebibytes * MEBIBYTE);
        limits.wall = Some(Duration::from_secs(seconds));
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
    let layer = room.open.create_layer().await.unwrap();
    let text = "yes & while sleep 0.1; do grep wchar /proc/$!/io > count.new; mv count.new count; done";
    let mut process = layer.start_process(shell(text)).await.unwrap();
    let count = run_on(&*layer, shell("sleep 0.8; cat count")).await.text();
    let written: u64 = count.trim().trim_start_matches("wchar: ").parse().unwrap();
    assert!(written < 2 * MEBIBYTE, "{written} bytes were written ahead");
    let first = process.next_output().await.unwrap();
    assert!(first.bytes.starts_with(b"y\n"));
    layer.remove().await.unwrap();
}

#[tokio::test]
async fn endless_output_ends_with_the_time() {
    let room = Room::new().await;
    let command = limited("yes", |limits| limits.wall = Some(Duration::from_millis(500)));
    let (outcome, _) = room.run_command(command).await;
    assert_eq!(outcome.exit.limit, Some(ResourceLimit::Wall));
    assert!(outcome.stdout.len() as u64 > MEBIBYTE);
}

#[tokio::test]
async fn a_command_cannot_have_more_than_its_sandbox() {
    let room = Room::with(|request| request.limits.wall = Some(Duration::from_millis(400))).await;
    let command: SandboxCommand = limited("sleep @8763@1", |limits| limits.wall = None);
    assert_eq!(room.run_command(command).await.0.exit.limit, Some(ResourceLimit::Wall));
}

fn by(enforced: &[GuardStatus], guard: Guard) -> &GuardStatus {
    enforced.iter().find(|one| one.guard == guard).unwrap()
}
