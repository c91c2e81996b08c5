//! `garret versions`

use clap::Args;
use garret::{FileVersion, VersionsRequest};

use crate::output::{CliOutcome, CliReport};
use crate::render::{self, history};
use crate::session::Session;
use crate::time;

pub(crate) const EXAMPLES: &str = "\
Example:
  garret -w notes versions a.txt
  garret -w notes restore --version VERSION a.txt";

#[derive(Debug, Args)]
pub(crate) struct VersionsArgs {
    /// The file; a deleted file still has its versions
    path: String,
    /// The maximum number of versions; --cursor shows the rest
    #[arg(short = 'n', long, default_value_t = 50, value_name = "VERSIONS")]
    limit: usize,
    /// The cursor that the previous page printed
    #[arg(long)]
    cursor: Option<String>,
}

impl VersionsArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let workspace = session.open_history(&["fs"]).await?;
        let request = VersionsRequest {
            limit: self.limit,
            cursor: self.cursor.clone(),
        };
        let page = workspace.versions_page(&self.path, request).await?;
        let mut text = if page.versions.is_empty() {
            format!("{} has no versions", render::display_path(&self.path))
        } else {
            render::format_table(page.versions.iter().map(version_cells))
        };
        if let Some(cursor) = &page.next_cursor {
            text.push_str(&format!("\n{}", render::next_page_line(cursor)));
        }
        Ok(CliReport::success(text, page))
    }
}

fn version_cells(version: &FileVersion) -> Vec<String> {
    vec![
        version.version.clone(),
        time::format_time(&version.at.to_string()),
        render::format_size(version.size),
        history::actor_name(&version.actor),
        version.operation.clone(),
        render::display_path(&version.path),
    ]
}
