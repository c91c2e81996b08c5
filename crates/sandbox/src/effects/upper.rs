//! Reads the upper directory of an overlay.
//!
//! Only the tree of the upper directory is walked. In the lower one, single entries are looked up by name; a directory
//! there is listed only if the layer removed or replaced it, because then all of its entries have to be reported. So
//! the cost grows with the changes of a command, and not with the size of the workspace.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use garret_core::{EffectLimits, Effects, Mark, Result};
use rustix::fs::{FileType, OFlags, Stat, fstat};
use rustix::io::Errno;

use super::attributes::{DirectoryMarks, is_copied_up, is_metadata_only, is_whiteout};
use super::beneath::{MAX_PATH_BYTES, Tree, join, look, names, open, prefixes, split};
use super::error::At;
use super::found::{Found, has_other_names, held};
use super::seen::{Meaning, Seen, is_merged};

/// A directory of the upper tree that waits to be read.
struct Waiting {
    path: Vec<u8>,
    /// The entry below the layer at its path.
    lower: Option<Seen>,
    /// Whether all directories above it show the entries below the layer.
    is_shown: bool,
}

/// The directory whose entries are being read.
struct Here<'a> {
    path: &'a [u8],
    upper: BorrowedFd<'a>,
    lower: Option<BorrowedFd<'a>>,
    is_shown: bool,
    marks: DirectoryMarks,
}

struct Reading<'a> {
    upper: Tree<'a>,
    lower: Tree<'a>,
    lower_top: BorrowedFd<'a>,
    upper_held: Arc<OwnedFd>,
    lower_held: Arc<OwnedFd>,
    found: Found<'a>,
    waiting: Vec<Waiting>,
}

pub(super) fn read(
    upper: BorrowedFd<'_>,
    lower: BorrowedFd<'_>,
    since: Option<&Mark>,
    limits: EffectLimits,
) -> Result<Effects> {
    let mut reading = Reading {
        upper: Tree::new(upper),
        lower: Tree::new(lower),
        lower_top: lower,
        upper_held: held(upper)?,
        lower_held: held(lower)?,
        found: Found::new(since, limits),
        waiting: Vec::new(),
    };
    reading.waiting.push(Waiting {
        path: Vec::new(),
        lower: Some(Seen::of(&fstat(lower).at(b"")?)),
        is_shown: true,
    });
    while let Some(waiting) = reading.waiting.pop() {
        reading.directory(&waiting)?;
    }
    reading.vanished()?;
    Ok(reading.found.into_effects())
}

impl Reading<'_> {
    fn directory(&mut self, waiting: &Waiting) -> Result<()> {
        let path = &waiting.path[..];
        let upper = self.upper.directory(path).at(path)?;
        let mut seen = Seen::of(&fstat(&upper).at(path)?);
        seen.mode = self.upper.mode_before(path).unwrap_or(seen.mode);
        let marks = DirectoryMarks::of(upper.as_fd()).at(path)?;
        let lower = waiting.lower.filter(Seen::is_directory);
        // The kernel ignores the opaque attribute on the top directory.
        let is_opaque = marks.is_opaque && !path.is_empty();
        let is_shown = waiting.is_shown && lower.is_some() && !is_opaque;
        let meaning = if is_shown { Meaning::Merged } else { Meaning::Own };
        let names = self.found.names(&upper, path, 0)?;
        if !self.found.note(path, meaning, &seen) {
            if marks.is_redirected {
                self.found.drop_named(path, "overlay redirect");
            }
            self.changed_directory(path, &seen, lower.as_ref(), is_shown, &names)?;
        }
        let lower = lower.map(|_| self.hold_lower(path)).transpose()?;
        let here = Here {
            path,
            upper: upper.as_fd(),
            lower: lower.as_ref().map(AsFd::as_fd),
            is_shown,
            marks,
        };
        names.iter().try_for_each(|name| self.entry(&here, name))
    }

    /// Records the effects of a directory that changed since the mark, on itself and on the entries below the layer.
    fn changed_directory(
        &mut self,
        path: &[u8],
        seen: &Seen,
        lower: Option<&Seen>,
        is_shown: bool,
        names: &[Vec<u8>],
    ) -> Result<()> {
        let before = self.found.before(path);
        // After a mark, a directory that hides the one below is an effect even if their bits are equal: the one below
        // may have been removed since the mark.
        let is_still_below = is_shown || self.found.is_whole();
        let is_as_below = is_still_below && lower.is_some_and(|lower| lower.bits() == seen.bits()) && before.is_none();
        if !path.is_empty() && !is_as_below {
            self.found.directory(path, seen, lower)?;
        }
        if lower.is_none() {
            return Ok(());
        }
        let names: BTreeSet<&[u8]> = names.iter().map(Vec::as_slice).collect();
        if !is_shown {
            self.below(path, &names, Below::Gone)
        } else if before.is_some_and(|before| !is_merged(before)) {
            self.below(path, &names, Below::Back)
        } else {
            Ok(())
        }
    }

    fn hold_lower(&mut self, path: &[u8]) -> Result<OwnedFd> {
        match open(self.lower_top, path, OFlags::PATH | OFlags::DIRECTORY) {
            // `Tree` lends the missing bits.
            Err(Errno::ACCESS) => self.lower.directory(path),
            held => held,
        }
        .at(path)
    }

    fn entry(&mut self, here: &Here<'_>, name: &[u8]) -> Result<()> {
        let path = join(here.path, name);
        self.found.count(&path)?;
        if path.len() > MAX_PATH_BYTES {
            self.found.drop_named(&path, "path that is too long");
            return Ok(());
        }
        let Some(stat) = look(here.upper, name).at(&path)? else {
            return Ok(());
        };
        let lower = self.look_below(here, name, &path)?;
        self.compare_origin(here, name, &path, &stat, lower.as_ref())?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            self.waiting.push(Waiting {
                path,
                lower,
                is_shown: here.is_shown,
            });
            return Ok(());
        }
        self.leaf(here, name, &path, &stat, lower)
    }

    /// Records whether an entry was copied up and has nothing below it, or removes or replaces the entry below it.
    fn compare_origin(
        &mut self,
        here: &Here<'_>,
        name: &[u8],
        path: &[u8],
        stat: &Stat,
        lower: Option<&Seen>,
    ) -> Result<()> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        let may_tell = matches!(kind, FileType::RegularFile | FileType::Directory) && !has_other_names(stat);
        // Only in a first reading: after a mark, the entries below were put there from the reading before.
        let is_copied = self.found.is_whole() && may_tell && is_copied_up(here.upper, name).at(path)?;
        match lower {
            None if is_copied && kind == FileType::Directory => self.found.lose_directory(path),
            None if is_copied => self.found.lose_file(path),
            Some(_) if !is_copied => self.found.leave_behind(),
            _ => {}
        }
        Ok(())
    }

    /// Returns the status of the entry below the layer at `path`. A whiteout there was made by another overlay, and
    /// counts as no entry.
    fn look_below(&mut self, here: &Here<'_>, name: &[u8], path: &[u8]) -> Result<Option<Seen>> {
        let Some(lower) = here.lower else {
            return Ok(None);
        };
        let stat = match look(lower, name) {
            // The directory may be listed but not entered; opening it through `Tree` lends the bit.
            Err(Errno::ACCESS) => {
                drop(self.lower.directory(here.path).at(here.path)?);
                look(lower, name)
            }
            stat => stat,
        };
        Ok(stat
            .at(path)?
            .filter(|stat| !is_lower_whiteout(stat))
            .map(|stat| Seen::of(&stat)))
    }

    /// Reads an entry that is no directory.
    fn leaf(&mut self, here: &Here<'_>, name: &[u8], path: &[u8], stat: &Stat, lower: Option<Seen>) -> Result<()> {
        let seen = Seen::of(stat);
        if is_whiteout(here.upper, name, stat, here.marks).at(path)? {
            return self.removed(path, Meaning::Whiteout, &seen, lower.as_ref());
        }
        let meaning = match seen.kind() {
            FileType::RegularFile if is_metadata_only(here.upper, name, stat).at(path)? => {
                // The file below stays as it is: the holes of this one are not its content, and would overwrite it.
                self.found.note(path, Meaning::Dropped, &seen);
                self.found.drop_named(path, "overlay metacopy");
                return Ok(());
            }
            FileType::RegularFile => Meaning::File,
            FileType::Symlink => Meaning::Symlink,
            _ => return self.removed(path, Meaning::Dropped, &seen, lower.as_ref()),
        };
        if self.found.note(path, meaning, &seen) {
            return Ok(());
        }
        match meaning {
            Meaning::File => {
                self.found.file(&self.upper_held, path, &seen)?;
                self.found.name(path, stat);
            }
            _ if self.found.link(here.upper, path, &seen)? => {}
            _ => self.found.gone(path)?,
        }
        self.gone_below(path, lower.as_ref())
    }

    /// Records that `path` has no entry that a workspace takes: a whiteout, or an entry of a kind that is left out.
    fn removed(&mut self, path: &[u8], meaning: Meaning, seen: &Seen, lower: Option<&Seen>) -> Result<()> {
        let was_known = self.found.before(path).is_some();
        if self.found.note(path, meaning, seen) {
            return Ok(());
        }
        if meaning == Meaning::Dropped {
            self.found.special(path, seen);
        }
        if lower.is_some() || was_known {
            self.found.gone(path)?;
        }
        self.gone_below(path, lower)
    }

    /// Records as removed everything in the directory below the layer at `path`, if the entry there is a directory.
    fn gone_below(&mut self, path: &[u8], lower: Option<&Seen>) -> Result<()> {
        if lower.is_some_and(Seen::is_directory) {
            self.below(path, &BTreeSet::new(), Below::Gone)
        } else {
            Ok(())
        }
    }

    /// Records everything in the directory below the layer at `path` as removed or as visible again, except its entries
    /// named in `but`.
    fn below(&mut self, path: &[u8], but: &BTreeSet<&[u8]>, become_what: Below) -> Result<()> {
        let mut waiting = vec![path.to_vec()];
        while let Some(directory) = waiting.pop() {
            let handle = match self.lower.directory(&directory) {
                // Another file system is mounted here, which a layer does not show.
                Err(Errno::XDEV) => continue,
                handle => handle.at(&directory)?,
            };
            for name in names(&handle).at(&directory)? {
                if directory == path && but.contains(&name[..]) {
                    continue;
                }
                let child = join(&directory, &name);
                let stat = look(&handle, &name).at(&child)?;
                let Some(stat) = stat.filter(|stat| !is_lower_whiteout(stat)) else {
                    continue;
                };
                let seen = Seen::of(&stat);
                self.found.count(&child)?;
                match become_what {
                    Below::Gone => {
                        self.found.leave_behind();
                        self.found.gone(&child)?;
                    }
                    Below::Back => self.back(handle.as_fd(), &child, &seen)?,
                }
                if seen.is_directory() && child.len() <= MAX_PATH_BYTES {
                    waiting.push(child);
                }
            }
        }
        Ok(())
    }

    /// Records that the entry below the layer at `path`, in `directory`, is visible again.
    fn back(&mut self, directory: BorrowedFd<'_>, path: &[u8], seen: &Seen) -> Result<()> {
        match seen.kind() {
            FileType::RegularFile => self.found.file(&self.lower_held, path, seen)?,
            FileType::Directory => self.found.directory(path, seen, Some(seen))?,
            FileType::Symlink => drop(self.found.link(directory, path, seen)?),
            _ => {}
        }
        Ok(())
    }

    /// Handles the paths that were in the layer at the mark and are not any more: the entry below is visible again, or
    /// the path is removed.
    fn vanished(&mut self) -> Result<()> {
        for path in self.found.known() {
            if self.found.now(&path).is_some() {
                continue;
            }
            let lower = if self.shows_through(&path) {
                self.lower.look_at(&path).at(&path)?
            } else {
                None
            };
            let Some(stat) = lower.filter(|stat| !is_lower_whiteout(stat)) else {
                self.found.gone(&path)?;
                continue;
            };
            let seen = Seen::of(&stat);
            let above = self.hold_lower(split(&path).0)?;
            self.back(above.as_fd(), &path, &seen)?;
            if seen.is_directory() {
                self.below(&path, &BTreeSet::new(), Below::Back)?;
            }
        }
        Ok(())
    }

    /// Returns whether the entry below the layer is visible at `path`, which is not in the layer itself: the nearest
    /// directory above it that is in the layer decides.
    fn shows_through(&self, path: &[u8]) -> bool {
        let above = prefixes(split(path).0).filter_map(|above| self.found.now(above));
        above.last().is_some_and(is_merged)
    }
}

/// The effect on the entries of a directory below the layer.
#[derive(Debug, Clone, Copy)]
enum Below {
    Gone,
    Back,
}

fn is_lower_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}
