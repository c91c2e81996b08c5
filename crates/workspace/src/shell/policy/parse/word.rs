//! A word of a command line.

/// A word as the program will see it, as far as the text tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandWord {
    /// The text without its quotes. An expansion has the value that the same line assigns, or else stands as it is written (`$HOME`).
    pub text: String,
    /// How sure the text is.
    pub kind: WordKind,
    /// The commands, by their index, whose output is in it.
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

/// Marks the end of a field in a word that the shell will split; no text of a command holds a NUL.
const FIELD_END: char = '\0';

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
            kind: words.iter().map(|word| word.kind).max().unwrap_or_default(),
            ..Self::literal(&texts.join(" "))
        }
    }

    /// Whether the word is its text.
    pub fn is_literal(&self) -> bool {
        self.kind == WordKind::Literal
    }

    /// Adds a character that stands without quotes. `[` makes a pattern only with its `]`, since it also names a program.
    pub(super) fn push_bare(&mut self, character: char) {
        if "*?]{".contains(character) || character == '~' && self.text.is_empty() {
            self.kind = self.kind.max(WordKind::Pattern);
        }
        self.text.push(character);
    }

    /// Adds the value of an expansion, which falls apart at its spaces unless it is in quotes.
    pub(super) fn push_value(&mut self, value: &str, is_quoted: bool) {
        let is_end = |character: char| character.is_whitespace() && !is_quoted;
        self.text.push_str(&value.replace(is_end, &FIELD_END.to_string()));
    }

    /// Adds the text of `$'…'`. An escape that is not `\xHH` or octal makes it a guess.
    pub(super) fn push_ansi(&mut self, text: &str) {
        let mut pieces = text.split('\\');
        self.text.extend(pieces.next());
        for piece in pieces {
            let (skipped, radix, most) = if piece.starts_with('x') { (1, 16, 2) } else { (0, 8, 3) };
            let digits = piece[skipped..].bytes().take(most);
            let end = skipped + digits.take_while(|digit| char::from(*digit).is_digit(radix)).count();
            let number = u32::from_str_radix(&piece[skipped..end], radix);
            match number.ok().and_then(char::from_u32) {
                Some(character) => self.text.push(character),
                None => self.kind = WordKind::Expanded,
            }
            self.text.push_str(&piece[end..]);
        }
    }

    /// Returns the words that the shell makes of it.
    pub(super) fn split(self) -> Vec<Self> {
        if !self.text.contains(FIELD_END) {
            return vec![self];
        }
        let fields = self.text.split(FIELD_END).filter(|field| !field.is_empty());
        let word = |field: &str| Self {
            text: field.to_owned(),
            ..self.clone()
        };
        fields.map(word).collect()
    }
}
