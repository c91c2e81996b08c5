//! The tree of nodes and what a mutation does to it. No locks and no clock here: time comes in as a value.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::{Bytes, BytesMut};

use crate::storage::{Applied, Batch, Entry, EntryKind, Follow, ListOptions, ListPage, Mutation, Stat};
use crate::time::Timestamp;
use crate::{EntryPath, Error, ErrorKind, Precondition, Result, Version, WsPath};

const MAX_LINKS: usize = 40;

/// Whether a link in the last place of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Followed,
    Kept,
}

#[derive(Debug, Clone)]
pub(super) struct File {
    pub(super) content: Bytes,
    pub(super) mode: u32,
    revision: u64,
    created: Timestamp,
    modified: Timestamp,
}

impl File {
    pub(super) fn version(&self) -> Version {
        Version::new(format!("m{}", self.revision))
    }
}

#[derive(Debug, Clone)]
enum Node {
    File(File),
    Directory { mode: u32, created: Timestamp },
    Symlink { target: String, created: Timestamp },
}

impl Node {
    fn kind(&self) -> EntryKind {
        match self {
            Self::File(_) => EntryKind::File,
            Self::Directory { .. } => EntryKind::Directory,
            Self::Symlink { .. } => EntryKind::Symlink,
        }
    }

    fn size(&self) -> u64 {
        match self {
            Self::File(file) => file.content.len() as u64,
            Self::Directory { .. } => 0,
            Self::Symlink { target, .. } => target.len() as u64,
        }
    }

    fn modified(&self) -> Timestamp {
        match self {
            Self::File(file) => file.modified,
            Self::Directory { created, .. } | Self::Symlink { created, .. } => *created,
        }
    }
}

/// What a path was before a batch touched it, so that a failed batch can be taken back.
type UndoLog = Vec<(WsPath, Option<Node>)>;

#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: BTreeMap<WsPath, Node>,
    links: usize,
    revision: u64,
}

impl Tree {
    /// The path with its links followed; a part that does not exist is kept as written.
    pub(super) fn locate(&self, path: &WsPath, last: Last, follow: Follow) -> Result<WsPath> {
        if self.links == 0 {
            return Ok(path.clone());
        }
        let mut todo: Vec<String> = path.components().rev().map(str::to_owned).collect();
        let mut real = WsPath::root();
        let mut followed = 0;
        while let Some(name) = todo.pop() {
            if name == ".." {
                real = real.parent().ok_or_else(|| Error::path_escape(path))?;
                continue;
            }
            let next = real.child(&name)?;
            let target = match self.nodes.get(&next) {
                Some(Node::Symlink { target, .. }) if last == Last::Followed || !todo.is_empty() => target,
                _ => {
                    real = next;
                    continue;
                }
            };
            followed += 1;
            if target.starts_with('/') || follow == Follow::Never {
                return Err(Error::path_escape(path));
            }
            if followed > MAX_LINKS {
                return Err(Error::invalid(format!("{} passes too many links", path.quoted())).at(path));
            }
            todo.extend(
                target
                    .split('/')
                    .rev()
                    .filter(|part| !part.is_empty() && *part != ".")
                    .map(str::to_owned),
            );
        }
        Ok(real)
    }

    pub(super) fn stat(&self, path: &WsPath) -> Result<Stat> {
        if path.is_root() {
            return Ok(describe(&Node::Directory {
                mode: 0o755,
                created: Timestamp::UNIX_EPOCH,
            }))
            .map(|stat| Stat {
                created: None,
                modified: None,
                ..stat
            });
        }
        self.node(path).map(describe)
    }

    pub(super) fn file(&self, path: &WsPath) -> Result<&File> {
        if path.is_root() {
            return Err(Error::is_a_directory(path));
        }
        match self.node(path)? {
            Node::File(file) => Ok(file),
            Node::Directory { .. } => Err(Error::is_a_directory(path)),
            Node::Symlink { .. } => Err(Error::path_escape(path)),
        }
    }

    fn node(&self, path: &WsPath) -> Result<&Node> {
        self.nodes.get(path).ok_or_else(|| self.why_missing(path))
    }

    /// `not_a_directory` where a file stands in the way, `not_found` otherwise.
    fn why_missing(&self, path: &WsPath) -> Error {
        let blocked = path
            .ancestry()
            .any(|above| above != *path && !self.is_directory_or_missing(&above));
        if blocked {
            Error::not_a_directory(path)
        } else {
            Error::not_found(path)
        }
    }

    fn is_directory_or_missing(&self, path: &WsPath) -> bool {
        self.nodes
            .get(path)
            .is_none_or(|node| node.kind() == EntryKind::Directory)
    }

    fn is_directory(&self, path: &WsPath) -> bool {
        path.is_root()
            || self
                .nodes
                .get(path)
                .is_some_and(|node| node.kind() == EntryKind::Directory)
    }

    fn check_directory(&self, path: &WsPath) -> Result<()> {
        match self.is_directory(path) {
            true => Ok(()),
            false => Err(self
                .node(path)
                .map_or_else(|error| error, |_| Error::not_a_directory(path))),
        }
    }

    fn below(&self, directory: &WsPath) -> impl Iterator<Item = (&WsPath, &Node)> {
        let (start, end) = span_below(directory);
        self.nodes
            .range::<str, _>((Bound::Included(start.as_str()), bound(&end)))
    }

    pub(super) fn list(&self, directory: &WsPath, options: &ListOptions) -> Result<ListPage> {
        self.check_directory(directory)?;
        let (start, end) = span_below(directory);
        let mut from = Bound::Included(start.clone());
        if let Some(after) = options
            .after
            .as_ref()
            .map(|after| String::from_utf8_lossy(after.as_bytes()).into_owned())
            && after >= start
        {
            from = Bound::Excluded(after);
        }
        let mut page = ListPage::default();
        while let Some((path, node)) = self.next_in(&from, &end) {
            if !options.is_deep
                && let Some(slash) = path.as_str()[start.len()..].find('/')
            {
                // Jump over everything below this child; `0` is the character after `/`.
                from = Bound::Included(format!("{}0", &path.as_str()[..start.len() + slash]));
                continue;
            }
            if page.entries.len() == options.limit {
                page.has_more = true;
                break;
            }
            page.entries.push(entry(path, node));
            from = Bound::Excluded(path.as_str().to_owned());
        }
        Ok(page)
    }

    fn next_in(&self, from: &Bound<String>, end: &Bound<String>) -> Option<(&WsPath, &Node)> {
        if let (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end)) = (from, end)
            && start >= end
        {
            return None;
        }
        self.nodes.range::<str, _>((bound(from), bound(end))).next()
    }

    /// Applies the batch, or leaves the tree as it was.
    pub(super) fn apply(&mut self, batch: Batch, now: Timestamp) -> Result<Vec<Applied>> {
        let mut undo = UndoLog::new();
        let steps = batch
            .mutations
            .into_iter()
            .map(|mutation| self.step(mutation, batch.follow, now, &mut undo));
        let outcome: Result<Vec<_>> = steps.collect();
        if outcome.is_err() {
            undo.into_iter()
                .rev()
                .for_each(|(path, before)| self.put_back(path, before));
        }
        outcome
    }

    fn step(&mut self, mutation: Mutation, follow: Follow, now: Timestamp, undo: &mut UndoLog) -> Result<Applied> {
        match mutation {
            Mutation::Write {
                path,
                content,
                precondition,
                mode,
                parents,
            } => {
                let path = self.locate(&path, Last::Followed, follow)?;
                self.write(path, content, &precondition, mode, parents, now, undo)
            }
            Mutation::Append {
                path,
                content,
                precondition,
                create,
            } => {
                let path = self.locate(&path, Last::Followed, follow)?;
                self.append(path, &content, &precondition, create, now, undo)
            }
            Mutation::Remove {
                path,
                recursive,
                precondition,
            } => {
                let path = self.locate(&path, Last::Kept, follow)?;
                self.remove(&path, recursive, &precondition, undo)
            }
            Mutation::Rename {
                from,
                to,
                overwrite,
                parents,
            } => {
                let (from, to) = (
                    self.locate(&from, Last::Kept, follow)?,
                    self.locate(&to, Last::Kept, follow)?,
                );
                self.rename(&from, to, overwrite, parents, now, undo)
            }
            Mutation::Copy {
                from,
                to,
                overwrite,
                parents,
            } => {
                let (from, to) = (
                    self.locate(&from, Last::Followed, follow)?,
                    self.locate(&to, Last::Kept, follow)?,
                );
                self.copy(&from, to, overwrite, parents, now, undo)
            }
            Mutation::MakeDir { path, parents } => {
                let path = self.locate(&path, Last::Followed, follow)?;
                self.make_dir(&path, parents, now, undo)
            }
            Mutation::Symlink { path, target } => {
                let path = self.locate(&path, Last::Kept, follow)?;
                self.make_link(path, target, now, undo)
            }
            Mutation::SetMode { path, mode } => {
                let path = self.locate(&path, Last::Followed, follow)?;
                self.set_mode(path, mode, undo)
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the fields of one mutation and where its effect is noted"
    )]
    fn write(
        &mut self,
        path: WsPath,
        content: Bytes,
        precondition: &Precondition,
        mode: Option<u32>,
        parents: bool,
        now: Timestamp,
        undo: &mut UndoLog,
    ) -> Result<Applied> {
        let before = self.file_before(&path, precondition)?;
        if before.is_none() {
            self.make_parents(&path, parents, now, undo)?;
        }
        let created = before.as_ref().map_or(now, |file| file.created);
        let mode = mode.or(before.as_ref().map(|file| file.mode)).unwrap_or(0o644);
        Ok(self.put_file(path, content, mode, created, now, undo))
    }

    fn append(
        &mut self,
        path: WsPath,
        content: &Bytes,
        precondition: &Precondition,
        create: bool,
        now: Timestamp,
        undo: &mut UndoLog,
    ) -> Result<Applied> {
        let Some(before) = self.file_before(&path, precondition)? else {
            if !create {
                return Err(self.why_missing(&path).hint("pass `create: true` to make the file"));
            }
            return self.write(path, content.clone(), precondition, None, true, now, undo);
        };
        let mut joined = BytesMut::with_capacity(before.content.len() + content.len());
        joined.extend_from_slice(&before.content);
        joined.extend_from_slice(content);
        Ok(self.put_file(path, joined.freeze(), before.mode, before.created, now, undo))
    }

    /// The file at `path`, if any, once the precondition holds; a directory there is `is_a_directory`.
    fn file_before(&self, path: &WsPath, precondition: &Precondition) -> Result<Option<File>> {
        let before = match self.file(path) {
            Ok(file) => Some(file.clone()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        precondition.check(path, before.as_ref().map(File::version).as_ref())?;
        Ok(before)
    }

    fn remove(
        &mut self,
        path: &WsPath,
        recursive: bool,
        precondition: &Precondition,
        undo: &mut UndoLog,
    ) -> Result<Applied> {
        if path.is_root() {
            return Err(root_is_kept("removed"));
        }
        if let Node::File(file) = self.node(path)? {
            precondition.check(path, Some(&file.version()))?;
        } else if *precondition != Precondition::Any {
            return Err(Error::conflict(path, None));
        }
        let below: Vec<_> = self.below(path).map(|(path, _)| path.clone()).collect();
        if !recursive && !below.is_empty() {
            return Err(Error::not_empty(path).hint("pass `recursive: true` to remove it with everything in it"));
        }
        below
            .into_iter()
            .chain([path.clone()])
            .for_each(|path| self.set(path, None, undo));
        Ok(Applied {
            version: None,
            size: 0,
            created: false,
        })
    }

    fn rename(
        &mut self,
        from: &WsPath,
        to: WsPath,
        overwrite: bool,
        parents: bool,
        now: Timestamp,
        undo: &mut UndoLog,
    ) -> Result<Applied> {
        if from.is_root() {
            return Err(root_is_kept("moved"));
        }
        let node = self.node(from)?.clone();
        if *from == to {
            return Ok(applied(&node, false));
        }
        if to.is_within(from) {
            return Err(Error::invalid(format!("{} cannot be moved into itself", from.quoted())).at(from));
        }
        let existed = self.make_room(&to, node.kind(), overwrite)?;
        self.make_parents(&to, parents, now, undo)?;
        let moved: Vec<_> = self
            .below(from)
            .map(|(path, node)| (path.clone(), node.clone()))
            .collect();
        let done = applied(&node, !existed);
        for (path, node) in moved.into_iter().chain([(from.clone(), node)]) {
            let rest = path.relative_to(from).expect("it lies within the moved directory");
            let new = rest.below(&to)?;
            self.set(path, None, undo);
            self.set(new, Some(node), undo);
        }
        Ok(done)
    }

    /// Checks that an entry of `kind` may take the place at `to`; tells whether something is there.
    fn make_room(&self, to: &WsPath, kind: EntryKind, overwrite: bool) -> Result<bool> {
        if to.is_root() {
            return Err(Error::already_exists(to));
        }
        let Some(there) = self.nodes.get(to).map(Node::kind) else {
            return Ok(false);
        };
        if !overwrite {
            return Err(Error::already_exists(to).hint("pass `overwrite: true` to replace it"));
        }
        match (kind, there) {
            (EntryKind::Directory, EntryKind::Directory) if self.below(to).next().is_some() => {
                Err(Error::not_empty(to))
            }
            (EntryKind::Directory, EntryKind::Directory) => Ok(true),
            (EntryKind::Directory, _) => Err(Error::not_a_directory(to)),
            (_, EntryKind::Directory) => Err(Error::is_a_directory(to)),
            _ => Ok(true),
        }
    }

    fn copy(
        &mut self,
        from: &WsPath,
        to: WsPath,
        overwrite: bool,
        parents: bool,
        now: Timestamp,
        undo: &mut UndoLog,
    ) -> Result<Applied> {
        let file = self.file(from)?.clone();
        if *from == to {
            return Ok(applied(&Node::File(file), false));
        }
        let existed = self.make_room(&to, EntryKind::File, overwrite)?;
        self.make_parents(&to, parents, now, undo)?;
        let done = self.put_file(to, file.content, file.mode, now, now, undo);
        Ok(Applied {
            created: !existed,
            ..done
        })
    }

    fn make_dir(&mut self, path: &WsPath, parents: bool, now: Timestamp, undo: &mut UndoLog) -> Result<Applied> {
        let made = Applied {
            version: None,
            size: 0,
            created: true,
        };
        if self.is_directory(path) && parents {
            return Ok(Applied { created: false, ..made });
        }
        if path.is_root() || self.nodes.contains_key(path) {
            return Err(Error::already_exists(path));
        }
        self.make_parents(path, parents, now, undo)?;
        self.set(
            path.clone(),
            Some(Node::Directory {
                mode: 0o755,
                created: now,
            }),
            undo,
        );
        Ok(made)
    }

    fn make_link(&mut self, path: WsPath, target: String, now: Timestamp, undo: &mut UndoLog) -> Result<Applied> {
        if path.is_root() || self.nodes.contains_key(&path) {
            return Err(Error::already_exists(&path));
        }
        self.make_parents(&path, true, now, undo)?;
        let node = Node::Symlink { target, created: now };
        let done = applied(&node, true);
        self.set(path, Some(node), undo);
        Ok(done)
    }

    fn set_mode(&mut self, path: WsPath, new: u32, undo: &mut UndoLog) -> Result<Applied> {
        if path.is_root() {
            return Err(root_is_kept("changed"));
        }
        let mut node = self.node(&path)?.clone();
        match &mut node {
            Node::File(File { mode, .. }) | Node::Directory { mode, .. } => *mode = new & 0o7777,
            Node::Symlink { .. } => return Err(Error::path_escape(&path)),
        }
        let done = applied(&node, false);
        self.set(path, Some(node), undo);
        Ok(done)
    }

    /// Makes the missing directories above `path`, or finds out why it cannot.
    fn make_parents(&mut self, path: &WsPath, parents: bool, now: Timestamp, undo: &mut UndoLog) -> Result<()> {
        let Some(parent) = path.parent() else { return Ok(()) };
        for above in parent.ancestry() {
            match self.nodes.get(&above) {
                Some(node) if node.kind() == EntryKind::Directory => {}
                Some(_) => return Err(Error::not_a_directory(path)),
                None if parents => self.set(
                    above,
                    Some(Node::Directory {
                        mode: 0o755,
                        created: now,
                    }),
                    undo,
                ),
                None => return Err(Error::not_found(&above)),
            }
        }
        Ok(())
    }

    fn put_file(
        &mut self,
        path: WsPath,
        content: Bytes,
        mode: u32,
        created: Timestamp,
        modified: Timestamp,
        undo: &mut UndoLog,
    ) -> Applied {
        self.revision += 1;
        let node = Node::File(File {
            content,
            mode: mode & 0o7777,
            revision: self.revision,
            created,
            modified,
        });
        let done = applied(&node, !self.nodes.contains_key(&path));
        self.set(path, Some(node), undo);
        done
    }

    fn set(&mut self, path: WsPath, node: Option<Node>, undo: &mut UndoLog) {
        let before = self.nodes.get(&path).cloned();
        undo.push((path.clone(), before));
        self.put_back(path, node);
    }

    fn put_back(&mut self, path: WsPath, node: Option<Node>) {
        let is_link = |node: &Option<Node>| node.as_ref().is_some_and(|node| node.kind() == EntryKind::Symlink);
        let added = is_link(&node);
        let before = match node {
            Some(node) => self.nodes.insert(path, node),
            None => self.nodes.remove(&path),
        };
        self.links = self.links + usize::from(added) - usize::from(is_link(&before));
    }
}

/// The first key that could lie below `directory`, and the first one after all that do.
fn span_below(directory: &WsPath) -> (String, Bound<String>) {
    if directory.is_root() {
        return (String::new(), Bound::Unbounded);
    }
    // `0` is the character after `/`.
    (format!("{directory}/"), Bound::Excluded(format!("{directory}0")))
}

fn bound(bound: &Bound<String>) -> Bound<&str> {
    bound.as_ref().map(String::as_str)
}

fn describe(node: &Node) -> Stat {
    let (mode, created, version, target) = match node {
        Node::File(file) => (Some(file.mode), file.created, Some(file.version()), None),
        Node::Directory { mode, created } => (Some(*mode), *created, None, None),
        Node::Symlink { target, created } => (None, *created, None, Some(target.clone())),
    };
    Stat {
        kind: node.kind(),
        size: node.size(),
        mode,
        created: Some(created),
        modified: Some(node.modified()),
        version,
        target,
    }
}

fn entry(path: &WsPath, node: &Node) -> Entry {
    Entry {
        path: EntryPath::Valid(path.clone()),
        kind: node.kind(),
        size: node.size(),
        modified: Some(node.modified()),
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
