//! Images of entries, as changes in the history show them.

use garret_core::{EntryKind, ErrorKind, Follow, PathImage, Result, Stat, StatOptions, Storage, WsPath};

/// Returns the image of the entry that a storage has at `path`.
pub(crate) async fn read_image(storage: &dyn Storage, path: &WsPath) -> Result<Option<PathImage>> {
    let options = StatOptions {
        follow: Follow::Never,
        ..StatOptions::default()
    };
    match storage.stat(path, options).await {
        Ok(stat) => Ok(Some(image_of_stat(&stat))),
        Err(error) if is_absence(error.kind()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the error of a `stat` or a read means that there is no entry at the path.
pub(crate) fn is_absence(kind: ErrorKind) -> bool {
    // Somebody may have replaced a directory above the path with a file or a link; then the path leads nowhere.
    matches!(
        kind,
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PathEscape
    )
}

/// Returns the image of an entry from the `stat` of its storage.
pub(crate) fn image_of_stat(stat: &Stat) -> PathImage {
    // Not every storage has modes; these are the usual ones of new entries.
    let mode = match stat.kind {
        EntryKind::Directory => 0o755,
        EntryKind::Symlink => 0o777,
        _ => 0o644,
    };
    PathImage {
        kind: stat.kind,
        mode: stat.mode.unwrap_or(mode),
        size: stat.size,
        version: stat.version.clone(),
        target: stat.target.clone(),
        content: None,
    }
}

/// Returns the image of an entry of which only the kind and the size are known.
pub(crate) fn bare_image(kind: EntryKind, size: u64) -> PathImage {
    PathImage {
        kind,
        mode: 0,
        size,
        version: None,
        target: None,
        content: None,
    }
}
