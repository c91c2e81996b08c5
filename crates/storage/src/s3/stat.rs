//! Describing an entry.

use garret_core::{EntryKind, Error, Result, Stat, StatOptions, Version, WsPath};

use super::Shared;
use super::bucket::Object;
use super::locate::{Found, Last, Way, failed};

/// The mode of a file whose mode was never set.
pub(super) const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

pub(super) async fn stat(shared: &Shared, path: &WsPath, options: StatOptions) -> Result<Stat> {
    let way = Way {
        last: Last::Kept,
        follow: options.follow,
    };
    let located = shared.locate(path, way).await?;
    match &located.found {
        Found::Nothing { .. } | Found::Blocked => Err(located.missing()),
        Found::File(object) => Ok(file(object, options)),
        Found::Link(object) => Ok(link(object)),
        Found::Directory { has_marker: false } => Ok(directory(None)),
        Found::Directory { has_marker: true } => marked(shared, &located.path).await,
    }
}

async fn marked(shared: &Shared, path: &WsPath) -> Result<Stat> {
    let key = shared.layout.directory(path);
    let marker = shared
        .bucket
        .head(&key)
        .await
        .map_err(|failure| failed(path, failure))?;
    Ok(directory(marker.as_ref()))
}

fn file(object: &Object, options: StatOptions) -> Stat {
    Stat {
        kind: EntryKind::File,
        size: object.size,
        mode: Some(object.metadata.mode.unwrap_or(FILE_MODE)),
        created: object.metadata.created,
        modified: object.modified,
        changed: None,
        version: options.with_version.then(|| version(object)),
        target: None,
        hard_linked: None,
    }
}

fn link(object: &Object) -> Stat {
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

fn directory(marker: Option<&Object>) -> Stat {
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
pub(super) fn version(object: &Object) -> Version {
    Version::new(&object.tag)
}

/// Returns the error for an operation that needs a file and finds another kind, or nothing.
pub(super) fn not_a_file(located: &super::locate::Located) -> Error {
    match located.found {
        Found::Directory { .. } => Error::is_a_directory(&located.path),
        Found::Link(_) => Error::path_escape(&located.path),
        _ => located.missing(),
    }
}
