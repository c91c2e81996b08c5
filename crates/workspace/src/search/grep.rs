//! Finding lines by their content, with ripgrep's searcher and Rust's regular expressions.
//!
//! A file that has a NUL byte is binary: matches before that byte count, the search of the file ends there, and the
//! result names the file. Text in UTF-16 with its mark is searched as text. `$` stands before the `\n` of a line, so a
//! line that ends in CRLF ends with `\r$`.

use std::sync::atomic::Ordering;

use garret_core::{EntryKind, Error, ErrorKind, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::grep_plan::{GrepPlan, GrepSink};
use super::path_glob::FileSelection;
use super::search_task::SearchScope;
use super::show_path;
use super::walk::WalkCoverage;
use crate::file_access::FileAccess;
use crate::view::WorkspaceView;
use crate::{FileCount, GrepMatch, GrepResult, Workspace};

/// The form of the answer to a search by content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrepOutput {
    /// The matching lines.
    #[default]
    Content,
    /// The files that have a match.
    #[serde(alias = "files_with_matches")]
    Files,
    /// The files that have a match, and how many each has.
    #[serde(alias = "count")]
    Counts,
}

/// A request to find lines by their content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepRequest {
    /// A Rust regular expression, or the text itself with `literal`.
    pub pattern: String,
    /// The file or directory to search. A file is searched whatever `include`, `exclude` and the ignore files say.
    pub path: String,
    /// Whether `pattern` is plain text.
    pub literal: bool,
    /// Whether upper and lower case are not distinguished.
    pub ignore_case: bool,
    /// Whether upper and lower case are not distinguished as long as the pattern has no upper case.
    pub smart_case: bool,
    /// Whether a match must begin and end at the border of a word.
    pub whole_word: bool,
    /// Whether the lines that do not match are wanted instead.
    pub invert: bool,
    /// Whether a match may span lines; `.` still does not match a newline unless the pattern says `(?s)`.
    pub multiline: bool,
    /// The number of lines to show before a match.
    pub before: usize,
    /// The number of lines to show after a match.
    pub after: usize,
    /// Globs of the files to search; empty for all. A glob without a slash matches names at any depth, one with a slash
    /// paths below `path`. They only narrow the search: an ignored file stays out.
    pub include: Vec<String>,
    /// Globs, read likewise, of the files and directories not to search; they win over `include`.
    pub exclude: Vec<String>,
    /// The most matches in one file; more set `truncated`.
    pub max_matches_per_file: Option<u64>,
    /// The most results: matches, or files.
    pub limit: usize,
    /// The number of results to leave out first, for a later page.
    pub offset: usize,
    /// The most bytes of lines that a search holds for its results, including their context and the results before
    /// `offset`. The results end there; if that is before `offset`, the search fails as `too_large`.
    pub max_bytes: usize,
    /// The largest size of a file to search; larger files are skipped and named.
    pub max_file_bytes: u64,
    /// Whether each line carries the ranges of its matches.
    pub with_spans: bool,
    /// The form of the answer.
    pub output: GrepOutput,
    /// Whether names that begin with a dot are searched.
    pub hidden: bool,
    /// Whether paths that ignore files leave out are searched.
    pub include_ignored: bool,
    /// Whether everything named `.git`, with its content, is searched.
    pub include_git: bool,
}

impl Default for GrepRequest {
    fn default() -> Self {
        Self {
            pattern: String::new(),
            path: String::new(),
            literal: false,
            ignore_case: false,
            smart_case: false,
            whole_word: false,
            invert: false,
            multiline: false,
            before: 0,
            after: 0,
            include: Vec::new(),
            exclude: Vec::new(),
            max_matches_per_file: None,
            limit: 1_000,
            offset: 0,
            max_bytes: usize::MAX,
            max_file_bytes: 64 << 20,
            with_spans: false,
            output: GrepOutput::Content,
            hidden: true,
            include_ignored: false,
            include_git: false,
        }
    }
}

impl Workspace {
    /// Finds lines by their content. Paths that the policy hides are left out and not named; binary, oversized, special
    /// and unreadable files are named. The counts cover everything that was searched.
    pub async fn grep(&self, request: GrepRequest) -> Result<GrepResult> {
        self.grep_with(request, None).await
    }

    /// Finds lines by their content as [`Workspace::grep`] does, and hands the matches of each file to the sink as soon
    /// as the file was searched, in no particular order. Matches of a file that cannot be among the first `limit` in
    /// path order may not be handed over.
    pub async fn grep_with(&self, request: GrepRequest, sink: Option<GrepSink>) -> Result<GrepResult> {
        let path = request.path.clone();
        let shown = |found: &GrepResult| found.matches.iter().map(|found| found.line.len() as u64).sum();
        self.run_operation("grep", &[&path], shown, self.files.find_by_content(request, sink))
            .await
    }
}

impl FileAccess {
    async fn find_by_content(&self, mut request: GrepRequest, sink: Option<GrepSink>) -> Result<GrepResult> {
        if request.limit == 0 || request.max_matches_per_file == Some(0) {
            return Err(Error::invalid("`limit` and `max_matches_per_file` must be at least 1"));
        }
        let path = request.path.clone();
        for glob in request.include.iter_mut().chain(&mut request.exclude) {
            *glob = self.glob_within(std::mem::take(glob), &path)?;
        }
        let place = self.search_target(&request.path).await?;
        let is_file = place.kind != EntryKind::Directory;
        let base = self.view.base_length();
        if let Some(most) = self.source.access_limits.max_grep_bytes_per_object {
            request.max_file_bytes = request.max_file_bytes.min(most);
        }
        let scope = SearchScope {
            coverage: WalkCoverage {
                hidden: request.hidden,
                include_ignored: request.include_ignored,
                include_git: request.include_git,
            },
            narrow: FileSelection::search_area(&request.include),
        };
        self.run_search(place, scope, move |search| {
            let plan = GrepPlan::from_request(&request, &search.files, is_file, sink)?;
            let (left_out, incomplete) = (search.left_out.clone(), search.is_incomplete());
            // Each visitor hands over its skipped files when it is dropped, so all must be dropped before the answer is
            // made.
            search.run_walk(|| plan.new_visitor()).map(drop)?;
            let found = GrepResult {
                left_out,
                incomplete,
                ..build_result(plan, &request, base)
            };
            check_offset(&found, &request)?;
            Ok(found)
        })
        .await
    }
}

impl WorkspaceView {
    /// Returns the length of the path from the root of the storage to the root of this view, its slash included.
    pub(super) fn base_length(&self) -> usize {
        match self.base.as_str().len() {
            0 => 0,
            length => length + 1,
        }
    }
}

fn build_result(plan: GrepPlan, request: &GrepRequest, base: usize) -> GrepResult {
    let GrepPlan { gather, totals, .. } = plan;
    let skipped = totals.skipped.into_inner().expect("no holder panics");
    let skipped_count = totals.skipped_count.into_inner();
    let mut found = GrepResult {
        match_count: totals.matches.load(Ordering::Relaxed),
        file_count: totals.files.load(Ordering::Relaxed),
        skipped_count: (skipped_count > skipped.len() as u64).then_some(skipped_count),
        skipped,
        ..GrepResult::default()
    };
    let files = gather
        .into_files()
        .into_iter()
        .map(|(path, file)| (show_path(&path[base..]), file));
    let results = match request.output {
        GrepOutput::Content => {
            let matches = files.flat_map(|(path, file)| name_matches(path, file.found));
            found.matches = take_page(matches, request);
            (found.matches.len(), found.match_count)
        }
        GrepOutput::Files => {
            let paths = take_page(files.map(|(path, _)| path), request);
            (found.files.insert(paths).len(), found.file_count)
        }
        GrepOutput::Counts => {
            let counts = files.map(|(path, file)| FileCount {
                path,
                count: file.count,
            });
            (found.counts.insert(take_page(counts, request)).len(), found.file_count)
        }
    };
    let (shown, all) = results;
    let end = request.offset.saturating_add(shown) as u64;
    found.next_offset = Some(end).filter(|end| *end < all && shown > 0);
    found.truncated = end < all || totals.is_cut.load(Ordering::Relaxed);
    found
}

/// Refuses an `offset` beyond the results that `max_bytes` has room for.
fn check_offset(found: &GrepResult, request: &GrepRequest) -> Result<()> {
    // An empty page would wrongly mean that there are no results after `offset`.
    let is_missing = found.matches.is_empty() && (request.offset as u64) < found.match_count;
    if request.output != GrepOutput::Content || !is_missing {
        return Ok(());
    }
    let message = format!(
        "the results before offset {} exceed the memory limit of a search",
        request.offset
    );
    Err(Error::new(ErrorKind::TooLarge, message)
        .hint("narrow the search by `path`, `include` or the pattern, or ask for fewer lines of context"))
}

fn take_page<T>(results: impl Iterator<Item = T>, request: &GrepRequest) -> Vec<T> {
    results.skip(request.offset).take(request.limit).collect()
}

/// Returns the matches of the file at `path`, with its path in each.
pub(super) fn name_matches(path: String, matches: Vec<GrepMatch>) -> impl Iterator<Item = GrepMatch> {
    matches.into_iter().map(move |found| GrepMatch {
        path: path.clone(),
        ..found
    })
}
