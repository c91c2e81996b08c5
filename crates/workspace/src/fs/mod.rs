//! The file operations, written once for all storages. Their results have the shape that every front door shows.

mod binary;
mod copy;
mod edit;
mod list;
mod make;
mod mode;
mod patch;
mod put;
mod read;
mod remove;
mod rename;
mod stat;
mod stream;
mod subtree;
mod write;

use garret_core::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::text::edit::Edit;
pub use binary::image_type;
pub use edit::{EditOptions, Edited};
pub use list::{ListRequest, Listed, ListedEntry, Sort};
pub use make::Made;
pub use patch::{PatchOptions, Patched, PatchedFile};
pub use put::{PutEntry, PutItem, PutResult};
pub use read::{FileContent, ReadRange, ReadRequest, Unit};
pub use remove::{RemoveOptions, Removed};
pub use rename::{TransferOptions, Transferred};
pub use stat::{Existence, FileStat};
pub use stream::Streamed;
pub use write::{AppendOptions, WriteOptions, Written};

/// How content is written as text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Encoding {
    /// The text itself.
    #[default]
    #[serde(rename = "utf-8", alias = "utf8", alias = "text")]
    Utf8,
    /// Bytes as base64.
    #[serde(rename = "base64")]
    Base64,
}

/// Formats a time as every front door shows it: RFC 3339, to the microsecond.
pub(crate) fn shown_time(time: Option<Timestamp>) -> Option<String> {
    time.map(|time| format!("{time:.6}"))
}
