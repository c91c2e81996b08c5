//! Copying one file, by sharing its blocks if the file system can.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use garret_core::{EntryKind, Error, Follow, MutationOutcome, WsPath};
use garret_handles::write_all;
use rustix::fs::{Stat, copy_file_range, ioctl_ficlone};
use rustix::io::{Errno, pread};

use super::batch::{AttemptError, AttemptResult, BatchAttempt, ResultAtPath};
use super::beneath::{LocalFinalLink, LocalLinkRules};
use super::directory_entries::stat_size;
use super::directory_lock::LockedDirectory;
use super::entry_location::EntryLocation;
use super::error::AccessError;
use super::owner::FileOwner;
use super::temporary_files::TemporaryFile;
use super::write::set_owner_and_mode;

const CHUNK_BYTES: usize = 256 * 1024;

/// The opened file to copy.
pub(super) struct CopySource {
    pub(super) file: OwnedFd,
    pub(super) stat: Stat,
    pub(super) real: WsPath,
}

impl BatchAttempt<'_> {
    pub(super) fn copy(
        &mut self,
        from: &WsPath,
        to: &WsPath,
        overwrite: bool,
        parents: bool,
    ) -> AttemptResult<MutationOutcome> {
        // The target comes first: a target that leads outside is reported rather than a missing source. If both paths
        // lead outside, the source is reported.
        let target = match self.locate_entry(to, LocalFinalLink::Kept) {
            Err(AttemptError::Refused(error)) if self.follow == Follow::Inside => {
                self.shared.root.resolve_path(from, LocalFinalLink::Followed)?;
                return Err(error.into());
            }
            target => target?,
        };
        let source = self.open_source(from)?;
        let mut applied = MutationOutcome {
            version: None,
            size: stat_size(&source.stat),
            created: false,
            change: None,
        };
        if source.real == target.real {
            applied.version = self.version_if_alone(&source.file);
            return Ok(applied);
        }
        let existed = self.check_replaceable(&target, EntryKind::File, overwrite)?;
        let parent = self.ensure_parent(&target, parents)?;
        let (mut file, size) = self
            .duplicate_file(&source, &parent, &target)
            .at_new_path(&target.real)?;
        self.publish_file(&mut file, &parent, &target)?;
        // After the rename, because the rename sets ctime, which is part of the version.
        applied.version = self.version_if_alone(&file.file);
        applied.size = size;
        applied.created = existed.is_none();
        Ok(applied)
    }

    fn open_source(&self, from: &WsPath) -> AttemptResult<CopySource> {
        let root = &self.shared.root;
        let way = LocalLinkRules {
            last: LocalFinalLink::Followed,
            follow: self.follow,
        };
        let opened = root.with_real_path(from, way, |real| {
            let (file, stat) = root.open_file(real)?;
            Ok(CopySource {
                file,
                stat,
                real: real.clone(),
            })
        });
        opened.map_err(Error::into)
    }

    /// Makes a temporary file with the content and mode of `source` and the owner of the file that it replaces at
    /// `target`.
    pub(super) fn duplicate_file(
        &self,
        source: &CopySource,
        parent: &Arc<LockedDirectory>,
        target: &EntryLocation,
    ) -> Result<(TemporaryFile, u64), AccessError> {
        let mode = source.stat.st_mode & 0o7777;
        let file = TemporaryFile::create(parent, &*self.shared.ids, mode)?;
        // A clone shares blocks and takes no time; file systems that cannot clone fail in many ways, so any failure
        // means copying.
        let size = match ioctl_ficlone(&file.file, &source.file) {
            Ok(()) => stat_size(&rustix::fs::fstat(&file.file)?),
            Err(_) => copy_bytes(source, &file)?,
        };
        let owner = FileOwner::for_new_file(target.entry.as_ref(), parent.owner());
        set_owner_and_mode(&file.file, owner, Some(mode))?;
        self.sync_file(&file.file)?;
        Ok((file, size))
    }
}

/// Copies the bytes that the file had when it was opened; fails if the file shrinks meanwhile.
fn copy_bytes(source: &CopySource, target: &TemporaryFile) -> Result<u64, AccessError> {
    let size = stat_size(&source.stat);
    let mut copied = 0;
    while copied < size {
        // At most 1 GiB a call: the kernel copies no more than 2 GiB at once.
        let wanted = usize::try_from(size - copied).unwrap_or(usize::MAX).min(1 << 30);
        let mut offset = copied;
        match copy_file_range(&source.file, Some(&mut offset), &target.file, None, wanted) {
            Ok(0) => return Err(AccessError::Unsteady),
            Ok(count) => copied += count as u64,
            Err(Errno::INTR) => {}
            // Not supported on this file system, or between these two.
            Err(Errno::INVAL | Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {
                copied += copy_chunk(source, target, copied, wanted)?;
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(size)
}

fn copy_chunk(source: &CopySource, target: &TemporaryFile, offset: u64, wanted: usize) -> Result<u64, AccessError> {
    let mut buffer = vec![0; wanted.min(CHUNK_BYTES)];
    match pread(&source.file, &mut buffer[..], offset)? {
        0 => Err(AccessError::Unsteady),
        count => {
            write_all(&target.file, &buffer[..count])?;
            Ok(count as u64)
        }
    }
}
