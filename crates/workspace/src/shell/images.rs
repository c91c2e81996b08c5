//! What effects are in the words of history.

use garret_core::{EntryKind, Image, Placed, Stat};

/// What will be there; `None` for nothing.
pub(super) fn image_of(placed: &Placed) -> Option<Image> {
    let bare = |kind, mode, size| Image {
        kind,
        mode,
        size,
        version: None,
        target: None,
        content: None,
    };
    match placed {
        Placed::Nothing => None,
        Placed::Image(image) => Some(image.clone()),
        Placed::File { content, mode } => Some(bare(EntryKind::File, *mode, content.len())),
        Placed::Directory { mode } => Some(bare(EntryKind::Directory, *mode, 0)),
        Placed::Symlink { target } => Some(Image {
            target: Some(target.clone()),
            ..bare(EntryKind::Symlink, 0o777, target.len() as u64)
        }),
    }
}

/// What is there, by what its storage tells.
pub(super) fn image_of_stat(stat: &Stat) -> Image {
    let mode = match stat.kind {
        EntryKind::Directory => 0o755,
        EntryKind::Symlink => 0o777,
        _ => 0o644,
    };
    Image {
        kind: stat.kind,
        mode: stat.mode.unwrap_or(mode),
        size: stat.size,
        version: stat.version.clone(),
        target: stat.target.clone(),
        content: None,
    }
}

/// Something, of which nobody knows what it was.
pub(super) fn unknown() -> Image {
    Image {
        kind: EntryKind::Other,
        mode: 0,
        size: 0,
        version: None,
        target: None,
        content: None,
    }
}
