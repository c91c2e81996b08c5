//! Writing whole files: a temporary file beside the target, renamed over it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use garret_core::{Content, Error, MutationOutcome, Precondition, Version, WsPath};
use garret_handles::write_all;
use rustix::fs::{Mode, OFlags, Stat, fchmod, fstat};
use rustix::io::Errno;

use super::batch::{AttemptResult, BatchAttempt, ResultAtPath};
use super::beneath::LocalFinalLink;
use super::directory_entries::stat_size;
use super::directory_lock::{LockedDirectory, inode_identity};
use super::entry_handle::{expect_file, open_file};
use super::entry_location::EntryLocation;
use super::error::AccessError;
use super::owner::FileOwner;
use super::temporary_files::TemporaryFile;
use super::version::{ContentHash, ContentHasher, StatFingerprint};

pub(super) const FILE_MODE: u32 = 0o644;
const PIECE_BYTES: usize = 1024 * 1024;

impl BatchAttempt<'_> {
    pub(super) fn write(
        &mut self,
        path: &WsPath,
        content: &Content,
        precondition: &Precondition,
        mode: Option<u32>,
        parents: bool,
    ) -> AttemptResult<MutationOutcome> {
        let place = self.locate_entry(path, LocalFinalLink::Followed)?;
        self.check_file(&place, precondition)?;
        match self.link_existing_file(&place, content, mode, parents)? {
            Some(applied) => Ok(applied),
            None => self.put_file(&place, content, mode, parents),
        }
    }

    /// Writes the content to the file at the location; makes or replaces the file.
    pub(super) fn put_file(
        &mut self,
        place: &EntryLocation,
        content: &Content,
        mode: Option<u32>,
        parents: bool,
    ) -> AttemptResult<MutationOutcome> {
        let parent = self.ensure_parent(place, parents)?;
        let (mut file, hash) = self.stage_file(&parent, content, place, mode)?;
        self.publish_file(&mut file, &parent, place)?;
        // After the rename, because the rename sets ctime, which is part of the version.
        let version = self
            .version_of(&file.file, || Ok(hash.into_hash(content)))
            .at_path(&place.real)?;
        Ok(MutationOutcome {
            version: Some(version),
            size: content.len(),
            created: place.entry.is_none(),
            change: None,
        })
    }

    /// Writes the content to a temporary file with the final owner and mode.
    fn stage_file(
        &self,
        parent: &Arc<LockedDirectory>,
        content: &Content,
        place: &EntryLocation,
        mode: Option<u32>,
    ) -> AttemptResult<(TemporaryFile, StagedHash)> {
        let (at, before) = (&place.real, place.entry.as_ref());
        let kept = before.map(|stat| stat.st_mode & 0o7777);
        let wanted = mode.map(|mode| mode & 0o7777).or(kept);
        // Without a wanted mode, the umask decides, as for every new file.
        let file = TemporaryFile::create(parent, &*self.shared.ids, wanted.unwrap_or(FILE_MODE)).at_new_path(at)?;
        let hash = match content.as_bytes() {
            Some(bytes) => write_all(&file.file, bytes)
                .map(|()| StagedHash::InMemory)
                .at_path(at)?,
            None => StagedHash::Hashed(stream_content(&file.file, content, at)?),
        };
        let owner = FileOwner::for_new_file(before, parent.owner());
        set_owner_and_mode(&file.file, owner, wanted).at_path(at)?;
        self.sync_file(&file.file).at_path(at)?;
        Ok((file, hash))
    }

    /// Returns the version of a file that this batch has just changed.
    pub(super) fn version_of(
        &self,
        file: impl AsFd,
        hash: impl FnOnce() -> Result<ContentHash, Errno>,
    ) -> Result<Version, Errno> {
        StatFingerprint::from_stat(&fstat(file)?).version_at(self.shared.clock.now(), hash)
    }

    /// Returns the version of a file, if this is the only mutation of the batch.
    pub(super) fn version_if_alone(&self, file: &OwnedFd) -> Option<Version> {
        if !self.is_alone {
            return None;
        }
        self.version_of(file, || ContentHash::of_file(file)).ok()
    }

    /// Checks that the location holds a file or nothing, and that the precondition holds.
    pub(super) fn check_file(&self, place: &EntryLocation, precondition: &Precondition) -> AttemptResult<()> {
        if place.real.is_root() {
            return Err(Error::is_a_directory(&place.real).into());
        }
        match &place.entry {
            Some(stat) => expect_file(stat).at_path(&place.real)?,
            None if place.is_blocked => return Err(place.missing_error().into()),
            None => {}
        }
        self.check_precondition(place, precondition)
    }

    /// Checks the precondition against the file at the location, or against its absence.
    pub(super) fn check_precondition(&self, place: &EntryLocation, precondition: &Precondition) -> AttemptResult<()> {
        let holds = match (precondition, &place.entry) {
            (Precondition::Any, _) | (Precondition::Absent, None) => true,
            (Precondition::Absent, Some(_)) | (Precondition::Version(_), None) => false,
            (Precondition::Version(wanted), Some(stat)) => self.is_version(place, stat, wanted).at_path(&place.real)?,
        };
        if holds {
            return Ok(());
        }
        Err(precondition
            .conflict_error(&place.real, self.current_version(place))
            .into())
    }

    /// Returns whether the file has the version `wanted`.
    fn is_version(&self, place: &EntryLocation, stat: &Stat, wanted: &Version) -> Result<bool, AccessError> {
        let now = StatFingerprint::from_stat(stat);
        if now.matches_version(wanted, || hash_entry_content(place))? {
            return Ok(true);
        }
        // A hard link that this batch made or removed changed ctime, but not the content: the state from before the
        // batch counts.
        match self.several.get(&inode_identity(stat)) {
            Some(first) if first.differs_only_in_names(&now) => {
                first.matches_version(wanted, || hash_entry_content(place))
            }
            _ => Ok(false),
        }
    }

    /// Returns the current version of the file, to report it with a failed precondition.
    fn current_version(&self, place: &EntryLocation) -> Option<Version> {
        let parent = place.parent.as_ref()?;
        let (file, stat) = open_file(parent, place.name().as_bytes(), OFlags::RDONLY).ok()?;
        let version =
            StatFingerprint::from_stat(&stat).version_at(self.shared.clock.now(), || ContentHash::of_file(&file));
        version.ok()
    }
}

/// The hash of the written content: computed while the content was streamed, or computed later from the bytes in
/// memory.
enum StagedHash {
    InMemory,
    Hashed(ContentHash),
}

impl StagedHash {
    fn into_hash(self, content: &Content) -> ContentHash {
        match self {
            Self::InMemory => ContentHash::of_bytes(content.as_bytes().expect("the bytes are at hand")),
            Self::Hashed(hash) => hash,
        }
    }
}

/// Writes the content piece by piece; returns its hash.
fn stream_content(file: &OwnedFd, content: &Content, path: &WsPath) -> AttemptResult<ContentHash> {
    let mut reader = content.open().map_err(|error| error.at_path(path))?;
    let mut hasher = ContentHasher::default();
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    while reader
        .append_to(&mut piece, PIECE_BYTES)
        .map_err(|error| error.at_path(path))?
        > 0
    {
        write_all(file, &piece).at_path(path)?;
        // Hashed on the way, because reading the file again for its version would cost as much as the write.
        hasher.add(&piece);
        piece.clear();
    }
    Ok(hasher.finish())
}

fn hash_entry_content(place: &EntryLocation) -> Result<ContentHash, AccessError> {
    let parent = place.parent.as_ref().expect("an entry has a directory");
    let (file, stat) = open_file(parent, place.name().as_bytes(), OFlags::RDONLY)?;
    let known = place.entry.as_ref().map(StatFingerprint::from_stat);
    if known != Some(StatFingerprint::from_stat(&stat)) {
        return Err(AccessError::Unsteady);
    }
    Ok(ContentHash::of_file(&file)?)
}

/// Sets the owner and the mode of a new file.
pub(super) fn set_owner_and_mode(file: &OwnedFd, owner: Option<FileOwner>, mode: Option<u32>) -> Result<(), Errno> {
    if owner.is_none() && mode.is_none() {
        return Ok(());
    }
    let now = fstat(file)?;
    // `chown` clears the set-user-id and set-group-id bits, so the mode is set after it.
    let is_given = owner.is_some_and(|owner| owner != FileOwner::from_stat(&now) && owner.give_file(file));
    let mode = mode.or_else(|| is_given.then_some(now.st_mode & 0o7777));
    match mode {
        Some(mode) if is_given || now.st_mode & 0o7777 != mode => fchmod(file, Mode::from_raw_mode(mode)),
        _ => Ok(()),
    }
}

/// Returns the size of the entry at the location, 0 if there is none.
pub(super) fn size_at(place: &EntryLocation) -> u64 {
    place.entry.as_ref().map_or(0, stat_size)
}
