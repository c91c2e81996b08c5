//! `garret log`

use clap::Args;
use garret::LogRequest;

use crate::output::{CliOutcome, CliReport};
use crate::render::{self, history};
use crate::session::Session;
use crate::terminal;

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret -w notes log
  garret -w notes log docs -n 10
The number or id of a change is a point: garret -w notes cat a.txt --at 3";

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Only changes of this path and of paths below it
    path: Option<String>,
    /// The maximum number of changes; --cursor shows the rest
    #[arg(short = 'n', long, default_value_t = 50, value_name = "CHANGES")]
    limit: usize,
    /// The cursor that the previous page printed
    #[arg(long)]
    cursor: Option<String>,
}

impl LogArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let request = LogRequest {
            path: self.path.clone(),
            limit: self.limit,
            cursor: self.cursor.clone(),
        };
        let log = session.open_history(&["fs"]).await?.log(request).await?;
        let rows = || log.changes.iter().map(history::change_cells);
        let more = log
            .next_cursor
            .as_deref()
            .map(|cursor| format!("\n{}", render::next_page_line(cursor)));
        let more = more.unwrap_or_default();
        let painted = terminal::is_colored().then(|| format!("{}{more}", render::color::paint_log(rows())));
        Ok(CliReport::success(format!("{}{more}", render::format_table(rows())), log).with_painted(painted))
    }
}
