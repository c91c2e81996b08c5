//! What commands did, as data: put on the bench, it gives what the same commands give in a plain directory.

use garret_core::{Effect, Effects, Timestamp};

use super::trees::{apply, run_plainly, tree_of};
use super::{STILL, Stand, lifted, sh};

/// Runs `script` on a layer and in a plain directory, both filled by `fill`, and compares.
async fn is_as_plain(stand: &Stand, fill: &str, script: &str) -> Effects {
    let plain = stand.base.join("plain");
    std::fs::create_dir(&plain).expect("a test machine has room");
    for directory in [&plain, &stand.bench()] {
        run_plainly(directory, fill);
    }
    run_plainly(&plain, script);
    let mut files = tree_of(&stand.bench());
    let (_room, layer) = stand.lay().await;
    sh(&layer, &format!("set -e; umask 022\n{script}")).await.text();
    let effects = lifted(&layer).await;
    apply(&mut files, &effects.effects);
    assert_eq!(files, tree_of(&plain), "{:?}", effects.effects);
    let paths: Vec<_> = effects.effects.iter().map(|effect| effect.path.as_bytes()).collect();
    assert!(
        paths.is_sorted_by(|one, next| one < next),
        "in the order of paths, each once: {paths:?}"
    );
    effects
}

fn shown(effects: &[Effect]) -> Vec<String> {
    effects.iter().map(|effect| effect.path.display_path()).collect()
}

/// A command that only reads has no effect.
pub async fn nothing_done_is_nothing(stand: Stand) {
    let effects = is_as_plain(
        &stand,
        "mkdir a; echo x > a/f; ln -s a/f l",
        "cat a/f l; ls -lR; test -x a; cd a",
    )
    .await;
    assert_eq!(shown(&effects.effects), Vec::<String>::new());
    assert_eq!(effects.dropped, []);
}

/// Promise of `Effects::read_effects`.
pub async fn new_files_and_directories(stand: Stand) {
    let script = "echo x > f; : > empty; mkdir -p a/b/c; echo y > a/b/g; mkdir only; printf 'run' > a/x; chmod 755 a/x";
    let effects = is_as_plain(&stand, "mkdir old; echo old > old/f", script).await;
    assert_eq!(
        shown(&effects.effects),
        ["a", "a/b", "a/b/c", "a/b/g", "a/x", "empty", "f", "only"]
    );
}

/// Promise of `Effects::read_effects`: the content as it is now.
pub async fn changed_files(stand: Stand) {
    let fill = "mkdir a; for i in 1 2 3 4 5; do echo old$i > a/f$i; done; chmod 640 a/f1";
    let script = "echo new > a/f1; echo more >> a/f2; : > a/f3; sed -i s/old/young/ a/f4; echo keep > t; mv t a/f5";
    let effects = is_as_plain(&stand, fill, script).await;
    assert_eq!(shown(&effects.effects), ["a/f1", "a/f2", "a/f3", "a/f4", "a/f5"]);
}

/// Promise of `Effects::read_effects`: where a directory was removed, all that was in it is named.
pub async fn removed_files_and_trees(stand: Stand) {
    let fill = "mkdir -p a/b/c keep; echo x > a/b/f; echo y > a/b/c/g; ln -s f a/l; echo z > h; echo k > keep/k";
    let effects = is_as_plain(&stand, fill, "rm h; rm -rf a").await;
    assert_eq!(
        shown(&effects.effects),
        ["a", "a/b", "a/b/c", "a/b/c/g", "a/b/f", "a/l", "h"]
    );
}

/// A rename is what goes and what comes.
pub async fn renamed_files_and_trees(stand: Stand) {
    let fill = "mkdir -p a/b; echo x > a/b/f; echo y > g; echo z > h";
    is_as_plain(&stand, fill, "mv g a/g2; mv a c; mv h h2; mv h2 c/b/h3").await;
}

/// Promise of `PlacedEntry::MemoryFile` and `PlacedEntry::DirectoryHandle`: the permission bits.
pub async fn changed_modes(stand: Stand) {
    let fill = "mkdir -p a/b; echo x > a/f; echo y > g";
    let effects = is_as_plain(&stand, fill, "chmod 755 a/f; chmod 600 g; chmod 700 a").await;
    assert_eq!(shown(&effects.effects), ["a", "a/f", "g"]);
}

/// Promise of `PlacedEntry::Symlink`: where it points, as written.
pub async fn links(stand: Stand) {
    let fill = "echo x > f; ln -s f old; ln -s f gone";
    let script = "ln -s f new; ln -s ../../etc/passwd away; ln -s nowhere dangling; rm gone; ln -sfn other old; mkdir d; ln -s ../f d/up";
    is_as_plain(&stand, fill, script).await;
}

/// Promise of `Effects::read_effects`: where a directory was replaced, all that was in it is named.
pub async fn one_kind_in_place_of_another(stand: Stand) {
    let fill = "mkdir -p d1/e d2; echo x > d1/e/f; echo y > d2/g; echo z > f1; echo w > f2; ln -s f1 l1; ln -s f1 l2";
    let script = "rm -r d1; echo file > d1; rm -r d2; ln -s f1 d2; rm f1; mkdir f1; echo in > f1/in; rm f2; ln -s x f2; rm l1; mkdir l1; rm l2; echo l > l2";
    is_as_plain(&stand, fill, script).await;
}

/// A directory that was removed and made again holds only what came after.
pub async fn directories_made_anew(stand: Stand) {
    let fill = "mkdir -p a/b; echo x > a/b/f; echo y > a/g; mkdir c; echo z > c/h";
    is_as_plain(
        &stand,
        fill,
        "rm -r a; mkdir a; echo new > a/n; mkdir a/b; rm -r c; mkdir c",
    )
    .await;
}

/// Names are bytes: spaces, ends of lines, dots, what looks like an option or a pattern.
pub async fn odd_names(stand: Stand) {
    let fill = "echo x > 'a b'; mkdir '...'; echo y > '.../[slug]'";
    let script = "echo n > \"$(printf 'new\\nline')\"; echo o > ./-rf; echo p > '*'; mkdir 'd d'; echo q > 'd d/é ü'; rm 'a b'; echo r > '.../[slug]'; : > .hidden; : > 'back\\slash'";
    is_as_plain(&stand, fill, script).await;
}

/// Names that are not UTF-8 are carried.
pub async fn names_that_are_no_text(stand: Stand) {
    let fill = "echo x > \"$(printf 'old\\377')\"";
    let script = "echo y > \"$(printf 'new\\376')\"; mkdir \"$(printf 'd\\200')\"; echo z > \"$(printf 'd\\200/f\\201')\"; rm \"$(printf 'old\\377')\"";
    is_as_plain(&stand, fill, script).await;
}

/// Hard links that one command made are files of the same content.
pub async fn hard_links_of_one_command(stand: Stand) {
    is_as_plain(
        &stand,
        "echo old > old",
        "echo x > one; ln one two; ln old three; echo more >> two",
    )
    .await;
}

/// What a version control keeps is files like any other.
pub async fn a_repository(stand: Stand) {
    let fill = "mkdir -p .git/objects/ab .git/refs/heads; echo ref > .git/HEAD; echo o > .git/objects/ab/cd; chmod 444 .git/objects/ab/cd";
    let script = "mkdir .git/objects/ef; echo p > .git/objects/ef/01; chmod 444 .git/objects/ef/01; echo h > .git/refs/heads/main; rm -f .git/objects/ab/cd; echo ref2 > .git/HEAD.lock; mv .git/HEAD.lock .git/HEAD";
    is_as_plain(&stand, fill, script).await;
}

/// Content of any size, with holes or without.
pub async fn large_files_and_holes(stand: Stand) {
    let script = "truncate -s 9M hole; echo end >> hole; yes line | head -c 3000000 > lines; cat lines lines > twice";
    is_as_plain(&stand, "echo x > small", script).await;
}

/// Promise of `Effects::dropped`.
pub async fn what_no_workspace_takes_is_named(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    sh(
        &layer,
        "mkfifo pipe; echo x > set; chmod 4755 set; mkdir d; mkfifo d/pipe; echo y > plain",
    )
    .await
    .text();
    let effects = lifted(&layer).await;
    let mut dropped: Vec<_> = effects
        .dropped
        .iter()
        .map(|dropped| (dropped.path.display_path(), dropped.what))
        .collect();
    dropped.sort();
    let expected = [("d/pipe", "fifo"), ("pipe", "fifo"), ("set", "set-user-id bit")];
    assert_eq!(dropped, expected.map(|(path, what)| (path.to_owned(), what)));
    assert_eq!(shown(&effects.effects), ["d", "plain", "set"]);
    let mut files = tree_of(&stand.bench());
    apply(&mut files, &effects.effects);
    assert_eq!(format!("{:?}", files[&b"set"[..]]), "file 755 \"x\\\\n\"");
}

/// Promise of `Effect::modified`.
pub async fn times_are_told(stand: Stand) {
    stand.put("old", "x");
    let (_room, layer) = stand.lay().await;
    sh(
        &layer,
        "echo x > new; touch -d @1000000000 new; echo y > old; touch -d @1100000000 old",
    )
    .await
    .text();
    let effects = lifted(&layer).await;
    let times: Vec<_> = effects.effects.iter().map(|effect| effect.modified).collect();
    let second = |seconds| Some(Timestamp::from_second(seconds).expect("a time"));
    assert_eq!(times, [second(1_000_000_000), second(1_100_000_000)]);
}

/// Promise of `Layer::read_effects`: what was done since a mark.
pub async fn what_came_after_a_mark(stand: Stand) {
    stand.put("bench", "x");
    let (_room, layer) = stand.lay().await;
    sh(&layer, "echo one > one; echo two > two; mkdir d; echo f > d/f")
        .await
        .text();
    // What was written a moment ago may be named twice; what was not, never.
    tokio::time::sleep(STILL).await;
    layer.pause().await.expect("it can be paused");
    let first = layer.read_effects(None).await.expect("it is paused");
    assert_eq!(shown(&first.effects), ["d", "d/f", "one", "two"]);
    let again = layer.read_effects(Some(&first.mark)).await.expect("it is paused");
    assert_eq!(shown(&again.effects), Vec::<String>::new());
    layer.resume().await.expect("it can go on");
    sh(
        &layer,
        "echo three > three; echo more >> two; rm one; rm -r d; rm bench",
    )
    .await
    .text();
    tokio::time::sleep(STILL).await;
    layer.pause().await.expect("it can be paused");
    let second = layer.read_effects(Some(&first.mark)).await.expect("it is paused");
    assert_eq!(shown(&second.effects), ["bench", "d", "d/f", "one", "three", "two"]);
    layer.resume().await.expect("it can go on");
    let all = lifted(&layer).await;
    let mut files = tree_of(&stand.bench());
    apply(&mut files, &all.effects);
    assert_eq!(
        files.keys().cloned().collect::<Vec<_>>(),
        [b"three".to_vec(), b"two".to_vec()]
    );
    let none = layer.read_effects(Some(&second.mark)).await.expect("it is lifted");
    assert_eq!(shown(&none.effects), Vec::<String>::new());
}

/// Promise of `Layer::read_effects`: the content can be read until it is removed.
pub async fn content_can_be_read_until_it_is_removed(stand: Stand) {
    let (_room, layer) = stand.lay().await;
    sh(&layer, "echo content > file").await.text();
    let effects = lifted(&layer).await;
    for _ in 0..2 {
        let mut files = tree_of(&stand.bench());
        apply(&mut files, &effects.effects);
        assert_eq!(format!("{:?}", files[&b"file"[..]]), "file 644 \"content\\\\n\"");
    }
}
