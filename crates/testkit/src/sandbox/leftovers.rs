//! What a process left that ended without lifting its layers.

use super::{Stand, in_time, lifted, sh, shell, start};

/// Names the directory of a test that runs again in a process of its own, to crash there.
pub(super) const AGAIN: &str = "GARRET_TESTKIT_AGAIN";

/// Promise of `OpenSandbox::leftover_layers`: only of processes which ended.
pub async fn a_layer_in_use_is_no_leftover(stand: Stand) {
    let (room, layer) = stand.lay().await;
    sh(&layer, "echo x > file").await.text();
    assert_eq!(room.open.leftover_layers().await.expect("it can be asked").len(), 0);
    let other = stand.open().await;
    assert_eq!(other.open.leftover_layers().await.expect("it can be asked").len(), 0);
    lifted(&layer).await;
    layer.remove().await.expect("it can be removed");
    assert_eq!(room.open.leftover_layers().await.expect("it can be asked").len(), 0);
}

/// Promise of `OpenSandbox::leftover_layers`: with what is in them.
pub async fn what_a_crash_left_is_found(stand: Stand) {
    stand.put("bench", "x");
    if std::env::var_os(AGAIN).is_some() {
        crash(&stand).await;
    }
    let exe = std::env::current_exe().expect("a test has a program");
    let mut again = std::process::Command::new(exe);
    let output = again
        .args(["--exact", &stand.test, "--nocapture"])
        .env(AGAIN, &stand.base)
        .output()
        .expect("it starts");
    assert!(
        !output.status.success() && !output.stdout.is_empty(),
        "it was to crash: {output:?}"
    );
    let room = stand.open().await;
    // Its processes die with it, and that takes a moment.
    let found = in_time(async {
        loop {
            match room.open.leftover_layers().await.expect("it can be asked") {
                none if none.is_empty() => super::pause().await,
                found => return found,
            }
        }
    })
    .await;
    assert_eq!(found.len(), 1);
    let effects = lifted(&found[0]).await;
    let shown: Vec<_> = effects
        .effects
        .iter()
        .map(|effect| effect.path.display_path())
        .collect();
    assert_eq!(shown, ["beat", "bench", "left"]);
    in_time(found[0].remove()).await.expect("it can be removed");
    assert_eq!(room.open.leftover_layers().await.expect("it can be asked").len(), 0);
}

/// Ends this process at once, in the middle of a command.
async fn crash(stand: &Stand) -> ! {
    let (_room, layer) = stand.lay().await;
    sh(&layer, "echo left > left; rm bench").await.text();
    let _process = start(&layer, shell("echo x > beat; sleep 1000")).await;
    in_time(async { while super::beats(&layer).await == 0 {} }).await;
    std::process::abort()
}
