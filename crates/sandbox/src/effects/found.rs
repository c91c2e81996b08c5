//! What a reading has found so far.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use garret_core::{
    Clock, Dropped, Effect, EffectLimits, EffectTally, Effects, EntryPath, Mark, PathTree, Placed, Result, SystemClock,
    Timestamp,
};
use rustix::fs::{FileType, Stat, readlinkat};

use super::beneath::{names_up_to, split};
use super::budget::{EffectBudget, ReadingDeadline};
use super::error::At;
use super::seen::{Meaning, Seen, fingerprint, is_same};
use super::source;

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

/// The effects, what is left out, and where the reading stands.
#[derive(Debug)]
pub(super) struct Found<'a> {
    since: Option<&'a Mark>,
    now: Timestamp,
    budget: EffectBudget,
    effects: PathTree<LeftEntry>,
    dropped: BTreeSet<(Vec<u8>, &'static str)>,
    mark: PathTree<u64>,
    /// The paths of files with several names, by inode.
    names: BTreeMap<u64, BTreeSet<Vec<u8>>>,
    lost: Lost,
}

/// What others may have removed below the layer. A file that was copied up and has nothing below it was renamed by the command, or others
/// removed it. A rename leaves a path behind whose file below is removed or replaced on the layer, so there are at most as many renamed files as
/// such paths.
#[derive(Debug, Default)]
struct Lost {
    /// Directories that were copied up and have nothing below them: a layer renames none of those.
    directories: BTreeSet<Vec<u8>>,
    /// Files that were copied up and have nothing below them. Some of them may have been renamed by the command.
    files: BTreeSet<Vec<u8>>,
    /// How many paths something below was removed or replaced at.
    left_behind: usize,
}

/// What is at a path now. The path itself is in the tree.
#[derive(Debug)]
struct LeftEntry {
    kind: LeftKind,
    modified: Option<Timestamp>,
}

#[derive(Debug)]
enum LeftKind {
    Nothing,
    File { top: Arc<OwnedFd>, seen: Seen, mode: u32 },
    Directory { mode: u32 },
    Symlink { target: String },
}

impl<'a> Found<'a> {
    /// Whether everything is read that was done on the layer, and not only what came after a mark.
    pub(super) fn is_whole(&self) -> bool {
        self.since.is_none()
    }

    pub(super) fn new(since: Option<&'a Mark>, limits: EffectLimits) -> Self {
        Self {
            since,
            // Before the first look: what is written after it is young.
            now: SystemClock::default().now(),
            budget: EffectBudget::new(limits),
            effects: PathTree::default(),
            dropped: BTreeSet::new(),
            mark: PathTree::default(),
            names: BTreeMap::new(),
            lost: Lost::default(),
        }
    }

    /// The directory at `path` was copied up, and nothing is below it.
    pub(super) fn lose_directory(&mut self, path: &[u8]) {
        self.lost.directories.insert(path.to_vec());
    }

    /// The file at `path` was copied up, and nothing is below it.
    pub(super) fn lose_file(&mut self, path: &[u8]) {
        self.lost.files.insert(path.to_vec());
    }

    /// What is below some path was removed or replaced on the layer.
    pub(super) fn leave_behind(&mut self) {
        self.lost.left_behind += 1;
    }

    /// Counts an entry before anything of it is held. What the mark knows already counts only where it changed.
    pub(super) fn count(&mut self, path: &[u8]) -> Result<()> {
        match self.before(path) {
            Some(_) => Ok(()),
            None => self.budget.add_entry(path),
        }
    }

    /// The names in a directory of the layer; more than the limit allows are not held. `uncounted` of them may be there besides what the mark
    /// knows.
    pub(super) fn names(&self, directory: &OwnedFd, path: &[u8], uncounted: usize) -> Result<Vec<Vec<u8>>> {
        let known = self.since.map_or(0, |since| since.0.len());
        let most = self.budget.most_entries();
        let names = names_up_to(directory, most.map(|most| most.saturating_add(known + uncounted))).at(path)?;
        names.ok_or_else(|| EffectTally::too_many(most.unwrap_or_default() as u64))
    }

    /// Remembers what is at `path`; tells whether it is what it was at the mark.
    pub(super) fn note(&mut self, path: &[u8], meaning: Meaning, seen: &Seen) -> bool {
        let print = fingerprint(meaning, seen, self.now);
        self.mark.insert(path, print);
        self.before(path).is_some_and(|before| is_same(before, print))
    }

    /// The fingerprint that the mark has of `path`.
    pub(super) fn before(&self, path: &[u8]) -> Option<u64> {
        self.since.and_then(|since| since.0.get(path).copied())
    }

    /// The fingerprint that this reading has of `path`.
    pub(super) fn now(&self, path: &[u8]) -> Option<u64> {
        self.mark.get(path).copied()
    }

    /// Every path that the mark knows. Those that this reading did not meet are gone from the layer.
    pub(super) fn known(&self) -> impl Iterator<Item = Vec<u8>> + use<'a> {
        let known = self.since.into_iter().flat_map(|since| since.0.iter());
        known.map(|(path, _)| path)
    }

    pub(super) fn drop_named(&mut self, path: &[u8], what: &'static str) {
        self.dropped.insert((path.to_vec(), what));
    }

    /// Nothing is at `path` any more.
    pub(super) fn gone(&mut self, path: &[u8]) -> Result<()> {
        self.put(path, LeftKind::Nothing, None)
    }

    /// A directory is at `path`. One that was there before keeps the bit by which its group is inherited.
    pub(super) fn directory(&mut self, path: &[u8], seen: &Seen, before: Option<&Seen>) -> Result<()> {
        let kept = before.map_or(0, |before| before.bits() & SET_GROUP_ID);
        let mode = self.harmless(path, seen, kept);
        self.put(path, LeftKind::Directory { mode }, seen.modified())
    }

    /// A file is at `path` below `top`.
    pub(super) fn file(&mut self, top: &Arc<OwnedFd>, path: &[u8], seen: &Seen) -> Result<()> {
        self.budget.add_content(seen.size)?;
        let mode = self.harmless(path, seen, 0);
        let (top, seen) = (Arc::clone(top), *seen);
        self.put(path, LeftKind::File { top, seen, mode }, seen.modified())
    }

    /// The file at `path`, of the layer itself, may have other names there.
    pub(super) fn name(&mut self, path: &[u8], stat: &Stat) {
        if has_other_names(stat) {
            let names = self.names.entry(Seen::of(stat).inode).or_default();
            names.insert(path.to_vec());
        }
    }

    /// A link is at `path`, in `directory`; tells whether it can be kept.
    pub(super) fn link(&mut self, directory: BorrowedFd<'_>, path: &[u8], seen: &Seen) -> Result<bool> {
        let target = readlinkat(directory, split(path).1, Vec::new()).at(path)?;
        let Ok(target) = target.into_string() else {
            self.drop_named(path, "link to a name that is not UTF-8");
            return Ok(false);
        };
        self.budget.add_target(&target)?;
        self.put(path, LeftKind::Symlink { target }, seen.modified())?;
        Ok(true)
    }

    /// What is at `path` is taken by no workspace.
    pub(super) fn special(&mut self, path: &[u8], seen: &Seen) {
        self.drop_named(path, name_of(seen.kind()));
    }

    /// The permission bits without those that lend the rights of an owner, which are named.
    fn harmless(&mut self, path: &[u8], seen: &Seen, kept: u32) -> u32 {
        let refused = [(SET_USER_ID, "set-user-id bit"), (SET_GROUP_ID, "set-group-id bit")];
        let mut mode = seen.bits();
        for (bit, what) in refused {
            if mode & bit & !kept != 0 {
                mode &= !bit;
                self.drop_named(path, what);
            }
        }
        mode
    }

    fn put(&mut self, path: &[u8], kind: LeftKind, modified: Option<Timestamp>) -> Result<()> {
        // What the mark does not know was counted when it was met.
        if self.before(path).is_some() {
            self.budget.add_entry(path)?;
        }
        self.effects.insert(path, LeftEntry { kind, modified });
        Ok(())
    }

    pub(super) fn into_effects(self) -> Effects {
        let deadline = self.budget.deadline();
        let left = self.effects.into_values();
        let mut effects: Vec<_> = left.map(|(path, entry)| entry.into_effect(path, deadline)).collect();
        effects.sort_unstable_by(|one, other| one.path.as_bytes().cmp(other.path.as_bytes()));
        tell_names(&mut effects, self.names);
        let Lost {
            directories: mut lost,
            files,
            left_behind,
        } = self.lost;
        if files.len() > left_behind {
            lost.extend(files);
        }
        for effect in &mut effects {
            effect.is_lost_below = lost.contains(effect.path.as_bytes());
        }
        let dropped = self.dropped.into_iter().map(|(path, what)| Dropped {
            path: EntryPath::from_bytes(path),
            what,
        });
        Effects {
            effects,
            dropped: dropped.collect(),
            mark: Mark(self.mark),
        }
    }
}

impl LeftEntry {
    fn into_effect(self, path: Vec<u8>, deadline: ReadingDeadline) -> Effect {
        let path = EntryPath::from_bytes(path);
        let placed = match self.kind {
            LeftKind::Nothing => Placed::Nothing,
            LeftKind::Directory { mode } => Placed::Directory { mode },
            LeftKind::Symlink { target } => Placed::Symlink { target },
            LeftKind::File { top, seen, mode } => Placed::File {
                content: source::content(top, path.clone(), seen, deadline),
                mode,
            },
        };
        Effect {
            path,
            placed,
            modified: self.modified,
            is_lost_below: false,
        }
    }
}

/// Has the content of each file with several names say which file it is: by the first of them that a path can spell.
fn tell_names(effects: &mut [Effect], files: BTreeMap<u64, BTreeSet<Vec<u8>>>) {
    for names in files.into_values() {
        let spelled = |name: &Vec<u8>| EntryPath::from_bytes(name.clone()).as_path().cloned();
        let Some(first) = names.iter().find_map(spelled) else {
            continue;
        };
        for name in &names {
            let Ok(place) = effects.binary_search_by(|effect| effect.path.as_bytes().cmp(name)) else {
                continue;
            };
            if let Placed::File { content, .. } = &mut effects[place].placed {
                *content = content.clone().also_at(first.clone());
            }
        }
    }
}

/// Whether it is a file with several names.
pub(super) fn has_other_names(stat: &Stat) -> bool {
    stat.st_nlink > 1 && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

fn name_of(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        _ => "entry of an unknown kind",
    }
}

/// A handle of its own on the directory, for content that is read later.
pub(super) fn held(top: BorrowedFd<'_>) -> Result<Arc<OwnedFd>> {
    let owned = top.as_fd().try_clone_to_owned();
    let errno = |error: std::io::Error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
    owned.map(Arc::new).map_err(errno).at(b"")
}
