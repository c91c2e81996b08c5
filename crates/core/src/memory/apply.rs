//! Applies a batch to the tree. No clock here: time comes in as a value.

use bytes::{Bytes, BytesMut};

use super::tree::{FinalLink, MemoryFile, MemoryNode, MemoryTree};
use crate::path::check_target;
use crate::storage::{Batch, EntryKind, Follow, Mutation, MutationOutcome};
use crate::time::Timestamp;
use crate::{Error, ErrorKind, Precondition, Result, WsPath};

/// Applies the batch; if it fails, leaves the tree as it was.
pub(super) fn apply_batch(tree: &mut MemoryTree, batch: Batch, now: Timestamp) -> Result<Vec<MutationOutcome>> {
    let mut work = MemoryBatch {
        tree,
        follow: batch.follow,
        now,
        undo: Vec::new(),
    };
    let outcome: Result<Vec<_>> = batch
        .mutations
        .into_iter()
        .map(|mutation| work.apply_mutation(mutation))
        .collect();
    if outcome.is_err() {
        work.roll_back();
    }
    outcome
}

/// A batch that is being applied.
struct MemoryBatch<'a> {
    tree: &'a mut MemoryTree,
    follow: Follow,
    now: Timestamp,
    /// The node of each path before the batch touched it, so that a failed batch can be reversed.
    undo: Vec<(WsPath, Option<MemoryNode>)>,
}

impl MemoryBatch<'_> {
    fn roll_back(self) {
        // Newest first: a path may have been touched twice, and its oldest node is the one to end with.
        for (path, before) in self.undo.into_iter().rev() {
            self.tree.replace_node(path, before);
        }
    }

    fn set_node(&mut self, path: WsPath, node: Option<MemoryNode>) {
        let before = self.tree.replace_node(path.clone(), node);
        self.undo.push((path, before));
    }

    fn new_directory(&self) -> MemoryNode {
        MemoryNode::Directory {
            mode: 0o755,
            created: self.now,
        }
    }

    fn resolve_links(&self, path: &WsPath, last: FinalLink) -> Result<WsPath> {
        self.tree.resolve_links(path, last, self.follow)
    }

    fn apply_mutation(&mut self, mutation: Mutation) -> Result<MutationOutcome> {
        match mutation {
            Mutation::Write {
                path,
                content,
                precondition,
                mode,
                parents,
            } => {
                let path = self.resolve_links(&path, FinalLink::Followed)?;
                let content = content.to_bytes().map_err(|error| error.at_path(&path))?;
                self.write_file(path, content, &precondition, mode, parents)
            }
            Mutation::Append {
                path,
                content,
                precondition,
                create,
            } => {
                let path = self.resolve_links(&path, FinalLink::Followed)?;
                self.append_file(path, &content, &precondition, create)
            }
            Mutation::Remove {
                path,
                recursive,
                precondition,
            } => {
                let path = self.resolve_links(&path, FinalLink::NotFollowed)?;
                self.remove_entry(&path, recursive, &precondition)
            }
            Mutation::Rename {
                from,
                to,
                overwrite,
                parents,
            } => {
                let (from, to) = (
                    self.resolve_links(&from, FinalLink::NotFollowed)?,
                    self.resolve_links(&to, FinalLink::NotFollowed)?,
                );
                self.rename_entry(&from, to, overwrite, parents)
            }
            Mutation::Copy {
                from,
                to,
                overwrite,
                parents,
            } => {
                let (from, to) = (
                    self.resolve_links(&from, FinalLink::Followed)?,
                    self.resolve_links(&to, FinalLink::NotFollowed)?,
                );
                self.copy_file(&from, to, overwrite, parents)
            }
            Mutation::MakeDir { path, parents } => {
                let path = self.resolve_links(&path, FinalLink::Followed)?;
                self.make_dir(&path, parents)
            }
            Mutation::Symlink { path, target } => {
                let path = self.resolve_links(&path, FinalLink::NotFollowed)?;
                self.make_link(path, target)
            }
            Mutation::SetMode { path, mode } => {
                let path = self.resolve_links(&path, FinalLink::Followed)?;
                self.set_mode(path, mode)
            }
        }
    }

    fn write_file(
        &mut self,
        path: WsPath,
        content: Bytes,
        precondition: &Precondition,
        mode: Option<u32>,
        parents: bool,
    ) -> Result<MutationOutcome> {
        let before = self.existing_file(&path, precondition)?;
        if before.is_none() {
            self.make_parents(&path, parents)?;
        }
        let created = before.as_ref().map_or(self.now, |file| file.created);
        let mode = mode.or(before.as_ref().map(|file| file.mode)).unwrap_or(0o644);
        Ok(self.put_file(path, content, mode, created))
    }

    fn append_file(
        &mut self,
        path: WsPath,
        content: &Bytes,
        precondition: &Precondition,
        create: bool,
    ) -> Result<MutationOutcome> {
        let Some(before) = self.existing_file(&path, precondition)? else {
            if !create {
                return Err(self.tree.missing_error(&path).hint("set `create` to make the file"));
            }
            return self.write_file(path, content.clone(), precondition, None, true);
        };
        let mut joined = BytesMut::with_capacity(before.content.len() + content.len());
        joined.extend_from_slice(&before.content);
        joined.extend_from_slice(content);
        Ok(self.put_file(path, joined.freeze(), before.mode, before.created))
    }

    /// Returns the file at `path`, if any, once the precondition holds; a directory there is `is_a_directory`.
    fn existing_file(&self, path: &WsPath, precondition: &Precondition) -> Result<Option<MemoryFile>> {
        let before = match self.tree.find_file(path) {
            Ok(file) => Some(file.clone()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        precondition.check_version(path, before.as_ref().map(MemoryFile::version).as_ref())?;
        Ok(before)
    }

    fn remove_entry(&mut self, path: &WsPath, recursive: bool, precondition: &Precondition) -> Result<MutationOutcome> {
        if path.is_root() {
            return Err(Error::root_denied("removed"));
        }
        if let MemoryNode::File(file) = self.tree.find_node(path)? {
            precondition.check_version(path, Some(&file.version()))?;
        } else if *precondition != Precondition::Any {
            return Err(Error::conflict(path, None));
        }
        let below: Vec<_> = self.tree.nodes_below(path).map(|(path, _)| path.clone()).collect();
        if !recursive && !below.is_empty() {
            return Err(Error::not_empty(path).hint("set `recursive` to remove it with everything in it"));
        }
        below
            .into_iter()
            .chain([path.clone()])
            .for_each(|path| self.set_node(path, None));
        Ok(MutationOutcome {
            version: None,
            size: 0,
            created: false,
            change: None,
        })
    }

    fn rename_entry(&mut self, from: &WsPath, to: WsPath, overwrite: bool, parents: bool) -> Result<MutationOutcome> {
        if from.is_root() {
            return Err(Error::root_denied("moved"));
        }
        let node = self.tree.find_node(from)?.clone();
        if *from == to {
            return Ok(mutation_outcome(&node, false));
        }
        // A directory inside itself would be cut off from the root.
        if to.is_within(from) {
            return Err(Error::invalid(format!("{} cannot be moved into itself", from.to_quoted())).at_path(from));
        }
        let existed = self.check_replacement(&to, node.kind(), overwrite)?;
        self.make_parents(&to, parents)?;
        let moved: Vec<_> = self
            .tree
            .nodes_below(from)
            .map(|(path, node)| (path.clone(), node.clone()))
            .collect();
        let done = mutation_outcome(&node, !existed);
        for (path, node) in moved.into_iter().chain([(from.clone(), node)]) {
            let rest = path.relative_to(from).expect("it lies within the moved directory");
            let new = rest.rebase_below(&to)?;
            self.set_node(path, None);
            self.set_node(new, Some(node));
        }
        Ok(done)
    }

    /// Checks that an entry of `kind` may be put at `to`; returns whether an entry is there now.
    fn check_replacement(&self, to: &WsPath, kind: EntryKind, overwrite: bool) -> Result<bool> {
        if to.is_root() {
            return Err(Error::already_exists(to));
        }
        let Some(there) = self.tree.nodes.get(to).map(MemoryNode::kind) else {
            return Ok(false);
        };
        if !overwrite {
            return Err(Error::already_exists(to).hint("set `overwrite` to replace it"));
        }
        // The rules of rename(2): a directory replaces only an empty directory, and any other entry only a
        // non-directory.
        match (kind, there) {
            (EntryKind::Directory, EntryKind::Directory) if self.tree.nodes_below(to).next().is_some() => {
                Err(Error::not_empty(to))
            }
            (EntryKind::Directory, EntryKind::Directory) => Ok(true),
            (EntryKind::Directory, _) => Err(Error::not_a_directory(to)),
            (_, EntryKind::Directory) => Err(Error::is_a_directory(to)),
            _ => Ok(true),
        }
    }

    fn copy_file(&mut self, from: &WsPath, to: WsPath, overwrite: bool, parents: bool) -> Result<MutationOutcome> {
        let file = self.tree.find_file(from)?.clone();
        if *from == to {
            return Ok(mutation_outcome(&MemoryNode::File(file), false));
        }
        let existed = self.check_replacement(&to, EntryKind::File, overwrite)?;
        self.make_parents(&to, parents)?;
        let done = self.put_file(to, file.content, file.mode, self.now);
        Ok(MutationOutcome {
            created: !existed,
            ..done
        })
    }

    fn make_dir(&mut self, path: &WsPath, parents: bool) -> Result<MutationOutcome> {
        let made = MutationOutcome {
            version: None,
            size: 0,
            created: true,
            change: None,
        };
        if self.tree.is_directory(path) && parents {
            return Ok(MutationOutcome { created: false, ..made });
        }
        if path.is_root() || self.tree.nodes.contains_key(path) {
            return Err(Error::already_exists(path));
        }
        self.make_parents(path, parents)?;
        self.set_node(path.clone(), Some(self.new_directory()));
        Ok(made)
    }

    fn make_link(&mut self, path: WsPath, target: String) -> Result<MutationOutcome> {
        check_target(&target).map_err(|error| error.at_path(&path))?;
        if path.is_root() || self.tree.nodes.contains_key(&path) {
            return Err(Error::already_exists(&path));
        }
        self.make_parents(&path, true)?;
        let node = MemoryNode::Symlink {
            target,
            created: self.now,
        };
        let done = mutation_outcome(&node, true);
        self.set_node(path, Some(node));
        Ok(done)
    }

    fn set_mode(&mut self, path: WsPath, new: u32) -> Result<MutationOutcome> {
        if path.is_root() {
            return Err(Error::root_denied("changed"));
        }
        let mut node = self.tree.find_node(&path)?.clone();
        match &mut node {
            MemoryNode::File(MemoryFile { mode, .. }) | MemoryNode::Directory { mode, .. } => *mode = new & 0o7777,
            MemoryNode::Symlink { .. } => return Err(Error::path_escape(&path)),
        }
        let done = mutation_outcome(&node, false);
        self.set_node(path, Some(node));
        Ok(done)
    }

    /// Makes the missing directories above `path`, or returns the reason why it cannot.
    fn make_parents(&mut self, path: &WsPath, parents: bool) -> Result<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        for above in parent.ancestry() {
            match self.tree.nodes.get(&above) {
                Some(node) if node.kind() == EntryKind::Directory => {}
                Some(_) => return Err(Error::not_a_directory(path)),
                None if parents => self.set_node(above, Some(self.new_directory())),
                None => return Err(Error::not_found(&above)),
            }
        }
        Ok(())
    }

    fn put_file(&mut self, path: WsPath, content: Bytes, mode: u32, created: Timestamp) -> MutationOutcome {
        // Not taken back with a failed batch: a version number is never given out twice.
        self.tree.revision += 1;
        let node = MemoryNode::File(MemoryFile {
            content,
            mode: mode & 0o7777,
            revision: self.tree.revision,
            created,
            modified: self.now,
        });
        let done = mutation_outcome(&node, !self.tree.nodes.contains_key(&path));
        self.set_node(path, Some(node));
        done
    }
}

fn mutation_outcome(node: &MemoryNode, created: bool) -> MutationOutcome {
    let version = match node {
        MemoryNode::File(file) => Some(file.version()),
        _ => None,
    };
    MutationOutcome {
        version,
        size: node.size(),
        created,
        change: None,
    }
}
