//! `garret tree`

use clap::Args;
use garret::ListRequest;

use crate::output::{CliOutcome, CliReport};
use crate::point::PointArgs;
use crate::render;
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct TreeArgs {
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
    at: PointArgs,
}

impl TreeArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let request = ListRequest {
            depth: self.depth,
            limit: self.limit,
            cursor: self.cursor.clone(),
            ..ListRequest::default()
        };
        let path = self.path.as_deref().unwrap_or("");
        let listed = session
            .open_workspace_at(self.at.point())
            .await?
            .list(path, request)
            .await?;
        let mut text = render::draw_tree(path, &listed.entries);
        if let Some(cursor) = &listed.next_cursor {
            text.push_str(&render::next_page_line(cursor));
        }
        let note = render::incomplete_note(listed.incomplete);
        Ok(CliReport::success(text, listed).with_note(note))
    }
}
