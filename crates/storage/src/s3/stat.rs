//! Describing an entry.

use garret_core::{EntryKind, Error, Result, Stat, StatOptions, Version, WsPath};

use super::S3Context;
use super::bucket::S3Object;
use super::locate::{S3FinalLink, S3FoundEntry, S3LinkRules, error_at_path};

/// The mode of a file whose mode was never set.
pub(super) const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

pub(super) async fn describe_path(shared: &S3Context, path: &WsPath, options: StatOptions) -> Result<Stat> {
    let way = S3LinkRules {
        last: S3FinalLink::Kept,
        follow: options.follow,
    };
    let located = shared.locate_entry(path, way).await?;
    match &located.found {
        S3FoundEntry::Nothing { .. } | S3FoundEntry::Blocked => Err(located.missing_error()),
        S3FoundEntry::File(object) => Ok(file_stat(object, options)),
        S3FoundEntry::Link(object) => Ok(link_stat(object)),
        S3FoundEntry::Directory { has_marker: false } => Ok(directory_stat(None)),
        S3FoundEntry::Directory { has_marker: true } => describe_marked_directory(shared, &located.path).await,
    }
}

async fn describe_marked_directory(shared: &S3Context, path: &WsPath) -> Result<Stat> {
    let key = shared.layout.directory_key(path);
    let marker = shared
        .bucket
        .head(&key)
        .await
        .map_err(|failure| error_at_path(path, failure))?;
    Ok(directory_stat(marker.as_ref()))
}

fn file_stat(object: &S3Object, options: StatOptions) -> Stat {
    Stat {
        kind: EntryKind::File,
        size: object.size,
        mode: Some(object.metadata.mode.unwrap_or(FILE_MODE)),
        created: object.metadata.created,
        modified: object.modified,
        changed: None,
        version: options.with_version.then(|| version_of(object)),
        target: None,
        hard_linked: None,
    }
}

fn link_stat(object: &S3Object) -> Stat {
    let target = object.metadata.target.clone();
    Stat {
        kind: EntryKind::Symlink,
        size: target.as_ref().map_or(0, |target| target.len() as u64),
        mode: None,
        created: object.metadata.created,
        modified: object.modified,
        changed: None,
        version: None,
        target,
        hard_linked: None,
    }
}

fn directory_stat(marker: Option<&S3Object>) -> Stat {
    let mode = marker.and_then(|marker| marker.metadata.mode);
    Stat {
        kind: EntryKind::Directory,
        size: 0,
        mode: Some(mode.unwrap_or(DIRECTORY_MODE)),
        created: marker.and_then(|marker| marker.metadata.created),
        modified: None,
        changed: None,
        version: None,
        target: None,
        hard_linked: None,
    }
}

/// Returns the version of a file: its ETag.
pub(super) fn version_of(object: &S3Object) -> Version {
    Version::new(&object.tag)
}

/// Returns the error for an operation that needs a file and finds another kind, or nothing.
pub(super) fn not_a_file(located: &super::locate::S3EntryLocation) -> Error {
    match located.found {
        S3FoundEntry::Directory { .. } => Error::is_a_directory(&located.path),
        S3FoundEntry::Link(_) => Error::path_escape(&located.path),
        _ => located.missing_error(),
    }
}
