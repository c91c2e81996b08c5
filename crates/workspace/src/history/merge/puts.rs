//! Turns the decisions of a merge into the entries to put on our side.

use std::collections::{BTreeMap, BTreeSet};

use garret_core::{EntryPath, MergePoint, PathExpectation, PathImage, PathPut, PlacedEntry, PutBatch};

use super::content_merge::{MergedContent, is_same};
use super::decision::MergeDecision;
use super::forest::{MergeForest, OURS, ROOT};

/// Returns the changes by which our side becomes the decided state.
pub(super) fn build_puts(forest: &MergeForest, decided: &MergeDecision, merged: MergePoint) -> PutBatch {
    let ours: BTreeMap<&EntryPath, &PathImage> = forest
        .entities
        .iter()
        .filter_map(|entity| entity.sides[OURS].as_ref())
        .map(|state| (&state.path, &state.image))
        .collect();
    let paths: BTreeSet<&EntryPath> = ours.keys().copied().chain(decided.places.keys()).collect();
    let put = |path: &&EntryPath| build_put(path, ours.get(path).copied(), decided.places.get(*path));
    let all: Vec<PathPut> = paths.iter().filter_map(put).collect();
    // The entries of a directory are removed before the directory, and added after it.
    let (gone, come): (Vec<_>, Vec<_>) = all.into_iter().partition(|put| put.placed == PlacedEntry::Nothing);
    PutBatch {
        puts: gone.into_iter().rev().chain(come).collect(),
        moves: find_moves(forest, decided),
        merged: Some(merged),
        ..PutBatch::default()
    }
}

fn build_put(path: &EntryPath, ours: Option<&PathImage>, decided: Option<&MergedContent>) -> Option<PathPut> {
    let placed = match (ours, decided) {
        (Some(ours), Some(MergedContent::Image(image))) if is_same(ours, image) => return None,
        (None, None) => return None,
        (_, Some(MergedContent::Image(image))) => PlacedEntry::Image(image.clone()),
        (_, Some(MergedContent::New { content, mode })) => PlacedEntry::File {
            content: content.clone().into(),
            mode: *mode,
        },
        (_, None) => PlacedEntry::Nothing,
    };
    Some(PathPut {
        path: path.clone(),
        expected: PathExpectation::Is(ours.cloned()),
        placed,
    })
}

/// Returns the moves on our side, so that the history of a file can be followed across them. Entries that move with
/// their directory are left out.
fn find_moves(forest: &MergeForest, decided: &MergeDecision) -> Vec<(EntryPath, EntryPath)> {
    let mut moves = Vec::new();
    for (id, to) in &decided.paths {
        let Some(state) = &forest.entities[*id].sides[OURS] else {
            continue;
        };
        let above = decided.paths.get(&state.parent).map(|above| above.child(&state.name));
        let goes_along = state.parent != ROOT && above.as_ref() == Some(to);
        if state.path != *to && !goes_along {
            moves.push((state.path.clone(), to.clone()));
        }
    }
    let sources: BTreeSet<&EntryPath> = moves.iter().map(|(from, _)| from).collect();
    // The history follows moves one after the other: a move onto the source of another one would hide that source.
    if moves.iter().any(|(_, to)| sources.contains(to)) {
        in_two_steps(moves)
    } else {
        moves
    }
}

/// Splits each move into two, by way of a name that no entry has, so that moves in a circle can be followed one after
/// the other.
fn in_two_steps(moves: Vec<(EntryPath, EntryPath)>) -> Vec<(EntryPath, EntryPath)> {
    let root = EntryPath::from_bytes(Vec::new());
    let used: BTreeSet<EntryPath> = moves
        .iter()
        .flat_map(|(from, to)| [from, to])
        .map(|path| root.child(path.as_bytes().split(|byte| *byte == b'/').next().unwrap_or_default()))
        .collect();
    let names = (1..).map(|number: usize| root.child(format!(".garret-merging-{number}").as_bytes()));
    let between: Vec<EntryPath> = names.filter(|name| !used.contains(name)).take(moves.len()).collect();
    let (from, to): (Vec<_>, Vec<_>) = moves.into_iter().unzip();
    let away = from.into_iter().zip(between.clone());
    away.chain(between.into_iter().zip(to)).collect()
}
