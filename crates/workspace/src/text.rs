//! The text algorithms behind `edit_file` and `apply_patch`, as pure functions.
//!
//! Bytes go in, a value comes out: nothing here reads a file, waits, or knows a storage. All of these functions treat
//! text alike: content is matched exactly and never guessed at, while line endings, a byte order mark, a missing final
//! newline and bytes that are not UTF-8 pass through untouched. A failure helps a model to do better on the next call:
//! it names the nearest lines of the file, and why they differ.

mod common_prefix;
pub mod diff;
pub mod edit;
mod lines;
pub mod merge;
pub mod nearest;
pub mod patch;
pub mod unified;

pub use edit::{Edit, EditError, EditedText, apply_edits, apply_edits_within};
pub use lines::LineEnding;
pub use patch::{FilePatch, Patch, PatchError};
