//! Bringing the storage to given images: the mutations that make each path what it should be.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::ops::Range;

use bytes::Bytes;
use futures::executor::block_on;
use garret_core::{
    Batch, Content, ContentSource, Directory, EntryKind, EntryPath, Error, ErrorKind, Follow, Image, ListOptions,
    Mutation, NewEntry, PathChange, Precondition, Result, Version, WsPath,
};

use super::look::is_nothing;
use super::record::Known;
use super::turn::Turn;
use crate::content::Address;
use crate::error::damaged;
use crate::workspace::DepotWorkspace;

/// Content up to this size is read at once.
const WHOLE_BYTES: u64 = 8 * 1024 * 1024;
/// Larger content is read in parts of this size.
const PART_BYTES: u64 = 4 * 1024 * 1024;

/// A path, what is there, and what should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Goal {
    pub(super) path: WsPath,
    pub(super) from: Option<Image>,
    pub(super) to: Option<Image>,
}

/// A directory opened, and a name in it.
pub(super) type Handle = (Box<dyn Directory>, Vec<u8>);

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
        let mut staying = BTreeSet::new();
        let leaving: Vec<_> = ordered.values().rev().collect();
        for goal in leaving {
            if goal.from.is_none() || !goal.is_remade() {
                continue;
            }
            let is_directory = kind(goal.from.as_ref()) == Some(EntryKind::Directory);
            if is_directory && goal.to.is_none() && self.holds_excluded(&goal.path, &staying).await? {
                staying.insert(goal.path.clone());
                continue;
            }
            mutations.push(Mutation::Remove {
                path: goal.path.clone(),
                // What no path can spell goes with the directory that it is in; it was looked at and is in the plan.
                recursive: is_directory && self.has_raw_below(&goal.path)?,
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

    /// Whether something in a directory is kept out of history, or is a directory that stays for that reason: then it stays too.
    async fn holds_excluded(&self, directory: &WsPath, staying: &BTreeSet<WsPath>) -> Result<bool> {
        let exclusions = &self.journaled.exclusions;
        if exclusions.is_empty() {
            return Ok(false);
        }
        let options = ListOptions {
            follow: Follow::Never,
            limit: usize::MAX,
            ..ListOptions::default()
        };
        let page = match self.journaled.files.list(directory, options).await {
            Ok(page) => page,
            Err(error) if is_nothing(error.kind()) => return Ok(false),
            Err(error) => return Err(error),
        };
        let stays = |entry: &garret_core::Entry| {
            exclusions.covers(&entry.path, entry.kind == EntryKind::Directory)
                || entry.path.as_path().is_some_and(|path| staying.contains(path))
        };
        Ok(page.entries.iter().any(stays))
    }

    fn has_raw_below(&self, directory: &WsPath) -> Result<bool> {
        let below = self.state.knowledge.below(self.room, directory.as_str().as_bytes())?;
        Ok(below.iter().any(|(path, _)| is_raw(path)))
    }

    /// Makes by handle what the changes bring to names that no path can spell. What is there already stays.
    pub(super) async fn bring_raw(&self, changes: &[PathChange]) -> Result<()> {
        for change in changes.iter().filter(|change| change.path.is_escaped()) {
            let Some(image) = &change.after else { continue };
            let content = match image.kind {
                EntryKind::File => content_of(self.room, image).await?,
                _ => Bytes::new(),
            };
            let entry = match image.kind {
                EntryKind::Directory => NewEntry::Directory { mode: image.mode },
                EntryKind::Symlink => NewEntry::Symlink {
                    target: image.target.as_deref().unwrap_or_default(),
                },
                _ => NewEntry::File {
                    content: &content,
                    mode: image.mode,
                },
            };
            let (above, name) = self.handle_of(&change.path)?.ok_or_else(|| cannot_carry(change))?;
            match above.make(&name, entry) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// The directory that an entry is in, opened, and the entry's name; `None` where the storage has no handles.
    pub(super) fn handle_of(&self, path: &EntryPath) -> Result<Option<Handle>> {
        let Some(mut directory) = self.journaled.files.open_directory(&WsPath::root())? else {
            return Ok(None);
        };
        let mut names: Vec<_> = path.as_bytes().split(|byte| *byte == b'/').collect();
        let name = names.pop().unwrap_or_default().to_vec();
        for name in names {
            directory = directory.open_directory(name)?;
        }
        Ok(Some((directory, name)))
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
        let known = self.known(goal.path.as_str().as_bytes())?;
        let token = known.and_then(|known| known.token);
        Ok(token.map_or(Precondition::Any, |token| Precondition::Version(Version::new(token))))
    }
}

/// The content of an image, large content to be read as it is written.
async fn stored(room: &DepotWorkspace, image: &Image) -> Result<Content> {
    if image.size <= WHOLE_BYTES {
        return content_of(room, image).await.map(Content::from);
    }
    Ok(Content::from_source(StoredSource {
        room: room.clone(),
        image: image.clone(),
    }))
}

/// Content of the depot, read a part at a time.
#[derive(Debug)]
struct StoredSource {
    room: DepotWorkspace,
    image: Image,
}

impl ContentSource for StoredSource {
    fn size(&self) -> u64 {
        self.image.size
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(Box::new(StoredReader {
            room: self.room.clone(),
            image: self.image.clone(),
            at: 0,
            part: Bytes::new(),
        }))
    }
}

struct StoredReader {
    room: DepotWorkspace,
    image: Image,
    at: u64,
    part: Bytes,
}

impl Read for StoredReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.part.is_empty() && self.at < self.image.size {
            let end = (self.at + PART_BYTES).min(self.image.size);
            // On a thread of its own: the caller's may be one that drives futures.
            let read = std::thread::scope(|scope| {
                let reading = scope.spawn(|| block_on(range_of(&self.room, &self.image, self.at..end)));
                reading.join()
            });
            self.part = read.map_err(|_| io::ErrorKind::Other)?.map_err(io::Error::other)?;
            self.at = end;
        }
        let count = buffer.len().min(self.part.len());
        buffer[..count].copy_from_slice(&self.part.split_to(count));
        Ok(count)
    }
}

/// The bytes of an image's content.
pub(super) async fn content_of(room: &DepotWorkspace, image: &Image) -> Result<Bytes> {
    range_of(room, image, 0..image.size).await
}

async fn range_of(room: &DepotWorkspace, image: &Image, range: Range<u64>) -> Result<Bytes> {
    let address = image.content.ok_or_else(|| damaged("a file has no content"))?;
    let address = Address(address.0);
    let shared = room.shared();
    let row = shared.database.read(|session| session.content(address))?;
    let row = row.ok_or_else(|| damaged("the depot has lost it"))?;
    shared.content.read(&shared.database, address, row, range).await
}

/// Whether the depot can give the content of every image.
pub(super) async fn is_held(room: &DepotWorkspace, image: Option<&Image>) -> Result<bool> {
    let Some(image) = image.filter(|image| image.kind == EntryKind::File) else {
        return Ok(true);
    };
    // A look at the end reads the list of parts and one of them, not all of a large file.
    let end = image.size.saturating_sub(1)..image.size;
    match range_of(room, image, end).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether no path can spell it.
pub(super) fn is_raw(path: &[u8]) -> bool {
    EntryPath::from_bytes(path.to_vec()).is_escaped()
}

/// The first change that cannot be brought to the storage: names that no path can spell can come, and can go with their directory.
pub(super) fn not_carried(changes: &[PathChange]) -> Option<&PathChange> {
    let goes = |path: &[u8]| {
        let is_above = |change: &PathChange| {
            let rest = path.strip_prefix(change.path.as_bytes());
            change.after.is_none() && !change.path.is_escaped() && rest.is_some_and(|rest| rest.starts_with(b"/"))
        };
        changes.iter().any(is_above)
    };
    changes
        .iter()
        .filter(|change| change.path.is_escaped())
        .find(|change| match (&change.before, &change.after) {
            (None, _) => false,
            (Some(_), None) => !goes(change.path.as_bytes()),
            (Some(_), Some(_)) => true,
        })
}

/// The refusal of a change whose paths cannot be brought to the storage.
pub(super) fn cannot_carry(change: &PathChange) -> Error {
    let shown = garret_core::path::quote(&change.path.shown());
    Error::new(
        ErrorKind::Unsupported,
        format!("the name {shown} is not UTF-8, and this storage cannot be asked to make it"),
    )
}
