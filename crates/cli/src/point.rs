//! Points of the past as the command line takes them.

use clap::Args;
use garret::Point;

/// `--at`, for commands that read.
#[derive(Debug, Args)]
pub(crate) struct PointArgs {
    /// As it was at a point: a snapshot, a change (its number or id) or a time, such as 2026-11-15T20:00:00Z
    #[arg(long, value_name = "POINT")]
    at: Option<String>,
}

impl PointArgs {
    /// The point of the past; `None` for now.
    pub(crate) fn point(&self) -> Option<&str> {
        self.at.as_deref().filter(|text| *text != Point::NOW)
    }
}
