//! Collects the effects that a reading of a layer finds.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use garret_core::path::split_path;
use garret_core::{
    Clock, DroppedEntry, Effect, EffectLimits, EffectTally, Effects, EffectsMark, EntryPath, PathTree, PlacedEntry,
    Result, SystemClock, Timestamp,
};
use garret_handles::list_names_up_to;
use rustix::fs::{FileType, Stat, readlinkat};

use super::entry_status::{EntryMeaning, EntryStatus, fingerprint, is_same_fingerprint};
use super::layer_file;
use super::path_error::ErrnoAtPath;
use super::reading_deadline::ReadingDeadline;

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

/// The effects found so far, the entries left out, and the mark of the present reading.
#[derive(Debug)]
pub(super) struct EffectCollector<'a> {
    since: Option<&'a EffectsMark>,
    now: Timestamp,
    limits: EffectLimits,
    tally: EffectTally,
    deadline: ReadingDeadline,
    effects: PathTree<CollectedEntry>,
    dropped: BTreeSet<(Vec<u8>, &'static str)>,
    mark: PathTree<u64>,
    /// The paths of files with several names, by inode.
    names: BTreeMap<u64, BTreeSet<Vec<u8>>>,
    lost: LostBelow,
}

/// The entries that others may have removed below the layer. A file that was copied up and has nothing below it was
/// either renamed by the command or removed below by others. A rename leaves its old path behind, at which the layer
/// removes or replaces the file below, so there are at most as many renamed files as such paths.
#[derive(Debug, Default)]
struct LostBelow {
    /// The directories that were copied up and have nothing below them: a layer cannot rename such a directory.
    directories: BTreeSet<Vec<u8>>,
    /// The files that were copied up and have nothing below them. The command may have renamed some of them.
    files: BTreeSet<Vec<u8>>,
    /// The number of paths at which the layer removes or replaces an entry below.
    left_behind: usize,
}

/// The entry at a path after the command. The path itself is the key in the tree.
#[derive(Debug)]
struct CollectedEntry {
    kind: CollectedKind,
    modified: Option<Timestamp>,
}

#[derive(Debug)]
enum CollectedKind {
    Nothing,
    File {
        top: Arc<OwnedFd>,
        seen: EntryStatus,
        mode: u32,
    },
    Directory {
        mode: u32,
    },
    Symlink {
        target: String,
    },
}

impl<'a> EffectCollector<'a> {
    /// Returns whether all effects of the layer are read, and not only those after a mark.
    pub(super) fn reads_everything(&self) -> bool {
        self.since.is_none()
    }

    pub(super) fn new(since: Option<&'a EffectsMark>, limits: EffectLimits) -> Self {
        Self {
            since,
            // Taken before the first entry is seen, so that every entry written later counts as young.
            now: SystemClock::default().now(),
            limits,
            tally: EffectTally::new(limits),
            deadline: ReadingDeadline::new(limits),
            effects: PathTree::default(),
            dropped: BTreeSet::new(),
            mark: PathTree::default(),
            names: BTreeMap::new(),
            lost: LostBelow::default(),
        }
    }

    /// Records that the directory at `path` was copied up, and has nothing below it.
    pub(super) fn record_lost_directory(&mut self, path: &[u8]) {
        self.lost.directories.insert(path.to_vec());
    }

    /// Records that the file at `path` was copied up, and has nothing below it.
    pub(super) fn record_lost_file(&mut self, path: &[u8]) {
        self.lost.files.insert(path.to_vec());
    }

    /// Records that the layer removes or replaces an entry below it.
    pub(super) fn count_replaced_below(&mut self) {
        self.lost.left_behind += 1;
    }

    /// Counts an entry before it is kept in memory. An entry that the mark knows counts only if it changed.
    pub(super) fn count_entry(&mut self, path: &[u8]) -> Result<()> {
        match self.fingerprint_before(path) {
            Some(_) => Ok(()),
            None => self.add_entry(path),
        }
    }

    fn add_entry(&mut self, path: &[u8]) -> Result<()> {
        self.deadline.check_time()?;
        self.tally.add_entry(path.len())
    }

    /// Returns the names in a directory of the layer; fails if they are more than the limit allows. Besides the entries
    /// that the mark knows, `uncounted` of them do not count.
    pub(super) fn list_directory(&self, directory: &OwnedFd, path: &[u8], uncounted: usize) -> Result<Vec<Vec<u8>>> {
        let known = self.since.map_or(0, |since| since.0.len());
        let counted = |most: u64| usize::try_from(most).unwrap_or(usize::MAX);
        let most = self
            .limits
            .entries
            .map(|most| counted(most).saturating_add(known + uncounted));
        let names = list_names_up_to(directory, most).at_path(path)?;
        names.ok_or_else(|| EffectTally::too_many_entries(self.limits.entries.unwrap_or_default()))
    }

    /// Records the entry at `path`; returns whether it is the same as at the mark.
    pub(super) fn record_fingerprint(&mut self, path: &[u8], meaning: EntryMeaning, seen: &EntryStatus) -> bool {
        let print = fingerprint(meaning, seen, self.now);
        self.mark.insert(path, print);
        self.fingerprint_before(path)
            .is_some_and(|before| is_same_fingerprint(before, print))
    }

    /// Returns the fingerprint of `path` in the mark.
    pub(super) fn fingerprint_before(&self, path: &[u8]) -> Option<u64> {
        self.since.and_then(|since| since.0.get(path).copied())
    }

    /// Returns the fingerprint of `path` in this reading.
    pub(super) fn fingerprint_now(&self, path: &[u8]) -> Option<u64> {
        self.mark.get(path).copied()
    }

    /// Returns every path in the mark. Those that this reading did not meet are gone from the layer.
    pub(super) fn marked_paths(&self) -> impl Iterator<Item = Vec<u8>> + use<'a> {
        let known = self.since.into_iter().flat_map(|since| since.0.iter());
        known.map(|(path, _)| path)
    }

    pub(super) fn record_dropped(&mut self, path: &[u8], what: &'static str) {
        self.dropped.insert((path.to_vec(), what));
    }

    /// Records that `path` was removed.
    pub(super) fn record_removed(&mut self, path: &[u8]) -> Result<()> {
        self.insert_effect(path, CollectedKind::Nothing, None)
    }

    /// Records a directory at `path`. A directory that existed before keeps its set-group-id bit, by which entries
    /// inherit the group.
    pub(super) fn record_directory(
        &mut self,
        path: &[u8],
        seen: &EntryStatus,
        before: Option<&EntryStatus>,
    ) -> Result<()> {
        let kept = before.map_or(0, |before| before.bits() & SET_GROUP_ID);
        let mode = self.mode_without_owner_rights(path, seen, kept);
        self.insert_effect(path, CollectedKind::Directory { mode }, seen.modified())
    }

    /// Records a file at `path` below `top`.
    pub(super) fn record_file(&mut self, top: &Arc<OwnedFd>, path: &[u8], seen: &EntryStatus) -> Result<()> {
        self.tally.add_content(seen.size)?;
        let mode = self.mode_without_owner_rights(path, seen, 0);
        let (top, seen) = (Arc::clone(top), *seen);
        self.insert_effect(path, CollectedKind::File { top, seen, mode }, seen.modified())
    }

    /// Records `path` as one of the names of its file, if the file has several; only for files of the layer itself.
    pub(super) fn record_file_name(&mut self, path: &[u8], stat: &Stat) {
        if has_other_names(stat) {
            let names = self.names.entry(EntryStatus::from_stat(stat).inode).or_default();
            names.insert(path.to_vec());
        }
    }

    /// Records a symbolic link at `path`, in `directory`; returns whether a workspace can hold it.
    pub(super) fn record_link(&mut self, directory: BorrowedFd<'_>, path: &[u8], seen: &EntryStatus) -> Result<bool> {
        let target = readlinkat(directory, split_path(path).1, Vec::new()).at_path(path)?;
        let Ok(target) = target.into_string() else {
            self.record_dropped(path, "link to a name that is not UTF-8");
            return Ok(false);
        };
        self.tally.add_text(target.len())?;
        self.insert_effect(path, CollectedKind::Symlink { target }, seen.modified())?;
        Ok(true)
    }

    /// Records that no workspace takes the entry at `path`.
    pub(super) fn record_special(&mut self, path: &[u8], seen: &EntryStatus) {
        self.record_dropped(path, describe_kind(seen.kind()));
    }

    /// Returns the permission bits without those that lend the rights of an owner, which are named as left out.
    fn mode_without_owner_rights(&mut self, path: &[u8], seen: &EntryStatus, kept: u32) -> u32 {
        let refused = [(SET_USER_ID, "set-user-id bit"), (SET_GROUP_ID, "set-group-id bit")];
        let mut mode = seen.bits();
        for (bit, what) in refused {
            if mode & bit & !kept != 0 {
                mode &= !bit;
                self.record_dropped(path, what);
            }
        }
        mode
    }

    fn insert_effect(&mut self, path: &[u8], kind: CollectedKind, modified: Option<Timestamp>) -> Result<()> {
        // An entry that the mark does not know was counted when it was met.
        if self.fingerprint_before(path).is_some() {
            self.add_entry(path)?;
        }
        self.effects.insert(path, CollectedEntry { kind, modified });
        Ok(())
    }

    pub(super) fn into_effects(self) -> Effects {
        let left = self.effects.into_values();
        let mut effects: Vec<_> = left
            .map(|(path, entry)| entry.into_effect(path, self.deadline))
            .collect();
        effects.sort_unstable_by(|one, other| one.path.as_bytes().cmp(other.path.as_bytes()));
        set_other_names(&mut effects, self.names);
        let LostBelow {
            directories: mut lost,
            files,
            left_behind,
        } = self.lost;
        // More such files than renames could explain: which of them others removed cannot be told, so all may be lost.
        if files.len() > left_behind {
            lost.extend(files);
        }
        for effect in &mut effects {
            effect.is_lost_below = lost.contains(effect.path.as_bytes());
        }
        let dropped = self.dropped.into_iter().map(|(path, what)| DroppedEntry {
            path: EntryPath::from_bytes(path),
            what,
        });
        Effects {
            effects,
            dropped: dropped.collect(),
            mark: EffectsMark(self.mark),
        }
    }
}

impl CollectedEntry {
    fn into_effect(self, path: Vec<u8>, deadline: ReadingDeadline) -> Effect {
        let path = EntryPath::from_bytes(path);
        let placed = match self.kind {
            CollectedKind::Nothing => PlacedEntry::Nothing,
            CollectedKind::Directory { mode } => PlacedEntry::Directory { mode },
            CollectedKind::Symlink { target } => PlacedEntry::Symlink { target },
            CollectedKind::File { top, seen, mode } => PlacedEntry::File {
                content: layer_file::content_of_file(top, path.clone(), seen, deadline),
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

/// Adds to the content of each file with several names the first name that is a valid path, by which the file is
/// identified.
fn set_other_names(effects: &mut [Effect], files: BTreeMap<u64, BTreeSet<Vec<u8>>>) {
    for names in files.into_values() {
        let spelled = |name: &Vec<u8>| EntryPath::from_bytes(name.clone()).as_path().cloned();
        let Some(first) = names.iter().find_map(spelled) else {
            continue;
        };
        for name in &names {
            let Ok(place) = effects.binary_search_by(|effect| effect.path.as_bytes().cmp(name)) else {
                continue;
            };
            if let PlacedEntry::File { content, .. } = &mut effects[place].placed {
                *content = content.clone().with_other_name(first.clone());
            }
        }
    }
}

/// Returns whether an entry is a file with several names.
pub(super) fn has_other_names(stat: &Stat) -> bool {
    stat.st_nlink > 1 && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

fn describe_kind(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        _ => "entry of an unknown kind",
    }
}

/// Returns another handle on the directory, for content that is read later.
pub(super) fn duplicate_handle(top: BorrowedFd<'_>) -> Result<Arc<OwnedFd>> {
    let owned = top.as_fd().try_clone_to_owned();
    let errno = |error: std::io::Error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
    owned.map(Arc::new).map_err(errno).at_path(b"")
}
