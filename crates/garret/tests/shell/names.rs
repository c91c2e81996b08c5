//! Names that are not UTF-8 are names like others to a command.

use garret::{HistoryMode, OutputRequest, RunRequest};

use crate::shell::support::{On, Room, each, on_s3, room, room_with};

/// The names that the texts below use.
const NAMES: &str = "f=$(printf 'caf\\351'); d=$(printf 'd\\377'); e=$(printf 'plain/e\\376'); l=$(printf 'l\\375'); ";

/// Shows everything there is as a command sees it: kinds, modes, targets and content.
const PICTURE: &str = "find . -mindepth 1 -printf '%P|%y|%m|%l\\n' | LC_ALL=C sort; \
                       find . -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum";

async fn picture(room: &Room) -> Vec<u8> {
    let seen = room.sh(PICTURE).await;
    assert!(seen.changed.is_nothing(), "{:?}: {:?}", room.on, seen.changed);
    seen.stdout.0.to_vec()
}

async fn sh(room: &Room, text: &str) -> garret::RunResult {
    room.sh(&format!("set -e; {NAMES}{text}")).await
}

const STEPS: [&str; 6] = [
    "mkdir \"$d\" plain && echo 1 > \"$d/in\" && echo 2 > \"$f\" && chmod 640 \"$f\" && ln -s \"in\" \"$l\"",
    "echo more >> \"$f\" && chmod 600 \"$d/in\" && chmod 700 \"$d\" && ln -sfn elsewhere \"$l\"",
    "mv \"$d\" \"$e\" && mv \"$f\" plain/renamed && mkdir -p \"$e/deep/$d\" && echo 3 > \"$e/deep/$d/$f\"",
    "rm \"$l\" && mkdir \"$l\" && echo 4 > \"$l/x\" && rm -r \"$e/deep\" && echo 5 > \"$e/deep\"",
    "chmod 755 \"$e/in\" && chmod 750 \"$e\" && mv plain/renamed \"$f\"",
    "rm -rf \"$e\" \"$l\" \"$f\"",
];

#[test]
fn names_that_are_not_utf_8_are_made_changed_renamed_and_deleted_and_all_of_it_comes_back() {
    each(|on| async move {
        let room = room(on).await;
        let mut pictures = vec![picture(&room).await];
        for step in STEPS {
            let done = sh(&room, step).await;
            assert!(done.changed.change.is_some(), "{on:?}: {step}: {:?}", done.changed);
            pictures.push(picture(&room).await);
        }
        for before in (0..STEPS.len()).rev() {
            room.undo().await;
            assert_eq!(
                picture(&room).await,
                pictures[before],
                "{on:?}: undo of {}",
                STEPS[before]
            );
        }
        for after in 1..=STEPS.len() {
            room.redo().await;
            assert_eq!(
                picture(&room).await,
                pictures[after],
                "{on:?}: redo of {}",
                STEPS[after - 1]
            );
        }
        let log = room.workspace().log(Default::default()).await.unwrap();
        let outside: Vec<_> = log
            .changes
            .iter()
            .filter(|change| change.kind.as_str() == "outside")
            .collect();
        assert!(outside.is_empty(), "{on:?}: nobody else was here: {outside:?}");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkout_that_is_made_anew_has_the_names_that_are_not_utf_8() {
    let room = room(On::Filestore).await;
    sh(&room, STEPS[0]).await;
    let before = picture(&room).await;
    room.workspace().close().await.unwrap();
    std::fs::remove_dir_all(room.home.path().join("benches")).unwrap();
    let again = room.garret.open_config("box", &room.config).await.unwrap();
    let seen = again.workspace().run(RunRequest::shell(PICTURE)).await.unwrap();
    assert!(seen.changed.is_nothing(), "{:?}", seen.changed);
    assert_eq!(seen.stdout.0, before);
    again.workspace().close().await.unwrap();
}

#[test]
fn a_process_in_the_background_sees_what_undo_does_to_a_name_that_is_not_utf_8() {
    each(|on| async move {
        let room = room(on).await;
        sh(&room, "mkdir -p plain && echo one > \"$f\" && echo kept > \"$e\"").await;
        sh(&room, "echo two > \"$f\" && rm \"$e\"").await;
        let text = format!(
            "{NAMES}cat \"$f\"; test ! -e \"$e\"; while ! test -e \"$e\"; do sleep 0.05; done; cat \"$f\" \"$e\"; sleep 1000"
        );
        let id = room.workspace().start(RunRequest::shell(text)).await.unwrap().id;
        let output = |cursor| OutputRequest {
            id: id.clone(),
            cursor,
            wait: std::time::Duration::from_secs(20),
            max_bytes: 1_000,
            with_tail: false,
            with_details: false,
        };
        let first = room.workspace().output(output(0)).await.unwrap();
        assert_eq!(first.output, "two\n", "{on:?}");
        room.undo().await;
        let mut told = String::new();
        let mut cursor = first.cursor;
        while told != "one\nkept\n" {
            let next = room.workspace().output(output(cursor)).await.unwrap();
            assert!(
                next.process.running && "one\nkept\n".starts_with(&told),
                "{on:?}: {told}"
            );
            told.push_str(&next.output);
            cursor = next.cursor;
        }
        room.workspace().kill(&id).await.unwrap();
        assert_eq!(sh(&room, "cat \"$f\" \"$e\"").await.output, "one\nkept\n", "{on:?}");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_history_a_name_that_is_not_utf_8_is_dropped_and_named() {
    for on in [On::Memory, On::Local] {
        let room = room_with(on, |config| config.history = Some(HistoryMode::Off)).await;
        let made = sh(&room, "echo 1 > \"$f\" && echo 2 > plain").await;
        assert_eq!(made.changed.paths, ["+ plain"], "{on:?}");
        let dropped: Vec<_> = made.changed.dropped.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(dropped, ["caf\\xE9"], "{on:?}");
        assert_eq!(
            room.sh("ls").await.output,
            "plain\n",
            "{on:?}: the next command does not have it"
        );
    }
}

/// Keys are UTF-8.
#[test]
fn in_a_bucket_a_name_that_is_not_utf_8_cannot_be_saved_and_the_files_stay_as_they_are() {
    on_s3(|on| async move {
        let room = room(on).await;
        let text = format!("{NAMES} echo 1 > plain && echo 2 > \"$f\"");
        let changed = room.workspace().run(RunRequest::shell(text)).await.unwrap().changed;
        assert!(changed.leftover.is_some(), "{changed:?}");
        let refused = changed.refused.unwrap();
        assert_eq!(refused.kind, "unsupported", "{refused:?}");
        assert!(refused.message.contains("UTF-8"), "{refused:?}");
        assert!(room.tree().await.is_empty());
        assert_eq!(room.sh("ls").await.output, "");
    });
}
