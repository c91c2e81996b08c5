//! The model itself: what each mutation does to a map.

use std::collections::BTreeMap;

use bytes::Bytes;
use garret_core::{ErrorKind, Follow};

use super::steps::{Step, Wanted};
use crate::{Node, Tree};

type Outcome<T, E = ErrorKind> = Result<T, E>;

/// Why a batch is refused: the kinds of error that are all true of it. Where both paths of a step are wrong, either may be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub Vec<ErrorKind>);

impl From<ErrorKind> for Refusal {
    fn from(kind: ErrorKind) -> Self {
        Self(vec![kind])
    }
}

/// How many links may be followed on one way.
const MOST_LINKS: usize = 40;

/// What a step left, as far as the contract fixes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// The size of what is at the path.
    pub size: u64,
    /// Whether something is there that was not before.
    pub created: bool,
}

/// A workspace in the plainest form. The root is not in the map.
#[derive(Debug, Clone, Default)]
pub struct World {
    entries: BTreeMap<String, Node>,
}

impl World {
    /// Everything in it. Modes that nobody set are `None`.
    pub fn tree(&self) -> &Tree {
        &self.entries
    }

    /// The content of the file at `path`, links followed, if one is there.
    pub fn content(&self, path: &str) -> Option<Bytes> {
        let real = self.walk(path, true, Follow::Inside).ok()?;
        match self.entries.get(&real) {
            Some(Node::File { content, .. }) => Some(content.clone()),
            _ => None,
        }
    }

    /// What a read of `path` gives.
    pub fn read(&self, path: &str, follow: Follow) -> Outcome<Bytes> {
        let real = self.walk(path, true, follow)?;
        match self.at(&real) {
            Some(Node::File { content, .. }) => Ok(content.clone()),
            Some(_) => Err(ErrorKind::IsADirectory),
            None => Err(self.absence(&real)),
        }
    }

    /// What a shallow list of `path` gives.
    pub fn list(&self, path: &str, follow: Follow) -> Outcome<Vec<String>> {
        let real = self.walk(path, true, follow)?;
        match self.at(&real) {
            Some(Node::Directory { .. }) => Ok(self.children(&real)),
            Some(_) => Err(ErrorKind::NotADirectory),
            None => Err(self.absence(&real)),
        }
    }

    /// The real path of `path`.
    pub fn resolve(&self, path: &str) -> Outcome<String> {
        self.walk(path, true, Follow::Inside)
    }

    /// Applies the steps in order, or none of them.
    pub fn apply(&mut self, steps: &[Step], follow: Follow) -> Outcome<Vec<Left>, Refusal> {
        let before = self.entries.clone();
        let outcome: Outcome<Vec<_>, Refusal> = steps.iter().map(|step| self.step(step, follow)).collect();
        if outcome.is_err() {
            self.entries = before;
        }
        outcome
    }

    fn step(&mut self, step: &Step, follow: Follow) -> Outcome<Left, Refusal> {
        let left = match step {
            Step::Write {
                path,
                content,
                mode,
                parents,
                wanted,
            } => {
                let real = self.walk(path, true, follow)?;
                self.write(&real, content, *mode, *parents, *wanted)
            }
            Step::Append {
                path,
                content,
                create,
                wanted,
            } => {
                let real = self.walk(path, true, follow)?;
                self.append(&real, content, *create, *wanted)
            }
            Step::Remove {
                path,
                recursive,
                wanted,
            } => {
                let real = self.walk(path, false, follow)?;
                self.remove(&real, *recursive, *wanted)
            }
            Step::Rename {
                from,
                to,
                overwrite,
                parents,
            } => {
                let (from, to) = self.both(self.source(from, false, follow), to, follow)?;
                self.rename(&from, &to, *overwrite, *parents)
            }
            Step::Copy {
                from,
                to,
                overwrite,
                parents,
            } => {
                let (from, to) = self.both(self.source(from, true, follow), to, follow)?;
                self.copy(&from, &to, *overwrite, *parents)
            }
            Step::MakeDir { path, parents } => {
                let real = self.walk(path, true, follow)?;
                self.make_dir(&real, *parents)
            }
            Step::Symlink { path, target } => {
                let real = self.walk(path, false, follow)?;
                self.make_link(&real, target)
            }
            Step::SetMode { path, mode } => {
                let real = self.walk(path, true, follow)?;
                self.set_mode(&real, *mode)
            }
        };
        left.map_err(Refusal::from)
    }

    /// The real path of what is moved or copied, which must be there.
    fn source(&self, path: &str, last_too: bool, follow: Follow) -> Outcome<String> {
        let real = self.walk(path, last_too, follow)?;
        match self.at(&real) {
            Some(_) if real.is_empty() && !last_too => Err(ErrorKind::Denied),
            Some(Node::File { .. }) => Ok(real),
            Some(_) if last_too => Err(ErrorKind::IsADirectory),
            Some(_) => Ok(real),
            None => Err(self.absence(&real)),
        }
    }

    /// The real source and target, or what is wrong with either.
    fn both(&self, from: Outcome<String>, to: &str, follow: Follow) -> Outcome<(String, String), Refusal> {
        let to = self.walk(to, false, follow);
        match (from, to) {
            (Ok(from), Ok(to)) => Ok((from, to)),
            (Ok(_), Err(wrong)) => Err(wrong.into()),
            (Err(wrong), Err(too)) => Err(Refusal(vec![wrong, too])),
            (Err(wrong), Ok(to)) => {
                let blocked = self.at(&to).is_none() && self.absence(&to) == ErrorKind::NotADirectory;
                Err(Refusal(
                    [wrong]
                        .into_iter()
                        .chain(blocked.then_some(ErrorKind::NotADirectory))
                        .collect(),
                ))
            }
        }
    }

    /// Walks `path` from the root, a name at a time, and gives where it leads.
    fn walk(&self, path: &str, last_too: bool, follow: Follow) -> Outcome<String> {
        let mut ahead: Vec<String> = names(path);
        let mut here: Vec<String> = Vec::new();
        let mut links = 0;
        while !ahead.is_empty() {
            let name = ahead.remove(0);
            if name == ".." {
                here.pop().ok_or(ErrorKind::PathEscape)?;
                continue;
            }
            here.push(name);
            let Some(Node::Symlink { target }) = self.entries.get(&here.join("/")) else {
                continue;
            };
            if ahead.is_empty() && !last_too {
                continue;
            }
            if follow == Follow::Never || target.starts_with('/') {
                return Err(ErrorKind::PathEscape);
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(ErrorKind::Invalid);
            }
            here.pop();
            ahead = names(target).into_iter().chain(ahead).collect();
        }
        Ok(here.join("/"))
    }

    /// What is at a real path; the root is a directory.
    fn at(&self, path: &str) -> Option<&Node> {
        const ROOT: Node = Node::Directory { mode: None };
        if path.is_empty() {
            Some(&ROOT)
        } else {
            self.entries.get(path)
        }
    }

    /// Why nothing is at `path`: a file is in the way, or it is simply missing.
    fn absence(&self, path: &str) -> ErrorKind {
        let blocked = above(path)
            .iter()
            .any(|above| self.at(above).is_some_and(|node| !is_directory(node)));
        if blocked {
            ErrorKind::NotADirectory
        } else {
            ErrorKind::NotFound
        }
    }

    fn children(&self, directory: &str) -> Vec<String> {
        let is_child = |path: &&String| above(path).last().map(String::as_str) == Some(directory);
        self.entries.keys().filter(is_child).cloned().collect()
    }

    fn below(&self, directory: &str) -> Vec<String> {
        let prefix = format!("{directory}/");
        self.entries
            .keys()
            .filter(|path| path.starts_with(&prefix))
            .cloned()
            .collect()
    }

    fn write(
        &mut self,
        path: &str,
        content: &Bytes,
        mode: Option<u32>,
        parents: bool,
        wanted: Wanted,
    ) -> Outcome<Left> {
        let kept = match self.at(path).cloned() {
            Some(Node::File { mode, .. }) => {
                allow(wanted, true)?;
                mode
            }
            Some(_) => return Err(ErrorKind::IsADirectory),
            None => {
                self.place(path, parents, wanted)?;
                None
            }
        };
        Ok(self.put_file(path, content.clone(), mode.or(kept)))
    }

    /// Makes room for a new file: first nothing may be in the way, then the condition must hold, then directories are made.
    fn place(&mut self, path: &str, parents: bool, wanted: Wanted) -> Outcome<()> {
        if self.absence(path) == ErrorKind::NotADirectory {
            return Err(ErrorKind::NotADirectory);
        }
        allow(wanted, false)?;
        self.make_above(path, parents)
    }

    fn append(&mut self, path: &str, content: &Bytes, create: bool, wanted: Wanted) -> Outcome<Left> {
        match self.at(path).cloned() {
            Some(Node::File { content: before, mode }) => {
                allow(wanted, true)?;
                let joined = [before, content.clone()].concat();
                Ok(self.put_file(path, joined.into(), mode))
            }
            Some(_) => Err(ErrorKind::IsADirectory),
            None => {
                let absence = self.absence(path);
                if absence == ErrorKind::NotFound {
                    allow(wanted, false)?;
                }
                if !create {
                    return Err(absence);
                }
                self.place(path, true, wanted)?;
                Ok(self.put_file(path, content.clone(), None))
            }
        }
    }

    fn remove(&mut self, path: &str, recursive: bool, wanted: Wanted) -> Outcome<Left> {
        if path.is_empty() {
            return Err(ErrorKind::Denied);
        }
        match self.at(path) {
            None => return Err(self.absence(path)),
            Some(Node::File { .. }) => allow(wanted, true)?,
            Some(_) if wanted != Wanted::Any => return Err(ErrorKind::Conflict),
            Some(_) => {}
        }
        let below = self.below(path);
        if !recursive && !below.is_empty() {
            return Err(ErrorKind::NotEmpty);
        }
        below.iter().for_each(|path| drop(self.entries.remove(path)));
        self.entries.remove(path);
        Ok(Left {
            size: 0,
            created: false,
        })
    }

    fn rename(&mut self, from: &str, to: &str, overwrite: bool, parents: bool) -> Outcome<Left> {
        let moved = self.entries.get(from).cloned().expect("the source was found");
        if from == to {
            return Ok(Left {
                size: size(&moved),
                created: false,
            });
        }
        if to.starts_with(&format!("{from}/")) {
            return Err(ErrorKind::Invalid);
        }
        let existed = self.may_take(to, &moved, overwrite)?;
        self.make_above(to, parents)?;
        for path in self.below(from) {
            let node = self.entries.remove(&path).expect("it was just listed");
            self.entries.insert(format!("{to}{}", &path[from.len()..]), node);
        }
        let left = Left {
            size: size(&moved),
            created: !existed,
        };
        self.entries.remove(from);
        self.entries.insert(to.to_owned(), moved);
        Ok(left)
    }

    /// Whether `newcomer` may take the place `to`; tells whether something is there.
    fn may_take(&self, to: &str, newcomer: &Node, overwrite: bool) -> Outcome<bool> {
        let Some(there) = self.at(to) else { return Ok(false) };
        if !overwrite || to.is_empty() {
            return Err(ErrorKind::AlreadyExists);
        }
        match (is_directory(newcomer), is_directory(there)) {
            (true, true) if !self.below(to).is_empty() => Err(ErrorKind::NotEmpty),
            (true, false) => Err(ErrorKind::NotADirectory),
            (false, true) => Err(ErrorKind::IsADirectory),
            _ => Ok(true),
        }
    }

    fn copy(&mut self, from: &str, to: &str, overwrite: bool, parents: bool) -> Outcome<Left> {
        let original = self.entries.get(from).cloned().expect("the source was found");
        if from == to {
            return Ok(Left {
                size: size(&original),
                created: false,
            });
        }
        let existed = self.may_take(to, &original, overwrite)?;
        self.make_above(to, parents)?;
        let left = Left {
            size: size(&original),
            created: !existed,
        };
        self.entries.insert(to.to_owned(), original);
        Ok(left)
    }

    fn make_dir(&mut self, path: &str, parents: bool) -> Outcome<Left> {
        let created = match self.at(path) {
            Some(Node::Directory { .. }) if parents => false,
            Some(_) => return Err(ErrorKind::AlreadyExists),
            None => {
                self.make_above(path, parents)?;
                self.entries.insert(path.to_owned(), Node::Directory { mode: None });
                true
            }
        };
        Ok(Left { size: 0, created })
    }

    fn make_link(&mut self, path: &str, target: &str) -> Outcome<Left> {
        if self.at(path).is_some() {
            return Err(ErrorKind::AlreadyExists);
        }
        self.make_above(path, true)?;
        let target = target.to_owned();
        let size = target.len() as u64;
        self.entries.insert(path.to_owned(), Node::Symlink { target });
        Ok(Left { size, created: true })
    }

    fn set_mode(&mut self, path: &str, new: u32) -> Outcome<Left> {
        if path.is_empty() {
            return Err(ErrorKind::Denied);
        }
        let absence = self.absence(path);
        let node = self.entries.get_mut(path).ok_or(absence)?;
        if let Node::File { mode, .. } | Node::Directory { mode } = node {
            *mode = Some(new);
        }
        Ok(Left {
            size: size(node),
            created: false,
        })
    }

    /// Makes the directories above `path`, or finds out why there are none.
    fn make_above(&mut self, path: &str, parents: bool) -> Outcome<()> {
        for above in above(path) {
            match self.at(&above) {
                Some(Node::Directory { .. }) => {}
                Some(_) => return Err(ErrorKind::NotADirectory),
                None if parents => drop(self.entries.insert(above, Node::Directory { mode: None })),
                None => return Err(ErrorKind::NotFound),
            }
        }
        Ok(())
    }

    fn put_file(&mut self, path: &str, content: Bytes, mode: Option<u32>) -> Left {
        let size = content.len() as u64;
        let before = self.entries.insert(path.to_owned(), Node::File { content, mode });
        Left {
            size,
            created: before.is_none(),
        }
    }
}

/// Whether the condition lets a change pass where a file is, or is not.
fn allow(wanted: Wanted, is_there: bool) -> Outcome<()> {
    match (wanted, is_there) {
        (Wanted::Any, _) | (Wanted::Absent, false) | (Wanted::Current, true) => Ok(()),
        _ => Err(ErrorKind::Conflict),
    }
}

fn is_directory(node: &Node) -> bool {
    matches!(node, Node::Directory { .. })
}

fn size(node: &Node) -> u64 {
    match node {
        Node::File { content, .. } => content.len() as u64,
        Node::Symlink { target } => target.len() as u64,
        Node::Directory { .. } | Node::Other => 0,
    }
}

fn names(path: &str) -> Vec<String> {
    let meaningful = path.split('/').filter(|name| !matches!(*name, "" | "."));
    meaningful.map(str::to_owned).collect()
}

/// The directories above `path`, the root first.
fn above(path: &str) -> Vec<String> {
    let names = names(path);
    (0..names.len()).map(|count| names[..count].join("/")).collect()
}
