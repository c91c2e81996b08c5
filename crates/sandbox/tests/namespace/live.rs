//! A layer on which processes live on.

use std::time::Duration;

use garret_core::{Content, Effect, EntryPath, ErrorKind, PlacedEntry, Sandbox};

use garret_sandbox::namespace::LayerMode;

use crate::room::{Room, directory, finish, paths, request, run_on, sandbox_with, shell};

fn effect(path: &str, placed: PlacedEntry) -> Effect {
    Effect {
        path: EntryPath::from_bytes(path.as_bytes().to_vec()),
        placed,
        modified: None,
        is_lost_below: false,
    }
}

fn file(path: &str, content: impl Into<Content>) -> Effect {
    effect(
        path,
        PlacedEntry::File {
            content: content.into(),
            mode: 0o644,
        },
    )
}

#[tokio::test]
async fn what_is_placed_is_seen_at_once_and_what_was_written_is_an_effect() {
    let room = Room::new().await;
    std::fs::write(room.bench().join("old"), "old").unwrap();
    let layer = room.open.create_layer().await.unwrap();
    let mut server = layer
        .start_process(shell(
            "while [ ! -e stop ]; do sleep 0.02; done; cat dir/new; ls; readlink link",
        ))
        .await
        .unwrap();
    let big: Vec<u8> = vec![7; 700_000];
    let placed = vec![
        effect("dir", PlacedEntry::Directory { mode: 0o750 }),
        file("dir/new", "new\n"),
        file("dir/empty", ""),
        file("big", big.clone()),
        effect(
            "link",
            PlacedEntry::Symlink {
                target: "dir/new".to_owned(),
            },
        ),
        effect("old", PlacedEntry::Nothing),
    ];
    layer.place_entries(placed).await.unwrap();
    layer.place_entries(vec![file("stop", "")]).await.unwrap();
    let outcome = finish(&mut *server).await;
    assert_eq!(outcome.text(), "new\nbig\ndir\nlink\nstop\ndir/new\n");
    assert_eq!(
        run_on(&*layer, shell("stat -c %a dir dir/new; wc -c < big"))
            .await
            .text(),
        "750\n644\n700000\n"
    );
    layer.lift().await.unwrap();
    let effects = layer.read_effects(None).await.unwrap();
    assert_eq!(
        paths(&effects),
        ["big", "dir", "dir/empty", "dir/new", "link", "old", "stop"]
    );
    layer.remove().await.unwrap();
}

#[tokio::test]
async fn placing_follows_no_link_out_of_the_workspace() {
    let room = Room::new().await;
    let layer = room.open.create_layer().await.unwrap();
    run_on(&*layer, shell("ln -s /tmp out; ln -s / top; mkdir real")).await;
    for path in ["out/x", "top/tmp/x", "missing/x"] {
        let error = layer.place_entries(vec![file(path, "planted")]).await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::NotFound),
            "{error}"
        );
    }
    // A link at the place itself is replaced.
    layer.place_entries(vec![file("out", "plain")]).await.unwrap();
    assert_eq!(run_on(&*layer, shell("cat out; ls /tmp")).await.text(), "plain");
    layer.remove().await.unwrap();
}

/// Waits until something is so, for a minute at most.
async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to be");
}

#[tokio::test]
async fn everything_stands_still_while_a_layer_is_paused() {
    let room = Room::new().await;
    let layer = room.open.create_layer().await.unwrap();
    let text =
        "i=0; (setsid sh -c 'while :; do echo x >> other; done' &); while :; do i=$((i+1)); echo $i > count; done";
    let mut process = layer.start_process(shell(text)).await.unwrap();
    let upper = room
        .directory
        .path()
        .join("scratch/layers")
        .join(layer.id())
        .join("upper");
    let read = |name: &str| std::fs::read(upper.join(name)).unwrap_or_default();
    until(|| !read("count").is_empty() && !read("other").is_empty()).await;
    assert_eq!(layer.read_effects(None).await.unwrap_err().kind(), ErrorKind::Invalid);
    for _ in 0..5 {
        layer.pause().await.unwrap();
        let before = (read("count"), read("other"));
        let effects = layer.read_effects(None).await.unwrap();
        assert_eq!(paths(&effects), ["count", "other"]);
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert!((read("count"), read("other")) == before);
        layer.resume().await.unwrap();
        until(|| read("other") != before.1).await;
    }
    layer.lift().await.unwrap();
    assert_eq!(process.wait().await.unwrap().ended.exit_code(), 137);
    layer.remove().await.unwrap();
}

#[tokio::test]
async fn a_later_reading_gives_only_what_came_after() {
    let room = Room::new().await;
    let layer = room.open.create_layer().await.unwrap();
    // A file that was written within the last tick of the clock is read again, to be safe.
    run_on(&*layer, shell("echo 1 > first; sleep 0.1")).await;
    layer.pause().await.unwrap();
    let effects = layer.read_effects(None).await.unwrap();
    layer.resume().await.unwrap();
    run_on(&*layer, shell("echo 2 > second")).await;
    layer.pause().await.unwrap();
    let later = layer.read_effects(Some(&effects.mark)).await.unwrap();
    assert_eq!(
        (paths(&effects), paths(&later)),
        (vec!["first".to_owned()], vec!["second".to_owned()])
    );
    layer.remove().await.unwrap();
}

#[tokio::test]
async fn ending_one_process_leaves_the_others_of_its_layer() {
    let room = Room::new().await;
    let layer = room.open.create_layer().await.unwrap();
    let mut one = layer
        .start_process(shell("(setsid sleep @8762@1 &); sleep @8762@2"))
        .await
        .unwrap();
    let mut other = layer
        .start_process(shell("while [ ! -e stop ]; do sleep 0.02; done; echo ended"))
        .await
        .unwrap();
    one.send_signal(garret_core::Signal::Kill).await.unwrap();
    one.wait().await.unwrap();
    assert_eq!(crate::room::processes_named("@8762@"), Vec::<String>::new());
    run_on(&*layer, shell("touch stop")).await;
    assert_eq!(finish(&mut *other).await.text(), "ended\n");
    drop(layer.start_process(shell("sleep @8762@3")).await.unwrap());
    layer.lift().await.unwrap();
    assert_eq!(crate::room::processes_named("@8762@"), Vec::<String>::new());
    layer.remove().await.unwrap();
}

/// What the commands of a layer see of a bench that others change meanwhile, after a look below it; what is named is placed.
async fn seen_after_a_look(layers: LayerMode) -> (Vec<String>, String) {
    let directory = directory();
    let bench = directory.path().join("bench");
    for path in ["replaced", "removed", "same"] {
        std::fs::write(bench.join(path), "old\n").unwrap();
    }
    let open = sandbox_with(layers).open(request(&directory)).await.unwrap();
    let layer = open.create_layer().await.unwrap();
    let look = "cat new replaced removed same 2>/dev/null; echo; ls";
    assert_eq!(
        run_on(&*layer, shell(look)).await.text(),
        "old\nold\nold\n\nremoved\nreplaced\nsame\n"
    );
    std::fs::write(bench.join("new"), "new\n").unwrap();
    std::fs::write(bench.join("draft"), "newer\n").unwrap();
    std::fs::rename(bench.join("draft"), bench.join("replaced")).unwrap();
    std::fs::remove_file(bench.join("removed")).unwrap();
    layer.pause().await.unwrap();
    let named = layer.refresh_bench().await.unwrap();
    layer.resume().await.unwrap();
    let placed = named.iter().map(|path| {
        let content = std::fs::read(bench.join(path.display_path())).ok();
        match content {
            Some(content) => file(&path.display_path(), content),
            None => effect(&path.display_path(), PlacedEntry::Nothing),
        }
    });
    layer.place_entries(placed.collect()).await.unwrap();
    let seen = run_on(&*layer, shell(look)).await.text();
    layer.pause().await.unwrap();
    assert_eq!(layer.refresh_bench().await.unwrap(), [], "nothing happened since");
    layer.resume().await.unwrap();
    layer.remove().await.unwrap();
    (named.iter().map(EntryPath::display_path).collect(), seen)
}

#[tokio::test]
async fn what_others_did_to_the_bench_shows_after_a_look_or_is_named_by_it() {
    let expected = "new\nnewer\nold\n\nnew\nreplaced\nsame\n";
    let (named, seen) = seen_after_a_look(LayerMode::Best).await;
    assert_eq!((named.len(), seen.as_str()), (0, expected));
    let (named, seen) = seen_after_a_look(LayerMode::Copies).await;
    assert_eq!(
        (named.join(" ").as_str(), seen.as_str()),
        ("new removed replaced", expected)
    );
}
