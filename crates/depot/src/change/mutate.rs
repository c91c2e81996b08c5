//! The effect of each mutation on the tree, by the rules of the storage contract. `garret_core::memory` implements the
//! same rules.

use bytes::Bytes;
use garret_core::path::check_target;
use garret_core::{EntryKind, Error, ErrorKind, Follow, Mutation, MutationOutcome, Precondition, Result, WsPath};

use super::ChangeBuilder;
use crate::content::PreparedContent;
use crate::error::damaged_content;
use crate::metadata::EntryNode;
use crate::tree::{LocatedPath, TreeFinalLink, path_key, version_of};

/// A mutation, with the content of a write, whose blobs are stored already.
#[derive(Debug)]
pub(crate) struct MutationStep {
    pub(crate) mutation: Mutation,
    pub(crate) content: Option<PreparedContent>,
}

/// The caller's choices for a target that exists already and for parent directories that are missing.
#[derive(Clone, Copy)]
struct DestinationOptions {
    overwrite: bool,
    parents: bool,
}

impl ChangeBuilder<'_> {
    /// Applies one mutation.
    pub(crate) fn apply_step(&mut self, step: MutationStep, follow: Follow) -> Result<MutationOutcome> {
        let at = |path: &WsPath, last| self.tree.locate(path, last, follow);
        match step.mutation {
            Mutation::Write {
                path,
                precondition,
                mode,
                parents,
                ..
            } => {
                let place = at(&path, TreeFinalLink::Followed)?;
                let content = step.content.expect("the content of a write is in place");
                self.write_file(place, &content, &precondition, mode, parents)
            }
            Mutation::Append {
                path,
                content,
                precondition,
                create,
            } => {
                let place = at(&path, TreeFinalLink::Followed)?;
                self.append_to_file(place, &content, &precondition, create)
            }
            Mutation::Remove {
                path,
                recursive,
                precondition,
            } => {
                let place = at(&path, TreeFinalLink::NotFollowed)?;
                self.remove_entry(&place, recursive, &precondition)
            }
            Mutation::Rename {
                from,
                to,
                overwrite,
                parents,
            } => {
                let (from, to) = (
                    at(&from, TreeFinalLink::NotFollowed)?,
                    at(&to, TreeFinalLink::NotFollowed)?,
                );
                self.rename_entry(&from, &to, DestinationOptions { overwrite, parents })
            }
            Mutation::Copy {
                from,
                to,
                overwrite,
                parents,
            } => {
                let (from, to) = (
                    at(&from, TreeFinalLink::Followed)?,
                    at(&to, TreeFinalLink::NotFollowed)?,
                );
                self.copy_file(&from, &to, DestinationOptions { overwrite, parents })
            }
            Mutation::MakeDir { path, parents } => {
                let place = at(&path, TreeFinalLink::Followed)?;
                self.make_dir(&place, parents)
            }
            Mutation::Symlink { path, target } => {
                let place = at(&path, TreeFinalLink::NotFollowed)?;
                self.make_link(&place, target)
            }
            Mutation::SetMode { path, mode } => {
                let place = at(&path, TreeFinalLink::Followed)?;
                self.set_mode(&place, mode)
            }
        }
    }

    fn write_file(
        &mut self,
        place: LocatedPath,
        content: &PreparedContent,
        precondition: &Precondition,
        mode: Option<u32>,
        parents: bool,
    ) -> Result<MutationOutcome> {
        let before = self.file_before(&place, precondition)?;
        if before.is_none() && !place.is_free {
            self.make_parents(&place.path, parents)?;
        }
        let mode = mode.or(before.as_ref().map(|file| file.mode)).unwrap_or(0o644);
        let created = before.as_ref().map_or(self.now, |file| file.created);
        self.put_file(&place.path, content, mode, created, before.is_none())
    }

    fn append_to_file(
        &mut self,
        place: LocatedPath,
        content: &Bytes,
        precondition: &Precondition,
        create: bool,
    ) -> Result<MutationOutcome> {
        let session = self.tree.session();
        let Some(before) = self.file_before(&place, precondition)? else {
            if !create {
                let missing = self.tree.why_missing(&place.path)?;
                return Err(missing.hint("set `create` to make the file"));
            }
            let prepared = self.content.prepare_in_transaction(session, content, self.durability)?;
            return self.write_file(place, &prepared, precondition, None, true);
        };
        let address = before
            .content
            .ok_or_else(|| damaged_content("a file has no content").at_path(&place.path))?;
        let joined = self
            .content
            .append_content(session, address, content, self.durability)?;
        self.put_file(&place.path, &joined, before.mode, before.created, false)
    }

    /// Returns the file at `place`, if there is one, after checking the precondition. A directory is `is_a_directory`.
    fn file_before(&self, place: &LocatedPath, precondition: &Precondition) -> Result<Option<EntryNode>> {
        // `Tree::require_file` would look up each parent to say why the file is missing; a write that creates it does not need
        // the reason.
        if place.node.is_none() && *precondition == Precondition::Any && !place.path.is_root() {
            return Ok(None);
        }
        let before = match self.tree.require_file(place) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        precondition.check_version(&place.path, before.as_ref().and_then(version_of).as_ref())?;
        Ok(before)
    }

    fn put_file(
        &mut self,
        path: &WsPath,
        content: &PreparedContent,
        mode: u32,
        created: i64,
        is_new: bool,
    ) -> Result<MutationOutcome> {
        // Before the entry, which stores the number of the content's row.
        self.record_content(content)?;
        let node = EntryNode {
            kind: EntryKind::File,
            mode: mode & 0o7777,
            size: content.size,
            content: Some(content.address),
            target: None,
            created,
            modified: self.now,
        };
        let done = mutation_result(&node, is_new);
        if is_new {
            self.set_new_entry(path_key(path), node)?;
        } else {
            self.set_entry(path_key(path), Some(node))?;
        }
        Ok(done)
    }

    fn remove_entry(
        &mut self,
        place: &LocatedPath,
        recursive: bool,
        precondition: &Precondition,
    ) -> Result<MutationOutcome> {
        if place.path.is_root() {
            return Err(Error::root_denied("removed"));
        }
        let node = self.tree.require_node(place)?;
        match node.kind {
            EntryKind::File => precondition.check_version(&place.path, version_of(&node).as_ref())?,
            // Only files have versions, so no precondition can hold for a directory or a link.
            _ if *precondition != Precondition::Any => return Err(Error::conflict(&place.path, None)),
            _ => {}
        }
        if node.kind == EntryKind::Directory {
            self.remove_entries_below(&place.path, recursive)?;
        }
        self.set_entry(path_key(&place.path), None)?;
        Ok(MutationOutcome {
            version: None,
            size: 0,
            created: false,
            change: None,
        })
    }

    fn remove_entries_below(&mut self, directory: &WsPath, recursive: bool) -> Result<()> {
        if !recursive && self.has_entries(directory)? {
            return Err(Error::not_empty(directory).hint("set `recursive` to remove it with everything in it"));
        }
        // Collected first: the scan reads the rows that `set_entry` changes.
        let below = self.tree.scan_below(path_key(directory)).collect()?;
        below.iter().try_for_each(|(path, _)| self.set_entry(path, None))
    }

    fn has_entries(&self, directory: &WsPath) -> Result<bool> {
        Ok(self.tree.scan_below(path_key(directory)).next()?.is_some())
    }

    fn rename_entry(
        &mut self,
        from: &LocatedPath,
        to: &LocatedPath,
        room: DestinationOptions,
    ) -> Result<MutationOutcome> {
        if from.path.is_root() {
            return Err(Error::root_denied("moved"));
        }
        let node = self.tree.require_node(from)?;
        if from.path == to.path {
            return Ok(mutation_result(&node, false));
        }
        if to.path.is_within(&from.path) {
            let message = format!("{} cannot be moved into itself", from.path.to_quoted());
            return Err(Error::invalid(message).at_path(&from.path));
        }
        self.prepare_destination(to, node.kind, room)?;
        let done = mutation_result(&node, to.node.is_none());
        let mut moved = match node.kind {
            EntryKind::Directory => self.tree.scan_below(path_key(&from.path)).collect()?,
            _ => Vec::new(),
        };
        moved.push((path_key(&from.path).to_vec(), node));
        // An entry is found by its whole path, so each entry below a moved directory gets a new row.
        for (path, node) in moved {
            let new = moved_path(&path, &from.path, &to.path)?;
            self.set_entry(&path, None)?;
            self.set_entry(&new, Some(node))?;
        }
        self.note_move(path_key(&from.path), path_key(&to.path))?;
        Ok(done)
    }

    /// Checks that an entry of `kind` may be created at `to` or replace the entry there, and makes the missing parent
    /// directories.
    fn prepare_destination(&mut self, to: &LocatedPath, kind: EntryKind, room: DestinationOptions) -> Result<()> {
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

    fn copy_file(&mut self, from: &LocatedPath, to: &LocatedPath, room: DestinationOptions) -> Result<MutationOutcome> {
        let file = self.tree.require_file(from)?;
        if from.path == to.path {
            return Ok(mutation_result(&file, false));
        }
        self.prepare_destination(to, EntryKind::File, room)?;
        let copy = EntryNode {
            created: self.now,
            modified: self.now,
            ..file
        };
        let done = mutation_result(&copy, to.node.is_none());
        self.set_entry(path_key(&to.path), Some(copy))?;
        Ok(done)
    }

    fn make_dir(&mut self, place: &LocatedPath, parents: bool) -> Result<MutationOutcome> {
        let made = |created| MutationOutcome {
            version: None,
            size: 0,
            created,
            change: None,
        };
        let there = place.node.as_ref().map(|node| node.kind);
        if parents && (place.path.is_root() || there == Some(EntryKind::Directory)) {
            return Ok(made(false));
        }
        if place.path.is_root() || there.is_some() {
            return Err(Error::already_exists(&place.path));
        }
        self.make_parents(&place.path, parents)?;
        self.set_entry(path_key(&place.path), Some(directory_node(self.now)))?;
        Ok(made(true))
    }

    fn make_link(&mut self, place: &LocatedPath, target: String) -> Result<MutationOutcome> {
        check_target(&target).map_err(|error| error.at_path(&place.path))?;
        if place.path.is_root() || place.node.is_some() {
            return Err(Error::already_exists(&place.path));
        }
        self.make_parents(&place.path, true)?;
        let node = EntryNode {
            kind: EntryKind::Symlink,
            mode: 0o777,
            size: target.len() as u64,
            content: None,
            target: Some(target),
            created: self.now,
            modified: self.now,
        };
        let done = mutation_result(&node, true);
        self.set_entry(path_key(&place.path), Some(node))?;
        Ok(done)
    }

    fn set_mode(&mut self, place: &LocatedPath, mode: u32) -> Result<MutationOutcome> {
        if place.path.is_root() {
            return Err(Error::root_denied("changed"));
        }
        let mut node = self.tree.require_node(place)?;
        if node.kind == EntryKind::Symlink {
            return Err(Error::path_escape(&place.path));
        }
        node.mode = mode & 0o7777;
        let done = mutation_result(&node, false);
        self.set_entry(path_key(&place.path), Some(node))?;
        Ok(done)
    }

    /// Makes the missing directories above `path` if `parents` is set. Without it, the topmost missing directory is
    /// `not_found`; an entry above `path` that is no directory is `not_a_directory`.
    pub(crate) fn make_parents(&mut self, path: &WsPath, parents: bool) -> Result<()> {
        let mut missing = Vec::new();
        let mut nearest = path.parent();
        while let Some(above) = nearest.filter(|above| !above.is_root()) {
            match self.tree.node(path_key(&above))? {
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
                .try_for_each(|above| self.set_entry(path_key(above), Some(directory_node(self.now)))),
        }
    }
}

/// Returns the new path of the entry at `path`, which is `from` or lies below it, after `from` moves to `to`.
fn moved_path(path: &[u8], from: &WsPath, to: &WsPath) -> Result<Vec<u8>> {
    let new = [path_key(to), &path[from.as_str().len()..]].concat();
    // The new path may exceed the limit of a path's length. A name that is not UTF-8 has no `WsPath` to check.
    if let Ok(text) = std::str::from_utf8(&new) {
        WsPath::parse(text).map_err(|error| error.at_path(to))?;
    }
    Ok(new)
}

/// Returns a new directory, made at the time `now`.
pub(crate) fn directory_node(now: i64) -> EntryNode {
    EntryNode {
        kind: EntryKind::Directory,
        mode: 0o755,
        size: 0,
        content: None,
        target: None,
        created: now,
        modified: now,
    }
}

fn mutation_result(node: &EntryNode, created: bool) -> MutationOutcome {
    MutationOutcome {
        version: version_of(node),
        size: node.size,
        created,
        change: None,
    }
}
