//! How commands end, and that they end with everything they started.

use std::time::Duration;

use garret_core::{ExitCause, Signal};

use super::{HEART, Stand, beating, finish, in_time, is_still, says, sh, shell, start};

/// A script that starts `HEART` away from its own tree: a session of its own, its parent gone.
pub(super) fn ran_away() -> String {
    format!("(setsid sh -c '{HEART}' >/dev/null 2>&1 </dev/null &);")
}

/// Promise of `ExitCause::Exited`.
pub async fn a_code_is_passed_on(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    for code in [0, 1, 42, 255] {
        let exit = sh(&layer, &format!("exit {code}")).await.exit;
        assert_eq!((exit.ended, exit.limit), (ExitCause::Exited(code), None));
    }
}

/// Promise of `ExitCause::Signalled`.
pub async fn a_signal_is_told_apart_from_a_code(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11)] {
        let exit = sh(&layer, &format!("kill -{name} $$; sleep 1000")).await.exit;
        assert_eq!((exit.ended, exit.limit), (ExitCause::Signalled(number), None), "{name}");
        assert_eq!(exit.ended.exit_code(), 128 + number);
    }
    assert_eq!(sh(&layer, "exit 143").await.exit.ended, ExitCause::Exited(143));
}

/// Promise of `Process::send_signal`: signals the process that was started.
pub async fn a_command_can_be_asked_to_end(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    for (signal, name, code) in [(Signal::Terminate, "TERM", 3), (Signal::Interrupt, "INT", 4)] {
        // The shell waits with its builtin. While a program runs in its foreground, bash may drop an INT that the program survives.
        let script =
            format!("trap 'echo asked; exit {code}' {name}; echo ready; while :; do sleep 0.05 & wait $!; done");
        let mut process = start(&layer, shell(&script)).await;
        says(process.as_mut(), "ready").await;
        process.send_signal(signal).await.expect("it runs");
        let ran = finish(process.as_mut()).await;
        assert_eq!(ran.exit.ended, ExitCause::Exited(code), "{name}");
        assert!(ran.stdout.ends_with(b"asked\n"), "{name}");
    }
}

/// Promise of `Signal::Kill`: ends it and every process that it started.
pub async fn a_kill_ends_the_whole_tree(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let script = format!("trap '' TERM INT HUP; sh -c \"{HEART}\" & sh -c \"{HEART}\" & wait");
    let mut process = start(&layer, shell(&script)).await;
    beating(&layer).await;
    process.send_signal(Signal::Kill).await.expect("it runs");
    let exit = in_time(process.wait()).await.expect("it ends");
    assert_eq!(exit.ended, ExitCause::Signalled(9));
    assert!(is_still(&layer).await, "a child goes on");
}

/// Promise of `Signal::Kill`, for one that left its session and its parent.
pub async fn a_kill_ends_what_ran_away(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let mut process = start(&layer, shell(&format!("{} sleep 1000", ran_away()))).await;
    beating(&layer).await;
    process.send_signal(Signal::Kill).await.expect("it runs");
    in_time(process.wait()).await.expect("it ends");
    assert!(is_still(&layer).await, "what ran away goes on");
}

/// Promise of `Process`: dropping it ends the whole tree.
pub async fn a_process_that_is_dropped_ends_with_its_tree(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let process = start(&layer, shell(&format!("{} {HEART}", ran_away()))).await;
    beating(&layer).await;
    drop(process);
    in_time(async { while !is_still(&layer).await {} }).await;
}

/// Promise of `Process::wait`: how it ended, whenever it is asked.
pub async fn waiting_twice_tells_the_same(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let mut process = start(&layer, shell("exit 7")).await;
    let first = in_time(process.wait()).await.expect("it ends");
    let second = in_time(process.wait()).await.expect("it has ended");
    assert_eq!(first, second);
    assert!(process.next_output().await.is_none(), "nothing comes after the end");
}

/// Promise of `CommandExit::parse_seconds`.
pub async fn the_duration_is_that_of_the_clock(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let exit = sh(&layer, "sleep 0.3").await.exit;
    assert!(
        exit.duration >= Duration::from_millis(300) && exit.duration < super::PATIENCE,
        "{:?}",
        exit.duration
    );
}

/// Promise of `Usage`: with all the processes that it waited for.
pub async fn time_on_processors_is_counted(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let exit = sh(&layer, "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'")
        .await
        .exit;
    assert!(exit.usage.user_ms + exit.usage.system_ms > 10, "{:?}", exit.usage);
}
