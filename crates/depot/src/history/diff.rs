//! The difference of two points: the paths that the changes between them touched, with the state of each path at both
//! points.

use std::collections::BTreeSet;

use garret_core::{ChangeKind, PathChange, Point, Result, WsPath};

use super::conversions::path_change;
use super::point::{has_captured_all, lineage_of, resolve_point};
use crate::metadata::{EntryNode, LevelEntry, LineageLevel, MetadataSession};
use crate::tree::{DepotTree, path_key};
use crate::workspace::DepotWorkspace;

/// A path that differs between two points, with its entry at each.
pub(crate) struct PathDifference {
    pub(crate) path: Vec<u8>,
    pub(crate) before: Option<EntryNode>,
    pub(crate) after: Option<EntryNode>,
}

impl PathDifference {
    /// Returns the difference; `None` if both entries are the same.
    pub(super) fn if_different(path: Vec<u8>, before: Option<EntryNode>, after: Option<EntryNode>) -> Option<Self> {
        let is_other = !is_same(before.as_ref(), after.as_ref());
        is_other.then_some(Self { path, before, after })
    }
}

impl DepotWorkspace {
    /// Returns the differences between two points at `path` and below it, in the order of paths. Times do not count as
    /// a difference.
    pub async fn diff(&self, from: &Point, to: &Point, path: &WsPath) -> Result<Vec<PathChange>> {
        self.shared().database.read(|session| {
            let from = resolve_point(session, self.number, from)?;
            let to = resolve_point(session, self.number, to)?;
            path_changes(session, from, to, path)
        })
    }

    /// Returns the differences between the newest states of this workspace and `other`, which must be in the same
    /// depot. Fast if both have a common ancestor.
    pub async fn diff_with(&self, other: &DepotWorkspace, path: &WsPath) -> Result<Vec<PathChange>> {
        self.shared().database.read(|session| {
            let from = resolve_point(session, self.number, &Point::Now)?;
            let to = resolve_point(session, other.number, &Point::Now)?;
            path_changes(session, from, to, path)
        })
    }
}

fn path_changes(
    session: MetadataSession<'_>,
    from: LineageLevel,
    to: LineageLevel,
    path: &WsPath,
) -> Result<Vec<PathChange>> {
    let shown = |one: PathDifference| path_change(one.path, one.before.as_ref(), one.after.as_ref());
    Ok(find_differences(session, from, to, path)?
        .into_iter()
        .map(shown)
        .collect())
}

/// Returns the differences between two states, of one workspace or of two, at `within` and below.
pub(crate) fn find_differences(
    session: MetadataSession<'_>,
    from: LineageLevel,
    to: LineageLevel,
    within: &WsPath,
) -> Result<Vec<PathDifference>> {
    let (before, after) = (
        CapturedState::at_level(session, from)?,
        CapturedState::at_level(session, to)?,
    );
    let mut found = Vec::new();
    for path in candidate_paths(session, from, to)? {
        if is_within(&path, path_key(within)) {
            let (before, after) = (before.find_node(&path)?, after.find_node(&path)?);
            found.extend(PathDifference::if_different(path, before, after));
        }
    }
    Ok(found)
}

/// Returns the differences between the entries that the depot itself has of two states: a path that a state had not
/// captured yet counts as missing.
///
/// A merge needs this. If two workspaces parted at such a state, and only one of them captured a path later, then the
/// captured entry is no common base: a path that only one side has is new to the other, and a path on which both differ
/// is a conflict.
pub(crate) fn find_held_differences(
    session: MetadataSession<'_>,
    from: LineageLevel,
    to: LineageLevel,
) -> Result<Vec<PathDifference>> {
    let (before, after) = (DepotTree::at_point(session, from)?, DepotTree::at_point(session, to)?);
    let mut found = Vec::new();
    for path in candidate_paths(session, from, to)? {
        let (before, after) = (before.node(&path)?, after.node(&path)?);
        found.extend(PathDifference::if_different(path, before, after));
    }
    Ok(found)
}

/// A state that the depot may know only in part: files that live elsewhere may be captured later.
///
/// A path that was first captured after the state is assumed to have had the captured entry before: a difference does
/// not report it, and a restore leaves it alone, instead of treating it as missing.
struct CapturedState<'c> {
    tree: DepotTree<'c>,
    /// The state itself, if not every file had been captured by then.
    partial: Option<LineageLevel>,
}

impl<'c> CapturedState<'c> {
    fn at_level(session: MetadataSession<'c>, level: LineageLevel) -> Result<Self> {
        Ok(Self {
            tree: DepotTree::at_point(session, level)?,
            partial: (!has_captured_all(session, level)?).then_some(level),
        })
    }

    fn find_node(&self, path: &[u8]) -> Result<Option<EntryNode>> {
        match (self.tree.node(path)?, self.partial) {
            (None, Some(level)) => {
                let met = find_later_capture(self.tree.session(), level, path)?;
                Ok(met.map(|(_, node)| node))
            }
            (node, _) => Ok(node),
        }
    }
}

/// Returns the entry of `path` when it was first captured, and the number of that change, if the capture came after
/// `level`.
pub(crate) fn find_later_capture(
    session: MetadataSession<'_>,
    level: LineageLevel,
    path: &[u8],
) -> Result<Option<(i64, EntryNode)>> {
    let first = session.entries().first_since(level.workspace, path)?;
    let Some(since) = first.filter(|since| *since > level.at) else {
        return Ok(None);
    };
    let change = session.changes().change(level.workspace, since)?;
    if change.is_none_or(|row| row.kind != ChangeKind::Capture.as_str()) {
        return Ok(None);
    }
    let held = session.entries().entry(level.workspace, path, since)?;
    Ok(held.and_then(LevelEntry::into_node).map(|node| (since, node)))
}

/// Returns whether two entries are the same to a user.
pub(crate) fn is_same(one: Option<&EntryNode>, other: Option<&EntryNode>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.is_same(other),
        _ => false,
    }
}

fn is_within(path: &[u8], directory: &[u8]) -> bool {
    let rest = path.strip_prefix(directory);
    directory.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Returns the paths that may differ: those touched since the two lineages parted, or all paths if they have no common
/// ancestor.
fn candidate_paths(session: MetadataSession<'_>, from: LineageLevel, to: LineageLevel) -> Result<BTreeSet<Vec<u8>>> {
    let (ours, theirs) = (lineage_of(session, from)?, lineage_of(session, to)?);
    let meeting = ours.iter().enumerate().find_map(|(index, level)| {
        let other = theirs.iter().position(|other| other.workspace == level.workspace)?;
        Some((index, other))
    });
    let mut paths = BTreeSet::new();
    let Some((our_index, their_index)) = meeting else {
        for level in [from, to] {
            let all = DepotTree::at_point(session, level)?.scan_below(b"").collect()?;
            paths.extend(all.into_iter().map(|(path, _)| path));
        }
        return Ok(paths);
    };
    // Below the common workspace, all own changes of both sides count; in it, only those between the two points.
    for level in ours[..our_index].iter().chain(&theirs[..their_index]) {
        paths.extend(session.entries().touched_paths(level.workspace, 0, level.at)?);
    }
    let (our, their) = (ours[our_index], theirs[their_index]);
    paths.extend(
        session
            .entries()
            .touched_paths(our.workspace, our.at.min(their.at), our.at.max(their.at))?,
    );
    Ok(paths)
}
