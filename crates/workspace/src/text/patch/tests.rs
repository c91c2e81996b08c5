//! Each promise of the patch reader and patcher, and the text that a model reads when one cannot be kept.

use super::*;
use garret_core::ErrorKind;

/// Applies a patch of one file.
fn apply(original: &str, diff: &str) -> String {
    let patch = parse_patch(diff.as_bytes()).expect("the patch can be read");
    assert_eq!(patch.files.len(), 1);
    let applied = apply_file(Some(original.as_bytes()), &patch.files[0]).expect("the patch fits the file");
    let content = applied.content.expect("the file stays");
    String::from_utf8(content).expect("the file is text")
}

fn refuse(original: Option<&str>, diff: &str) -> PatchError {
    match parse_patch(diff.as_bytes()) {
        Err(error) => error,
        Ok(patch) => apply_file(original.map(str::as_bytes), &patch.files[0]).expect_err("the patch does not fit"),
    }
}

/// Returns the text that a model reads: the message, then the hint.
fn said(original: &str, diff: &str) -> String {
    let error = refuse(Some(original), diff);
    format!("{error}\n=> {}", error.hint())
}

/// A patch of `f` with the given hunks.
fn of_file(hunks: &str) -> String {
    format!("--- a/f\n+++ b/f\n{hunks}")
}

const NUMBERS: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

#[test]
fn a_hunk_with_omitted_counts_and_section_text_applies() {
    assert_eq!(apply("a\n", &of_file("@@ -1 +1 @@ fn main() {\n-a\n+b\n")), "b\n");
}

#[test]
fn several_hunks_apply_each_at_its_place() {
    let hunks = "@@ -1,2 +1,3 @@\n 1\n+1.5\n 2\n@@ -8,2 +9,1 @@\n-8\n 9\n";
    assert_eq!(apply(NUMBERS, &of_file(hunks)), "1\n1.5\n2\n3\n4\n5\n6\n7\n9\n");
}

#[test]
fn prose_and_code_fences_around_a_patch_are_passed_over() {
    let diff = "Here is the change:\n\n```diff\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n```\n\n- it replaces b\n+ nothing else\n";
    assert_eq!(apply("a\nb\n", diff), "a\nc\n");
}

#[test]
fn wrong_counts_are_recovered_from_the_body() {
    for numbers in ["-1,9 +1,9", "-1,1 +1,1", "-1,2 +1,7", "-1,0 +1,0", "-1,3 +1,2"] {
        let hunks = format!("@@ {numbers} @@\n 1\n-2\n+two\n 3\n@@ -5,3 +5,3 @@\n 5\n-6\n+six\n 7\n");
        assert_eq!(
            apply(NUMBERS, &of_file(&hunks)),
            "1\ntwo\n3\n4\n5\nsix\n7\n8\n9\n",
            "{numbers}"
        );
    }
}

#[test]
fn wrong_counts_do_not_swallow_the_next_file() {
    let diff = "--- a/f\n+++ b/f\n@@ -1,9 +1,9 @@\n-a\n+b\n\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-c\n+d\n-- \n2.39.0\n";
    let patch = parse_patch(diff.as_bytes()).expect("the patch can be read");
    let sizes: Vec<_> = patch
        .files
        .iter()
        .map(|file| (file.path(), file.hunks[0].lines.len()))
        .collect();
    assert_eq!(sizes, [("f", 2), ("g", 2)]);
}

#[test]
fn removed_lines_that_look_like_headers_are_lines() {
    let hunks = "@@ -1,3 +1,3 @@\n-- old\n-@@ x @@\n--- x\n+++ y\n+@@ y @@\n+d\n";
    assert_eq!(apply("- old\n@@ x @@\n-- x\n", &of_file(hunks)), "++ y\n@@ y @@\nd\n");
}

#[test]
fn a_bare_hunk_header_is_found_by_its_content() {
    for header in ["@@", "@@ @@", "@@ fn main() @@", "@@ ... @@"] {
        let hunks = format!("{header}\n 4\n-5\n+five\n 6\n");
        assert_eq!(apply(NUMBERS, &of_file(&hunks)), "1\n2\n3\n4\nfive\n6\n7\n8\n9\n");
    }
    insta::assert_snapshot!(said("a\nb\na\nb\n", &of_file("@@\n a\n-b\n+c\n")), @r#"
    f: hunk 1 (line 3 of the patch) fits 2 places equally well, at lines 1 and 3
    => Give the line number after @@, or add context lines until the place is unique.
    "#);
    insta::assert_snapshot!(said("a\n", &of_file("@@\n+c\n")), @r#"
    f: hunk 1 (line 3 of the patch) adds lines and does not say where
    => Add context lines, or give the line number: @@ -LINE,0 +LINE,COUNT @@.
    "#);
}

#[test]
fn blank_context_lines_without_their_space_are_context() {
    assert_eq!(
        apply("a\n\nb\n\n", &of_file("@@ -1,4 +1,4 @@\n a\n\n-b\n+c\n\n")),
        "a\n\nc\n\n"
    );
    // The header counts a blank line that belongs to the prose below.
    assert_eq!(
        apply("a\nb\n", &of_file("@@ -1,3 +1,3 @@\n a\n-b\n+c\n\nDone.\n")),
        "a\nc\n"
    );
}

#[test]
fn a_moved_hunk_is_found_nearest_to_its_line() {
    let hunks = "@@ -1,2 +1,2 @@\n x\n-y\n+z\n";
    assert_eq!(apply("0\n0\nx\ny\n0\nx\ny\n", &of_file(hunks)), "0\n0\nx\nz\n0\nx\ny\n");
    let patch = parse_patch(of_file(hunks).as_bytes()).expect("the patch can be read");
    let applied = apply_file(Some(b"0\n0\nx\ny\n"), &patch.files[0]).expect("it fits");
    assert_eq!((applied.added, applied.removed), (1, 1));
}

#[test]
fn a_hunk_after_a_moved_one_is_expected_as_far_on() {
    let hunks = "@@ -1 +1 @@\n-a\n+A\n@@ -3,2 +3,2 @@\n x\n-y\n+Y\n";
    assert_eq!(
        apply("0\n0\na\n0\nx\ny\n0\n0\nx\ny\n", &of_file(hunks)),
        "0\n0\nA\n0\nx\nY\n0\n0\nx\ny\n"
    );
}

#[test]
fn two_places_equally_near_are_not_guessed_between() {
    let hunks = "@@ -3,2 +3,2 @@\n-x\n+X\n y\n";
    insta::assert_snapshot!(said("x\ny\n0\n0\nx\ny\n", &of_file(hunks)), @r#"
    f: hunk 1 (line 3 of the patch) fits 2 places equally well, at lines 1 and 5
    => Correct the line number after @@, or add context lines until the place is unique.
    "#);
}

#[test]
fn wrong_context_names_the_file_the_hunk_and_the_lines() {
    insta::assert_snapshot!(said(NUMBERS, &of_file("@@ -1,2 +1,2 @@\n-1\n+one\n 2\n@@ -4,3 +4,3 @@\n 4\n-five\n+V\n 6\n")), @r#"
    f: hunk 2 does not apply: line 9 of the patch is not line 5 of the file
      the patch: "five"
      the file:  "5"
    The file around it:
         2	2
         3	3
         4	4
         5	5
         6	6
         7	7
         8	8
    => Read the file again and make the hunk from its current lines.
    "#);
    insta::assert_snapshot!(said("fn a() {\n\tb();\n}\n", &of_file("@@ -1,3 +1,3 @@\n fn a() {\n-    b();\n+    c();\n }\n")), @r#"
    f: hunk 1 does not apply: line 5 of the patch is not line 2 of the file
      the patch: "    b();"
      the file:  "\tb();"
    Nearest in the file:
    lines 1-3, which differ in whitespace (indentation: the file has 1 tab, the text asked for has 4 spaces):
         1	fn a() {
         2		b();
         3	}
      first difference at line 2, column 1:
        asked for: "    b();"
        the file:  "\tb();"
    => Read the file again and make the hunk from its current lines.
    "#);
}

#[test]
fn a_patch_applied_before_is_recognised() {
    insta::assert_snapshot!(refuse(Some("1\ntwo\n3\n"), &of_file("@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n")).hint(), @"The file already has the result of this hunk at line 1: the patch may have been applied before.");
}

#[test]
fn overlapping_and_disordered_hunks_are_refused() {
    insta::assert_snapshot!(said(NUMBERS, &of_file("@@ -1,4 +1,4 @@\n 1\n-2\n+two\n 3\n 4\n@@ -4,3 +4,3 @@\n 4\n-5\n+five\n 6\n")), @r#"
    f: hunk 2 (line 9 of the patch) belongs at line 4, which is before the end of the hunk before it
    => Put the hunks in the order of the file, and join hunks that overlap.
    "#);
    let error = refuse(
        Some(NUMBERS),
        &of_file("@@ -7 +7 @@\n-7\n+seven\n@@ -2 +2 @@\n-2\n+two\n"),
    );
    assert!(
        matches!(
            error.problem,
            PatchProblem::Misplaced {
                hunk: 2,
                problem: PlaceProblem::OutOfOrder { line: 2 },
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_patch_with_plain_newlines_keeps_the_crlf_of_the_file() {
    let hunks = "@@ -1,3 +1,4 @@\n a\n-b\n+x\n+y\n c\n";
    assert_eq!(apply("a\r\nb\r\nc\r\n", &of_file(hunks)), "a\r\nx\r\ny\r\nc\r\n");
    assert_eq!(apply("a\r\nb\nc\r\n", &of_file(hunks)), "a\r\nx\ny\nc\r\n");
    assert_eq!(
        apply("a\r\nb\r\n", &of_file("@@ -1,0 +2,1 @@\n+x\n")),
        "a\r\nx\r\nb\r\n"
    );
}

#[test]
fn a_patch_that_travelled_with_crlf_keeps_the_plain_newlines_of_the_file() {
    let diff = of_file("@@ -1,3 +1,3 @@\n a\n\n-b\n+x\n").replace('\n', "\r\n");
    assert_eq!(apply("a\n\nb\n", &diff), "a\n\nx\n");
    assert_eq!(apply("a\r\n\r\nb\r\n", &diff), "a\r\n\r\nx\r\n");
}

#[test]
fn a_patch_that_changes_only_line_endings_does() {
    assert_eq!(
        apply("a\r\nb\r\n", &of_file("@@ -1,2 +1,2 @@\n-a\r\n+a\n b\r\n")),
        "a\nb\r\n"
    );
}

#[test]
fn a_final_newline_comes_and_goes_as_marked() {
    let marker = "\\ No newline at end of file\n";
    assert_eq!(
        apply("a\nb", &of_file(&format!("@@ -1,2 +1,2 @@\n a\n-b\n{marker}+b\n"))),
        "a\nb\n"
    );
    assert_eq!(
        apply("a\nb\n", &of_file(&format!("@@ -1,2 +1,2 @@\n a\n-b\n+b\n{marker}"))),
        "a\nb"
    );
    insta::assert_snapshot!(said("a\nb\n", &of_file(&format!("@@ -1,2 +1,2 @@\n-a\n+x\n b\n{marker}"))), @r#"
    f: hunk 1 does not apply: line 6 of the patch is not line 2 of the file
      the patch: "b"
      the file:  the same, and a newline, which the patch says is missing
    => Read the file again and make the hunk from its current lines.
    "#);
}

#[test]
fn a_missing_final_newline_survives_a_patch_that_does_not_mark_it() {
    assert_eq!(apply("a\nb", &of_file("@@ -1,2 +1,2 @@\n a\n-b\n+c\n")), "a\nc");
    assert_eq!(apply("a\nb", &of_file("@@ -1,2 +1,3 @@\n a\n b\n+c\n")), "a\nb\nc");
    assert_eq!(
        apply("a\r\nb", &of_file("@@ -1,2 +1,3 @@\n a\n b\n+c\n")),
        "a\r\nb\r\nc"
    );
}

#[test]
fn a_marker_before_other_lines_is_refused() {
    let marker = "\\ No newline at end of file\n";
    let error = refuse(Some("a\nb\n"), &of_file(&format!("@@ -1 +1 @@\n-a\n+x\n{marker}")));
    assert!(
        matches!(error.problem, PatchProblem::Malformed { patch_line: 6, .. }),
        "{error}"
    );
}

#[test]
fn bytes_that_are_not_utf8_stay_as_they_are() {
    let diff = b"--- f\n+++ f\n@@ -1,2 +1,2 @@\n \xFF\xFE\n-b\xC3\n+\xC3\xA9\n";
    let patch = parse_patch(diff).expect("the patch can be read");
    let applied = apply_file(Some(b"\xFF\xFE\nb\xC3\n"), &patch.files[0]).expect("it fits");
    assert_eq!(applied.content.as_deref(), Some(&b"\xFF\xFE\n\xC3\xA9\n"[..]));
}

#[test]
fn a_file_is_created_only_where_there_is_none() {
    let diff = "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n";
    let patch = parse_patch(diff.as_bytes()).expect("the patch can be read");
    let file = &patch.files[0];
    assert_eq!(
        (file.action, file.old_path.as_deref(), file.new_path.as_deref()),
        (PatchAction::Create, None, Some("new.txt"))
    );
    assert_eq!(
        apply_file(None, file).expect("there is no file").content.as_deref(),
        Some(&b"a\nb"[..])
    );
    insta::assert_snapshot!(said("", diff), @r#"
    new.txt: the patch creates the file, but it exists already
    => Read the file and send a diff against its content, or delete it first.
    "#);
    assert_eq!(refuse(Some(""), diff).kind(), ErrorKind::AlreadyExists);
    insta::assert_snapshot!(refuse(None, &diff.replace("+a", " a")), @"new.txt: line 4 of the patch: the patch creates the file, but this is not an added line");
}

#[test]
fn a_patch_from_nothing_makes_a_missing_file_and_fills_an_empty_one() {
    let diff = of_file("@@ -0,0 +1 @@\n+a\n");
    let patch = parse_patch(diff.as_bytes()).expect("the patch can be read");
    assert_eq!(
        apply_file(None, &patch.files[0])
            .expect("it makes the file")
            .content
            .as_deref(),
        Some(&b"a\n"[..])
    );
    assert_eq!(apply("", &diff), "a\n");
}

#[test]
fn a_missing_file_is_not_found() {
    insta::assert_snapshot!(refuse(None, &of_file("@@ -1 +1 @@\n-a\n+b\n")), @"f: the file to patch does not exist");
    assert_eq!(
        refuse(None, &of_file("@@ -1 +1 @@\n-a\n+b\n")).kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn a_file_is_deleted_only_when_its_whole_content_is_shown() {
    let diff = "--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n";
    let patch = parse_patch(diff.as_bytes()).expect("the patch can be read");
    assert_eq!(patch.files[0].action, PatchAction::Delete);
    for whole in ["a\nb\n", "a\r\nb\r\n", "a\nb"] {
        assert_eq!(
            apply_file(Some(whole.as_bytes()), &patch.files[0])
                .expect("it is whole")
                .content,
            None
        );
    }
    insta::assert_snapshot!(said("a\nb\nc\n", diff), @r#"
    f: the patch deletes the file and shows 2 line(s) of it, but the file has 3
    => Give the whole content as removed lines (-), or use rm.
    "#);
    insta::assert_snapshot!(said("a\nx\n", diff), @r#"
    f: hunk 1 does not apply: line 5 of the patch is not line 2 of the file
      the patch: "b"
      the file:  "x"
    The file around it:
         1	a
         2	x
    => Read the file again and make the hunk from its current lines.
    "#);
    insta::assert_snapshot!(said("a\nb\n", &diff.replace("-b", " b")), @r#"
    f: line 5 of the patch: the patch deletes the file, but this is not a removed line
    => To delete a file, begin every line with -; to keep some, name the file after +++ instead of /dev/null.
    "#);
    let unseen = "diff --git a/f b/f\ndeleted file mode 100644\nindex 1..0\n";
    assert!(matches!(
        refuse(Some("a\n"), unseen).problem,
        PatchProblem::DeletesMore { shown: 0, lines: 1 }
    ));
}

#[test]
fn renames_copies_and_modes_are_read() {
    let diff = "diff --git a/old.txt b/new.txt\nsimilarity index 90%\nrename from old.txt\nrename to new.txt\nindex 1..2 100644\n--- a/old.txt\n+++ b/new.txt\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\ndiff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n";
    let patch = parse_patch(diff.as_bytes()).expect("the patch can be read");
    let seen: Vec<_> = patch
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
            (Some("old.txt"), Some("new.txt"), PatchAction::Rename, None),
            (Some("x"), Some("y"), PatchAction::Copy, None),
            (Some("run.sh"), Some("run.sh"), PatchAction::Modify, Some(0o755)),
        ]
    );
    let content = |index: usize| apply_file(Some(b"a\n"), &patch.files[index]).expect("it fits").content;
    assert_eq!(
        (content(0).as_deref(), content(1).as_deref(), content(2).as_deref()),
        (Some(&b"b\n"[..]), Some(&b"a\n"[..]), Some(&b"a\n"[..]))
    );
    assert_eq!(
        apply_file(None, &patch.files[0]),
        Err(PatchProblem::Missing.in_file("old.txt"))
    );
}

#[test]
fn prefixes_come_off_only_as_a_pair() {
    let names = |old: &str, new: &str| {
        let diff = format!("--- {old}\n+++ {new}\n@@ -1 +1 @@\n-a\n+b\n");
        let patch = parse_patch(diff.as_bytes()).expect("the patch can be read");
        (
            patch.files[0].path().to_owned(),
            patch.files[0].alternate_path().map(str::to_owned),
        )
    };
    assert_eq!(names("a/f", "b/f"), ("f".to_owned(), None));
    assert_eq!(names("a/f", "a/f"), ("a/f".to_owned(), None));
    assert_eq!(names("f\t2026-01-01", "f\t2026-01-02"), ("f".to_owned(), None));
    assert_eq!(names("f.orig", "f"), ("f".to_owned(), Some("f.orig".to_owned())));
    let unprefixed = "diff --git b/f b/f\n--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n";
    assert_eq!(
        parse_patch(unprefixed.as_bytes()).expect("the patch can be read").files[0].path(),
        "b/f"
    );
    let mnemonic = "diff --git i/f w/f\n--- i/f\n+++ w/f\n@@ -1 +1 @@\n-a\n+b\n";
    assert_eq!(
        parse_patch(mnemonic.as_bytes()).expect("the patch can be read").files[0].path(),
        "f"
    );
}

#[test]
fn two_parts_of_one_file_are_joined_and_contradictions_refused() {
    let twice = format!(
        "{}{}",
        of_file("@@ -1 +1 @@\n-1\n+one\n"),
        of_file("@@ -9 +9 @@\n-9\n+nine\n")
    );
    assert_eq!(apply(NUMBERS, &twice), "one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    let both = format!(
        "{}--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n",
        of_file("@@ -1 +1 @@\n-1\n+one\n")
    );
    assert_eq!(refuse(Some("1\n"), &both), PatchProblem::NamedTwice.in_file("f"));
}

#[test]
fn a_renamed_file_leaves_its_name_free() {
    let diff = "diff --git a/x b/y\nrename from x\nrename to y\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n";
    // The new file follows in a part of its own.
    let diff = diff.replace(
        "--- /dev/null",
        "diff --git a/x b/x\nnew file mode 100644\n--- /dev/null",
    );
    let patch = parse_patch(diff.as_bytes()).expect("the patch can be read");
    let seen: Vec<_> = patch.files.iter().map(|file| (file.path(), file.action)).collect();
    assert_eq!(seen, [("y", PatchAction::Rename), ("x", PatchAction::Create)]);
}

#[test]
fn a_line_that_lost_its_prefix_is_named_not_skipped() {
    insta::assert_snapshot!(said("a\nb\nc\n", &of_file("@@ -1,3 +1,3 @@\n a\nb\n-c\n+d\n")), @r#"
    line 5 of the patch has no prefix: "b"
    => Begin each line of a hunk with a space (unchanged), - (removed) or + (added).
    "#);
}

#[test]
fn what_is_no_patch_is_answered_with_the_shape_of_one() {
    insta::assert_snapshot!(said("a\n", "change a to b"), @r#"
    the patch names no file: there is no "--- " line followed by a "+++ " line
    => Send a unified diff:
    --- a/path/to/file
    +++ b/path/to/file
    @@ -1,3 +1,3 @@
     an unchanged line
    -a removed line
    +an added line
     an unchanged line
    "#);
    insta::assert_snapshot!(refuse(None, ""), @r#"the patch names no file: there is no "--- " line followed by a "+++ " line"#);
    insta::assert_snapshot!(refuse(None, "*** Begin Patch\n*** Update File: f\n@@\n-a\n+b\n*** End Patch\n"), @r#"line 1 of the patch belongs to the "*** Begin Patch" format, and only unified diffs are supported"#);
    insta::assert_snapshot!(refuse(None, "*** a/f\t2026\n--- b/f\t2026\n***************\n*** 1 ****\n! a\n"), @"line 3 of the patch belongs to a context diff, and only unified diffs are supported");
    insta::assert_snapshot!(refuse(None, "diff --cc f\n@@@ -1,1 -1,1 +1,1 @@@\n- a\n"), @"line 1 of the patch belongs to a combined diff of a merge, and only unified diffs are supported");
    insta::assert_snapshot!(refuse(None, "@@ -1 +1 @@\n-a\n+b\n"), @"line 1 of the patch begins a hunk, but no file was named before it");
    insta::assert_snapshot!(refuse(None, "--- a/f\n@@ -1 +1 @@\n-a\n+b\n"), @r#"line 2 of the patch: a "+++ " line must follow the "--- " line"#);
    insta::assert_snapshot!(refuse(None, "--- a/f\n+++ b/f\n"), @"line 1 of the patch names f, but no hunk follows");
    insta::assert_snapshot!(refuse(None, "--- a/f\n+++ b/f\n@@ -1 +1 @@\n"), @"line 3 of the patch: the hunk has no lines");
}

#[test]
fn a_patch_that_changes_nothing_is_refused() {
    insta::assert_snapshot!(said("a\n", &of_file("@@ -1 +1 @@\n a\n")), @r#"
    f: nothing would change
    => Leave this file out, or give the lines to remove and add.
    "#);
    assert_eq!(
        refuse(Some("a\n"), &of_file("@@ -1 +1 @@\n-a\n+a\n")),
        PatchProblem::ChangesNothing.in_file("f")
    );
}

#[test]
fn binary_patches_and_links_are_not_supported() {
    let binary = "diff --git a/i.png b/i.png\nindex 1..2 100644\nGIT binary patch\nliteral 3\nKcmZ\n\n";
    insta::assert_snapshot!(said("", binary), @r#"
    i.png: the patch is binary
    => Write the file with write_file and encoding base64.
    "#);
    let differ = "diff --git a/i.png b/i.png\nindex 1..2 100644\nBinary files a/i.png and b/i.png differ\n";
    let link = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n\\ No newline at end of file\n";
    for diff in [binary, differ, link, "Binary files a/i.png and b/i.png differ\n"] {
        assert_eq!(refuse(None, diff).kind(), ErrorKind::Unsupported, "{diff}");
    }
}

#[test]
fn lines_that_only_come_go_where_the_patch_says() {
    assert_eq!(apply("a\nb\n", &of_file("@@ -1,0 +2 @@\n+x\n")), "a\nx\nb\n");
    assert_eq!(apply("a\nb\n", &of_file("@@ -0,0 +1 @@\n+x\n")), "x\na\nb\n");
    insta::assert_snapshot!(refuse(Some("a\n"), &of_file("@@ -7,0 +8 @@\n+x\n")), @"f: hunk 1 (line 3 of the patch) adds lines after line 7, and the file has 1");
}

#[test]
fn hostile_repetition_is_searched_in_linear_time() {
    // A hunk of many equal lines, none of whose places fits: trying each place line by line would not return.
    let file = "\n".repeat(1_000_000);
    let hunk = format!("@@ -500000 +1 @@\n{}-x\n", " \n".repeat(100_000));
    let error = refuse(Some(&file), &of_file(&hunk));
    assert!(matches!(error.problem, PatchProblem::Mismatch(_)));
}

#[test]
fn a_name_that_is_only_a_prefix_is_no_name() {
    let error = parse_patch(b"--- a/\n+++ b/\n@@ -1 +1 @@\n-a\n+b\n").unwrap_err();
    assert!(error.to_string().contains("the file has no name"), "{error}");
}
