//! Keeps undo, redo, restore and put away from excluded paths that were recorded before they were excluded. The journal
//! keeps its record of such a path, and the storage keeps the entry.

use std::collections::{BTreeSet, HashSet};

use garret_core::{ChangePlan, EntryKind, EntryPath, PathPut, PutBatch, Result};

use crate::compare::StorageComparer;
use crate::raw_names::parent_directories;

/// Drops the excluded paths of a plan, and names them in it.
pub(crate) fn drop_excluded_paths(comparer: &mut StorageComparer<'_>, plan: &mut ChangePlan) -> Result<()> {
    let count = plan.puts.puts.len();
    plan.left_alone = drop_excluded_puts(comparer, &mut plan.puts)?;
    if plan.puts.puts.len() < count {
        let kept: BTreeSet<_> = plan.puts.puts.iter().map(|put| &put.path).collect();
        plan.paths.retain(|change| kept.contains(&change.path));
    }
    Ok(())
}

/// Drops the puts at excluded paths, and those that would take the directory of a recorded one. Returns the excluded
/// paths, each as the topmost part of it that is excluded.
pub(crate) fn drop_excluded_puts(comparer: &mut StorageComparer<'_>, puts: &mut PutBatch) -> Result<Vec<EntryPath>> {
    let exclusions = &comparer.files.journaled.exclusions;
    if exclusions.is_empty() {
        return Ok(Vec::new());
    }
    let (mut excluded, mut kept) = (BTreeSet::new(), Vec::with_capacity(puts.puts.len()));
    for put in std::mem::take(&mut puts.puts) {
        let is_directory = makes_directory(&put) || comparer.records.is_known_directory(put.path.as_bytes())?;
        match exclusions.excluded_ancestor(put.path.as_bytes(), is_directory) {
            Some(top) => drop(excluded.insert(EntryPath::from_bytes(top.to_vec()))),
            None => kept.push(put),
        }
    }
    let staying = directories_of_excluded(comparer, &kept)?;
    kept.retain(|put| makes_directory(put) || !staying.contains(put.path.as_bytes()));
    puts.puts = kept;
    puts.moves
        .retain(|(from, to)| !exclusions.covers_path(from, true) && !exclusions.covers_path(to, true));
    Ok(excluded.into_iter().collect())
}

/// Returns the directories that the puts remove and that have recorded excluded entries below them.
fn directories_of_excluded(comparer: &mut StorageComparer<'_>, puts: &[PathPut]) -> Result<HashSet<Vec<u8>>> {
    let (mut staying, mut removed) = (HashSet::new(), BTreeSet::new());
    for put in puts.iter().filter(|put| !makes_directory(put)) {
        if comparer.records.is_known_directory(put.path.as_bytes())? {
            removed.insert(put.path.as_bytes());
        }
    }
    // The entries below a removed directory are listed once, from the topmost removed directory.
    let is_topmost = |path: &&&[u8]| !parent_directories(path).any(|above| removed.contains(above));
    for directory in removed.iter().filter(is_topmost) {
        let below = comparer.records.entries_below(directory)?;
        for (path, known) in below {
            let is_directory = known.kind == EntryKind::Directory;
            if comparer.files.journaled.exclusions.covers_bytes(&path, is_directory) {
                staying.extend(parent_directories(&path).map(<[u8]>::to_vec));
            }
        }
    }
    Ok(staying)
}

fn makes_directory(put: &PathPut) -> bool {
    put.placed
        .image()
        .is_some_and(|image| image.kind == EntryKind::Directory)
}
