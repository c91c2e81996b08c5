//! A whole workspace as a value, for comparing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;

/// Everything in a storage, by path.
pub type Tree = BTreeMap<String, Node>;

/// One entry of a [`Tree`].
#[derive(Clone, PartialEq, Eq)]
pub enum Node {
    /// A file.
    File {
        /// Its content.
        content: Bytes,
        /// Its permission bits, where they are known.
        mode: Option<u32>,
    },
    /// A directory.
    Directory {
        /// Its permission bits, where they are known.
        mode: Option<u32>,
    },
    /// A symbolic link.
    Symlink {
        /// Where it points, as written.
        target: String,
    },
    /// Something that is listed and never opened.
    Other,
}

impl fmt::Debug for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown_mode = |mode: &Option<u32>| mode.map_or_else(String::new, |mode| format!(" {mode:o}"));
        match self {
            Self::File { content, mode } if content.len() > 60 => {
                write!(formatter, "file of {} bytes{}", content.len(), shown_mode(mode))
            }
            Self::File { content, mode } => {
                let text = String::from_utf8_lossy(content);
                write!(formatter, "file {text:?}{}", shown_mode(mode))
            }
            Self::Directory { mode } => write!(formatter, "directory{}", shown_mode(mode)),
            Self::Symlink { target } => write!(formatter, "link to {target:?}"),
            Self::Other => formatter.write_str("other"),
        }
    }
}

/// The paths at which two trees differ.
pub fn differing(one: &Tree, other: &Tree) -> BTreeSet<String> {
    let all = one.keys().chain(other.keys()).cloned();
    all.filter(|path| one.get(path) != other.get(path)).collect()
}

/// Whether every entry has its directory.
pub fn is_whole(tree: &Tree) -> bool {
    let above = |path: &String| path.rfind('/').map(|slash| path[..slash].to_owned());
    let is_directory = |path: String| matches!(tree.get(&path), Some(Node::Directory { .. }));
    tree.keys().filter_map(above).all(is_directory)
}

/// The simplest merge of three trees: what only they changed is theirs, everything else ours. `None` where the outcome is no tree.
pub fn three_way(base: &Tree, ours: &Tree, theirs: &Tree) -> Option<Tree> {
    let mut merged = ours.clone();
    for path in differing(base, theirs) {
        if ours.get(&path) != base.get(&path) {
            continue;
        }
        match theirs.get(&path) {
            Some(node) => merged.insert(path, node.clone()),
            None => merged.remove(&path),
        };
    }
    is_whole(&merged).then_some(merged)
}
