//! Results with colour. File content and names are escaped here, because coloured text is not escaped again.

use garret::GrepMatch;

use super::{ShownLine, display_path, format_matches_with, format_table_with};
use crate::terminal::{TextStyle, escape_text, paint};

/// Colours a unified diff.
pub(crate) fn paint_diff(text: &str) -> String {
    text.split_inclusive('\n').map(paint_diff_line).collect()
}

fn paint_diff_line(line: &str) -> String {
    let (line, end) = match line.strip_suffix('\n') {
        Some(line) => (line, "\n"),
        None => (line, ""),
    };
    let style = match line.as_bytes() {
        [b'@', b'@', ..] => Some(TextStyle::Cyan),
        [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] => Some(TextStyle::Bold),
        [b'+', ..] => Some(TextStyle::Green),
        [b'-', ..] => Some(TextStyle::Red),
        [b' ' | b'\\', ..] | [] => None,
        _ => Some(TextStyle::Bold),
    };
    let line = style.map_or_else(|| escape_text(line), |style| paint(style, line));
    format!("{line}{end}")
}

/// Formats matching lines: the path, the number and the matching text stand out.
pub(crate) fn paint_matches(matches: &[GrepMatch]) -> String {
    format_matches_with(matches, paint_path, |line| {
        let ShownLine { name, mark, .. } = line;
        let number = paint(TextStyle::Green, &line.number.to_string());
        format!("{name}{mark}{number}{mark}{}\n", paint_spans(&line))
    })
}

/// Colours the path of a file.
pub(crate) fn paint_path(path: &str) -> String {
    paint(TextStyle::Magenta, &display_path(path))
}

fn paint_spans(line: &ShownLine<'_>) -> String {
    let mut text = String::new();
    let mut at = 0;
    for span in &line.spans {
        // A match of bytes may end within a character, and half a character cannot be printed.
        let (Some(before), Some(found)) = (line.text.get(at..span.start), line.text.get(span.clone())) else {
            continue;
        };
        text.push_str(&escape_text(before));
        text.push_str(&paint(TextStyle::BoldRed, found));
        at = span.end;
    }
    text + &escape_text(&line.text[at..])
}

/// Formats changes in columns.
pub(crate) fn paint_log(rows: impl Iterator<Item = Vec<String>>) -> String {
    format_table_with(rows, |column, cell| match column {
        0 => paint(TextStyle::Yellow, cell),
        1 => paint(TextStyle::Green, cell),
        2 => paint(TextStyle::Cyan, cell),
        _ => escape_text(cell),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_has_colour_and_nothing_that_a_file_says_to_the_terminal() {
        let text = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n same\n-old \x1b[2J\n+new\n";
        assert_eq!(
            paint_diff(text),
            "\x1b[1m--- a/x\x1b[0m\n\x1b[1m+++ b/x\x1b[0m\n\x1b[36m@@ -1 +1 @@\x1b[0m\n same\n\
             \x1b[31m-old \\u{1b}[2J\x1b[0m\n\x1b[32m+new\x1b[0m\n"
        );
    }

    #[test]
    fn a_match_stands_out_in_each_of_its_lines() {
        let found = GrepMatch {
            path: "a".into(),
            line_number: 2,
            line: "x one\ntwo y".into(),
            before: vec!["before".into()],
            after: Vec::new(),
            lossy: false,
            spans: std::iter::once(2..9).collect(),
        };
        let name = "\x1b[35ma\x1b[0m";
        assert_eq!(
            paint_matches(&[found]),
            format!(
                "{name}-\x1b[32m1\x1b[0m-before\n{name}:\x1b[32m2\x1b[0m:x \x1b[1;31mone\x1b[0m\n\
                 {name}:\x1b[32m3\x1b[0m:\x1b[1;31mtwo\x1b[0m y\n"
            )
        );
    }

    #[test]
    fn columns_line_up_whatever_their_colour() {
        let rows = [["1", "t", "me", "write a"], ["10", "t", "you", ""]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let lines = "\x1b[33m1 \x1b[0m  \x1b[32mt\x1b[0m  \x1b[36mme \x1b[0m  write a\n\
                     \x1b[33m10\x1b[0m  \x1b[32mt\x1b[0m  \x1b[36myou\x1b[0m";
        assert_eq!(paint_log(rows.into_iter()), lines);
    }
}
