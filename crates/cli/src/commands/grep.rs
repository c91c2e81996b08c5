//! `garret grep`

use std::sync::{Arc, Mutex};

use clap::Args;
use garret::{GrepFound, GrepMatch, GrepOutput, GrepRequest, GrepSink, Workspace};

use crate::commands::glob::Coverage;
use crate::output::{Format, Outcome, Pipe, Report};
use crate::point::At;
use crate::render;
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret grep 'fn \\w+' src
  garret grep -F 'a.b(' -g '*.rs' -g '!*_test.rs' -C 2";

#[derive(Debug, Args)]
pub(crate) struct Grep {
    /// A regular expression in Rust's syntax
    #[arg(allow_hyphen_values = true)]
    pattern: String,
    /// The file or directory to search [default: the root of the workspace]
    path: Option<String>,
    /// Take the pattern as plain text
    #[arg(short = 'F', long)]
    fixed_strings: bool,
    /// Take upper and lower case as one
    #[arg(short, long)]
    ignore_case: bool,
    /// Take them as one as long as the pattern has no upper case
    #[arg(short = 'S', long)]
    smart_case: bool,
    /// Match whole words only
    #[arg(long)]
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
    /// The most matches in one file
    #[arg(short, long, value_name = "MATCHES")]
    max_count: Option<u64>,
    #[command(flatten)]
    coverage: Coverage,
    /// The most results in all
    #[arg(long, value_name = "RESULTS")]
    limit: Option<usize>,
    /// How many results to leave out first
    #[arg(long, default_value_t = 0, value_name = "RESULTS")]
    offset: usize,
    #[command(flatten)]
    at: At,
}

impl Grep {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let workspace = session.workspace_at(self.at.point()).await?;
        if workspace.is_far() && self.is_streamed() && session.global().format() == Format::Text {
            return self.print_as_found(&workspace).await;
        }
        let found = workspace.grep(self.request()).await?;
        let note = self.note(&found);
        Ok(Report::done(lines(&found), found).with_note(note))
    }

    /// Whether the results are all matches, so that none has to wait for others to be found.
    fn is_streamed(&self) -> bool {
        self.output() == GrepOutput::Content && self.limit.is_none() && self.offset == 0
    }

    /// Prints the matches of each file as soon as it was searched: where the files are far away, the last may take its time.
    async fn print_as_found(&self, workspace: &Workspace) -> Outcome {
        let pipe = Arc::new(Mutex::new(Some(Pipe::default())));
        let print = {
            let pipe = pipe.clone();
            move |found: Vec<GrepMatch>| {
                if let Some(pipe) = pipe.lock().expect("no holder panics").as_mut() {
                    // Nobody reads any more: the search goes on unheard.
                    let _ = pipe.put(render::matches(&found).as_bytes());
                }
            }
        };
        let found = workspace.grep_with(self.request(), GrepSink::new(print)).await?;
        let pipe = pipe.lock().expect("no holder panics").take().unwrap_or_default();
        Ok(pipe.done().with_note(self.note(&found)))
    }

    fn note(&self, found: &GrepFound) -> String {
        let count = found.skipped_count.unwrap_or(found.skipped.len() as u64);
        let skipped = render::skipped(&found.skipped, count);
        let left_out = render::left_out(found.left_out.as_ref());
        let incomplete = render::incomplete(found.incomplete);
        format!("{skipped}{left_out}{incomplete}{}", self.rest(found))
    }

    fn request(&self) -> GrepRequest {
        let (exclude, include) = self
            .glob
            .iter()
            .cloned()
            .partition(|glob: &String| glob.starts_with('!'));
        GrepRequest {
            pattern: self.pattern.clone(),
            path: self.path.clone().unwrap_or_default(),
            literal: self.fixed_strings,
            ignore_case: self.ignore_case,
            smart_case: self.smart_case,
            whole_word: self.word_regexp,
            multiline: self.multiline,
            before: self.before_context.unwrap_or(self.context),
            after: self.after_context.unwrap_or(self.context),
            include,
            exclude: unmarked(exclude),
            max_matches_per_file: self.max_count,
            limit: self.limit.unwrap_or(usize::MAX),
            offset: self.offset,
            output: self.output(),
            hidden: !self.coverage.no_hidden,
            include_ignored: self.coverage.no_ignore,
            include_git: self.coverage.git,
            ..GrepRequest::default()
        }
    }

    fn output(&self) -> GrepOutput {
        match (self.files_with_matches, self.count) {
            (true, _) => GrepOutput::Files,
            (_, true) => GrepOutput::Counts,
            _ => GrepOutput::Content,
        }
    }

    /// What is said where results were left out at the end.
    fn rest(&self, found: &GrepFound) -> String {
        let Some(limit) = self.limit.filter(|_| found.truncated) else {
            return String::new();
        };
        format!(
            "more results: repeat with --offset {}\n",
            self.offset.saturating_add(limit)
        )
    }
}

fn unmarked(globs: Vec<String>) -> Vec<String> {
    globs
        .into_iter()
        .map(|glob| glob.trim_start_matches('!').to_owned())
        .collect()
}

/// The results as `rg` prints them into a pipe.
fn lines(found: &GrepFound) -> String {
    match (&found.files, &found.counts) {
        (Some(files), _) => files.iter().map(|path| render::shown(path) + "\n").collect(),
        (_, Some(counts)) => counts
            .iter()
            .map(|file| format!("{}:{}\n", render::shown(&file.path), file.count))
            .collect(),
        _ => render::matches(&found.matches),
    }
}
