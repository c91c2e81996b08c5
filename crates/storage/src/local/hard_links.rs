//! Files with several names (hard links): adding a name, and separating one name from the others before its file is
//! changed in place.
//!
//! Files are replaced and not rewritten, so a write separates a name from the others by itself. An append or a mode
//! change would show under every name, which no other storage knows: they change a copy, which then replaces the one
//! name.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use garret_core::{Content, EntryKind, Error, FileIdentity, Follow, HardLinkedFile, MutationOutcome, WsPath};
use rustix::fs::Stat;
use rustix::io::{Errno, pread};

use super::batch::{AttemptResult, BatchAttempt, ResultAtPath};
use super::beneath::{LocalFinalLink, LocalLinkRules};
use super::copy::CopySource;
use super::directory_entries::{stat_kind, stat_size};
use super::directory_lock::{LockedDirectory, inode_identity};
use super::entry_location::EntryLocation;
use super::owner::FileOwner;
use super::temporary_files::TemporaryFile;
use super::version::StatFingerprint;

const PIECE_BYTES: usize = 128 * 1024;

impl BatchAttempt<'_> {
    /// Makes the location another name of an existing file with this content, if the content names one. Returns `None`
    /// if that file is not exactly the one that would be written, or cannot get another name.
    pub(super) fn link_existing_file(
        &mut self,
        place: &EntryLocation,
        content: &Content,
        mode: Option<u32>,
        parents: bool,
    ) -> AttemptResult<Option<MutationOutcome>> {
        let Some(other) = content.other_name().filter(|other| **other != place.real) else {
            return Ok(None);
        };
        let Some((file, stat)) = self.open_other_name(other) else {
            return Ok(None);
        };
        let applied = MutationOutcome {
            // Each further name changes ctime and with it the version.
            version: None,
            size: content.len(),
            created: place.entry.is_none(),
            change: None,
        };
        let parent = self.ensure_parent(place, parents)?;
        if !has_wanted_attributes(&stat, place, &parent, mode) || !has_content(&file, &stat, content, &place.real)? {
            return Ok(None);
        }
        if place.entry.as_ref().is_some_and(|there| is_same_inode(there, &stat)) {
            return Ok(Some(applied));
        }
        self.remember_linked_file(&stat);
        // A file system without hard links, or too many links: the content is written as a new file instead.
        let Ok(mut named) = TemporaryFile::link_existing(file, &parent, &*self.shared.ids) else {
            return Ok(None);
        };
        self.publish_file(&mut named, &parent, place)?;
        self.named_again.insert(other.clone());
        Ok(Some(applied))
    }

    /// Remembers the state of a file before this batch changes the number of its names.
    pub(super) fn remember_linked_file(&mut self, file: &Stat) {
        let first = self.several.entry(inode_identity(file));
        first.or_insert_with(|| StatFingerprint::from_stat(file));
    }

    /// Copies the file at the location, to be changed under this one of its names; `None` if it has no other name.
    pub(super) fn copy_if_linked(
        &self,
        place: &EntryLocation,
        file: &OwnedFd,
        stat: &Stat,
    ) -> AttemptResult<Option<TemporaryFile>> {
        let Some(parent) = place.parent.as_ref().filter(|_| has_other_names(stat)) else {
            return Ok(None);
        };
        let source = CopySource {
            file: file.try_clone().map_err(|_| Errno::MFILE).at_path(&place.real)?,
            stat: *stat,
            real: place.real.clone(),
        };
        let (copy, _) = self.duplicate_file(&source, parent, place).at_path(&place.real)?;
        Ok(Some(copy))
    }

    fn open_other_name(&self, path: &WsPath) -> Option<(OwnedFd, Stat)> {
        let way = LocalLinkRules {
            last: LocalFinalLink::Kept,
            follow: Follow::Never,
        };
        let root = &self.shared.root;
        root.with_real_path(path, way, |real| root.open_file(real)).ok()
    }
}

/// Returns whether a file has the mode and the owner that a new file at the location would get.
fn has_wanted_attributes(stat: &Stat, place: &EntryLocation, parent: &Arc<LockedDirectory>, mode: Option<u32>) -> bool {
    let kept = place.entry.as_ref().map(|there| there.st_mode);
    let has_mode = mode.or(kept).is_some_and(|mode| (mode ^ stat.st_mode) & 0o7777 == 0);
    let has_owner = match FileOwner::for_new_file(place.entry.as_ref(), parent.owner()) {
        Some(owner) => owner == FileOwner::from_stat(stat),
        None => stat.st_uid == rustix::process::geteuid().as_raw(),
    };
    has_mode && has_owner
}

/// Returns whether the content of the file equals `content`.
fn has_content(file: &OwnedFd, stat: &Stat, content: &Content, path: &WsPath) -> AttemptResult<bool> {
    if stat_size(stat) != content.len() {
        return Ok(false);
    }
    let failed = |error: Error| error.at_path(path);
    let mut reader = content.open().map_err(failed)?;
    let (mut wanted, mut found, mut at) = (Vec::new(), vec![0; PIECE_BYTES], 0);
    while reader.append_to(&mut wanted, PIECE_BYTES).map_err(failed)? > 0 {
        let part = &mut found[..wanted.len()];
        if read_until_full(file, part, at).at_path(path)? < wanted.len() || part != wanted.as_slice() {
            return Ok(false);
        }
        at += wanted.len() as u64;
        wanted.clear();
    }
    Ok(true)
}

/// Reads into the buffer until it is full or the file ends.
fn read_until_full(file: &OwnedFd, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
    let mut count = 0;
    while count < buffer.len() {
        match pread(file, &mut buffer[count..], at + count as u64) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(count)
}

/// Returns whether the entry is a file with several names.
pub(super) fn has_other_names(stat: &Stat) -> bool {
    stat_kind(stat) == EntryKind::File && stat.st_nlink > 1
}

/// Returns the identity of a file that has several names.
#[allow(clippy::unnecessary_cast, reason = "the field has other types on other machines")]
pub(super) fn hard_linked(stat: &Stat) -> Option<HardLinkedFile> {
    let (device, number) = inode_identity(stat);
    has_other_names(stat).then_some(HardLinkedFile {
        identity: FileIdentity { device, number },
        names: stat.st_nlink as u64,
    })
}

pub(super) fn is_same_inode(one: &Stat, other: &Stat) -> bool {
    inode_identity(one) == inode_identity(other)
}
