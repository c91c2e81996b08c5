//! What a checkout should hold.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use garret_core::{
    Directory, Entry, EntryKind, Error, ErrorKind, Follow, Image, ListOptions, Result, StatOptions, Storage, Timestamp,
    Version, WsPath,
};

const PAGE: usize = 5_000;
pub(super) const FILE_MODE: u32 = 0o644;
pub(super) const DIRECTORY_MODE: u32 = 0o755;

/// What should be at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) what: What,
    pub(super) modified: Option<Timestamp>,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    Directory {
        mode: u32,
    },
    Symlink {
        target: String,
    },
    /// The mode and the version are known where they were asked for; reading tells them too.
    File {
        size: u64,
        mode: Option<u32>,
        version: Option<u64>,
    },
    /// Something that the storage lists and does not give out; what was left there is as good as it gets.
    OutOfReach,
}

/// Everything that should be there, by path.
pub(super) type Everything = BTreeMap<Vec<u8>, Wanted>;

impl Wanted {
    /// What an image of the journal says; `None` for what no checkout holds.
    pub(super) fn of(image: &Image) -> Option<Self> {
        let what = match image.kind {
            EntryKind::Directory => What::Directory { mode: image.mode },
            EntryKind::Symlink => What::Symlink {
                target: image.target.clone().unwrap_or_default(),
            },
            EntryKind::File => What::File {
                size: image.size,
                mode: Some(image.mode),
                version: image.version.as_ref().map(version_number),
            },
            EntryKind::Other => return None,
        };
        Some(Self { what, modified: None })
    }
}

/// A number for a version, to tell whether it is the same.
pub(super) fn version_number(version: &Version) -> u64 {
    let mut hasher = DefaultHasher::new();
    version.as_str().hash(&mut hasher);
    hasher.finish().max(1)
}

/// Whether the versions of files are asked for where they cost a look each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Versions {
    Asked,
    /// Everything will be read anyway.
    LeftOut,
}

/// Everything in the files.
pub(super) async fn everything(files: &dyn Storage, versions: Versions) -> Result<Everything> {
    let mut wanted = Everything::new();
    let mut options = ListOptions {
        is_deep: true,
        limit: PAGE,
        follow: Follow::Never,
        after: None,
    };
    loop {
        let page = files.list(&WsPath::root(), options.clone()).await?;
        for entry in &page.entries {
            if let Some(one) = described(files, entry, versions).await? {
                wanted.insert(entry.path.as_bytes().to_vec(), one);
            }
        }
        match page.entries.last() {
            Some(last) if page.has_more => options.after = Some(last.path.clone()),
            _ => return Ok(wanted),
        }
    }
}

async fn described(files: &dyn Storage, entry: &Entry, versions: Versions) -> Result<Option<Wanted>> {
    let modified = entry.modified;
    let what = |what| Some(Wanted { what, modified });
    if entry.kind == EntryKind::File && versions == Versions::LeftOut && !entry.path.is_escaped() {
        return Ok(what(What::File {
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
            files.stat(path, options).await
        }
        // A name that no path can spell.
        None => raw_directory(files, entry.path.as_bytes()).and_then(|(directory, name)| directory.stat(name)),
    };
    let stat = match stat {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(what(What::OutOfReach)),
        stat => stat?,
    };
    Ok(match stat.kind {
        EntryKind::Directory => what(What::Directory {
            mode: stat.mode.unwrap_or(DIRECTORY_MODE),
        }),
        EntryKind::Symlink => what(What::Symlink {
            target: stat.target.unwrap_or_default(),
        }),
        EntryKind::File => what(What::File {
            size: stat.size,
            mode: stat.mode,
            version: stat.version.as_ref().map(version_number),
        }),
        EntryKind::Other => None,
    })
}

/// The directory that holds `path`, which no path of a workspace can spell, and the name in it.
pub(super) fn raw_directory<'p>(files: &dyn Storage, path: &'p [u8]) -> Result<(Box<dyn Directory>, &'p [u8])> {
    let (above, name) = crate::effects::beneath::split(path);
    let top = files.open_directory(&WsPath::root())?.ok_or_else(unreachable_name)?;
    let parts = above.split(|byte| *byte == b'/').filter(|part| !part.is_empty());
    let directory = parts
        .into_iter()
        .try_fold(top, |directory, part| directory.open_directory(part))?;
    Ok((directory, name))
}

fn unreachable_name() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "this storage gives out no names that are not UTF-8",
    )
}
