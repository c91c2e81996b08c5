//! A workspace as one portable file: with its history, or only its files at a point.
//!
//! # The format, version 1
//!
//! A tar archive compressed with zstd, in this order:
//!
//! | entry | content |
//! |---|---|
//! | `manifest.json` | `format` (`garret-workspace`), `version` (1), `name`, `head`, `oldest`, `oldest_at`, `has_history` |
//! | `journal/N.jsonl` | records, one JSON object a line, each with its `type`: `change`, `entry`, `move`, `reversal`, `snapshot` |
//! | `content/HASH` | a piece of content, plain, by the BLAKE3 of its bytes |
//! | `lists/HASH` | the parts of a larger content (32 bytes of address, 8 of size, little-endian, for each), after the parts |
//! | `end.json` | the number of records and pieces, and the BLAKE3 of everything before (name, NUL, bytes of each entry) |
//!
//! Paths are written as [`garret_core::EntryPath::to_token`] does, so a name that is not UTF-8 is kept too. Times are
//! microseconds since 1970. An entry without `until` is live. A branch is exported as a workspace of its own: its
//! inherited entries become its first entries.
//!
//! Both directions stream: memory holds one piece of content (at most a few MiB) and the addresses of all pieces. An
//! import reads the file twice: once to verify every byte, and then to store it in a hidden workspace, which is shown
//! when it is complete. So a file that is truncated, damaged, or of a newer version leaves nothing behind.

mod content_check;
mod export;
mod import;
mod portable_file;
mod records;

pub use export::{ExportExtent, ExportReport, export_workspace};
pub use import::{ImportReport, import_workspace, read_portable_manifest};
pub use portable_file::Manifest;
