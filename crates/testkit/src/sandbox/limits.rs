//! How much a command may use. What is not claimed is not asked; the clock, the size of a file and open files every sandbox can hold.

use std::time::Duration;

use garret_core::{Guard, Layer, Limits, ResourceLimit};
use std::sync::Arc;

use super::{HEART, Ran, Stand, is_still, run, sh, shell};

const MEBIBYTE: u64 = 1024 * 1024;

async fn limited(layer: &Arc<dyn Layer>, text: &str, limits: Limits) -> Ran {
    let mut command = shell(text);
    command.limits = limits;
    run(layer, command).await
}

async fn walled(layer: &Arc<dyn Layer>, text: &str) -> Ran {
    let ran = limited(
        layer,
        text,
        Limits {
            wall: Some(Duration::from_millis(700)),
            ..Limits::default()
        },
    )
    .await;
    assert_eq!(ran.exit.limit, Some(ResourceLimit::Wall), "{text}: {:?}", ran.exit);
    assert!(
        ran.exit.duration >= Duration::from_millis(600),
        "{text}: {:?}",
        ran.exit
    );
    ran
}

/// Promise of `Limits::wall_limit`.
pub async fn the_wall_ends_a_command(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let ran = walled(&layer, "echo begun; sleep 1000; echo never").await;
    assert_eq!(ran.stdout, b"begun\n");
}

/// Promise of `Limits::wall_limit`: nothing to ignore.
pub async fn the_wall_ends_what_ignores_signals(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    walled(&layer, &format!("trap '' TERM INT HUP QUIT; {HEART}")).await;
    assert!(is_still(&layer).await);
}

/// Promise of `Limits::wall_limit`: every process of the command.
pub async fn the_wall_ends_what_was_left_in_the_background(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    walled(&layer, &format!("({HEART}) & (trap '' HUP TERM; {HEART}) & sleep 1000")).await;
    assert!(is_still(&layer).await);
}

/// Promise of `Limits::wall_limit`: also one that left its session, its group and its parent.
pub async fn the_wall_ends_what_ran_away(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let away = super::endings::ran_away();
    walled(&layer, &format!("{away} {away} setsid sh -c 'sleep 1000' & sleep 1000")).await;
    assert!(is_still(&layer).await);
}

/// Promise of `Limits::file_size`.
pub async fn a_file_grows_no_larger_than_allowed(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let limits = Limits {
        file_size: Some(MEBIBYTE),
        ..Limits::default()
    };
    let ran = limited(&layer, "head -c 3000000 /dev/zero > large", limits).await;
    assert_ne!(ran.code(), 0);
    let size: u64 = sh(&layer, "wc -c < large")
        .await
        .text()
        .trim()
        .parse()
        .expect("a number");
    assert!(size <= MEBIBYTE, "{size}");
}

/// Promise of `Limits::open_files`.
pub async fn no_more_files_are_open_than_allowed(stand: Stand) {
    stand.put("f", "x");
    let (_room, layer) = stand.lay().await;
    let script = "exec 3<f 4<f 5<f 6<f 7<f 8<f 9<f && echo all";
    assert_eq!(sh(&layer, script).await.text(), "all");
    let ran = limited(
        &layer,
        script,
        Limits {
            open_files: Some(8),
            ..Limits::default()
        },
    )
    .await;
    assert_ne!(ran.code(), 0, "{ran:?}");
}

/// Promise of `Limits::cpu`, where it is claimed.
pub async fn time_on_processors_ends(stand: Stand) {
    let (room, layer) = stand.lay().await;
    if !room.enforces(Guard::CpuTime) {
        return;
    }
    let limits = Limits {
        cpu: Some(Duration::from_secs(1)),
        wall: Some(super::PATIENCE),
        ..Limits::default()
    };
    let ran = limited(
        &layer,
        "for i in 1 2; do sh -c 'while :; do :; done' & done; wait",
        limits,
    )
    .await;
    assert_eq!(ran.exit.limit, Some(ResourceLimit::Cpu), "{:?}", ran.exit);
}

/// Promise of `Limits::memory`, where it is claimed.
pub async fn memory_ends(stand: Stand) {
    let (room, layer) = stand.lay().await;
    if !room.enforces(Guard::Memory) {
        return;
    }
    let limits = Limits {
        memory: Some(64 * MEBIBYTE),
        wall: Some(super::PATIENCE),
        ..Limits::default()
    };
    // `tail` holds all of a line that does not end.
    let ran = limited(&layer, "head -c 300000000 /dev/zero | tail -n 1 | wc -c", limits).await;
    assert!(!String::from_utf8_lossy(&ran.stdout).contains("300000000"), "{ran:?}");
    assert_eq!(sh(&layer, "echo on").await.text(), "on");
}

/// Promise of `Limits::processes`, where it is claimed.
pub async fn processes_end(stand: Stand) {
    let (room, layer) = stand.lay().await;
    if !room.enforces(Guard::ProcessCount) {
        return;
    }
    let script = "i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); done; echo all";
    let limits = Limits {
        processes: Some(20),
        ..Limits::default()
    };
    let ran = limited(&layer, script, limits).await;
    assert!(!ran.stdout.ends_with(b"all\n"), "{ran:?}");
}

/// Promise of `Limits::written`, where it is claimed.
pub async fn what_is_written_ends(stand: Stand) {
    let (room, layer) = stand.lay().await;
    if !room.enforces(Guard::Written) {
        return;
    }
    let limits = Limits {
        written: Some(4 * MEBIBYTE),
        wall: Some(super::PATIENCE),
        ..Limits::default()
    };
    let script = "i=0; while [ $i -lt 200 ]; do head -c 1000000 /dev/zero > f$i || exit 9; sleep 0.02; i=$((i+1)); done; echo all";
    let ran = limited(&layer, script, limits).await;
    assert!(!ran.stdout.ends_with(b"all\n"), "{ran:?}");
}
