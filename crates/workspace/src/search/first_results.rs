//! Keeps the first results in the order of the paths, in whatever order the threads find them.
//!
//! Everything is searched and counted, so the counts are exact; only results that can still be among the first are
//! kept. Once enough results are kept, files after the last of them are only counted. Enough is a number of results, or
//! the bytes that they take.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::GrepMatch;

/// The matches of one file.
#[derive(Debug, Default)]
pub(super) struct FileMatches {
    /// The kept matches, without their path: it is added to those that are shown.
    pub(super) found: Vec<GrepMatch>,
    /// The number of all matches.
    pub(super) count: u64,
    /// The bytes that the kept matches take, their context included.
    pub(super) bytes: usize,
    /// Whether some matches are not kept because they would take too many bytes.
    pub(super) is_full: bool,
}

/// Collects the results of all threads.
#[derive(Debug)]
pub(super) struct FirstResults {
    limit: usize,
    max_bytes: usize,
    /// Whether a file counts as one result; otherwise each of its matches does.
    by_file: bool,
    kept: Mutex<KeptResults>,
    has_cut: AtomicBool,
}

#[derive(Debug, Default)]
struct KeptResults {
    files: BTreeMap<Vec<u8>, FileMatches>,
    results: usize,
    bytes: usize,
    /// The path from which on no file is among the first.
    cut: Option<Vec<u8>>,
}

impl FirstResults {
    /// Keeps the first `limit` results, and of those only as many as fit in `max_bytes`, but always the first file.
    pub(super) fn new(limit: usize, max_bytes: usize, by_file: bool) -> Self {
        Self {
            limit,
            max_bytes,
            by_file,
            kept: Mutex::default(),
            has_cut: AtomicBool::new(false),
        }
    }

    /// Returns whether the results of the file at `path` can be among the first.
    pub(super) fn wants_file(&self, path: &[u8]) -> bool {
        // Most searches never cut anything, and need not take the lock.
        if !self.has_cut.load(Ordering::Relaxed) {
            return true;
        }
        let kept = self.kept.lock().expect("no holder panics");
        kept.cut.as_deref().is_none_or(|cut| path < cut)
    }

    /// Adds the matches of a file, and drops results that are no longer among the first.
    pub(super) fn add_file(&self, path: &[u8], file: FileMatches) {
        let mut kept = self.kept.lock().expect("no holder panics");
        if kept.cut.as_deref().is_some_and(|cut| path >= cut) {
            return;
        }
        kept.results += self.result_count(&file);
        kept.bytes += file.bytes;
        let is_full = file.is_full;
        kept.files.insert(path.to_vec(), file);
        // Matches of this file are missing, so results of any later file would not be the next ones.
        if is_full {
            self.cut_at(&mut kept, next_path(path));
        }
        self.trim_to_limit(&mut kept);
        self.shrink_to_bytes(&mut kept);
    }

    /// Drops the files from `cut` on, and takes no more of them.
    fn cut_at(&self, kept: &mut KeptResults, cut: Vec<u8>) {
        for file in kept.files.split_off(&cut).into_values() {
            kept.results -= self.result_count(&file);
            kept.bytes -= file.bytes;
        }
        kept.cut = Some(cut);
        self.has_cut.store(true, Ordering::Relaxed);
    }

    /// Drops the last files while all of them together take too many bytes.
    fn shrink_to_bytes(&self, kept: &mut KeptResults) {
        while kept.bytes > self.max_bytes
            && kept.files.len() > 1
            && let Some((last, _)) = kept.files.last_key_value()
        {
            let last = last.clone();
            self.cut_at(kept, last);
        }
    }

    fn trim_to_limit(&self, kept: &mut KeptResults) {
        while let Some(last) = kept.files.last_entry()
            && kept.results >= self.limit
        {
            let rest = kept.results - self.result_count(last.get());
            // Without the last file there are too few results: it stays, and the files after it are not needed.
            if rest < self.limit {
                kept.cut = Some(next_path(last.key()));
                self.has_cut.store(true, Ordering::Relaxed);
                return;
            }
            let removed = last.remove();
            kept.results = rest;
            kept.bytes -= removed.bytes;
        }
    }

    fn result_count(&self, file: &FileMatches) -> usize {
        if self.by_file { 1 } else { file.found.len() }
    }

    /// Returns the files in the order of their paths.
    pub(super) fn into_files(self) -> BTreeMap<Vec<u8>, FileMatches> {
        self.kept.into_inner().expect("no holder panics").files
    }
}

/// Returns the next path in byte order.
fn next_path(path: &[u8]) -> Vec<u8> {
    [path, b"\0"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(matches: u64) -> FileMatches {
        let line = |line_number| GrepMatch {
            path: String::new(),
            line_number,
            line: String::new(),
            before: Vec::new(),
            after: Vec::new(),
            lossy: false,
            spans: Vec::new(),
        };
        FileMatches {
            found: (1..=matches).map(line).collect(),
            count: matches,
            bytes: 10,
            is_full: false,
        }
    }

    fn paths(gather: FirstResults) -> Vec<String> {
        let files = gather.into_files().into_keys();
        files.map(|path| String::from_utf8(path).unwrap()).collect()
    }

    #[test]
    fn the_first_in_order_are_kept_in_whatever_order_they_come() {
        for order in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
            let gather = FirstResults::new(3, 1000, false);
            for path in order {
                gather.add_file(path.as_bytes(), file(2));
            }
            assert!(gather.wants_file(b"aa"));
            assert!(!gather.wants_file(b"bb"));
            assert_eq!(paths(gather), ["a", "b"], "{order:?}");
        }
    }

    #[test]
    fn what_takes_too_much_room_is_let_go_from_the_end_in_whatever_order_it_comes() {
        for order in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
            let gather = FirstResults::new(100, 25, false);
            for path in order {
                gather.add_file(path.as_bytes(), file(1));
            }
            assert!(!gather.wants_file(b"c"));
            assert_eq!(paths(gather), ["a", "b"], "{order:?}");
        }
    }

    #[test]
    fn nothing_behind_a_file_that_was_too_much_is_among_the_first() {
        for order in [["a", "b"], ["b", "a"]] {
            let gather = FirstResults::new(100, 1000, false);
            for path in order {
                let is_full = path == "a";
                gather.add_file(path.as_bytes(), FileMatches { is_full, ..file(1) });
            }
            assert_eq!(paths(gather), ["a"], "{order:?}");
        }
    }

    #[test]
    fn files_count_as_one_where_files_are_wanted() {
        let gather = FirstResults::new(2, 1000, true);
        for path in ["c", "a", "b"] {
            gather.add_file(path.as_bytes(), file(5));
        }
        assert_eq!(paths(gather), ["a", "b"]);
    }

    #[test]
    fn everything_is_wanted_until_enough_is_there() {
        let gather = FirstResults::new(3, 1000, false);
        gather.add_file(b"a", file(2));
        assert!(gather.wants_file(b"z"));
        gather.add_file(b"z", file(1));
        assert!(!gather.wants_file(b"zz"));
        assert!(gather.wants_file(b"y"));
    }
}
