//! Writing whole files: a temporary file beside the target, renamed over it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use garret_core::{Applied, Content, Error, Precondition, Version, WsPath};
use rustix::fs::{Mode, OFlags, Stat, fchmod, fstat};
use rustix::io::{Errno, write};

use super::batch::{At, Attempt, Step};
use super::beneath::Last;
use super::error::Cause;
use super::lock::{Locked, identity};
use super::names::size_in;
use super::owner::Owner;
use super::place::Place;
use super::reopen::{expect_file, open_file};
use super::temp::Temporary;
use super::version::{ContentHash, ContentHasher, Snapshot};

pub(super) const FILE_MODE: u32 = 0o644;
const PIECE_BYTES: usize = 1024 * 1024;

impl Attempt<'_> {
    pub(super) fn write(
        &mut self,
        path: &WsPath,
        content: &Content,
        precondition: &Precondition,
        mode: Option<u32>,
        parents: bool,
    ) -> Step<Applied> {
        let place = self.place(path, Last::Followed)?;
        self.check_file(&place, precondition)?;
        match self.name_again(&place, content, mode, parents)? {
            Some(applied) => Ok(applied),
            None => self.put(&place, content, mode, parents),
        }
    }

    /// Writes the content to the file at the location; makes or replaces the file.
    pub(super) fn put(&mut self, place: &Place, content: &Content, mode: Option<u32>, parents: bool) -> Step<Applied> {
        let parent = self.parent_of(place, parents)?;
        let (mut file, hash) = self.stage(&parent, content, place, mode)?;
        self.publish(&mut file, &parent, place)?;
        // After the rename, because the rename sets ctime, which is part of the version.
        let version = self.version_of(&file.file, || Ok(hash.of(content))).at(&place.real)?;
        Ok(Applied {
            version: Some(version),
            size: content.len(),
            created: place.entry.is_none(),
        })
    }

    /// Writes the content to a temporary file with the final owner and mode.
    fn stage(
        &self,
        parent: &Arc<Locked>,
        content: &Content,
        place: &Place,
        mode: Option<u32>,
    ) -> Step<(Temporary, Staged)> {
        let (at, before) = (&place.real, place.entry.as_ref());
        let kept = before.map(|stat| stat.st_mode & 0o7777);
        let wanted = mode.map(|mode| mode & 0o7777).or(kept);
        // Without a wanted mode, the umask decides, as for every new file.
        let file = Temporary::create(parent, &*self.shared.ids, wanted.unwrap_or(FILE_MODE)).at_new(at)?;
        let hash = match content.as_bytes() {
            Some(bytes) => write_all(&file.file, bytes).map(|()| Staged::AtHand).at(at)?,
            None => Staged::Hashed(stream(&file.file, content, at)?),
        };
        let owner = Owner::wanted(before, parent.owner());
        dress(&file.file, owner, wanted).at(at)?;
        self.sync_file(&file.file).at(at)?;
        Ok((file, hash))
    }

    /// Returns the version of a file that this batch has just changed.
    pub(super) fn version_of(
        &self,
        file: impl AsFd,
        hash: impl FnOnce() -> Result<ContentHash, Errno>,
    ) -> Result<Version, Errno> {
        Snapshot::of(&fstat(file)?).version(self.shared.clock.now(), hash)
    }

    /// Returns the version of a file, if this is the only mutation of the batch.
    pub(super) fn version_if_alone(&self, file: &OwnedFd) -> Option<Version> {
        if !self.is_alone {
            return None;
        }
        self.version_of(file, || ContentHash::of_file(file)).ok()
    }

    /// Checks that the location holds a file or nothing, and that the precondition holds.
    pub(super) fn check_file(&self, place: &Place, precondition: &Precondition) -> Step<()> {
        if place.real.is_root() {
            return Err(Error::is_a_directory(&place.real).into());
        }
        match &place.entry {
            Some(stat) => expect_file(stat).at(&place.real)?,
            None if place.is_blocked => return Err(place.why_missing().into()),
            None => {}
        }
        self.check(place, precondition)
    }

    /// Checks the precondition against the file at the location, or against its absence.
    pub(super) fn check(&self, place: &Place, precondition: &Precondition) -> Step<()> {
        let holds = match (precondition, &place.entry) {
            (Precondition::Any, _) | (Precondition::Absent, None) => true,
            (Precondition::Absent, Some(_)) | (Precondition::Version(_), None) => false,
            (Precondition::Version(wanted), Some(stat)) => self.is_version(place, stat, wanted).at(&place.real)?,
        };
        if holds {
            return Ok(());
        }
        Err(precondition.refusal(&place.real, self.current_version(place)).into())
    }

    /// Returns whether the file has the version `wanted`.
    fn is_version(&self, place: &Place, stat: &Stat, wanted: &Version) -> Result<bool, Cause> {
        let now = Snapshot::of(stat);
        if now.matches(wanted, || hash_of(place))? {
            return Ok(true);
        }
        // A hard link that this batch made or removed changed ctime, but not the content: the state from before the
        // batch counts.
        match self.several.get(&identity(stat)) {
            Some(first) if first.is_but_for_names(&now) => first.matches(wanted, || hash_of(place)),
            _ => Ok(false),
        }
    }

    /// Returns the current version of the file, to report it with a failed precondition.
    fn current_version(&self, place: &Place) -> Option<Version> {
        let parent = place.parent.as_ref()?;
        let (file, stat) = open_file(parent, place.name().as_bytes(), OFlags::RDONLY).ok()?;
        let version = Snapshot::of(&stat).version(self.shared.clock.now(), || ContentHash::of_file(&file));
        version.ok()
    }
}

/// The hash of the written content: computed while the content was streamed, or computed later from the bytes in
/// memory.
enum Staged {
    AtHand,
    Hashed(ContentHash),
}

impl Staged {
    fn of(self, content: &Content) -> ContentHash {
        match self {
            Self::AtHand => ContentHash::of(content.as_bytes().expect("the bytes are at hand")),
            Self::Hashed(hash) => hash,
        }
    }
}

/// Writes the content piece by piece; returns its hash.
fn stream(file: &OwnedFd, content: &Content, path: &WsPath) -> Step<ContentHash> {
    let mut reader = content.open().map_err(|error| error.at(path))?;
    let mut hasher = ContentHasher::default();
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    while reader
        .append_to(&mut piece, PIECE_BYTES)
        .map_err(|error| error.at(path))?
        > 0
    {
        write_all(file, &piece).at(path)?;
        // Hashed on the way, because reading the file again for its version would cost as much as the write.
        hasher.add(&piece);
        piece.clear();
    }
    Ok(hasher.finish())
}

fn hash_of(place: &Place) -> Result<ContentHash, Cause> {
    let parent = place.parent.as_ref().expect("an entry has a directory");
    let (file, stat) = open_file(parent, place.name().as_bytes(), OFlags::RDONLY)?;
    let known = place.entry.as_ref().map(Snapshot::of);
    if known != Some(Snapshot::of(&stat)) {
        return Err(Cause::Unsteady);
    }
    Ok(ContentHash::of_file(&file)?)
}

/// Sets the owner and the mode of a new file.
pub(super) fn dress(file: &OwnedFd, owner: Option<Owner>, mode: Option<u32>) -> Result<(), Errno> {
    if owner.is_none() && mode.is_none() {
        return Ok(());
    }
    let now = fstat(file)?;
    // `chown` clears the set-user-id and set-group-id bits, so the mode is set after it.
    let is_given = owner.is_some_and(|owner| owner != Owner::of(&now) && owner.take(file));
    let mode = mode.or_else(|| is_given.then_some(now.st_mode & 0o7777));
    match mode {
        Some(mode) if is_given || now.st_mode & 0o7777 != mode => fchmod(file, Mode::from_raw_mode(mode)),
        _ => Ok(()),
    }
}

pub(super) fn write_all(file: impl AsFd, content: &[u8]) -> Result<(), Errno> {
    let mut rest = content;
    while !rest.is_empty() {
        match write(&file, rest) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Returns the size of the entry at the location, 0 if there is none.
pub(super) fn size_at(place: &Place) -> u64 {
    place.entry.as_ref().map_or(0, size_in)
}
