#![allow(clippy::disallowed_methods, reason = "the real patch program works on real files")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use garret_core::{Storage, WsPath};
use proptest::prelude::*;

use super::*;
use crate::history::testing::{TestEntry, TestFiles, changes, file, files, storage};
use crate::{PatchOptions, Workspace};

async fn rendered_with(before: &TestFiles, after: &TestFiles, options: RenderOptions) -> RenderedDiff {
    let (old, new) = (storage(before).await, storage(after).await);
    let sides = DiffSides {
        before: old.as_ref(),
        after: new.as_ref(),
        shown: &EntryPath::clone,
    };
    render_diff(&changes(before, after), &sides, options).await.unwrap()
}

async fn rendered(before: &TestFiles, after: &TestFiles) -> RenderedDiff {
    rendered_with(before, after, RenderOptions::default()).await
}

/// Applies the diff to `before` with our own patch engine.
async fn patched(before: &TestFiles, diff: &str) -> TestFiles {
    let storage = storage(before).await;
    let workspace = Workspace::builder(storage.clone()).open().unwrap();
    workspace
        .apply_patch(diff, PatchOptions::default())
        .await
        .unwrap_or_else(|error| panic!("{error:?}\n{diff}"));
    let mut found = TestFiles::new();
    let options = garret_core::ListOptions {
        is_deep: true,
        ..Default::default()
    };
    for entry in storage.list(&WsPath::root(), options).await.unwrap().entries {
        let path = entry.path.as_path().unwrap();
        if entry.kind == EntryKind::File {
            let read = storage.read(path, ReadOptions::default()).await.unwrap();
            found.insert(
                path.to_string(),
                TestEntry::File(read.bytes.to_vec(), read.mode.unwrap()),
            );
        }
    }
    found
}

/// Applies the diff to `before` with GNU patch.
fn gnu_patched(before: &TestFiles, diff: &str) -> TestFiles {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("tree");
    fs::create_dir(&root).unwrap();
    for (name, thing) in before {
        let place = root.join(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        match thing {
            TestEntry::File(content, mode) => {
                fs::write(&place, content).unwrap();
                fs::set_permissions(&place, fs::Permissions::from_mode(*mode)).unwrap();
            }
            TestEntry::Link(target) => std::os::unix::fs::symlink(target, &place).unwrap(),
            TestEntry::Directory => fs::create_dir_all(&place).unwrap(),
        }
    }
    let patch = directory.path().join("change.diff");
    fs::write(&patch, diff).unwrap();
    let output = Command::new("patch")
        .current_dir(&root)
        .args([
            "-p1",
            "--binary",
            "--batch",
            "--forward",
            "--fuzz=0",
            "--no-backup-if-mismatch",
            "-i",
        ])
        .arg(&patch)
        .output()
        .expect("patch is installed");
    assert!(
        output.status.success(),
        "{}\n{diff}",
        String::from_utf8_lossy(&output.stdout)
    );
    let mut found = TestFiles::new();
    gather(&root, &root, &mut found);
    found
}

fn gather(root: &Path, directory: &Path, found: &mut TestFiles) {
    for entry in fs::read_dir(directory).unwrap() {
        let place = entry.unwrap().path();
        let name = place.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let data = place.symlink_metadata().unwrap();
        if data.is_dir() {
            gather(root, &place, found);
        } else if data.is_symlink() {
            found.insert(
                name,
                TestEntry::Link(fs::read_link(&place).unwrap().to_str().unwrap().to_owned()),
            );
        } else {
            let mode = data.permissions().mode() & 0o7777;
            found.insert(name, TestEntry::File(fs::read(&place).unwrap(), mode));
        }
    }
}

fn line() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "a\n",
        "b\n",
        "c\n",
        "\n",
        "-- x\n",
        "++ y\n",
        "@@ -1 +1 @@\n",
        "d\r\n",
        "e\rf\n",
        "é\n",
    ])
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    (prop::collection::vec(line(), 0..14), any::<bool>()).prop_map(|(lines, ends)| {
        let text = lines.concat();
        match ends {
            true => text.into_bytes(),
            false => text.strip_suffix('\n').unwrap_or(&text).as_bytes().to_vec(),
        }
    })
}

fn tree() -> impl Strategy<Value = TestFiles> {
    let names = prop::sample::select(vec![
        "a",
        "b c",
        "dir/e",
        "dir/sub/ü",
        "q\"uote",
        "back\\slash",
        "tab\there",
        "z",
    ]);
    let thing = (content(), prop::sample::select(vec![0o644_u32, 0o755]))
        .prop_map(|(content, mode)| TestEntry::File(content, mode));
    prop::collection::btree_map(names.prop_map(str::to_owned), thing, 0..7)
}

/// Generates a tree, and the tree after some edits.
fn pair() -> impl Strategy<Value = (TestFiles, TestFiles)> {
    let edited = (tree(), tree(), any::<u8>()).prop_map(|(before, other, keep)| {
        let kept = before.iter().enumerate().filter(|(index, _)| keep & (1 << index) != 0);
        let mut after: TestFiles = kept.map(|(_, (name, thing))| (name.clone(), thing.clone())).collect();
        after.extend(other);
        (before, after)
    });
    edited.prop_filter("something must differ", |(before, after)| before != after)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_diff_applied_by_either_engine_gives_the_later_tree((before, after) in pair()) {
        let runtime = runtime();
        let diff = runtime.block_on(rendered(&before, &after)).text;
        prop_assert_eq!(&runtime.block_on(patched(&before, &diff)), &after, "{}", diff);
        prop_assert_eq!(&gnu_patched(&before, &diff), &after, "{}", diff);
    }

    #[test]
    fn the_counts_are_those_of_the_text((before, after) in pair()) {
        let diff = runtime().block_on(rendered(&before, &after));
        let patch = crate::text::patch::parse_patch(diff.text.as_bytes()).expect("we made it");
        let lines = patch.files.iter().flat_map(|file| &file.hunks).flat_map(|hunk| &hunk.lines);
        let count = |kind| lines.clone().filter(|line| line.kind == kind).count();
        prop_assert_eq!(diff.paths.iter().map(|path| path.insertions).sum::<usize>(), count(crate::text::patch::LineKind::Add));
        prop_assert_eq!(diff.paths.iter().map(|path| path.deletions).sum::<usize>(), count(crate::text::patch::LineKind::Remove));
    }
}

#[tokio::test]
async fn a_diff_looks_as_git_prints_it() {
    let before = files([
        ("gone", file("bye\n")),
        ("kept", file("1\n2\n3\n")),
        ("old name", file("the same\n")),
        ("script", file("#!/bin/sh\n")),
    ]);
    let after = files([
        ("come", file("hi")),
        ("empty", TestEntry::Directory),
        ("kept", file("1\ntwo\n3\n")),
        ("new name", file("the same\n")),
        ("script", TestEntry::File(b"#!/bin/sh\n".to_vec(), 0o755)),
    ]);
    insta::assert_snapshot!(rendered(&before, &after).await.text, @r#"
    new directory empty
    diff --git a/come b/come
    new file mode 100644
    index 000000000000..08ba5f07b55e
    --- /dev/null
    +++ b/come
    @@ -0,0 +1 @@
    +hi
    \ No newline at end of file
    diff --git a/gone b/gone
    deleted file mode 100644
    index 6862d09c1e63..000000000000
    --- a/gone
    +++ /dev/null
    @@ -1 +0,0 @@
    -bye
    diff --git a/kept b/kept
    index fb3efa191b39..98b386fcfcd7 100644
    --- a/kept
    +++ b/kept
    @@ -1,3 +1,3 @@
     1
    -2
    +two
     3
    diff --git "a/old name" "b/new name"
    similarity index 100%
    rename from "old name"
    rename to "new name"
    diff --git a/script b/script
    old mode 100644
    new mode 100755
    "#);
}

#[tokio::test]
async fn links_are_shown_by_their_targets_and_patch_makes_them() {
    let before = files([
        ("a", file("x\n")),
        ("link", TestEntry::Link("a".into())),
        ("other", TestEntry::Link("a".into())),
    ]);
    let after = files([
        ("a", file("x\n")),
        ("link", TestEntry::Link("b".into())),
        ("third", TestEntry::Link("c d".into())),
    ]);
    let diff = rendered(&before, &after).await.text;
    assert!(diff.contains("new file mode 120000"), "{diff}");
    assert_eq!(gnu_patched(&before, &diff), after);
}

#[tokio::test]
async fn what_cannot_be_shown_is_summarised() {
    let before = files([("image", TestEntry::File(vec![0, 1, 2], 0o644)), ("latin", file("x\n"))]);
    let after = files([
        ("image", TestEntry::File(vec![0, 1, 2, 3], 0o644)),
        ("large", file("too large\n")),
        ("latin", TestEntry::File(b"\xe9\n".to_vec(), 0o644)),
    ]);
    let options = RenderOptions {
        max_file_bytes: 5,
        ..RenderOptions::default()
    };
    let diff = rendered_with(&before, &after, options).await;
    insta::assert_snapshot!(diff.text, @"
    diff --git a/image b/image
    index d949aa186c0c..4475327f98e0 100644
    Binary files a/image and b/image differ (3 → 4 bytes)
    diff --git a/large b/large
    new file mode 100644
    index 000000000000..5d29dbe26958
    Binary files /dev/null and b/large differ (0 → 10 bytes): too large to compare
    diff --git a/latin b/latin
    index 08f0de07b58d..0a6a1c07b6cd 100644
    Binary files a/latin and b/latin differ (2 → 2 bytes)
    ");
    let flags: Vec<_> = diff.paths.iter().map(|path| (path.binary, path.too_large)).collect();
    assert_eq!(flags, [(true, false), (false, true), (true, false)]);
}

#[tokio::test]
async fn a_type_that_changes_is_one_path_that_goes_and_comes() {
    let before = files([("a", file("x\n")), ("b", TestEntry::Directory)]);
    let after = files([("a", TestEntry::Link("b".into())), ("b", file("y\n"))]);
    let diff = rendered(&before, &after).await;
    let seen: Vec<_> = diff
        .paths
        .iter()
        .map(|path| (path.path.as_str(), path.status))
        .collect();
    assert_eq!(seen, [("a", DiffStatus::TypeChanged), ("b", DiffStatus::TypeChanged)]);
    assert_eq!((diff.paths[0].insertions, diff.paths[0].deletions), (1, 1));
}

#[tokio::test]
async fn a_long_text_ends_after_a_file_and_every_path_is_still_named() {
    let after = files([("a", file("1\n")), ("b", file("2\n")), ("c", file("3\n"))]);
    let options = RenderOptions {
        max_text_bytes: 120,
        ..RenderOptions::default()
    };
    let diff = rendered_with(&TestFiles::new(), &after, options).await;
    assert!(
        diff.text.contains("+++ b/b") && !diff.text.contains("+++ b/c"),
        "{}",
        diff.text
    );
    assert_eq!((diff.paths.len(), diff.left_out), (3, 1));
}
