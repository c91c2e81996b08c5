//! A prepared search by content: the compiled pattern, and one searcher for each thread.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use garret_core::path::escape_unprintable;
use garret_core::{DirectoryHandle, EntryKind, EntryPath, Error, ErrorKind, HardLinkedFile, Result};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};

use super::first_results::FirstResults;
use super::grep::name_matches;
use super::line_collector::{LineCollector, LineLimits};
use super::path_glob::FileSelection;
use super::walk::{WalkEntry, WalkVisitor, is_gone};
use super::{GrepOutput, GrepRequest, MAX_SKIPPED, show_path};
use crate::file_access::FileAccess;
use crate::hard_links::HardLinkCheck;
use crate::{GrepMatch, SkippedPath};

/// The most bytes of a compiled pattern. It is bounded because patterns come from a model.
const MAX_REGEX_BYTES: usize = 16 << 20;
/// The most bytes that a thread caches for the pattern while it searches.
const MAX_REGEX_CACHE_BYTES: usize = 64 << 20;
const MAX_PATH_BYTES: usize = 4096;

/// Takes the matches of each file as soon as it was searched; called on the threads that search.
#[derive(Clone)]
pub struct GrepSink(Arc<dyn Fn(Vec<GrepMatch>) + Send + Sync>);

impl GrepSink {
    /// Creates a sink that calls `take` with the matches of one file at a time.
    pub fn new(take: impl Fn(Vec<GrepMatch>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }
}

impl fmt::Debug for GrepSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GrepSink").finish_non_exhaustive()
    }
}

/// The parts of a search that all threads share.
pub(super) struct GrepPlan {
    matcher: RegexMatcher,
    /// The files to search; `None` if the request names one file.
    selection: Option<FileSelection>,
    wanted: LineLimits,
    is_multi_line: bool,
    is_inverted: bool,
    max_file_bytes: u64,
    /// The length of the path from the root of the storage to the root of the view, its slash included.
    base: usize,
    /// The check for files with several names, which the policy may deny.
    hard_links: HardLinkCheck,
    sink: Option<GrepSink>,
    pub(super) gather: FirstResults,
    pub(super) totals: GrepTotals,
}

/// The counts of all threads.
#[derive(Debug, Default)]
pub(super) struct GrepTotals {
    pub(super) matches: AtomicU64,
    pub(super) files: AtomicU64,
    pub(super) is_cut: AtomicBool,
    pub(super) skipped: Mutex<Vec<SkippedPath>>,
    pub(super) skipped_count: AtomicU64,
}

impl GrepPlan {
    /// Compiles the pattern and the globs. `is_file` says whether `path` names one file.
    pub(super) fn from_request(
        request: &GrepRequest,
        files: &FileAccess,
        is_file: bool,
        sink: Option<GrepSink>,
    ) -> Result<Self> {
        let by_file = request.output != GrepOutput::Content;
        let limit = request.offset.saturating_add(request.limit);
        let selection = FileSelection::parse(&request.include, &request.exclude)?;
        Ok(Self {
            matcher: build_matcher(request)?,
            selection: (!is_file).then_some(selection),
            wanted: LineLimits {
                keep: if by_file { 0 } else { limit },
                max: request.max_matches_per_file,
                before: request.before,
                after: request.after,
                max_bytes: request.max_bytes,
                // Lines of an inverted search have no match to mark.
                spans: request.with_spans && !request.invert,
            },
            is_multi_line: request.multiline,
            is_inverted: request.invert,
            max_file_bytes: request.max_file_bytes,
            base: files.view.base_length(),
            hard_links: files.remembering_hard_links().hard_links(),
            sink,
            gather: FirstResults::new(limit, request.max_bytes, by_file),
            totals: GrepTotals::default(),
        })
    }

    /// Returns whether the opened file may not be read, because another name of it is denied.
    fn is_denied(&self, path: &[u8], file: Option<HardLinkedFile>) -> Result<bool> {
        let path = || EntryPath::from_bytes(path.to_vec());
        if self.hard_links.may_be_denied(file) {
            self.hard_links.is_denied_file(&path(), file)
        } else {
            Ok(false)
        }
    }

    pub(super) fn new_visitor(&self) -> GrepVisitor<'_> {
        GrepVisitor {
            plan: self,
            searcher: self.build_searcher(),
            skipped: Vec::new(),
            skipped_count: 0,
        }
    }

    fn build_searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(b'\0'))
            .multi_line(self.is_multi_line)
            .invert_match(self.is_inverted)
            .before_context(self.wanted.before)
            .after_context(self.wanted.after)
            .line_number(true)
            .build()
    }
}

fn build_matcher(request: &GrepRequest) -> Result<RegexMatcher> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .fixed_strings(request.literal)
        .case_insensitive(request.ignore_case)
        .case_smart(request.smart_case)
        .word(request.whole_word)
        .size_limit(MAX_REGEX_BYTES)
        .dfa_size_limit(MAX_REGEX_CACHE_BYTES);
    // A pattern with a newline in it is then refused, with the hint to set `multiline`.
    if !request.multiline {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&request.pattern).map_err(|error| wrong_pattern(&error))
}

fn wrong_pattern(error: &grep_regex::Error) -> Error {
    // The text shows the pattern, in several lines; control characters of the pattern must not reach a terminal.
    let text = error.to_string();
    let text = text.lines().map(escape_unprintable).collect::<Vec<_>>().join("\n");
    let hint = match error.kind() {
        grep_regex::ErrorKind::NotAllowed(_) => "set `multiline` to true to search across lines",
        _ => "to search for the text as it is, set `literal` to true; a backslash makes a special character ordinary",
    };
    Error::invalid(format!(
        "`pattern` is not a regular expression that can be searched: {text}"
    ))
    .hint(hint)
}

/// Searches files on one thread.
pub(super) struct GrepVisitor<'a> {
    plan: &'a GrepPlan,
    searcher: Searcher,
    skipped: Vec<SkippedPath>,
    skipped_count: u64,
}

impl GrepVisitor<'_> {
    fn skip_path(&mut self, path: &[u8], reason: &'static str) {
        self.skipped_count += 1;
        self.skipped.push(SkippedPath::new(&path[self.plan.base..], reason));
        // Sorted only now and then: that bounds the list at little cost for each file.
        if self.skipped.len() >= 2 * MAX_SKIPPED {
            keep_first(&mut self.skipped);
        }
    }

    fn skip_for_error(&mut self, path: &[u8], error: &Error) {
        match error.kind() {
            // As if the walk had come after the file was deleted.
            _ if is_gone(error) => {}
            ErrorKind::Unsupported => self.skip_path(path, "special_file"),
            kind => self.skip_path(path, kind.as_str()),
        }
    }

    fn is_selected(&self, spot: WalkEntry<'_>) -> bool {
        let takes = |selection: &FileSelection| selection.takes_file(spot.relative_path(), spot.name());
        self.plan.selection.as_ref().is_none_or(takes)
    }

    /// Searches one file, and counts and keeps its matches.
    fn search_file(&mut self, path: &[u8], name: &[u8], directory: &dyn DirectoryHandle) -> Result<()> {
        let file = directory.open_file(name)?;
        // Asked of the opened file: another file may have got this name since the directory was listed.
        if self.plan.is_denied(path, file.hard_linked)? {
            return Ok(());
        }
        if file.size > self.plan.max_file_bytes {
            self.skip_path(path, ErrorKind::TooLarge.as_str());
            return Ok(());
        }
        let plan = self.plan;
        let mut wanted = plan.wanted;
        // A file that is not among the first results is still searched, because the counts are of all files.
        if !plan.gather.wants_file(path) {
            wanted.keep = 0;
        }
        let mut lines = LineCollector::new(&plan.matcher, wanted);
        self.searcher
            .search_reader(&plan.matcher, file.content, &mut lines)
            .map_err(storage_error)?;
        if lines.is_binary {
            self.skip_path(path, "binary");
        }
        self.keep_matches(path, lines);
        Ok(())
    }

    fn keep_matches(&self, path: &[u8], lines: LineCollector<'_>) {
        let totals = &self.plan.totals;
        if lines.is_cut {
            totals.is_cut.store(true, Ordering::Relaxed);
        }
        let matches = lines.matches;
        if matches.count == 0 {
            return;
        }
        totals.files.fetch_add(1, Ordering::Relaxed);
        totals.matches.fetch_add(matches.count, Ordering::Relaxed);
        if let Some(GrepSink(take)) = self.plan.sink.as_ref().filter(|_| !matches.found.is_empty()) {
            let path = show_path(&path[self.plan.base..]);
            take(name_matches(path, matches.found.clone()).collect());
        }
        self.plan.gather.add_file(path, matches);
    }
}

/// Returns the error of the storage that an I/O error carries, or else one made from its kind.
fn storage_error(error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied => ErrorKind::Denied,
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Unavailable,
    };
    match error.into_inner().map(|inner| inner.downcast::<Error>()) {
        Some(Ok(error)) => *error,
        _ => Error::new(kind, "the file could not be read to its end"),
    }
}

fn keep_first(skipped: &mut Vec<SkippedPath>) {
    skipped.sort_unstable();
    skipped.truncate(MAX_SKIPPED);
}

impl WalkVisitor for GrepVisitor<'_> {
    fn enter_directory(&mut self, spot: WalkEntry<'_>, _directory: &dyn DirectoryHandle) -> bool {
        let enters = |selection: &FileSelection| selection.enters_directory(spot.relative_path(), spot.name());
        if !self.plan.selection.as_ref().is_none_or(enters) {
            return false;
        }
        match unusable_reason(spot) {
            Some(reason) => {
                self.skip_path(spot.path, reason);
                false
            }
            None => true,
        }
    }

    fn visit_entry(&mut self, spot: WalkEntry<'_>, directory: &dyn DirectoryHandle) {
        // The target of a link is searched under its own path, or lies outside.
        if spot.kind == EntryKind::Symlink || !self.is_selected(spot) {
            return;
        }
        if let Some(reason) = unusable_reason(spot) {
            return self.skip_path(spot.path, reason);
        }
        if let Err(error) = self.search_file(spot.path, spot.name(), directory) {
            self.skip_for_error(spot.path, &error);
        }
    }

    fn report_failure(&mut self, path: &[u8], error: &Error) {
        self.skip_for_error(path, error);
    }
}

/// Returns the reason for which an entry cannot be searched, whatever its content is.
fn unusable_reason(spot: WalkEntry<'_>) -> Option<&'static str> {
    if spot.kind == EntryKind::Other {
        return Some("special_file");
    }
    if spot.path.len() > MAX_PATH_BYTES {
        return Some("path_too_long");
    }
    std::str::from_utf8(spot.name()).is_err().then_some("name_not_utf8")
}

impl Drop for GrepVisitor<'_> {
    /// Hands over the files that were skipped on this thread.
    fn drop(&mut self) {
        let totals = &self.plan.totals;
        totals.skipped_count.fetch_add(self.skipped_count, Ordering::Relaxed);
        let mut all = totals.skipped.lock().expect("no holder panics");
        all.append(&mut self.skipped);
        keep_first(&mut all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_a_pattern_without_what_moves_a_terminal() {
        let request = GrepRequest {
            pattern: "a\u{1b}]0;title\u{7}\nb\u{9b}31m\u{202e}(".into(),
            multiline: true,
            ..GrepRequest::default()
        };
        let text = build_matcher(&request).unwrap_err().to_string();
        assert!(!text.contains(|c: char| c != '\n' && c.is_control()), "{text:?}");
        assert!(!text.contains('\u{202e}'), "{text:?}");
        // It still shows which pattern it was, line by line.
        assert!(text.contains("a\\u{1b}]0;title\\u{7}\n"), "{text:?}");
        assert!(text.contains("b\\u{9b}31m\\u{202e}("), "{text:?}");
    }
}
