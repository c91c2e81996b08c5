//! Finds the lines of a file nearest to text that is not in it, and says why they differ.
//!
//! The work is linear in the file. The file is folded once (blanks, case and typographic look-alikes are removed), and
//! the wanted text is looked for in the folded file. If it is not there, equal lines vote for a place. If none are
//! equal, single lines are ranked by common letter triples, and at last by letter pairs. No step compares every line
//! with every other. Beyond [`MAX_SEARCHED_BYTES`] a file is searched in its first part only, and the answer says so.

mod difference;
mod distortion;
mod fold;

use std::collections::HashMap;
use std::fmt;

pub use difference::TextDifference;
use fold::{FoldOptions, FoldedLines, FoldedMatch, unfold_offset};

use super::lines::{self, TextLine};

/// The most bytes of a file in which near matches are looked for.
pub const MAX_SEARCHED_BYTES: usize = 16 << 20;

const MAX_CANDIDATES: usize = 3;
const MAX_SHOWN_LINES: usize = 10;
const MAX_SHOWN_CHARACTERS: usize = 160;
/// Occurrences of a line beyond this many are no evidence for a place (`}` is everywhere).
const MAX_VOTES_PER_LINE: usize = 256;
const MAX_RANKED_LINE_BYTES: usize = 4096;
/// The share of common letter triples from which two lines are called alike.
const LIKENESS: f32 = 0.45;
/// The share of common letter pairs from which two lines are called alike. In a short line, one other letter leaves few triples.
const PAIR_LIKENESS: f32 = 0.5;

/// The places of a file that come nearest to some text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NearMatches {
    /// The nearest places, best first; empty when no line is close enough to the text.
    pub candidates: Vec<NearMatch>,
    /// Whether only the first [`MAX_SEARCHED_BYTES`] were searched.
    pub is_partial: bool,
}

/// One place that resembles the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMatch {
    /// The 1-based number of the first line.
    pub first_line: usize,
    /// The 1-based number of the last line.
    pub last_line: usize,
    /// The first lines as the file has them, long ones cut.
    pub shown: Vec<String>,
    /// The reasons for which they are not the text, the most telling first.
    pub differences: Vec<TextDifference>,
    /// The first line that differs, if lines can be compared one by one.
    pub first_difference: Option<FirstDifference>,
}

/// The first difference between two texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstDifference {
    /// The 1-based line of the file.
    pub line: usize,
    /// The 1-based character in that line.
    pub column: usize,
    /// The line as asked for, quoted.
    pub wanted: String,
    /// The line as the file has it, quoted; absent past the end of the file.
    pub found: Option<String>,
}

/// Finds the places of `content` nearest to `wanted`, at most three.
pub fn find_nearest(content: &[u8], wanted: &str) -> NearMatches {
    let searched = &content[..content.len().min(MAX_SEARCHED_BYTES)];
    let search = NearMatchSearch::new(searched, wanted);
    NearMatches {
        candidates: search.find_near_matches(),
        is_partial: searched.len() < content.len(),
    }
}

struct NearMatchSearch<'a> {
    lines: Vec<TextLine<'a>>,
    folded: FoldedLines,
    wanted: String,
    wanted_lines: Vec<&'a str>,
}

impl<'a> NearMatchSearch<'a> {
    fn new(content: &'a [u8], wanted: &'a str) -> Self {
        let lines: Vec<TextLine<'_>> = lines::split_lines(content).collect();
        let trimmed = wanted.strip_suffix('\n').unwrap_or(wanted);
        NearMatchSearch {
            folded: FoldedLines::new(lines.iter().map(|line| line.text)),
            lines,
            wanted: wanted.replace("\r\n", "\n"),
            wanted_lines: trimmed
                .split('\n')
                .map(|line| line.strip_suffix('\r').unwrap_or(line))
                .collect(),
        }
    }

    fn find_near_matches(&self) -> Vec<NearMatch> {
        // From the most to the least exact search: the first one that finds anything also explains the difference best.
        let steps: [fn(&Self) -> Vec<NearMatch>; 5] = [
            |search| search.find_folded(&search.wanted),
            Self::find_by_distortion,
            Self::find_by_votes,
            |search| search.find_by_likeness(3, LIKENESS),
            |search| search.find_by_likeness(2, PAIR_LIKENESS),
        ];
        let found = steps.iter().map(|step| step(self)).find(|found| !found.is_empty());
        found.unwrap_or_default()
    }

    fn find_by_distortion(&self) -> Vec<NearMatch> {
        for (form, disguise) in distortion::undo_distortions(&self.wanted) {
            let mut found = self.find_folded(&form);
            found
                .iter_mut()
                .for_each(|candidate| candidate.differences.insert(0, disguise.clone()));
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    fn find_folded(&self, wanted: &str) -> Vec<NearMatch> {
        let matches = self
            .folded
            .find_matches(&FoldOptions::ALL.fold_text(wanted), MAX_CANDIDATES);
        matches.into_iter().map(|at| self.explain_match(at, wanted)).collect()
    }

    fn explain_match(&self, at: FoldedMatch, wanted: &str) -> NearMatch {
        let found = self.cut_region(at, wanted);
        let at_end = at.last_line + 1 == self.lines.len() && self.lines[at.last_line].ending == lines::LineEnding::None;
        let differences = difference::explain_differences(wanted, &found, at_end);
        // Lines that differ only in the final newline look the same when they are quoted.
        let is_visible = !differences.contains(&TextDifference::NoFinalNewline);
        NearMatch {
            first_difference: first_difference(wanted, &found, at.first_line).filter(|_| is_visible),
            differences,
            ..self.show_lines(at.first_line, at.last_line)
        }
    }

    /// Cuts the matched text out of the file, with the blanks around it if `wanted` has blanks there.
    fn cut_region(&self, at: FoldedMatch, wanted: &str) -> String {
        let mut text: Vec<String> = self.lines[at.first_line..=at.last_line]
            .iter()
            .map(|line| String::from_utf8_lossy(line.text).into_owned())
            .collect();
        let last = text.last_mut().expect("a match has at least one line");
        let end = unfold_offset(last, at.take);
        let keep = if wanted.ends_with(char::is_whitespace) {
            blanks_after(last, end)
        } else {
            end
        };
        last.truncate(keep);
        let start = unfold_start(&text[0], at.skip);
        let skip = if wanted.starts_with(char::is_whitespace) {
            blanks_before(&text[0], start)
        } else {
            start
        };
        text[0].drain(..skip);
        let mut region = text.join("\n");
        if wanted.ends_with('\n') && self.lines[at.last_line].ending != lines::LineEnding::None {
            region.push('\n');
        }
        region
    }

    /// Finds places by vote: each line of the file that equals a wanted line votes for the start of the whole text.
    fn find_by_votes(&self) -> Vec<NearMatch> {
        let wanted: Vec<String> = self
            .wanted_lines
            .iter()
            .map(|line| FoldOptions::ALL.fold_text(line))
            .collect();
        let mut places: HashMap<&str, (Vec<usize>, usize)> = HashMap::new();
        for (index, line) in wanted.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
            let (indices, _) = places.entry(line).or_default();
            // A line that the wanted text repeats may vote for few places only, to keep the work linear.
            if indices.len() < 4 {
                indices.push(index);
            }
        }
        let mut votes: HashMap<usize, usize> = HashMap::new();
        for index in 0..self.folded.line_count() {
            let line = self.folded.line(index);
            let Some((indices, hits)) = places.get_mut(line) else {
                continue;
            };
            *hits += 1;
            if *hits > MAX_VOTES_PER_LINE {
                continue;
            }
            for start in indices.iter().filter_map(|offset| index.checked_sub(*offset)) {
                // Longer lines are better evidence, but one very long line must not outvote all others.
                *votes.entry(start).or_default() += line.len().min(40);
            }
        }
        // A lone bracket in common does not make two places alike.
        let enough = wanted.iter().map(String::len).sum::<usize>().min(8);
        let ranked = votes.into_iter().filter(|(_, weight)| *weight >= enough);
        self.choose_best(ranked.map(|(start, weight)| (start, weight as f32)).collect())
    }

    /// Ranks lines by the groups of `width` letters that they share with the longest wanted line.
    fn find_by_likeness(&self, width: usize, enough: f32) -> Vec<NearMatch> {
        let folded = self
            .wanted_lines
            .iter()
            .map(|line| FoldOptions::ALL.fold_text(line))
            .enumerate();
        // The longest line tells most about the place; of several, the first.
        let Some((offset, wanted)) = folded.max_by_key(|(index, line)| (line.len(), usize::MAX - index)) else {
            return Vec::new();
        };
        let groups = LetterGroups::from_line(&wanted, width);
        let alike = (0..self.folded.line_count()).filter_map(|index| {
            let likeness = groups.likeness_to(self.folded.line(index));
            let start = index.checked_sub(offset)?;
            (likeness >= enough).then_some((start, likeness))
        });
        self.choose_best(alike.collect())
    }

    fn choose_best(&self, mut ranked: Vec<(usize, f32)>) -> Vec<NearMatch> {
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let Some((_, top)) = ranked.first().copied() else {
            return Vec::new();
        };
        let mut starts: Vec<usize> = Vec::new();
        for (start, weight) in ranked {
            let apart = starts
                .iter()
                .all(|other| other.abs_diff(start) >= self.wanted_lines.len());
            // A place that overlaps a better one, or is less than half as good as the best, would only distract.
            if apart && weight * 2.0 >= top && starts.len() < MAX_CANDIDATES {
                starts.push(start);
            }
        }
        starts.into_iter().map(|start| self.explain_place(start)).collect()
    }

    fn explain_place(&self, start: usize) -> NearMatch {
        let last = (start + self.wanted_lines.len()).min(self.lines.len()).max(start + 1) - 1;
        NearMatch {
            differences: vec![TextDifference::Text],
            first_difference: self.first_differing_line(start),
            ..self.show_lines(start, last)
        }
    }

    fn first_differing_line(&self, start: usize) -> Option<FirstDifference> {
        let count = self.wanted_lines.len();
        let at = (0..count).find(|index| !self.line_agrees(start, *index))?;
        let line = self.lines.get(start + at);
        let found = line.map(|line| String::from_utf8_lossy(line.text));
        let wanted = self.wanted_lines[at];
        // Text that begins inside a line is compared without the indentation of that line.
        let begins_inside = at == 0 && !wanted.starts_with(char::is_whitespace);
        let mut difference = compare_lines(wanted, found.as_deref(), start + at);
        if let Some(found) = found.filter(|_| begins_inside) {
            let inner = found.trim_start();
            difference = compare_lines(wanted, Some(inner), start + at);
            difference.column += found.chars().count() - inner.chars().count();
        }
        Some(difference)
    }

    /// Returns whether the wanted line `index` agrees with its line of the file if the text begins at line `start`.
    ///
    /// The first wanted line may begin inside a line of the file, and the last may end inside one.
    fn line_agrees(&self, start: usize, index: usize) -> bool {
        let Some(line) = self.lines.get(start + index) else {
            return false;
        };
        let wanted = self.wanted_lines[index].as_bytes();
        match (index == 0, index + 1 == self.wanted_lines.len()) {
            (true, false) => line.text.ends_with(wanted),
            (false, true) => line.text.starts_with(wanted),
            _ => line.text == wanted,
        }
    }

    fn show_lines(&self, first: usize, last: usize) -> NearMatch {
        let shown = self.lines[first..=last].iter().take(MAX_SHOWN_LINES);
        NearMatch {
            first_line: first + 1,
            last_line: last + 1,
            shown: shown
                .map(|line| lines::show_line(line.text, MAX_SHOWN_CHARACTERS))
                .collect(),
            differences: Vec::new(),
            first_difference: None,
        }
    }
}

/// Returns the byte of `line` at which a match begins after `folded` folded bytes: its first visible character, after
/// any characters that fold to nothing.
fn unfold_start(line: &str, folded: usize) -> usize {
    let start = unfold_offset(line, folded);
    let visible = line[start..].char_indices().find(|(_, character)| {
        let mut scratch = String::new();
        FoldOptions::ALL.push_folded(&mut scratch, *character);
        !scratch.is_empty()
    });
    visible.map_or(start, |(at, _)| start + at)
}

fn blanks_before(line: &str, at: usize) -> usize {
    line[..at].trim_end().len()
}

fn blanks_after(line: &str, at: usize) -> usize {
    line.len() - line[at..].trim_start().len()
}

fn first_difference(wanted: &str, found: &str, first_line: usize) -> Option<FirstDifference> {
    let mut wanted_lines = wanted.split('\n');
    let mut found_lines = found.split('\n');
    let mut index = first_line;
    loop {
        match (wanted_lines.next(), found_lines.next()) {
            (Some(wanted), found) if found != Some(wanted) => {
                return Some(compare_lines(wanted, found, index));
            }
            (Some(_), Some(_)) => index += 1,
            _ => return None,
        }
    }
}

fn compare_lines(wanted: &str, found: Option<&str>, index: usize) -> FirstDifference {
    let other = found.unwrap_or_default();
    let common = wanted.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    // In a long line, the equal beginning is cut so that the quoted part shows the difference.
    let from = common.saturating_sub(60);
    FirstDifference {
        line: index + 1,
        column: common + 1,
        wanted: quote_from(wanted, from),
        found: found.map(|found| quote_from(found, from)),
    }
}

fn quote_from(text: &str, from: usize) -> String {
    let cut: String = text.chars().skip(from).take(MAX_SHOWN_CHARACTERS + 1).collect();
    let quoted = lines::quote_line(&cut, MAX_SHOWN_CHARACTERS);
    if from == 0 { quoted } else { format!("…{quoted}") }
}

/// The groups of two or three letters next to each other in a line, as a bitmap of their hashes.
struct LetterGroups {
    width: usize,
    bits: Vec<u64>,
    count: usize,
}

impl LetterGroups {
    fn from_line(line: &str, width: usize) -> Self {
        let bytes = &line.as_bytes()[..line.len().min(MAX_RANKED_LINE_BYTES)];
        let mut groups = LetterGroups {
            width,
            bits: vec![0; 1024],
            count: (bytes.len() + 1).saturating_sub(width),
        };
        for group in bytes.windows(width) {
            let slot = LetterGroups::hash_slot(group);
            groups.bits[slot / 64] |= 1 << (slot % 64);
        }
        groups
    }

    fn hash_slot(group: &[u8]) -> usize {
        let value = group.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
        // Multiplicative hashing: the upper 16 bits select one of the 65,536 bits.
        (value.wrapping_mul(0x9E37_79B1) >> 16) as usize
    }

    /// Returns twice the common groups over all groups: 1 for equal lines, 0 for strangers.
    fn likeness_to(&self, line: &str) -> f32 {
        let bytes = &line.as_bytes()[..line.len().min(MAX_RANKED_LINE_BYTES)];
        let count = (bytes.len() + 1).saturating_sub(self.width);
        if count == 0 || self.count == 0 {
            return 0.0;
        }
        let has = |slot: usize| self.bits[slot / 64] >> (slot % 64) & 1 == 1;
        let common = bytes
            .windows(self.width)
            .filter(|group| has(LetterGroups::hash_slot(group)))
            .count();
        // A line that repeats one group finds it each time, and may count more groups than the wanted line has.
        2.0 * common.min(self.count) as f32 / (count + self.count) as f32
    }
}

impl fmt::Display for NearMatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.candidates.is_empty() {
            f.write_str("No line of the file is close enough to show.")?;
        } else {
            f.write_str("Nearest in the file:")?;
        }
        for candidate in &self.candidates {
            write!(f, "\n{candidate}")?;
        }
        if self.is_partial {
            write!(
                f,
                "\n(Only the first {} MiB were searched for near matches.)",
                MAX_SEARCHED_BYTES >> 20
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for NearMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first_line == self.last_line {
            write!(f, "line {}", self.first_line)?;
        } else {
            write!(f, "lines {}-{}", self.first_line, self.last_line)?;
        }
        let reasons: Vec<String> = self.differences.iter().map(TextDifference::to_string).collect();
        let verb = if self.first_line == self.last_line {
            "differs"
        } else {
            "differ"
        };
        if !reasons.is_empty() {
            write!(f, ", which {verb} in {}", reasons.join(", and in "))?;
        }
        f.write_str(":")?;
        for (index, line) in self.shown.iter().enumerate() {
            write!(f, "\n{:>6}\t{line}", self.first_line + index)?;
        }
        let count = self.last_line + 1 - self.first_line;
        if count > self.shown.len() {
            write!(f, "\n      \t… {} more line(s)", count - self.shown.len())?;
        }
        match &self.first_difference {
            Some(difference) => write!(f, "\n{difference}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for FirstDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  first difference at line {}, column {}:", self.line, self.column)?;
        writeln!(f, "    asked for: {}", self.wanted)?;
        match &self.found {
            Some(found) => write!(f, "    the file:  {found}"),
            None => f.write_str("    the file:  ends before it"),
        }
    }
}
