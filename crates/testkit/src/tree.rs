//! A whole workspace as a value, for comparing.

use std::collections::BTreeMap;
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
