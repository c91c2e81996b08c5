//! `apply_patch` held against GNU `diff` and GNU `patch`: the same patch gives the same bytes.
#![allow(
    clippy::disallowed_methods,
    reason = "the real diff and patch programs work on real files"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use garret_workspace::text::patch::{self, LineKind, PatchAction, PatchProblem, PlaceProblem};
use proptest::prelude::*;

/// Runs GNU diff and returns the patch that leads from `old` to `new`.
fn diff(dir: &Path, old: &[u8], new: &[u8], arguments: &[&str]) -> Vec<u8> {
    fs::write(dir.join("old.txt"), old).expect("the scratch directory is writable");
    fs::write(dir.join("new.txt"), new).expect("the scratch directory is writable");
    let mut command = Command::new("diff");
    command.current_dir(dir).args(arguments);
    let labels = ["--label", "a/file.txt", "--label", "b/file.txt", "old.txt", "new.txt"];
    command.args(labels).output().expect("diff is installed").stdout
}

/// Runs GNU patch without fuzz; returns the new bytes when it applied every hunk.
fn gnu_patch(dir: &Path, content: &[u8], diff: &[u8]) -> Option<Vec<u8>> {
    fs::write(dir.join("file.txt"), content).expect("the scratch directory is writable");
    fs::write(dir.join("change.diff"), diff).expect("the scratch directory is writable");
    let Output { status, .. } = Command::new("patch")
        .current_dir(dir)
        .args(["--binary", "--batch", "--forward", "--fuzz=0", "--silent", "--posix"])
        .args(["--no-backup-if-mismatch", "--reject-file=-", "-o", "patched.txt"])
        .args(["-i", "change.diff", "file.txt"])
        .output()
        .expect("patch is installed");
    let patched = fs::read(dir.join("patched.txt")).ok();
    patched.filter(|_| status.success())
}

fn garret_patch(content: &[u8], diff: &[u8]) -> Result<Vec<u8>, patch::PatchError> {
    let parsed = patch::parse_patch(diff)?;
    assert_eq!(parsed.files.len(), 1, "diff made the patch of one file");
    assert_eq!(parsed.files[0].path(), "file.txt");
    let applied = patch::apply_file(Some(content), &parsed.files[0])?;
    Ok(applied.content.expect("the file is not deleted"))
}

/// Lines over a small alphabet, so that they repeat, look like headers, and tempt the parser.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let choices: &[&[u8]] = &[
        b"",
        b"a",
        b"b",
        b"c",
        b"d",
        b" e",
        b"\tf",
        b"-- x",
        b"++ y",
        b"@@ -1 +1 @@",
        b"\\ z",
        b"- ",
        b"```",
        b"\xFF\xFE",
        b"diff --git a/x b/x",
        b"g\r\rh",
        b" ",
    ];
    prop::sample::select(choices.to_vec()).prop_map(<[u8]>::to_vec)
}

#[derive(Clone, Copy, Debug)]
enum Style {
    Lf,
    CrLf,
    Mixed,
}

fn file() -> impl Strategy<Value = Vec<u8>> {
    let style = prop_oneof![4 => Just(Style::Lf), 2 => Just(Style::CrLf), 1 => Just(Style::Mixed)];
    let lines = prop::collection::vec((line(), any::<bool>()), 0..24);
    (lines, style, any::<bool>()).prop_map(|(lines, style, ends)| join(&lines, style, ends))
}

fn join(lines: &[(Vec<u8>, bool)], style: Style, ends: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, (line, coin)) in lines.iter().enumerate() {
        bytes.extend_from_slice(line);
        let is_crlf = matches!((style, coin), (Style::CrLf, _) | (Style::Mixed, true));
        if index + 1 < lines.len() || ends {
            bytes.extend_from_slice(if is_crlf { b"\r\n" } else { b"\n" });
        }
    }
    bytes
}

/// A file and what a few edits of lines make of it, so that most lines are common.
fn pair() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let edit = (any::<prop::sample::Index>(), line(), 0..3_u8);
    let edited = (file(), prop::collection::vec(edit, 1..5), any::<bool>()).prop_map(|(old, edits, ends)| {
        let new = edits.iter().fold(old.clone(), |bytes, (at, line, kind)| {
            edit_line(&bytes, at.index(1 << 16), line, *kind)
        });
        let new = if ends {
            new
        } else {
            new.strip_suffix(b"\n").unwrap_or(&new).to_vec()
        };
        (old, new)
    });
    prop_oneof![3 => edited, 1 => (file(), file())]
}

/// A file, what one or two changes make of it, and what else became of it meanwhile.
fn drift() -> impl Strategy<Value = (Vec<u8>, Vec<u8>, Vec<u8>)> {
    let plain = || prop::sample::select(vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec(), b"".to_vec()]);
    let file = prop::collection::vec(plain(), 20..50);
    let change = || {
        prop::collection::vec(
            (
                5..15_usize,
                prop::sample::select(vec![b"x".to_vec(), b"y".to_vec()]),
                0..3_u8,
            ),
            1..3,
        )
    };
    let meanwhile = prop::collection::vec((0..40_usize, plain(), 0..3_u8), 0..4);
    let edits = |content: &[u8], edits: &[(usize, Vec<u8>, u8)]| {
        edits.iter().fold(content.to_vec(), |bytes, (at, line, kind)| {
            edit_line(&bytes, *at, line, *kind)
        })
    };
    let all = (file, change(), meanwhile).prop_map(move |(lines, change, meanwhile)| {
        let old = [lines.join(&b'\n'), b"\n".to_vec()].concat();
        (old.clone(), edits(&old, &change), edits(&old, &meanwhile))
    });
    all.prop_filter("the patch must change something", |(old, new, _)| old != new)
}

fn edit_line(bytes: &[u8], at: usize, line: &[u8], kind: u8) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let at = at % (lines.len() + 1);
    let ended = [line, b"\n"].concat();
    match kind {
        0 => lines.insert(at, ended),
        1 if at < lines.len() => lines[at] = ended,
        _ if at < lines.len() => drop(lines.remove(at)),
        _ => {}
    }
    lines.concat()
}

fn settings() -> ProptestConfig {
    ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(settings())]

    #[test]
    fn a_patch_by_gnu_diff_gives_the_new_file_to_the_byte((old, new) in pair(), context in 0..5_usize) {
        prop_assume!(old != new);
        let dir = tempfile::tempdir().expect("a scratch directory can be made");
        let unified = format!("-U{context}");
        let diff = diff(dir.path(), &old, &new, &["-a", &unified]);
        // Without context a patch shows no line ending, and new lines take those of the file.
        let shows_endings = context > 0 || !old.contains(&b'\r');
        let patched = garret_patch(&old, &diff).expect("the patch was made for this file");
        prop_assert!(patched == new || !shows_endings);
    }

    #[test]
    fn on_a_file_that_moved_on_gnu_patch_agrees((old, new, drifted) in drift()) {
        let dir = tempfile::tempdir().expect("a scratch directory can be made");
        let diff = diff(dir.path(), &old, &new, &["-u"]);
        let parsed = patch::parse_patch(&diff).expect("diff made it");
        // GNU patch nails a hunk with less context on one side to that end of the file; Garret goes by nearness alone.
        prop_assume!(parsed.files[0].hunks.iter().all(|hunk| leading(hunk) == trailing(hunk)));
        let before = drifted.clone();
        let ours = garret_patch(&drifted, &diff);
        prop_assert_eq!(&drifted, &before);
        let theirs = gnu_patch(dir.path(), &drifted, &diff);
        match ours.map_err(|error| error.problem) {
            // GNU patch takes the later of two places equally near; Garret takes neither.
            Err(PatchProblem::Misplaced { problem: PlaceProblem::Ambiguous { .. }, .. }) => prop_assert!(theirs.is_some()),
            Err(PatchProblem::Mismatch(_) | PatchProblem::Misplaced { problem: PlaceProblem::OutOfOrder { .. }, .. }) => prop_assert_eq!(theirs, None),
            other => prop_assert_eq!(other.ok(), theirs),
        }
    }

    #[test]
    fn hunks_moved_by_inserted_lines_apply_as_gnu_patch_applies_them(lines in prop::collection::vec(0..1000_u32, 12..30), inserted in 1..40_usize, at in any::<prop::sample::Index>(), crlf in any::<bool>()) {
        // Every line is unique, so that the hunk has one place only.
        let ending = if crlf { "\r\n" } else { "\n" };
        let text = |index: usize, value: u32| format!("line {index} {value}{ending}");
        let old: Vec<String> = lines.iter().enumerate().map(|(index, value)| text(index, *value)).collect();
        let mut new = old.clone();
        let at = 4 + at.index(old.len() - 8);
        new[at] = format!("changed{ending}");
        let dir = tempfile::tempdir().expect("a scratch directory can be made");
        let diff = diff(dir.path(), old.concat().as_bytes(), new.concat().as_bytes(), &["-u"]);
        let top: String = (0..inserted).map(|index| format!("inserted {index}{ending}")).collect();
        let moved = [top.clone(), old.concat()].concat();
        let expected = [top, new.concat()].concat();
        let theirs = gnu_patch(dir.path(), moved.as_bytes(), &diff).expect("GNU patch finds the moved hunk");
        prop_assert_eq!(&theirs, expected.as_bytes());
        prop_assert_eq!(garret_patch(moved.as_bytes(), &diff).expect("Garret finds the moved hunk"), theirs);
    }

    #[test]
    fn a_patch_that_lost_its_carriage_returns_keeps_those_of_the_file(lines in prop::collection::vec("[a-d]{0,2}", 1..20), at in any::<prop::sample::Index>(), ends in any::<bool>()) {
        let join = |lines: &[String], ending: &str| {
            let all: String = lines.iter().map(|line| format!("{line}{ending}")).collect();
            if ends { all } else { all.strip_suffix(ending).unwrap_or(&all).to_owned() }
        };
        let mut new = lines.clone();
        new[at.index(lines.len())] = "changed".to_owned();
        new.insert(at.index(lines.len()), "come".to_owned());
        let dir = tempfile::tempdir().expect("a scratch directory can be made");
        let diff = diff(dir.path(), join(&lines, "\n").as_bytes(), join(&new, "\n").as_bytes(), &["-u"]);
        // A file of one line without an ending shows none to keep.
        prop_assume!(ends || lines.len() > 1);
        let patched = garret_patch(join(&lines, "\r\n").as_bytes(), &diff).expect("only the endings differ");
        prop_assert_eq!(String::from_utf8(patched).expect("it is text"), join(&new, "\r\n"));
    }

    #[test]
    fn no_bytes_make_the_parser_or_the_patcher_panic(noise in prop::collection::vec(line(), 0..30), content in file()) {
        let mut diff = b"--- a/file.txt\n+++ b/file.txt\n@@ -1,3 +1,3 @@\n".to_vec();
        for (index, line) in noise.iter().enumerate() {
            diff.extend_from_slice([&b" "[..], b"+", b"-", b""][index % 4]);
            diff.extend_from_slice(line);
            diff.push(b'\n');
        }
        if let Ok(parsed) = patch::parse_patch(&diff) {
            for file in &parsed.files {
                let lines = file.hunks.iter().flat_map(|hunk| &hunk.lines);
                prop_assert!(file.action != PatchAction::Modify || lines.clone().count() > 0 || file.new_mode.is_some());
                let _ = patch::apply_file(Some(&content), file);
            }
        }
    }
}

fn leading(hunk: &patch::Hunk) -> usize {
    hunk.lines
        .iter()
        .take_while(|line| line.kind == LineKind::Context)
        .count()
}

fn trailing(hunk: &patch::Hunk) -> usize {
    hunk.lines
        .iter()
        .rev()
        .take_while(|line| line.kind == LineKind::Context)
        .count()
}

/// A real tree, compared by `diff -ruN`, with files that come and go.
#[test]
fn a_tree_diff_creates_changes_and_deletes_files() {
    let dir = tempfile::tempdir().expect("a scratch directory can be made");
    for (path, content) in [
        ("a/keep.txt", "1\n2\n3\n"),
        ("a/sub/gone.txt", "bye\n"),
        ("b/keep.txt", "1\n2!\n3\n"),
        ("b/sub/come.txt", "hi"),
    ] {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().expect("it has a parent")).expect("the scratch directory is writable");
        fs::write(path, content).expect("the scratch directory is writable");
    }
    let output = Command::new("diff")
        .current_dir(dir.path())
        .args(["-ruN", "a", "b"])
        .output()
        .expect("diff is installed");
    let parsed = patch::parse_patch(&output.stdout).expect("diff made it");
    let seen: Vec<(&str, PatchAction)> = parsed.files.iter().map(|file| (file.path(), file.action)).collect();
    assert_eq!(
        seen,
        [
            ("keep.txt", PatchAction::Modify),
            ("sub/come.txt", PatchAction::Create),
            ("sub/gone.txt", PatchAction::Delete)
        ]
    );
    let come = patch::apply_file(None, &parsed.files[1]).expect("there is no such file");
    assert_eq!(come.content.as_deref(), Some(&b"hi"[..]));
    let gone = patch::apply_file(Some(b"bye\n"), &parsed.files[2]).expect("the content is whole");
    assert_eq!(gone.content, None);
}

/// What git writes for a rename, a mode, an empty file and a name outside ASCII.
#[test]
fn a_git_diff_is_read_as_git_means_it() {
    let dir = tempfile::tempdir().expect("a scratch directory can be made");
    let git = |arguments: &[&str]| {
        let fixed = [
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.org",
            "-c",
            "core.fileMode=true",
        ];
        let output = Command::new("git")
            .current_dir(dir.path())
            .args(fixed)
            .args(arguments)
            .output();
        output.expect("git is installed").stdout
    };
    let path = |name: &str| dir.path().join(name);
    git(&["init", "-q"]);
    let body: String = (0..30).map(|index| format!("line {index}\n")).collect();
    fs::write(path("old name.txt"), &body).expect("the scratch directory is writable");
    fs::write(path("café.txt"), "x\r\ny\r\n").expect("the scratch directory is writable");
    fs::write(path("gone"), "bye\n").expect("the scratch directory is writable");
    git(&["add", "-A"]);
    git(&["commit", "-qm", "one"]);
    fs::rename(path("old name.txt"), path("new name.txt")).expect("the scratch directory is writable");
    fs::write(path("new name.txt"), body.replace("line 7\n", "line seven\n"))
        .expect("the scratch directory is writable");
    fs::write(path("café.txt"), "x\r\nz\r\n").expect("the scratch directory is writable");
    fs::remove_file(path("gone")).expect("the scratch directory is writable");
    fs::write(path("empty file"), "").expect("the scratch directory is writable");
    git(&["add", "-A"]);
    git(&["update-index", "--chmod=+x", "café.txt"]);
    let parsed = patch::parse_patch(&git(&["diff", "--cached", "-M"])).expect("git made it");
    let seen: Vec<_> = parsed
        .files
        .iter()
        .map(|file| {
            (
                file.old_path.as_deref(),
                file.new_path.as_deref(),
                file.action,
                file.new_mode,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (Some("café.txt"), Some("café.txt"), PatchAction::Modify, Some(0o755)),
            (None, Some("empty file"), PatchAction::Create, Some(0o644)),
            (Some("gone"), None, PatchAction::Delete, None),
            (Some("old name.txt"), Some("new name.txt"), PatchAction::Rename, None),
        ]
    );
    let content = |original: Option<&[u8]>, index: usize| {
        patch::apply_file(original, &parsed.files[index])
            .expect("it applies")
            .content
    };
    assert_eq!(content(Some(b"x\r\ny\r\n"), 0).as_deref(), Some(&b"x\r\nz\r\n"[..]));
    assert_eq!(content(None, 1).as_deref(), Some(&b""[..]));
    assert_eq!(content(Some(b"bye\n"), 2), None);
    assert_eq!(
        content(Some(body.as_bytes()), 3),
        Some(body.replace("line 7\n", "line seven\n").into_bytes())
    );
}
