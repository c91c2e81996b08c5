//! `edit_file` held against the plainest possible replacement.

use garret_workspace::text::edit::EditProblem;
use garret_workspace::text::{Edit, apply_edits};
use proptest::prelude::*;

fn edit(old_text: &str, new_text: &str) -> Edit {
    Edit {
        old_text: old_text.to_owned(),
        new_text: new_text.to_owned(),
        ..Edit::default()
    }
}

/// Counts occurrences, overlapping ones too.
fn count(bytes: &[u8], wanted: &[u8]) -> usize {
    bytes.windows(wanted.len()).filter(|window| *window == wanted).count()
}

/// Replaces occurrences left to right, byte by byte.
fn replace(bytes: &[u8], wanted: &[u8], with: &[u8]) -> (Vec<u8>, usize) {
    let (mut out, mut at, mut replaced) = (Vec::new(), 0, 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(wanted) {
            out.extend_from_slice(with);
            at += wanted.len();
            replaced += 1;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    (out, replaced)
}

/// Text of few letters, so that occurrences are many; with what regular expressions and UTF-8 make special.
const TEXT: &str = "[ab\n$1&\\\\é ]{0,40}";
const WANTED: &str = "[ab\n$&é]{1,3}";
const REPLACEMENT: &str = "[ab\n$1&\\\\0é]{0,6}";

/// Few letters, line endings of both kinds, and bytes that are not UTF-8.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&[u8]> = vec![
        b"a",
        b"b",
        b"\n",
        b"\r\n",
        b"\r",
        b"\xFF",
        b"\xC3",
        b"\xC3\xA9",
        b"\xE2\x82",
        b" ",
    ];
    prop::collection::vec(prop::sample::select(pieces), 0..40).prop_map(|pieces| pieces.concat())
}

fn settings() -> ProptestConfig {
    ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(settings())]

    #[test]
    fn a_single_edit_replaces_the_one_occurrence_or_counts_them(text in TEXT, wanted in WANTED, with in REPLACEMENT) {
        prop_assume!(wanted != with);
        match (apply_edits(text.as_bytes(), &[edit(&wanted, &with)]), count(text.as_bytes(), wanted.as_bytes())) {
            (Ok(edited), 1) => {
                prop_assert_eq!(edited.content, text.replacen(&wanted, &with, 1).into_bytes());
                prop_assert_eq!(edited.replacements, 1);
            }
            (Err(error), 0) => prop_assert!(matches!(error.problem, EditProblem::NotFound { .. }), "{}", error),
            (Err(error), _) => prop_assert!(matches!(error.problem, EditProblem::NotUnique { .. }), "{}", error),
            (Ok(_), occurrences) => prop_assert!(false, "replaced one of {}", occurrences),
        }
    }

    #[test]
    fn replace_all_is_the_replacement_of_the_standard_library(text in TEXT, wanted in WANTED, with in REPLACEMENT) {
        prop_assume!(wanted != with);
        let every = Edit { replace_all: true, ..edit(&wanted, &with) };
        match apply_edits(text.as_bytes(), &[every]) {
            Ok(edited) => {
                prop_assert_eq!(edited.content, text.replace(&wanted, &with).into_bytes());
                prop_assert_eq!(edited.replacements, text.matches(&wanted).count());
            }
            Err(_) => prop_assert!(!text.contains(&wanted)),
        }
    }

    #[test]
    fn the_expected_count_decides(text in TEXT, wanted in "[ab]", with in "[cd]{0,2}", expected in 1..6_usize) {
        let asked = Edit { expected_replacements: Some(expected), ..edit(&wanted, &with) };
        let there = text.matches(&wanted).count();
        match apply_edits(text.as_bytes(), &[asked]) {
            Ok(edited) => {
                prop_assert_eq!(there, expected);
                prop_assert_eq!(edited.content, text.replace(&wanted, &with).into_bytes());
            }
            Err(_) => prop_assert_ne!(there, expected),
        }
    }

    #[test]
    fn bytes_around_an_edit_stay_as_they_are(content in bytes(), wanted in "[abé ]{1,2}", with in "[cé]{0,3}") {
        prop_assume!(wanted != with);
        let every = Edit { replace_all: true, ..edit(&wanted, &with) };
        let (expected, replaced) = replace(&content, wanted.as_bytes(), with.as_bytes());
        match apply_edits(&content, &[every]) {
            Ok(edited) => {
                prop_assert_eq!(edited.content, expected);
                prop_assert_eq!(edited.replacements, replaced);
            }
            Err(_) => prop_assert_eq!(replaced, 0),
        }
    }

    #[test]
    fn a_crlf_file_is_edited_as_its_plain_twin_is(text in "[ab\n]{0,30}", wanted in "[ab\n]{1,4}", with in "[abc\n]{0,5}", replace_all in any::<bool>()) {
        let asked = Edit { replace_all, ..edit(&wanted, &with) };
        let plain = apply_edits(text.as_bytes(), std::slice::from_ref(&asked));
        let crlf = apply_edits(text.replace('\n', "\r\n").as_bytes(), &[asked]);
        // A file of one line shows no line ending, and gets the plain one.
        prop_assume!(text.contains('\n'));
        match (plain, crlf) {
            (Ok(plain), Ok(crlf)) => {
                let plain_text = String::from_utf8(plain.content).expect("it is text");
                prop_assert_eq!(String::from_utf8(crlf.content).expect("it is text"), plain_text.replace('\n', "\r\n"));
                prop_assert_eq!(plain.replacements, crlf.replacements);
            }
            (plain, crlf) => prop_assert_eq!(plain.is_err(), crlf.is_err()),
        }
    }

    #[test]
    fn line_endings_outside_the_edited_text_survive(content in bytes(), wanted in "[ab\n]{1,3}", with in "[ab\n]{0,3}") {
        if let Ok(edited) = apply_edits(&content, &[edit(&wanted, &with)]) {
            let head = content.iter().zip(&edited.content).take_while(|(a, b)| a == b).count();
            let room = content.len().min(edited.content.len()) - head;
            let tail = content.iter().rev().zip(edited.content.iter().rev()).take_while(|(a, b)| a == b).count().min(room);
            // What changed is no more than the text itself, each of its newlines counted as two bytes.
            prop_assert!(content.len() - head - tail <= 2 * wanted.len());
            prop_assert!(edited.content.len() - head - tail <= 2 * with.len());
        }
    }

    #[test]
    fn several_edits_are_one_after_the_other_or_none(text in TEXT, edits in prop::collection::vec((WANTED, REPLACEMENT), 1..4)) {
        let edits: Vec<Edit> = edits.iter().map(|(wanted, with)| edit(wanted, with)).collect();
        let stepwise = edits.iter().try_fold(text.clone().into_bytes(), |content, edit| {
            apply_edits(&content, std::slice::from_ref(edit)).map(|edited| edited.content)
        });
        match (apply_edits(text.as_bytes(), &edits), stepwise) {
            (Ok(edited), Ok(content)) => prop_assert_eq!(edited.content, content),
            (Err(error), Err(_)) => prop_assert!((1..=edits.len()).contains(&error.number)),
            (all, _) => prop_assert!(false, "together and one by one differ: {:?}", all),
        }
    }

    #[test]
    fn a_failure_is_explained_for_any_bytes(content in bytes(), wanted in "\\PC{1,12}|[ab\\s]{1,9}", with in "x") {
        if let Err(error) = apply_edits(&content, &[edit(&wanted, &with)]) {
            prop_assert!(!error.to_string().is_empty() && !error.hint().is_empty());
        }
    }
}
