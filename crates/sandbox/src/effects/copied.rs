//! Compares a whole copy of a bench with the bench, if there is no overlay to read the changes from.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use garret_core::{EffectLimits, Effects, Mark, Result};
use rustix::fs::{FileType, OFlags, fstat, readlinkat};
use rustix::io::Errno;

use super::beneath::{MAX_PATH_BYTES, Tree, join, look, names, open};
use super::error::At;
use super::found::{Found, has_other_names, held};
use super::seen::{Meaning, Seen};

const PIECE_BYTES: usize = 128 * 1024;
/// The bits of a mode that are compared: a copy never has the others.
pub(super) const COMPARED_BITS: u32 = 0o1777;

/// A directory that waits to be compared.
struct Waiting {
    path: Vec<u8>,
    /// Whether the bench has a directory at the same path.
    is_on_bench: bool,
}

struct Comparing<'a> {
    copy: Tree<'a>,
    bench: Tree<'a>,
    copy_held: Arc<OwnedFd>,
    is_first: bool,
    found: Found<'a>,
    waiting: Vec<Waiting>,
}

pub(super) fn compare(
    copy: BorrowedFd<'_>,
    bench: BorrowedFd<'_>,
    since: Option<&Mark>,
    limits: EffectLimits,
) -> Result<Effects> {
    let mut comparing = Comparing {
        copy: Tree::new(copy),
        bench: Tree::new(bench),
        copy_held: held(copy)?,
        is_first: since.is_none(),
        found: Found::new(since, limits),
        waiting: vec![Waiting {
            path: Vec::new(),
            is_on_bench: true,
        }],
    };
    while let Some(waiting) = comparing.waiting.pop() {
        comparing.directory(&waiting)?;
    }
    for path in comparing.found.known() {
        if comparing.found.now(&path).is_none() {
            comparing.found.gone(&path)?;
        }
    }
    Ok(comparing.found.into_effects())
}

impl Comparing<'_> {
    fn directory(&mut self, waiting: &Waiting) -> Result<()> {
        let path = &waiting.path[..];
        let copy = self.copy.directory(path).at(path)?;
        let bench = if waiting.is_on_bench {
            Some(self.bench.directory(path).at(path)?)
        } else {
            None
        };
        if path.is_empty() {
            self.found.note(path, Meaning::Own, &Seen::of(&fstat(&copy).at(path)?));
        }
        // Without a mark, the entries that the copy has from the bench do not count against the limit.
        let on_bench = match &bench {
            Some(bench) if self.is_first => names(bench).at(path)?.len(),
            _ => 0,
        };
        let names = self.found.names(&copy, path, on_bench)?;
        for name in &names {
            self.entry(path, copy.as_fd(), bench.as_ref().map(AsFd::as_fd), name)?;
        }
        match bench {
            Some(bench) if self.is_first => self.missing(path, &bench, &names),
            _ => Ok(()),
        }
    }

    fn entry(&mut self, above: &[u8], copy: BorrowedFd<'_>, bench: Option<BorrowedFd<'_>>, name: &[u8]) -> Result<()> {
        let path = join(above, name);
        if path.len() > MAX_PATH_BYTES {
            self.found.drop_named(&path, "path that is too long");
            return Ok(());
        }
        let Some(stat) = look(copy, name).at(&path)? else {
            return Ok(());
        };
        let seen = Seen::of(&stat);
        let on_bench = bench.map(|bench| look(bench, name)).transpose().at(&path)?.flatten();
        let on_bench = on_bench.map(|stat| Seen::of(&stat));
        if seen.is_directory() {
            self.waiting.push(Waiting {
                path: path.clone(),
                is_on_bench: on_bench.is_some_and(|on_bench| on_bench.is_directory()),
            });
        }
        let is_same = self.found.note(&path, meaning_of(&seen), &seen);
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
        self.found.name(&path, &stat);
        self.changed(&path, copy, &seen, on_bench.as_ref())
    }

    fn changed(&mut self, path: &[u8], copy: BorrowedFd<'_>, seen: &Seen, on_bench: Option<&Seen>) -> Result<()> {
        self.found.count(path)?;
        let was_known = on_bench.is_some() || self.found.before(path).is_some();
        let is_kept = match seen.kind() {
            FileType::RegularFile => {
                self.found.file(&self.copy_held, path, seen)?;
                true
            }
            FileType::Directory => {
                self.found.directory(path, seen, on_bench)?;
                true
            }
            FileType::Symlink => self.found.link(copy, path, seen)?,
            _ => {
                self.found.special(path, seen);
                false
            }
        };
        if !is_kept && was_known {
            self.found.gone(path)?;
        }
        match on_bench {
            Some(on_bench) if self.is_first && on_bench.is_directory() && !seen.is_directory() => self.gone_below(path),
            _ => Ok(()),
        }
    }

    /// Records as removed the entries of the bench in the directory at `path` that are not among `names`.
    fn missing(&mut self, path: &[u8], bench: &OwnedFd, names: &[Vec<u8>]) -> Result<()> {
        let names: BTreeSet<&[u8]> = names.iter().map(Vec::as_slice).collect();
        for name in self::names(bench).at(path)? {
            if names.contains(&name[..]) {
                continue;
            }
            let child = join(path, &name);
            match look(bench, &name).at(&child)?.map(|stat| Seen::of(&stat)) {
                // A copy never takes such an entry, so it was not removed.
                Some(seen) if is_special(&seen) => continue,
                Some(seen) if seen.is_directory() => self.gone_below(&child)?,
                _ => {}
            }
            self.found.count(&child)?;
            self.found.gone(&child)?;
        }
        Ok(())
    }

    /// Records as removed everything in the directory at `path` of the bench.
    fn gone_below(&mut self, path: &[u8]) -> Result<()> {
        let mut waiting = vec![path.to_vec()];
        while let Some(directory) = waiting.pop() {
            let handle = match self.bench.directory(&directory) {
                Err(Errno::XDEV) => continue,
                handle => handle.at(&directory)?,
            };
            for name in names(&handle).at(&directory)? {
                let child = join(&directory, &name);
                self.found.count(&child)?;
                self.found.gone(&child)?;
                let stat = look(&handle, &name).at(&child)?;
                if stat.is_some_and(|stat| Seen::of(&stat).is_directory()) {
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
        seen: &Seen,
        on_bench: Option<&Seen>,
    ) -> Result<bool> {
        let (Some(bench), Some(on_bench)) = (bench, on_bench) else {
            return Ok(false);
        };
        let compared = |seen: &Seen| (seen.kind(), seen.bits() & COMPARED_BITS);
        if seen.kind() == FileType::Symlink && on_bench.kind() == FileType::Symlink {
            let name = super::beneath::split(path).1;
            let target = |directory| readlinkat(directory, name, Vec::new());
            return Ok(target(copy).at(path)? == target(bench).at(path)?);
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
        let copy = File::from(self.copy.file(path).at(path)?);
        let bench = File::from(self.bench.file(path).at(path)?);
        same_bytes(copy, bench).at(path)
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

pub(super) fn meaning_of(seen: &Seen) -> Meaning {
    match seen.kind() {
        FileType::RegularFile => Meaning::File,
        FileType::Directory => Meaning::Own,
        FileType::Symlink => Meaning::Symlink,
        _ => Meaning::Dropped,
    }
}

pub(super) fn is_special(seen: &Seen) -> bool {
    meaning_of(seen) == Meaning::Dropped
}

/// Opens a directory without read access, for making entries in it.
pub(super) fn hold(top: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    open(top, path, OFlags::PATH | OFlags::DIRECTORY)
}
