//! Commits effects to files without a history: they pass the same review as a change, and are applied as one batch.

use std::collections::BTreeSet;

use async_trait::async_trait;
use garret_core::{
    Batch, Content, DroppedEntry, Effect, EntryKind, Error, ErrorKind, Follow, Mutation, Origin, PathChange, PathImage,
    PlacedEntry, Precondition, Result, StatOptions, Storage, Version, WsPath, find_hard_links,
};

use crate::commit::{ChangePlanner, CommitPlan, CommitWork};
use crate::file_access::FileAccess;
use crate::path_images::{image_of_stat, read_image};
use crate::shell::background::file_effects::{PIECE_BYTES, read_piece};
use crate::shell::effects::commit_effects::{EffectCommitReport, EffectsCommit};

/// An effect that differs from the present entry at its path.
struct EffectStep {
    path: WsPath,
    before: Option<PathImage>,
    placed: PlacedEntry,
}

/// Plans effects as one batch, on the condition that the files have the states that they are compared with.
pub(super) struct EffectBatchPlanner<'a> {
    effects: &'a [Effect],
    origin: &'a Origin,
    /// Effects whose name is not UTF-8.
    left_out: Vec<DroppedEntry>,
}

impl EffectsCommit<'_> {
    /// Applies effects to the files as one batch. An effect whose name is not UTF-8 is left out and reported as
    /// dropped.
    pub(super) async fn commit_without_history(&self, effects: &[Effect], dry_run: bool) -> Result<EffectCommitReport> {
        let mut planner = EffectBatchPlanner::new(effects, &self.origin);
        let report = match self.commit_planned(&mut planner, dry_run).await {
            Err(error) if is_refusal(error.kind()) => EffectCommitReport::from_refusal(effects, error),
            done => done?,
        };
        let left_out = planner.left_out;
        Ok(EffectCommitReport { left_out, ..report })
    }
}

impl<'a> EffectBatchPlanner<'a> {
    pub(super) fn new(effects: &'a [Effect], origin: &'a Origin) -> Self {
        Self {
            effects,
            origin,
            left_out: Vec::new(),
        }
    }
}

#[async_trait]
impl ChangePlanner for EffectBatchPlanner<'_> {
    async fn plan_change(&mut self, files: &FileAccess, _conflict: Option<Error>) -> Result<CommitPlan> {
        self.left_out.clear();
        let mut steps = Vec::new();
        for effect in self.effects {
            match effect.path.as_path() {
                Some(path) => steps.extend(plan_effect_step(files.storage(), path, &effect.placed).await?),
                None if effect.placed == PlacedEntry::Nothing => {}
                None => self.left_out.push(DroppedEntry {
                    path: effect.path.clone(),
                    what: "name that is not UTF-8, in a workspace without history",
                }),
            }
        }
        mark_hard_links(&mut steps, self.effects);
        Ok(CommitPlan {
            paths: Some(steps.iter().map(EffectStep::path_change).collect()),
            work: CommitWork::Mutations(Batch {
                mutations: plan_mutations(&steps),
                follow: Follow::Never,
                origin: self.origin.clone(),
            }),
        })
    }
}

/// Returns the step for an effect; `None` if the file has it already.
async fn plan_effect_step(storage: &dyn Storage, path: &WsPath, placed: &PlacedEntry) -> Result<Option<EffectStep>> {
    let options = StatOptions {
        follow: Follow::Never,
        with_version: true,
    };
    let before = match skip_unreadable(storage.stat(path, options).await)? {
        Some(stat) => Some(image_of_stat(&stat)),
        // Nothing is there, or the content must be read for the version and cannot be.
        None => read_image(storage, path).await?,
    };
    // A file that cannot be compared counts as different: to write it once more does no harm, to skip it loses an
    // effect.
    let is_same = skip_unreadable(matches_effect(storage, path, before.as_ref(), placed).await)?.unwrap_or(false);
    Ok((!is_same).then(|| EffectStep {
        path: path.clone(),
        before,
        placed: placed.clone(),
    }))
}

/// Whether a storage has at `path` exactly the entry that an effect makes.
pub(in crate::shell) async fn has_effect(storage: &dyn Storage, path: &WsPath, placed: &PlacedEntry) -> Result<bool> {
    let there = read_image(storage, path).await?;
    matches_effect(storage, path, there.as_ref(), placed).await
}

/// Whether two storages have the same entry at `path`: the same kind, mode and bytes, or none on both sides.
pub(in crate::shell) async fn have_same_entry(one: &dyn Storage, other: &dyn Storage, path: &WsPath) -> Result<bool> {
    let (first, second) = (read_image(one, path).await?, read_image(other, path).await?);
    let (Some(first), Some(second)) = (&first, &second) else {
        return Ok(first.is_none() && second.is_none());
    };
    let is_like = (first.kind, first.size, &first.target) == (second.kind, second.size, &second.target);
    // The image of an entry in a storage without modes has a default mode, which says nothing about the file.
    let has_modes = one.info().has_modes && other.info().has_modes;
    if !is_like || (has_modes && first.mode != second.mode) {
        return Ok(false);
    }
    match first.kind {
        EntryKind::File => have_same_bytes(one, other, path, first.size).await,
        kind => Ok(kind != EntryKind::Other),
    }
}

async fn have_same_bytes(one: &dyn Storage, other: &dyn Storage, path: &WsPath, size: u64) -> Result<bool> {
    let mut at = 0;
    while at < size {
        let first = read_piece(one, path, at, Precondition::Any).await?;
        let second = read_piece(other, path, at, Precondition::Any).await?;
        // An empty piece before the end means that the file was shortened meanwhile; without this check the loop would
        // not end.
        if first.bytes != second.bytes || first.bytes.is_empty() {
            return Ok(false);
        }
        at += first.bytes.len() as u64;
    }
    Ok(true)
}

async fn matches_effect(
    storage: &dyn Storage,
    path: &WsPath,
    there: Option<&PathImage>,
    placed: &PlacedEntry,
) -> Result<bool> {
    Ok(match (there, placed) {
        (None, PlacedEntry::Nothing) => true,
        (Some(there), PlacedEntry::File { content, mode }) => has_file(storage, path, there, (content, *mode)).await?,
        (Some(there), PlacedEntry::Directory { mode }) => {
            there.kind == EntryKind::Directory && (there.mode == *mode || !storage.info().has_modes)
        }
        (Some(there), PlacedEntry::Symlink { target }) => there.target.as_ref() == Some(target),
        _ => false,
    })
}

async fn has_file(
    storage: &dyn Storage,
    path: &WsPath,
    there: &PathImage,
    (content, mode): (&Content, u32),
) -> Result<bool> {
    let is_like = there.kind == EntryKind::File && there.size == content.len();
    if !is_like || (there.mode != mode && storage.info().has_modes) {
        return Ok(false);
    }
    has_content(storage, path, content).await
}

/// Whether the file at `path` has exactly the bytes of `content`. They are compared a piece at a time.
async fn has_content(storage: &dyn Storage, path: &WsPath, content: &Content) -> Result<bool> {
    let mut reader = content.open()?;
    let (mut piece, mut at) = (Vec::new(), 0);
    while reader.append_to(&mut piece, PIECE_BYTES as usize)? > 0 {
        let read = read_piece(storage, path, at, Precondition::Any).await?;
        if read.bytes != piece {
            return Ok(false);
        }
        at += piece.len() as u64;
        piece.clear();
    }
    Ok(true)
}

/// Turns the error of a path that cannot be read into `None`: its mode forbids it, its kind has no content, or it
/// changes all the time. An error that may pass, as of a storage out of reach, stays an error.
pub(in crate::shell) fn skip_unreadable<T>(looked: Result<T>) -> Result<Option<T>> {
    match looked {
        Ok(found) => Ok(Some(found)),
        // To skip the path now would lose a change that others made there.
        Err(error) if is_transient(error.kind()) => Err(error),
        Err(_) => Ok(None),
    }
}

fn is_transient(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Internal)
}

fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Denied | ErrorKind::QuotaExceeded | ErrorKind::TooLarge)
}

impl EffectStep {
    fn path_change(&self) -> PathChange {
        PathChange {
            path: self.path.clone().into(),
            before: self.before.clone(),
            after: self.placed.image(),
        }
    }

    /// Whether a file is at the path.
    fn is_present_file(&self) -> bool {
        self.before
            .as_ref()
            .is_some_and(|before| before.kind == EntryKind::File)
    }

    /// Returns the version of the present file; `None` if there is no file, or if its storage has no versions.
    fn present_version(&self) -> Option<Version> {
        self.before.as_ref().and_then(|before| before.version.clone())
    }

    /// Whether the present entry must be removed before the new one is made, because the two differ in kind.
    fn replaces_entry(&self) -> bool {
        let after = self.placed.image().map(|image| image.kind);
        // A link to another target is of the same kind, but no mutation changes the target of a link in place.
        self.before
            .as_ref()
            .is_some_and(|before| Some(before.kind) != after || before.kind == EntryKind::Symlink)
    }
}

/// Marks each file that is a further hard link of another file in the batch, or of one that exists already, with the
/// path of that file.
fn mark_hard_links(steps: &mut [EffectStep], effects: &[Effect]) {
    let name = |effect: &'_ Effect| match (&effect.placed, effect.path.as_path()) {
        (PlacedEntry::File { content, .. }, Some(path)) => Some((path.clone(), content.other_name()?.clone())),
        _ => None,
    };
    let names: Vec<_> = effects.iter().filter_map(name).collect();
    let written: BTreeSet<_> = steps.iter().map(|step| step.path.clone()).collect();
    let named = find_hard_links(names.iter().map(|(path, file)| (path, file)), |path| {
        written.contains(path)
    });
    for step in steps {
        if let (PlacedEntry::File { content, .. }, Some(there)) = (&mut step.placed, named.get(&step.path)) {
            *content = content.clone().with_other_name(there.clone());
        }
    }
}

fn plan_mutations(steps: &[EffectStep]) -> Vec<Mutation> {
    let mut mutations = Vec::new();
    let mut gone: BTreeSet<WsPath> = BTreeSet::new();
    for step in steps.iter().filter(|step| step.replaces_entry()) {
        // The removal of a directory is recursive, and one for an entry inside it would fail.
        if !step.path.ancestry().any(|above| gone.contains(&above)) {
            gone.insert(step.path.clone());
            mutations.push(Mutation::Remove {
                path: step.path.clone(),
                recursive: true,
                // A directory and a link have no version to compare.
                precondition: step.present_version().map_or(Precondition::Any, Precondition::Version),
            });
        }
    }
    steps.iter().for_each(|step| mutations.extend(mutations_of_step(step)));
    mutations
}

fn mutations_of_step(step: &EffectStep) -> Vec<Mutation> {
    let path = step.path.clone();
    match &step.placed {
        PlacedEntry::Nothing | PlacedEntry::Image(_) => Vec::new(),
        PlacedEntry::File { content, mode } => vec![Mutation::Write {
            path,
            content: content.clone(),
            precondition: match step.present_version() {
                Some(version) => Precondition::Version(version),
                None if step.is_present_file() => Precondition::Any,
                None => Precondition::Absent,
            },
            mode: Some(*mode),
            parents: true,
        }],
        PlacedEntry::Directory { mode } => vec![
            Mutation::MakeDir {
                path: path.clone(),
                parents: true,
            },
            Mutation::SetMode { path, mode: *mode },
        ],
        PlacedEntry::Symlink { target } => vec![Mutation::Symlink {
            path,
            target: target.clone(),
        }],
    }
}
