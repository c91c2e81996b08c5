//! The files of the storage as they are now: their stats, and which of them are excluded.

use std::collections::BTreeSet;

use futures::stream::{self, StreamExt, TryStreamExt};
use garret_core::{
    Entry, EntryKind, EntryPath, ErrorKind, Follow, ListOptions, Precondition, ReadOptions, Result, Stat, StatOptions,
    Storage, Version, WsPath,
};
use garret_depot::outside_files::{KnownEntry, ObservedEntry, OutsideWorkspace};

use crate::Journaled;
use crate::observed::observed_entry;
use crate::owner_bits::look_with_owner_bits;
use crate::raw_names::DirectoryHandles;

/// The files and their journal in the depot, without the log and without the index of recorded entries.
#[derive(Clone, Copy)]
pub(crate) struct ObservedFiles<'j> {
    pub(crate) journaled: &'j Journaled,
    pub(crate) room: &'j OutsideWorkspace,
}

impl<'j> ObservedFiles<'j> {
    pub(crate) async fn stat_unless_root(&self, path: WsPath) -> Result<Option<Stat>> {
        if path.is_root() {
            Ok(None)
        } else {
            self.stat(&path).await
        }
    }

    /// Returns the stat of `path`; `None` if nothing is there, or a kind of entry that no journal holds. A file that
    /// may not be read has no version.
    pub(crate) async fn stat(&self, path: &WsPath) -> Result<Option<Stat>> {
        let files = &*self.journaled.files;
        let stat = match stat_with_version(files, path).await {
            Err(error) if error.kind() == ErrorKind::Denied => {
                look_with_owner_bits(files, path, error, stat_with_version(files, path)).await
            }
            stat => stat,
        };
        match stat {
            Ok(stat) if stat.kind == EntryKind::Other => Ok(None),
            Ok(stat) => Ok(Some(stat)),
            Err(error) if means_absent(error.kind()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn is_unchanged(
        &self,
        path: &WsPath,
        known: Option<&KnownEntry>,
        stat: Option<&Stat>,
    ) -> Result<bool> {
        let (Some(known), Some(stat)) = (known, stat) else {
            return Ok(known.is_none() && stat.is_none());
        };
        let now = entry_of_stat(stat);
        if (known.kind, &known.target) != (now.kind, &now.target) {
            return Ok(false);
        }
        // A list of a remote storage does not include modes.
        let has_mode = stat.mode.is_some() || !self.journaled.reach.is_remote;
        if known.kind != EntryKind::Symlink && has_mode && known.mode != now.mode {
            return Ok(false);
        }
        if known.kind != EntryKind::File || (known.token.is_some() && known.token == now.token) {
            return Ok(true);
        }
        match (&known.token, &now.token) {
            // The file may not be read, neither now nor when it was recorded, so only its size can be compared.
            (None, None) => Ok(known.size == now.size),
            // Two texts can name the same version, so the storage decides whether the recorded one still holds.
            (Some(token), Some(_)) if known.size == now.size => self.has_version(path, token).await,
            _ => Ok(false),
        }
    }

    /// Returns whether the storage confirms that `path` still has the version `token`.
    pub(crate) async fn has_version(&self, path: &WsPath, token: &str) -> Result<bool> {
        let options = ReadOptions {
            // An empty range fetches no content; only the precondition matters.
            range: Some(0..0),
            follow: Follow::Never,
            precondition: Precondition::Version(Version::new(token)),
            ..ReadOptions::default()
        };
        let files = &*self.journaled.files;
        let read = match files.read(path, options.clone()).await {
            Err(error) if error.kind() == ErrorKind::Denied => {
                look_with_owner_bits(files, path, error, files.read(path, options)).await
            }
            read => read,
        };
        match read {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Conflict || means_absent(error.kind()) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn directory_handles(&self) -> DirectoryHandles<'j> {
        DirectoryHandles::new(&*self.journaled.files)
    }

    /// Returns the stat of an entry; `None` if nothing is there.
    pub(crate) async fn stat_entry(&self, path: &EntryPath) -> Result<Option<Stat>> {
        match path.as_path() {
            Some(path) => self.stat(path).await,
            None => self.directory_handles().stat(path.as_bytes()),
        }
    }

    /// Observes the present entries at changed paths.
    pub(crate) async fn observe_paths(&self, paths: impl IntoIterator<Item = WsPath>) -> Result<Vec<ObservedEntry>> {
        let paths = paths.into_iter().filter(|path| !path.is_root());
        let looks = paths.map(|path| self.observe_path(path));
        stream::iter(looks)
            .buffered(self.journaled.request_concurrency())
            .try_collect()
            .await
    }

    async fn observe_path(&self, path: WsPath) -> Result<ObservedEntry> {
        let stat = self.stat(&path).await?;
        Ok(observed_entry(&path, stat.as_ref().map(entry_of_stat)))
    }

    /// Observes the present entries at changed paths, raw names included.
    pub(crate) async fn observe_entries(&self, paths: Vec<EntryPath>) -> Result<Vec<ObservedEntry>> {
        let (raw, valid): (Vec<_>, Vec<_>) = paths.into_iter().partition(EntryPath::is_escaped);
        let valid: Vec<WsPath> = valid.iter().filter_map(|path| path.as_path().cloned()).collect();
        let mut seen = self.observe_paths(valid).await?;
        let mut way = self.directory_handles();
        for path in raw {
            let stat = way.stat(path.as_bytes())?;
            seen.push(ObservedEntry {
                path: path.as_bytes().to_vec(),
                known: stat.as_ref().map(entry_of_stat),
            });
        }
        Ok(seen)
    }

    /// Returns whether a directory holds an entry that is kept out of history, or a directory that stays for that
    /// reason. Such a directory stays too.
    pub(crate) async fn holds_excluded(&self, directory: &WsPath, staying: &BTreeSet<WsPath>) -> Result<bool> {
        let exclusions = &self.journaled.exclusions;
        if exclusions.is_empty() {
            return Ok(false);
        }
        let stays = |entry: &Entry| {
            exclusions.covers_path(&entry.path, entry.kind == EntryKind::Directory)
                || entry.path.as_path().is_some_and(|path| staying.contains(path))
        };
        Ok(self.list_entries(directory).await?.iter().any(stays))
    }

    /// Returns whether a directory holds entries that are kept out of history and no others. The journal treats it as
    /// absent.
    pub(crate) async fn is_only_excluded(&self, directory: &WsPath) -> Result<bool> {
        let exclusions = &self.journaled.exclusions;
        if exclusions.is_empty() {
            return Ok(false);
        }
        let (mut ahead, mut has_excluded) = (vec![directory.clone()], false);
        while let Some(next) = ahead.pop() {
            for entry in self.list_entries(&next).await? {
                let is_directory = entry.kind == EntryKind::Directory;
                match entry.path.as_path() {
                    _ if exclusions.covers_path(&entry.path, is_directory) => has_excluded = true,
                    Some(path) if is_directory => ahead.push(path.clone()),
                    _ => return Ok(false),
                }
            }
        }
        Ok(has_excluded)
    }

    async fn list_entries(&self, directory: &WsPath) -> Result<Vec<Entry>> {
        let options = ListOptions {
            follow: Follow::Never,
            limit: usize::MAX,
            ..ListOptions::default()
        };
        match self.journaled.files.list(directory, options).await {
            Ok(page) => Ok(page.entries),
            Err(error) if means_absent(error.kind()) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

/// Returns the stat of `path`. A file that may not be read has no version.
pub(crate) async fn stat_with_version(files: &dyn Storage, path: &WsPath) -> Result<Stat> {
    let options = |with_version| StatOptions {
        follow: Follow::Never,
        with_version,
    };
    match files.stat(path, options(true)).await {
        Err(error) if error.kind() == ErrorKind::Denied => files.stat(path, options(false)).await,
        stat => stat,
    }
}

/// Converts a stat to the recorded form of an entry.
pub(crate) fn entry_of_stat(stat: &Stat) -> KnownEntry {
    let usual = match stat.kind {
        EntryKind::Directory => 0o755,
        EntryKind::Symlink => 0o777,
        _ => 0o644,
    };
    KnownEntry {
        kind: stat.kind,
        mode: stat.mode.unwrap_or(usual),
        size: if stat.kind == EntryKind::Directory {
            0
        } else {
            stat.size
        },
        target: stat.target.clone(),
        token: stat.version.as_ref().map(|version| version.as_str().to_owned()),
    }
}

/// Returns whether an error means that no entry which a journal could hold is at the path.
pub(crate) fn means_absent(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::PathEscape
            | ErrorKind::IsADirectory
            | ErrorKind::Unsupported
    )
}
