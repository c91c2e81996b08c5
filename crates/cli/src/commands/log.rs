//! `garret log`

use clap::Args;
use garret::{LogPage, LogRequest, fold_derived_changes};

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
    /// List changes of derived files (`__pycache__/`, `target/`, …) one by one, as a path does
    #[arg(long)]
    all: bool,
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
        let rows = || self.rows(&log);
        let more = log
            .next_cursor
            .as_deref()
            .map(|cursor| format!("\n{}", render::next_page_line(cursor)));
        let more = more.unwrap_or_default();
        let painted = terminal::is_colored().then(|| format!("{}{more}", render::color::paint_log(rows().into_iter())));
        let text = format!("{}{more}", render::format_table(rows().into_iter()));
        Ok(CliReport::success(text, log).with_painted(painted))
    }

    fn rows(&self, log: &LogPage) -> Vec<Vec<String>> {
        // Who asks for a path wants each change of it.
        if self.all || self.path.is_some() {
            log.changes.iter().map(history::change_cells).collect()
        } else {
            fold_derived_changes(&log.changes).map(history::folded_cells).collect()
        }
    }
}
