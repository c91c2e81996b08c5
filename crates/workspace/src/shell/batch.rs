//! Commits effects to files without a history: they pass the same review as a change, and are applied as one batch.

use std::collections::BTreeSet;

use garret_core::{
    Content, Dropped, Effect, EffectsMode, EntryKind, ErrorKind, Follow, Image, Mutation, PathChange, Placed,
    Precondition, Result, StatOptions, Storage, WsPath, other_names,
};

use super::filed::{PIECE_BYTES, read_piece};
use super::images::{image_of, image_of_stat};
use super::keep::{Keeping, Kept, Maker};
use crate::Workspace;

/// An effect that differs from the present entry at its path.
struct Step {
    path: WsPath,
    before: Option<Image>,
    placed: Placed,
}

impl Workspace {
    /// Applies effects to the files as one batch. An effect whose name is not UTF-8 is left out and reported as
    /// dropped.
    pub(super) async fn keep_without_history(&self, effects: &[Effect], maker: Maker) -> Result<Keeping> {
        let (mut steps, mut left_out) = (Vec::new(), Vec::new());
        for effect in effects {
            match effect.path.as_path() {
                Some(path) => steps.extend(self.step(path, &effect.placed).await?),
                None if effect.placed == Placed::Nothing => {}
                None => left_out.push(Dropped {
                    path: effect.path.clone(),
                    what: "name that is not UTF-8, in a workspace without history",
                }),
            }
        }
        tell_names(&mut steps, effects);
        let paths: Vec<_> = steps.iter().map(Step::change).collect();
        let kept = match self.apply_steps(&paths, &steps, &maker).await {
            Ok(kept) => kept,
            Err(error) if is_refusal(error.kind()) => Kept::Refused(error),
            Err(error) => return Err(error),
        };
        Ok(Keeping { paths, kept, left_out })
    }

    async fn apply_steps(&self, paths: &[PathChange], steps: &[Step], maker: &Maker) -> Result<Kept> {
        self.review(paths)?;
        if paths.is_empty() {
            return Ok(Kept::Nothing);
        }
        match maker.mode {
            EffectsMode::Discard => return Ok(Kept::Discarded),
            EffectsMode::Ask => self.approve_effects(&maker.origin, paths).await?,
            EffectsMode::Commit => {}
        }
        let (operation, mutations) = (maker.origin.operation.clone(), mutations(steps));
        if maker.has_quota_turns {
            self.commit_with_turns(operation, mutations, Follow::Never).await?;
        } else {
            self.commit(operation, mutations, Follow::Never).await?;
        }
        Ok(Kept::Applied)
    }

    async fn step(&self, path: &WsPath, placed: &Placed) -> Result<Option<Step>> {
        let before = self.image_at(path).await?;
        // A file that cannot be compared counts as different: to write it once more does no harm, to skip it loses an
        // effect.
        let is_same = unless_closed(is_as(self.storage(), path, before.as_ref(), placed).await)?.unwrap_or(false);
        Ok((!is_same).then(|| Step {
            path: path.clone(),
            before,
            placed: placed.clone(),
        }))
    }

    pub(super) async fn image_at(&self, path: &WsPath) -> Result<Option<Image>> {
        image_in(self.storage(), path).await
    }
}

/// Whether a storage has at `path` exactly the entry that an effect makes.
pub(super) async fn has(storage: &dyn Storage, path: &WsPath, placed: &Placed) -> Result<bool> {
    let there = image_in(storage, path).await?;
    is_as(storage, path, there.as_ref(), placed).await
}

/// Whether two storages have the same entry at `path`: the same kind, mode and bytes, or none on both sides.
pub(super) async fn have_same(one: &dyn Storage, other: &dyn Storage, path: &WsPath) -> Result<bool> {
    let (first, second) = (image_in(one, path).await?, image_in(other, path).await?);
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

async fn image_in(storage: &dyn Storage, path: &WsPath) -> Result<Option<Image>> {
    let options = StatOptions {
        follow: Follow::Never,
        ..StatOptions::default()
    };
    match storage.stat(path, options).await {
        Ok(stat) => Ok(Some(image_of_stat(&stat))),
        Err(error) if is_absence(error.kind()) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn is_as(storage: &dyn Storage, path: &WsPath, there: Option<&Image>, placed: &Placed) -> Result<bool> {
    Ok(match (there, placed) {
        (None, Placed::Nothing) => true,
        (Some(there), Placed::File { content, mode }) => has_file(storage, path, there, (content, *mode)).await?,
        (Some(there), Placed::Directory { mode }) => {
            there.kind == EntryKind::Directory && (there.mode == *mode || !storage.info().has_modes)
        }
        (Some(there), Placed::Symlink { target }) => there.target.as_ref() == Some(target),
        _ => false,
    })
}

async fn has_file(
    storage: &dyn Storage,
    path: &WsPath,
    there: &Image,
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

/// Whether the error of a `stat` or a read means that there is no entry at the path.
pub(super) fn is_absence(kind: ErrorKind) -> bool {
    // Somebody may have replaced a directory above the path with a file or a link; then the path leads nowhere.
    matches!(
        kind,
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PathEscape
    )
}

/// Turns the error of a path that cannot be read into `None`: its mode forbids it, its kind has no content, or it
/// changes all the time. An error that may pass, as of a storage out of reach, stays an error.
pub(super) fn unless_closed<T>(looked: Result<T>) -> Result<Option<T>> {
    match looked {
        Ok(found) => Ok(Some(found)),
        // To skip the path now would lose a change that others made there.
        Err(error) if is_passing(error.kind()) => Err(error),
        Err(_) => Ok(None),
    }
}

fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Internal)
}

fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Denied | ErrorKind::QuotaExceeded | ErrorKind::TooLarge)
}

impl Step {
    fn change(&self) -> PathChange {
        PathChange {
            path: self.path.clone().into(),
            before: self.before.clone(),
            after: image_of(&self.placed),
        }
    }

    /// Whether the present entry must be removed before the new one is made, because the two differ in kind.
    fn replaces(&self) -> bool {
        let after = image_of(&self.placed).map(|image| image.kind);
        // A link to another target is of the same kind, but no mutation changes the target of a link in place.
        self.before
            .as_ref()
            .is_some_and(|before| Some(before.kind) != after || before.kind == EntryKind::Symlink)
    }
}

/// Marks each file that is a further hard link of another file in the batch, or of one that exists already, with the
/// path of that file.
fn tell_names(steps: &mut [Step], effects: &[Effect]) {
    let name = |effect: &'_ Effect| match (&effect.placed, effect.path.as_path()) {
        (Placed::File { content, .. }, Some(path)) => Some((path.clone(), content.other_name()?.clone())),
        _ => None,
    };
    let names: Vec<_> = effects.iter().filter_map(name).collect();
    let written: BTreeSet<_> = steps.iter().map(|step| step.path.clone()).collect();
    let named = other_names(names.iter().map(|(path, file)| (path, file)), |path| {
        written.contains(path)
    });
    for step in steps {
        if let (Placed::File { content, .. }, Some(there)) = (&mut step.placed, named.get(&step.path)) {
            *content = content.clone().also_at(there.clone());
        }
    }
}

fn mutations(steps: &[Step]) -> Vec<Mutation> {
    let mut mutations = Vec::new();
    let mut gone: BTreeSet<WsPath> = BTreeSet::new();
    for step in steps.iter().filter(|step| step.replaces()) {
        // The removal of a directory is recursive, and one for an entry inside it would fail.
        if !step.path.ancestry().any(|above| gone.contains(&above)) {
            gone.insert(step.path.clone());
            mutations.push(Mutation::Remove {
                path: step.path.clone(),
                recursive: true,
                precondition: Precondition::Any,
            });
        }
    }
    steps.iter().for_each(|step| mutations.extend(coming(step)));
    mutations
}

fn coming(step: &Step) -> Vec<Mutation> {
    let path = step.path.clone();
    match &step.placed {
        Placed::Nothing | Placed::Image(_) => Vec::new(),
        Placed::File { content, mode } => vec![Mutation::Write {
            path,
            content: content.clone(),
            precondition: Precondition::Any,
            mode: Some(*mode),
            parents: true,
        }],
        Placed::Directory { mode } => vec![
            Mutation::MakeDir {
                path: path.clone(),
                parents: true,
            },
            Mutation::SetMode { path, mode: *mode },
        ],
        Placed::Symlink { target } => vec![Mutation::Symlink {
            path,
            target: target.clone(),
        }],
    }
}
