//! Putting things where processes see them at once.

use std::sync::Arc;

use garret_core::{Effect, EntryPath, Layer, PlacedEntry};

use super::{Stand, finish, in_time, says, sh, shell, start};

fn effect(path: &str, placed: PlacedEntry) -> Effect {
    Effect {
        path: EntryPath::from_bytes(path.as_bytes().to_vec()),
        placed,
        modified: None,
        is_lost_below: false,
    }
}

fn file(path: &str, content: &'static str) -> Effect {
    effect(
        path,
        PlacedEntry::File {
            content: content.into(),
            mode: 0o644,
        },
    )
}

async fn place(layer: &Arc<dyn Layer>, effects: Vec<Effect>) {
    in_time(layer.place_entries(effects)).await.expect("it can be placed");
}

/// Promise of `Layer::place`: where the processes on it see them at once.
pub async fn a_running_command_sees_what_is_placed(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let script = "echo ready; while [ ! -f placed ]; do sleep 0.02; done; cat placed; while [ -f placed ]; do sleep 0.02; done; echo gone";
    let mut process = start(&layer, shell(script)).await;
    says(process.as_mut(), "ready").await;
    place(&layer, vec![file("placed", "whole\n")]).await;
    says(process.as_mut(), "whole").await;
    place(&layer, vec![effect("placed", PlacedEntry::Nothing)]).await;
    assert_eq!(finish(process.as_mut()).await.text(), "gone");
}

/// Promise of `Layer::place`: a directory above must be there or be among them.
pub async fn files_directories_and_links_can_be_placed(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    let run = PlacedEntry::File {
        content: "#!/bin/sh\necho ran\n".into(),
        mode: 0o755,
    };
    place(
        &layer,
        vec![
            effect("a", PlacedEntry::Directory { mode: 0o750 }),
            effect("a/b", PlacedEntry::Directory { mode: 0o755 }),
            effect("a/b/run", run),
            effect("a/empty", PlacedEntry::Directory { mode: 0o755 }),
            effect(
                "a/link",
                PlacedEntry::Symlink {
                    target: "b/run".to_owned(),
                },
            ),
        ],
    )
    .await;
    let ran = sh(&layer, "stat -c %a a; a/b/run; readlink a/link; ls a/empty; a/link").await;
    assert_eq!(ran.text(), "750\nran\nb/run\nran");
    let error = layer.place_entries(vec![file("nowhere/file", "x")]).await;
    assert!(error.is_err(), "no directory is made by the way");
}

/// Placing is as final as writing: whatever was there goes.
pub async fn what_is_placed_takes_the_place_of_what_was_there(stand: Stand) {
    stand.put("file", "old");
    stand.put("tree/in/it", "old");
    stand.fill("ln -s file link");
    let (_room, layer) = stand.lay().await;
    sh(&layer, "mkdir made; echo x > made/f").await.text();
    place(
        &layer,
        vec![
            file("file", "new"),
            effect(
                "link",
                PlacedEntry::Symlink {
                    target: "tree".to_owned(),
                },
            ),
            effect("made", PlacedEntry::Nothing),
            effect("made/f", PlacedEntry::Nothing),
            effect(
                "tree",
                PlacedEntry::File {
                    content: "a file".into(),
                    mode: 0o600,
                },
            ),
            effect("tree/in", PlacedEntry::Nothing),
            effect("tree/in/it", PlacedEntry::Nothing),
        ],
    )
    .await;
    let ran = sh(
        &layer,
        "cat file tree; echo; stat -c %a tree; readlink link; ls -d made 2>/dev/null || echo none",
    )
    .await;
    assert_eq!(ran.text(), "newa file\n600\ntree\nnone");
}

/// What is placed belongs to the processes as everything else.
pub async fn what_is_placed_can_be_changed_by_a_command(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    place(
        &layer,
        vec![
            effect("d", PlacedEntry::Directory { mode: 0o755 }),
            file("d/f", "one\n"),
        ],
    )
    .await;
    assert_eq!(
        sh(
            &layer,
            "echo two >> d/f; cat d/f; echo new > d/g; chmod 600 d/f; mv d/f d/h; cat d/h d/g"
        )
        .await
        .text(),
        "one\ntwo\none\ntwo\nnew"
    );
    assert_eq!(sh(&layer, "rm -r d; ls").await.text(), "");
}

/// A link that a command planted leads no placing out of the layer.
pub async fn a_planted_link_leads_nothing_outside(stand: Stand) {
    let outside = stand.outside();
    std::fs::write(outside.join("victim"), "before").expect("a test machine has room");
    let (_room, layer) = stand.lay().await;
    let shown = outside.display();
    sh(&layer, &format!("ln -s '{shown}' out; ln -s '{shown}/victim' victim"))
        .await
        .text();
    let _ = in_time(layer.place_entries(vec![file("out/planted", "x")])).await;
    let _ = in_time(layer.place_entries(vec![effect("out/victim", PlacedEntry::Nothing)])).await;
    place(&layer, vec![file("victim", "placed")]).await;
    assert_eq!(std::fs::read(outside.join("victim")).expect("it is there"), b"before");
    let names = std::fs::read_dir(&outside).expect("it is there").count();
    assert_eq!(names, 1, "something was planted outside");
    assert_eq!(sh(&layer, "cat victim").await.text(), "placed");
}
