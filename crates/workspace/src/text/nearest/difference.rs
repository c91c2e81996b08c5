//! Explains why two similar texts are not equal, in sentences that a model can act on.

use std::fmt;

use super::fold::{FoldOptions, plain_look_alike};

/// A reason for which text was not found although the file has similar text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextDifference {
    /// Only blanks differ; the text says which.
    Whitespace(String),
    /// Only upper and lower case differ.
    Case,
    /// One side has a typographic character in place of a plain one.
    LookAlikes(String),
    /// The text asked for ends in a newline, the file does not.
    NoFinalNewline,
    /// The text asked for holds escape sequences such as `\n` as two characters.
    Escapes,
    /// The file holds escape sequences, and the text asked for has the real characters.
    EscapesInFile,
    /// The text asked for carries line numbers pasted from numbered output.
    LineNumbers,
    /// The words themselves differ.
    Text,
}

impl fmt::Display for TextDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextDifference::Whitespace(detail) => write!(f, "whitespace ({detail})"),
            TextDifference::Case => f.write_str("upper and lower case"),
            TextDifference::LookAlikes(detail) => write!(f, "look-alike characters ({detail})"),
            TextDifference::NoFinalNewline => {
                f.write_str("the newline at the end: the file ends here without one")
            }
            TextDifference::Escapes => f.write_str(
                "escape sequences: the text asked for holds a backslash and a letter where the file has the real character",
            ),
            TextDifference::EscapesInFile => f.write_str(
                "escape sequences: the file holds a backslash and a letter where the text asked for has the real character",
            ),
            TextDifference::LineNumbers => {
                f.write_str("line numbers: the text asked for has them, the file does not")
            }
            TextDifference::Text => f.write_str("the text itself"),
        }
    }
}

/// Names the differences between two texts that are equal in folded form.
pub(super) fn explain_differences(wanted: &str, found: &str, at_end_without_newline: bool) -> Vec<TextDifference> {
    // Folding drops the newline as a blank, but this case needs its own hint.
    if at_end_without_newline && wanted.strip_suffix('\n') == Some(found) {
        return vec![TextDifference::NoFinalNewline];
    }
    // A kind of folding explains a part of the difference if the texts are unequal without it.
    let needed = |without: FoldOptions| without.fold_text(wanted) != without.fold_text(found);
    let mut differences = Vec::new();
    if needed(FoldOptions {
        whitespace: false,
        ..FoldOptions::ALL
    }) {
        differences.push(TextDifference::Whitespace(explain_whitespace(wanted, found)));
    }
    if needed(FoldOptions {
        case: false,
        ..FoldOptions::ALL
    }) {
        differences.push(TextDifference::Case);
    }
    if needed(FoldOptions {
        look_alikes: false,
        ..FoldOptions::ALL
    }) {
        differences.push(TextDifference::LookAlikes(explain_look_alikes(wanted, found)));
    }
    differences
}

fn explain_whitespace(wanted: &str, found: &str) -> String {
    let (wanted_lines, found_lines) = (split_lines(wanted), split_lines(found));
    if wanted_lines.len() != found_lines.len() {
        return explain_line_breaks(wanted_lines.len(), found_lines.len(), found);
    }
    let pairs = wanted_lines.iter().zip(&found_lines);
    pairs
        .filter_map(|(wanted, found)| explain_line(wanted, found))
        .next()
        .unwrap_or_else(|| "blanks at the end".to_owned())
}

fn split_lines(text: &str) -> Vec<&str> {
    text.strip_suffix('\n').unwrap_or(text).split('\n').collect()
}

fn explain_line_breaks(wanted: usize, found: usize, found_text: &str) -> String {
    if found_text.contains('\r') {
        return "the file breaks lines with a lone carriage return".to_owned();
    }
    format!("the line breaks are elsewhere: {wanted} line(s) asked for, {found} in the file")
}

fn explain_line(wanted: &str, found: &str) -> Option<String> {
    let (wanted_indent, wanted_body) = split_indent(wanted);
    let (found_indent, found_body) = split_indent(found);
    if wanted_indent != found_indent {
        return Some(explain_indent(wanted_indent, found_indent));
    }
    if wanted_body.trim_end() == found_body.trim_end() && wanted_body != found_body {
        let side = if wanted_body.len() > found_body.len() {
            "the text asked for"
        } else {
            "the file"
        };
        return Some(format!("trailing blanks: {side} has more"));
    }
    // Case and look-alikes are explained on their own; they must not be taken for blanks inside the line.
    let blanks_only = FoldOptions {
        whitespace: false,
        ..FoldOptions::ALL
    };
    (blanks_only.fold_text(wanted_body) != blanks_only.fold_text(found_body))
        .then(|| explain_inner_blanks(wanted_body, found_body))
}

fn explain_inner_blanks(wanted: &str, found: &str) -> String {
    if wanted.contains('\t') != found.contains('\t') {
        return format!(
            "inside the line: {} in the file, {} asked for",
            blank_kind(found),
            blank_kind(wanted)
        );
    }
    "blanks inside the line".to_owned()
}

fn blank_kind(text: &str) -> &'static str {
    if text.contains('\t') { "tabs" } else { "spaces" }
}

fn split_indent(line: &str) -> (&str, &str) {
    line.split_at(line.len() - line.trim_start().len())
}

fn explain_indent(wanted: &str, found: &str) -> String {
    format!(
        "indentation: the file has {}, the text asked for has {}",
        name_blanks(found),
        name_blanks(wanted)
    )
}

fn name_blanks(blanks: &str) -> String {
    let tabs = blanks.chars().filter(|blank| *blank == '\t').count();
    let others = blanks.chars().count() - tabs;
    match (tabs, others) {
        (0, 0) => "none".to_owned(),
        (0, _) => format_count(others, "space"),
        (_, 0) => format_count(tabs, "tab"),
        _ => format!("{} and {}", format_count(tabs, "tab"), format_count(others, "space")),
    }
}

fn format_count(count: usize, word: &str) -> String {
    if count == 1 {
        format!("1 {word}")
    } else {
        format!("{count} {word}s")
    }
}

fn explain_look_alikes(wanted: &str, found: &str) -> String {
    let strange = |text: &str, other: &str| {
        text.chars()
            .find(|character| plain_look_alike(*character).is_some() && !other.contains(*character))
    };
    if let Some(character) = strange(found, wanted) {
        return format!("the file has {}", name_look_alike(character));
    }
    match strange(wanted, found) {
        Some(character) => format!("the text asked for has {}", name_look_alike(character)),
        None => "in a different order".to_owned(),
    }
}

fn name_look_alike(character: char) -> String {
    let code = character as u32;
    match plain_look_alike(character) {
        Some("") => format!("an invisible character, U+{code:04X}"),
        Some(" ") => format!("a special space, U+{code:04X}, for an ordinary one"),
        plain => format!("{character} (U+{code:04X}) for {}", plain.unwrap_or_default()),
    }
}
