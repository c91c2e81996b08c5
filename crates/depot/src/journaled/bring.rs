//! Bringing the storage to given images: the mutations that make each path what it should be.

use std::collections::{BTreeMap, BTreeSet};

use garret_core::{
    Batch, Content, Entry, EntryKind, EntryPath, ErrorKind, Follow, Image, ListOptions, Mutation, PathChange,
    Precondition, Result, Version, WsPath,
};

use super::look::is_nothing;
use super::record::Known;
use super::turn::Turn;
use crate::content::Address;
use crate::error::damaged;
use crate::stored::Stored;
use crate::workspace::DepotWorkspace;

/// Content up to this size is read at once.
const WHOLE_BYTES: u64 = 8 * 1024 * 1024;

/// A path, what is there, and what should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Goal {
    pub(super) path: EntryPath,
    pub(super) from: Option<Image>,
    pub(super) to: Option<Image>,
}

impl Goal {
    /// The goal that makes `change` true.
    pub(super) fn forward(change: &PathChange) -> Self {
        Self {
            path: change.path.clone(),
            from: change.before.clone(),
            to: change.after.clone(),
        }
    }

    /// The goal that takes `change` back.
    pub(super) fn back(change: &PathChange) -> Self {
        Self {
            path: change.path.clone(),
            from: change.after.clone(),
            to: change.before.clone(),
        }
    }

    /// Whether what is seen is what should be, as far as that can be told without reading it.
    pub(super) fn is_reached_by(&self, known: Option<&Known>) -> bool {
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

    /// Whether what is there has to go before what should be can come.
    pub(super) fn is_remade(&self) -> bool {
        kind(self.from.as_ref()) != kind(self.to.as_ref()) || kind(self.to.as_ref()) == Some(EntryKind::Symlink)
    }

    /// Whether the file that is there has the content of `image`, so that its mode is all that changes.
    pub(super) fn has_same_content(&self, image: &Image) -> bool {
        !self.is_remade() && self.from.as_ref().is_some_and(|from| from.content == image.content)
    }
}

fn kind(image: Option<&Image>) -> Option<EntryKind> {
    image.map(|image| image.kind)
}

impl Turn<'_> {
    /// The batch that reaches the goals: what goes first, the deepest first; then what comes, the highest first; then the modes of
    /// directories, so that one that may not be written to gets its files before. What no path can spell is left to
    /// [`Turn::bring_raw`].
    pub(super) async fn bringing(&mut self, goals: &[Goal]) -> Result<Batch> {
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
            let is_directory = kind(goal.from.as_ref()) == Some(EntryKind::Directory);
            if is_directory && goal.to.is_none() && self.holds_excluded(path, &staying).await? {
                staying.insert(path.clone());
                continue;
            }
            mutations.push(Mutation::Remove {
                path: path.clone(),
                // What no path can spell goes with the directory that it is in; it was looked at and is in the plan.
                recursive: is_directory && has_raw_below(&raw, path),
                precondition: self.binding(goal)?,
            });
        }
        let mut modes = Vec::new();
        for (path, goal) in &ordered {
            let Some(image) = &goal.to else { continue };
            self.make(path, goal, image, &mut mutations, &mut modes).await?;
        }
        mutations.extend(modes.into_iter().rev());
        Ok(Batch {
            mutations,
            follow: Follow::Never,
            ..Batch::default()
        })
    }

    /// Whether something in a directory is kept out of history, or is a directory that stays for that reason: then it stays too.
    async fn holds_excluded(&self, directory: &WsPath, staying: &BTreeSet<WsPath>) -> Result<bool> {
        let exclusions = &self.journaled.exclusions;
        if exclusions.is_empty() {
            return Ok(false);
        }
        let stays = |entry: &Entry| {
            exclusions.covers(&entry.path, entry.kind == EntryKind::Directory)
                || entry.path.as_path().is_some_and(|path| staying.contains(path))
        };
        Ok(self.entries_of(directory).await?.iter().any(stays))
    }

    /// Whether a directory has nothing in it but what is kept out of history, and that: for the journal it is not there.
    pub(super) async fn is_only_excluded(&self, directory: &WsPath) -> Result<bool> {
        let exclusions = &self.journaled.exclusions;
        if exclusions.is_empty() {
            return Ok(false);
        }
        let (mut ahead, mut has_excluded) = (vec![directory.clone()], false);
        while let Some(next) = ahead.pop() {
            for entry in self.entries_of(&next).await? {
                let is_directory = entry.kind == EntryKind::Directory;
                match entry.path.as_path() {
                    _ if exclusions.covers(&entry.path, is_directory) => has_excluded = true,
                    Some(path) if is_directory => ahead.push(path.clone()),
                    _ => return Ok(false),
                }
            }
        }
        Ok(has_excluded)
    }

    async fn entries_of(&self, directory: &WsPath) -> Result<Vec<Entry>> {
        let options = ListOptions {
            follow: Follow::Never,
            limit: usize::MAX,
            ..ListOptions::default()
        };
        match self.journaled.files.list(directory, options).await {
            Ok(page) => Ok(page.entries),
            Err(error) if is_nothing(error.kind()) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    async fn make(
        &mut self,
        path: &WsPath,
        goal: &Goal,
        image: &Image,
        mutations: &mut Vec<Mutation>,
        modes: &mut Vec<Mutation>,
    ) -> Result<()> {
        let path = path.clone();
        match image.kind {
            EntryKind::Directory => {
                if goal.is_remade() {
                    mutations.push(Mutation::MakeDir {
                        path: path.clone(),
                        // One that only holds what is kept out of history stayed when it went.
                        parents: self.is_only_excluded(&path).await?,
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
                let content = stored(self.room, image).await.map_err(|error| error.at(&path))?;
                let precondition = match goal.is_remade() {
                    true => Precondition::Absent,
                    false => self.binding(goal)?,
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

    /// Binds a mutation to the file that was seen there.
    fn binding(&mut self, goal: &Goal) -> Result<Precondition> {
        if kind(goal.from.as_ref()) != Some(EntryKind::File) {
            return Ok(Precondition::Any);
        }
        let known = self.known(goal.path.as_bytes())?;
        let token = known.and_then(|known| known.token);
        Ok(token.map_or(Precondition::Any, |token| Precondition::Version(Version::new(token))))
    }
}

fn has_raw_below(raw: &BTreeSet<&[u8]>, directory: &WsPath) -> bool {
    let start = [directory.as_str().as_bytes(), b"/"].concat();
    let first = raw.range(start.as_slice()..).next();
    first.is_some_and(|path| path.starts_with(&start))
}

/// The content of an image, large content to be read as it is written.
pub(super) async fn stored(room: &DepotWorkspace, image: &Image) -> Result<Content> {
    let stored = stored_at(room, image)?;
    match image.size <= WHOLE_BYTES {
        true => stored.range(0..image.size).await.map(Content::from),
        false => Ok(Content::from_source(stored)),
    }
}

fn stored_at(room: &DepotWorkspace, image: &Image) -> Result<Stored> {
    let address = image.content.ok_or_else(|| damaged("a file has no content"))?;
    Ok(Stored {
        shared: room.shared().clone(),
        address: Address(address.0),
        size: image.size,
    })
}

/// Whether the depot can give the content of every image.
pub(super) async fn is_held(room: &DepotWorkspace, image: Option<&Image>) -> Result<bool> {
    let Some(image) = image.filter(|image| image.kind == EntryKind::File) else {
        return Ok(true);
    };
    // A look at the end reads the list of parts and one of them, not all of a large file.
    let end = image.size.saturating_sub(1)..image.size;
    let read = async { stored_at(room, image)?.range(end).await };
    match read.await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(false),
        Err(error) => Err(error),
    }
}
