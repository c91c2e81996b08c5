//! Merging the content of an entry that both sides have: three images into one, by line if they are text.

use bytes::Bytes;
use garret_core::{EntryKind, Follow, MergeInput, PathImage, ReadOptions, Result, Storage};

use super::OnConflict;
use super::forest::{MergeEntry, MergeEntryState};
use crate::ConflictKind;
use crate::history::render::is_binary;
use crate::text::merge::{ConflictFavour, Labels, merge_texts};

/// The most bytes of a side that are merged by line.
const MAX_BYTES: u64 = 8 << 20;

/// The entry that will be at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MergedContent {
    /// An entry that the base or a side already has.
    Image(PathImage),
    /// A file with content that the merge made.
    New { content: Bytes, mode: u32 },
}

impl MergedContent {
    pub(super) fn is_directory(&self) -> bool {
        matches!(self, Self::Image(image) if image.kind == EntryKind::Directory)
    }
}

/// The merged content of two states, and the conflict between them, if there is one.
#[derive(Debug, Clone)]
pub(super) struct ContentMergeOutcome {
    pub(super) content: MergedContent,
    pub(super) conflict: Option<(ConflictKind, usize)>,
}

/// Whether two entries are equal for a user: in content and mode.
pub(super) fn is_same(one: &PathImage, other: &PathImage) -> bool {
    is_same_content(one, other) && is_same_mode(one, other)
}

fn is_same_content(one: &PathImage, other: &PathImage) -> bool {
    let of = |image: &PathImage| (image.kind, image.content, image.version.clone(), image.target.clone());
    of(one) == of(other)
}

fn is_same_mode(one: &PathImage, other: &PathImage) -> bool {
    // The permission bits of a link have no effect, so a difference in them is none.
    one.mode == other.mode || one.kind == EntryKind::Symlink
}

/// Returns the value of the side that changed it since the base; `None` if both sides changed it differently.
pub(super) fn pick_changed<'a, T: ?Sized>(
    base: Option<&'a T>,
    ours: &'a T,
    theirs: &'a T,
    is_same: impl Fn(&T, &T) -> bool,
) -> Option<&'a T> {
    match base {
        _ if is_same(ours, theirs) => Some(ours),
        Some(base) if is_same(base, ours) => Some(theirs),
        Some(base) if is_same(base, theirs) => Some(ours),
        _ => None,
    }
}

/// Merges the content of an entry that both sides have, of the same kind; `None` if a side does not have it.
pub(super) async fn merge_contents(
    merging: &MergeInput,
    entity: &MergeEntry,
    on_conflict: OnConflict,
) -> Result<Option<ContentMergeOutcome>> {
    let [Some(ours), Some(theirs)] = &entity.sides else {
        return Ok(None);
    };
    let base = entity.base.as_ref().map(|state| &state.image);
    let mode = pick_changed(base, &ours.image, &theirs.image, is_same_mode).map(|image| image.mode);
    let settled_mode = mode.unwrap_or(favoured_state(on_conflict, ours, theirs).image.mode);
    let mode_conflict = mode.is_none().then_some((ConflictKind::Mode, 0));
    if let Some(image) = pick_changed(base, &ours.image, &theirs.image, is_same_content) {
        let image = PathImage {
            mode: settled_mode,
            ..image.clone()
        };
        return Ok(Some(ContentMergeOutcome {
            content: MergedContent::Image(image),
            conflict: mode_conflict,
        }));
    }
    let kind = match base {
        Some(_) => ConflictKind::Content,
        None => ConflictKind::BothAdded,
    };
    let lines = merge_by_line(merging, entity.base.as_ref(), (ours, theirs), on_conflict).await?;
    let (content, conflict) = match lines {
        Some((lines, 0)) => (lines.with_mode(settled_mode), mode_conflict),
        Some((lines, hunks)) => (lines.with_mode(settled_mode), Some((kind, hunks))),
        None => {
            let image = favoured_state(on_conflict, ours, theirs).image.clone();
            (
                MergedContent::Image(PathImage {
                    mode: settled_mode,
                    ..image
                }),
                Some((kind, 0)),
            )
        }
    };
    Ok(Some(ContentMergeOutcome { content, conflict }))
}

fn favoured_state<'a>(
    on_conflict: OnConflict,
    ours: &'a MergeEntryState,
    theirs: &'a MergeEntryState,
) -> &'a MergeEntryState {
    match on_conflict {
        OnConflict::Theirs => theirs,
        _ => ours,
    }
}

/// The result of a merge by line.
enum LineMergeOutcome {
    /// The content that a side already has.
    Existing(PathImage),
    New(Bytes),
}

impl LineMergeOutcome {
    fn with_mode(self, mode: u32) -> MergedContent {
        match self {
            Self::Existing(image) => MergedContent::Image(PathImage { mode, ..image }),
            Self::New(content) => MergedContent::New { content, mode },
        }
    }
}

/// Merges the three texts by line; returns the result and the number of conflicting regions. `None` if one is not text,
/// or too large.
async fn merge_by_line(
    merging: &MergeInput,
    base: Option<&MergeEntryState>,
    sides: (&MergeEntryState, &MergeEntryState),
    on_conflict: OnConflict,
) -> Result<Option<(LineMergeOutcome, usize)>> {
    let old = match base {
        Some(base) => read_text(merging.base.as_ref(), base).await?,
        None => Some(Bytes::new()),
    };
    let (ours, theirs) = (
        read_text(merging.ours.files.as_ref(), sides.0).await?,
        read_text(merging.theirs.files.as_ref(), sides.1).await?,
    );
    let (Some(old), Some(ours), Some(theirs)) = (old, ours, theirs) else {
        return Ok(None);
    };
    let labels = Labels {
        ours: &merging.ours.name,
        base: "base",
        theirs: &merging.theirs.name,
    };
    let favour = match on_conflict {
        OnConflict::Theirs => ConflictFavour::Theirs,
        OnConflict::Ours => ConflictFavour::Ours,
        OnConflict::Report | OnConflict::Markers => ConflictFavour::Markers(labels),
    };
    let merged = merge_texts(&old, &ours, &theirs, favour);
    // A result that a side already has keeps the address of that content, so that it is not stored again.
    let lines = match merged.text {
        text if text == ours => LineMergeOutcome::Existing(sides.0.image.clone()),
        text if text == theirs => LineMergeOutcome::Existing(sides.1.image.clone()),
        text => LineMergeOutcome::New(text.into()),
    };
    Ok(Some((lines, merged.conflicts)))
}

/// Reads a file that is text; `None` for any other entry, and for a file that is too large or whose name is not UTF-8.
pub(super) async fn read_text(storage: &dyn Storage, state: &MergeEntryState) -> Result<Option<Bytes>> {
    let is_file = state.image.kind == EntryKind::File && state.image.size <= MAX_BYTES;
    let Some(path) = state.path.as_path().filter(|_| is_file) else {
        return Ok(None);
    };
    let options = ReadOptions {
        follow: Follow::Never,
        max_bytes: Some(MAX_BYTES),
        ..ReadOptions::default()
    };
    let bytes = storage.read(path, options).await?.bytes;
    Ok(Some(bytes).filter(|bytes| !is_binary(bytes)))
}
