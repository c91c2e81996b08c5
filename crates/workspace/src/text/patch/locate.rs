//! Finds the place of the old lines of a hunk in a file, in time linear in both.

use std::collections::HashMap;

use super::HunkLine;
use crate::text::lines::{LineEnding, TextLine};

/// How well lines agree with the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineFit {
    /// They agree to the byte.
    Exact,
    /// They agree except for line endings.
    Loose,
}

/// The place of a hunk in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HunkPlace {
    /// One place, better than all others.
    At(usize, LineFit),
    /// Several places, equally good: the 0-based lines of the first few, and the number of all.
    Ambiguous(Vec<usize>, usize),
    /// No place at or after the floor, but one before it.
    BeforeFloor(usize),
    /// No place at all.
    Nowhere,
}

/// Returns how one line of a patch agrees with one of the file.
///
/// A patch that says "no newline" is held to it; one that says nothing matches the last line of a file either way.
pub(super) fn fit_line(wanted: &HunkLine, found: &TextLine<'_>) -> Option<LineFit> {
    if wanted.text != found.text {
        return None;
    }
    match (wanted.ending, found.ending) {
        (wanted, found) if wanted == found => Some(LineFit::Exact),
        (LineEnding::None, _) => None,
        _ => Some(LineFit::Loose),
    }
}

/// Returns how a block of lines agrees with the file at a place.
pub(super) fn fit_lines(old: &[&HunkLine], file: &[TextLine<'_>], at: usize) -> Option<LineFit> {
    let found = file.get(at..at.checked_add(old.len())?)?;
    let mut worst = LineFit::Exact;
    for (wanted, found) in old.iter().zip(found) {
        if fit_line(wanted, found)? == LineFit::Loose {
            worst = LineFit::Loose;
        }
    }
    Some(worst)
}

/// Finds the place at or after `floor` that is nearest to `guess`; without a guess, there must be only one.
pub(super) fn locate_lines(old: &[&HunkLine], file: &[TextLine<'_>], floor: usize, guess: Option<usize>) -> HunkPlace {
    // The usual case needs no search: the hunk fits at the line that it names.
    if let Some(at) = guess.filter(|at| *at >= floor && fit_lines(old, file, *at) == Some(LineFit::Exact)) {
        return HunkPlace::At(at, LineFit::Exact);
    }
    let fits = |at: usize| fit_lines(old, file, at).map(|fit| (at, fit));
    let all: Vec<(usize, LineFit)> = find_line_occurrences(old, file).into_iter().filter_map(fits).collect();
    let ahead = || all.iter().filter(|(at, _)| *at >= floor);
    // A place that agrees to the byte wins over one that is nearer but differs in line endings.
    let fit = if ahead().any(|(_, fit)| *fit == LineFit::Exact) {
        LineFit::Exact
    } else {
        LineFit::Loose
    };
    let best: Vec<usize> = ahead().filter(|(_, other)| *other == fit).map(|(at, _)| *at).collect();
    match (nearest_places(&best, guess).as_slice(), all.last()) {
        ([], None) => HunkPlace::Nowhere,
        ([], Some((at, _))) => HunkPlace::BeforeFloor(*at),
        ([at], _) => HunkPlace::At(*at, fit),
        (several, _) => HunkPlace::Ambiguous(several.iter().take(5).copied().collect(), several.len()),
    }
}

fn nearest_places(places: &[usize], guess: Option<usize>) -> Vec<usize> {
    let Some(guess) = guess else {
        return places.to_vec();
    };
    let distance = places.iter().map(|at| at.abs_diff(guess)).min();
    places
        .iter()
        .copied()
        .filter(|at| Some(at.abs_diff(guess)) == distance)
        .collect()
}

/// Finds every place where the texts agree, endings aside (Knuth, Morris and Pratt, over lines as numbers).
fn find_line_occurrences(old: &[&HunkLine], file: &[TextLine<'_>]) -> Vec<usize> {
    if old.is_empty() || old.len() > file.len() {
        return Vec::new();
    }
    // Each distinct line of the hunk gets a number, so that two lines compare in constant time.
    let mut ids: HashMap<&[u8], usize> = HashMap::new();
    let pattern: Vec<usize> = old
        .iter()
        .map(|line| {
            let next = ids.len() + 1;
            *ids.entry(&line.text).or_insert(next)
        })
        .collect();
    let fallback = border_lengths(&pattern);
    let mut found = Vec::new();
    let mut matched = 0;
    for (index, line) in file.iter().enumerate() {
        // 0 is the number of no line of the hunk.
        let id = ids.get(line.text).copied().unwrap_or(0);
        // After a whole match, too, the search goes on with the longest border: places may overlap.
        while matched > 0 && (matched == pattern.len() || pattern[matched] != id) {
            matched = fallback[matched - 1];
        }
        if pattern[matched] == id {
            matched += 1;
        }
        if matched == pattern.len() {
            found.push(index + 1 - pattern.len());
        }
    }
    found
}

/// Returns for each prefix the length of its longest border, the longest shorter prefix that also ends it.
fn border_lengths(pattern: &[usize]) -> Vec<usize> {
    let mut borders = vec![0; pattern.len()];
    let mut length = 0;
    for index in 1..pattern.len() {
        while length > 0 && pattern[index] != pattern[length] {
            length = borders[length - 1];
        }
        if pattern[index] == pattern[length] {
            length += 1;
        }
        borders[index] = length;
    }
    borders
}
