//! Reads the upper directory of an overlay.
//!
//! Only the tree of the upper directory is walked. In the lower one, single entries are looked up by name; a directory
//! there is listed only if the layer removed or replaced it, because then all of its entries have to be reported. So
//! the cost grows with the changes of a command, and not with the size of the workspace.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use garret_core::path::{join_path, split_path};
use garret_core::{EffectLimits, Effects, EffectsMark, Result};
use garret_handles::{HandleTree, MAX_PATH_BYTES, list_names, open_beneath, prefixes, stat_entry};
use rustix::fs::{FileType, OFlags, Stat, fstat};
use rustix::io::Errno;

use super::effect_collector::{EffectCollector, duplicate_handle, has_other_names};
use super::entry_status::{EntryMeaning, EntryStatus, is_merged_directory};
use super::overlay_attributes::{DirectoryMarks, is_copied_up, is_metadata_only, is_whiteout};
use super::path_error::ErrnoAtPath;

/// A directory of the upper tree that waits to be read.
struct UnreadDirectory {
    path: Vec<u8>,
    /// The entry below the layer at its path.
    lower: Option<EntryStatus>,
    /// Whether all directories above it show the entries below the layer.
    is_shown: bool,
}

/// The directory whose entries are being read.
struct CurrentDirectory<'a> {
    path: &'a [u8],
    upper: BorrowedFd<'a>,
    lower: Option<BorrowedFd<'a>>,
    is_shown: bool,
    marks: DirectoryMarks,
}

struct UpperReading<'a> {
    upper: HandleTree<'a>,
    lower: HandleTree<'a>,
    lower_top: BorrowedFd<'a>,
    upper_held: Arc<OwnedFd>,
    lower_held: Arc<OwnedFd>,
    found: EffectCollector<'a>,
    waiting: Vec<UnreadDirectory>,
}

/// Reads the effects on `lower` that the upper directory of an overlay holds; with `since`, only those after that mark.
///
/// Must be called only while nothing changes in either: the overlay is unmounted, or its processes are paused. Never
/// reads content, and lists only those directories of `lower` that were removed or replaced. A directory that was
/// copied up without a change of its bits is left out; a file is named even if it equals the one below. Effects over a
/// limit are `too_large`, and the error names the limit; the limit on time holds for the content, too, which is read
/// later.
pub fn read_upper_effects(
    upper: BorrowedFd<'_>,
    lower: BorrowedFd<'_>,
    since: Option<&EffectsMark>,
    limits: EffectLimits,
) -> Result<Effects> {
    let mut reading = UpperReading {
        upper: HandleTree::new(upper),
        lower: HandleTree::new(lower),
        lower_top: lower,
        upper_held: duplicate_handle(upper)?,
        lower_held: duplicate_handle(lower)?,
        found: EffectCollector::new(since, limits),
        waiting: Vec::new(),
    };
    reading.waiting.push(UnreadDirectory {
        path: Vec::new(),
        lower: Some(EntryStatus::from_stat(&fstat(lower).at_path(b"")?)),
        is_shown: true,
    });
    while let Some(waiting) = reading.waiting.pop() {
        reading.read_directory(&waiting)?;
    }
    reading.record_vanished()?;
    Ok(reading.found.into_effects())
}

impl UpperReading<'_> {
    fn read_directory(&mut self, waiting: &UnreadDirectory) -> Result<()> {
        let path = &waiting.path[..];
        let upper = self.upper.open_directory(path).at_path(path)?;
        let mut seen = EntryStatus::from_stat(&fstat(&upper).at_path(path)?);
        seen.mode = self.upper.mode_before(path).unwrap_or(seen.mode);
        let marks = DirectoryMarks::read_from(upper.as_fd()).at_path(path)?;
        let lower = waiting.lower.filter(EntryStatus::is_directory);
        // The kernel ignores the opaque attribute on the top directory.
        let is_opaque = marks.is_opaque && !path.is_empty();
        let is_shown = waiting.is_shown && lower.is_some() && !is_opaque;
        let meaning = if is_shown {
            EntryMeaning::Merged
        } else {
            EntryMeaning::Own
        };
        let names = self.found.list_directory(&upper, path, 0)?;
        if !self.found.record_fingerprint(path, meaning, &seen) {
            if marks.is_redirected {
                self.found.record_dropped(path, "overlay redirect");
            }
            self.changed_directory(path, &seen, lower.as_ref(), is_shown, &names)?;
        }
        let lower = lower.map(|_| self.open_lower(path)).transpose()?;
        let here = CurrentDirectory {
            path,
            upper: upper.as_fd(),
            lower: lower.as_ref().map(AsFd::as_fd),
            is_shown,
            marks,
        };
        names.iter().try_for_each(|name| self.read_entry(&here, name))
    }

    /// Records the effects of a directory that changed since the mark, on itself and on the entries below the layer.
    fn changed_directory(
        &mut self,
        path: &[u8],
        seen: &EntryStatus,
        lower: Option<&EntryStatus>,
        is_shown: bool,
        names: &[Vec<u8>],
    ) -> Result<()> {
        let before = self.found.fingerprint_before(path);
        // After a mark, a directory that hides the one below is an effect even if their bits are equal: the one below
        // may have been removed since the mark.
        let is_still_below = is_shown || self.found.reads_everything();
        let is_as_below = is_still_below && lower.is_some_and(|lower| lower.bits() == seen.bits()) && before.is_none();
        if !path.is_empty() && !is_as_below {
            self.found.record_directory(path, seen, lower)?;
        }
        if lower.is_none() {
            return Ok(());
        }
        let names: BTreeSet<&[u8]> = names.iter().map(Vec::as_slice).collect();
        if !is_shown {
            self.record_below(path, &names, BelowEffect::Removed)
        } else if before.is_some_and(|before| !is_merged_directory(before)) {
            self.record_below(path, &names, BelowEffect::VisibleAgain)
        } else {
            Ok(())
        }
    }

    fn open_lower(&mut self, path: &[u8]) -> Result<OwnedFd> {
        match open_beneath(self.lower_top, path, OFlags::PATH | OFlags::DIRECTORY) {
            // `HandleTree` lends the missing bits.
            Err(Errno::ACCESS) => self.lower.open_directory(path),
            held => held,
        }
        .at_path(path)
    }

    fn read_entry(&mut self, here: &CurrentDirectory<'_>, name: &[u8]) -> Result<()> {
        let path = join_path(here.path, name);
        self.found.count_entry(&path)?;
        if path.len() > MAX_PATH_BYTES {
            self.found.record_dropped(&path, "path that is too long");
            return Ok(());
        }
        let Some(stat) = stat_entry(here.upper, name).at_path(&path)? else {
            return Ok(());
        };
        let lower = self.stat_lower(here, name, &path)?;
        self.compare_origin(here, name, &path, &stat, lower.as_ref())?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            self.waiting.push(UnreadDirectory {
                path,
                lower,
                is_shown: here.is_shown,
            });
            return Ok(());
        }
        self.read_leaf(here, name, &path, &stat, lower)
    }

    /// Records whether an entry was copied up and has nothing below it, or removes or replaces the entry below it.
    fn compare_origin(
        &mut self,
        here: &CurrentDirectory<'_>,
        name: &[u8],
        path: &[u8],
        stat: &Stat,
        lower: Option<&EntryStatus>,
    ) -> Result<()> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        let may_tell = matches!(kind, FileType::RegularFile | FileType::Directory) && !has_other_names(stat);
        // Only in a first reading: after a mark, the entries below were put there from the reading before.
        let is_copied = self.found.reads_everything() && may_tell && is_copied_up(here.upper, name).at_path(path)?;
        match lower {
            None if is_copied && kind == FileType::Directory => self.found.record_lost_directory(path),
            None if is_copied => self.found.record_lost_file(path),
            Some(_) if !is_copied => self.found.count_replaced_below(),
            _ => {}
        }
        Ok(())
    }

    /// Returns the status of the entry below the layer at `path`. A whiteout there was made by another overlay, and
    /// counts as no entry.
    fn stat_lower(&mut self, here: &CurrentDirectory<'_>, name: &[u8], path: &[u8]) -> Result<Option<EntryStatus>> {
        let Some(lower) = here.lower else {
            return Ok(None);
        };
        let stat = match stat_entry(lower, name) {
            // The directory may be listed but not entered; opening it through `HandleTree` lends the bit.
            Err(Errno::ACCESS) => {
                drop(self.lower.open_directory(here.path).at_path(here.path)?);
                stat_entry(lower, name)
            }
            stat => stat,
        };
        Ok(stat
            .at_path(path)?
            .filter(|stat| !is_lower_whiteout(stat))
            .map(|stat| EntryStatus::from_stat(&stat)))
    }

    /// Reads an entry that is no directory.
    fn read_leaf(
        &mut self,
        here: &CurrentDirectory<'_>,
        name: &[u8],
        path: &[u8],
        stat: &Stat,
        lower: Option<EntryStatus>,
    ) -> Result<()> {
        let seen = EntryStatus::from_stat(stat);
        if is_whiteout(here.upper, name, stat, here.marks).at_path(path)? {
            return self.record_removal(path, EntryMeaning::Whiteout, &seen, lower.as_ref());
        }
        let meaning = match seen.kind() {
            FileType::RegularFile if is_metadata_only(here.upper, name, stat).at_path(path)? => {
                // The file below stays as it is: the holes of this one are not its content, and would overwrite it.
                self.found.record_fingerprint(path, EntryMeaning::Dropped, &seen);
                self.found.record_dropped(path, "overlay metacopy");
                return Ok(());
            }
            FileType::RegularFile => EntryMeaning::File,
            FileType::Symlink => EntryMeaning::Symlink,
            _ => return self.record_removal(path, EntryMeaning::Dropped, &seen, lower.as_ref()),
        };
        if self.found.record_fingerprint(path, meaning, &seen) {
            return Ok(());
        }
        match meaning {
            EntryMeaning::File => {
                self.found.record_file(&self.upper_held, path, &seen)?;
                self.found.record_file_name(path, stat);
            }
            _ if self.found.record_link(here.upper, path, &seen)? => {}
            _ => self.found.record_removed(path)?,
        }
        self.record_removed_below(path, lower.as_ref())
    }

    /// Records that `path` has no entry that a workspace takes: a whiteout, or an entry of a kind that is left out.
    fn record_removal(
        &mut self,
        path: &[u8],
        meaning: EntryMeaning,
        seen: &EntryStatus,
        lower: Option<&EntryStatus>,
    ) -> Result<()> {
        let was_known = self.found.fingerprint_before(path).is_some();
        if self.found.record_fingerprint(path, meaning, seen) {
            return Ok(());
        }
        if meaning == EntryMeaning::Dropped {
            self.found.record_special(path, seen);
        }
        if lower.is_some() || was_known {
            self.found.record_removed(path)?;
        }
        self.record_removed_below(path, lower)
    }

    /// Records as removed everything in the directory below the layer at `path`, if the entry there is a directory.
    fn record_removed_below(&mut self, path: &[u8], lower: Option<&EntryStatus>) -> Result<()> {
        if lower.is_some_and(EntryStatus::is_directory) {
            self.record_below(path, &BTreeSet::new(), BelowEffect::Removed)
        } else {
            Ok(())
        }
    }

    /// Records everything in the directory below the layer at `path` as removed or as visible again, except its entries
    /// named in `but`.
    fn record_below(&mut self, path: &[u8], but: &BTreeSet<&[u8]>, become_what: BelowEffect) -> Result<()> {
        let mut waiting = vec![path.to_vec()];
        while let Some(directory) = waiting.pop() {
            let handle = match self.lower.open_directory(&directory) {
                // Another file system is mounted here, which a layer does not show.
                Err(Errno::XDEV) => continue,
                handle => handle.at_path(&directory)?,
            };
            for name in list_names(&handle).at_path(&directory)? {
                if directory == path && but.contains(&name[..]) {
                    continue;
                }
                let child = join_path(&directory, &name);
                let stat = stat_entry(&handle, &name).at_path(&child)?;
                let Some(stat) = stat.filter(|stat| !is_lower_whiteout(stat)) else {
                    continue;
                };
                let seen = EntryStatus::from_stat(&stat);
                self.found.count_entry(&child)?;
                match become_what {
                    BelowEffect::Removed => {
                        self.found.count_replaced_below();
                        self.found.record_removed(&child)?;
                    }
                    BelowEffect::VisibleAgain => self.record_visible_again(handle.as_fd(), &child, &seen)?,
                }
                if seen.is_directory() && child.len() <= MAX_PATH_BYTES {
                    waiting.push(child);
                }
            }
        }
        Ok(())
    }

    /// Records that the entry below the layer at `path`, in `directory`, is visible again.
    fn record_visible_again(&mut self, directory: BorrowedFd<'_>, path: &[u8], seen: &EntryStatus) -> Result<()> {
        match seen.kind() {
            FileType::RegularFile => self.found.record_file(&self.lower_held, path, seen)?,
            FileType::Directory => self.found.record_directory(path, seen, Some(seen))?,
            FileType::Symlink => drop(self.found.record_link(directory, path, seen)?),
            _ => {}
        }
        Ok(())
    }

    /// Handles the paths that were in the layer at the mark and are not any more: the entry below is visible again, or
    /// the path is removed.
    fn record_vanished(&mut self) -> Result<()> {
        for path in self.found.marked_paths() {
            if self.found.fingerprint_now(&path).is_some() {
                continue;
            }
            let lower = if self.shows_through(&path) {
                self.lower.stat_path(&path).at_path(&path)?
            } else {
                None
            };
            let Some(stat) = lower.filter(|stat| !is_lower_whiteout(stat)) else {
                self.found.record_removed(&path)?;
                continue;
            };
            let seen = EntryStatus::from_stat(&stat);
            let above = self.open_lower(split_path(&path).0)?;
            self.record_visible_again(above.as_fd(), &path, &seen)?;
            if seen.is_directory() {
                self.record_below(&path, &BTreeSet::new(), BelowEffect::VisibleAgain)?;
            }
        }
        Ok(())
    }

    /// Returns whether the entry below the layer is visible at `path`, which is not in the layer itself: the nearest
    /// directory above it that is in the layer decides.
    fn shows_through(&self, path: &[u8]) -> bool {
        let above = prefixes(split_path(path).0).filter_map(|above| self.found.fingerprint_now(above));
        above.last().is_some_and(is_merged_directory)
    }
}

/// The effect on the entries of a directory below the layer.
#[derive(Debug, Clone, Copy)]
enum BelowEffect {
    Removed,
    VisibleAgain,
}

fn is_lower_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}
