//! Images of entries, as changes in the history show them.

use garret_core::{EntryKind, PathImage, PlacedEntry, Stat};

/// Returns the image of an entry that is to be placed; `None` for a removal.
pub(in crate::shell) fn image_of_placed(placed: &PlacedEntry) -> Option<PathImage> {
    let bare = |kind, mode, size| PathImage {
        kind,
        mode,
        size,
        version: None,
        target: None,
        content: None,
    };
    match placed {
        PlacedEntry::Nothing => None,
        PlacedEntry::Image(image) => Some(image.clone()),
        PlacedEntry::File { content, mode } => Some(bare(EntryKind::File, *mode, content.len())),
        PlacedEntry::Directory { mode } => Some(bare(EntryKind::Directory, *mode, 0)),
        PlacedEntry::Symlink { target } => Some(PathImage {
            target: Some(target.clone()),
            ..bare(EntryKind::Symlink, 0o777, target.len() as u64)
        }),
    }
}

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
