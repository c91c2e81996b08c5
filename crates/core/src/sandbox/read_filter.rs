//! Decides which entries of a bench the commands of a view see.

use std::fmt;

use crate::{EntryKind, EntryPath};

/// Decides which entries of a bench commands see.
///
/// A sandbox asks from the root down. It does not ask about entries below one that is hidden or visible as a whole. A
/// name that the rules of a view cannot judge, because it is not UTF-8, must be [`Visibility::Hidden`].
pub trait ReadFilter: Send + Sync + fmt::Debug {
    /// Decides on the entry at `path`.
    fn entry_visibility(&self, path: &EntryPath, kind: EntryKind) -> Visibility;
}

/// The part of an entry that commands see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// Neither it nor anything below it.
    Hidden,
    /// The entry itself; each entry below it is decided by itself.
    Partial,
    /// It and everything below it.
    Whole,
}
