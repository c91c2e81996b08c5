//! `garret versions`

use clap::Args;
use garret::{VersionShown, VersionsRequest};

use crate::output::{Outcome, Report};
use crate::render::{self, history};
use crate::session::Session;
use crate::time;

pub(crate) const EXAMPLES: &str = "\
Example:
  garret -w notes versions a.txt
  garret -w notes restore --version VERSION a.txt";

#[derive(Debug, Args)]
pub(crate) struct Versions {
    /// The file; a deleted file still has its versions
    path: String,
    /// The maximum number of versions; --cursor shows the rest
    #[arg(short = 'n', long, default_value_t = 50, value_name = "VERSIONS")]
    limit: usize,
    /// The cursor that the previous page printed
    #[arg(long)]
    cursor: Option<String>,
}

impl Versions {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let workspace = session.with_history("fs").await?;
        let request = VersionsRequest {
            limit: self.limit,
            cursor: self.cursor.clone(),
        };
        let page = workspace.versions_page(&self.path, request).await?;
        let mut text = if page.versions.is_empty() {
            format!("{} has no versions", render::shown(&self.path))
        } else {
            render::table(page.versions.iter().map(cells))
        };
        if let Some(cursor) = &page.next_cursor {
            text.push_str(&format!("\n{}", render::more(cursor)));
        }
        Ok(Report::done(text, page))
    }
}

fn cells(version: &VersionShown) -> Vec<String> {
    vec![
        version.version.clone(),
        time::shown(&version.timestamp),
        render::size(version.size),
        history::who(&version.actor),
        version.tool_name.clone(),
        render::shown(&version.path),
    ]
}
