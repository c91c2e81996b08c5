//! Lines as bytes: splitting without loss, finding text in bytes that may not be UTF-8, and showing a line to a model.

use std::fmt::Write as _;

/// How a line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LineEnding {
    /// The last line of a file without a final newline.
    None,
    /// `\n`
    Lf,
    /// `\r\n`
    CrLf,
}

impl LineEnding {
    /// Returns the bytes that this ending stands for.
    pub fn bytes(self) -> &'static [u8] {
        match self {
            LineEnding::None => b"",
            LineEnding::Lf => b"\n",
            LineEnding::CrLf => b"\r\n",
        }
    }
}

/// A line of a file: its text, and how it ends. Writing both back gives the bytes it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextLine<'a> {
    pub(super) text: &'a [u8],
    pub(super) ending: LineEnding,
}

impl<'a> TextLine<'a> {
    fn parse(raw: &'a [u8]) -> Self {
        match raw.strip_suffix(b"\n") {
            None => TextLine {
                text: raw,
                ending: LineEnding::None,
            },
            // A `\r` is part of the ending only before a `\n`; anywhere else it is text.
            Some(rest) => match rest.strip_suffix(b"\r") {
                Some(text) => TextLine {
                    text,
                    ending: LineEnding::CrLf,
                },
                None => TextLine {
                    text: rest,
                    ending: LineEnding::Lf,
                },
            },
        }
    }
}

/// Splits bytes into lines. Empty input has no line; a final newline does not open another one.
pub(super) fn split_lines(bytes: &[u8]) -> impl Iterator<Item = TextLine<'_>> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(TextLine::parse)
}

/// Returns the 1-based number of the line that holds the byte at `offset`.
pub(super) fn line_number_at(bytes: &[u8], offset: usize) -> usize {
    1 + count_newlines(&bytes[..offset.min(bytes.len())])
}

/// Counts `\n` bytes.
pub(super) fn count_newlines(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

/// Yields the offsets at which `needle` occurs, left to right and without overlap, in linear time.
///
/// A UTF-8 needle begins with a byte that ends any broken sequence before it, so it never begins inside a character.
pub(super) fn find_all<'a>(bytes: &'a [u8], needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    memchr::memmem::find_iter(bytes, needle)
}

/// Shows a line as a model may copy it: cut to `max` characters, with bytes that are not UTF-8 as `\xFF`.
pub(super) fn show_line(text: &[u8], max: usize) -> String {
    let mut shown = String::new();
    let mut room = max;
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            if room == 0 {
                shown.push('…');
                return shown;
            }
            shown.push(character);
            room -= 1;
        }
        for byte in chunk.invalid() {
            write!(shown, "\\x{byte:02X}").expect("writing to a String does not fail");
            // The escaped form of a byte, such as `\xFF`, takes four characters.
            room = room.saturating_sub(4);
        }
    }
    shown
}

/// Quotes a line with its tabs, odd characters and trailing blanks made visible.
pub(super) fn quote_line(text: &str, max: usize) -> String {
    let mut quoted = String::from("\"");
    for (index, character) in text.chars().enumerate() {
        if index == max {
            quoted.push('…');
            break;
        }
        push_visible(&mut quoted, character);
    }
    quoted.push('"');
    quoted
}

fn push_visible(out: &mut String, character: char) {
    match character {
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        '\n' => out.push_str("\\n"),
        '\\' => out.push_str("\\\\"),
        ' '..='~' => out.push(character),
        // Letters of any script can be read as they are; other characters may be invisible or look like ASCII.
        other if other.is_alphanumeric() => out.push(other),
        other => write!(out, "\\u{{{:04X}}}", other as u32).expect("writing to a String does not fail"),
    }
}

/// Joins numbers as `3, 7 and 12`; if `total` is larger than their count, the rest is named as `5 more`.
pub(super) fn list_numbers(numbers: &[usize], total: usize) -> String {
    let mut words: Vec<String> = numbers.iter().map(usize::to_string).collect();
    if total > numbers.len() {
        words.push(format!("{} more", total - numbers.len()));
    }
    match words.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting_loses_no_byte() {
        let bytes = b"\xEF\xBB\xBFa\r\n\r\nb\n\xFF\r";
        let joined: Vec<u8> = split_lines(bytes)
            .flat_map(|line| [line.text, line.ending.bytes()].concat())
            .collect();
        assert_eq!(joined, bytes);
        assert_eq!(split_lines(b"").count(), 0);
        assert_eq!(split_lines(b"a\n").count(), 1);
    }

    #[test]
    fn text_is_found_between_bytes_that_are_not_utf8() {
        let bytes = b"\xC3abc\xE2\x82abc\xFF\xC3\xA9abc";
        assert_eq!(find_all(bytes, "abc").collect::<Vec<_>>(), [1, 6, 12]);
        assert_eq!(find_all(bytes, "éa").collect::<Vec<_>>(), [10]);
    }

    #[test]
    fn numbers_are_listed_with_what_was_left_out() {
        assert_eq!(list_numbers(&[3], 1), "3");
        assert_eq!(list_numbers(&[3, 7], 2), "3 and 7");
        assert_eq!(list_numbers(&[3, 7, 9], 12), "3, 7, 9 and 9 more");
    }
}
