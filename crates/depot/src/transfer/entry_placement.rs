//! Places imported entries in a change.

use garret_core::{EntryKind, EntryPath, Error, ErrorKind, Result, WsPath};

use crate::change::{ChangeBuilder, directory_node};
use crate::metadata::EntryNode;
use crate::tree::path_key;

/// Creates the destination directory, unless it exists.
pub(super) fn make_destination(changing: &mut ChangeBuilder<'_>, into: &WsPath) -> Result<()> {
    match changing.tree.node(path_key(into))? {
        Some(node) if node.kind == EntryKind::Directory => Ok(()),
        Some(_) => Err(Error::not_a_directory(into)),
        None => {
            changing.make_parents(into, true)?;
            let now = changing.now();
            changing.set_entry(path_key(into), Some(directory_node(now)))
        }
    }
}

/// Puts one entry, with the missing directories above it.
pub(super) fn put_entry(changing: &mut ChangeBuilder<'_>, path: &[u8], node: EntryNode) -> Result<()> {
    let before = changing.tree.node(path)?;
    let is_directory = |node: &EntryNode| node.kind == EntryKind::Directory;
    let error_at = |error: Error| error.at_path_text(EntryPath::from_bytes(path.to_vec()).display_path());
    match &before {
        Some(before) if is_directory(before) != is_directory(&node) => {
            let message = "a directory cannot replace a file, nor a file a directory";
            return Err(error_at(Error::new(ErrorKind::AlreadyExists, message)).hint("remove the existing entry first"));
        }
        // An unchanged file is not part of the change.
        Some(before) if before.is_same(&node) => return Ok(()),
        _ => {}
    }
    for (slash, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
        match changing.tree.node(&path[..slash])? {
            Some(above) if is_directory(&above) => {}
            Some(_) => {
                let message = "a path above it is not a directory";
                return Err(error_at(Error::new(ErrorKind::NotADirectory, message)).hint("nothing was imported"));
            }
            None => changing.set_entry(&path[..slash], Some(directory_node(changing.now())))?,
        }
    }
    let created = before.map_or(changing.now(), |before| before.created);
    let node = EntryNode {
        created,
        modified: changing.now(),
        ..node
    };
    changing.set_entry(path, Some(node))
}
