//! Pieces of text that several tools write: kinds, sizes, and lines that cannot be forged or grow without end.

use garret_core::EntryKind;

/// A kind as a word.
pub(crate) fn kind_name(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Symlink => "symlink",
        EntryKind::Other => "special file",
    }
}
