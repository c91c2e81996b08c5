//! Appending: in place, under the lock of the directory, so that concurrent appends all arrive.

use std::os::fd::OwnedFd;

use bytes::Bytes;
use garret_core::{MutationOutcome, Precondition, Version, WsPath};
use garret_handles::write_all;
use rustix::fs::{OFlags, SeekFrom, fstat, seek};
use rustix::io::Errno;

use super::batch::{AttemptError, AttemptResult, BatchAttempt, ResultAtPath};
use super::beneath::LocalFinalLink;
use super::directory_entries::stat_size;
use super::entry_handle::open_file;
use super::entry_location::EntryLocation;
use super::error::AccessError;
use super::temporary_files::TemporaryFile;
use super::undo_log::{LocalUndoStep, cut_appended};
use super::version::ContentHash;

/// The largest file whose version is reported after an append: the version needs a hash of the whole file, and a caller
/// who wants it for a larger file can ask for it.
const MAX_HASHED_BYTES: u64 = 1024 * 1024;

impl BatchAttempt<'_> {
    pub(super) fn append(
        &mut self,
        path: &WsPath,
        content: &Bytes,
        precondition: &Precondition,
        create: bool,
    ) -> AttemptResult<MutationOutcome> {
        let place = self.locate_entry(path, LocalFinalLink::Followed)?;
        self.check_file(&place, precondition)?;
        match place.entry {
            Some(_) => self.append_in_place(&place, content),
            None if create => self.put_file(&place, &content.clone().into(), None, true),
            None => Err(place.missing_error().hint("set `create` to make the file").into()),
        }
    }

    fn append_in_place(&mut self, place: &EntryLocation, content: &[u8]) -> AttemptResult<MutationOutcome> {
        let parent = place.parent.as_ref().expect("an entry has a directory");
        // Readable as well, because the version may need a hash of the content.
        let opened = open_file(parent, place.name().as_bytes(), OFlags::RDWR | OFlags::APPEND);
        let (file, before) = match opened {
            Err(AccessError::Unsteady | AccessError::Link) => return Err(AttemptError::Moved(place.real.clone())),
            opened => opened.at_path(&place.real)?,
        };
        if let Some(copy) = self.copy_if_linked(place, &file, &before)? {
            return self.append_to_copy(copy, place, content);
        }
        let size = stat_size(&before);
        let written = write_all(&file, content).and_then(|()| self.sync_file(&file));
        if written.is_err() {
            // A part may be written; the locks keep other Garret writers from appending behind it.
            let added = fstat(&file).map_or(0, |stat| stat_size(&stat).saturating_sub(size));
            let _ = cut_appended(&file, size, added);
            written.at_path(&place.real)?;
        }
        let size_now = size + content.len() as u64;
        let version = self.version_after_append(&file, size_now).at_path(&place.real)?;
        self.undo.record_step(LocalUndoStep::Grew {
            file,
            size,
            added: content.len() as u64,
        });
        Ok(MutationOutcome {
            version,
            size: size_now,
            created: false,
            change: None,
        })
    }

    /// Appends to a copy of a file that has other names, and replaces this name by the copy.
    fn append_to_copy(
        &mut self,
        mut copy: TemporaryFile,
        place: &EntryLocation,
        content: &[u8],
    ) -> AttemptResult<MutationOutcome> {
        let parent = place.parent.clone().expect("an entry has a directory");
        seek(&copy.file, SeekFrom::End(0)).at_path(&place.real)?;
        write_all(&copy.file, content).at_path(&place.real)?;
        self.sync_file(&copy.file).at_path(&place.real)?;
        self.publish_file(&mut copy, &parent, place)?;
        let size = stat_size(&fstat(&copy.file).at_path(&place.real)?);
        Ok(MutationOutcome {
            version: self.version_after_append(&copy.file, size).at_path(&place.real)?,
            size,
            created: false,
            change: None,
        })
    }

    fn version_after_append(&self, file: &OwnedFd, size: u64) -> Result<Option<Version>, Errno> {
        if size <= MAX_HASHED_BYTES {
            self.version_of(file, || ContentHash::of_file(file)).map(Some)
        } else {
            Ok(None)
        }
    }
}
