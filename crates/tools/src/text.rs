//! Pieces of text that several tools write: kinds, sizes, and lines that cannot be forged or grow without end.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::AnswerLimits;
use garret_core::path::escape_unprintable;
use garret_core::{EntryKind, Version};
use garret_workspace::{SearchCutoff, SkippedPath};

/// The bytes reserved for the footer at the end of a full page.
pub(crate) const FOOTER_ROOM: usize = 400;

/// The part of them for the names of skipped files.
const SKIPPED_ROOM: usize = 200;

/// Returns the word for a kind.
pub(crate) fn kind_name(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Symlink => "symlink",
        EntryKind::Other => "special file",
    }
}

/// Returns a number with its noun: `1 entry`, `1,234 entries`.
pub(crate) fn format_count(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", group_digits(number), if number == 1 { one } else { many })
}

/// Returns a number of bytes: `1 byte`, `1,234 bytes`.
pub(crate) fn format_bytes(number: u64) -> String {
    format_count(number, "byte", "bytes")
}

/// Returns a number with a comma between groups of three digits.
pub(crate) fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a size in few characters: `812 B`, `1.2 KiB`.
pub(crate) fn short_size(size: u64) -> String {
    let mut unit = "B";
    let mut shown = size as f64;
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        // From 1023.95 on, one decimal would be rounded to `1024.0`.
        if shown < 1023.95 {
            break;
        }
        shown /= 1024.0;
        unit = larger;
    }
    if unit == "B" {
        format!("{size} B")
    } else {
        format!("{shown:.1} {unit}")
    }
}

/// Returns `; version v` if the storage told one.
pub(crate) fn version_note(version: Option<&Version>) -> String {
    version.map_or_else(String::new, |version| format!("; version {version}"))
}

/// Returns a line of a file, cut with a note if it is too long.
pub(crate) fn cut_line<'a>(line: &'a str, limits: &AnswerLimits) -> Cow<'a, str> {
    if line.len() <= limits.line_characters {
        return Cow::Borrowed(line);
    }
    // The number of bytes is only an upper bound: a line of multi-byte characters may still be short enough.
    let Some((end, _)) = line.char_indices().nth(limits.line_characters) else {
        return Cow::Borrowed(line);
    };
    let all = group_digits(line.chars().count() as u64);
    let shown = group_digits(limits.line_characters as u64);
    Cow::Owned(format!("{}… [line cut: {shown} of {all} characters]", &line[..end]))
}

/// Returns the lines of a match that spans several, cut with a note if they are too many.
pub(crate) fn cut_block(text: &str, limits: &AnswerLimits) -> String {
    let most = (limits.lines / 2).clamp(1, 100);
    let all = text.split('\n').count();
    let shown = text.split('\n').take(most).map(|line| cut_line(line, limits));
    let mut block = shown.collect::<Vec<_>>().join("\n");
    if all > most {
        block.push_str(&format!(
            "… [match cut: {} of {} lines]",
            group_digits(most as u64),
            group_digits(all as u64)
        ));
    }
    block
}

/// Returns a note for a footer about the entries that a limit of the storage excluded from a search.
pub(crate) fn left_out_note(left_out: Option<&SearchCutoff>) -> String {
    left_out.map_or_else(String::new, |left_out| {
        let after = escape_unprintable(&left_out.after);
        format!(
            "; NOT SEARCHED because of `{}`: everything after {after}",
            left_out.reason
        )
    })
}

/// Returns a note for a footer of a list or search of an earlier state that may lack files.
pub(crate) fn incomplete_note(incomplete: bool) -> &'static str {
    if incomplete {
        "; INCOMPLETE: files that the history had not captured by then are missing"
    } else {
        ""
    }
}

/// Returns names for a footer, as many as fit; the others are counted.
pub(crate) fn listed_names(names: &[String]) -> String {
    let shown = fitting_names(names.iter().map(|name| quote_token(name)));
    let more = (names.len() - shown.len()) as u64;
    if shown.is_empty() {
        format_count(more, "file", "files")
    } else {
        join_with_more(&shown, more)
    }
}

/// Returns `; skipped 2: a.bin (binary), big.log (too_large)` for a footer, with as many names as fit.
pub(crate) fn skipped_note(skipped: &[SkippedPath], all: u64) -> String {
    let named = fitting_names(
        skipped
            .iter()
            .map(|one| format!("{} ({})", escape_unprintable(&one.path), one.reason)),
    );
    let count = group_digits(all);
    match (all, named.len() as u64) {
        (0, _) => String::new(),
        (_, 0) => format!("; skipped {count}"),
        (_, shown) => format!("; skipped {count}: {}", join_with_more(&named, all - shown)),
    }
}

/// Returns the first names, as many as fit into a footer.
fn fitting_names(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut room = SKIPPED_ROOM;
    let fits = |name: &String| {
        let fits = name.len() <= room;
        room = room.saturating_sub(name.len());
        fits
    };
    names.take_while(fits).collect()
}

/// Returns `a, b`, or `a, b and 1,234 more`.
pub(crate) fn join_with_more(shown: &[String], more: u64) -> String {
    match more {
        0 => shown.join(", "),
        more => format!("{} and {} more", shown.join(", "), group_digits(more)),
    }
}

/// Returns a value to copy into the next call, as a JSON string that cannot end the line or turn its direction.
pub(crate) fn quote_token(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            _ if escape_unprintable(c.encode_utf8(&mut [0; 4])).len() == c.len_utf8() => quoted.push(c),
            // Escaped as in JSON, not as by `escape_unprintable`: the value comes back in the next call and must be the same.
            _ => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                write!(quoted, "\\u{unit:04x}").expect("a string takes everything");
            }),
        }
    }
    quoted.push('"');
    quoted
}

/// A page of lines that stays within the limits.
pub(crate) struct AnswerPage {
    text: String,
    lines: usize,
    max_lines: usize,
    max_bytes: usize,
}

impl AnswerPage {
    pub(crate) fn new(limits: &AnswerLimits) -> Self {
        Self {
            text: String::new(),
            lines: 0,
            max_lines: limits.lines,
            max_bytes: limits.bytes.saturating_sub(FOOTER_ROOM),
        }
    }

    /// Adds `block`, one line or several, if it fits; returns whether it was added.
    pub(crate) fn push_block(&mut self, block: &str) -> bool {
        let lines = 1 + block.matches('\n').count();
        let fits = self.lines + lines <= self.max_lines && self.text.len() + block.len() < self.max_bytes;
        // The first block always fits: otherwise a cursor could not get past a block larger than a page.
        if !fits && self.lines > 0 {
            return false;
        }
        self.text.push_str(block);
        self.text.push('\n');
        self.lines += lines;
        true
    }

    /// Returns the page, with its footer as the last line.
    pub(crate) fn finish(mut self, footer: Option<String>) -> String {
        match footer {
            Some(footer) => self.text.push_str(&footer),
            None => {
                self.text.pop();
            }
        }
        self.text
    }
}

/// Returns text cut to the limits, with a note if something is left out.
pub(crate) fn bound_text(text: &str, limits: &AnswerLimits) -> String {
    let mut page = AnswerPage::new(limits);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if !page.push_block(&cut_line(line, limits)) {
            let left = 1 + lines.count() as u64;
            return page.finish(Some(format!(
                "[{} not shown]",
                format_count(left, "more line", "more lines")
            )));
        }
    }
    page.finish(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sizes_read_well() {
        assert_eq!(group_digits(0), "0");
        assert_eq!(group_digits(1_234_567), "1,234,567");
        assert_eq!(format_bytes(1), "1 byte");
        assert_eq!(short_size(812), "812 B");
        assert_eq!(short_size(1_048_570), "1.0 MiB");
        assert_eq!(short_size(1_234_567), "1.2 MiB");
    }

    #[test]
    fn a_token_is_json_and_one_line() {
        for text in ["plain/é", "a\n\"b\"\\", "\u{202e}x", "\u{1}"] {
            let token = quote_token(text);
            assert_eq!(serde_json::from_str::<String>(&token).unwrap(), text);
            assert!(!token.contains(|c: char| c.is_control() || c == '\u{202e}'), "{token}");
        }
    }

    #[test]
    fn a_page_never_passes_its_limits_but_for_its_first_block() {
        let limits = AnswerLimits {
            lines: 3,
            bytes: 1024,
            max_bytes: 1024,
            line_characters: 100,
        };
        let text = bound_text("a\nb\nc\nd\ne", &limits);
        assert_eq!(text, "a\nb\nc\n[2 more lines not shown]");
        let text = bound_text(&"x".repeat(5000), &limits);
        assert_eq!(text.lines().count(), 1);
        assert!(text.ends_with("[line cut: 100 of 5,000 characters]"), "{text}");
    }
}
