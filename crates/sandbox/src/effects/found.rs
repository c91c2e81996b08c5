//! What a reading has found so far.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use garret_core::{Clock, Dropped, Effect, Effects, EntryPath, Mark, Placed, Result, SystemClock, Timestamp};
use rustix::fs::{FileType, Stat, readlinkat};

use super::beneath::split;
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
    effects: BTreeMap<Vec<u8>, Effect>,
    dropped: BTreeMap<(Vec<u8>, &'static str), Dropped>,
    mark: BTreeMap<Vec<u8>, u64>,
    /// The paths of files with several names, by inode.
    names: BTreeMap<u64, BTreeSet<Vec<u8>>>,
}

impl<'a> Found<'a> {
    /// Whether everything is read that was done on the layer, and not only what came after a mark.
    pub(super) fn is_whole(&self) -> bool {
        self.since.is_none()
    }

    pub(super) fn new(since: Option<&'a Mark>) -> Self {
        Self {
            since,
            // Before the first look: what is written after it is young.
            now: SystemClock::default().now(),
            effects: BTreeMap::new(),
            dropped: BTreeMap::new(),
            mark: BTreeMap::new(),
            names: BTreeMap::new(),
        }
    }

    /// Remembers what is at `path`; tells whether it is what it was at the mark.
    pub(super) fn note(&mut self, path: &[u8], meaning: Meaning, seen: &Seen) -> bool {
        let print = fingerprint(meaning, seen, self.now);
        self.mark.insert(path.to_vec(), print);
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

    /// The paths that the mark knows and this reading did not meet.
    pub(super) fn vanished(&self) -> Vec<Vec<u8>> {
        let known = self.since.into_iter().flat_map(|since| since.0.keys());
        known.filter(|path| !self.mark.contains_key(*path)).cloned().collect()
    }

    pub(super) fn drop_named(&mut self, path: &[u8], what: &'static str) {
        let named = Dropped {
            path: EntryPath::from_bytes(path.to_vec()),
            what,
        };
        self.dropped.insert((path.to_vec(), what), named);
    }

    /// Nothing is at `path` any more.
    pub(super) fn gone(&mut self, path: &[u8]) {
        self.put(path, Placed::Nothing, None);
    }

    /// A directory is at `path`. One that was there before keeps the bit by which its group is inherited.
    pub(super) fn directory(&mut self, path: &[u8], seen: &Seen, before: Option<&Seen>) {
        let kept = before.map_or(0, |before| before.bits() & SET_GROUP_ID);
        let mode = self.harmless(path, seen, kept);
        self.put(path, Placed::Directory { mode }, seen.modified());
    }

    /// A file is at `path` below `top`.
    pub(super) fn file(&mut self, top: &Arc<OwnedFd>, path: &[u8], seen: &Seen) {
        let mode = self.harmless(path, seen, 0);
        let content = source::content(top, path, *seen);
        self.put(path, Placed::File { content, mode }, seen.modified());
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
        self.put(path, Placed::Symlink { target }, seen.modified());
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

    fn put(&mut self, path: &[u8], placed: Placed, modified: Option<Timestamp>) {
        let effect = Effect {
            path: EntryPath::from_bytes(path.to_vec()),
            placed,
            modified,
        };
        self.effects.insert(path.to_vec(), effect);
    }

    /// Has the content of each file with several names say which file it is: by the first of them that a path can spell.
    fn tell_names(&mut self) {
        for names in std::mem::take(&mut self.names).into_values() {
            let spelled = |name: &Vec<u8>| EntryPath::from_bytes(name.clone()).as_path().cloned();
            let Some(first) = names.iter().find_map(spelled) else {
                continue;
            };
            for name in &names {
                let placed = self.effects.get_mut(name).map(|effect| &mut effect.placed);
                if let Some(Placed::File { content, .. }) = placed {
                    *content = content.clone().also_at(first.clone());
                }
            }
        }
    }

    pub(super) fn into_effects(mut self) -> Effects {
        self.tell_names();
        Effects {
            effects: self.effects.into_values().collect(),
            dropped: self.dropped.into_values().collect(),
            mark: Mark(self.mark),
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
