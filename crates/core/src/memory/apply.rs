//! Applies a batch to the tree. No clock here: time comes in as a value.

use bytes::{Bytes, BytesMut};

use super::tree::{File, Last, Node, Tree};
use crate::path::check_target;
use crate::storage::{Applied, Batch, EntryKind, Follow, Mutation};
use crate::time::Timestamp;
use crate::{Error, ErrorKind, Precondition, Result, WsPath};

/// Applies the batch; if it fails, leaves the tree as it was.
pub(super) fn apply(tree: &mut Tree, batch: Batch, now: Timestamp) -> Result<Vec<Applied>> {
    let mut work = Work {
        tree,
        follow: batch.follow,
        now,
        undo: Vec::new(),
    };
    let outcome: Result<Vec<_>> = batch
        .mutations
        .into_iter()
        .map(|mutation| work.step(mutation))
        .collect();
    if outcome.is_err() {
        work.take_back();
    }
    outcome
}

/// A batch that is being applied.
struct Work<'a> {
    tree: &'a mut Tree,
    follow: Follow,
    now: Timestamp,
    /// The node of each path before the batch touched it, so that a failed batch can be reversed.
    undo: Vec<(WsPath, Option<Node>)>,
}

impl Work<'_> {
    fn take_back(self) {
        // Newest first: a path may have been touched twice, and its oldest node is the one to end with.
        for (path, before) in self.undo.into_iter().rev() {
            self.tree.replace(path, before);
        }
    }

    fn set(&mut self, path: WsPath, node: Option<Node>) {
        let before = self.tree.replace(path.clone(), node);
        self.undo.push((path, before));
    }

    fn new_directory(&self) -> Node {
        Node::Directory {
            mode: 0o755,
            created: self.now,
        }
    }

    fn locate(&self, path: &WsPath, last: Last) -> Result<WsPath> {
        self.tree.locate(path, last, self.follow)
    }

    fn step(&mut self, mutation: Mutation) -> Result<Applied> {
        match mutation {
            Mutation::Write {
                path,
                content,
                precondition,
                mode,
                parents,
            } => {
                let path = self.locate(&path, Last::Followed)?;
                let content = content.to_bytes().map_err(|error| error.at(&path))?;
                self.write(path, content, &precondition, mode, parents)
            }
            Mutation::Append {
                path,
                content,
                precondition,
                create,
            } => {
                let path = self.locate(&path, Last::Followed)?;
                self.append(path, &content, &precondition, create)
            }
            Mutation::Remove {
                path,
                recursive,
                precondition,
            } => {
                let path = self.locate(&path, Last::Kept)?;
                self.remove(&path, recursive, &precondition)
            }
            Mutation::Rename {
                from,
                to,
                overwrite,
                parents,
            } => {
                let (from, to) = (self.locate(&from, Last::Kept)?, self.locate(&to, Last::Kept)?);
                self.rename(&from, to, overwrite, parents)
            }
            Mutation::Copy {
                from,
                to,
                overwrite,
                parents,
            } => {
                let (from, to) = (self.locate(&from, Last::Followed)?, self.locate(&to, Last::Kept)?);
                self.copy(&from, to, overwrite, parents)
            }
            Mutation::MakeDir { path, parents } => {
                let path = self.locate(&path, Last::Followed)?;
                self.make_dir(&path, parents)
            }
            Mutation::Symlink { path, target } => {
                let path = self.locate(&path, Last::Kept)?;
                self.make_link(path, target)
            }
            Mutation::SetMode { path, mode } => {
                let path = self.locate(&path, Last::Followed)?;
                self.set_mode(path, mode)
            }
        }
    }

    fn write(
        &mut self,
        path: WsPath,
        content: Bytes,
        precondition: &Precondition,
        mode: Option<u32>,
        parents: bool,
    ) -> Result<Applied> {
        let before = self.file_before(&path, precondition)?;
        if before.is_none() {
            self.make_parents(&path, parents)?;
        }
        let created = before.as_ref().map_or(self.now, |file| file.created);
        let mode = mode.or(before.as_ref().map(|file| file.mode)).unwrap_or(0o644);
        Ok(self.put_file(path, content, mode, created))
    }

    fn append(&mut self, path: WsPath, content: &Bytes, precondition: &Precondition, create: bool) -> Result<Applied> {
        let Some(before) = self.file_before(&path, precondition)? else {
            if !create {
                return Err(self.tree.why_missing(&path).hint("set `create` to make the file"));
            }
            return self.write(path, content.clone(), precondition, None, true);
        };
        let mut joined = BytesMut::with_capacity(before.content.len() + content.len());
        joined.extend_from_slice(&before.content);
        joined.extend_from_slice(content);
        Ok(self.put_file(path, joined.freeze(), before.mode, before.created))
    }

    /// Returns the file at `path`, if any, once the precondition holds; a directory there is `is_a_directory`.
    fn file_before(&self, path: &WsPath, precondition: &Precondition) -> Result<Option<File>> {
        let before = match self.tree.file(path) {
            Ok(file) => Some(file.clone()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        precondition.check(path, before.as_ref().map(File::version).as_ref())?;
        Ok(before)
    }

    fn remove(&mut self, path: &WsPath, recursive: bool, precondition: &Precondition) -> Result<Applied> {
        if path.is_root() {
            return Err(root_is_kept("removed"));
        }
        if let Node::File(file) = self.tree.node(path)? {
            precondition.check(path, Some(&file.version()))?;
        } else if *precondition != Precondition::Any {
            return Err(Error::conflict(path, None));
        }
        let below: Vec<_> = self.tree.below(path).map(|(path, _)| path.clone()).collect();
        if !recursive && !below.is_empty() {
            return Err(Error::not_empty(path).hint("set `recursive` to remove it with everything in it"));
        }
        below
            .into_iter()
            .chain([path.clone()])
            .for_each(|path| self.set(path, None));
        Ok(Applied {
            version: None,
            size: 0,
            created: false,
        })
    }

    fn rename(&mut self, from: &WsPath, to: WsPath, overwrite: bool, parents: bool) -> Result<Applied> {
        if from.is_root() {
            return Err(root_is_kept("moved"));
        }
        let node = self.tree.node(from)?.clone();
        if *from == to {
            return Ok(applied(&node, false));
        }
        // A directory inside itself would be cut off from the root.
        if to.is_within(from) {
            return Err(Error::invalid(format!("{} cannot be moved into itself", from.quoted())).at(from));
        }
        let existed = self.make_room(&to, node.kind(), overwrite)?;
        self.make_parents(&to, parents)?;
        let moved: Vec<_> = self
            .tree
            .below(from)
            .map(|(path, node)| (path.clone(), node.clone()))
            .collect();
        let done = applied(&node, !existed);
        for (path, node) in moved.into_iter().chain([(from.clone(), node)]) {
            let rest = path.relative_to(from).expect("it lies within the moved directory");
            let new = rest.below(&to)?;
            self.set(path, None);
            self.set(new, Some(node));
        }
        Ok(done)
    }

    /// Checks that an entry of `kind` may be put at `to`; returns whether an entry is there now.
    fn make_room(&self, to: &WsPath, kind: EntryKind, overwrite: bool) -> Result<bool> {
        if to.is_root() {
            return Err(Error::already_exists(to));
        }
        let Some(there) = self.tree.nodes.get(to).map(Node::kind) else {
            return Ok(false);
        };
        if !overwrite {
            return Err(Error::already_exists(to).hint("set `overwrite` to replace it"));
        }
        // The rules of rename(2): a directory replaces only an empty directory, and any other entry only a
        // non-directory.
        match (kind, there) {
            (EntryKind::Directory, EntryKind::Directory) if self.tree.below(to).next().is_some() => {
                Err(Error::not_empty(to))
            }
            (EntryKind::Directory, EntryKind::Directory) => Ok(true),
            (EntryKind::Directory, _) => Err(Error::not_a_directory(to)),
            (_, EntryKind::Directory) => Err(Error::is_a_directory(to)),
            _ => Ok(true),
        }
    }

    fn copy(&mut self, from: &WsPath, to: WsPath, overwrite: bool, parents: bool) -> Result<Applied> {
        let file = self.tree.file(from)?.clone();
        if *from == to {
            return Ok(applied(&Node::File(file), false));
        }
        let existed = self.make_room(&to, EntryKind::File, overwrite)?;
        self.make_parents(&to, parents)?;
        let done = self.put_file(to, file.content, file.mode, self.now);
        Ok(Applied {
            created: !existed,
            ..done
        })
    }

    fn make_dir(&mut self, path: &WsPath, parents: bool) -> Result<Applied> {
        let made = Applied {
            version: None,
            size: 0,
            created: true,
        };
        if self.tree.is_directory(path) && parents {
            return Ok(Applied { created: false, ..made });
        }
        if path.is_root() || self.tree.nodes.contains_key(path) {
            return Err(Error::already_exists(path));
        }
        self.make_parents(path, parents)?;
        self.set(path.clone(), Some(self.new_directory()));
        Ok(made)
    }

    fn make_link(&mut self, path: WsPath, target: String) -> Result<Applied> {
        check_target(&target).map_err(|error| error.at(&path))?;
        if path.is_root() || self.tree.nodes.contains_key(&path) {
            return Err(Error::already_exists(&path));
        }
        self.make_parents(&path, true)?;
        let node = Node::Symlink {
            target,
            created: self.now,
        };
        let done = applied(&node, true);
        self.set(path, Some(node));
        Ok(done)
    }

    fn set_mode(&mut self, path: WsPath, new: u32) -> Result<Applied> {
        if path.is_root() {
            return Err(root_is_kept("changed"));
        }
        let mut node = self.tree.node(&path)?.clone();
        match &mut node {
            Node::File(File { mode, .. }) | Node::Directory { mode, .. } => *mode = new & 0o7777,
            Node::Symlink { .. } => return Err(Error::path_escape(&path)),
        }
        let done = applied(&node, false);
        self.set(path, Some(node));
        Ok(done)
    }

    /// Makes the missing directories above `path`, or returns the reason why it cannot.
    fn make_parents(&mut self, path: &WsPath, parents: bool) -> Result<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        for above in parent.ancestry() {
            match self.tree.nodes.get(&above) {
                Some(node) if node.kind() == EntryKind::Directory => {}
                Some(_) => return Err(Error::not_a_directory(path)),
                None if parents => self.set(above, Some(self.new_directory())),
                None => return Err(Error::not_found(&above)),
            }
        }
        Ok(())
    }

    fn put_file(&mut self, path: WsPath, content: Bytes, mode: u32, created: Timestamp) -> Applied {
        // Not taken back with a failed batch: a version number is never given out twice.
        self.tree.revision += 1;
        let node = Node::File(File {
            content,
            mode: mode & 0o7777,
            revision: self.tree.revision,
            created,
            modified: self.now,
        });
        let done = applied(&node, !self.tree.nodes.contains_key(&path));
        self.set(path, Some(node));
        done
    }
}

fn applied(node: &Node, created: bool) -> Applied {
    let version = match node {
        Node::File(file) => Some(file.version()),
        _ => None,
    };
    Applied {
        version,
        size: node.size(),
        created,
    }
}

fn root_is_kept(what: &str) -> Error {
    Error::new(ErrorKind::Denied, format!("the root of the workspace cannot be {what}"))
        .at(&WsPath::root())
        .hint("name an entry inside the workspace")
}
