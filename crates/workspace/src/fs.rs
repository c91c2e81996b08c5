//! The file operations, written once for all storages. Their results have the shape that every front door shows.

mod content_type;
mod copy;
mod edit;
mod list;
mod make_dir;
mod patch;
mod permissions;
mod put_entries;
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
pub use content_type::image_type;
pub use edit::EditOptions;
pub use list::{ListRequest, ListSortOrder};
pub use patch::PatchOptions;
pub use put_entries::{PutEntry, PutItem};
pub use read::{ReadRequest, ReadUnit};
pub use remove::RemoveOptions;
pub use rename::TransferOptions;
pub use stream::StreamResult;
pub use write::{AppendOptions, WriteOptions};

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
