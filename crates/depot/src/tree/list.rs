//! Lists directories page by page. A shallow list skips the entries below each child, so its cost depends on the
//! children, not on the tree.

use garret_core::{Entry, EntryKind, EntryPath, Error, ListOptions, ListPage, Result};

use super::{DepotTree, LocatedPath, path_key, span_below, version_of};
use crate::metadata::{EntryNode, time_of};

impl DepotTree<'_> {
    /// Returns a page of the directory at `place`.
    pub(crate) fn list(&self, place: &LocatedPath, options: &ListOptions) -> Result<ListPage> {
        self.check_directory(place)?;
        let (start, _) = span_below(path_key(&place.path));
        let mut scan = self.scan_below(path_key(&place.path));
        if let Some(after) = &options.after
            && after.as_bytes() >= start.as_slice()
        {
            // The smallest key after `after`.
            scan.seek(&[after.as_bytes(), b"\0"].concat());
        }
        let mut page = ListPage::default();
        while let Some((path, node)) = scan.next()? {
            if !options.is_deep
                && let Some(slash) = path[start.len()..].iter().position(|byte| *byte == b'/')
            {
                // `0` is the character after `/`.
                scan.seek(&[&path[..start.len() + slash], b"0"].concat());
                continue;
            }
            if page.entries.len() == options.limit {
                page.has_more = true;
                break;
            }
            page.entries.push(list_entry(path, &node));
        }
        Ok(page)
    }

    /// Returns the direct children of the directory at `path`, each with its name.
    pub(crate) fn children(&self, path: &[u8]) -> Result<Vec<(Vec<u8>, EntryNode)>> {
        let (start, _) = span_below(path);
        let mut scan = self.scan_below(path);
        let mut children = Vec::new();
        while let Some((below, node)) = scan.next()? {
            let name = &below[start.len()..];
            match name.iter().position(|byte| *byte == b'/') {
                // `0` is the character after `/`.
                Some(slash) => scan.seek(&[&below[..start.len() + slash], b"0"].concat()),
                None => children.push((name.to_vec(), node)),
            }
        }
        Ok(children)
    }

    fn check_directory(&self, place: &LocatedPath) -> Result<()> {
        if place.path.is_root() || self.require_node(place)?.kind == EntryKind::Directory {
            return Ok(());
        }
        Err(Error::not_a_directory(&place.path))
    }
}

fn list_entry(path: Vec<u8>, node: &EntryNode) -> Entry {
    Entry {
        path: EntryPath::from_bytes(path),
        kind: node.kind,
        size: node.size,
        modified: Some(time_of(node.modified)),
        version: version_of(node),
        hard_linked: None,
    }
}
