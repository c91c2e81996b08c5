//! The arguments and text that `copy` and `move` share.

use garret_core::path::quote;
use garret_workspace::{TransferOptions, TransferResult};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::text::{format_count, version_note};
use crate::tool::ToolOutput;

#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Arguments {
    pub(crate) src: String,
    /// Its new full path; directories above are made.
    pub(crate) dest: String,
    overwrite: Option<bool>,
}

impl Arguments {
    pub(crate) fn options(&self) -> TransferOptions {
        TransferOptions {
            overwrite: self.overwrite.unwrap_or(false),
        }
    }
}

/// Returns the outcome: `copied a to b (2 files)`.
pub(crate) fn format_outcome(done: &str, moved: TransferResult) -> ToolOutput<TransferResult> {
    let (src, dest) = (quote(&moved.src), quote(&moved.dest));
    let files = format_count(moved.files, "file", "files");
    let text = format!(
        "{done} {src} to {dest} ({files}{})",
        version_note(moved.version.as_ref())
    );
    ToolOutput::new(text, moved)
}
