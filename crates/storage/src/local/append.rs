//! Appending: in place, under the lock of the directory, so that concurrent appends all arrive.

use std::os::fd::OwnedFd;

use bytes::Bytes;
use garret_core::{Applied, Precondition, Version, WsPath};
use rustix::fs::{OFlags, SeekFrom, fstat, seek};
use rustix::io::Errno;

use super::batch::{At, Attempt, Failure, Step};
use super::beneath::Last;
use super::error::Cause;
use super::names::size_in;
use super::place::Place;
use super::reopen::open_file;
use super::temp::Temporary;
use super::undo::{Note, shrink};
use super::version::ContentHash;
use super::write::write_all;

/// The largest file whose version is reported after an append: the version needs a hash of the whole file, and a caller
/// who wants it for a larger file can ask for it.
const MAX_HASHED_BYTES: u64 = 1024 * 1024;

impl Attempt<'_> {
    pub(super) fn append(
        &mut self,
        path: &WsPath,
        content: &Bytes,
        precondition: &Precondition,
        create: bool,
    ) -> Step<Applied> {
        let place = self.place(path, Last::Followed)?;
        self.check_file(&place, precondition)?;
        match place.entry {
            Some(_) => self.append_to(&place, content),
            None if create => self.put(&place, &content.clone().into(), None, true),
            None => Err(place.why_missing().hint("set `create` to make the file").into()),
        }
    }

    fn append_to(&mut self, place: &Place, content: &[u8]) -> Step<Applied> {
        let parent = place.parent.as_ref().expect("an entry has a directory");
        // Readable as well, because the version may need a hash of the content.
        let opened = open_file(parent, place.name().as_bytes(), OFlags::RDWR | OFlags::APPEND);
        let (file, before) = match opened {
            Err(Cause::Unsteady | Cause::Link) => return Err(Failure::Moved(place.real.clone())),
            opened => opened.at(&place.real)?,
        };
        if let Some(copy) = self.part(place, &file, &before)? {
            return self.append_apart(copy, place, content);
        }
        let size = size_in(&before);
        let written = write_all(&file, content).and_then(|()| self.sync_file(&file));
        if written.is_err() {
            // A part may be written; the locks keep other Garret writers from appending behind it.
            let added = fstat(&file).map_or(0, |stat| size_in(&stat).saturating_sub(size));
            let _ = shrink(&file, size, added);
            written.at(&place.real)?;
        }
        let size_now = size + content.len() as u64;
        let version = self.version_after(&file, size_now).at(&place.real)?;
        self.undo.note(Note::Grew {
            file,
            size,
            added: content.len() as u64,
        });
        Ok(Applied {
            version,
            size: size_now,
            created: false,
        })
    }

    /// Appends to a copy of a file that has other names, and replaces this name by the copy.
    fn append_apart(&mut self, mut copy: Temporary, place: &Place, content: &[u8]) -> Step<Applied> {
        let parent = place.parent.clone().expect("an entry has a directory");
        seek(&copy.file, SeekFrom::End(0)).at(&place.real)?;
        write_all(&copy.file, content).at(&place.real)?;
        self.sync_file(&copy.file).at(&place.real)?;
        self.publish(&mut copy, &parent, place)?;
        let size = size_in(&fstat(&copy.file).at(&place.real)?);
        Ok(Applied {
            version: self.version_after(&copy.file, size).at(&place.real)?,
            size,
            created: false,
        })
    }

    fn version_after(&self, file: &OwnedFd, size: u64) -> Result<Option<Version>, Errno> {
        if size <= MAX_HASHED_BYTES {
            self.version_of(file, || ContentHash::of_file(file)).map(Some)
        } else {
            Ok(None)
        }
    }
}
