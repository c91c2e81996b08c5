//! The plan of a merge: the entries to put at paths, and the conflicts between the sides.

use std::collections::{BTreeMap, BTreeSet};

use garret_core::{EntryPath, Error, ErrorKind, Follow, MergeInput, PutBatch, Result, StatOptions, Storage};

use super::OnConflict;
use super::content_merge::{ContentMergeOutcome, merge_contents, read_text};
use super::decision::{EntryClash, MergeDecider, MergeDecision};
use super::forest::{MergeEntryId, MergeEntryState, MergeForest, OURS, THEIRS};
use super::puts::build_puts;
use crate::{Conflict, ConflictSide};

/// The most bytes of a text that a conflict shows.
const MAX_SHOWN: u64 = 64 << 10;
/// The most bytes of a path.
const LONGEST_PATH: usize = 4096;

/// The changes and the conflicts of a merge.
#[derive(Debug)]
pub(super) struct MergePlan {
    /// The entries to put at paths, with the conflicts resolved as requested.
    pub(super) puts: PutBatch,
    /// The entries that both sides changed differently, sorted by path.
    pub(super) conflicts: Vec<Conflict>,
    /// Whether one of the conflicts is about an entry that may not be read.
    pub(super) is_hiding: bool,
}

type MayRead<'a> = &'a (dyn Fn(&EntryPath) -> bool + Send + Sync);

/// Plans a merge. Nothing is written.
pub(super) async fn plan_merge(
    merging: &MergeInput,
    on_conflict: OnConflict,
    may_read: MayRead<'_>,
) -> Result<MergePlan> {
    let forest = MergeForest::from_sides(merging);
    let mut joined: BTreeMap<MergeEntryId, ContentMergeOutcome> = BTreeMap::new();
    for (id, entity) in forest.entities.iter().enumerate() {
        if let Some(one) = merge_contents(merging, entity, on_conflict).await? {
            joined.insert(id, one);
        }
    }
    let decided = decide_entries(merging, &forest, &joined, on_conflict).await?;
    let mut conflicts = Vec::with_capacity(decided.clashes.len());
    for clash in &decided.clashes {
        conflicts.push(describe_conflict(merging, &forest, clash, may_read).await?);
    }
    conflicts.sort_by(|one, other| (&one.path, one.kind).cmp(&(&other.path, other.kind)));
    let puts = build_puts(&forest, &decided, merging.point.clone());
    Ok(MergePlan {
        puts,
        conflicts,
        is_hiding: decided.clashes.iter().any(|clash| is_hidden(&forest, clash, may_read)),
    })
}

fn is_hidden(forest: &MergeForest, clash: &EntryClash, may_read: MayRead<'_>) -> bool {
    let entities = [Some(clash.id), clash.other]
        .into_iter()
        .flatten()
        .map(|id| &forest.entities[id]);
    let mut states = entities.flat_map(|entity| entity.sides.iter().chain([&entity.base]).flatten());
    states.any(|state| !may_read(&state.path))
}

/// Decides about every entry; decides again while an entry would get the path of a base entry that neither side
/// changed.
async fn decide_entries(
    merging: &MergeInput,
    forest: &MergeForest,
    joined: &BTreeMap<MergeEntryId, ContentMergeOutcome>,
    on_conflict: OnConflict,
) -> Result<MergeDecision> {
    let states = forest.entities.iter().flat_map(|entity| entity.sides.iter().flatten());
    let known: BTreeSet<&EntryPath> = states.map(|state| &state.path).collect();
    let mut occupied = BTreeSet::new();
    // Entries that no side changed are not loaded, so only the paths of a decision show which of them are in the way.
    loop {
        let decided = MergeDecider::new(forest, joined, &occupied, on_conflict, &merging.theirs.name).decide_all()?;
        let mut found = BTreeSet::new();
        for path in decided.places.keys().filter(|path| !known.contains(path)) {
            if !forest.has_base_entry(path.as_bytes()) && entry_exists(merging.base.as_ref(), path).await? {
                found.insert(path.clone());
            }
        }
        if found.is_empty() {
            let mut new = decided.places.keys().filter(|path| !known.contains(path));
            new.try_for_each(check_length)?;
            return Ok(decided);
        }
        occupied.extend(found);
    }
}

/// Refuses a new path that is too long for any tool to open.
fn check_length(path: &EntryPath) -> Result<()> {
    if path.as_bytes().len() <= LONGEST_PATH {
        return Ok(());
    }
    Err(
        Error::invalid("the merge would make a path of more than 4096 bytes, which no tool can open")
            .at_path_text(path.display_path())
            .hint("nothing was changed; give a directory above it a shorter name, then merge again"),
    )
}

async fn entry_exists(storage: &dyn Storage, path: &EntryPath) -> Result<bool> {
    // A storage cannot look up a name that is not UTF-8: such an entry was listed by a side, or does not exist.
    let Some(path) = path.as_path() else { return Ok(false) };
    let options = StatOptions {
        follow: Follow::Never,
        ..StatOptions::default()
    };
    match storage.stat(path, options).await {
        Ok(_) => Ok(true),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PathEscape
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Describes a conflict with the entries of both sides and the base.
async fn describe_conflict(
    merging: &MergeInput,
    forest: &MergeForest,
    clash: &EntryClash,
    may_read: MayRead<'_>,
) -> Result<Conflict> {
    let entity = &forest.entities[clash.id];
    let other = clash.other.map(|other| &forest.entities[other]);
    // If two entries want one path, each side shows the entry that it has at that path.
    let side = |side: usize| {
        let here = |state: &&MergeEntryState| clash.wanted.as_ref().is_none_or(|wanted| state.path == *wanted);
        let states = [Some(entity), other]
            .into_iter()
            .flatten()
            .filter_map(|entity| entity.sides[side].as_ref());
        let mut states: Vec<&MergeEntryState> = states.collect();
        states.sort_by_key(|state| !here(state));
        states.into_iter().next()
    };
    let (ours, theirs) = (side(OURS), side(THEIRS));
    let path = clash.wanted.as_ref().or(ours.or(theirs).map(|state| &state.path));
    Ok(Conflict {
        path: path.map(EntryPath::display_path).unwrap_or_default(),
        kind: clash.kind,
        hunks: clash.hunks,
        base: describe_side(merging.base.as_ref(), entity.base.as_ref(), may_read).await?,
        ours: describe_side(merging.ours.files.as_ref(), ours, may_read).await?,
        theirs: describe_side(merging.theirs.files.as_ref(), theirs, may_read).await?,
    })
}

async fn describe_side(
    storage: &dyn Storage,
    state: Option<&MergeEntryState>,
    may_read: MayRead<'_>,
) -> Result<Option<ConflictSide>> {
    let Some(state) = state else { return Ok(None) };
    let is_short = state.image.size <= MAX_SHOWN && may_read(&state.path);
    let bytes = if is_short {
        read_text(storage, state).await?
    } else {
        None
    };
    Ok(Some(ConflictSide {
        path: state.path.display_path(),
        kind: state.image.kind,
        mode: format!("{:04o}", state.image.mode),
        size: state.image.size,
        target: state.image.target.clone().filter(|_| may_read(&state.path)),
        text: bytes.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok()),
    }))
}
