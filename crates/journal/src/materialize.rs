//! Materializes images in the storage: computes the mutations that give each path its target state.

use std::collections::{BTreeMap, BTreeSet};

use garret_core::{
    Batch, EntryKind, EntryPath, Mutation, PathChange, PathImage, Precondition, Result, Version, WsPath,
};
use garret_depot::outside_files::KnownEntry;

use crate::compare::StorageComparer;
use crate::journal_records::JournalRecords;
use crate::owner_bits::plain_batch;

/// A path with its present and its target state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathGoal {
    pub(crate) path: EntryPath,
    pub(crate) from: Option<PathImage>,
    pub(crate) to: Option<PathImage>,
}

impl PathGoal {
    /// Returns the goal that carries out `change`.
    pub(crate) fn forward(change: &PathChange) -> Self {
        Self {
            path: change.path.clone(),
            from: change.before.clone(),
            to: change.after.clone(),
        }
    }

    /// Returns the goal that reverts `change`.
    pub(crate) fn back(change: &PathChange) -> Self {
        Self {
            path: change.path.clone(),
            from: change.after.clone(),
            to: change.before.clone(),
        }
    }

    /// Returns whether the observed entry matches the target state, as far as that can be told without reading its
    /// content.
    pub(crate) fn is_reached_by(&self, known: Option<&KnownEntry>) -> bool {
        let (Some(image), Some(known)) = (&self.to, known) else {
            return self.to.is_none() && known.is_none();
        };
        image.kind == known.kind
            && match image.kind {
                EntryKind::File => image.size == known.size,
                EntryKind::Symlink => image.target == known.target,
                _ => true,
            }
    }

    /// Returns whether the present entry must be removed before the target entry can be created.
    pub(crate) fn is_remade(&self) -> bool {
        image_kind(self.from.as_ref()) != image_kind(self.to.as_ref())
            || image_kind(self.to.as_ref()) == Some(EntryKind::Symlink)
    }

    /// Returns whether the present file already has the content of `image`, so that only its mode changes.
    pub(crate) fn has_same_content(&self, image: &PathImage) -> bool {
        !self.is_remade() && self.from.as_ref().is_some_and(|from| from.content == image.content)
    }
}

fn image_kind(image: Option<&PathImage>) -> Option<EntryKind> {
    image.map(|image| image.kind)
}

/// Returns the batch that reaches the goals. Removals come first, the deepest path first; then new entries, the
/// highest path first; then the modes of directories, so that a directory without write permission gets its files
/// before its mode. Raw names are not in the batch; they are materialized after it.
pub(crate) async fn build_goal_batch(comparer: &mut StorageComparer<'_>, goals: &[PathGoal]) -> Result<Batch> {
    let ordered: BTreeMap<_, _> = goals
        .iter()
        .filter_map(|goal| Some((goal.path.as_path()?.clone(), goal)))
        .collect();
    let raw: BTreeSet<&[u8]> = goals
        .iter()
        .filter(|goal| goal.path.is_escaped() && goal.from.is_some())
        .map(|goal| goal.path.as_bytes())
        .collect();
    let mut mutations = Vec::new();
    let mut staying = BTreeSet::new();
    for (path, goal) in ordered.iter().rev() {
        if goal.from.is_none() || !goal.is_remade() {
            continue;
        }
        let is_directory = image_kind(goal.from.as_ref()) == Some(EntryKind::Directory);
        if is_directory && goal.to.is_none() && comparer.files.holds_excluded(path, &staying).await? {
            // Removing the directory would delete files that the history cannot bring back.
            staying.insert(path.clone());
            continue;
        }
        mutations.push(Mutation::Remove {
            path: path.clone(),
            // Raw names cannot be in the batch; they are removed with their directory. They were compared and are
            // in the plan.
            recursive: is_directory && has_raw_below(&raw, path),
            precondition: recorded_version_precondition(&mut comparer.records, goal)?,
        });
    }
    let mut modes = Vec::new();
    for (path, goal) in &ordered {
        let Some(image) = &goal.to else { continue };
        add_creation(comparer, path, goal, image, &mut mutations, &mut modes).await?;
    }
    mutations.extend(modes.into_iter().rev());
    Ok(plain_batch(mutations))
}

async fn add_creation(
    comparer: &mut StorageComparer<'_>,
    path: &WsPath,
    goal: &PathGoal,
    image: &PathImage,
    mutations: &mut Vec<Mutation>,
    modes: &mut Vec<Mutation>,
) -> Result<()> {
    let path = path.clone();
    match image.kind {
        EntryKind::Directory => {
            if goal.is_remade() {
                mutations.push(Mutation::MakeDir {
                    path: path.clone(),
                    // A directory with only excluded entries stayed when it was removed from the history, so it may
                    // exist already.
                    parents: comparer.files.is_only_excluded(&path).await?,
                });
            }
            modes.push(Mutation::SetMode { path, mode: image.mode });
        }
        EntryKind::Symlink => mutations.push(Mutation::Symlink {
            path,
            target: image.target.clone().unwrap_or_default(),
        }),
        EntryKind::File => {
            if goal.has_same_content(image) {
                mutations.push(Mutation::SetMode { path, mode: image.mode });
                return Ok(());
            }
            let content = comparer.files.room.load_image_content(image).await;
            let content = content.map_err(|error| error.at_path(&path))?;
            let precondition = if goal.is_remade() {
                Precondition::Absent
            } else {
                recorded_version_precondition(&mut comparer.records, goal)?
            };
            mutations.push(Mutation::Write {
                path,
                content,
                precondition,
                mode: Some(image.mode),
                parents: false,
            });
        }
        EntryKind::Other => {}
    }
    Ok(())
}

/// Returns the precondition that binds a mutation to the recorded version of the file at its path.
fn recorded_version_precondition(records: &mut JournalRecords<'_>, goal: &PathGoal) -> Result<Precondition> {
    if image_kind(goal.from.as_ref()) != Some(EntryKind::File) {
        return Ok(Precondition::Any);
    }
    let known = records.recorded_entry(goal.path.as_bytes())?;
    let token = known.and_then(|known| known.token);
    Ok(token.map_or(Precondition::Any, |token| Precondition::Version(Version::new(token))))
}

fn has_raw_below(raw: &BTreeSet<&[u8]>, directory: &WsPath) -> bool {
    let start = [directory.as_str().as_bytes(), b"/"].concat();
    let first = raw.range(start.as_slice()..).next();
    first.is_some_and(|path| path.starts_with(&start))
}
