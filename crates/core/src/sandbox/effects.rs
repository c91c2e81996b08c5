//! The effects of commands on the files, as data.

use crate::time::Timestamp;
use crate::{EntryPath, PathTree, PlacedEntry};

/// The effects of the commands on a layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// The present entry of each changed path, in the order of paths: a directory comes before its entries, and for a
    /// directory that was removed or replaced, each path that was in it is named.
    pub effects: Vec<Effect>,
    /// The entries that were left out, and why.
    pub dropped: Vec<DroppedEntry>,
    /// The position of this reading, so that the next one gives only later effects.
    pub mark: EffectsMark,
}

/// The present entry of a changed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// The path.
    pub path: EntryPath,
    /// The entry. Never [`PlacedEntry::Image`]: a sandbox cannot read content from history.
    pub placed: PlacedEntry,
    /// The time of its last write, so that a bench can keep the times that build tools compare.
    pub modified: Option<Timestamp>,
    /// Whether it changes an entry that is no longer below the layer, because others removed it since the layer was
    /// laid.
    pub is_lost_below: bool,
}

/// An entry that a command made and that no workspace takes: a device, a fifo, a socket; or the set-user-id bit of a
/// file that is itself taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedEntry {
    /// Its path.
    pub path: EntryPath,
    /// The kind of the dropped entry: `fifo`, `socket`, `device`, `set-user-id bit`, …
    pub what: &'static str,
}

/// The position of a reading of a layer; only the sandbox that made it can interpret it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EffectsMark(pub PathTree<u64>);
