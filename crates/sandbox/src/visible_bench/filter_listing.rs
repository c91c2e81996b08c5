//! Lists the visible and the hidden entries of a bench by a read filter.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;

use garret_core::path::{join_path, split_path};
use garret_core::{EntryKind, EntryPath, ReadFilter, Result, SystemClock, Visibility};
use garret_handles::{MAX_PATH_BYTES, list_names, open_beneath, stat_beneath};
use rustix::fs::{AtFlags, FileType, OFlags, Stat, fstat, statat};
use rustix::io::Errno;

use crate::effects::entry_status::EntryStatus;
use crate::effects::path_error::ErrnoAtPath;

/// The prefixes of the temporary names under which Garret writes content on a bench. A rule on the final name does not
/// match these names, so they are hidden in any case.
const UNFINISHED: [&[u8]; 3] = [b".garret-tmp-", b".garret-merging-", b".garret-part-"];

/// The visible entries of a bench, by path; the status is `None` if a later write could have left it unchanged.
pub(crate) type VisibleEntries = BTreeMap<Vec<u8>, Option<EntryStatus>>;

/// An entry that the filter shows.
pub(super) struct VisibleEntry {
    pub(super) path: Vec<u8>,
    pub(super) stat: Stat,
}

/// The entries of a bench that a filter shows and hides. A directory comes before its entries.
#[derive(Default)]
pub(super) struct FilterListing {
    pub(super) visible: Vec<VisibleEntry>,
    /// The topmost paths that are hidden.
    pub(super) hidden: Vec<Vec<u8>>,
}

/// The extent of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListingDepth {
    /// Only the directories in which the filter decides entry by entry.
    FilteredDirectories,
    /// Every visible directory.
    AllDirectories,
}

struct UnlistedDirectory {
    path: Vec<u8>,
    is_whole: bool,
}

/// Returns the topmost paths of a bench that the filter hides. Valid only while nobody changes the bench.
pub(crate) fn hidden_paths(bench: BorrowedFd<'_>, filter: &dyn ReadFilter) -> Result<Vec<Vec<u8>>> {
    Ok(list_by_filter(bench, filter, ListingDepth::FilteredDirectories)?.hidden)
}

/// Returns every entry that the filter shows of a bench, without visible names of files that also have a hidden name.
pub(crate) fn visible_entries(bench: BorrowedFd<'_>, filter: &dyn ReadFilter) -> Result<VisibleEntries> {
    let listing = list_by_filter(bench, filter, ListingDepth::AllDirectories)?;
    let named: Vec<_> = listing.visible.iter().map(|one| (&one.path[..], &one.stat)).collect();
    let aliases = names_of_hidden_files(bench, filter, &named)?;
    let visible = listing.visible.into_iter().filter(|one| !aliases.contains(&one.path));
    Ok(visible.map(|one| (one.path, settled_status(&one.stat))).collect())
}

/// Returns the status of an entry, unless a later write could leave it unchanged.
pub(super) fn settled_status(stat: &Stat) -> Option<EntryStatus> {
    let seen = EntryStatus::from_stat(stat);
    let now = garret_core::Clock::now(&SystemClock::default());
    (seen.is_directory() || !seen.is_young(now)).then_some(seen)
}

pub(super) fn list_by_filter(
    bench: BorrowedFd<'_>,
    filter: &dyn ReadFilter,
    depth: ListingDepth,
) -> Result<FilterListing> {
    let mut listing = FilterListing::default();
    let mut waiting = vec![UnlistedDirectory {
        path: Vec::new(),
        is_whole: false,
    }];
    while let Some(directory) = waiting.pop() {
        let Some(names) = names_in(bench, &directory.path)? else {
            // Its entries are not known, so the filter cannot judge them.
            listing.hide_directory(directory.path);
            continue;
        };
        for name in names {
            let path = join_path(&directory.path, &name);
            if path.len() > MAX_PATH_BYTES {
                listing.hide_directory(directory.path.clone());
                break;
            }
            let below = listing.add_entry(bench, filter, path, directory.is_whole)?;
            waiting.extend(below.filter(|below| depth == ListingDepth::AllDirectories || !below.is_whole));
        }
    }
    Ok(listing)
}

/// Returns the names in a directory; `None` if it cannot be listed, an empty list if it is gone.
fn names_in(bench: BorrowedFd<'_>, path: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
    match open_beneath(bench, path, OFlags::RDONLY | OFlags::DIRECTORY) {
        Ok(directory) => list_names(&directory).at_path(path).map(Some),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !path.is_empty() => Ok(Some(Vec::new())),
        Err(Errno::ACCESS | Errno::XDEV) if !path.is_empty() => Ok(None),
        Err(errno) => Err(errno).at_path(path),
    }
}

impl FilterListing {
    /// Adds an entry to the listing; returns it if it is a directory that may have to be listed.
    fn add_entry(
        &mut self,
        bench: BorrowedFd<'_>,
        filter: &dyn ReadFilter,
        path: Vec<u8>,
        is_whole: bool,
    ) -> Result<Option<UnlistedDirectory>> {
        let stat = match stat_beneath(bench, &path) {
            // Another file system is mounted here, which a layer does not show.
            Err(Errno::XDEV | Errno::ACCESS) => {
                self.hidden.push(path);
                return Ok(None);
            }
            stat => stat.at_path(&path)?,
        };
        let Some(stat) = stat else { return Ok(None) };
        let visibility = if is_unfinished(&path) {
            Visibility::Hidden
        } else if is_whole {
            Visibility::Whole
        } else {
            filter.entry_visibility(&EntryPath::from_bytes(path.clone()), kind_of(&stat))
        };
        if visibility == Visibility::Hidden {
            self.hidden.push(path);
            return Ok(None);
        }
        let waiting = (kind_of(&stat) == EntryKind::Directory).then(|| UnlistedDirectory {
            path: path.clone(),
            is_whole: visibility == Visibility::Whole,
        });
        self.visible.push(VisibleEntry { path, stat });
        Ok(waiting)
    }

    /// Hides a directory that was taken for visible, with all of its entries.
    fn hide_directory(&mut self, directory: Vec<u8>) {
        self.visible.retain(|one| !is_at_or_below(&one.path, &directory));
        self.hidden.retain(|one| !is_at_or_below(one, &directory));
        self.hidden.push(directory);
    }
}

fn is_unfinished(path: &[u8]) -> bool {
    UNFINISHED.iter().any(|prefix| split_path(path).1.starts_with(prefix))
}

pub(super) fn is_at_or_below(path: &[u8], top: &[u8]) -> bool {
    let rest = path.strip_prefix(top);
    top.is_empty() || matches!(rest, Some([] | [b'/', ..]))
}

pub(super) fn kind_of(stat: &Stat) -> EntryKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        _ => EntryKind::Other,
    }
}

/// Returns the paths among `named` whose file also has a hidden name, or may have one: if a hidden directory cannot be
/// read, each file with more names than are visible. Hidden directories are searched only if there is such a file.
#[allow(clippy::unnecessary_cast, reason = "the field has other types on other machines")]
pub(super) fn names_of_hidden_files(
    bench: BorrowedFd<'_>,
    filter: &dyn ReadFilter,
    named: &[(&[u8], &Stat)],
) -> Result<BTreeSet<Vec<u8>>> {
    let mut by_inode: BTreeMap<u64, Vec<&(&[u8], &Stat)>> = BTreeMap::new();
    let is_linked = |stat: &Stat| kind_of(stat) == EntryKind::File && stat.st_nlink > 1;
    for one in named.iter().filter(|(_, stat)| is_linked(stat)) {
        by_inode.entry(one.1.st_ino).or_default().push(one);
    }
    by_inode.retain(|_, names| names.iter().any(|(_, stat)| stat.st_nlink as u64 > names.len() as u64));
    if by_inode.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut aliases = BTreeSet::new();
    for hidden in list_by_filter(bench, filter, ListingDepth::FilteredDirectories)?.hidden {
        let Some(inodes) = linked_files(bench, hidden)? else {
            let names = by_inode.values().flatten();
            return Ok(names.map(|(path, _)| path.to_vec()).collect());
        };
        for inode in inodes {
            let names = by_inode.get(&inode).into_iter().flatten();
            aliases.extend(names.map(|(path, _)| path.to_vec()));
        }
    }
    Ok(aliases)
}

/// Returns the inode numbers of files with several names at a path and below it; `None` if an entry that may be one
/// cannot be read.
fn linked_files(bench: BorrowedFd<'_>, top: Vec<u8>) -> Result<Option<Vec<u64>>> {
    let mut inodes = Vec::new();
    let mut waiting = vec![top];
    while let Some(path) = waiting.pop() {
        let stat = match stat_beneath(bench, &path) {
            Ok(None) => continue,
            Ok(Some(stat)) => stat,
            Err(Errno::XDEV) if is_on_another_device(bench, &path)? => continue,
            Err(Errno::XDEV | Errno::ACCESS | Errno::NAMETOOLONG) => return Ok(None),
            Err(errno) => return Err(errno).at_path(&path),
        };
        match kind_of(&stat) {
            EntryKind::File if stat.st_nlink > 1 => inodes.push(stat.st_ino),
            EntryKind::Directory => match names_in(bench, &path)? {
                Some(names) => waiting.extend(names.iter().map(|name| join_path(&path, name))),
                None => return Ok(None),
            },
            _ => {}
        }
    }
    Ok(Some(inodes))
}

/// Returns whether the file system mounted at a path is another one than the bench's, so that it has no file of the
/// bench. A part of the bench's own file system can be mounted there, too.
fn is_on_another_device(bench: BorrowedFd<'_>, path: &[u8]) -> Result<bool> {
    let mounted = statat(bench, path, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT);
    let own = fstat(bench).at_path(path)?;
    Ok(mounted.is_ok_and(|mounted| mounted.st_dev != own.st_dev))
}
