//! A word of a command line.

use std::ops::Range;

/// A word as the program will see it, as far as the text tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandWord {
    /// The text without its quotes. An expansion has the value that the same line assigns, or else stands as it is written (`$HOME`).
    pub text: String,
    /// Whether the shell makes something of it at run time, so that its text is a guess: `*.c`, `~`, `{a,b}`, `$x`, `$(ls)`.
    pub is_expanded: bool,
    /// The range of commands whose output is in it.
    pub outputs: Range<usize>,
}

impl CommandWord {
    /// Makes a word that is its text.
    pub fn literal(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }

    /// Makes one word of several, with spaces between them.
    pub fn join(words: &[Self]) -> Self {
        let texts: Vec<_> = words.iter().map(|word| word.text.as_str()).collect();
        Self {
            is_expanded: words.iter().any(|word| word.is_expanded),
            ..Self::literal(&texts.join(" "))
        }
    }

    /// Adds a character that stands without quotes. `[` makes a pattern only with its `]`, since it also names a program.
    pub(super) fn push_bare(&mut self, character: char) {
        self.is_expanded |= "*?]{".contains(character) || character == '~' && self.text.is_empty();
        self.text.push(character);
    }

    /// Adds the text of `$'…'`, of which only `\xHH` is known. Any escape makes it a guess.
    pub(super) fn push_ansi(&mut self, text: &str) {
        self.is_expanded |= text.contains('\\');
        let mut pieces = text.split("\\x");
        self.text.extend(pieces.next());
        for piece in pieces {
            let (digits, rest) = piece.split_at_checked(2).unwrap_or((piece, ""));
            let byte = u8::from_str_radix(digits, 16).ok();
            self.text.extend(byte.map(char::from));
            self.text.push_str(rest);
        }
    }
}
