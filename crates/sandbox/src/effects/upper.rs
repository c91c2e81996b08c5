//! Reading the upper layer of an overlay.
//!
//! Only what is in the upper layer is walked. Below it, single entries are looked at by name; a directory there is listed only where the
//! layer removed or replaced it, because then all that was in it has to be named. So the cost grows with what a command did, and not
//! with what the workspace holds.

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

/// A directory of the upper layer that waits to be read.
struct Waiting {
    path: Vec<u8>,
    /// What is below the layer at its path.
    lower: Option<Seen>,
    /// Whether what is below the layer shows through the directories above it.
    is_shown: bool,
}

/// The directory that entries are looked at in.
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
        // The kernel does not ask whether the top is opaque.
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

    /// What a directory that is not what it was at the mark means for itself and for what is below the layer.
    fn changed_directory(
        &mut self,
        path: &[u8],
        seen: &Seen,
        lower: Option<&Seen>,
        is_shown: bool,
        names: &[Vec<u8>],
    ) -> Result<()> {
        let before = self.found.before(path);
        // One that hides what is below it is its own, even where it looks the same: what was below may be gone since the mark.
        let is_still_below = is_shown || self.found.is_whole();
        let is_as_below = is_still_below && lower.is_some_and(|lower| lower.bits() == seen.bits()) && before.is_none();
        if !path.is_empty() && !is_as_below {
            self.found.directory(path, seen, lower)?;
        }
        if lower.is_none() {
            return Ok(());
        }
        let names: BTreeSet<&[u8]> = names.iter().map(Vec::as_slice).collect();
        match is_shown {
            false => self.below(path, &names, Below::Gone),
            true if before.is_some_and(|before| !is_merged(before)) => self.below(path, &names, Below::Back),
            true => Ok(()),
        }
    }

    fn hold_lower(&mut self, path: &[u8]) -> Result<OwnedFd> {
        match open(self.lower_top, path, OFlags::PATH | OFlags::DIRECTORY) {
            // Lends the bits.
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

    /// Tells an entry that was copied up and has nothing below it from one that removed or replaced what is below it. Where the layer was
    /// read before, what is below it was put there by the last reading.
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
        let is_copied = self.found.is_whole() && may_tell && is_copied_up(here.upper, name).at(path)?;
        match lower {
            None if is_copied && kind == FileType::Directory => self.found.lose_directory(path),
            None if is_copied => self.found.lose_file(path),
            Some(_) if !is_copied => self.found.leave_behind(),
            _ => {}
        }
        Ok(())
    }

    /// What is below the layer at `path`. A whiteout there was made by an overlay of others, and means nothing to anybody.
    fn look_below(&mut self, here: &Here<'_>, name: &[u8], path: &[u8]) -> Result<Option<Seen>> {
        let Some(lower) = here.lower else {
            return Ok(None);
        };
        let stat = match look(lower, name) {
            // A directory that may be listed and not entered.
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

    /// An entry that is no directory.
    fn leaf(&mut self, here: &Here<'_>, name: &[u8], path: &[u8], stat: &Stat, lower: Option<Seen>) -> Result<()> {
        let seen = Seen::of(stat);
        if is_whiteout(here.upper, name, stat, here.marks).at(path)? {
            return self.removed(path, Meaning::Whiteout, &seen, lower.as_ref());
        }
        let meaning = match seen.kind() {
            FileType::RegularFile if is_metadata_only(here.upper, name, stat).at(path)? => {
                // What is below is left as it is: taking holes for its content would lose it.
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

    /// Nothing that a workspace takes is at `path`.
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

    /// Names everything that was in the directory that is below the layer at `path`, where it is one.
    fn gone_below(&mut self, path: &[u8], lower: Option<&Seen>) -> Result<()> {
        match lower.is_some_and(Seen::is_directory) {
            true => self.below(path, &BTreeSet::new(), Below::Gone),
            false => Ok(()),
        }
    }

    /// Names everything in the directory below the layer at `path`, except the entries `but` in it.
    fn below(&mut self, path: &[u8], but: &BTreeSet<&[u8]>, become_what: Below) -> Result<()> {
        let mut waiting = vec![path.to_vec()];
        while let Some(directory) = waiting.pop() {
            let handle = match self.lower.directory(&directory) {
                // Another file system is mounted there; a layer does not show it.
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

    /// What is below the layer at `path`, in `directory`, shows again.
    fn back(&mut self, directory: BorrowedFd<'_>, path: &[u8], seen: &Seen) -> Result<()> {
        match seen.kind() {
            FileType::RegularFile => self.found.file(&self.lower_held, path, seen)?,
            FileType::Directory => self.found.directory(path, seen, Some(seen))?,
            FileType::Symlink => drop(self.found.link(directory, path, seen)?),
            _ => {}
        }
        Ok(())
    }

    /// What was in the layer at the mark and is not any more: there, what is below shows again, or nothing is.
    fn vanished(&mut self) -> Result<()> {
        for path in self.found.known() {
            if self.found.now(&path).is_some() {
                continue;
            }
            let lower = match self.shows_through(&path) {
                true => self.lower.look_at(&path).at(&path)?,
                false => None,
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

    /// Whether what is below the layer shows at `path`, which is not in the layer: through the nearest directory above it that is.
    fn shows_through(&self, path: &[u8]) -> bool {
        let above = prefixes(split(path).0).filter_map(|above| self.found.now(above));
        above.last().is_some_and(is_merged)
    }
}

/// What becomes of the entries of a directory below the layer.
#[derive(Debug, Clone, Copy)]
enum Below {
    Gone,
    Back,
}

fn is_lower_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}
