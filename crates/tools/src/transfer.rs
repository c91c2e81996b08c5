//! The arguments and text that `copy` and `move` share.

use garret_core::path::quote;
use garret_workspace::{TransferOptions, Transferred};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::text::{count, version_note};
use crate::tool::Output;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    pub(crate) src: String,
    /// Its new full path; directories above are made.
    pub(crate) dest: String,
    #[serde(default)]
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
pub(crate) fn show(done: &str, moved: Transferred) -> Output<Transferred> {
    let (src, dest) = (quote(&moved.src), quote(&moved.dest));
    let files = count(moved.files, "file", "files");
    let text = format!(
        "{done} {src} to {dest} ({files}{})",
        version_note(moved.version.as_ref())
    );
    Output::new(text, moved)
}
