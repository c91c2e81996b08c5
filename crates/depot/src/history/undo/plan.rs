//! Plans a reversal: the new entry of each path, or the paths that clash. Decided before anything is changed.

use std::collections::BTreeMap;

use garret_core::{ClashReason, EntryKind, EntryPath, PathClash, Result};

use crate::history::conversions::image_of;
use crate::history::diff::{PathDifference, is_same};
use crate::metadata::{ChangeRow, EntryNode, LineageLevel, MetadataSession};
use crate::tree::DepotTree;

type PlannedEntries = BTreeMap<Vec<u8>, Option<EntryNode>>;

/// The plan of a reversal, or the reasons why it is impossible.
pub(super) enum UndoPlan {
    /// The paths that change, with the new entry of each.
    Entries(Vec<PathDifference>),
    /// The paths that make the reversal impossible.
    Clashes(Vec<PathClash>),
}

/// Plans the reversal of `targets`, newest first.
pub(super) fn plan_reversal(
    session: MetadataSession<'_>,
    tree: &DepotTree<'_>,
    targets: &[ChangeRow],
) -> Result<UndoPlan> {
    let mut entries = PlannedEntries::new();
    let mut clashes = Vec::new();
    for target in targets {
        reverse_one(session, tree, target, &mut entries, &mut clashes)?;
    }
    if clashes.is_empty() {
        check_tree(tree, &entries, &mut clashes)?;
    }
    if !clashes.is_empty() {
        return Ok(UndoPlan::Clashes(clashes));
    }
    drop_unchanged(tree, entries).map(UndoPlan::Entries)
}

fn reverse_one(
    session: MetadataSession<'_>,
    tree: &DepotTree<'_>,
    target: &ChangeRow,
    entries: &mut PlannedEntries,
    clashes: &mut Vec<PathClash>,
) -> Result<()> {
    let at = |at| LineageLevel {
        workspace: target.workspace,
        at,
    };
    let (earlier, later) = (
        DepotTree::at_point(session, at(target.seq - 1))?,
        DepotTree::at_point(session, at(target.seq))?,
    );
    for path in session
        .entries()
        .touched_paths(target.workspace, target.seq - 1, target.seq)?
    {
        let (before, left) = (earlier.node(&path)?, later.node(&path)?);
        if is_same(before.as_ref(), left.as_ref()) {
            continue;
        }
        let found = match entries.get(&path) {
            Some(planned) => planned.clone(),
            None => tree.node(&path)?,
        };
        if is_same(found.as_ref(), left.as_ref()) {
            entries.insert(path, before);
        } else {
            clashes.push(make_clash(&path, ClashReason::Changed, left.as_ref(), found.as_ref()));
        }
    }
    Ok(())
}

/// Checks that every entry would still have its directory after the reversal.
fn check_tree(tree: &DepotTree<'_>, entries: &PlannedEntries, clashes: &mut Vec<PathClash>) -> Result<()> {
    for (path, planned) in entries {
        if let Some(node) = planned {
            check_above(tree, entries, path, node, clashes)?;
        }
        let goes = |planned: &Option<EntryNode>| planned.as_ref().is_none_or(|node| node.kind != EntryKind::Directory);
        let above = path.iter().rposition(|byte| *byte == b'/').map(|slash| &path[..slash]);
        // The entries below a removed directory are checked once, from the topmost removed directory.
        let is_covered = above.is_some_and(|above| entries.get(above).is_some_and(goes));
        if goes(planned) && !is_covered {
            check_below(tree, entries, path, clashes)?;
        }
    }
    Ok(())
}

fn check_above(
    tree: &DepotTree<'_>,
    entries: &PlannedEntries,
    path: &[u8],
    node: &EntryNode,
    clashes: &mut Vec<PathClash>,
) -> Result<()> {
    let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
        return Ok(());
    };
    let above = match entries.get(&path[..slash]) {
        Some(planned) => planned.clone(),
        None => tree.node(&path[..slash])?,
    };
    if above.is_none_or(|above| above.kind != EntryKind::Directory) {
        clashes.push(make_clash(path, ClashReason::DirectoryIsGone, None, Some(node)));
    }
    Ok(())
}

fn check_below(
    tree: &DepotTree<'_>,
    entries: &PlannedEntries,
    path: &[u8],
    clashes: &mut Vec<PathClash>,
) -> Result<()> {
    let was_directory = tree.node(path)?.is_some_and(|node| node.kind == EntryKind::Directory);
    if !was_directory {
        return Ok(());
    }
    let mut below = tree.scan_below(path);
    while let Some((path, node)) = below.next()? {
        if !matches!(entries.get(&path), Some(None)) {
            clashes.push(make_clash(&path, ClashReason::WouldLoseItsDirectory, None, Some(&node)));
        }
    }
    Ok(())
}

/// Returns the paths whose entry changes.
fn drop_unchanged(tree: &DepotTree<'_>, entries: PlannedEntries) -> Result<Vec<PathDifference>> {
    let mut differing = Vec::new();
    for (path, after) in entries {
        let before = tree.node(&path)?;
        differing.extend(PathDifference::if_different(path, before, after));
    }
    Ok(differing)
}

fn make_clash(path: &[u8], reason: ClashReason, left: Option<&EntryNode>, found: Option<&EntryNode>) -> PathClash {
    PathClash {
        path: EntryPath::from_bytes(path.to_vec()),
        reason,
        left: left.map(image_of),
        found: found.map(image_of),
    }
}
