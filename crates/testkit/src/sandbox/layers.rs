//! Layers: what is done on one is seen there, and nowhere else.

use garret_core::{CommandProgram, Layer, PlacedEntry, SandboxCommand};
use std::sync::Arc;

use super::trees::tree_of;
use super::{HEART, STILL, Stand, beating, finish, in_time, is_still, lifted, says, sh, shell, start};

/// Promise of `Layer`: a process sees the bench.
pub async fn a_command_sees_the_bench(stand: Stand) {
    stand.put("a/b.txt", "there");
    stand.fill("ln -s a/b.txt link; mkdir empty; chmod 750 a");
    let (_room, layer) = stand.lay().await;
    let ran = sh(&layer, "cat a/b.txt link; ls empty; stat -c %a a; readlink link").await;
    assert_eq!(ran.text(), "therethere750\na/b.txt");
}

/// Promise of `Layer`: the bench itself does not change.
pub async fn the_bench_does_not_change(stand: Stand) {
    stand.put("a/b.txt", "there");
    stand.put("c.txt", "here");
    stand.fill("ln -s c.txt link");
    let before = tree_of(&stand.bench());
    let (room, layer) = stand.lay().await;
    sh(
        &layer,
        "rm -rf a; echo other > c.txt; echo new > d; chmod 600 d; rm link; mkdir -p e/f; mv c.txt e",
    )
    .await
    .text();
    assert_eq!(tree_of(&stand.bench()), before, "while the layer lies");
    lifted(&layer).await;
    layer.remove().await.expect("it can be removed");
    room.open.close().await.expect("it can be closed");
    assert_eq!(tree_of(&stand.bench()), before, "after it was lifted");
}

/// Promise of `Layer`: with everything that the processes on the layer did.
pub async fn commands_on_a_layer_see_one_another(stand: Stand) {
    stand.put("gone", "x");
    let (_room, layer) = stand.lay().await;
    sh(&layer, "echo one > file; rm gone").await.text();
    assert_eq!(
        sh(&layer, "cat file; ls gone 2>/dev/null || echo gone").await.text(),
        "one\ngone"
    );
}

/// Promise of `Layer`, for processes that run at once.
pub async fn commands_at_once_see_one_another(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let mut waiting = start(
        &layer,
        shell("while [ ! -f go ]; do sleep 0.02; done; cat go; echo seen > reply; mv reply answer"),
    )
    .await;
    let mut other = start(
        &layer,
        shell("echo now > draft; mv draft go; while [ ! -f answer ]; do sleep 0.02; done; cat answer"),
    )
    .await;
    assert_eq!(super::finish(other.as_mut()).await.text(), "seen");
    assert_eq!(super::finish(waiting.as_mut()).await.text(), "now");
}

/// What is on one layer is on no other.
pub async fn layers_do_not_see_one_another(stand: Stand) {
    stand.put("file", "bench");
    let room = stand.open().await;
    let one = room.lay().await;
    sh(&one, "echo one > file; echo x > only").await.text();
    let other = room.lay().await;
    assert_eq!(sh(&other, "cat file; ls only 2>/dev/null").await.stdout, b"bench");
    lifted(&one).await;
    one.remove().await.expect("it can be removed");
    assert_eq!(sh(&other, "cat file; ls only 2>/dev/null").await.stdout, b"bench");
}

/// Promise of `Layer::id`.
pub async fn a_layer_is_its_own(stand: Stand) {
    let room = stand.open().await;
    let (one, other) = (room.lay().await, room.lay().await);
    assert_ne!(one.id(), other.id());
    assert!(!one.id().is_empty());
}

/// Promise of `Layer::pause` and `Layer::resume`.
pub async fn what_is_paused_stands_still(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let _process = start(&layer, shell(HEART)).await;
    beating(&layer).await;
    layer.pause().await.expect("it can be paused");
    let first = beats_of(&layer).await;
    tokio::time::sleep(STILL).await;
    assert_eq!(beats_of(&layer).await, first);
    layer.resume().await.expect("it can go on");
    beating(&layer).await;
}

async fn beats_of(layer: &Arc<dyn Layer>) -> u64 {
    let effects = layer.read_effects(None).await.expect("it is paused");
    let beat = effects
        .effects
        .iter()
        .find(|effect| effect.path.as_bytes() == b"beat")
        .expect("it was made");
    match &beat.placed {
        PlacedEntry::File { content, .. } => content.len(),
        other => panic!("{other:?}"),
    }
}

/// Promise of `Layer`: a process never outlives its lifting.
pub async fn nothing_outlives_its_layer(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let away = super::endings::ran_away();
    let ignoring = format!("trap '' TERM INT HUP; {away} echo ready; {HEART}");
    let mut process = start(&layer, shell(&ignoring)).await;
    says(process.as_mut(), "ready").await;
    beating(&layer).await;
    in_time(layer.lift()).await.expect("it can be lifted");
    let first = beats_of(&layer).await;
    tokio::time::sleep(STILL).await;
    assert_eq!(beats_of(&layer).await, first);
    let exit = in_time(process.wait()).await.expect("it has ended");
    assert_ne!(exit.ended.exit_code(), 0);
}

/// Promise of `Layer::lift`: doing so twice is fine; nothing starts any more.
pub async fn lifting_twice_is_fine(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    sh(&layer, "echo x > file").await.text();
    let first = lifted(&layer).await;
    let second = lifted(&layer).await;
    assert_eq!(first.effects.len(), 1);
    assert_eq!(first.effects.len(), second.effects.len());
    assert!(layer.start_process(shell("true")).await.is_err());
}

/// Promise of `Layer::start_last_process`: what was done can be read once it has ended and the layer was lifted; one that cannot be started leaves
/// nothing, and nothing hangs.
pub async fn the_last_process_is_followed_by_the_end_of_the_layer(stand: Stand) {
    let (room, layer) = stand.lay().await;
    let mut process = in_time(layer.start_last_process(shell("echo x > file")))
        .await
        .expect("it can be started");
    assert_eq!(finish(process.as_mut()).await.code(), 0);
    assert_eq!(lifted(&layer).await.effects.len(), 1);
    let other = room.lay().await;
    let missing = SandboxCommand {
        program: CommandProgram::Arguments(vec!["garret-has-no-such-program".to_owned()]),
        ..shell("")
    };
    assert!(in_time(other.start_last_process(missing)).await.is_err());
    assert_eq!(lifted(&other).await.effects.len(), 0);
    let given_up = room.lay().await;
    drop(
        in_time(given_up.start_last_process(shell(HEART)))
            .await
            .expect("it can be started"),
    );
    lifted(&given_up).await;
    assert!(is_still(&room.lay().await).await);
}

/// Promise of `Layer::remove`: lifts it and forgets.
pub async fn removing_forgets_everything(stand: Stand) {
    let (room, layer) = stand.lay().await;
    let _process = start(&layer, shell(HEART)).await;
    beating(&layer).await;
    in_time(layer.remove()).await.expect("it can be removed");
    assert!(
        layer
            .read_effects(None)
            .await
            .map_or(true, |effects| effects.effects.is_empty())
    );
    assert!(layer.start_process(shell("true")).await.is_err());
    assert_eq!(room.open.leftover_layers().await.expect("it can be asked").len(), 0);
    let fresh = room.lay().await;
    assert!(is_still(&fresh).await);
    assert_eq!(sh(&fresh, "ls").await.text(), "");
}

/// Promise of `OpenSandbox::close`.
pub async fn closing_ends_everything_and_twice_is_fine(stand: Stand) {
    let (room, layer) = stand.lay().await;
    let mut process = start(&layer, shell("sleep 1000")).await;
    in_time(room.open.close()).await.expect("it can be closed");
    in_time(room.open.close()).await.expect("it can be closed twice");
    let exit = in_time(process.wait()).await;
    assert!(exit.is_err() || exit.is_ok_and(|exit| exit.ended.exit_code() != 0));
    assert!(
        room.open.create_layer().await.is_err(),
        "nothing is laid on what is closed"
    );
}
