//! `garret ls`

use clap::Args;
use garret::{DirectoryListing, ErrorKind, ListRequest, ListedEntry, Workspace};

use crate::output::{CliOutcome, CliReport};
use crate::point::PointArgs;
use crate::render;
use crate::session::Session;

#[derive(Debug, Args)]
pub(crate) struct LsArgs {
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
    /// The maximum number of entries; --cursor shows the rest
    #[arg(long, value_name = "ENTRIES")]
    limit: Option<usize>,
    /// The cursor that the previous page printed
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    at: PointArgs,
}

/// Lists one file alone, as other programs do; `None` if the path cannot be described.
async fn list_file(workspace: &Workspace, path: &str) -> Option<DirectoryListing> {
    let stat = workspace.stat(path).await.ok()?;
    let entry = ListedEntry {
        name: stat.path.clone(),
        path: stat.path,
        r#type: stat.r#type,
        size: stat.size,
        modified_at: stat.modified_at,
        escaped: false,
    };
    Some(DirectoryListing {
        entries: vec![entry],
        next_cursor: None,
        incomplete: false,
        cursors: Vec::new(),
    })
}

impl LsArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let request = ListRequest {
            depth: self.depth,
            limit: self.limit.unwrap_or(usize::MAX),
            cursor: self.cursor.clone(),
            long: self.long,
            ..ListRequest::default()
        };
        let path = self.path.as_deref().unwrap_or("");
        let workspace = session.open_workspace_at(self.at.point()).await?;
        let listed = match workspace.list(path, request).await {
            Err(error) if error.kind() == ErrorKind::NotADirectory => list_file(&workspace, path).await.ok_or(error)?,
            listed => listed?,
        };
        let mut lines: Vec<String> = listed.entries.iter().map(|entry| self.entry_line(entry)).collect();
        lines.extend(listed.next_cursor.as_deref().map(render::next_page_line));
        let note = render::incomplete_note(listed.incomplete);
        Ok(CliReport::success(lines.join("\n"), listed).with_note(note))
    }

    fn entry_line(&self, entry: &ListedEntry) -> String {
        let name = render::entry_name(entry, self.depth > 1);
        if self.long {
            format!("{} {name}", render::entry_details(entry))
        } else {
            name
        }
    }
}
