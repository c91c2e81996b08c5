//! The wanted entries of a checkout.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use garret_core::path::split_path;
use garret_core::{
    DirectoryHandle, Entry, EntryKind, Error, ErrorKind, Follow, History, ListOptions, OpenFile, PathImage, Point,
    Result, Stat, StatOptions, Storage, Timestamp, Version, WsPath,
};

const PAGE: usize = 5_000;
pub(super) const FILE_MODE: u32 = 0o644;
pub(super) const DIRECTORY_MODE: u32 = 0o755;

/// The wanted entry at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WantedEntry {
    pub(super) what: EntryForm,
    pub(super) modified: Option<Timestamp>,
}

/// The kind of an entry, with its details.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EntryForm {
    Directory {
        mode: u32,
    },
    Symlink {
        target: String,
    },
    /// The mode and the version are known if they were requested; reading the file returns them too.
    File {
        size: u64,
        mode: Option<u32>,
        version: Option<u64>,
    },
    /// An entry that the storage lists but cannot read; the checkout keeps whatever is at its path.
    Unreadable,
}

/// All wanted entries, by path.
pub(super) type WantedEntries = BTreeMap<Vec<u8>, WantedEntry>;

impl WantedEntry {
    /// Converts an image of the journal; `None` for a kind of entry that no checkout holds.
    pub(super) fn from_image(image: &PathImage) -> Option<Self> {
        let what = match image.kind {
            EntryKind::Directory => EntryForm::Directory { mode: image.mode },
            EntryKind::Symlink => EntryForm::Symlink {
                target: image.target.clone().unwrap_or_default(),
            },
            EntryKind::File => EntryForm::File {
                size: image.size,
                mode: Some(image.mode),
                version: image.version.as_ref().map(version_number),
            },
            EntryKind::Other => return None,
        };
        Some(Self { what, modified: None })
    }
}

/// Returns a number for a version, to compare it with others.
pub(super) fn version_number(version: &Version) -> u64 {
    let mut hasher = DefaultHasher::new();
    version.as_str().hash(&mut hasher);
    // 0 means that the version is not known.
    hasher.finish().max(1)
}

/// Says whether the versions of files are requested if each costs a stat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VersionLookup {
    Requested,
    /// Everything will be read anyway.
    Omitted,
}

/// The files that a checkout is made from.
#[derive(Debug, Clone)]
pub(super) struct CheckoutFiles {
    pub(super) storage: Arc<dyn Storage>,
    /// The journal of the files, and the number of the change after which they are in this state.
    pub(super) at: Option<(Arc<dyn History>, u64)>,
}

impl CheckoutFiles {
    /// Returns the root directory, for names that are not UTF-8; `None` if the files have none.
    pub(super) async fn root_directory(&self) -> Result<Option<Arc<dyn DirectoryHandle>>> {
        let root = match &self.at {
            Some((history, number)) => Some(history.open_root_directory(&Point::Number(*number)).await?),
            None => self.storage.open_directory(&WsPath::root())?,
        };
        Ok(root.map(Arc::from))
    }
}

/// Returns all entries of the files.
pub(super) async fn list_wanted_entries(files: &CheckoutFiles, versions: VersionLookup) -> Result<WantedEntries> {
    let mut root = None;
    let mut wanted = WantedEntries::new();
    let mut options = ListOptions {
        is_deep: true,
        limit: PAGE,
        follow: Follow::Never,
        after: None,
    };
    loop {
        let page = files.storage.list(&WsPath::root(), options.clone()).await?;
        for entry in &page.entries {
            if entry.path.is_escaped() && root.is_none() {
                root = files.root_directory().await?;
            }
            if let Some(one) = describe_entry(files, entry, versions, root.as_deref()).await? {
                wanted.insert(entry.path.as_bytes().to_vec(), one);
            }
        }
        match page.entries.last() {
            Some(last) if page.has_more => options.after = Some(last.path.clone()),
            _ => return Ok(wanted),
        }
    }
}

async fn describe_entry(
    files: &CheckoutFiles,
    entry: &Entry,
    versions: VersionLookup,
    root: Option<&dyn DirectoryHandle>,
) -> Result<Option<WantedEntry>> {
    let modified = entry.modified;
    let what = |what| Some(WantedEntry { what, modified });
    if entry.kind == EntryKind::File && versions == VersionLookup::Omitted && !entry.path.is_escaped() {
        return Ok(what(EntryForm::File {
            size: entry.size,
            mode: None,
            version: None,
        }));
    }
    let stat = match entry.path.as_path() {
        Some(path) => {
            let options = StatOptions {
                follow: Follow::Never,
                with_version: entry.kind == EntryKind::File,
            };
            files.storage.stat(path, options).await
        }
        // A name that is not UTF-8 can only be reached by handle.
        None => root
            .ok_or_else(unreachable_name)
            .and_then(|root| raw_stat(root, entry.path.as_bytes())),
    };
    let stat = match stat {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(what(EntryForm::Unreadable)),
        stat => stat?,
    };
    Ok(match stat.kind {
        EntryKind::Directory => what(EntryForm::Directory {
            mode: stat.mode.unwrap_or(DIRECTORY_MODE),
        }),
        EntryKind::Symlink => what(EntryForm::Symlink {
            target: stat.target.unwrap_or_default(),
        }),
        EntryKind::File => what(EntryForm::File {
            size: stat.size,
            mode: stat.mode,
            version: stat.version.as_ref().map(version_number),
        }),
        EntryKind::Other => None,
    })
}

fn raw_stat(root: &dyn DirectoryHandle, path: &[u8]) -> Result<Stat> {
    let (above, name) = split_path(path);
    match raw_directory(root, above)? {
        Some(directory) => directory.stat_entry(name),
        None => root.stat_entry(name),
    }
}

/// Opens the file at `path`, whose name is not UTF-8.
pub(super) fn raw_file(root: Option<&dyn DirectoryHandle>, path: &[u8]) -> Result<OpenFile> {
    let root = root.ok_or_else(unreachable_name)?;
    let (above, name) = split_path(path);
    match raw_directory(root, above)? {
        Some(directory) => directory.open_file(name),
        None => root.open_file(name),
    }
}

/// Opens the directory at `path`; `None` for the root itself.
fn raw_directory(root: &dyn DirectoryHandle, path: &[u8]) -> Result<Option<Box<dyn DirectoryHandle>>> {
    let mut parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    let Some(first) = parts.next() else { return Ok(None) };
    let first = root.open_directory(first)?;
    parts
        .try_fold(first, |directory, part| directory.open_directory(part))
        .map(Some)
}

fn unreachable_name() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "this storage cannot read names that are not UTF-8",
    )
}
