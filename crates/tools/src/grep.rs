//! `grep`: finds lines by their content.

use garret_core::path::{escape_unprintable, quote};
use garret_workspace::{GrepMatch, GrepOutput, GrepRequest, GrepResult, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{one_or_many, unless_empty};
use crate::point::{self, text_or_number};
use crate::text::{
    AnswerPage, cut_block, cut_line, format_count, group_digits, incomplete_note, left_out_note, skipped_note,
};
use crate::tool::{Tool, ToolOutput, ToolResult};
use crate::{Annotations, AnswerLimits};

/// The most lines of context around a match.
const MAX_CONTEXT: u64 = 50;
/// The most text that one search holds for its pages: far more than a page, and far less than the memory of a machine.
const MAX_HELD_BYTES: usize = 16 << 20;

pub(crate) struct GrepTool;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    /// Regular expression (Rust syntax).
    pattern: String,
    /// File or directory; default the root.
    #[serde(default)]
    path: String,
    /// `pattern` is plain text.
    literal: Option<bool>,
    ignore_case: Option<bool>,
    whole_word: Option<bool>,
    multiline: Option<bool>,
    /// Lines to show around each match.
    context: Option<u64>,
    before: Option<u64>,
    after: Option<u64>,
    /// Globs of files to search, such as `*.rs`.
    #[serde(default, deserialize_with = "one_or_many")]
    include: Vec<String>,
    /// Globs not to search.
    #[serde(default, deserialize_with = "one_or_many")]
    exclude: Vec<String>,
    /// Matching lines (default), file names, or matches per file.
    #[serde(default, deserialize_with = "unless_empty")]
    output: Option<GrepOutput>,
    limit: Option<u64>,
    /// Results to skip.
    offset: Option<u64>,
    /// Most matches of one file.
    max_matches_per_file: Option<u64>,
    /// Also what `.gitignore` excludes.
    include_ignored: Option<bool>,
    include_git: Option<bool>,
    /// Past state: snapshot label, change or time.
    #[serde(default, deserialize_with = "text_or_number")]
    at: Option<String>,
}

impl Tool for GrepTool {
    type Arguments = Arguments;
    type Data = GrepResult;

    const NAME: &'static str = "grep";
    const SHORT: &'static str = "grep";
    const TITLE: &'static str = "Search file contents";
    const DESCRIPTION: &'static str = "Searches file contents; answers with `path:line:text`. Hidden files are searched, `.git` and ignored files are not.";
    const ANNOTATIONS: Annotations = Annotations::READS;

    async fn run(workspace: &Workspace, arguments: Arguments, limits: &AnswerLimits) -> ToolResult<Self> {
        let viewed = point::view_at(workspace, arguments.at.as_deref()).await?;
        let limits = limits.for_limit(arguments.limit);
        let request = grep_request(arguments, &limits);
        let (pattern, offset) = (request.pattern.clone(), request.offset as u64);
        let found = viewed.grep(request).await?;
        Ok(format_page(found, &pattern, offset, &limits))
    }
}

fn grep_request(arguments: Arguments, limits: &AnswerLimits) -> GrepRequest {
    let around = |own: Option<u64>| {
        // A filled-in 0 leaves the number to `context`; and the context of one match must not fill a page.
        let lines = own.filter(|lines| *lines > 0).or(arguments.context).unwrap_or(0);
        lines.min(MAX_CONTEXT).min(limits.lines as u64 / 4) as usize
    };
    GrepRequest {
        before: around(arguments.before),
        after: around(arguments.after),
        pattern: arguments.pattern,
        path: arguments.path,
        literal: arguments.literal.unwrap_or(false),
        ignore_case: arguments.ignore_case.unwrap_or(false),
        whole_word: arguments.whole_word.unwrap_or(false),
        multiline: arguments.multiline.unwrap_or(false),
        include: arguments.include,
        exclude: arguments.exclude,
        max_matches_per_file: arguments.max_matches_per_file.filter(|most| *most > 0),
        limit: limits.page_size(arguments.limit),
        offset: usize::try_from(arguments.offset.unwrap_or(0)).unwrap_or(usize::MAX),
        max_bytes: MAX_HELD_BYTES,
        output: arguments.output.unwrap_or_default(),
        include_ignored: arguments.include_ignored.unwrap_or(false),
        include_git: arguments.include_git.unwrap_or(false),
        ..GrepRequest::default()
    }
}

/// Returns the results as far as they fit; the others are left to the next page, in the data too.
fn format_page(mut found: GrepResult, pattern: &str, offset: u64, limits: &AnswerLimits) -> ToolOutput<GrepResult> {
    found.matches.iter_mut().for_each(|found| cut_match(found, limits));
    let mut page = AnswerPage::new(limits);
    let mut fill = |blocks: Vec<String>| blocks.iter().take_while(|block| page.push_block(block)).count();
    let (shown, all) = if let Some(files) = &mut found.files {
        let shown = fill(files.iter().map(|path| escape_unprintable(path).into_owned()).collect());
        files.truncate(shown);
        (shown, found.file_count)
    } else if let Some(counts) = &mut found.counts {
        let shown = fill(
            counts
                .iter()
                .map(|file| format!("{}:{}", escape_unprintable(&file.path), file.count))
                .collect(),
        );
        counts.truncate(shown);
        (shown, found.file_count)
    } else {
        let shown = fill(match_blocks(&found.matches));
        found.matches.truncate(shown);
        (shown, found.match_count)
    };
    let end = offset.saturating_add(shown as u64);
    found.next_offset = Some(end).filter(|end| *end < all && shown > 0);
    found.truncated |= found.next_offset.is_some();
    let footer = format_footer(&found, pattern, offset..end, all);
    ToolOutput::new(page.finish(Some(footer)), found)
}

/// Bounds the lines of one match.
fn cut_match(found: &mut GrepMatch, limits: &AnswerLimits) {
    found.line = cut_block(&found.line, limits);
    for line in found.before.iter_mut().chain(&mut found.after) {
        *line = cut_line(line, limits).into_owned();
    }
}

/// Returns a block of lines for each match. A line that is context of two matches, or a match itself, is shown once.
fn match_blocks(matches: &[GrepMatch]) -> Vec<String> {
    let has_context = matches
        .iter()
        .any(|found| !found.before.is_empty() || !found.after.is_empty());
    let mut blocks = Vec::with_capacity(matches.len());
    let mut shown: Option<(&str, u64)> = None;
    for (index, found) in matches.iter().enumerate() {
        let last = shown
            .filter(|(path, _)| *path == found.path)
            .map_or(0, |(_, line)| line);
        let next = matches.get(index + 1).filter(|next| next.path == found.path);
        let (mut lines, end) = match_block(found, last, next.map(|next| next.line_number));
        let first = found.line_number.saturating_sub(found.before.len() as u64);
        // As grep does: a separator between two blocks whose lines do not adjoin.
        if has_context && shown.is_some() && (last == 0 || first > last + 1) {
            lines.insert(0, "--".into());
        }
        shown = Some((&found.path, end));
        blocks.push(lines.join("\n"));
    }
    blocks
}

/// Returns the lines of one match after line `last` and before line `next`, and the number of the last one.
fn match_block(found: &GrepMatch, last: u64, next: Option<u64>) -> (Vec<String>, u64) {
    let path = escape_unprintable(&found.path);
    let first = found.line_number.saturating_sub(found.before.len() as u64);
    let before = (first..).zip(&found.before).filter(|(number, _)| *number > last);
    let mut lines: Vec<_> = before.map(|(number, line)| format!("{path}-{number}-{line}")).collect();
    let mut number = found.line_number;
    for line in found.line.split('\n') {
        lines.push(format!("{path}:{number}:{}", line.strip_suffix('\r').unwrap_or(line)));
        number += 1;
    }
    for line in &found.after {
        if next.is_some_and(|next| number >= next) {
            break;
        }
        lines.push(format!("{path}-{number}-{line}"));
        number += 1;
    }
    (lines, number - 1)
}

fn format_footer(found: &GrepResult, pattern: &str, shown: std::ops::Range<u64>, all: u64) -> String {
    let skipped = skipped_note(
        &found.skipped,
        found.skipped_count.unwrap_or(found.skipped.len() as u64),
    );
    let left_out = left_out_note(found.left_out.as_ref());
    let skipped = format!("{skipped}{left_out}{}", incomplete_note(found.incomplete));
    let files = format_count(found.file_count, "file", "files");
    let total = format!("{} in {files}", format_count(found.match_count, "match", "matches"));
    if all == 0 {
        return format!("[no match for {}{skipped}]", quote(pattern));
    }
    if shown.is_empty() {
        return format!("[nothing at offset {}: {total}{skipped}]", group_digits(shown.start));
    }
    let part = if shown.start == 0 && shown.end >= all {
        total
    } else {
        format!(
            "results {}–{} of {total}",
            group_digits(shown.start + 1),
            group_digits(shown.end)
        )
    };
    let more = match (shown.end < all, found.truncated) {
        (true, _) => format!("; more: offset={}", shown.end),
        (false, true) => "; some files have more than `max_matches_per_file`".into(),
        (false, false) => String::new(),
    };
    format!("[{part}{more}{skipped}]")
}
