//! Materializes images in the storage: computes the mutations that give each path its target state.

use std::collections::{BTreeMap, BTreeSet};

use garret_core::{
    Batch, Entry, EntryKind, EntryPath, Follow, ListOptions, Mutation, PathChange, PathImage, Precondition, Result,
    Version, WsPath,
};
use garret_depot::outside_files::KnownEntry;

use crate::compare::means_absent;
use crate::write_session::{ObservedFiles, WriteSession};

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

impl WriteSession<'_> {
    /// Returns the batch that reaches the goals. Removals come first, the deepest path first; then new entries, the
    /// highest path first; then the modes of directories, so that a directory without write permission gets its files
    /// before its mode. Raw names are not in the batch; they are materialized after it.
    pub(crate) async fn build_goal_batch(&mut self, goals: &[PathGoal]) -> Result<Batch> {
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
            if is_directory && goal.to.is_none() && self.files.holds_excluded(path, &staying).await? {
                // Removing the directory would delete files that the history cannot bring back.
                staying.insert(path.clone());
                continue;
            }
            mutations.push(Mutation::Remove {
                path: path.clone(),
                // Raw names cannot be in the batch; they are removed with their directory. They were compared and are
                // in the plan.
                recursive: is_directory && has_raw_below(&raw, path),
                precondition: self.recorded_version_precondition(goal)?,
            });
        }
        let mut modes = Vec::new();
        for (path, goal) in &ordered {
            let Some(image) = &goal.to else { continue };
            self.add_creation(path, goal, image, &mut mutations, &mut modes).await?;
        }
        mutations.extend(modes.into_iter().rev());
        Ok(Batch {
            mutations,
            follow: Follow::Never,
            ..Batch::default()
        })
    }

    async fn add_creation(
        &mut self,
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
                        parents: self.files.is_only_excluded(&path).await?,
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
                let content = self
                    .files
                    .room
                    .load_image_content(image)
                    .await
                    .map_err(|error| error.at_path(&path))?;
                let precondition = if goal.is_remade() {
                    Precondition::Absent
                } else {
                    self.recorded_version_precondition(goal)?
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
    fn recorded_version_precondition(&mut self, goal: &PathGoal) -> Result<Precondition> {
        if image_kind(goal.from.as_ref()) != Some(EntryKind::File) {
            return Ok(Precondition::Any);
        }
        let known = self.recorded_entry(goal.path.as_bytes())?;
        let token = known.and_then(|known| known.token);
        Ok(token.map_or(Precondition::Any, |token| Precondition::Version(Version::new(token))))
    }
}

impl ObservedFiles<'_> {
    /// Returns whether a directory holds an entry that is kept out of history, or a directory that stays for that
    /// reason. Such a directory stays too.
    async fn holds_excluded(&self, directory: &WsPath, staying: &BTreeSet<WsPath>) -> Result<bool> {
        let exclusions = &self.journaled.exclusions;
        if exclusions.is_empty() {
            return Ok(false);
        }
        let stays = |entry: &Entry| {
            exclusions.covers_path(&entry.path, entry.kind == EntryKind::Directory)
                || entry.path.as_path().is_some_and(|path| staying.contains(path))
        };
        Ok(self.list_entries(directory).await?.iter().any(stays))
    }

    /// Returns whether a directory holds entries that are kept out of history and no others. The journal treats it as
    /// absent.
    pub(crate) async fn is_only_excluded(&self, directory: &WsPath) -> Result<bool> {
        let exclusions = &self.journaled.exclusions;
        if exclusions.is_empty() {
            return Ok(false);
        }
        let (mut ahead, mut has_excluded) = (vec![directory.clone()], false);
        while let Some(next) = ahead.pop() {
            for entry in self.list_entries(&next).await? {
                let is_directory = entry.kind == EntryKind::Directory;
                match entry.path.as_path() {
                    _ if exclusions.covers_path(&entry.path, is_directory) => has_excluded = true,
                    Some(path) if is_directory => ahead.push(path.clone()),
                    _ => return Ok(false),
                }
            }
        }
        Ok(has_excluded)
    }

    async fn list_entries(&self, directory: &WsPath) -> Result<Vec<Entry>> {
        let options = ListOptions {
            follow: Follow::Never,
            limit: usize::MAX,
            ..ListOptions::default()
        };
        match self.journaled.files.list(directory, options).await {
            Ok(page) => Ok(page.entries),
            Err(error) if means_absent(error.kind()) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

fn has_raw_below(raw: &BTreeSet<&[u8]>, directory: &WsPath) -> bool {
    let start = [directory.as_str().as_bytes(), b"/"].concat();
    let first = raw.range(start.as_slice()..).next();
    first.is_some_and(|path| path.starts_with(&start))
}
