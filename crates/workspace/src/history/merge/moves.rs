//! The renames of one side since the base: those that its journal recorded, and otherwise those found by equal content.

use std::collections::{BTreeMap, BTreeSet};

use garret_core::{EntryPath, MergeSide, PathChange};

use crate::history::renames::exact_renames;

type PathBytes = Vec<u8>;

/// Returns the entries of the base that have another path on `side`, as old and new path. Each exists there and has the
/// kind that it had.
pub(super) fn find_renames(side: &MergeSide) -> BTreeMap<EntryPath, EntryPath> {
    let changes: BTreeMap<&EntryPath, &PathChange> = side.changes.iter().map(|one| (&one.path, one)).collect();
    let kind_before = |path: &EntryPath| changes.get(path)?.before.as_ref().map(|image| image.kind);
    let kind_after = |path: &EntryPath| changes.get(path)?.after.as_ref().map(|image| image.kind);
    let mut found = BTreeMap::new();
    let mut taken = BTreeSet::new();
    // Recorded moves come first: they are certain, while equal content is a guess.
    for (from, to) in follow_moves(side).into_iter().chain(exact_renames(&side.changes)) {
        let is_there = kind_after(&to).is_some() && kind_before(&from) == kind_after(&to);
        if from != to && is_there && !found.contains_key(&from) && taken.insert(to.clone()) {
            found.insert(from, to);
        }
    }
    found
}

/// Follows the moves of the journal from each path of the base that the side changed; returns pairs of old and new
/// path.
fn follow_moves(side: &MergeSide) -> Vec<(EntryPath, EntryPath)> {
    let tracked = side.changes.iter().filter(|one| one.before.is_some());
    // The path in the base of each entry, by its present path.
    let mut names: BTreeMap<PathBytes, PathBytes> = tracked
        .map(|one| one.path.as_bytes().to_vec())
        .map(|path| (path.clone(), path))
        .collect();
    for (from, to) in &side.moves {
        let (from, to) = (from.as_bytes(), to.as_bytes());
        let moved = take_subtree(&mut names, from);
        if moved.is_empty() {
            continue;
        }
        // A move replaces the entry at its destination.
        take_subtree(&mut names, to);
        let renamed = moved
            .into_iter()
            .map(|(name, first)| ([to, &name[from.len()..]].concat(), first));
        names.extend(renamed);
    }
    let path = |bytes: PathBytes| EntryPath::from_bytes(bytes);
    let mut found: Vec<_> = names
        .into_iter()
        .map(|(name, first)| (path(first), path(name)))
        .collect();
    found.retain(|(from, to)| from != to);
    found
}

/// Removes `path` and everything below it from `names`, and returns these entries.
fn take_subtree(names: &mut BTreeMap<PathBytes, PathBytes>, path: &[u8]) -> Vec<(PathBytes, PathBytes)> {
    let below = [path, b"/"].concat();
    let inside = names
        .range(below.clone()..)
        .take_while(|(name, _)| name.starts_with(&below));
    let all: Vec<PathBytes> = names
        .get_key_value(path)
        .into_iter()
        .chain(inside)
        .map(|(name, _)| name.clone())
        .collect();
    all.into_iter().filter_map(|name| names.remove_entry(&name)).collect()
}
