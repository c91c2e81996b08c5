//! The location of a path: its real path and its entry, found under the lock of its directory.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use garret_core::{EntryKind, Error, Follow, Mutation, WsPath};
use rustix::fs::{Mode, OFlags, Stat, mkdirat};
use rustix::io::Errno;

use super::alias::has_other_names;
use super::batch::{At, Attempt, Failure, Step, paths_of};
use super::beneath::{Last, refuse_reserved, split};
use super::error::{Cause, lock_is_held};
use super::lock::{Locked, Refusal};
use super::names::{kind_in, open_child, stat_entry};
use super::undo::Note;

const MAX_TRIES: usize = 16;
const DIRECTORY_MODE: Mode = Mode::from_bits_retain(0o755);

/// The real path of an entry, its locked directory and its stat.
#[derive(Debug)]
pub(super) struct Place {
    /// The path with its links followed.
    pub(super) real: WsPath,
    /// The directory that holds the entry, locked; `None` if it does not exist, and for the root.
    pub(super) parent: Option<Arc<Locked>>,
    /// The stat of the entry; `None` if nothing is there.
    pub(super) entry: Option<Stat>,
    /// Whether a component above the entry exists and is not a directory.
    pub(super) is_blocked: bool,
}

impl Place {
    fn missing(real: &WsPath) -> Self {
        Self {
            real: real.clone(),
            parent: None,
            entry: None,
            is_blocked: false,
        }
    }

    /// Returns the error of an operation that needs an entry here.
    pub(super) fn why_missing(&self) -> Error {
        if self.is_blocked {
            Error::not_a_directory(&self.real)
        } else {
            Error::not_found(&self.real)
        }
    }

    pub(super) fn name(&self) -> &str {
        split(&self.real).1
    }

    /// Returns the kind of the entry; the root is a directory.
    pub(super) fn kind(&self) -> Option<EntryKind> {
        if self.real.is_root() {
            Some(EntryKind::Directory)
        } else {
            self.entry.as_ref().map(kind_in)
        }
    }
}

impl Attempt<'_> {
    /// Resolves `path` and locks its directory.
    pub(super) fn place(&mut self, path: &WsPath, last: Last) -> Step<Place> {
        refuse_reserved(path)?;
        let mut real = path.clone();
        for _ in 0..MAX_TRIES {
            if let Some(place) = self.place_without_links(&real, last)? {
                return Ok(place);
            }
            if self.follow == Follow::Never {
                return Err(Error::path_escape(path).into());
            }
            real = self.shared.root.resolve(path, last)?;
        }
        Err(Failure::Moved(path.clone()))
    }

    /// Looks up a path that passes no link; `None` if it does pass one.
    fn place_without_links(&mut self, real: &WsPath, last: Last) -> Step<Option<Place>> {
        if real.is_root() {
            return Ok(Some(Place::missing(real)));
        }
        let (above, name) = split(real);
        let parent = match self.lock_directory(above, real)? {
            Ok(parent) => parent,
            Err(Cause::Link) => return Ok(None),
            Err(cause) if cause.is_missing() => return Ok(Some(Place::missing(real))),
            Err(Cause::System(Errno::NOTDIR)) => {
                let place = Place::missing(real);
                return Ok(Some(Place {
                    is_blocked: true,
                    ..place
                }));
            }
            Err(cause) => return Err(cause).at(real),
        };
        let entry = stat_entry(&parent, name.as_bytes()).at(real)?;
        let is_link = entry.as_ref().is_some_and(|entry| kind_in(entry) == EntryKind::Symlink);
        if is_link && last == Last::Followed {
            return Ok(None);
        }
        if let Some(entry) = entry.as_ref().filter(|entry| has_other_names(entry)) {
            self.meet(entry);
        }
        Ok(Some(Place {
            real: real.clone(),
            parent: Some(parent),
            entry,
            is_blocked: false,
        }))
    }

    /// Locks the directory at `above`, and checks that the path still leads to it then.
    fn lock_directory(&mut self, above: &str, path: &WsPath) -> Step<Result<Arc<Locked>, Cause>> {
        let root = &self.shared.root;
        let handle = match root.open_directory(above.as_bytes()) {
            Ok(handle) => handle,
            Err(cause) => return Ok(Err(cause)),
        };
        let (locked, is_new) = self.lock(handle, path)?;
        // The directory may have been moved or replaced between the open and the lock.
        if is_new && !above.is_empty() {
            let again = root.open(above.as_bytes(), OFlags::PATH | OFlags::DIRECTORY);
            if !again.is_ok_and(|again| locked.is(again)) {
                return Err(Failure::Moved(path.clone()));
            }
        }
        Ok(Ok(locked))
    }

    /// Locks a directory by its handle; returns whether the batch did not have its lock yet.
    pub(super) fn lock(&mut self, handle: OwnedFd, path: &WsPath) -> Step<(Arc<Locked>, bool)> {
        self.locks.take(handle).map_err(|refusal| match refusal {
            Refusal::Held => Failure::Busy(path.clone()),
            Refusal::WaitedLong => Failure::Refused(lock_is_held(path)),
            Refusal::System(errno) => Failure::Refused(Cause::from(errno).at(path)),
        })
    }

    /// Takes the locks that can be foreseen, in the order of their paths, so that two batches do not wait for each
    /// other.
    pub(super) fn lock_in_path_order(&mut self, mutations: &[Mutation]) -> Step<()> {
        let paths = || mutations.iter().flat_map(paths_of).flatten();
        let mut directories = paths().map(|(path, _)| split(path).0);
        let first = directories.next();
        // With one directory there is no order; most batches end here.
        if directories.all(|other| Some(other) == first) {
            return Ok(());
        }
        // A path that cannot be resolved or locked here is skipped: the mutation itself reports the error.
        let mut wanted = BTreeSet::new();
        for (path, last) in paths() {
            let real = match self.follow {
                Follow::Never => Ok(path.clone()),
                Follow::Inside => self.shared.root.resolve(path, last),
            };
            if let Ok(real) = real {
                wanted.insert(real.parent().unwrap_or_else(WsPath::root));
            }
        }
        let mut absent: Option<WsPath> = None;
        for directory in wanted {
            // Below a missing directory, the nearest existing one is already locked.
            if absent.as_ref().is_some_and(|absent| directory.is_within(absent)) {
                continue;
            }
            match self.nearest(directory.clone(), &directory) {
                Err(Failure::Refused(_)) => {}
                // The path passes a link and links are not followed: the mutation will refuse it.
                Err(Failure::Moved(_)) if self.follow == Follow::Never => {}
                outcome => absent = outcome?.1.pop(),
            }
        }
        Ok(())
    }

    /// Returns the locked directory of an entry. A missing one is made with its parents, or, without `parents`,
    /// reported with the first missing path.
    pub(super) fn parent_of(&mut self, place: &Place, parents: bool) -> Step<Arc<Locked>> {
        if let Some(parent) = &place.parent {
            return Ok(parent.clone());
        }
        if place.is_blocked {
            return Err(place.why_missing().into());
        }
        let Some(directory) = place.real.parent() else {
            return Err(Error::already_exists(&place.real).into());
        };
        let (mut here, missing) = self.nearest(directory, &place.real)?;
        if let (Some(first), false) = (missing.last(), parents) {
            return Err(Error::not_found(first).into());
        }
        for above in missing.iter().rev() {
            here = self.make_directory(&here, split(above).1, &place.real)?;
        }
        Ok(here)
    }

    /// Locks the nearest existing directory; returns it with the missing ones from `directory` up to it.
    fn nearest(&mut self, directory: WsPath, path: &WsPath) -> Step<(Arc<Locked>, Vec<WsPath>)> {
        let mut missing = Vec::new();
        let mut directory = directory;
        loop {
            match self.lock_directory(directory.as_str(), path)? {
                Ok(here) => return Ok((here, missing)),
                // A link was put there after the path was resolved.
                Err(Cause::Link) => return Err(Failure::Moved(path.clone())),
                Err(cause) if !cause.is_missing() => return Err(cause).at(path),
                Err(cause) => {
                    let above = directory.parent().ok_or_else(|| cause.at(path))?;
                    missing.push(std::mem::replace(&mut directory, above));
                }
            }
        }
    }

    /// Makes the directory `name` in `parent` and locks it; accepts one that another program made meanwhile.
    pub(super) fn make_directory(&mut self, parent: &Arc<Locked>, name: &str, path: &WsPath) -> Step<Arc<Locked>> {
        let is_made = match mkdirat(parent, name, DIRECTORY_MODE) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno).at_new(path),
        };
        if is_made {
            self.undo.note(Note::MadeDirectory {
                parent: parent.clone(),
                name: name.to_owned(),
            });
        }
        self.touched(parent);
        let handle = open_child(parent, name.as_bytes()).at_new(path)?;
        if let Some(owner) = parent.owner().to_give().filter(|_| is_made) {
            owner.take_directory(&handle).at(path)?;
        }
        Ok(self.lock(handle, path)?.0)
    }
}
