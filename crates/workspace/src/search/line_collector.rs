//! Collects the matches of one file as lines with their context.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};

use super::first_results::FileMatches;
use crate::GrepMatch;

/// The limits on the matches of one file, and the context of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineLimits {
    /// The most matches that are kept; the others are only counted.
    pub(super) keep: usize,
    /// The most matches that a file may have; the search of the file ends at the next one.
    pub(super) max: Option<u64>,
    /// Lines of context before a match.
    pub(super) before: usize,
    /// Lines of context after a match.
    pub(super) after: usize,
    /// The most bytes that the kept matches may take; the first match is kept whatever its size.
    pub(super) max_bytes: usize,
    /// Whether each line carries the ranges of its matches.
    pub(super) spans: bool,
}

/// The bytes that a kept line takes besides its text.
const LINE_OVERHEAD: usize = 32;

/// Receives the matches that a searcher finds in one file.
#[derive(Debug)]
pub(super) struct LineCollector<'a> {
    matcher: &'a RegexMatcher,
    wanted: LineLimits,
    /// The matches so far; their path is left empty.
    pub(super) matches: FileMatches,
    /// Whether a match over the maximum was met.
    pub(super) is_cut: bool,
    /// Whether a NUL byte was met, at which the search ended.
    pub(super) is_binary: bool,
    /// The last lines that may be context of the next match, and whether bytes were replaced in each.
    recent: VecDeque<(String, bool)>,
    /// The index of the first match that may still lack context after it.
    unfinished: usize,
}

impl<'a> LineCollector<'a> {
    pub(super) fn new(matcher: &'a RegexMatcher, wanted: LineLimits) -> Self {
        Self {
            matcher,
            wanted,
            matches: FileMatches::default(),
            is_cut: false,
            is_binary: false,
            recent: VecDeque::new(),
            unfinished: 0,
        }
    }

    /// Counts a match and keeps it if it is wanted; returns `false` if the file has its most matches already.
    fn add_match(&mut self, line_number: u64, bytes: &[u8]) -> bool {
        if self.wanted.max.is_some_and(|max| self.matches.count >= max) {
            self.is_cut = true;
            return false;
        }
        self.matches.count += 1;
        if self.matches.found.len() < self.wanted.keep {
            let (text, is_lossy) = line_text(bytes);
            let spans = if self.wanted.spans {
                self.matches_in(&text)
            } else {
                Vec::new()
            };
            let before = self.recent.iter().map(|(line, _)| line.len() + LINE_OVERHEAD);
            self.matches.bytes += text.len() + LINE_OVERHEAD + before.sum::<usize>();
            self.matches.found.push(GrepMatch {
                path: String::new(),
                line_number,
                line: text,
                before: self.recent.iter().map(|(line, _)| line.clone()).collect(),
                after: Vec::new(),
                lossy: is_lossy || self.recent.iter().any(|(_, is_lossy)| *is_lossy),
                spans,
            });
        }
        true
    }

    /// Returns the ranges of `text` that the pattern matches.
    fn matches_in(&self, text: &str) -> Vec<Range<usize>> {
        let mut spans = Vec::new();
        // A pattern that cannot be searched was refused before.
        let _ = self.matcher.find_iter(text.as_bytes(), |found| {
            spans.push(found.start()..found.end());
            true
        });
        spans
    }

    /// Remembers lines as context of the matches before and after them; a match is context of its neighbours, too.
    fn add_context(&mut self, bytes: &[u8], newest: usize) {
        let has_context = self.wanted.before > 0 || self.wanted.after > 0;
        let is_complete = self.matches.found.len() >= self.wanted.keep && self.unfinished == self.matches.found.len();
        if !has_context || is_complete {
            return;
        }
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (line, is_lossy) = line_text(line);
            for earlier in &mut self.matches.found[self.unfinished..newest] {
                if earlier.after.len() < self.wanted.after {
                    earlier.after.push(line.clone());
                    self.matches.bytes += line.len() + LINE_OVERHEAD;
                    earlier.lossy |= is_lossy;
                }
            }
            self.recent.push_back((line, is_lossy));
            if self.recent.len() > self.wanted.before {
                self.recent.pop_front();
            }
        }
        let is_finished = |found: &GrepMatch| found.after.len() >= self.wanted.after;
        self.unfinished += self.matches.found[self.unfinished..newest]
            .iter()
            .take_while(|found| is_finished(found))
            .count();
    }

    /// If the kept matches take too many bytes, keeps only those with complete context, or the first alone, and no
    /// later ones.
    fn fit_into_limit(&mut self) {
        if self.matches.is_full || self.matches.bytes <= self.wanted.max_bytes {
            return;
        }
        // Without context after it, a match is complete as soon as it is found.
        let complete = match self.wanted.after {
            0 => self.matches.found.len(),
            _ => self.unfinished,
        };
        self.matches.is_full = true;
        self.wanted.keep = complete.max(1);
        self.matches.found.truncate(self.wanted.keep);
    }

    fn add_match_with_context(&mut self, line_number: u64, bytes: &[u8]) -> bool {
        let earlier = self.matches.found.len();
        let goes_on = self.add_match(line_number, bytes);
        if goes_on {
            // The match is context of those before it, but not of itself.
            self.add_context(bytes, earlier);
            self.fit_into_limit();
        }
        goes_on
    }

    /// Splits a block of adjacent matches; matches that share a line stay together.
    fn add_block(&mut self, matched: &SinkMatch<'_>) -> io::Result<bool> {
        let block = matched.bytes_range_in_buffer();
        let mut line_number = matched.line_number().unwrap_or(1);
        let mut at = block.start;
        for lines in self.line_ranges(matched.buffer(), block)? {
            line_number += count_lines(&matched.buffer()[at..lines.start]);
            at = lines.start;
            if !self.add_match_with_context(line_number, &matched.buffer()[lines]) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the ranges of whole lines that the matches in `block` span.
    fn line_ranges(&self, buffer: &[u8], block: Range<usize>) -> io::Result<Vec<Range<usize>>> {
        let mut spans: Vec<Range<usize>> = Vec::new();
        let mut from = block.start;
        while from < block.end {
            let found = self
                .matcher
                .find_at(&buffer[..block.end], from)
                .map_err(io::Error::other)?;
            let Some(found) = found else { break };
            let lines = whole_lines(buffer, &block, found.start()..found.end());
            match spans.last_mut() {
                Some(last) if lines.start < last.end => last.end = last.end.max(lines.end),
                _ => spans.push(lines),
            }
            // An empty match must not be found again and again.
            from = found.end().max(found.start() + 1);
        }
        if spans.is_empty() {
            spans.push(block);
        }
        Ok(spans)
    }
}

/// Returns the range of the lines within `block` that `found` touches.
fn whole_lines(buffer: &[u8], block: &Range<usize>, found: Range<usize>) -> Range<usize> {
    let start =
        memchr::memrchr(b'\n', &buffer[block.start..found.start]).map_or(block.start, |at| block.start + at + 1);
    // A match that ends with a newline does not touch the next line.
    let last = found.end.saturating_sub(1).max(found.start);
    let end = memchr::memchr(b'\n', &buffer[last..block.end]).map_or(block.end, |at| last + at + 1);
    start..end
}

fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Returns the text of a line without its ending, and whether bytes were replaced in it.
fn line_text(line: &[u8]) -> (String, bool) {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match std::str::from_utf8(line) {
        Ok(text) => (text.to_owned(), false),
        Err(_) => (String::from_utf8_lossy(line).into_owned(), true),
    }
}

impl Sink for LineCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, matched: &SinkMatch<'_>) -> io::Result<bool> {
        // An inverted search reports its lines one by one, even with a pattern that spans lines.
        if searcher.multi_line_with_matcher(self.matcher) && !searcher.invert_match() {
            return self.add_block(matched);
        }
        Ok(self.add_match_with_context(matched.line_number().unwrap_or(1), matched.bytes()))
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        self.add_context(context.bytes(), self.matches.found.len());
        self.fit_into_limit();
        Ok(true)
    }

    fn context_break(&mut self, _searcher: &Searcher) -> io::Result<bool> {
        // Lines are missing here, so the lines on one side are not context of matches on the other.
        self.recent.clear();
        self.unfinished = self.matches.found.len();
        Ok(true)
    }

    fn binary_data(&mut self, _searcher: &Searcher, _offset: u64) -> io::Result<bool> {
        self.is_binary = true;
        Ok(true)
    }
}
