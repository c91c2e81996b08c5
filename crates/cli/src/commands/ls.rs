//! `garret ls`

use clap::Args;
use garret::{ListRequest, ListedEntry};

use crate::output::{Outcome, Report};
use crate::point::At;
use crate::render;
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// The directory [default: the root of the workspace]
    path: Option<String>,
    /// Show kind, size and time of each entry
    #[arg(short, long)]
    long: bool,
    /// Show names that begin with a dot (the default)
    #[arg(short, long, short_alias = 'A')]
    all: bool,
    /// How many levels to list
    #[arg(short, long, default_value_t = 1, value_name = "LEVELS")]
    depth: usize,
    /// The most entries; what is left can be had with --cursor
    #[arg(long, value_name = "ENTRIES")]
    limit: Option<usize>,
    /// Where the page before ended
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    at: At,
}

impl Ls {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let request = ListRequest {
            depth: self.depth,
            limit: self.limit.unwrap_or(usize::MAX),
            cursor: self.cursor.clone(),
            ..ListRequest::default()
        };
        let path = self.path.as_deref().unwrap_or("");
        let listed = session.workspace_at(self.at.point()).await?.list(path, request).await?;
        let mut lines: Vec<String> = listed.entries.iter().map(|entry| self.line(entry)).collect();
        lines.extend(listed.next_cursor.as_deref().map(render::more));
        let note = render::incomplete(listed.incomplete);
        Ok(Report::done(lines.join("\n"), listed).with_note(note))
    }

    fn line(&self, entry: &ListedEntry) -> String {
        let name = render::name_of(entry, self.depth > 1);
        if self.long {
            format!("{} {name}", render::details(entry))
        } else {
            name
        }
    }
}
