//! `garret diff`

use clap::Args;
use garret::{Diff as Found, DiffRequest, DiffStatus, EntryKind, PathDiff, Point};

use crate::output::{Outcome, Report};
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
pub(crate) struct Diff {
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

impl Diff {
    pub(crate) async fn run(&self, session: &Session) -> Outcome {
        let workspace = session.with_history("fs").await?;
        let from = match &self.from {
            Some(from) => Point::or_now(Some(from)),
            None => workspace.before(&Point::Now).await?,
        };
        let request = DiffRequest {
            from,
            to: Point::or_now(self.to.as_deref()),
            path: self.path.clone(),
            max_text_bytes: usize::MAX,
        };
        let found = workspace.diff(request).await?;
        let text = if self.stat { numbers(&found) } else { found.text.clone() };
        let note = if found.incomplete {
            "incomplete: files that the history captured only later are shown as unchanged\n"
        } else {
            ""
        };
        let painted = (terminal::is_colored() && !self.stat).then(|| render::painted::diff(&text));
        Ok(Report::done(text, found).with_painted(painted).with_note(note))
    }
}

/// Lists each path with the number of its changed lines, and the total.
fn numbers(found: &Found) -> String {
    let (insertions, deletions) = found.paths.iter().fold((0, 0), |(came, went), path| {
        (came + path.insertions, went + path.deletions)
    });
    let total = format!(
        "{}, +{insertions} -{deletions}",
        render::counted(found.paths.len() as u64, "path")
    );
    if found.paths.is_empty() {
        "no differences".to_owned()
    } else {
        format!("{}\n{total}", render::table(found.paths.iter().map(cells)))
    }
}

fn cells(path: &PathDiff) -> Vec<String> {
    let from = path
        .old_path
        .as_deref()
        .map(|old| format!("{} -> ", render::shown(old)));
    let amount = if path.binary || path.too_large {
        let size = |bytes: Option<u64>| bytes.map_or("nothing".to_owned(), render::size);
        format!("{} -> {}", size(path.size_before), size(path.size_after))
    } else if path.kind != EntryKind::File {
        render::kind(path.kind).to_owned()
    } else {
        format!("+{} -{}", path.insertions, path.deletions)
    };
    vec![
        word(path.status).to_owned(),
        format!("{}{}", from.unwrap_or_default(), render::shown(&path.path)),
        amount,
    ]
}

fn word(status: DiffStatus) -> &'static str {
    match status {
        DiffStatus::Added => "added",
        DiffStatus::Modified => "changed",
        DiffStatus::Deleted => "removed",
        DiffStatus::Renamed => "renamed",
        DiffStatus::TypeChanged => "replaced",
        DiffStatus::Mode => "mode",
    }
}
