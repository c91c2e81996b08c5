//! Bringing the storage to given images: the mutations that make each path what it should be.

use std::collections::BTreeMap;

use bytes::Bytes;
use garret_core::{
    Batch, EntryKind, Error, ErrorKind, Follow, Image, Mutation, PathChange, Precondition, Result, Version, WsPath,
};

use super::turn::Turn;
use crate::content::Address;
use crate::error::damaged;
use crate::workspace::DepotWorkspace;

/// A path, what is there, and what should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Goal {
    pub(super) path: WsPath,
    pub(super) from: Option<Image>,
    pub(super) to: Option<Image>,
}

impl Goal {
    /// The goal that makes `change` true.
    pub(super) fn forward(change: &PathChange) -> Option<Self> {
        Some(Self {
            path: change.path.as_path()?.clone(),
            from: change.before.clone(),
            to: change.after.clone(),
        })
    }

    /// The goal that takes `change` back.
    pub(super) fn back(change: &PathChange) -> Option<Self> {
        Some(Self {
            path: change.path.as_path()?.clone(),
            from: change.after.clone(),
            to: change.before.clone(),
        })
    }

    fn is_remade(&self) -> bool {
        kind(self.from.as_ref()) != kind(self.to.as_ref()) || kind(self.to.as_ref()) == Some(EntryKind::Symlink)
    }
}

fn kind(image: Option<&Image>) -> Option<EntryKind> {
    image.map(|image| image.kind)
}

impl Turn<'_> {
    /// The batch that reaches the goals: what goes first, the deepest first; then what comes, the highest first; then the modes of
    /// directories, so that one that may not be written to gets its files before.
    pub(super) async fn bringing(&mut self, goals: &[Goal]) -> Result<Batch> {
        let ordered: BTreeMap<_, _> = goals.iter().map(|goal| (goal.path.clone(), goal)).collect();
        let mut mutations = Vec::new();
        for goal in ordered
            .values()
            .rev()
            .filter(|goal| goal.from.is_some() && goal.is_remade())
        {
            mutations.push(Mutation::Remove {
                path: goal.path.clone(),
                recursive: false,
                precondition: self.binding(goal)?,
            });
        }
        let mut modes = Vec::new();
        for goal in ordered.values() {
            let Some(image) = &goal.to else { continue };
            self.make(goal, image, &mut mutations, &mut modes).await?;
        }
        mutations.extend(modes.into_iter().rev());
        Ok(Batch {
            mutations,
            follow: Follow::Never,
            ..Batch::default()
        })
    }

    async fn make(
        &mut self,
        goal: &Goal,
        image: &Image,
        mutations: &mut Vec<Mutation>,
        modes: &mut Vec<Mutation>,
    ) -> Result<()> {
        let path = goal.path.clone();
        match image.kind {
            EntryKind::Directory => {
                if goal.is_remade() {
                    mutations.push(Mutation::MakeDir {
                        path: path.clone(),
                        parents: false,
                    });
                }
                modes.push(Mutation::SetMode { path, mode: image.mode });
            }
            EntryKind::Symlink => mutations.push(Mutation::Symlink {
                path,
                target: image.target.clone().unwrap_or_default(),
            }),
            EntryKind::File => {
                let has_same_content = goal.from.as_ref().is_some_and(|from| from.content == image.content);
                if has_same_content && !goal.is_remade() {
                    mutations.push(Mutation::SetMode { path, mode: image.mode });
                    return Ok(());
                }
                let content = content_of(self.room, image).await.map_err(|error| error.at(&path))?;
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
        let known = self.known(goal.path.as_str().as_bytes())?;
        let token = known.and_then(|known| known.token);
        Ok(token.map_or(Precondition::Any, |token| Precondition::Version(Version::new(token))))
    }
}

/// The bytes of an image's content.
pub(super) async fn content_of(room: &DepotWorkspace, image: &Image) -> Result<Bytes> {
    let address = image.content.ok_or_else(|| damaged("a file has no content"))?;
    let address = Address(address.0);
    let shared = room.shared();
    let row = shared.database.read(|session| session.content(address))?;
    let row = row.ok_or_else(|| damaged("the depot has lost it"))?;
    let size = row.size.max(image.size);
    shared.content.read(&shared.database, address, row, 0..size).await
}

/// Whether the depot can give the content of every image.
pub(super) async fn is_held(room: &DepotWorkspace, image: Option<&Image>) -> Result<bool> {
    let Some(image) = image.filter(|image| image.kind == EntryKind::File) else {
        return Ok(true);
    };
    match content_of(room, image).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(false),
        Err(error) => Err(error),
    }
}

/// The refusal of a change whose paths cannot be brought to the storage.
pub(super) fn cannot_carry(change: &PathChange) -> Error {
    let shown = garret_core::path::quote(&change.path.shown());
    Error::new(
        ErrorKind::Unsupported,
        format!("the name {shown} is not UTF-8, and this storage cannot be asked to make it"),
    )
}
