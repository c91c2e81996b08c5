//! `garret tree`

use clap::Args;
use garret::ListRequest;

use crate::output::{Outcome, Report};
use crate::point::At;
use crate::render;
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct Tree {
    /// The directory [default: the root of the workspace]
    path: Option<String>,
    /// How many levels to draw
    #[arg(short, long, default_value_t = 3, value_name = "LEVELS")]
    depth: usize,
    /// The maximum number of entries; --cursor shows the rest
    #[arg(long, default_value_t = 2_000, value_name = "ENTRIES")]
    limit: usize,
    /// The cursor that the previous page printed
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    at: At,
}

impl Tree {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let request = ListRequest {
            depth: self.depth,
            limit: self.limit,
            cursor: self.cursor.clone(),
            ..ListRequest::default()
        };
        let path = self.path.as_deref().unwrap_or("");
        let listed = session.workspace_at(self.at.point()).await?.list(path, request).await?;
        let mut text = render::tree(path, &listed.entries);
        if let Some(cursor) = &listed.next_cursor {
            text.push_str(&render::more(cursor));
        }
        let note = render::incomplete(listed.incomplete);
        Ok(Report::done(text, listed).with_note(note))
    }
}
