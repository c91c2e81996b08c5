//! The files at a point as directories that are opened one inside the other. This gives access to names that no path
//! can express.
//!
//! For all other names [`garret_core::Storage`] is faster: each call here is a database lookup of its own.

use garret_core::{
    DirectoryEntry, DirectoryHandle, EntryAlteration, EntryKind, EntryPath, Error, ErrorKind, OpenFile, Result, Stat,
    WsPath,
};

use crate::content_reader::StoredContent;
use crate::error::damaged_content;
use crate::metadata::EntryNode;
use crate::storage::DepotView;
use crate::tree::{DepotTree, stat_of};

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

    fn find_node(&self, name: &[u8]) -> Result<EntryNode> {
        let path = self.path.child(name);
        let node = self.view.read_tree(|tree| tree.node(path.as_bytes()))?;
        node.ok_or_else(|| Error::not_found(&displayed_path(&path)))
    }
}

/// Returns a path for a message, with the names escaped that no path can express.
fn displayed_path(path: &EntryPath) -> WsPath {
    WsPath::parse(&path.display_path()).unwrap_or_else(|_| WsPath::root())
}

impl DirectoryHandle for DepotDirectory {
    fn list_entries(&self) -> Result<Vec<DirectoryEntry>> {
        let children = self
            .view
            .read_tree(|tree: &DepotTree<'_>| tree.children(self.path.as_bytes()))?;
        let entry = |(name, node): (Vec<u8>, EntryNode)| DirectoryEntry { name, kind: node.kind };
        Ok(children.into_iter().map(entry).collect())
    }

    fn open_directory(&self, name: &[u8]) -> Result<Box<dyn DirectoryHandle>> {
        let path = self.path.child(name);
        match self.find_node(name)?.kind {
            EntryKind::Directory => Ok(Box::new(Self {
                view: self.view.clone(),
                path,
            })),
            _ => Err(Error::not_a_directory(&displayed_path(&path))),
        }
    }

    fn open_file(&self, name: &[u8]) -> Result<OpenFile> {
        let (node, path) = (self.find_node(name)?, displayed_path(&self.path.child(name)));
        if node.kind != EntryKind::File {
            let message = format!(
                "{} is not a regular file, and only regular files can be opened",
                path.to_quoted()
            );
            return Err(Error::new(ErrorKind::Unsupported, message).at_path(&path));
        }
        let stored = StoredContent {
            shared: self.view.shared().clone(),
            address: node
                .content
                .ok_or_else(|| damaged_content("a file has no content").at_path(&path))?,
            size: node.size,
        };
        Ok(OpenFile {
            content: Box::new(stored.reader()),
            size: node.size,
            hard_linked: None,
        })
    }

    fn stat_entry(&self, name: &[u8]) -> Result<Stat> {
        self.find_node(name).map(|node| stat_of(node, true))
    }

    fn alter_entry(&self, name: &[u8], _alteration: EntryAlteration<'_>) -> Result<()> {
        let error = Error::new(
            ErrorKind::Denied,
            "this is an earlier point of the workspace, which is read-only",
        );
        Err(error.at_path(&displayed_path(&self.path.child(name))))
    }
}
