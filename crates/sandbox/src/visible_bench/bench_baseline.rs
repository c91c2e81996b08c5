//! Finds the changes that others made to a bench under a layer that does not lie over the bench itself.

use std::os::fd::BorrowedFd;

use garret_core::{EffectsMark, EntryPath, ReadFilter, Result};

use super::filter_listing::{VisibleEntries, visible_entries};
use crate::effects;
use crate::effects::entry_status::EntryStatus;
use garret_handles::stat_beneath;

/// The state of the bench when a layer was mounted, or at the last search for changes of others.
#[derive(Debug, Clone, Default)]
pub(crate) enum BenchBaseline {
    /// Not needed: the layer lies over the bench itself, and changes of others are visible through it.
    #[default]
    Bench,
    /// The state of the whole bench.
    Everything(EffectsMark),
    /// The state of the entries that the filter shows.
    Visible(VisibleEntries),
}

impl BenchBaseline {
    /// Returns the paths that others changed since then, and the present state of the bench. `layer` is the directory
    /// that commands write to.
    pub(crate) fn find_changes(
        &self,
        bench: BorrowedFd<'_>,
        layer: BorrowedFd<'_>,
        filter: Option<&dyn ReadFilter>,
    ) -> Result<(Vec<EntryPath>, Self)> {
        match (self, filter) {
            (Self::Visible(before), Some(filter)) => {
                let now = visible_entries(bench, filter)?;
                Ok((changed_paths(bench, before, &now), Self::Visible(now)))
            }
            (Self::Everything(before), _) => {
                let (paths, now) = effects::find_changes_since(before, bench, layer)?;
                Ok((paths, Self::Everything(now)))
            }
            _ => Ok((Vec::new(), self.clone())),
        }
    }
}

/// Returns the paths whose visible entries changed. An entry that only became hidden counts as unchanged.
fn changed_paths(bench: BorrowedFd<'_>, before: &VisibleEntries, now: &VisibleEntries) -> Vec<EntryPath> {
    let is_same = |before: &Option<EntryStatus>, now: &Option<EntryStatus>| match (before, now) {
        // The entries of a directory are compared in any case.
        (Some(before), Some(now)) if now.is_directory() => before.mode == now.mode,
        (Some(before), now) => now.as_ref() == Some(before),
        // No status was kept, because a later write could have left it unchanged.
        (None, _) => false,
    };
    let is_known =
        |path: &Vec<u8>, now: &Option<EntryStatus>| before.get(path).is_some_and(|before| is_same(before, now));
    let changed = now
        .iter()
        .filter(|(path, now)| !is_known(path, now))
        .map(|(path, _)| path);
    let is_gone = |path: &&Vec<u8>| !now.contains_key(*path) && matches!(stat_beneath(bench, path), Ok(None));
    let gone = before.keys().filter(is_gone);
    changed
        .chain(gone)
        .map(|path| EntryPath::from_bytes(path.clone()))
        .collect()
}
