//! The tree of files at a point. The rows of each level of a lineage cover the rows of the levels that it was forked
//! from.
//!
//! Invariant: every directory above an entry is an entry, too. So an entry that is found has no link and no file above
//! it, and one lookup is enough for most paths; only a path that is missing, or ends in a link, is walked component by
//! component.

mod list;
mod scan;

use std::ops::RangeInclusive;

use garret_core::{EntryKind, Error, Follow, Result, Stat, Version, WsPath};

use crate::content::PieceAddress;
use crate::metadata::{EntryNode, LineageLevel, MetadataSession, NearestEntry, time_of};

pub(crate) use scan::TreeScan;

const MAX_LINKS: usize = 40;
/// The digits of an address that make a version: half of them.
const VERSION_DIGITS: usize = 32;

/// Whether a link in the last component of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TreeFinalLink {
    Followed,
    NotFollowed,
}

/// The target of a path after following links, with the entry there.
#[derive(Debug, Clone)]
pub(crate) struct LocatedPath {
    pub(crate) path: WsPath,
    pub(crate) node: Option<EntryNode>,
    /// Whether the path has no entry, and its parent is known to be a directory.
    pub(crate) is_free: bool,
}

/// The files at a point.
pub(crate) struct DepotTree<'c> {
    session: MetadataSession<'c>,
    levels: Vec<LineageLevel>,
}

impl<'c> DepotTree<'c> {
    /// Returns the tree at `point`.
    pub(crate) fn at_point(session: MetadataSession<'c>, point: LineageLevel) -> Result<Self> {
        Ok(Self::from_levels(session, session.workspaces().levels(point)?))
    }

    /// Returns the tree of the given levels, the nearest first.
    pub(crate) fn from_levels(session: MetadataSession<'c>, levels: Vec<LineageLevel>) -> Self {
        Self { session, levels }
    }

    /// Returns the session through which the tree is read.
    pub(crate) fn session(&self) -> MetadataSession<'c> {
        self.session
    }

    /// Returns the entry at `path`, which must not be the root.
    pub(crate) fn node(&self, path: &[u8]) -> Result<Option<EntryNode>> {
        self.node_from(0, path)
    }

    /// Returns the entry at `path` without the nearest level.
    pub(crate) fn inherited_node(&self, path: &[u8]) -> Result<Option<EntryNode>> {
        self.node_from(1, path)
    }

    fn node_from(&self, nearest: usize, path: &[u8]) -> Result<Option<EntryNode>> {
        for level in &self.levels[nearest..] {
            if let Some(held) = self.session.entries().entry(level.workspace, path, level.at)? {
                return Ok(held.into_node());
            }
        }
        Ok(None)
    }

    /// Returns a scan of all entries below `directory`, in order.
    pub(crate) fn scan_below(&self, directory: &[u8]) -> TreeScan<'_, 'c> {
        let (start, end) = span_below(directory);
        TreeScan::new(self.session, &self.levels, start, end)
    }

    /// Follows the links of `path`; components that do not exist are kept as written.
    pub(crate) fn locate(&self, path: &WsPath, last: TreeFinalLink, follow: Follow) -> Result<LocatedPath> {
        match self.nearest_entry(path)? {
            Some(NearestEntry::Itself(node))
                if node.kind != EntryKind::Symlink || last == TreeFinalLink::NotFollowed =>
            {
                return Ok(located_path(path.clone(), Some(node)));
            }
            Some(NearestEntry::Above(node)) if node.kind != EntryKind::Symlink => {
                return Ok(LocatedPath {
                    is_free: node.kind == EntryKind::Directory,
                    ..located_path(path.clone(), None)
                });
            }
            Some(_) => return self.walk_links(path, last, follow),
            None => {}
        }
        // From the bottom up: the nearest existing entry has no link above it, so the path is only walked if that entry
        // is a link itself.
        let mut nearest = Some(path.clone());
        while let Some(above) = nearest.filter(|above| !above.is_root()) {
            match self.node(path_key(&above))? {
                Some(node)
                    if above == *path && !(node.kind == EntryKind::Symlink && last == TreeFinalLink::Followed) =>
                {
                    return Ok(located_path(above, Some(node)));
                }
                Some(node) if node.kind == EntryKind::Symlink => return self.walk_links(path, last, follow),
                Some(node) => {
                    let is_free = node.kind == EntryKind::Directory && path.parent() == Some(above);
                    return Ok(LocatedPath {
                        is_free,
                        ..located_path(path.clone(), None)
                    });
                }
                None => nearest = above.parent(),
            }
        }
        Ok(located_path(path.clone(), None))
    }

    /// Looks up `path` and its parent with one statement, which works in a tree of one level, as most are. `None` means
    /// only that a full lookup is needed.
    fn nearest_entry(&self, path: &WsPath) -> Result<Option<NearestEntry>> {
        match (&self.levels[..], path.parent().filter(|above| !above.is_root())) {
            ([level], Some(above)) => self
                .session
                .entries()
                .entry_or_above(*level, path_key(path), path_key(&above)),
            _ => Ok(None),
        }
    }

    fn walk_links(&self, path: &WsPath, last: TreeFinalLink, follow: Follow) -> Result<LocatedPath> {
        let mut todo: Vec<String> = path.components().rev().map(str::to_owned).collect();
        let mut real = located_path(WsPath::root(), None);
        let mut followed = 0;
        while let Some(name) = todo.pop() {
            if name == ".." {
                let above = real.path.parent().ok_or_else(|| Error::path_escape(path))?;
                real = located_path(above.clone(), self.node(path_key(&above))?);
                continue;
            }
            let next = real.path.child(&name)?;
            let node = self.node(path_key(&next))?;
            let target = match node.as_ref().and_then(|node| node.target.as_ref()) {
                Some(target) if last == TreeFinalLink::Followed || !todo.is_empty() => target,
                _ => {
                    real = located_path(next, node);
                    continue;
                }
            };
            followed += 1;
            // An absolute target leads out of the workspace.
            if target.starts_with('/') || follow == Follow::Never {
                return Err(Error::path_escape(path));
            }
            if followed > MAX_LINKS {
                return Err(
                    Error::invalid(format!("{} goes through too many symbolic links", path.to_quoted())).at_path(path),
                );
            }
            todo.extend(target_components(target).rev().map(str::to_owned));
        }
        Ok(real)
    }

    /// Returns the entry at `place`. A missing entry is `not_found`, or `not_a_directory` if one of its parents is a
    /// file.
    pub(crate) fn require_node(&self, place: &LocatedPath) -> Result<EntryNode> {
        match &place.node {
            Some(node) => Ok(node.clone()),
            None => Err(self.why_missing(&place.path)?),
        }
    }

    /// Returns the file at `place`; a directory is `is_a_directory`.
    pub(crate) fn require_file(&self, place: &LocatedPath) -> Result<EntryNode> {
        if place.path.is_root() {
            return Err(Error::is_a_directory(&place.path));
        }
        let node = self.require_node(place)?;
        match node.kind {
            EntryKind::File => Ok(node),
            EntryKind::Directory => Err(Error::is_a_directory(&place.path)),
            _ => Err(Error::path_escape(&place.path)),
        }
    }

    /// Returns the error for a missing path: `not_a_directory` if one of its parents is a file, else `not_found`.
    pub(crate) fn why_missing(&self, path: &WsPath) -> Result<Error> {
        let mut nearest = path.parent();
        while let Some(above) = nearest.filter(|above| !above.is_root()) {
            match self.node(path_key(&above))? {
                Some(node) if node.kind != EntryKind::Directory => return Ok(Error::not_a_directory(path)),
                Some(_) => break,
                None => nearest = above.parent(),
            }
        }
        Ok(Error::not_found(path))
    }

    /// Describes the entry at `place`.
    pub(crate) fn stat(&self, place: &LocatedPath, with_version: bool) -> Result<Stat> {
        if place.path.is_root() {
            return Ok(root_stat());
        }
        self.require_node(place).map(|node| stat_of(node, with_version))
    }
}

/// Describes an entry.
pub(crate) fn stat_of(node: EntryNode, with_version: bool) -> Stat {
    Stat {
        kind: node.kind,
        size: node.size,
        mode: (node.kind != EntryKind::Symlink).then_some(node.mode),
        created: Some(time_of(node.created)),
        modified: Some(time_of(node.modified)),
        changed: None,
        version: version_of(&node).filter(|_| with_version),
        target: node.target,
        hard_linked: None,
    }
}

/// Returns the version of a file: a part of its content's address. So it stays the same through moves, branches and
/// restores, and a write with a version as its precondition requires exactly that content.
pub(crate) fn version_of(node: &EntryNode) -> Option<Version> {
    let digits = |address: PieceAddress| Version::new(&address.hex_digits()[..VERSION_DIGITS]);
    node.content.map(digits)
}

/// Returns the addresses that content of this version can have; `None` if it is no version of a depot.
pub(crate) fn addresses_of(version: &Version) -> Option<RangeInclusive<PieceAddress>> {
    let digits = version.as_str();
    let filled = |with: &str| PieceAddress::from_hex(&(digits.to_owned() + &with.repeat(VERSION_DIGITS)));
    if digits.len() == VERSION_DIGITS {
        Some(filled("0")?..=filled("f")?)
    } else {
        None
    }
}

/// Returns the path in the form of an entry's key.
pub(crate) fn path_key(path: &WsPath) -> &[u8] {
    path.as_str().as_bytes()
}

fn located_path(path: WsPath, node: Option<EntryNode>) -> LocatedPath {
    LocatedPath {
        path,
        node,
        is_free: false,
    }
}

fn target_components(target: &str) -> impl DoubleEndedIterator<Item = &str> {
    target.split('/').filter(|part| !part.is_empty() && *part != ".")
}

/// Returns the range of keys below `directory`: the first possible key, and the first key after all of them.
pub(crate) fn span_below(directory: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    if directory.is_empty() {
        return (Vec::new(), None);
    }
    // `0` is the character after `/`.
    ([directory, b"/"].concat(), Some([directory, b"0"].concat()))
}

fn root_stat() -> Stat {
    Stat {
        kind: EntryKind::Directory,
        size: 0,
        mode: Some(0o755),
        created: None,
        modified: None,
        changed: None,
        version: None,
        target: None,
        hard_linked: None,
    }
}
