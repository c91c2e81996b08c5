//! Folding: removes blanks, case and typography from text, so that two texts that differ only in looks compare equal.

/// The differences that folding removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoldOptions {
    pub(super) whitespace: bool,
    pub(super) case: bool,
    pub(super) look_alikes: bool,
}

impl FoldOptions {
    pub(super) const ALL: FoldOptions = FoldOptions {
        whitespace: true,
        case: true,
        look_alikes: true,
    };

    /// Folds `text` into a new string.
    pub(super) fn fold_text(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        text.chars().for_each(|character| self.push_folded(&mut out, character));
        out
    }

    /// Appends the folded form of one character, which may be empty.
    pub(super) fn push_folded(self, out: &mut String, character: char) {
        if character.is_ascii() {
            self.push_ascii(out, character);
        } else if let Some(plain) = plain_look_alike(character) {
            // A special space is treated as a look-alike before it is treated as a blank, so that the explanation names
            // it.
            if self.look_alikes {
                plain.chars().for_each(|plain| self.push_ascii(out, plain));
            } else {
                out.push(character);
            }
        } else if self.whitespace && character.is_whitespace() {
        } else if self.case {
            out.extend(character.to_lowercase());
        } else {
            out.push(character);
        }
    }

    fn push_ascii(self, out: &mut String, character: char) {
        if self.whitespace && character.is_ascii_whitespace() {
            return;
        }
        out.push(if self.case {
            character.to_ascii_lowercase()
        } else {
            character
        });
    }
}

/// Returns the plain ASCII text that a typographic character stands in for; empty for an invisible one.
pub(super) fn plain_look_alike(character: char) -> Option<&'static str> {
    Some(match character {
        '\u{2018}' | '\u{2019}' | '\u{201A}' | '\u{201B}' | '\u{2032}' | '\u{FF07}' => "'",
        '\u{201C}' | '\u{201D}' | '\u{201E}' | '\u{201F}' | '\u{2033}' | '\u{FF02}' => "\"",
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FE58}' | '\u{FE63}' | '\u{FF0D}' => "-",
        '\u{2026}' => "...",
        '\u{00A0}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => " ",
        '\u{00AD}' | '\u{200B}'..='\u{200D}' | '\u{2060}' | '\u{FEFF}' => "",
        '\u{FF08}' => "(",
        '\u{FF09}' => ")",
        '\u{FF0C}' => ",",
        '\u{FF1A}' => ":",
        '\u{FF1B}' => ";",
        _ => return None,
    })
}

/// A whole file in folded form, with the offset at which each of its lines begins.
pub(super) struct FoldedLines {
    text: String,
    starts: Vec<usize>,
}

impl FoldedLines {
    pub(super) fn new<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut folded = FoldedLines {
            text: String::new(),
            starts: Vec::new(),
        };
        for line in lines {
            folded.starts.push(folded.text.len());
            for character in String::from_utf8_lossy(line).chars() {
                FoldOptions::ALL.push_folded(&mut folded.text, character);
            }
        }
        folded
    }

    pub(super) fn line_count(&self) -> usize {
        self.starts.len()
    }

    /// Returns the folded text of one line.
    pub(super) fn line(&self, index: usize) -> &str {
        let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
        &self.text[self.starts[index]..end]
    }

    /// Finds folded text, which may span lines.
    pub(super) fn find_matches(&self, folded_needle: &str, limit: usize) -> Vec<FoldedMatch> {
        // Empty text, such as blanks alone in folded form, would match everywhere.
        if folded_needle.is_empty() {
            return Vec::new();
        }
        let matches = self.text.match_indices(folded_needle).take(limit);
        matches
            .map(|(at, found)| self.locate_match(at, at + found.len()))
            .collect()
    }

    fn locate_match(&self, start: usize, end: usize) -> FoldedMatch {
        let first_line = self.line_holding(start);
        // By its last byte: `end` itself may be the first byte of the next line.
        let last_line = self.line_holding(end - 1);
        FoldedMatch {
            first_line,
            skip: start - self.starts[first_line],
            last_line,
            take: end - self.starts[last_line],
        }
    }

    fn line_holding(&self, offset: usize) -> usize {
        // A line that folds to nothing begins at the same offset as the next line, which holds the byte.
        self.starts.partition_point(|start| *start <= offset) - 1
    }
}

/// A match of folded text; `skip` and `take` count folded bytes of the first and of the last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoldedMatch {
    pub(super) first_line: usize,
    pub(super) skip: usize,
    pub(super) last_line: usize,
    pub(super) take: usize,
}

/// Returns the byte of `line` that follows the first `folded` bytes of its folded form.
pub(super) fn unfold_offset(line: &str, folded: usize) -> usize {
    let mut scratch = String::new();
    for (at, character) in line.char_indices() {
        if scratch.len() >= folded {
            return at;
        }
        FoldOptions::ALL.push_folded(&mut scratch, character);
    }
    line.len()
}
