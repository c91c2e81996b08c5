//! Appending: in place, under the lock of the directory, so that concurrent appends all arrive.

use bytes::Bytes;
use garret_core::{Applied, Precondition, WsPath};
use rustix::fs::{OFlags, fstat};

use super::batch::{At, Attempt, Failure, Step};
use super::beneath::Last;
use super::error::Cause;
use super::names::size_in;
use super::place::Place;
use super::reopen::open_file;
use super::undo::{Note, shrink};
use super::version::ContentHash;
use super::write::write_all;

/// The version of a file that was just appended to needs a hash of all of it; beyond this size, callers who want it ask for it.
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
        let opened = open_file(parent, place.name().as_bytes(), OFlags::RDWR | OFlags::APPEND);
        let (file, before) = match opened {
            Err(Cause::Unsteady | Cause::Link) => return Err(Failure::Moved(place.real.clone())),
            opened => opened.at(&place.real)?,
        };
        let size = size_in(&before);
        let written = write_all(&file, content).and_then(|()| self.sync_file(&file));
        if written.is_err() {
            // Part of it may be there; the locks keep others from having appended behind it.
            let added = fstat(&file).map_or(0, |stat| size_in(&stat).saturating_sub(size));
            let _ = shrink(&file, size, added);
            written.at(&place.real)?;
        }
        let size_now = size + content.len() as u64;
        let version = match size_now <= MAX_HASHED_BYTES {
            true => Some(self.version_of(&file, || ContentHash::of_file(&file)).at(&place.real)?),
            false => None,
        };
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
}
