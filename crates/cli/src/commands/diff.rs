//! `garret diff`

use clap::Args;
use garret::{Diff, DiffRequest, DiffStatus, EntryKind, PathDiff, Point};

use crate::output::{CliOutcome, CliReport};
use crate::session::Session;
use crate::{render, terminal};

pub(crate) const EXAMPLES: &str = "\
Examples:
  garret -w notes diff                    the newest change
  garret -w notes diff before             from the snapshot `before` to now
  garret -w notes diff before 7 --stat    from there to change 7, in numbers
  garret -w notes diff 0 --path docs      since the beginning, below docs
The text is a unified diff: `garret patch` and `patch -p1` apply it.";

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The earlier point: a snapshot, a change (its number or id) or a time [default: before the newest change]
    from: Option<String>,
    /// The later point [default: now]
    to: Option<String>,
    /// Only this path, with everything below it
    #[arg(long)]
    path: Option<String>,
    /// Show how much each file changed instead of its lines
    #[arg(long)]
    stat: bool,
}

impl DiffArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let workspace = session.open_history(&["fs"]).await?;
        let from = match &self.from {
            Some(from) => Point::parse_or_now(Some(from)),
            None => workspace.before(&Point::Now).await?,
        };
        let request = DiffRequest {
            from,
            to: Point::parse_or_now(self.to.as_deref()),
            path: self.path.clone(),
            max_text_bytes: usize::MAX,
            ..DiffRequest::default()
        };
        let found = workspace.diff(request).await?;
        let text = if self.stat {
            format_stat(&found)
        } else {
            found.diff.clone()
        };
        let note = if found.incomplete {
            "incomplete: files that the history captured only later are shown as unchanged\n"
        } else {
            ""
        };
        let painted = (terminal::is_colored() && !self.stat).then(|| render::color::paint_diff(&text));
        Ok(CliReport::success(text, found).with_painted(painted).with_note(note))
    }
}

/// Lists each path with the number of its changed lines, and the total.
fn format_stat(found: &Diff) -> String {
    let (insertions, deletions) = found.paths.iter().fold((0, 0), |(came, went), path| {
        (came + path.insertions, went + path.deletions)
    });
    let total = format!(
        "{}, +{insertions} -{deletions}",
        render::format_count(found.path_count, "path")
    );
    if found.paths.is_empty() {
        "no differences".to_owned()
    } else {
        format!("{}\n{total}", render::format_table(found.paths.iter().map(path_cells)))
    }
}

fn path_cells(path: &PathDiff) -> Vec<String> {
    let from = path
        .old_path
        .as_deref()
        .map(|old| format!("{} -> ", render::display_path(old)));
    let amount = if path.binary || path.too_large {
        let size = |bytes: Option<u64>| bytes.map_or("nothing".to_owned(), render::format_size);
        format!("{} -> {}", size(path.size_before), size(path.size_after))
    } else if path.kind != EntryKind::File {
        render::kind_word(path.kind).to_owned()
    } else {
        format!("+{} -{}", path.insertions, path.deletions)
    };
    vec![
        status_word(path.status).to_owned(),
        format!("{}{}", from.unwrap_or_default(), render::display_path(&path.path)),
        amount,
    ]
}

fn status_word(status: DiffStatus) -> &'static str {
    match status {
        DiffStatus::Added => "added",
        DiffStatus::Modified => "changed",
        DiffStatus::Deleted => "removed",
        DiffStatus::Renamed => "renamed",
        DiffStatus::Copied => "copied",
        DiffStatus::TypeChanged => "replaced",
        DiffStatus::Mode => "mode",
    }
}
