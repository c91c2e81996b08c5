//! Merges three texts into one, by line: a change that only one side made is taken, and a region that both sides
//! changed differently is a conflict.
//!
//! Changes that touch each other count as overlapping, as they do in git: without an unchanged line between them,
//! nobody can say that they are independent.

use std::ops::Range;

use similar::{MergeRegion, MergeResolution, TextMerge};

/// The resolution of a region that both sides changed differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictFavour<'a> {
    /// Both versions are kept, between markers.
    Markers(Labels<'a>),
    /// Our version is taken.
    Ours,
    /// Their version is taken.
    Theirs,
}

/// The names of the sides in conflict markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Labels<'a> {
    /// Our side.
    pub ours: &'a str,
    /// The common ancestor of both sides.
    pub base: &'a str,
    /// Their side.
    pub theirs: &'a str,
}

/// The result of a merge of three texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedText {
    /// The merged text, with its conflicts resolved as requested.
    pub text: Vec<u8>,
    /// The number of regions that both sides changed differently.
    pub conflicts: usize,
}

/// Merges the changes that `ours` and `theirs` made to `base`. A conflict is no failure: it is resolved by `favour`,
/// and counted.
pub fn merge_texts(base: &[u8], ours: &[u8], theirs: &[u8], favour: ConflictFavour<'_>) -> MergedText {
    let merge = TextMerge::from_lines(base, ours, theirs);
    let mut output = MergeOutput {
        merge: &merge,
        text: Vec::with_capacity(ours.len().max(theirs.len())),
        // Markers become lines of the file, so they end as its lines do.
        ending: if ours.windows(2).any(|pair| pair == b"\r\n") {
            b"\r\n"
        } else {
            b"\n"
        },
    };
    for region in merge.regions() {
        match region.resolution() {
            MergeResolution::Theirs => output.push_lines(region.theirs_range(), TextMerge::theirs_line),
            MergeResolution::Conflict => output.push_conflict(region, favour),
            _ => output.push_lines(region.ours_range(), TextMerge::ours_line),
        }
    }
    MergedText {
        text: output.text,
        conflicts: merge.conflict_count(),
    }
}

/// Returns a line of one side of a merge.
type SideLine<'m, 't> = fn(&'m TextMerge<'t, 't, 't, [u8]>, usize) -> Option<&'m [u8]>;

/// The merged text while it is being written.
struct MergeOutput<'m, 't> {
    merge: &'m TextMerge<'t, 't, 't, [u8]>,
    text: Vec<u8>,
    /// The line ending of the markers.
    ending: &'static [u8],
}

impl<'m, 't> MergeOutput<'m, 't> {
    fn push_lines(&mut self, lines: Range<usize>, side: SideLine<'m, 't>) {
        let lines = lines.filter_map(|at| side(self.merge, at));
        lines.for_each(|line| self.text.extend_from_slice(line));
    }

    fn push_conflict(&mut self, region: &MergeRegion, favour: ConflictFavour<'_>) {
        let labels = match favour {
            ConflictFavour::Ours => return self.push_lines(region.ours_range(), TextMerge::ours_line),
            ConflictFavour::Theirs => return self.push_lines(region.theirs_range(), TextMerge::theirs_line),
            ConflictFavour::Markers(labels) => labels,
        };
        self.push_marker("<<<<<<<", labels.ours);
        self.push_lines(region.ours_range(), TextMerge::ours_line);
        self.push_marker("|||||||", labels.base);
        self.push_lines(region.base_range(), TextMerge::base_line);
        self.push_marker("=======", "");
        self.push_lines(region.theirs_range(), TextMerge::theirs_line);
        self.push_marker(">>>>>>>", labels.theirs);
    }

    /// Adds a marker on a line of its own.
    fn push_marker(&mut self, mark: &str, label: &str) {
        // The last line of a side may have no ending; the marker would become part of it.
        if !self.text.is_empty() && !self.text.ends_with(b"\n") {
            self.text.extend_from_slice(self.ending);
        }
        self.text.extend_from_slice(mark.as_bytes());
        if !label.is_empty() {
            self.text.push(b' ');
            // A line break in a label would split the marker into two lines.
            self.text.extend(
                label
                    .bytes()
                    .map(|byte| if byte.is_ascii_control() { b' ' } else { byte }),
            );
        }
        self.text.extend_from_slice(self.ending);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABELS: Labels<'static> = Labels {
        ours: "mine",
        base: "base",
        theirs: "try",
    };

    fn merged(base: &str, ours: &str, theirs: &str, favour: ConflictFavour<'_>) -> (String, usize) {
        let merged = merge_texts(base.as_bytes(), ours.as_bytes(), theirs.as_bytes(), favour);
        (String::from_utf8(merged.text).unwrap(), merged.conflicts)
    }

    #[test]
    fn changes_apart_from_each_other_are_both_taken() {
        let (text, conflicts) = merged(
            "1\n2\n3\n4\n",
            "one\n2\n3\n4\n",
            "1\n2\n3\nfour\n",
            ConflictFavour::Ours,
        );
        assert_eq!((text.as_str(), conflicts), ("one\n2\n3\nfour\n", 0));
    }

    #[test]
    fn a_conflict_shows_all_three_between_markers() {
        let (text, conflicts) = merged(
            "1\n2\n3\n",
            "1\ntwo\n3\n",
            "1\nzwei\n3\n",
            ConflictFavour::Markers(LABELS),
        );
        assert_eq!(conflicts, 1);
        assert_eq!(
            text,
            "1\n<<<<<<< mine\ntwo\n||||||| base\n2\n=======\nzwei\n>>>>>>> try\n3\n"
        );
    }

    #[test]
    fn a_side_that_is_favoured_wins_only_where_both_changed() {
        let (base, ours, theirs) = ("1\n2\n3\n4\n", "1\ntwo\n3\n4\n", "1\nzwei\n3\nfour\n");
        assert_eq!(
            merged(base, ours, theirs, ConflictFavour::Ours),
            ("1\ntwo\n3\nfour\n".into(), 1)
        );
        assert_eq!(
            merged(base, ours, theirs, ConflictFavour::Theirs),
            ("1\nzwei\n3\nfour\n".into(), 1)
        );
    }

    #[test]
    fn markers_end_as_the_lines_of_the_file_do_and_a_last_line_gets_an_ending() {
        let (text, _) = merged("a\r\nb", "a\r\nc", "a\r\nd", ConflictFavour::Markers(LABELS));
        assert_eq!(
            text,
            "a\r\n<<<<<<< mine\r\nc\r\n||||||| base\r\nb\r\n=======\r\nd\r\n>>>>>>> try\r\n"
        );
    }

    #[test]
    fn bytes_that_are_not_utf8_pass_through() {
        let merged = merge_texts(
            b"\xe9\n2\n3\n",
            b"\xe9!\n2\n3\n",
            b"\xe9\n2\n\xe8\n",
            ConflictFavour::Ours,
        );
        assert_eq!(
            (merged.text.as_slice(), merged.conflicts),
            (&b"\xe9!\n2\n\xe8\n"[..], 0)
        );
    }
}
