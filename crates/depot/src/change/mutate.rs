//! The effect of each mutation on the tree, by the rules of the storage contract. `garret_core::memory` implements the
//! same rules.

use bytes::Bytes;
use garret_core::path::check_target;
use garret_core::{Applied, EntryKind, Error, ErrorKind, Follow, Mutation, Precondition, Result, WsPath};

use super::Changing;
use crate::content::Prepared;
use crate::error::damaged;
use crate::metadata::Node;
use crate::tree::{Last, Place, bytes, version_of};

/// A mutation, with the content of a write, whose blobs are stored already.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) mutation: Mutation,
    pub(crate) content: Option<Prepared>,
}

/// The caller's choices for a target that exists already and for parent directories that are missing.
#[derive(Clone, Copy)]
struct Room {
    overwrite: bool,
    parents: bool,
}

impl Changing<'_> {
    /// Applies one mutation.
    pub(crate) fn step(&mut self, step: Step, follow: Follow) -> Result<Applied> {
        let at = |path: &WsPath, last| self.tree.locate(path, last, follow);
        match step.mutation {
            Mutation::Write {
                path,
                precondition,
                mode,
                parents,
                ..
            } => {
                let place = at(&path, Last::Followed)?;
                let content = step.content.expect("the content of a write is in place");
                self.write(place, &content, &precondition, mode, parents)
            }
            Mutation::Append {
                path,
                content,
                precondition,
                create,
            } => {
                let place = at(&path, Last::Followed)?;
                self.append(place, &content, &precondition, create)
            }
            Mutation::Remove {
                path,
                recursive,
                precondition,
            } => {
                let place = at(&path, Last::Kept)?;
                self.remove(&place, recursive, &precondition)
            }
            Mutation::Rename {
                from,
                to,
                overwrite,
                parents,
            } => {
                let (from, to) = (at(&from, Last::Kept)?, at(&to, Last::Kept)?);
                self.rename(&from, &to, Room { overwrite, parents })
            }
            Mutation::Copy {
                from,
                to,
                overwrite,
                parents,
            } => {
                let (from, to) = (at(&from, Last::Followed)?, at(&to, Last::Kept)?);
                self.copy(&from, &to, Room { overwrite, parents })
            }
            Mutation::MakeDir { path, parents } => {
                let place = at(&path, Last::Followed)?;
                self.make_dir(&place, parents)
            }
            Mutation::Symlink { path, target } => {
                let place = at(&path, Last::Kept)?;
                self.make_link(&place, target)
            }
            Mutation::SetMode { path, mode } => {
                let place = at(&path, Last::Followed)?;
                self.set_mode(&place, mode)
            }
        }
    }

    fn write(
        &mut self,
        place: Place,
        content: &Prepared,
        precondition: &Precondition,
        mode: Option<u32>,
        parents: bool,
    ) -> Result<Applied> {
        let before = self.file_before(&place, precondition)?;
        if before.is_none() && !place.is_free {
            self.make_parents(&place.path, parents)?;
        }
        let mode = mode.or(before.as_ref().map(|file| file.mode)).unwrap_or(0o644);
        let created = before.as_ref().map_or(self.now, |file| file.created);
        self.put_file(&place.path, content, mode, created, before.is_none())
    }

    fn append(&mut self, place: Place, content: &Bytes, precondition: &Precondition, create: bool) -> Result<Applied> {
        let session = self.tree.session();
        let Some(before) = self.file_before(&place, precondition)? else {
            if !create {
                let missing = self.tree.why_missing(&place.path)?;
                return Err(missing.hint("set `create` to make the file"));
            }
            let prepared = self.content.prepare_in(session, content, self.durability)?;
            return self.write(place, &prepared, precondition, None, true);
        };
        let address = before
            .content
            .ok_or_else(|| damaged("a file has no content").at(&place.path))?;
        let joined = self.content.append(session, address, content, self.durability)?;
        self.put_file(&place.path, &joined, before.mode, before.created, false)
    }

    /// Returns the file at `place`, if there is one, after checking the precondition. A directory is `is_a_directory`.
    fn file_before(&self, place: &Place, precondition: &Precondition) -> Result<Option<Node>> {
        // `Tree::file` would look up each parent to say why the file is missing; a write that creates it does not need
        // the reason.
        if place.node.is_none() && *precondition == Precondition::Any && !place.path.is_root() {
            return Ok(None);
        }
        let before = match self.tree.file(place) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        precondition.check(&place.path, before.as_ref().and_then(version_of).as_ref())?;
        Ok(before)
    }

    fn put_file(
        &mut self,
        path: &WsPath,
        content: &Prepared,
        mode: u32,
        created: i64,
        is_new: bool,
    ) -> Result<Applied> {
        // Before the entry, which stores the number of the content's row.
        self.record(content)?;
        let node = Node {
            kind: EntryKind::File,
            mode: mode & 0o7777,
            size: content.size,
            content: Some(content.address),
            target: None,
            created,
            modified: self.now,
        };
        let done = applied(&node, is_new);
        if is_new {
            self.set_new(bytes(path), node)?;
        } else {
            self.set(bytes(path), Some(node))?;
        }
        Ok(done)
    }

    fn remove(&mut self, place: &Place, recursive: bool, precondition: &Precondition) -> Result<Applied> {
        if place.path.is_root() {
            return Err(root_is_kept("removed"));
        }
        let node = self.tree.require(place)?;
        match node.kind {
            EntryKind::File => precondition.check(&place.path, version_of(&node).as_ref())?,
            // Only files have versions, so no precondition can hold for a directory or a link.
            _ if *precondition != Precondition::Any => return Err(Error::conflict(&place.path, None)),
            _ => {}
        }
        if node.kind == EntryKind::Directory {
            self.remove_below(&place.path, recursive)?;
        }
        self.set(bytes(&place.path), None)?;
        Ok(Applied {
            version: None,
            size: 0,
            created: false,
        })
    }

    fn remove_below(&mut self, directory: &WsPath, recursive: bool) -> Result<()> {
        if !recursive && self.has_entries(directory)? {
            return Err(Error::not_empty(directory).hint("set `recursive` to remove it with everything in it"));
        }
        // Collected first: the scan reads the rows that `set` changes.
        let below = self.tree.below(bytes(directory)).collect()?;
        below.iter().try_for_each(|(path, _)| self.set(path, None))
    }

    fn has_entries(&self, directory: &WsPath) -> Result<bool> {
        Ok(self.tree.below(bytes(directory)).next()?.is_some())
    }

    fn rename(&mut self, from: &Place, to: &Place, room: Room) -> Result<Applied> {
        if from.path.is_root() {
            return Err(root_is_kept("moved"));
        }
        let node = self.tree.require(from)?;
        if from.path == to.path {
            return Ok(applied(&node, false));
        }
        if to.path.is_within(&from.path) {
            let message = format!("{} cannot be moved into itself", from.path.quoted());
            return Err(Error::invalid(message).at(&from.path));
        }
        self.make_room(to, node.kind, room)?;
        let done = applied(&node, to.node.is_none());
        let mut moved = match node.kind {
            EntryKind::Directory => self.tree.below(bytes(&from.path)).collect()?,
            _ => Vec::new(),
        };
        moved.push((bytes(&from.path).to_vec(), node));
        // An entry is found by its whole path, so each entry below a moved directory gets a new row.
        for (path, node) in moved {
            let new = moved_path(&path, &from.path, &to.path)?;
            self.set(&path, None)?;
            self.set(&new, Some(node))?;
        }
        self.note_move(bytes(&from.path), bytes(&to.path))?;
        Ok(done)
    }

    /// Checks that an entry of `kind` may be created at `to` or replace the entry there, and makes the missing parent
    /// directories.
    fn make_room(&mut self, to: &Place, kind: EntryKind, room: Room) -> Result<()> {
        if to.path.is_root() {
            return Err(Error::already_exists(&to.path));
        }
        let Some(there) = to.node.as_ref().map(|node| node.kind) else {
            return self.make_parents(&to.path, room.parents);
        };
        if !room.overwrite {
            return Err(Error::already_exists(&to.path).hint("set `overwrite` to replace it"));
        }
        match (kind, there) {
            (EntryKind::Directory, EntryKind::Directory) if self.has_entries(&to.path)? => {
                Err(Error::not_empty(&to.path))
            }
            (EntryKind::Directory, EntryKind::Directory) => Ok(()),
            (EntryKind::Directory, _) => Err(Error::not_a_directory(&to.path)),
            (_, EntryKind::Directory) => Err(Error::is_a_directory(&to.path)),
            _ => Ok(()),
        }
    }

    fn copy(&mut self, from: &Place, to: &Place, room: Room) -> Result<Applied> {
        let file = self.tree.file(from)?;
        if from.path == to.path {
            return Ok(applied(&file, false));
        }
        self.make_room(to, EntryKind::File, room)?;
        let copy = Node {
            created: self.now,
            modified: self.now,
            ..file
        };
        let done = applied(&copy, to.node.is_none());
        self.set(bytes(&to.path), Some(copy))?;
        Ok(done)
    }

    fn make_dir(&mut self, place: &Place, parents: bool) -> Result<Applied> {
        let made = |created| Applied {
            version: None,
            size: 0,
            created,
        };
        let there = place.node.as_ref().map(|node| node.kind);
        if parents && (place.path.is_root() || there == Some(EntryKind::Directory)) {
            return Ok(made(false));
        }
        if place.path.is_root() || there.is_some() {
            return Err(Error::already_exists(&place.path));
        }
        self.make_parents(&place.path, parents)?;
        self.set(bytes(&place.path), Some(directory(self.now)))?;
        Ok(made(true))
    }

    fn make_link(&mut self, place: &Place, target: String) -> Result<Applied> {
        check_target(&target).map_err(|error| error.at(&place.path))?;
        if place.path.is_root() || place.node.is_some() {
            return Err(Error::already_exists(&place.path));
        }
        self.make_parents(&place.path, true)?;
        let node = Node {
            kind: EntryKind::Symlink,
            mode: 0o777,
            size: target.len() as u64,
            content: None,
            target: Some(target),
            created: self.now,
            modified: self.now,
        };
        let done = applied(&node, true);
        self.set(bytes(&place.path), Some(node))?;
        Ok(done)
    }

    fn set_mode(&mut self, place: &Place, mode: u32) -> Result<Applied> {
        if place.path.is_root() {
            return Err(root_is_kept("changed"));
        }
        let mut node = self.tree.require(place)?;
        if node.kind == EntryKind::Symlink {
            return Err(Error::path_escape(&place.path));
        }
        node.mode = mode & 0o7777;
        let done = applied(&node, false);
        self.set(bytes(&place.path), Some(node))?;
        Ok(done)
    }

    /// Makes the missing directories above `path` if `parents` is set. Without it, the topmost missing directory is
    /// `not_found`; an entry above `path` that is no directory is `not_a_directory`.
    pub(crate) fn make_parents(&mut self, path: &WsPath, parents: bool) -> Result<()> {
        let mut missing = Vec::new();
        let mut nearest = path.parent();
        while let Some(above) = nearest.filter(|above| !above.is_root()) {
            match self.tree.node(bytes(&above))? {
                Some(node) if node.kind == EntryKind::Directory => break,
                Some(_) => return Err(Error::not_a_directory(path)),
                None => nearest = above.parent(),
            }
            missing.push(above);
        }
        match missing.last() {
            Some(topmost) if !parents => Err(Error::not_found(topmost)),
            _ => missing
                .iter()
                .try_for_each(|above| self.set(bytes(above), Some(directory(self.now)))),
        }
    }
}

/// Returns the new path of the entry at `path`, which is `from` or lies below it, after `from` moves to `to`.
fn moved_path(path: &[u8], from: &WsPath, to: &WsPath) -> Result<Vec<u8>> {
    let new = [bytes(to), &path[from.as_str().len()..]].concat();
    // The new path may exceed the limit of a path's length. A name that is not UTF-8 has no `WsPath` to check.
    if let Ok(text) = std::str::from_utf8(&new) {
        WsPath::parse(text).map_err(|error| error.at(to))?;
    }
    Ok(new)
}

fn directory(now: i64) -> Node {
    Node {
        kind: EntryKind::Directory,
        mode: 0o755,
        size: 0,
        content: None,
        target: None,
        created: now,
        modified: now,
    }
}

fn applied(node: &Node, created: bool) -> Applied {
    Applied {
        version: version_of(node),
        size: node.size,
        created,
    }
}

fn root_is_kept(what: &str) -> Error {
    Error::new(ErrorKind::Denied, format!("the root of the workspace cannot be {what}"))
        .at(&WsPath::root())
        .hint("name an entry inside the workspace")
}
