//! What commands did to the files, as data.

use crate::time::Timestamp;
use crate::{EntryPath, PathTree, Placed};

/// What was done on a layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    /// What is where now, in the order of paths: a directory comes before what is in it, and where one was removed or replaced, all that
    /// was in it is named.
    pub effects: Vec<Effect>,
    /// What was left out, and why.
    pub dropped: Vec<Dropped>,
    /// Where this reading stood, so that the next one gives only what came after.
    pub mark: Mark,
}

/// What is at a path now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// The path.
    pub path: EntryPath,
    /// What is there. Never [`Placed::Image`]: a sandbox cannot read content from history.
    pub placed: Placed,
    /// When it was last written, so that a bench can keep what build tools compare.
    pub modified: Option<Timestamp>,
    /// Whether it changes something that is not below the layer any more: others removed it since the layer was laid.
    pub is_lost_below: bool,
}

/// Something that a command made and that no workspace takes: a device, a fifo, a socket, or the set-user-id bit of a file that itself is
/// taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Its path.
    pub path: EntryPath,
    /// What was left out: `fifo`, `socket`, `device`, `set-user-id bit`, …
    pub what: &'static str,
}

/// Where a reading of a layer stood; only the sandbox that made it reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mark(pub PathTree<u64>);
