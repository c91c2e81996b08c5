//! A word of a command line.

/// A word as the program will see it, as far as the text tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// The text without its quotes. Where something is expanded: with the values that the same text assigns, and otherwise as it is
    /// written (`$HOME`).
    pub text: String,
    /// How sure the text is.
    pub kind: WordKind,
    /// The commands, by their place, whose output is in it.
    pub outputs: Vec<usize>,
}

/// How sure the text of a word is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum WordKind {
    /// The word is its text.
    #[default]
    Literal,
    /// The shell matches it with files, or puts a home in: `*.c`, `~`, `{a,b}`.
    Pattern,
    /// It holds a variable or the output of a command, so that its text is a guess.
    Expanded,
}

impl Word {
    /// A word that is its text.
    pub fn literal(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }

    /// Whether the word is its text.
    pub fn is_literal(&self) -> bool {
        self.kind == WordKind::Literal
    }

    pub(super) fn becomes(&mut self, kind: WordKind) {
        self.kind = self.kind.max(kind);
    }

    /// Adds text that stands without quotes: a backslash keeps the next character, and a few characters are patterns.
    pub(super) fn push_bare(&mut self, text: &str) {
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                '\\' => self.text.extend(characters.next()),
                '*' | '?' | '[' | '{' => self.push_pattern(character),
                '~' if self.text.is_empty() => self.push_pattern(character),
                _ => self.text.push(character),
            }
        }
    }

    fn push_pattern(&mut self, character: char) {
        self.becomes(WordKind::Pattern);
        self.text.push(character);
    }

    /// Adds text that stands in double quotes, where a backslash keeps only what else would mean something.
    pub(super) fn push_quoted(&mut self, text: &str) {
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let escaped = characters.next_if(|next| character == '\\' && "$`\"\\".contains(*next));
            self.text.push(escaped.unwrap_or(character));
        }
    }

    /// Adds what stands in `$'…'`.
    pub(super) fn push_ansi(&mut self, text: &str) {
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            rest = &rest[character.len_utf8()..];
            match character {
                '\\' => rest = self.push_escape(rest),
                _ => self.text.push(character),
            }
        }
    }

    /// Adds what the escape at the head of `text` (after its backslash) stands for, and gives what comes after.
    fn push_escape<'a>(&mut self, text: &'a str) -> &'a str {
        let Some(character) = text.chars().next() else {
            self.text.push('\\');
            return text;
        };
        let rest = &text[character.len_utf8()..];
        let plain = match character {
            'a' => '\x07',
            'b' => '\x08',
            'e' | 'E' => '\x1b',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'x' => return self.push_number(rest, 16, 2),
            'u' => return self.push_number(rest, 16, 4),
            'U' => return self.push_number(rest, 16, 8),
            '0'..='7' => return self.push_number(text, 8, 3),
            other => other,
        };
        self.text.push(plain);
        rest
    }

    fn push_number<'a>(&mut self, text: &'a str, radix: u32, most: usize) -> &'a str {
        let digits = text
            .bytes()
            .take(most)
            .take_while(|byte| char::from(*byte).is_digit(radix));
        let (number, rest) = text.split_at(digits.count());
        let value = u32::from_str_radix(number, radix).ok().and_then(char::from_u32);
        self.text.extend(value);
        rest
    }

    /// The words that a shell makes of it: an expansion without quotes falls apart where its value has spaces.
    pub(super) fn split(self) -> Vec<Self> {
        if !self.text.contains(SPLIT) {
            return vec![self];
        }
        let parts = self.text.split(SPLIT).filter(|part| !part.is_empty());
        parts
            .map(|part| Self {
                text: part.to_owned(),
                ..self.clone()
            })
            .collect()
    }
}

/// Stands where a word falls apart; no text of a command holds a NUL.
pub(super) const SPLIT: char = '\0';
