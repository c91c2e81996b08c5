//! Results of searches.

use std::ops::{Not, Range};

use schemars::JsonSchema;
use serde::Serialize;

/// The files found by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GlobResult {
    /// Their paths, in byte order; by time, the newest first.
    pub paths: Vec<String>,
    /// The `cursor` of the next page, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Those of `paths` that are shown in escaped form, because a name in them is not UTF-8; no tool can open them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub escaped: Vec<String>,
    /// Directories that could not be searched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedPath>,
    /// The paths that were not searched because of the limit `max_objects_scanned` of the storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<SearchCutoff>,
    /// Set if not every file was captured at this earlier point: the other files are missing.
    #[serde(skip_serializing_if = "Not::not")]
    pub incomplete: bool,
    /// The cursor after each path, for a caller that shows fewer paths.
    #[serde(skip)]
    pub cursors: Vec<String>,
}

impl GlobResult {
    /// Ends the page after `count` paths.
    pub fn shorten(&mut self, count: usize) {
        if count < self.paths.len() {
            self.next_cursor = count.checked_sub(1).and_then(|last| self.cursors.get(last).cloned());
            self.paths.truncate(count);
            self.escaped.retain(|path| self.paths.contains(path));
        }
    }
}

/// The result of a search by content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GrepResult {
    /// The matching lines, by path in byte order, then by line. Empty for the other outputs.
    pub matches: Vec<GrepMatch>,
    /// The files that have a match, where those were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
    /// The files that have a match and how many, where those were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Vec<FileCount>>,
    /// How many matches there are in all, shown or not; where `max_matches_per_file` cut a file, those over it are not counted.
    pub match_count: u64,
    /// How many files have a match, shown or not.
    pub file_count: u64,
    /// The files that were not searched, or not to their end, by path.
    pub skipped: Vec<SkippedPath>,
    /// How many were skipped, where that is more than `skipped` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped_count: Option<u64>,
    /// Whether there are results after these, or a file has more matches than `max_matches_per_file`.
    pub truncated: bool,
    /// The `offset` of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// The paths that were not searched because of the limit `max_objects_scanned` of the storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<SearchCutoff>,
    /// Set if not every file was captured at this earlier point: the other files are missing.
    #[serde(skip_serializing_if = "Not::not")]
    pub incomplete: bool,
}

/// A matching line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GrepMatch {
    /// The file.
    pub path: String,
    /// The number of the line, from 1; of the first one where a match spans several.
    pub line_number: u64,
    /// The line without its ending, or all lines that the match spans.
    pub line: String,
    /// The lines before it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// The lines after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// Set where the text is not UTF-8: what could not be read is `�`.
    #[serde(skip_serializing_if = "Not::not")]
    pub lossy: bool,
    /// The byte ranges of the matches in `line`, if they were requested.
    #[serde(skip)]
    #[schemars(skip)]
    pub spans: Vec<Range<usize>>,
}

/// How many matches a file has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileCount {
    /// The file.
    pub path: String,
    /// Its matches.
    pub count: u64,
}

/// A file or directory that a search left out although it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct SkippedPath {
    /// Its path; bytes that are not UTF-8 as `\xFF`.
    pub path: String,
    /// Why: `binary`, `too_large`, `special_file`, `name_not_utf8`, `path_too_long`, or the kind of the error that reading it gave.
    pub reason: &'static str,
}

/// The paths that a search did not look at because of a limit of the storage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchCutoff {
    /// Everything that comes after this path in byte order.
    pub after: String,
    /// The option that set the limit.
    pub reason: &'static str,
}
