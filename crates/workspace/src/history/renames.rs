//! Detecting renames that were not recorded: a file that was removed, and one that was added with exactly the same
//! content.

use std::collections::BTreeMap;

use garret_core::{ContentAddress, EntryKind, EntryPath, PathChange, PathImage};

/// Returns the files that were removed at one path and added at another with the same content, as pairs of old and new
/// path. A content that was removed or added more than once gives no pair.
pub(crate) fn exact_renames(changes: &[PathChange]) -> Vec<(EntryPath, EntryPath)> {
    let mut gone: BTreeMap<ContentAddress, Vec<&EntryPath>> = BTreeMap::new();
    let mut come: BTreeMap<ContentAddress, Vec<&EntryPath>> = BTreeMap::new();
    for change in changes {
        match (&change.before, &change.after) {
            (Some(image), None) => index_by_content(&mut gone, image, &change.path),
            (None, Some(image)) => index_by_content(&mut come, image, &change.path),
            _ => {}
        }
    }
    let pair =
        |(content, from): (ContentAddress, Vec<&EntryPath>)| match (from.as_slice(), come.get(&content)?.as_slice()) {
            ([from], [to]) => Some(((*from).clone(), (*to).clone())),
            _ => None,
        };
    gone.into_iter().filter_map(pair).collect()
}

fn index_by_content<'a>(
    by_content: &mut BTreeMap<ContentAddress, Vec<&'a EntryPath>>,
    image: &PathImage,
    path: &'a EntryPath,
) {
    // All empty files have the same content, which says nothing about their origin.
    if let Some(content) = image.content
        && image.kind == EntryKind::File
        && image.size > 0
    {
        by_content.entry(content).or_default().push(path);
    }
}
