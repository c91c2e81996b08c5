//! Running commands, and what comes back.

use bytes::Bytes;
use garret_core::{CommandStdin, ErrorKind, ExitCause, PlacedEntry, SandboxCommand, Signal, WsPath};

use crate::room::{Outcome, Room, arguments, finish, paths, reading, run_on, shell, variables};

#[tokio::test]
async fn a_command_runs_and_gives_its_output_apart_and_its_code() {
    let room = Room::new().await;
    let (outcome, effects) = room.run("echo out; echo err >&2; exit 3").await;
    assert_eq!(
        (outcome.text().as_str(), outcome.errors().as_str(), outcome.code()),
        ("out\n", "err\n", 3)
    );
    assert_eq!(outcome.exit.ended, ExitCause::Exited(3));
    assert!(effects.effects.is_empty());
}

#[tokio::test]
async fn a_text_that_needs_no_shell_does_what_it_does_in_one() {
    let room = Room::new().await;
    let layer = room.open.create_layer().await.unwrap();
    let made = "mkdir -p sub; echo 'echo $0 $1; echo ${BASH:+by-bash}' > bare; chmod +x bare; touch data; \
                printf '#!/no/such/program\\n' > bad; chmod +x bad";
    run_on(&*layer, shell(made)).await;
    for text in [
        "env",
        "true",
        "false",
        "ls -d sub",
        "cat nowhere",
        "no-such-program -x",
        "./bare one",
        "./data",
        "./sub",
        "./bad",
        "sub/none",
        "printenv PWD SHLVL _",
        "sh -c exit",
        "readlink /proc/self/exe",
        "expr 1 + 1",
    ] {
        let plain = run_on(&*layer, shell(text)).await;
        let in_shell = run_on(&*layer, shell(&format!("{text} $NOTHING"))).await;
        let told = |outcome: &Outcome| {
            let mut lines: Vec<_> = outcome.text().lines().map(str::to_owned).collect();
            lines.sort();
            (lines, outcome.errors(), outcome.exit.ended)
        };
        assert_eq!(told(&plain), told(&in_shell), "{text}");
    }
    layer.remove().await.unwrap();
}

#[tokio::test]
async fn what_a_command_wrote_is_its_effect_and_the_bench_stays_as_it_was() {
    let room = Room::new().await;
    std::fs::write(room.bench().join("old"), "old").unwrap();
    let (outcome, effects) = room
        .run("cat old; rm old; mkdir -p src; echo hi > src/a; chmod +x src/a")
        .await;
    assert_eq!(outcome.text(), "old");
    assert_eq!(paths(&effects), ["old", "src", "src/a"]);
    assert_eq!(effects.effects[0].placed, PlacedEntry::Nothing);
    assert!(matches!(
        effects.effects[2].placed,
        PlacedEntry::File { mode: 0o755, .. }
    ));
    assert_eq!(std::fs::read(room.bench().join("old")).unwrap(), b"old");
    crate::room::is_tidy(&room.directory).await;
}

#[tokio::test]
async fn bytes_pass_through_exactly_and_however_many() {
    let room = Room::new().await;
    let given: Vec<u8> = (0..3_000_000_u32).map(|at| (at * 31 % 251) as u8).collect();
    let (outcome, _) = room.run_command(reading("cat", given.clone())).await;
    assert!(outcome.stdout == given);
}

#[tokio::test]
async fn a_pipe_is_read_as_it_is_written_until_it_is_closed() {
    let room = Room::new().await;
    let layer = room.open.create_layer().await.unwrap();
    let command = SandboxCommand {
        stdin: CommandStdin::Piped,
        ..shell("read line; echo \"got $line\"; cat")
    };
    let mut process = layer.start_process(command).await.unwrap();
    process.write_stdin(Bytes::from("one\n")).await.unwrap();
    assert_eq!(&process.next_output().await.unwrap().bytes[..], b"got one\n");
    process.write_stdin(Bytes::from("two")).await.unwrap();
    process.close_stdin().await.unwrap();
    let outcome = finish(&mut *process).await;
    assert_eq!((outcome.text().as_str(), outcome.code()), ("two", 0));
    let error = process.write_stdin(Bytes::from("three")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_closed_input_is_at_its_end_at_once() {
    let room = Room::new().await;
    assert_eq!(room.text("cat; echo done").await, "done\n");
}

#[tokio::test]
async fn the_environment_is_what_was_given_and_nothing_else() {
    let room = Room::new().await;
    let command = SandboxCommand {
        env: variables(&[("A", "1"), ("B", "two words")]),
        ..arguments(&["/usr/bin/env"])
    };
    assert_eq!(room.run_command(command).await.0.text(), "A=1\nB=two words\n");
}

#[tokio::test]
async fn a_command_runs_where_it_is_told() {
    let room = Room::new().await;
    std::fs::create_dir_all(room.bench().join("a/b")).unwrap();
    let command = SandboxCommand {
        cwd: WsPath::parse("a/b").unwrap(),
        ..shell("pwd")
    };
    assert_eq!(room.run_command(command).await.0.text(), "/workspace/a/b\n");
}

#[tokio::test]
async fn a_program_or_a_directory_that_is_not_there_is_not_found() {
    let room = Room::new().await;
    let layer = room.open.create_layer().await.unwrap();
    let error = layer.start_process(arguments(&["no-such-program"])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    let command = SandboxCommand {
        cwd: WsPath::parse("nowhere").unwrap(),
        ..shell("true")
    };
    assert_eq!(
        layer.start_process(command).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    std::fs::write(room.bench().join("text"), "x").unwrap();
    assert_eq!(
        layer.start_process(arguments(&["./text"])).await.unwrap_err().kind(),
        ErrorKind::Denied
    );
    assert_eq!(run_on(&*layer, arguments(&["true"])).await.code(), 0);
}

#[tokio::test]
async fn signals_reach_the_process_and_are_told() {
    let room = Room::new().await;
    let layer = room.open.create_layer().await.unwrap();
    let mut process = layer
        .start_process(shell(
            "trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep 0.05; done",
        ))
        .await
        .unwrap();
    assert_eq!(&process.next_output().await.unwrap().bytes[..], b"ready\n");
    process.send_signal(Signal::Terminate).await.unwrap();
    let outcome = finish(&mut *process).await;
    assert_eq!((outcome.text().as_str(), outcome.code()), ("asked\n", 7));
    let mut process = layer.start_process(arguments(&["sleep", "100"])).await.unwrap();
    process.send_signal(Signal::Kill).await.unwrap();
    assert_eq!(process.wait().await.unwrap().ended, ExitCause::Signalled(9));
}

#[tokio::test]
async fn what_a_command_used_is_told() {
    let room = Room::new().await;
    let (outcome, _) = room.run("i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done").await;
    let usage = outcome.exit.usage;
    assert!(usage.user_ms + usage.system_ms > 10, "{usage:?}");
    assert!(usage.max_memory > 500_000, "{usage:?}");
    assert!(outcome.exit.duration.as_millis() > 10);
}

#[tokio::test]
async fn several_processes_share_a_layer() {
    let room = Room::new().await;
    let layer = room.open.create_layer().await.unwrap();
    let mut waiting = layer
        .start_process(shell("while [ ! -e flag ]; do sleep 0.02; done; cat flag"))
        .await
        .unwrap();
    run_on(&*layer, shell("echo seen > flag.tmp; mv flag.tmp flag")).await;
    assert_eq!(finish(&mut *waiting).await.text(), "seen\n");
    layer.remove().await.unwrap();
}
