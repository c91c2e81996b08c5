//! `garret grep`

use std::sync::{Arc, Mutex};

use clap::{Arg, Args};
use garret::path::escape_unprintable;
use garret::{Error, ErrorKind, GrepMatch, GrepOutput, GrepRequest, GrepResult, GrepSink, Result, Workspace};

use crate::commands::glob::SearchCoverageArgs;
use crate::output::{CliFailure, CliOutcome, CliReport, Format, StdoutPipe};
use crate::point::PointArgs;
use crate::session::Session;
use crate::{render, terminal};

pub(crate) const USAGE: &str = "\
garret grep [OPTIONS] <PATTERN> [PATH]
       garret grep [OPTIONS] -e <PATTERN> [PATH]";

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret grep 'fn \\w+' src
  garret grep -nwi todo
  garret grep -F 'a.b(' -g '*.rs' -g '!*_test.rs' -C 2
  garret grep -e -n docs                  a pattern that begins with a dash; or: grep -- -n docs
  garret -w notes grep -w milk            in the workspace `notes`, the whole word `milk`
After `grep`, -w means whole words, as in other programs. Name the workspace before it (-w NAME), or
with --workspace NAME.";

/// `--workspace`, without the short form that every other command has: here it means whole words.
pub(crate) fn workspace_option() -> Arg {
    Arg::new("workspace")
        .long("workspace")
        .value_name("WORKSPACE")
        .help_heading("Global options")
        .help("The workspace, as for -w before the command [default: the current directory]")
}

#[derive(Debug, Args)]
pub(crate) struct GrepArgs {
    /// A regular expression in Rust's syntax
    #[arg(required_unless_present = "regexp")]
    pattern: Option<String>,
    /// The file or directory to search [default: the root of the workspace]
    path: Option<String>,
    /// The pattern, which may begin with a dash
    #[arg(short = 'e', long, value_name = "PATTERN", allow_hyphen_values = true)]
    regexp: Option<String>,
    /// Take the pattern as plain text
    #[arg(short = 'F', long)]
    fixed_strings: bool,
    /// Take the pattern as an extended regular expression (the default)
    #[arg(short = 'E', long, conflicts_with = "fixed_strings")]
    extended_regexp: bool,
    /// Ignore case
    #[arg(short, long)]
    ignore_case: bool,
    /// Find the lines that do not match
    #[arg(short = 'v', long)]
    invert_match: bool,
    /// Show the number of each line (the default)
    #[arg(short = 'n', long)]
    line_number: bool,
    /// Search below directories (the default)
    #[arg(short = 'r', long, short_alias = 'R')]
    recursive: bool,
    /// Ignore case unless the pattern has an upper-case letter
    #[arg(short = 'S', long)]
    smart_case: bool,
    /// Match whole words only
    #[arg(short, long)]
    word_regexp: bool,
    /// Let a match span lines
    #[arg(short = 'U', long)]
    multiline: bool,
    /// Show lines after each match
    #[arg(short = 'A', long, value_name = "LINES")]
    after_context: Option<usize>,
    /// Show lines before each match
    #[arg(short = 'B', long, value_name = "LINES")]
    before_context: Option<usize>,
    /// Show lines before and after each match
    #[arg(short = 'C', long, default_value_t = 0, value_name = "LINES")]
    context: usize,
    /// Search only files that match the glob; with a leading `!`, only those that do not
    #[arg(short, long, value_name = "GLOB", allow_hyphen_values = true)]
    glob: Vec<String>,
    /// Print only the paths of files with a match
    #[arg(short = 'l', long, conflicts_with = "count")]
    files_with_matches: bool,
    /// Print only how many matches each file has
    #[arg(short, long)]
    count: bool,
    /// The maximum number of matches per file
    #[arg(short, long, value_name = "MATCHES")]
    max_count: Option<u64>,
    #[command(flatten)]
    coverage: SearchCoverageArgs,
    /// The maximum number of results
    #[arg(long, value_name = "RESULTS")]
    limit: Option<usize>,
    /// How many results to skip
    #[arg(long, default_value_t = 0, value_name = "RESULTS")]
    offset: usize,
    #[command(flatten)]
    at: PointArgs,
}

impl GrepArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let (pattern, path) = self.pattern_and_path().map_err(CliFailure::wrong_usage)?;
        let request = self.grep_request(pattern, path);
        let workspace = session.open_workspace_at(self.at.point()).await?;
        // On a remote storage the last file may take long, so matches are printed as they are found.
        if workspace.is_remote() && self.is_streamed() && session.global().format() == Format::Text {
            return self.print_as_found(&workspace, request).await;
        }
        let found = workspace
            .grep(request)
            .await
            .map_err(|error| self.explain_error(error))?;
        let note = self.search_note(&found);
        let painted = terminal::is_colored()
            .then(|| format_results(&found, render::color::paint_path, render::color::paint_matches));
        let plain = format_results(&found, render::display_path, render::format_matches);
        Ok(CliReport::success(plain, found).with_painted(painted).with_note(note))
    }

    /// Returns the pattern and the path to search. With -e, the first argument is the path.
    fn pattern_and_path(&self) -> Result<(&str, &str)> {
        match (&self.regexp, &self.pattern, &self.path) {
            (None, Some(pattern), path) => Ok((pattern, path.as_deref().unwrap_or_default())),
            (Some(pattern), path, None) => Ok((pattern, path.as_deref().unwrap_or_default())),
            (Some(_), _, Some(_)) => {
                Err(Error::invalid("only one path can be searched")
                    .hint("with -e, the path is the only other argument"))
            }
            (None, None, _) => unreachable!("one of them is required"),
        }
    }

    /// Adds a hint to the error for a missing path, if -w was probably meant for a workspace.
    fn explain_error(&self, error: Error) -> Error {
        let misread = self.word_regexp && self.regexp.is_none() && self.path.is_some();
        match (misread && error.kind() == ErrorKind::NotFound, &self.pattern) {
            (true, Some(pattern)) => error.hint(format!(
                "after `grep`, -w means whole words; for the workspace write `garret -w {} grep ...`",
                escape_unprintable(pattern)
            )),
            _ => error,
        }
    }

    /// Whether the results are all matches, so that none has to wait for others to be found.
    fn is_streamed(&self) -> bool {
        self.output_mode() == GrepOutput::Content && self.limit.is_none() && self.offset == 0
    }

    /// Prints the matches of each file as soon as the file was searched.
    async fn print_as_found(&self, workspace: &Workspace, request: GrepRequest) -> CliOutcome {
        let pipe = Arc::new(Mutex::new(Some(StdoutPipe::default())));
        let print = {
            let pipe = pipe.clone();
            move |found: Vec<GrepMatch>| {
                if let Some(pipe) = pipe.lock().expect("no holder panics").as_mut() {
                    // If nobody reads the output any more, the search still goes on to its end.
                    let _ = if terminal::is_colored() {
                        pipe.put_escaped(render::color::paint_matches(&found).as_bytes())
                    } else {
                        pipe.put_piece(render::format_matches(&found).as_bytes())
                    };
                }
            }
        };
        let found = workspace.grep_with(request, Some(GrepSink::new(print))).await;
        let found = found.map_err(|error| self.explain_error(error))?;
        let pipe = pipe.lock().expect("no holder panics").take().unwrap_or_default();
        Ok(pipe.into_report().with_note(self.search_note(&found)))
    }

    fn search_note(&self, found: &GrepResult) -> String {
        let count = found.skipped_count.unwrap_or(found.skipped.len() as u64);
        let skipped = render::list_skipped(&found.skipped, count);
        let left_out = render::describe_left_out(found.left_out.as_ref());
        let incomplete = render::incomplete_note(found.incomplete);
        format!("{skipped}{left_out}{incomplete}{}", self.rest_note(found))
    }

    fn grep_request(&self, pattern: &str, path: &str) -> GrepRequest {
        let (exclude, include) = self
            .glob
            .iter()
            .cloned()
            .partition(|glob: &String| glob.starts_with('!'));
        GrepRequest {
            pattern: pattern.to_owned(),
            path: path.to_owned(),
            literal: self.fixed_strings,
            ignore_case: self.ignore_case,
            smart_case: self.smart_case,
            whole_word: self.word_regexp,
            invert: self.invert_match,
            multiline: self.multiline,
            // Only colour needs the positions of matches.
            with_spans: terminal::is_colored(),
            before: self.before_context.unwrap_or(self.context),
            after: self.after_context.unwrap_or(self.context),
            include,
            exclude: strip_marks(exclude),
            max_matches_per_file: self.max_count,
            limit: self.limit.unwrap_or(usize::MAX),
            offset: self.offset,
            output: self.output_mode(),
            hidden: !self.coverage.no_hidden,
            include_ignored: self.coverage.no_ignore,
            include_git: self.coverage.git,
            ..GrepRequest::default()
        }
    }

    fn output_mode(&self) -> GrepOutput {
        match (self.files_with_matches, self.count) {
            (true, _) => GrepOutput::Files,
            (_, true) => GrepOutput::Counts,
            _ => GrepOutput::Content,
        }
    }

    /// Returns the note about results beyond the limit.
    fn rest_note(&self, found: &GrepResult) -> String {
        let Some(limit) = self.limit.filter(|_| found.truncated) else {
            return String::new();
        };
        format!(
            "more results: repeat with --offset {}\n",
            self.offset.saturating_add(limit)
        )
    }
}

fn strip_marks(globs: Vec<String>) -> Vec<String> {
    globs
        .into_iter()
        .map(|glob| glob.trim_start_matches('!').to_owned())
        .collect()
}

/// Formats the results as `rg` prints them into a pipe; `show_path` and `show_matches` decide about colour.
fn format_results(
    found: &GrepResult,
    show_path: fn(&str) -> String,
    show_matches: fn(&[GrepMatch]) -> String,
) -> String {
    match (&found.files, &found.counts) {
        (Some(files), _) => files.iter().map(|path| show_path(path) + "\n").collect(),
        (_, Some(counts)) => {
            let lines = counts.iter();
            lines
                .map(|file| format!("{}:{}\n", show_path(&file.path), file.count))
                .collect()
        }
        _ => show_matches(&found.matches),
    }
}
