//! Images of entries, as changes in the history show them.

use garret_core::{EntryKind, PathImage, Stat};

/// Returns the image of an entry from the `stat` of its storage.
pub(in crate::shell) fn image_of_stat(stat: &Stat) -> PathImage {
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

/// Returns the image of an entry of which nothing is known.
pub(in crate::shell) fn unknown_image() -> PathImage {
    PathImage {
        kind: EntryKind::Other,
        mode: 0,
        size: 0,
        version: None,
        target: None,
        content: None,
    }
}
