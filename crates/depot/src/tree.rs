//! The tree of files at a point, as a lineage shows it: each level over the ones it was forked from.
//!
//! Invariant: every directory above an entry is an entry too. So an entry that is found has no link and no file above it, and most looks
//! need one lookup; only a path that is missing, or ends in a link, is walked.

mod list;
mod scan;

use garret_core::{EntryKind, Error, Follow, Result, Stat, Version, WsPath};

use crate::metadata::{Level, Nearest, Node, Session, time_of};

pub(crate) use scan::Scan;

const MAX_LINKS: usize = 40;

/// Whether a link in the last place of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    Followed,
    Kept,
}

/// Where a path leads, and what is there.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) path: WsPath,
    pub(crate) node: Option<Node>,
    /// Whether nothing is there and the directory above is known to be one.
    pub(crate) is_free: bool,
}

/// The files at a point.
pub(crate) struct Tree<'c> {
    session: Session<'c>,
    levels: Vec<Level>,
}

impl<'c> Tree<'c> {
    /// The tree at `point`.
    pub(crate) fn at(session: Session<'c>, point: Level) -> Result<Self> {
        Ok(Self::of(session, session.levels(point)?))
    }

    /// The tree that these levels show, the nearest first.
    pub(crate) fn of(session: Session<'c>, levels: Vec<Level>) -> Self {
        Self { session, levels }
    }

    /// The transaction that the tree is seen through.
    pub(crate) fn session(&self) -> Session<'c> {
        self.session
    }

    /// The levels that it shows.
    pub(crate) fn into_levels(self) -> Vec<Level> {
        self.levels
    }

    /// What is at `path`; the root is not asked for.
    pub(crate) fn node(&self, path: &[u8]) -> Result<Option<Node>> {
        self.node_from(0, path)
    }

    /// What would be at `path` if the nearest level said nothing.
    pub(crate) fn inherited(&self, path: &[u8]) -> Result<Option<Node>> {
        self.node_from(1, path)
    }

    fn node_from(&self, nearest: usize, path: &[u8]) -> Result<Option<Node>> {
        for level in &self.levels[nearest..] {
            if let Some(held) = self.session.entry(level.workspace, path, level.at)? {
                return Ok(held.node());
            }
        }
        Ok(None)
    }

    /// Everything below `directory`, in order.
    pub(crate) fn below(&self, directory: &[u8]) -> Scan<'_, 'c> {
        let (start, end) = span_below(directory);
        Scan::new(self.session, &self.levels, start, end)
    }

    /// Where `path` leads when its links are followed; a part that does not exist is kept as written.
    pub(crate) fn locate(&self, path: &WsPath, last: Last, follow: Follow) -> Result<Place> {
        match self.nearest(path)? {
            Some(Nearest::Itself(node)) if node.kind != EntryKind::Symlink || last == Last::Kept => {
                return Ok(place(path.clone(), Some(node)));
            }
            Some(Nearest::Above(node)) if node.kind != EntryKind::Symlink => {
                return Ok(Place {
                    is_free: node.kind == EntryKind::Directory,
                    ..place(path.clone(), None)
                });
            }
            Some(_) => return self.walk(path, last, follow),
            None => {}
        }
        let mut nearest = Some(path.clone());
        while let Some(above) = nearest.filter(|above| !above.is_root()) {
            match self.node(bytes(&above))? {
                Some(node) if above == *path && !(node.kind == EntryKind::Symlink && last == Last::Followed) => {
                    return Ok(place(above, Some(node)));
                }
                Some(node) if node.kind == EntryKind::Symlink => return self.walk(path, last, follow),
                Some(node) => {
                    let is_free = node.kind == EntryKind::Directory && path.parent() == Some(above);
                    return Ok(Place {
                        is_free,
                        ..place(path.clone(), None)
                    });
                }
                None => nearest = above.parent(),
            }
        }
        Ok(place(path.clone(), None))
    }

    /// What is at `path` or right above it, where one look can tell: in a workspace of one level, as most are.
    fn nearest(&self, path: &WsPath) -> Result<Option<Nearest>> {
        match (&self.levels[..], path.parent().filter(|above| !above.is_root())) {
            ([level], Some(above)) => self.session.entry_or_above(*level, bytes(path), bytes(&above)),
            _ => Ok(None),
        }
    }

    fn walk(&self, path: &WsPath, last: Last, follow: Follow) -> Result<Place> {
        let mut todo: Vec<String> = path.components().rev().map(str::to_owned).collect();
        let mut real = place(WsPath::root(), None);
        let mut followed = 0;
        while let Some(name) = todo.pop() {
            if name == ".." {
                let above = real.path.parent().ok_or_else(|| Error::path_escape(path))?;
                real = place(above.clone(), self.node(bytes(&above))?);
                continue;
            }
            let next = real.path.child(&name)?;
            let node = self.node(bytes(&next))?;
            let target = match node.as_ref().and_then(|node| node.target.as_ref()) {
                Some(target) if last == Last::Followed || !todo.is_empty() => target,
                _ => {
                    real = place(next, node);
                    continue;
                }
            };
            followed += 1;
            if target.starts_with('/') || follow == Follow::Never {
                return Err(Error::path_escape(path));
            }
            if followed > MAX_LINKS {
                return Err(Error::invalid(format!("{} goes through too many symbolic links", path.quoted())).at(path));
            }
            todo.extend(steps(target).rev().map(str::to_owned));
        }
        Ok(real)
    }

    /// What is at `place`; nothing is `not_found`, or `not_a_directory` where a file stands in the way.
    pub(crate) fn require(&self, place: &Place) -> Result<Node> {
        match &place.node {
            Some(node) => Ok(node.clone()),
            None => Err(self.why_missing(&place.path)?),
        }
    }

    /// The file at `place`.
    pub(crate) fn file(&self, place: &Place) -> Result<Node> {
        if place.path.is_root() {
            return Err(Error::is_a_directory(&place.path));
        }
        let node = self.require(place)?;
        match node.kind {
            EntryKind::File => Ok(node),
            EntryKind::Directory => Err(Error::is_a_directory(&place.path)),
            _ => Err(Error::path_escape(&place.path)),
        }
    }

    /// `not_a_directory` where a file stands in the way, `not_found` otherwise.
    pub(crate) fn why_missing(&self, path: &WsPath) -> Result<Error> {
        let mut nearest = path.parent();
        while let Some(above) = nearest.filter(|above| !above.is_root()) {
            match self.node(bytes(&above))? {
                Some(node) if node.kind != EntryKind::Directory => return Ok(Error::not_a_directory(path)),
                Some(_) => break,
                None => nearest = above.parent(),
            }
        }
        Ok(Error::not_found(path))
    }

    /// Describes what is at `place`.
    pub(crate) fn stat(&self, place: &Place, with_version: bool) -> Result<Stat> {
        if place.path.is_root() {
            return Ok(root_stat());
        }
        self.require(place).map(|node| stat_of(node, with_version))
    }
}

/// Describes an entry.
pub(crate) fn stat_of(node: Node, with_version: bool) -> Stat {
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

/// The version of a file: a part of its content's address, so it stays the same through moves, branches and restores, and a write on
/// the condition of a version asks for that very content.
pub(crate) fn version_of(node: &Node) -> Option<Version> {
    node.content.map(|address| Version::new(&address.hex_digits()[..32]))
}

/// The path as the key of an entry.
pub(crate) fn bytes(path: &WsPath) -> &[u8] {
    path.as_str().as_bytes()
}

fn place(path: WsPath, node: Option<Node>) -> Place {
    Place {
        path,
        node,
        is_free: false,
    }
}

fn steps(target: &str) -> impl DoubleEndedIterator<Item = &str> {
    target.split('/').filter(|part| !part.is_empty() && *part != ".")
}

/// The first key that could lie below `directory`, and the first one after all that do.
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
