//! Surveys a checkout: finds the entries that are wrong, and the work to repair them.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use garret_core::path::{join_path, split_path};
use garret_core::{EntryKind, Exclusions, PathChange, PathImage, Result};
use garret_handles::{HandleTree, list_names};
use rustix::fs::{FileType, readlinkat};
use rustix::io::Errno;

use super::bench_placer::TEMPORARY;
use super::checkout_writer::CheckoutWork;
use super::manifest::ManifestRecords;
use super::wanted_entries::{EntryForm, WantedEntries, WantedEntry};
use crate::effects::copy_comparison::COMPARED_BITS;
use crate::effects::entry_status::EntryStatus;
use crate::effects::path_error::ErrnoAtPath;

/// Compares every entry of the checkout with the wanted one. Excluded entries stay as they are, except temporary files
/// of a process that died.
pub(super) fn survey_checkout(
    tree: &OwnedFd,
    wanted: WantedEntries,
    records: &ManifestRecords,
    excluded: &Exclusions,
) -> Result<CheckoutWork> {
    let mut work = CheckoutWork {
        removed: Vec::new(),
        wanted,
    };
    let mut reach = HandleTree::new(tree.as_fd());
    let mut waiting = vec![Vec::new()];
    while let Some(directory) = waiting.pop() {
        let handle = match reach.open_directory(&directory) {
            // A mount point: its entries are not part of the checkout.
            Err(Errno::XDEV) => continue,
            handle => handle.at_path(&directory)?,
        };
        for name in list_names(&handle).at_path(&directory)? {
            let path = join_path(&directory, &name);
            let Some(seen) = EntryStatus::of_entry(&handle, &name).at_path(&path)? else {
                continue;
            };
            let is_excluded = excluded.covers_bytes(&path, seen.is_directory());
            let is_right = match work.wanted.get(&path) {
                _ if name.starts_with(TEMPORARY) => false,
                _ if is_excluded => true,
                Some(wanted) => {
                    let record = records.get(&path).filter(|record| record.seen == seen);
                    let version = record.map(|record| record.version);
                    is_as_wanted(handle.as_fd(), &path, &seen, version, wanted).at_path(&path)?
                }
                None => false,
            };
            let is_wanted = work.wanted.contains_key(&path) || is_excluded;
            if is_right {
                work.wanted.remove(&path);
            } else if !is_wanted || name.starts_with(TEMPORARY) {
                work.removed.push(path.clone());
            }
            if seen.is_directory() && is_wanted {
                waiting.push(path);
            }
        }
    }
    work.removed.sort();
    work.wanted.retain(|_, wanted| wanted.what != EntryForm::Unreadable);
    Ok(work)
}

/// Returns whether the entry is the wanted one. `version` is that of its content, if the entry is as it was written.
fn is_as_wanted(
    directory: BorrowedFd<'_>,
    path: &[u8],
    seen: &EntryStatus,
    version: Option<u64>,
    wanted: &WantedEntry,
) -> Result<bool, Errno> {
    Ok(match &wanted.what {
        EntryForm::Unreadable => true,
        EntryForm::Directory { mode } => seen.is_directory() && has_bits(seen, *mode),
        EntryForm::Symlink { target } => {
            seen.kind() == FileType::Symlink
                && readlinkat(directory, split_path(path).1, Vec::new())?.as_bytes() == target.as_bytes()
        }
        EntryForm::File {
            size,
            mode,
            version: wanted,
        } => {
            let has_content = wanted.is_some() && *wanted == version && *size == seen.size;
            seen.kind() == FileType::RegularFile && has_content && mode.is_none_or(|mode| has_bits(seen, mode))
        }
    })
}

/// Returns the changes of the journal as work; `None` if an entry is not in the state that the journal has for it, so
/// that everything must be surveyed.
pub(super) fn work_from_changes(
    tree: &OwnedFd,
    changes: &[PathChange],
    excluded: &Exclusions,
) -> Result<Option<CheckoutWork>> {
    let mut work = CheckoutWork::default();
    let mut reach = HandleTree::new(tree.as_fd());
    for change in changes {
        let path = change.path.as_bytes();
        let there = reach
            .stat_path(path)
            .at_path(path)?
            .map(|stat| EntryStatus::from_stat(&stat));
        let is_directory = match &there {
            Some(seen) => seen.is_directory(),
            None => [&change.after, &change.before]
                .into_iter()
                .flatten()
                .next()
                .is_some_and(is_directory),
        };
        if excluded.covers_bytes(path, is_directory) {
            if let (None, Some(wanted)) = (there, change.after.as_ref().and_then(WantedEntry::from_image)) {
                work.wanted.insert(path.to_vec(), wanted);
            }
            continue;
        }
        let is_as = |image: &Option<PathImage>| matches_image(there.as_ref(), image.as_ref(), excluded);
        // A layer may have written the new state before the checkout follows the journal.
        if !is_as(&change.before) && !is_as(&change.after) {
            return Ok(None);
        }
        match change.after.as_ref().and_then(WantedEntry::from_image) {
            Some(wanted) => drop(work.wanted.insert(path.to_vec(), wanted)),
            None => work.removed.push(path.to_vec()),
        }
    }
    Ok(Some(work))
}

fn is_directory(image: &PathImage) -> bool {
    image.kind == EntryKind::Directory
}

/// Returns whether the entry matches the image, as far as its stat tells.
fn matches_image(there: Option<&EntryStatus>, image: Option<&PathImage>, excluded: &Exclusions) -> bool {
    match (image.and_then(WantedEntry::from_image), there) {
        (None, None) => true,
        // The directory stayed because excluded entries are in it.
        (None, Some(there)) => there.is_directory() && !excluded.is_empty(),
        (Some(_), None) => false,
        (Some(before), Some(there)) => match before.what {
            EntryForm::Unreadable => true,
            EntryForm::Directory { mode } => there.is_directory() && has_bits(there, mode),
            EntryForm::Symlink { .. } => there.kind() == FileType::Symlink,
            EntryForm::File { size, mode, .. } => {
                let is_file = there.kind() == FileType::RegularFile && there.size == size;
                is_file && mode.is_none_or(|mode| has_bits(there, mode))
            }
        },
    }
}

fn has_bits(seen: &EntryStatus, mode: u32) -> bool {
    seen.bits() & COMPARED_BITS == mode & COMPARED_BITS
}

/// Returns the work for files without a journal: the differences between the wanted entries and those that were
/// written.
pub(super) fn work_without_journal(
    tree: &OwnedFd,
    wanted: WantedEntries,
    records: &ManifestRecords,
    excluded: &Exclusions,
) -> Result<CheckoutWork> {
    let mut work = CheckoutWork::default();
    let mut reach = HandleTree::new(tree.as_fd());
    let paths: BTreeSet<_> = wanted.keys().cloned().collect();
    for (path, wanted) in wanted {
        let there = reach
            .stat_path(&path)
            .at_path(&path)?
            .map(|stat| EntryStatus::from_stat(&stat));
        let is_right = match there {
            None => false,
            Some(seen) if excluded.covers_bytes(&path, seen.is_directory()) => true,
            Some(seen) => {
                let above = reach.open_directory(split_path(&path).0).at_path(&path)?;
                let record = records.get(&path).filter(|record| record.seen == seen);
                let version = record.map(|record| record.version);
                is_as_wanted(above.as_fd(), &path, &seen, version, &wanted).at_path(&path)?
            }
        };
        if !is_right && wanted.what != EntryForm::Unreadable {
            work.wanted.insert(path, wanted);
        }
    }
    let gone = records
        .iter()
        .filter(|(path, record)| !paths.contains(*path) && !excluded.covers_bytes(path, record.seen.is_directory()));
    work.removed = gone.map(|(path, _)| path.clone()).collect();
    Ok(work)
}
