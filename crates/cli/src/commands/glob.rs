//! `garret glob`

use clap::Args;
use garret::GlobRequest;

use crate::output::{CliOutcome, CliReport};
use crate::point::PointArgs;
use crate::render;
use crate::session::Session;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret glob '**/*.md'
  garret glob '*.{rs,toml}' crates/core";

#[derive(Debug, Args)]
pub(crate) struct GlobArgs {
    /// The pattern, on paths below PATH: `*` stays within a name, `**` crosses directories
    pattern: String,
    /// The directory to search [default: the root of the workspace]
    path: Option<String>,
    /// Find directories too
    #[arg(short, long)]
    directories: bool,
    #[command(flatten)]
    coverage: SearchCoverageArgs,
    /// The maximum number of paths; --cursor shows the rest
    #[arg(long, value_name = "PATHS")]
    limit: Option<usize>,
    /// The cursor that the previous page printed
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    at: PointArgs,
}

/// The files that a search covers.
#[derive(Debug, Args)]
pub(crate) struct SearchCoverageArgs {
    /// Leave out names that begin with a dot
    #[arg(long)]
    pub(crate) no_hidden: bool,
    /// Include files that .gitignore and .ignore files exclude
    #[arg(long)]
    pub(crate) no_ignore: bool,
    /// Include the content of .git
    #[arg(long)]
    pub(crate) git: bool,
}

impl GlobArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let request = GlobRequest {
            pattern: self.pattern.clone(),
            path: self.path.clone().unwrap_or_default(),
            limit: self.limit.unwrap_or(usize::MAX),
            cursor: self.cursor.clone(),
            hidden: !self.coverage.no_hidden,
            include_ignored: self.coverage.no_ignore,
            include_git: self.coverage.git,
            include_directories: self.directories,
            ..GlobRequest::default()
        };
        let found = session.open_workspace_at(self.at.point()).await?.glob(request).await?;
        let mut lines: Vec<String> = found.paths.iter().map(|path| render::display_path(path)).collect();
        lines.extend(found.next_cursor.as_deref().map(render::next_page_line));
        let note = render::list_skipped(&found.skipped, found.skipped.len() as u64)
            + &render::describe_left_out(found.left_out.as_ref())
            + render::incomplete_note(found.incomplete);
        Ok(CliReport::success(lines.join("\n"), found).with_note(note))
    }
}
