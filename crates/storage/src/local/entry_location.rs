//! The location of a path: its real path and its entry, found under the lock of its directory.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use garret_core::{EntryKind, Error, Follow, Mutation, WsPath};
use garret_handles::{open_child, stat_entry};
use rustix::fs::{Mode, OFlags, Stat, mkdirat};
use rustix::io::Errno;

use super::batch::{AttemptError, AttemptResult, BatchAttempt, ResultAtPath, paths_to_lock};
use super::beneath::{LocalFinalLink, refuse_reserved, split_parent};
use super::directory_entries::stat_kind;
use super::directory_lock::{DirectoryLockError, LockedDirectory};
use super::error::{AccessError, lock_held_error};
use super::hard_links::has_other_names;
use super::undo_log::LocalUndoStep;

const MAX_TRIES: usize = 16;
const DIRECTORY_MODE: Mode = Mode::from_bits_retain(0o755);

/// The real path of an entry, its locked directory and its stat.
#[derive(Debug)]
pub(super) struct EntryLocation {
    /// The path with its links followed.
    pub(super) real: WsPath,
    /// The directory that holds the entry, locked; `None` if it does not exist, and for the root.
    pub(super) parent: Option<Arc<LockedDirectory>>,
    /// The stat of the entry; `None` if nothing is there.
    pub(super) entry: Option<Stat>,
    /// Whether a component above the entry exists and is not a directory.
    pub(super) is_blocked: bool,
}

impl EntryLocation {
    fn without_entry(real: &WsPath) -> Self {
        Self {
            real: real.clone(),
            parent: None,
            entry: None,
            is_blocked: false,
        }
    }

    /// Returns the error of an operation that needs an entry here.
    pub(super) fn missing_error(&self) -> Error {
        if self.is_blocked {
            Error::not_a_directory(&self.real)
        } else {
            Error::not_found(&self.real)
        }
    }

    pub(super) fn name(&self) -> &str {
        split_parent(&self.real).1
    }

    /// Returns the kind of the entry; the root is a directory.
    pub(super) fn kind(&self) -> Option<EntryKind> {
        if self.real.is_root() {
            Some(EntryKind::Directory)
        } else {
            self.entry.as_ref().map(stat_kind)
        }
    }
}

impl BatchAttempt<'_> {
    /// Resolves `path` and locks its directory.
    pub(super) fn locate_entry(&mut self, path: &WsPath, last: LocalFinalLink) -> AttemptResult<EntryLocation> {
        refuse_reserved(path)?;
        let mut real = path.clone();
        for _ in 0..MAX_TRIES {
            if let Some(place) = self.locate_without_links(&real, last)? {
                return Ok(place);
            }
            if self.follow == Follow::Never {
                return Err(Error::path_escape(path).into());
            }
            real = self.shared.root.resolve_path(path, last)?;
        }
        Err(AttemptError::Moved(path.clone()))
    }

    /// Looks up a path that passes no link; `None` if it does pass one.
    fn locate_without_links(&mut self, real: &WsPath, last: LocalFinalLink) -> AttemptResult<Option<EntryLocation>> {
        if real.is_root() {
            return Ok(Some(EntryLocation::without_entry(real)));
        }
        let (above, name) = split_parent(real);
        let parent = match self.lock_directory(above, real)? {
            Ok(parent) => parent,
            Err(AccessError::Link) => return Ok(None),
            Err(cause) if cause.is_missing() => return Ok(Some(EntryLocation::without_entry(real))),
            Err(AccessError::System(Errno::NOTDIR)) => {
                let place = EntryLocation::without_entry(real);
                return Ok(Some(EntryLocation {
                    is_blocked: true,
                    ..place
                }));
            }
            Err(cause) => return Err(cause).at_path(real),
        };
        let entry = stat_entry(&parent, name.as_bytes()).at_path(real)?;
        let is_link = entry
            .as_ref()
            .is_some_and(|entry| stat_kind(entry) == EntryKind::Symlink);
        if is_link && last == LocalFinalLink::Followed {
            return Ok(None);
        }
        if let Some(entry) = entry.as_ref().filter(|entry| has_other_names(entry)) {
            self.remember_linked_file(entry);
        }
        Ok(Some(EntryLocation {
            real: real.clone(),
            parent: Some(parent),
            entry,
            is_blocked: false,
        }))
    }

    /// Locks the directory at `above`, and checks that the path still leads to it then.
    fn lock_directory(
        &mut self,
        above: &str,
        path: &WsPath,
    ) -> AttemptResult<Result<Arc<LockedDirectory>, AccessError>> {
        let root = &self.shared.root;
        let handle = match root.open_directory(above.as_bytes()) {
            Ok(handle) => handle,
            Err(cause) => return Ok(Err(cause)),
        };
        let (locked, is_new) = self.lock_handle(handle, path)?;
        // The directory may have been moved or replaced between the open and the lock.
        if is_new && !above.is_empty() {
            let again = root.open_path(above.as_bytes(), OFlags::PATH | OFlags::DIRECTORY);
            if !again.is_ok_and(|again| locked.is_same_directory(again)) {
                return Err(AttemptError::Moved(path.clone()));
            }
        }
        Ok(Ok(locked))
    }

    /// Locks a directory by its handle; returns whether the batch did not have its lock yet.
    pub(super) fn lock_handle(
        &mut self,
        handle: OwnedFd,
        path: &WsPath,
    ) -> AttemptResult<(Arc<LockedDirectory>, bool)> {
        self.locks.take_lock(handle).map_err(|refusal| match refusal {
            DirectoryLockError::Held => AttemptError::Busy(path.clone()),
            DirectoryLockError::WaitedLong => AttemptError::Refused(lock_held_error(path)),
            DirectoryLockError::System(errno) => AttemptError::Refused(AccessError::from(errno).into_error(path)),
        })
    }

    /// Takes the locks that can be foreseen, in the order of their paths, so that two batches do not wait for each
    /// other.
    pub(super) fn lock_in_path_order(&mut self, mutations: &[Mutation]) -> AttemptResult<()> {
        let paths = || mutations.iter().flat_map(paths_to_lock).flatten();
        let mut directories = paths().map(|(path, _)| split_parent(path).0);
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
                Follow::Inside => self.shared.root.resolve_path(path, last),
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
            match self.lock_nearest(directory.clone(), &directory) {
                Err(AttemptError::Refused(_)) => {}
                // The path passes a link and links are not followed: the mutation will refuse it.
                Err(AttemptError::Moved(_)) if self.follow == Follow::Never => {}
                outcome => absent = outcome?.1.pop(),
            }
        }
        Ok(())
    }

    /// Returns the locked directory of an entry. A missing one is made with its parents, or, without `parents`,
    /// reported with the first missing path.
    pub(super) fn ensure_parent(
        &mut self,
        place: &EntryLocation,
        parents: bool,
    ) -> AttemptResult<Arc<LockedDirectory>> {
        if let Some(parent) = &place.parent {
            return Ok(parent.clone());
        }
        if place.is_blocked {
            return Err(place.missing_error().into());
        }
        let Some(directory) = place.real.parent() else {
            return Err(Error::already_exists(&place.real).into());
        };
        let (mut here, missing) = self.lock_nearest(directory, &place.real)?;
        if let (Some(first), false) = (missing.last(), parents) {
            return Err(Error::not_found(first).into());
        }
        for above in missing.iter().rev() {
            here = self.make_directory(&here, split_parent(above).1, &place.real)?;
        }
        Ok(here)
    }

    /// Locks the nearest existing directory; returns it with the missing ones from `directory` up to it.
    fn lock_nearest(&mut self, directory: WsPath, path: &WsPath) -> AttemptResult<(Arc<LockedDirectory>, Vec<WsPath>)> {
        let mut missing = Vec::new();
        let mut directory = directory;
        loop {
            match self.lock_directory(directory.as_str(), path)? {
                Ok(here) => return Ok((here, missing)),
                // A link was put there after the path was resolved.
                Err(AccessError::Link) => return Err(AttemptError::Moved(path.clone())),
                Err(cause) if !cause.is_missing() => return Err(cause).at_path(path),
                Err(cause) => {
                    let above = directory.parent().ok_or_else(|| cause.into_error(path))?;
                    missing.push(std::mem::replace(&mut directory, above));
                }
            }
        }
    }

    /// Makes the directory `name` in `parent` and locks it; accepts one that another program made meanwhile.
    pub(super) fn make_directory(
        &mut self,
        parent: &Arc<LockedDirectory>,
        name: &str,
        path: &WsPath,
    ) -> AttemptResult<Arc<LockedDirectory>> {
        let is_made = match mkdirat(parent, name, DIRECTORY_MODE) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(errno) => return Err(errno).at_new_path(path),
        };
        if is_made {
            self.undo.record_step(LocalUndoStep::MadeDirectory {
                parent: parent.clone(),
                name: name.to_owned(),
            });
        }
        self.mark_unsynced(parent);
        let handle = open_child(parent, name.as_bytes()).at_new_path(path)?;
        if let Some(owner) = parent.owner().if_root_can_give().filter(|_| is_made) {
            owner.give_directory(&handle).at_path(path)?;
        }
        Ok(self.lock_handle(handle, path)?.0)
    }
}
