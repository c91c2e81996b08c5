//! Compares a whole copy of a bench with the bench, if there is no overlay to read the changes from.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use garret_core::path::join_path;
use garret_core::{EffectLimits, Effects, EffectsMark, Result};
use garret_handles::{HandleTree, MAX_PATH_BYTES, list_names, stat_entry};
use rustix::fs::{FileType, fstat, readlinkat};
use rustix::io::Errno;

use super::effect_collector::{EffectCollector, duplicate_handle, has_other_names};
use super::entry_status::{EntryMeaning, EntryStatus};
use super::path_error::ErrnoAtPath;

const PIECE_BYTES: usize = 128 * 1024;
/// The bits of a mode that are compared: a copy never has the others.
pub(crate) const COMPARED_BITS: u32 = 0o1777;

/// A directory that waits to be compared.
struct UncomparedDirectory {
    path: Vec<u8>,
    /// Whether the bench has a directory at the same path.
    is_on_bench: bool,
}

struct CopyComparison<'a> {
    copy: HandleTree<'a>,
    bench: HandleTree<'a>,
    copy_held: Arc<OwnedFd>,
    is_first: bool,
    found: EffectCollector<'a>,
    waiting: Vec<UncomparedDirectory>,
}

/// Reads the effects on `copy`, a whole copy of `bench`; with `since`, only those after that mark.
///
/// Without a mark, files of the same size, bits and time of modification are taken to be the same. A mark of
/// [`super::mark_tree`] compares more than that, including the time of change, which a command cannot set. Effects over a
/// limit are `too_large`, as in [`super::read_upper_effects`].
pub fn read_copy_effects(
    copy: BorrowedFd<'_>,
    bench: BorrowedFd<'_>,
    since: Option<&EffectsMark>,
    limits: EffectLimits,
) -> Result<Effects> {
    let mut comparing = CopyComparison {
        copy: HandleTree::new(copy),
        bench: HandleTree::new(bench),
        copy_held: duplicate_handle(copy)?,
        is_first: since.is_none(),
        found: EffectCollector::new(since, limits),
        waiting: vec![UncomparedDirectory {
            path: Vec::new(),
            is_on_bench: true,
        }],
    };
    while let Some(waiting) = comparing.waiting.pop() {
        comparing.compare_directory(&waiting)?;
    }
    for path in comparing.found.marked_paths() {
        if comparing.found.fingerprint_now(&path).is_none() {
            comparing.found.record_removed(&path)?;
        }
    }
    Ok(comparing.found.into_effects())
}

impl CopyComparison<'_> {
    fn compare_directory(&mut self, waiting: &UncomparedDirectory) -> Result<()> {
        let path = &waiting.path[..];
        let copy = self.copy.open_directory(path).at_path(path)?;
        let bench = if waiting.is_on_bench {
            Some(self.bench.open_directory(path).at_path(path)?)
        } else {
            None
        };
        if path.is_empty() {
            self.found.record_fingerprint(
                path,
                EntryMeaning::Own,
                &EntryStatus::from_stat(&fstat(&copy).at_path(path)?),
            );
        }
        // Without a mark, the entries that the copy has from the bench do not count against the limit.
        let on_bench = match &bench {
            Some(bench) if self.is_first => list_names(bench).at_path(path)?.len(),
            _ => 0,
        };
        let names = self.found.list_directory(&copy, path, on_bench)?;
        for name in &names {
            self.compare_entry(path, copy.as_fd(), bench.as_ref().map(AsFd::as_fd), name)?;
        }
        match bench {
            Some(bench) if self.is_first => self.record_missing(path, &bench, &names),
            _ => Ok(()),
        }
    }

    fn compare_entry(
        &mut self,
        above: &[u8],
        copy: BorrowedFd<'_>,
        bench: Option<BorrowedFd<'_>>,
        name: &[u8],
    ) -> Result<()> {
        let path = join_path(above, name);
        if path.len() > MAX_PATH_BYTES {
            self.found.record_dropped(&path, "path that is too long");
            return Ok(());
        }
        let Some(stat) = stat_entry(copy, name).at_path(&path)? else {
            return Ok(());
        };
        let seen = EntryStatus::from_stat(&stat);
        let on_bench = match bench {
            Some(bench) => EntryStatus::of_entry(bench, name).at_path(&path)?,
            None => None,
        };
        if seen.is_directory() {
            self.waiting.push(UncomparedDirectory {
                path: path.clone(),
                is_on_bench: on_bench.is_some_and(|on_bench| on_bench.is_directory()),
            });
        }
        let is_same = self.found.record_fingerprint(&path, meaning_of(&seen), &seen);
        let is_same = if self.is_first {
            // A new copy has no file with several names, so the command added one: the file is reported with all of
            // them.
            !has_other_names(&stat) && self.is_as_on_bench(&path, copy, bench, &seen, on_bench.as_ref())?
        } else {
            is_same
        };
        if is_same {
            return Ok(());
        }
        self.found.record_file_name(&path, &stat);
        self.record_change(&path, copy, &seen, on_bench.as_ref())
    }

    fn record_change(
        &mut self,
        path: &[u8],
        copy: BorrowedFd<'_>,
        seen: &EntryStatus,
        on_bench: Option<&EntryStatus>,
    ) -> Result<()> {
        self.found.count_entry(path)?;
        let was_known = on_bench.is_some() || self.found.fingerprint_before(path).is_some();
        let is_kept = match seen.kind() {
            FileType::RegularFile => {
                self.found.record_file(&self.copy_held, path, seen)?;
                true
            }
            FileType::Directory => {
                self.found.record_directory(path, seen, on_bench)?;
                true
            }
            FileType::Symlink => self.found.record_link(copy, path, seen)?,
            _ => {
                self.found.record_special(path, seen);
                false
            }
        };
        if !is_kept && was_known {
            self.found.record_removed(path)?;
        }
        match on_bench {
            Some(on_bench) if self.is_first && on_bench.is_directory() && !seen.is_directory() => {
                self.record_removed_below(path)
            }
            _ => Ok(()),
        }
    }

    /// Records as removed the entries of the bench in the directory at `path` that are not among `names`.
    fn record_missing(&mut self, path: &[u8], bench: &OwnedFd, names: &[Vec<u8>]) -> Result<()> {
        let names: BTreeSet<&[u8]> = names.iter().map(Vec::as_slice).collect();
        for name in list_names(bench).at_path(path)? {
            if names.contains(&name[..]) {
                continue;
            }
            let child = join_path(path, &name);
            match EntryStatus::of_entry(bench, &name).at_path(&child)? {
                // A copy never takes such an entry, so it was not removed.
                Some(seen) if is_special(&seen) => continue,
                Some(seen) if seen.is_directory() => self.record_removed_below(&child)?,
                _ => {}
            }
            self.found.count_entry(&child)?;
            self.found.record_removed(&child)?;
        }
        Ok(())
    }

    /// Records as removed everything in the directory at `path` of the bench.
    fn record_removed_below(&mut self, path: &[u8]) -> Result<()> {
        let mut waiting = vec![path.to_vec()];
        while let Some(directory) = waiting.pop() {
            let handle = match self.bench.open_directory(&directory) {
                Err(Errno::XDEV) => continue,
                handle => handle.at_path(&directory)?,
            };
            for name in list_names(&handle).at_path(&directory)? {
                let child = join_path(&directory, &name);
                self.found.count_entry(&child)?;
                self.found.record_removed(&child)?;
                let seen = EntryStatus::of_entry(&handle, &name).at_path(&child)?;
                if seen.is_some_and(|seen| seen.is_directory()) {
                    waiting.push(child);
                }
            }
        }
        Ok(())
    }

    fn is_as_on_bench(
        &mut self,
        path: &[u8],
        copy: BorrowedFd<'_>,
        bench: Option<BorrowedFd<'_>>,
        seen: &EntryStatus,
        on_bench: Option<&EntryStatus>,
    ) -> Result<bool> {
        let (Some(bench), Some(on_bench)) = (bench, on_bench) else {
            return Ok(false);
        };
        let compared = |seen: &EntryStatus| (seen.kind(), seen.bits() & COMPARED_BITS);
        if seen.kind() == FileType::Symlink && on_bench.kind() == FileType::Symlink {
            let name = garret_core::path::split_path(path).1;
            let target = |directory| readlinkat(directory, name, Vec::new());
            return Ok(target(copy).at_path(path)? == target(bench).at_path(path)?);
        }
        let is_plain = seen.bits() & !COMPARED_BITS == 0 || seen.is_directory();
        if compared(seen) != compared(on_bench) || !is_plain {
            return Ok(false);
        }
        if seen.is_directory() {
            return Ok(true);
        }
        if seen.kind() != FileType::RegularFile || seen.size != on_bench.size {
            return Ok(false);
        }
        Ok(seen.modified == on_bench.modified || self.has_same_content(path)?)
    }

    fn has_same_content(&mut self, path: &[u8]) -> Result<bool> {
        let copy = File::from(self.copy.open_file(path).at_path(path)?);
        let bench = File::from(self.bench.open_file(path).at_path(path)?);
        same_bytes(copy, bench).at_path(path)
    }
}

fn same_bytes(mut one: File, mut other: File) -> Result<bool, Errno> {
    let mut pieces = (Vec::new(), Vec::new());
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    loop {
        for (file, piece) in [(&mut one, &mut pieces.0), (&mut other, &mut pieces.1)] {
            piece.clear();
            file.take(PIECE_BYTES as u64).read_to_end(piece).map_err(errno)?;
        }
        match &pieces {
            (one, other) if one != other => return Ok(false),
            (one, _) if one.is_empty() => return Ok(true),
            _ => {}
        }
    }
}

fn meaning_of(seen: &EntryStatus) -> EntryMeaning {
    match seen.kind() {
        FileType::RegularFile => EntryMeaning::File,
        FileType::Directory => EntryMeaning::Own,
        FileType::Symlink => EntryMeaning::Symlink,
        _ => EntryMeaning::Dropped,
    }
}

fn is_special(seen: &EntryStatus) -> bool {
    meaning_of(seen) == EntryMeaning::Dropped
}
