//! Output for a terminal: colour, and text without anything that the terminal would obey.
//!
//! Names, configuration, patterns and the content of files may hold control characters, with which a terminal can be
//! made to hide lines or to type for its user. On a terminal they are shown escaped. The output of a command of `garret
//! run` is not changed.

#![allow(
    clippy::disallowed_methods,
    reason = "whether to use colour is said by the environment"
)]

use std::borrow::Cow;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;

/// When colour is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

static IS_COLORED: AtomicBool = AtomicBool::new(false);

/// Decides about colour for this run.
pub(crate) fn set_color(choice: ColorChoice) {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    let environment = ColorEnvironment {
        is_terminal: std::io::stdout().is_terminal(),
        is_dumb: std::env::var_os("TERM").is_some_and(|term| term == "dumb"),
        is_refused: std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
        is_forced: is_set("CLICOLOR_FORCE"),
    };
    IS_COLORED.store(wants_color(choice, &environment), Ordering::Relaxed);
}

/// Whether the output of this run has colour.
pub(crate) fn is_colored() -> bool {
    IS_COLORED.load(Ordering::Relaxed)
}

/// The facts about the terminal and the environment that decide about colour.
struct ColorEnvironment {
    is_terminal: bool,
    is_dumb: bool,
    is_refused: bool,
    is_forced: bool,
}

fn wants_color(choice: ColorChoice, environment: &ColorEnvironment) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if environment.is_refused => false,
        ColorChoice::Auto => environment.is_forced || environment.is_terminal && !environment.is_dumb,
    }
}

/// The style of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextStyle {
    Bold,
    Red,
    BoldRed,
    Green,
    Yellow,
    Magenta,
    Cyan,
}

impl TextStyle {
    fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Red => "31",
            Self::BoldRed => "1;31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Magenta => "35",
            Self::Cyan => "36",
        }
    }
}

/// Escapes `text` and gives it a style.
pub(crate) fn paint(style: TextStyle, text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!("\x1b[{}m{}\x1b[0m", style.code(), escape_text(text))
    }
}

/// Escapes everything in `text` that a terminal would obey; line ends and tabs stay.
pub(crate) fn escape_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        // A carriage return alone would overwrite the line; before a newline it is harmless.
        let ends_line = c == '\r' && rest.peek() == Some(&'\n');
        match c {
            '\n' | '\t' => escaped.push(c),
            _ if ends_line => escaped.push(c),
            c => escaped.push_str(&garret::path::escape_unprintable(c.encode_utf8(&mut [0; 4]))),
        }
    }
    escaped
}

/// Escapes everything in a line of JSON that a terminal would obey, in the way of JSON.
pub(crate) fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        // Characters that do not print stand within strings, and all of them have four digits.
        match garret::path::escape_unprintable(c.encode_utf8(&mut [0; 4])) {
            Cow::Borrowed(_) => escaped.push(c),
            Cow::Owned(_) => escaped.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    escaped
}

/// Escapes a stream of bytes that comes in pieces.
#[derive(Debug, Default)]
pub(crate) struct EscapedStream {
    /// The end of the previous piece, if it may be a part of a character or of a line end.
    carry: Vec<u8>,
}

impl EscapedStream {
    /// Takes the next piece, and returns the escaped bytes that can be printed now.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.carry.extend_from_slice(piece);
        // A character may be cut between two pieces; its first bytes wait for the rest.
        let whole = self.carry.len() - unfinished_length(&self.carry);
        let rest = self.carry.split_off(whole);
        let bytes = std::mem::replace(&mut self.carry, rest);
        escape_bytes(&bytes)
    }

    /// Returns the bytes that were held back.
    pub(crate) fn finish(self) -> Vec<u8> {
        escape_bytes(&self.carry)
    }
}

/// Counts the bytes at the end that may be the beginning of a longer character or of a line end.
fn unfinished_length(bytes: &[u8]) -> usize {
    if bytes.last() == Some(&b'\r') {
        return 1;
    }
    // A character has at most four bytes in UTF-8, so at most three of an unfinished one are here.
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    let starts = tail.iter().rposition(|byte| *byte >= 0xc0);
    let Some(start) = starts else { return 0 };
    let length = match tail[start] {
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    };
    let held = tail.len() - start;
    if held < length { held } else { 0 }
}

/// Escapes bytes for a terminal; a byte that is not text is written as `\xNN`.
pub(crate) fn escape_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        escaped.extend_from_slice(escape_text(chunk.valid()).as_bytes());
        for byte in chunk.invalid() {
            escaped.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_gets_through() {
        assert_eq!(escape_text("a\x1b[2Jb\tc\nd\r\ne\rf"), "a\\u{1b}[2Jb\tc\nd\r\ne\\rf");
        assert_eq!(
            escape_text("x\u{9b}31my\u{7f}\u{202e}z"),
            "x\\u{9b}31my\\u{7f}\\u{202e}z"
        );
        assert_eq!(escape_text("größe ✓"), "größe ✓");
        assert_eq!(paint(TextStyle::Red, "\x1b[8m"), "\x1b[31m\\u{1b}[8m\x1b[0m");
    }

    #[test]
    fn json_stays_json() {
        let value = serde_json::json!({"a": "x\u{9b}31m\u{7f}\u{202e}\x1b é"});
        let escaped = escape_json(&value.to_string());
        assert!(!escaped.contains(char::is_control), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }

    #[test]
    fn a_stream_is_escaped_however_it_is_cut() {
        let bytes = "é\u{9b}1m ✓ 𝄞\x1b]0;x\x07 a\r\nb\r c".as_bytes();
        let bytes = [bytes, b"\x9b\xff\xf0\x9f"].concat();
        let whole = "é\\u{9b}1m ✓ 𝄞\\u{1b}]0;x\\u{7} a\r\nb\\r c\\x9b\\xff\\xf0\\x9f";
        for size in 1..bytes.len() {
            let mut stream = EscapedStream::default();
            let mut escaped: Vec<u8> = bytes.chunks(size).flat_map(|piece| stream.push(piece)).collect();
            escaped.extend(stream.finish());
            assert_eq!(String::from_utf8_lossy(&escaped), whole, "in pieces of {size}");
        }
    }

    #[test]
    fn colour_is_for_terminals_unless_somebody_says_otherwise() {
        let environment = |is_terminal, is_dumb, is_refused, is_forced| ColorEnvironment {
            is_terminal,
            is_dumb,
            is_refused,
            is_forced,
        };
        let auto = |environment| wants_color(ColorChoice::Auto, &environment);
        assert!(auto(environment(true, false, false, false)));
        assert!(!auto(environment(false, false, false, false)));
        assert!(!auto(environment(true, true, false, false)));
        assert!(!auto(environment(true, false, true, true)));
        assert!(auto(environment(false, false, false, true)));
        assert!(wants_color(
            ColorChoice::Always,
            &environment(false, false, true, false)
        ));
        assert!(!wants_color(ColorChoice::Never, &environment(true, false, false, true)));
    }
}
