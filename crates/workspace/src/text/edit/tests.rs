//! Each promise of `apply_edits`, and the text that a model reads when one cannot be kept.

use super::*;
use garret_core::ErrorKind;

fn edit(old_text: &str, new_text: &str) -> Edit {
    Edit {
        old_text: old_text.to_owned(),
        new_text: new_text.to_owned(),
        ..Edit::default()
    }
}

fn everywhere(old_text: &str, new_text: &str) -> Edit {
    Edit {
        replace_all: true,
        ..edit(old_text, new_text)
    }
}

fn expecting(count: usize, edit: Edit) -> Edit {
    Edit {
        expected_replacements: Some(count),
        ..edit
    }
}

fn apply(original: &str, edits: &[Edit]) -> String {
    let edited = apply_edits(original.as_bytes(), edits).expect("the edits fit the file");
    String::from_utf8(edited.content).expect("the file is text")
}

fn fail(original: &str, edits: &[Edit]) -> EditError {
    apply_edits(original.as_bytes(), edits).expect_err("the edits do not fit the file")
}

/// Returns the text that a model reads: the message, then the hint.
fn said(original: &str, edits: &[Edit]) -> String {
    let error = fail(original, edits);
    format!("{error}\n=> {}", error.hint())
}

#[test]
fn unique_text_is_replaced_literally() {
    for special in ["$&", "$1", "\\1", "$$", "${x}", "\\n"] {
        assert_eq!(apply("a b c\n", &[edit("b", special)]), format!("a {special} c\n"));
    }
}

#[test]
fn at_most_so_many_occurrences_are_replaced_from_the_first_on() {
    let limited = |most| Edit {
        max_replacements: Some(most),
        ..edit("a", "b")
    };
    assert_eq!(apply("a a a\n", &[limited(2)]), "b b a\n");
    assert_eq!(apply("a a a\n", &[limited(1)]), "b a a\n");
    assert_eq!(apply("a a a\n", &[limited(9)]), "b b b\n");
    let edited = apply_edits(b"a a a\n", &[limited(2)]).unwrap();
    assert_eq!((edited.replacements, edited.occurrences_left), (2, 1));
    // 0 is no limit, and then the text must be unique as ever.
    assert!(matches!(
        fail("a a a\n", &[limited(0)]).problem,
        EditProblem::NotUnique { found: 3, .. }
    ));
    assert_eq!(
        apply(
            "a\r\na\n",
            &[Edit {
                max_replacements: Some(1),
                ..edit("a\n", "b\n")
            }]
        ),
        "b\r\na\n"
    );
}

#[test]
fn edits_apply_in_order_each_to_the_result_of_the_one_before() {
    assert_eq!(
        apply("one two\n", &[edit("one", "three"), edit("three two", "four")]),
        "four\n"
    );
}

#[test]
fn a_failed_edit_names_its_number_and_leaves_no_other() {
    let error = fail("a\nb\n", &[edit("a", "A"), edit("x", "y"), edit("b", "B")]);
    assert_eq!((error.number, error.of, error.kind()), (2, 3, ErrorKind::Invalid));
    assert!(error.to_string().starts_with("edit 2 of 3: old_text was not found."));
    assert!(error.to_string().ends_with("None of the edits was applied."));
}

#[test]
fn text_that_an_earlier_edit_changed_is_said_to_be() {
    let error = fail("alpha beta\n", &[edit("alpha", "gamma"), edit("alpha beta", "x")]);
    insta::assert_snapshot!(error.hint(), @"An earlier edit of this call changed that text; edits apply in order, each to the result of the one before.");
}

#[test]
fn text_that_occurs_twice_is_refused_with_its_lines() {
    insta::assert_snapshot!(said("x = 1\ny\nx = 1\n", &[edit("x = 1", "x = 2")]), @r"
    old_text occurs 2 times, at lines 1 and 3, and must be unique
    => Add lines around it to old_text until it is unique, or set replace_all to true, or expected_replacements to the count.
    ");
    let many = "x\n".repeat(30);
    assert!(said(&many, &[edit("x", "y")]).contains("30 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 20 more"));
}

#[test]
fn overlapping_occurrences_are_not_unique() {
    let error = fail("aaa\n", &[edit("aa", "b")]);
    assert_eq!(
        error.problem,
        EditProblem::NotUnique {
            found: 2,
            lines: vec![1, 1]
        }
    );
    let error = fail("}\r\n}\n}\r\n", &[edit("}\n}\n", "x\n")]);
    assert_eq!(
        error.problem,
        EditProblem::NotUnique {
            found: 2,
            lines: vec![1, 2]
        }
    );
    assert_eq!(apply("aaa\n", &[everywhere("aa", "b")]), "ba\n");
}

#[test]
fn replace_all_replaces_every_occurrence_and_counts_them() {
    let edited = apply_edits(b"a a\na\n", &[everywhere("a", "bb"), edit("bb bb", "c")]).expect("it fits");
    assert_eq!(edited.content, b"c\nbb\n");
    assert_eq!(edited.replacements, 4);
}

#[test]
fn the_expected_count_is_met_exactly_or_nothing_happens() {
    assert_eq!(apply("a a a\n", &[expecting(3, edit("a", "b"))]), "b b b\n");
    assert_eq!(apply("a\n", &[expecting(0, edit("a", "b"))]), "b\n");
    insta::assert_snapshot!(said("a a a\n", &[expecting(2, everywhere("a", "b"))]), @r"
    old_text occurs 3 time(s), at line(s) 1, 1 and 1, and 2 replacement(s) were expected
    => Read those lines; correct expected_replacements, or narrow old_text with the lines around it.
    ");
}

#[test]
fn an_edit_without_a_place_or_an_effect_is_refused() {
    insta::assert_snapshot!(said("a\n", &[edit("", "b")]), @r"
    old_text is empty, so it names no place in the file
    => Use write_file to set the whole content, append_file to add at the end, or name text of the file next to which to insert.
    ");
    assert!(said("", &[edit("", "b")]).starts_with("old_text is empty, and so is the file\n"));
    insta::assert_snapshot!(said("a\n", &[edit("a", "a")]), @r"
    nothing would change: new_text is the same as the text it replaces
    => Leave this edit out, or give a new_text that differs.
    ");
    assert_eq!(fail("a\r\nb\n", &[edit("a\n", "a\r\n")]).problem, EditProblem::SameText);
    assert_eq!(fail("a\n", &[]).problem, EditProblem::NoEdits);
}

#[test]
fn a_crlf_file_is_edited_with_plain_newlines_and_keeps_its_own() {
    assert_eq!(
        apply("a\r\nb\r\nc\r\n", &[edit("a\nb\n", "x\ny\nz\n")]),
        "x\r\ny\r\nz\r\nc\r\n"
    );
    assert_eq!(apply("a\r\nb\r\n", &[edit("b", "x\ny")]), "a\r\nx\r\ny\r\n");
    assert_eq!(apply("a\r\nb", &[edit("b", "x\ny")]), "a\r\nx\r\ny");
    assert_eq!(apply("a\r\nb\r\n", &[edit("\nb", "")]), "a\r\n");
    assert_eq!(apply("a\nb\n", &[edit("a\r\nb\r\n", "x\r\ny\r\n")]), "x\ny\n");
}

#[test]
fn in_a_file_of_mixed_endings_each_line_keeps_its_own() {
    assert_eq!(
        apply("a\r\nb\nc\r\n", &[edit("a\nb\nc\n", "a\nB\nc\n")]),
        "a\r\nB\nc\r\n"
    );
    assert_eq!(
        apply("a\r\nb\nc\r\n", &[edit("a\nb\nc\n", "new\na\nb\nc\n")]),
        "new\r\na\r\nb\nc\r\n"
    );
    assert_eq!(
        apply("a\r\nb\nc\nd", &[edit("a\nb\n", "a\nx\ny\nb\n")]),
        "a\r\nx\r\ny\r\nb\nc\nd"
    );
    // An exact match goes before one that differs in its ending.
    assert_eq!(apply("a\r\nb\na\nb\n", &[edit("a\nb", "x\ny")]), "a\r\nb\nx\ny\n");
    assert_eq!(apply("a\r\nb\na\nb\n", &[everywhere("a\nb", "x\ny")]), "x\r\ny\nx\ny\n");
}

#[test]
fn line_endings_change_when_the_edit_names_them() {
    assert_eq!(apply("a\r\nb\r\n", &[everywhere("\r\n", "\n")]), "a\nb\n");
    assert_eq!(apply("a\nb\n", &[everywhere("\n", "\r\n")]), "a\r\nb\r\n");
}

#[test]
fn the_final_newline_and_the_byte_order_mark_survive() {
    assert_eq!(apply("\u{FEFF}a\nb", &[edit("a", "x"), edit("b", "y")]), "\u{FEFF}x\ny");
    assert_eq!(apply("a\nb\n", &[edit("b", "y")]), "a\ny\n");
}

#[test]
fn bytes_that_are_not_utf8_stay_as_they_are() {
    let edited = apply_edits(b"\xFF\xFEa\xC3 b\xE2\x82\n", &[edit("a", "é"), edit(" b", "!")]).expect("it fits");
    assert_eq!(edited.content, b"\xFF\xFE\xC3\xA9\xC3!\xE2\x82\n");
}

#[test]
fn a_result_beyond_the_limit_is_refused_before_it_is_built() {
    let bomb = everywhere("a", &"x".repeat(1 << 20));
    let error = apply_edits(&b"a".repeat(1 << 20), &[bomb]).expect_err("it is a terabyte");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(apply_edits_within(b"aaaa", &[everywhere("a", "bb")], 8).is_ok());
    assert!(apply_edits_within(b"aaaa", &[everywhere("a", "bb")], 7).is_err());
}

const PROGRAM: &str = "fn main() {\n\tlet name = \"world\";\n\tgreet(name);\n}\n\nfn greet(name: &str) {\n\tprintln!(\"Hello, {name}!\");\n}\n";

#[test]
fn spaces_for_tabs_are_explained() {
    insta::assert_snapshot!(said(PROGRAM, &[edit("    let name = \"world\";\n    greet(name);\n", "x")]), @r#"
    old_text was not found. Nearest in the file:
    lines 2-3, which differ in whitespace (indentation: the file has 1 tab, the text asked for has 4 spaces):
         2		let name = "world";
         3		greet(name);
      first difference at line 2, column 1:
        asked for: "    let name = "world";"
        the file:  "\tlet name = "world";"
    => Copy old_text exactly as the lines above have it, whitespace included.
    "#);
}

#[test]
fn trailing_blanks_are_explained() {
    insta::assert_snapshot!(said("one  \ntwo\n", &[edit("one\ntwo\n", "x")]), @r#"
    old_text was not found. Nearest in the file:
    lines 1-2, which differ in whitespace (trailing blanks: the file has more):
         1	one  
         2	two
      first difference at line 1, column 4:
        asked for: "one"
        the file:  "one  "
    => Copy old_text exactly as the lines above have it, whitespace included.
    "#);
}

#[test]
fn blanks_inside_a_line_are_explained() {
    insta::assert_snapshot!(said("let a  = b;\n", &[edit("let a = b;", "x")]), @r#"
    old_text was not found. Nearest in the file:
    line 1, which differs in whitespace (blanks inside the line):
         1	let a  = b;
      first difference at line 1, column 7:
        asked for: "let a = b;"
        the file:  "let a  = b;"
    => Copy old_text exactly as the lines above have it, whitespace included.
    "#);
}

#[test]
fn line_breaks_elsewhere_are_explained() {
    insta::assert_snapshot!(said("call(\n    a,\n    b,\n)\n", &[edit("call(a, b,)", "x")]), @r#"
    old_text was not found. Nearest in the file:
    lines 1-4, which differ in whitespace (the line breaks are elsewhere: 1 line(s) asked for, 4 in the file):
         1	call(
         2	    a,
         3	    b,
         4	)
      first difference at line 1, column 6:
        asked for: "call(a, b,)"
        the file:  "call("
    => Copy old_text exactly as the lines above have it, whitespace included.
    "#);
}

#[test]
fn a_missing_final_newline_is_explained() {
    insta::assert_snapshot!(said("one\ntwo", &[edit("two\n", "x\n")]), @r#"
    old_text was not found. Nearest in the file:
    line 2, which differs in the newline at the end: the file ends here without one:
         2	two
    => Leave out the newline at the end of old_text, and of new_text.
    "#);
}

#[test]
fn case_is_explained() {
    insta::assert_snapshot!(said("Hello World\n", &[edit("hello world", "x")]), @r#"
    old_text was not found. Nearest in the file:
    line 1, which differs in upper and lower case:
         1	Hello World
      first difference at line 1, column 1:
        asked for: "hello world"
        the file:  "Hello World"
    => Copy old_text exactly as the lines above have it, whitespace included.
    "#);
}

#[test]
fn look_alikes_are_explained() {
    insta::assert_snapshot!(said("say “hi” — now\n", &[edit("say \"hi\" - now", "x")]), @r#"
    old_text was not found. Nearest in the file:
    line 1, which differs in look-alike characters (the file has “ (U+201C) for "):
         1	say “hi” — now
      first difference at line 1, column 5:
        asked for: "say "hi" - now"
        the file:  "say \u{201C}hi\u{201D} \u{2014} now"
    => Copy old_text exactly as the lines above have it, whitespace included.
    "#);
    insta::assert_snapshot!(said("a\u{A0}b\n", &[edit("a b", "x")]), @r#"
    old_text was not found. Nearest in the file:
    line 1, which differs in look-alike characters (the file has a special space, U+00A0, for an ordinary one):
         1	a b
      first difference at line 1, column 2:
        asked for: "a b"
        the file:  "a\u{00A0}b"
    => Copy old_text exactly as the lines above have it, whitespace included.
    "#);
    insta::assert_snapshot!(said("ab\n", &[edit("a\u{200B}b", "x")]), @r#"
    old_text was not found. Nearest in the file:
    line 1, which differs in look-alike characters (the text asked for has an invisible character, U+200B):
         1	ab
      first difference at line 1, column 2:
        asked for: "a\u{200B}b"
        the file:  "ab"
    => Copy old_text exactly as the lines above have it, whitespace included.
    "#);
}

#[test]
fn escape_sequences_are_explained() {
    insta::assert_snapshot!(said("one\ntwo\n", &[edit("one\\ntwo", "x")]), @r#"
    old_text was not found. Nearest in the file:
    lines 1-2, which differ in escape sequences: the text asked for holds a backslash and a letter where the file has the real character:
         1	one
         2	two
    => Write real newlines, tabs and quotes in old_text and new_text.
    "#);
    insta::assert_snapshot!(said("text = 'one\\ntwo'\n", &[edit("one\ntwo", "x")]), @r#"
    old_text was not found. Nearest in the file:
    line 1, which differs in escape sequences: the file holds a backslash and a letter where the text asked for has the real character:
         1	text = 'one\ntwo'
    => Copy old_text exactly as the lines above have it, whitespace included.
    "#);
}

#[test]
fn pasted_line_numbers_are_explained() {
    insta::assert_snapshot!(said(PROGRAM, &[edit("     2\t\tlet name = \"world\";\n     3\t\tgreet(name);", "x")]), @r#"
    old_text was not found. Nearest in the file:
    lines 2-3, which differ in line numbers: the text asked for has them, the file does not:
         2		let name = "world";
         3		greet(name);
    => Leave the line numbers out of old_text and new_text.
    "#);
}

#[test]
fn other_text_is_explained_by_its_first_difference() {
    insta::assert_snapshot!(said(PROGRAM, &[edit("fn greet(name: &str) {\n\tprint!(\"Hello, {name}!\");\n}\n", "x")]), @r#"
    old_text was not found. Nearest in the file:
    lines 6-8, which differ in the text itself:
         6	fn greet(name: &str) {
         7		println!("Hello, {name}!");
         8	}
      first difference at line 7, column 7:
        asked for: "\tprint!("Hello, {name}!");"
        the file:  "\tprintln!("Hello, {name}!");"
    => If that is the place, copy old_text from the lines above; otherwise read the file again.
    "#);
}

#[test]
fn a_single_line_is_compared_with_the_lines_most_like_it() {
    insta::assert_snapshot!(said(PROGRAM, &[edit("println!(\"Hello, {nam}!\");", "x")]), @r#"
    old_text was not found. Nearest in the file:
    line 7, which differs in the text itself:
         7		println!("Hello, {name}!");
      first difference at line 7, column 23:
        asked for: "println!("Hello, {nam}!");"
        the file:  "println!("Hello, {name}!");"
    => If that is the place, copy old_text from the lines above; otherwise read the file again.
    "#);
}

#[test]
fn a_short_line_with_a_slip_is_shown() {
    for (content, wanted, line) in [
        ("hello\n", "hallo", "     1\thello"),
        ("use a;\nfn main() {\n}\n", "fn mian() {", "     2\tfn main() {"),
        ("{\n    let x = 1;\n}\n", "    let y = 1;\n}", "     2\t    let x = 1;"),
    ] {
        let said = said(content, &[edit(wanted, "x")]);
        assert!(said.contains("Nearest in the file:") && said.contains(line), "{said}");
    }
}

#[test]
fn text_like_nothing_in_the_file_is_said_to_be() {
    insta::assert_snapshot!(said(PROGRAM, &[edit("SELECT * FROM users", "x")]), @r#"
    old_text was not found. No line of the file is close enough to show.
    => Read the file again and copy old_text from it.
    "#);
}

#[test]
fn an_edit_made_before_is_recognised() {
    insta::assert_snapshot!(fail("let total = 1;\n", &[edit("let count = 1;", "let total = 1;")]).hint(), @"new_text is already in the file at line 1: this edit may have been made before.");
}

#[test]
fn a_binary_file_is_named_as_the_reason() {
    insta::assert_snapshot!(fail("a\0b\0c\0", &[edit("abc", "x")]).hint(), @"The file holds NUL bytes: it is binary, or text in UTF-16. Read it as base64 and write it whole.");
}

#[test]
fn combined_differences_are_all_named() {
    insta::assert_snapshot!(said("\tSay “Hi”\n", &[edit("    say \"hi\"", "x")]), @r#"
    old_text was not found. Nearest in the file:
    line 1, which differs in whitespace (indentation: the file has 1 tab, the text asked for has 4 spaces), and in upper and lower case, and in look-alike characters (the file has “ (U+201C) for "):
         1		Say “Hi”
      first difference at line 1, column 1:
        asked for: "    say "hi""
        the file:  "\tSay \u{201C}Hi\u{201D}"
    => Copy old_text exactly as the lines above have it, whitespace included.
    "#);
}

#[test]
fn a_large_file_is_answered_within_bounded_work() {
    // Ten million bytes of lines that all resemble the text: an answer that compared each with each would not return.
    let line = "the quick brown fox jumps over the lazy dog again\n";
    let file = line.repeat(200_000);
    let wanted = "the quick brown fox jumped over the lazy dog\n".repeat(2_000);
    let error = fail(&file, &[edit(&wanted, "x")]);
    assert!(error.to_string().len() < 8_000);
    let EditProblem::NotFound { nearest, .. } = error.problem else {
        panic!("it is not in the file")
    };
    assert_eq!((nearest.candidates.len(), nearest.is_partial), (3, false));
}

#[test]
fn a_file_beyond_the_searched_part_says_so() {
    let file = "x\n".repeat((crate::text::nearest::MAX_SEARCHED_BYTES / 2) + 1);
    let message = fail(&file, &[edit("something else", "x")]).to_string();
    assert!(
        message.ends_with("(Only the first 16 MiB were searched for near matches.)"),
        "{message}"
    );
}

#[test]
fn many_occurrences_in_one_long_line_cost_no_more_than_elsewhere() {
    let content = "ab".repeat(200_000);
    for new_text in ["aa", "a\n"] {
        let edit = Edit {
            old_text: "a".into(),
            new_text: new_text.into(),
            replace_all: true,
            ..Edit::default()
        };
        // A look at the rest of the line for each of them would take many minutes.
        let edited = apply_edits(content.as_bytes(), &[edit]).unwrap();
        assert_eq!(edited.replacements, 200_000);
    }
}
