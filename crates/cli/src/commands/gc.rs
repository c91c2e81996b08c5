//! `garret gc`

use std::time::Duration;

use clap::Args;
use garret::depot::CollectOptions;
use garret::{GarbageReport, RetentionLimits};

use crate::output::{CliOutcome, CliReport};
use crate::progress::ProgressLine;
use crate::render;
use crate::session::Session;

pub(crate) const DETAILS: &str = "\
Deletes history beyond the limit of each workspace (see `garret keep`), then deleted workspaces,
then content that nothing refers to. The content of snapshots and branches is kept. Content that was
deleted or last needed within the grace period (24 hours, unless --grace says otherwise) is kept
until a later run. So it is safe while other programs work, as long as the grace period is longer
than their operations.";

#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Show what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// The grace period: keep content that was deleted or last needed within this time, such as 24h, 7d or 0s
    #[arg(long, default_value = "24h", value_name = "TIME", value_parser = grace)]
    grace: Duration,
}

/// Reads a time as `garret keep` does.
fn grace(text: &str) -> Result<Duration, String> {
    let keep = text.parse::<RetentionLimits>().ok();
    let only_age = keep.filter(|keep| keep.changes.is_none() && keep.bytes.is_none());
    only_age
        .and_then(|keep| keep.age)
        .ok_or_else(|| "use a time such as 24h, 7d or 0s".into())
}

impl GcArgs {
    pub(crate) async fn run(&self, session: &Session) -> CliOutcome {
        let garret = session.garret_with_home()?;
        let progress = ProgressLine::start("collecting garbage");
        let options = CollectOptions {
            grace: self.grace,
            is_dry_run: self.dry_run,
        };
        let freed = garret.collect_garbage(options).await?;
        drop(progress);
        Ok(CliReport::success(summary_text(&freed), freed).with_note(self.grace_note()))
    }

    /// Returns the note about content that the grace period keeps, for standard error.
    fn grace_note(&self) -> String {
        if self.grace.is_zero() {
            String::new()
        } else {
            format!(
                "content that was deleted within the grace period of {} is kept; --grace 0s deletes it, too\n",
                format_period(self.grace)
            )
        }
    }
}

fn summary_text(freed: &GarbageReport) -> String {
    let collected = &freed.collected;
    let changes: u64 = freed.histories.iter().map(|history| history.retained.changes).sum();
    let parts = [
        (changes, "old change"),
        (collected.workspaces, "deleted workspace"),
        (collected.imports, "unfinished import"),
        (collected.pieces, "piece of content"),
        (collected.leftovers, "unfinished file"),
    ];
    let parts: Vec<_> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format_count(count, word))
        .collect();
    let did = if freed.dry_run { "would remove" } else { "removed" };
    let bytes = collected.database_bytes + collected.blob_bytes;
    match (parts.is_empty(), bytes) {
        (true, 0) => "nothing to remove".to_owned(),
        (true, bytes) => format!(
            "{did} content of writes that were refused: {}",
            render::format_size(bytes)
        ),
        (false, bytes) => format!("{did} {}: {}", parts.join(", "), render::format_size(bytes)),
    }
}

/// Formats a period in the largest unit that leaves no remainder.
fn format_period(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        _ if seconds.is_multiple_of(86_400) && seconds > 86_400 => format!("{} d", seconds / 86_400),
        _ if seconds.is_multiple_of(3_600) => format!("{} h", seconds / 3_600),
        _ if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        _ => format!("{seconds} s"),
    }
}

fn format_count(count: u64, word: &str) -> String {
    match (count, word.strip_prefix("piece ")) {
        (1, _) | (_, None) => render::format_count(count, word),
        (_, Some(rest)) => format!("{count} pieces {rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_told_in_its_largest_unit() {
        let told = [0, 90, 120, 3_600, 86_400, 172_800].map(|seconds| format_period(Duration::from_secs(seconds)));
        assert_eq!(told, ["0 h", "90 s", "2 min", "1 h", "24 h", "2 d"]);
    }

    #[test]
    fn a_grace_is_a_time_and_nothing_else() {
        assert_eq!(grace("24h"), Ok(Duration::from_secs(86_400)));
        assert_eq!(grace("0s"), Ok(Duration::ZERO));
        for wrong in ["24", "1GB", "24h,5", "soon", ""] {
            assert!(grace(wrong).is_err(), "{wrong}");
        }
    }
}
