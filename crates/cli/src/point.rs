//! Points of the past as the command line takes them.

use clap::Args;
use garret::Point;

/// The word for the newest state.
const NOW: &str = "now";

/// `--at`, for commands that read.
#[derive(Debug, Args)]
pub(crate) struct At {
    /// As it was at a point: a snapshot, a change (its number or id) or a time, such as 2026-11-15T20:00:00Z
    #[arg(long, value_name = "POINT")]
    at: Option<String>,
}

impl At {
    /// The point of the past; `None` for now.
    pub(crate) fn point(&self) -> Option<&str> {
        self.at.as_deref().filter(|text| *text != NOW)
    }
}

/// The point that a word means; without one, or by the word itself, now.
pub(crate) fn or_now(text: Option<&str>) -> Point {
    match text {
        None | Some(NOW) => Point::Now,
        Some(text) => Point::Named(text.to_owned()),
    }
}
