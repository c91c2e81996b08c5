//! The files at a point as directories that are opened one inside the other. This gives access to names that no path
//! can express.
//!
//! For all other names [`garret_core::Storage`] is faster: each call here is a database lookup of its own.

use garret_core::{
    Alteration, Directory, DirectoryEntry, EntryKind, EntryPath, Error, ErrorKind, OpenFile, Result, Stat, WsPath,
};

use crate::error::damaged;
use crate::metadata::Node;
use crate::storage::DepotView;
use crate::stored::Stored;
use crate::tree::{Tree, stat_of};

/// A directory at a point.
#[derive(Debug)]
pub(crate) struct DepotDirectory {
    view: DepotView,
    path: EntryPath,
}

impl DepotDirectory {
    /// Returns the root directory of the files in `view`.
    pub(crate) fn root(view: DepotView) -> Self {
        let path = WsPath::root().into();
        Self { view, path }
    }

    fn node(&self, name: &[u8]) -> Result<Node> {
        let path = self.path.child(name);
        let node = self.view.look(|tree| tree.node(path.as_bytes()))?;
        node.ok_or_else(|| Error::not_found(&shown(&path)))
    }
}

/// Returns a path for a message, with the names escaped that no path can express.
fn shown(path: &EntryPath) -> WsPath {
    WsPath::parse(&path.shown()).unwrap_or_else(|_| WsPath::root())
}

impl Directory for DepotDirectory {
    fn entries(&self) -> Result<Vec<DirectoryEntry>> {
        let children = self.view.look(|tree: &Tree<'_>| tree.children(self.path.as_bytes()))?;
        let entry = |(name, node): (Vec<u8>, Node)| DirectoryEntry { name, kind: node.kind };
        Ok(children.into_iter().map(entry).collect())
    }

    fn open_directory(&self, name: &[u8]) -> Result<Box<dyn Directory>> {
        let path = self.path.child(name);
        match self.node(name)?.kind {
            EntryKind::Directory => Ok(Box::new(Self {
                view: self.view.clone(),
                path,
            })),
            _ => Err(Error::not_a_directory(&shown(&path))),
        }
    }

    fn open_file(&self, name: &[u8]) -> Result<OpenFile> {
        let (node, path) = (self.node(name)?, shown(&self.path.child(name)));
        if node.kind != EntryKind::File {
            let message = format!(
                "{} is not a regular file, and only regular files can be opened",
                path.quoted()
            );
            return Err(Error::new(ErrorKind::Unsupported, message).at(&path));
        }
        let stored = Stored {
            shared: self.view.shared().clone(),
            address: node.content.ok_or_else(|| damaged("a file has no content").at(&path))?,
            size: node.size,
        };
        Ok(OpenFile {
            content: Box::new(stored.reader()),
            size: node.size,
            hard_linked: None,
        })
    }

    fn stat(&self, name: &[u8]) -> Result<Stat> {
        self.node(name).map(|node| stat_of(node, true))
    }

    fn alter(&self, name: &[u8], _alteration: Alteration<'_>) -> Result<()> {
        let error = Error::new(
            ErrorKind::Denied,
            "this is an earlier point of the workspace, which is read-only",
        );
        Err(error.at(&shown(&self.path.child(name))))
    }
}
