//! Files with several names (hard links): adding a name, and separating one name from the others before its file is
//! changed in place.
//!
//! Files are replaced and not rewritten, so a write separates a name from the others by itself. An append or a mode
//! change would show under every name, which no other storage knows: they change a copy, which then replaces the one
//! name.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use garret_core::{Applied, Content, EntryKind, Error, FileIdentity, Follow, HardLinkedFile, WsPath};
use rustix::fs::Stat;
use rustix::io::{Errno, pread};

use super::batch::{At, Attempt, Step};
use super::beneath::{Last, Way};
use super::copy::Source;
use super::lock::{Locked, identity};
use super::names::{kind_in, size_in};
use super::owner::Owner;
use super::place::Place;
use super::temp::Temporary;
use super::version::Snapshot;

const PIECE_BYTES: usize = 128 * 1024;

impl Attempt<'_> {
    /// Makes the location another name of an existing file with this content, if the content names one. Returns `None`
    /// if that file is not exactly the one that would be written, or cannot get another name.
    pub(super) fn name_again(
        &mut self,
        place: &Place,
        content: &Content,
        mode: Option<u32>,
        parents: bool,
    ) -> Step<Option<Applied>> {
        let Some(other) = content.other_name().filter(|other| **other != place.real) else {
            return Ok(None);
        };
        let Some((file, stat)) = self.open_other(other) else {
            return Ok(None);
        };
        let applied = Applied {
            // Each further name changes ctime and with it the version.
            version: None,
            size: content.len(),
            created: place.entry.is_none(),
        };
        let parent = self.parent_of(place, parents)?;
        if !is_as_wanted(&stat, place, &parent, mode) || !holds(&file, &stat, content, &place.real)? {
            return Ok(None);
        }
        if place.entry.as_ref().is_some_and(|there| is_one_file(there, &stat)) {
            return Ok(Some(applied));
        }
        self.meet(&stat);
        // A file system without hard links, or too many links: the content is written as a new file instead.
        let Ok(mut named) = Temporary::name(file, &parent, &*self.shared.ids) else {
            return Ok(None);
        };
        self.publish(&mut named, &parent, place)?;
        self.named_again.insert(other.clone());
        Ok(Some(applied))
    }

    /// Remembers the state of a file before this batch changes the number of its names.
    pub(super) fn meet(&mut self, file: &Stat) {
        let first = self.several.entry(identity(file));
        first.or_insert_with(|| Snapshot::of(file));
    }

    /// Copies the file at the location, to be changed under this one of its names; `None` if it has no other name.
    pub(super) fn part(&self, place: &Place, file: &OwnedFd, stat: &Stat) -> Step<Option<Temporary>> {
        let Some(parent) = place.parent.as_ref().filter(|_| has_other_names(stat)) else {
            return Ok(None);
        };
        let source = Source {
            file: file.try_clone().map_err(|_| Errno::MFILE).at(&place.real)?,
            stat: *stat,
            real: place.real.clone(),
        };
        let (copy, _) = self.duplicate(&source, parent, place).at(&place.real)?;
        Ok(Some(copy))
    }

    fn open_other(&self, path: &WsPath) -> Option<(OwnedFd, Stat)> {
        let way = Way {
            last: Last::Kept,
            follow: Follow::Never,
        };
        let root = &self.shared.root;
        root.reach(path, way, |real| root.open_file(real)).ok()
    }
}

/// Returns whether a file has the mode and the owner that a new file at the location would get.
fn is_as_wanted(stat: &Stat, place: &Place, parent: &Arc<Locked>, mode: Option<u32>) -> bool {
    let kept = place.entry.as_ref().map(|there| there.st_mode);
    let has_mode = mode.or(kept).is_some_and(|mode| (mode ^ stat.st_mode) & 0o7777 == 0);
    let has_owner = match Owner::wanted(place.entry.as_ref(), parent.owner()) {
        Some(owner) => owner == Owner::of(stat),
        None => stat.st_uid == rustix::process::geteuid().as_raw(),
    };
    has_mode && has_owner
}

/// Returns whether the content of the file equals `content`.
fn holds(file: &OwnedFd, stat: &Stat, content: &Content, path: &WsPath) -> Step<bool> {
    if size_in(stat) != content.len() {
        return Ok(false);
    }
    let failed = |error: Error| error.at(path);
    let mut reader = content.open().map_err(failed)?;
    let (mut wanted, mut found, mut at) = (Vec::new(), vec![0; PIECE_BYTES], 0);
    while reader.append_to(&mut wanted, PIECE_BYTES).map_err(failed)? > 0 {
        let part = &mut found[..wanted.len()];
        if read_whole(file, part, at).at(path)? < wanted.len() || part != wanted.as_slice() {
            return Ok(false);
        }
        at += wanted.len() as u64;
        wanted.clear();
    }
    Ok(true)
}

/// Reads into the buffer until it is full or the file ends.
fn read_whole(file: &OwnedFd, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
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
    kind_in(stat) == EntryKind::File && stat.st_nlink > 1
}

/// Returns the identity of a file that has several names.
#[allow(clippy::unnecessary_cast, reason = "the field has other types on other machines")]
pub(super) fn hard_linked(stat: &Stat) -> Option<HardLinkedFile> {
    let (device, number) = identity(stat);
    has_other_names(stat).then_some(HardLinkedFile {
        identity: FileIdentity { device, number },
        names: stat.st_nlink as u64,
    })
}

pub(super) fn is_one_file(one: &Stat, other: &Stat) -> bool {
    identity(one) == identity(other)
}
