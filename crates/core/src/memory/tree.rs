//! The tree of nodes, and the look-ups in it.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use crate::storage::{Entry, EntryKind, Follow, ListOptions, ListPage, Stat};
use crate::time::Timestamp;
use crate::{EntryPath, Error, Result, Version, WsPath};

const MAX_LINKS: usize = 40;

/// Whether a link in the last component of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinalLink {
    Followed,
    NotFollowed,
}

#[derive(Debug, Clone)]
pub(super) struct MemoryFile {
    pub(super) content: Bytes,
    pub(super) mode: u32,
    pub(super) revision: u64,
    pub(super) created: Timestamp,
    pub(super) modified: Timestamp,
}

impl MemoryFile {
    pub(super) fn version(&self) -> Version {
        Version::new(format!("m{}", self.revision))
    }
}

#[derive(Debug, Clone)]
pub(super) enum MemoryNode {
    File(MemoryFile),
    Directory { mode: u32, created: Timestamp },
    Symlink { target: String, created: Timestamp },
}

impl MemoryNode {
    pub(super) fn kind(&self) -> EntryKind {
        match self {
            Self::File(_) => EntryKind::File,
            Self::Directory { .. } => EntryKind::Directory,
            Self::Symlink { .. } => EntryKind::Symlink,
        }
    }

    pub(super) fn size(&self) -> u64 {
        match self {
            Self::File(file) => file.content.len() as u64,
            Self::Directory { .. } => 0,
            Self::Symlink { target, .. } => target.len() as u64,
        }
    }

    fn modified_at(&self) -> Timestamp {
        match self {
            Self::File(file) => file.modified,
            Self::Directory { created, .. } | Self::Symlink { created, .. } => *created,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct MemoryTree {
    pub(super) nodes: BTreeMap<WsPath, MemoryNode>,
    links: usize,
    /// The number of the last version given out.
    pub(super) revision: u64,
}

impl MemoryTree {
    /// Returns the path with its links followed; a component that does not exist is kept as written.
    pub(super) fn resolve_links(&self, path: &WsPath, last: FinalLink, follow: Follow) -> Result<WsPath> {
        // In a tree without links, no component needs a look-up.
        if self.links == 0 {
            return Ok(path.clone());
        }
        let mut todo: Vec<String> = path.components().rev().map(str::to_owned).collect();
        let mut real = WsPath::root();
        let mut followed = 0;
        while let Some(name) = todo.pop() {
            // Only the target of a link can hold `..`; a parsed path has none. It is relative to the directory that
            // holds the link.
            if name == ".." {
                real = real.parent().ok_or_else(|| Error::path_escape(path))?;
                continue;
            }
            let next = real.child(&name)?;
            let target = match self.nodes.get(&next) {
                Some(MemoryNode::Symlink { target, .. }) if last == FinalLink::Followed || !todo.is_empty() => target,
                _ => {
                    real = next;
                    continue;
                }
            };
            followed += 1;
            // An absolute target is a path of the machine, not of the workspace.
            if target.starts_with('/') || follow == Follow::Never {
                return Err(Error::path_escape(path));
            }
            if followed > MAX_LINKS {
                return Err(
                    Error::invalid(format!("{} goes through too many symbolic links", path.to_quoted())).at_path(path),
                );
            }
            todo.extend(
                target
                    .split('/')
                    .rev()
                    .filter(|part| !part.is_empty() && *part != ".")
                    .map(str::to_owned),
            );
        }
        Ok(real)
    }

    pub(super) fn stat_node(&self, path: &WsPath) -> Result<Stat> {
        // The root has no node in the map, and so no times.
        if path.is_root() {
            return Ok(describe_node(&MemoryNode::Directory {
                mode: 0o755,
                created: Timestamp::UNIX_EPOCH,
            }))
            .map(|stat| Stat {
                created: None,
                modified: None,
                ..stat
            });
        }
        self.find_node(path).map(describe_node)
    }

    pub(super) fn find_file(&self, path: &WsPath) -> Result<&MemoryFile> {
        if path.is_root() {
            return Err(Error::is_a_directory(path));
        }
        match self.find_node(path)? {
            MemoryNode::File(file) => Ok(file),
            MemoryNode::Directory { .. } => Err(Error::is_a_directory(path)),
            MemoryNode::Symlink { .. } => Err(Error::path_escape(path)),
        }
    }

    pub(super) fn find_node(&self, path: &WsPath) -> Result<&MemoryNode> {
        self.nodes.get(path).ok_or_else(|| self.missing_error(path))
    }

    /// Returns `not_a_directory` if a file is in the place of a directory above `path`, `not_found` otherwise.
    pub(super) fn missing_error(&self, path: &WsPath) -> Error {
        let blocked = path
            .ancestry()
            .any(|above| above != *path && !self.is_directory_or_missing(&above));
        if blocked {
            Error::not_a_directory(path)
        } else {
            Error::not_found(path)
        }
    }

    fn is_directory_or_missing(&self, path: &WsPath) -> bool {
        self.nodes
            .get(path)
            .is_none_or(|node| node.kind() == EntryKind::Directory)
    }

    pub(super) fn is_directory(&self, path: &WsPath) -> bool {
        path.is_root()
            || self
                .nodes
                .get(path)
                .is_some_and(|node| node.kind() == EntryKind::Directory)
    }

    fn check_directory(&self, path: &WsPath) -> Result<()> {
        if self.is_directory(path) {
            return Ok(());
        }
        Err(self
            .find_node(path)
            .map_or_else(|error| error, |_| Error::not_a_directory(path)))
    }

    pub(super) fn nodes_below(&self, directory: &WsPath) -> impl Iterator<Item = (&WsPath, &MemoryNode)> {
        let (start, end) = key_range_below(directory);
        self.nodes
            .range::<str, _>((Bound::Included(start.as_str()), as_str_bound(&end)))
    }

    pub(super) fn list_directory(&self, directory: &WsPath, options: &ListOptions) -> Result<ListPage> {
        self.check_directory(directory)?;
        let (start, end) = key_range_below(directory);
        let mut from = Bound::Included(start.clone());
        // A cursor before the directory is ignored; the page then begins with the first entry.
        if let Some(after) = options
            .after
            .as_ref()
            .map(|after| String::from_utf8_lossy(after.as_bytes()).into_owned())
            && after >= start
        {
            from = Bound::Excluded(after);
        }
        let mut page = ListPage::default();
        while let Some((path, node)) = self.next_node_in(&from, &end) {
            if !options.is_deep
                && let Some(slash) = path.as_str()[start.len()..].find('/')
            {
                // Jump over everything below this child; `0` is the character after `/`.
                from = Bound::Included(format!("{}0", &path.as_str()[..start.len() + slash]));
                continue;
            }
            if page.entries.len() == options.limit {
                page.has_more = true;
                break;
            }
            page.entries.push(list_entry(path, node));
            from = Bound::Excluded(path.as_str().to_owned());
        }
        Ok(page)
    }

    fn next_node_in(&self, from: &Bound<String>, end: &Bound<String>) -> Option<(&WsPath, &MemoryNode)> {
        // `BTreeMap::range` panics if the start lies after the end.
        if let (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end)) = (from, end)
            && start >= end
        {
            return None;
        }
        self.nodes
            .range::<str, _>((as_str_bound(from), as_str_bound(end)))
            .next()
    }

    /// Puts a node at a path, or removes the node there; returns the earlier node.
    pub(super) fn replace_node(&mut self, path: WsPath, node: Option<MemoryNode>) -> Option<MemoryNode> {
        let is_link = |node: &Option<MemoryNode>| node.as_ref().is_some_and(|node| node.kind() == EntryKind::Symlink);
        let added = is_link(&node);
        let before = match node {
            Some(node) => self.nodes.insert(path, node),
            None => self.nodes.remove(&path),
        };
        // The count lets `resolve_links` skip its work in a tree without links.
        self.links = self.links + usize::from(added) - usize::from(is_link(&before));
        before
    }
}

/// Returns the first key that could lie below `directory`, and the first key after all of those.
fn key_range_below(directory: &WsPath) -> (String, Bound<String>) {
    if directory.is_root() {
        return (String::new(), Bound::Unbounded);
    }
    // `0` is the character after `/`.
    (format!("{directory}/"), Bound::Excluded(format!("{directory}0")))
}

fn as_str_bound(bound: &Bound<String>) -> Bound<&str> {
    bound.as_ref().map(String::as_str)
}

fn describe_node(node: &MemoryNode) -> Stat {
    let (mode, created, version, target) = match node {
        MemoryNode::File(file) => (Some(file.mode), file.created, Some(file.version()), None),
        MemoryNode::Directory { mode, created } => (Some(*mode), *created, None, None),
        MemoryNode::Symlink { target, created } => (None, *created, None, Some(target.clone())),
    };
    Stat {
        kind: node.kind(),
        size: node.size(),
        mode,
        created: Some(created),
        modified: Some(node.modified_at()),
        changed: None,
        version,
        target,
        hard_linked: None,
    }
}

fn list_entry(path: &WsPath, node: &MemoryNode) -> Entry {
    Entry {
        path: EntryPath::Valid(path.clone()),
        kind: node.kind(),
        size: node.size(),
        modified: Some(node.modified_at()),
        version: match node {
            MemoryNode::File(file) => Some(file.version()),
            MemoryNode::Directory { .. } | MemoryNode::Symlink { .. } => None,
        },
        hard_linked: None,
    }
}
