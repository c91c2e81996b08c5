//! Looking a checkout over: what of it is as it should be, and what has to be done.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use garret_core::{EntryKind, Exclusions, Image, PathChange, Result};
use rustix::fs::{FileType, readlinkat};
use rustix::io::Errno;

use super::filling::Work;
use super::manifest::Records;
use super::placing::TEMPORARY;
use super::wanted::{Everything, Wanted, What};
use crate::effects::beneath::{Tree, join, look, names, split};
use crate::effects::error::At;
use crate::effects::seen::Seen;

const COMPARED_BITS: u32 = 0o1777;

/// Looks at every entry of the checkout. What is kept out of history is left as it is, but for what a process that died left half made.
pub(super) fn survey(tree: &OwnedFd, wanted: Everything, records: &Records, excluded: &Exclusions) -> Result<Work> {
    let mut work = Work {
        removed: Vec::new(),
        wanted,
    };
    let mut reach = Tree::new(tree.as_fd());
    let mut waiting = vec![Vec::new()];
    while let Some(directory) = waiting.pop() {
        let handle = match reach.directory(&directory) {
            Err(Errno::XDEV) => continue,
            handle => handle.at(&directory)?,
        };
        for name in names(&handle).at(&directory)? {
            let path = join(&directory, &name);
            let Some(stat) = look(&handle, &name).at(&path)? else {
                continue;
            };
            let seen = Seen::of(&stat);
            let is_excluded = excluded.covers_bytes(&path, seen.is_directory());
            let is_right = match work.wanted.get(&path) {
                _ if name.starts_with(TEMPORARY) => false,
                _ if is_excluded => true,
                Some(wanted) => {
                    let record = records.get(&path).filter(|record| record.seen == seen);
                    let version = record.map(|record| record.version);
                    is_as_wanted(handle.as_fd(), &path, &seen, version, wanted).at(&path)?
                }
                None => false,
            };
            let is_wanted = work.wanted.contains_key(&path) || is_excluded;
            match is_right {
                true => drop(work.wanted.remove(&path)),
                false if !is_wanted || name.starts_with(TEMPORARY) => work.removed.push(path.clone()),
                false => {}
            }
            if seen.is_directory() && is_wanted {
                waiting.push(path);
            }
        }
    }
    work.removed.sort();
    work.wanted.retain(|_, wanted| wanted.what != What::OutOfReach);
    Ok(work)
}

/// Whether the entry is what it should be; `version` is that of its content, where it is as it was left.
fn is_as_wanted(
    directory: BorrowedFd<'_>,
    path: &[u8],
    seen: &Seen,
    version: Option<u64>,
    wanted: &Wanted,
) -> Result<bool, Errno> {
    let has_bits = |mode: u32| seen.bits() & COMPARED_BITS == mode & COMPARED_BITS;
    Ok(match &wanted.what {
        What::OutOfReach => true,
        What::Directory { mode } => seen.is_directory() && has_bits(*mode),
        What::Symlink { target } => {
            seen.kind() == FileType::Symlink
                && readlinkat(directory, split(path).1, Vec::new())?.as_bytes() == target.as_bytes()
        }
        What::File {
            size,
            mode,
            version: wanted,
        } => {
            let has_content = wanted.is_some() && *wanted == version && *size == seen.size;
            seen.kind() == FileType::RegularFile && has_content && mode.is_none_or(has_bits)
        }
    })
}

/// What the journal changed, as work; `None` where what is there is not what the journal says was there, so that everything has to be
/// looked at.
pub(super) fn changed(tree: &OwnedFd, changes: &[PathChange], excluded: &Exclusions) -> Result<Option<Work>> {
    let mut work = Work::default();
    let mut reach = Tree::new(tree.as_fd());
    for change in changes {
        let path = change.path.as_bytes();
        let there = reach.look_at(path).at(path)?.map(|stat| Seen::of(&stat));
        let is_directory = match &there {
            Some(seen) => seen.is_directory(),
            None => [&change.after, &change.before]
                .into_iter()
                .flatten()
                .next()
                .is_some_and(is_directory),
        };
        if excluded.covers_bytes(path, is_directory) {
            if let (None, Some(wanted)) = (there, change.after.as_ref().and_then(Wanted::of)) {
                work.wanted.insert(path.to_vec(), wanted);
            }
            continue;
        }
        let is_as = |image: &Option<Image>| is_as(there.as_ref(), image.as_ref(), excluded);
        // A layer may have left it before the journal's turn came.
        if !is_as(&change.before) && !is_as(&change.after) {
            return Ok(None);
        }
        match change.after.as_ref().and_then(Wanted::of) {
            Some(wanted) => drop(work.wanted.insert(path.to_vec(), wanted)),
            None => work.removed.push(path.to_vec()),
        }
    }
    Ok(Some(work))
}

fn is_directory(image: &Image) -> bool {
    image.kind == EntryKind::Directory
}

/// Whether what is there is what the image says, as far as a look tells.
fn is_as(there: Option<&Seen>, image: Option<&Image>, excluded: &Exclusions) -> bool {
    match (image.and_then(Wanted::of), there) {
        (None, None) => true,
        // A directory that was kept for what is kept out of history in it.
        (None, Some(there)) => there.is_directory() && !excluded.is_empty(),
        (Some(_), None) => false,
        (Some(before), Some(there)) => match before.what {
            What::OutOfReach => true,
            What::Directory { mode } => there.is_directory() && has_bits(there, mode),
            What::Symlink { .. } => there.kind() == FileType::Symlink,
            What::File { size, mode, .. } => {
                let is_file = there.kind() == FileType::RegularFile && there.size == size;
                is_file && mode.is_none_or(|mode| has_bits(there, mode))
            }
        },
    }
}

fn has_bits(seen: &Seen, mode: u32) -> bool {
    seen.bits() & COMPARED_BITS == mode & COMPARED_BITS
}

/// What differs between what should be there and what was left there, for files without a journal.
pub(super) fn compared(tree: &OwnedFd, wanted: Everything, records: &Records, excluded: &Exclusions) -> Result<Work> {
    let mut work = Work::default();
    let mut reach = Tree::new(tree.as_fd());
    let paths: BTreeSet<_> = wanted.keys().cloned().collect();
    for (path, wanted) in wanted {
        let there = reach.look_at(&path).at(&path)?.map(|stat| Seen::of(&stat));
        let is_right = match there {
            None => false,
            Some(seen) if excluded.covers_bytes(&path, seen.is_directory()) => true,
            Some(seen) => {
                let above = reach.directory(split(&path).0).at(&path)?;
                let record = records.get(&path).filter(|record| record.seen == seen);
                let version = record.map(|record| record.version);
                is_as_wanted(above.as_fd(), &path, &seen, version, &wanted).at(&path)?
            }
        };
        if !is_right && wanted.what != What::OutOfReach {
            work.wanted.insert(path, wanted);
        }
    }
    let gone = records
        .iter()
        .filter(|(path, record)| !paths.contains(*path) && !excluded.covers_bytes(path, record.seen.is_directory()));
    work.removed = gone.map(|(path, _)| path.clone()).collect();
    Ok(work)
}
