//! What others did to a bench since a layer was laid over something else.

use std::os::fd::BorrowedFd;

use garret_core::{EntryPath, Mark, ReadFilter, Result};

use super::listing::{VisibleEntries, visible_entries};
use crate::effects;
use crate::effects::beneath::look_at;
use crate::effects::seen::Seen;

/// What the bench was like when a layer was laid, or when others were last looked for.
#[derive(Debug, Clone, Default)]
pub(crate) enum Below {
    /// The layer lies over the bench itself, and what others do there is seen through it.
    #[default]
    Bench,
    /// All of it.
    Everything(Mark),
    /// What the filter shows of it.
    Visible(VisibleEntries),
}

impl Below {
    /// The paths at which others did something since then, and what the bench is like now. `layer` holds what was written.
    pub(crate) fn changes(
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
                let (paths, now) = effects::since(before, bench, layer)?;
                Ok((paths, Self::Everything(now)))
            }
            _ => Ok((Vec::new(), self.clone())),
        }
    }
}

/// The paths at which what is visible of a bench is no longer what it was. One that only became hidden stays as it was.
fn changed_paths(bench: BorrowedFd<'_>, before: &VisibleEntries, now: &VisibleEntries) -> Vec<EntryPath> {
    let is_same = |before: &Option<Seen>, now: &Option<Seen>| match (before, now) {
        // What is in a directory is looked at in any case.
        (Some(before), Some(now)) if now.is_directory() => before.mode == now.mode,
        (Some(before), now) => now.as_ref() == Some(before),
        (None, _) => false,
    };
    let is_known = |path: &Vec<u8>, now: &Option<Seen>| before.get(path).is_some_and(|before| is_same(before, now));
    let changed = now
        .iter()
        .filter(|(path, now)| !is_known(path, now))
        .map(|(path, _)| path);
    let is_gone = |path: &&Vec<u8>| !now.contains_key(*path) && matches!(look_at(bench, path), Ok(None));
    let gone = before.keys().filter(is_gone);
    changed
        .chain(gone)
        .map(|path| EntryPath::from_bytes(path.clone()))
        .collect()
}
