//! Leaves excluded paths as they are when a planned change of the history would touch them, because it recorded them
//! before they were excluded.

use std::collections::{BTreeSet, HashSet};

use garret_core::{EntryKind, EntryPath, Exclusions, PathChange, PathImage, PutBatch};

/// Takes the excluded paths out of a plan, and whatever would take the directories above them.
pub(crate) fn drop_excluded(exclusions: &Exclusions, puts: &mut PutBatch, paths: &mut Vec<PathChange>) {
    let excluded: Vec<_> = paths
        .iter()
        .filter(|one| exclusions.covers_path(&one.path, is_directory(one.before.as_ref().or(one.after.as_ref()))))
        .map(|one| one.path.clone())
        .collect();
    let above: HashSet<_> = excluded.iter().flat_map(directories_above).collect();
    let mut staying: HashSet<_> = paths
        .iter()
        .filter(|one| !is_directory(one.after.as_ref()) && above.contains(one.path.as_bytes()))
        .map(|one| one.path.clone())
        .collect();
    staying.extend(excluded.iter().cloned());
    paths.retain(|one| !staying.contains(&one.path));
    puts.puts.retain(|put| !staying.contains(&put.path));
    puts.moves
        .retain(|(from, to)| !staying.contains(from) && !staying.contains(to));
}

/// Returns the excluded paths of the puts `planned` that are not among `paths`, the ones that the change has, each as
/// the topmost part of it that is excluded.
pub(crate) fn excluded_paths(exclusions: &Exclusions, planned: &[EntryPath], paths: &[PathChange]) -> Vec<EntryPath> {
    let changed: BTreeSet<_> = paths.iter().map(|one| &one.path).collect();
    let left = planned.iter().filter(|path| !changed.contains(path));
    let excluded = left.filter_map(|path| {
        let top = exclusions.excluded_ancestor(path.as_bytes(), true)?;
        Some(EntryPath::from_bytes(top.to_vec()))
    });
    let tops: BTreeSet<_> = excluded.collect();
    tops.into_iter().collect()
}

fn is_directory(image: Option<&PathImage>) -> bool {
    image.is_some_and(|image| image.kind == EntryKind::Directory)
}

fn directories_above(path: &EntryPath) -> impl Iterator<Item = &[u8]> {
    let bytes = path.as_bytes();
    let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(end, _)| &bytes[..end])
}
