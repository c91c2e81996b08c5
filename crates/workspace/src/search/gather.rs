//! The first results in the order of the paths, whatever the order in which the threads bring them.
//!
//! Everything is searched and counted, so the counts are exact; what is kept is only what can still be among the first. Once enough is
//! kept, the files behind the last of it are counted and no more.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::lines::Found;

/// What one file gave.
#[derive(Debug)]
pub(super) struct FileFound {
    pub(super) found: Vec<Found>,
    pub(super) count: u64,
}

/// Collects what the threads find.
#[derive(Debug)]
pub(super) struct Gather {
    limit: usize,
    /// Whether a file counts as one result; each of its matches does otherwise.
    by_file: bool,
    kept: Mutex<Kept>,
    has_cut: AtomicBool,
}

#[derive(Debug, Default)]
struct Kept {
    files: BTreeMap<Vec<u8>, FileFound>,
    results: usize,
    /// No file from this path on is among the first.
    cut: Option<Vec<u8>>,
}

impl Gather {
    /// Keeps the first `limit` results.
    pub(super) fn new(limit: usize, by_file: bool) -> Self {
        Self {
            limit,
            by_file,
            kept: Mutex::default(),
            has_cut: AtomicBool::new(false),
        }
    }

    /// Whether the results of the file at `path` can be among the first.
    pub(super) fn wants(&self, path: &[u8]) -> bool {
        if !self.has_cut.load(Ordering::Relaxed) {
            return true;
        }
        let kept = self.kept.lock().expect("no holder panics");
        kept.cut.as_deref().is_none_or(|cut| path < cut)
    }

    /// Takes what a file gave, and lets go of what is not among the first any more.
    pub(super) fn add(&self, path: &[u8], file: FileFound) {
        let mut kept = self.kept.lock().expect("no holder panics");
        if kept.cut.as_deref().is_some_and(|cut| path >= cut) {
            return;
        }
        kept.results += self.weight(&file);
        kept.files.insert(path.to_vec(), file);
        self.trim(&mut kept);
    }

    fn trim(&self, kept: &mut Kept) {
        while let Some(last) = kept.files.last_entry()
            && kept.results >= self.limit
        {
            let rest = kept.results - self.weight(last.get());
            if rest < self.limit {
                // The next path in byte order.
                kept.cut = Some([last.key().as_slice(), b"\0"].concat());
                self.has_cut.store(true, Ordering::Relaxed);
                return;
            }
            last.remove();
            kept.results = rest;
        }
    }

    fn weight(&self, file: &FileFound) -> usize {
        if self.by_file { 1 } else { file.found.len() }
    }

    /// The files in the order of their paths.
    pub(super) fn finish(self) -> BTreeMap<Vec<u8>, FileFound> {
        self.kept.into_inner().expect("no holder panics").files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(matches: u64) -> FileFound {
        let line = |line_number| Found {
            line_number,
            text: String::new(),
            before: Vec::new(),
            after: Vec::new(),
            is_lossy: false,
        };
        FileFound {
            found: (1..=matches).map(line).collect(),
            count: matches,
        }
    }

    fn paths(gather: Gather) -> Vec<String> {
        let files = gather.finish().into_keys();
        files.map(|path| String::from_utf8(path).unwrap()).collect()
    }

    #[test]
    fn the_first_in_order_are_kept_in_whatever_order_they_come() {
        for order in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
            let gather = Gather::new(3, false);
            for path in order {
                gather.add(path.as_bytes(), file(2));
            }
            assert!(gather.wants(b"aa"));
            assert!(!gather.wants(b"bb"));
            assert_eq!(paths(gather), ["a", "b"], "{order:?}");
        }
    }

    #[test]
    fn files_count_as_one_where_files_are_wanted() {
        let gather = Gather::new(2, true);
        for path in ["c", "a", "b"] {
            gather.add(path.as_bytes(), file(5));
        }
        assert_eq!(paths(gather), ["a", "b"]);
    }

    #[test]
    fn everything_is_wanted_until_enough_is_there() {
        let gather = Gather::new(3, false);
        gather.add(b"a", file(2));
        assert!(gather.wants(b"z"));
        gather.add(b"z", file(1));
        assert!(!gather.wants(b"zz"));
        assert!(gather.wants(b"y"));
    }
}
