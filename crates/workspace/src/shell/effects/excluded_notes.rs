//! Notes on the effects of commands on paths that are excluded from history. They are stored beside the bench under the
//! number of the change: an undo of the change leaves those paths as they are, and reports them. The notes are deleted
//! with the bench, as those paths are.

#![allow(
    clippy::disallowed_methods,
    reason = "this file keeps notes in the private directory of a bench, beside the layers"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use garret_core::{Effect, EntryPath, PlacedEntry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::shell::effects::layer_note::{make_private_directory, write_private};
use crate::shell::runtime::ShellRuntime;
use crate::view::WorkspaceView;

/// The number of notes that are stored; older ones are deleted.
const MOST_NOTES: usize = 1_000;
/// The number of changes between two removals of old notes.
const LOOK_EVERY: u64 = 64;

/// Paths that are excluded from history, and that an operation therefore left as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathsLeftAlone {
    /// The first excluded paths that the operation would have changed, or that the undone changes had written.
    pub paths: Vec<String>,
    /// How many more there are.
    #[serde(skip_serializing_if = "is_zero")]
    pub more: u64,
    /// The first excluded paths that the undone changes had deleted; they cannot be restored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<String>,
    /// How many more of those there are.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_deleted: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl PathsLeftAlone {
    /// The most paths that are named.
    pub const SHOWN_PATHS: usize = 20;

    fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.deleted.is_empty()
    }

    /// Returns the excluded paths that a plan left alone, as far as `view` may see them; `None` if there is none.
    pub(crate) fn of_plan(view: &WorkspaceView, paths: &[EntryPath]) -> Option<Self> {
        let left = Self::default().with_paths(view.visible_paths(paths.iter()).collect());
        (!left.is_empty()).then_some(left)
    }

    /// Adds the written paths of `other`.
    pub(crate) fn join(mut self, other: Self) -> Self {
        self.more += other.more;
        self.with_paths(other.paths.into_iter().collect())
    }

    fn with_paths(mut self, mut paths: BTreeSet<String>) -> Self {
        paths.append(&mut self.paths.drain(..).collect());
        self.more += paths.len().saturating_sub(Self::SHOWN_PATHS) as u64;
        self.paths = paths.into_iter().take(Self::SHOWN_PATHS).collect();
        self
    }
}

/// The excluded paths that one change touched, each written as a token.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ExcludedEffectsNote {
    places: Vec<String>,
    more: u64,
    deleted: Vec<String>,
    more_deleted: u64,
}

/// Returns the first paths as tokens, and the number of further ones.
fn first_paths(paths: BTreeSet<EntryPath>) -> (Vec<String>, u64) {
    let more = paths.len().saturating_sub(PathsLeftAlone::SHOWN_PATHS) as u64;
    let first = paths.iter().take(PathsLeftAlone::SHOWN_PATHS);
    (first.map(EntryPath::to_token).collect(), more)
}

impl ShellRuntime {
    /// Stores which excluded paths the change of this number touched. A note that cannot be written is not an error: an
    /// undo of the change then reports less.
    pub(in crate::shell) fn note_excluded_effects(&self, number: u64, excluded: &[Effect]) {
        if excluded.is_empty() {
            return;
        }
        let (gone, written): (Vec<_>, Vec<_>) = excluded.iter().partition(|one| one.placed == PlacedEntry::Nothing);
        let top = |effect: &&Effect| {
            let path = effect.path.as_bytes();
            let is_directory = matches!(effect.placed, PlacedEntry::Directory { .. });
            let top = self.exclusions.excluded_ancestor(path, is_directory).unwrap_or(path);
            EntryPath::from_bytes(top.to_vec())
        };
        let (places, more) = first_paths(written.iter().map(top).collect());
        let (deleted, more_deleted) = first_paths(gone.iter().map(|effect| effect.path.clone()).collect());
        let note = ExcludedEffectsNote {
            places,
            more,
            deleted,
            more_deleted,
        };
        let directory = self.excluded_notes_directory();
        if let Ok(text) = serde_json::to_vec(&note)
            && make_private_directory(&directory).is_ok()
        {
            let _ = write_private(&excluded_note_path(&directory, number), &text);
        }
        // The directory is listed only now and then: a listing of a thousand notes would slow down every command.
        if number.is_multiple_of(LOOK_EVERY) {
            remove_old_notes(&directory);
        }
    }

    fn excluded_notes_directory(&self) -> PathBuf {
        self.scratch_directory().join("kept-out")
    }

    fn read_excluded_note(&self, number: u64) -> Option<ExcludedEffectsNote> {
        let text = std::fs::read(excluded_note_path(&self.excluded_notes_directory(), number)).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

fn excluded_note_path(directory: &Path, number: u64) -> PathBuf {
    // Padded, so that names sort by number and the oldest notes come first.
    directory.join(format!("{number:020}.json"))
}

fn remove_old_notes(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    let mut all: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    all.sort();
    let old = all.len().saturating_sub(MOST_NOTES);
    for path in all.iter().take(old) {
        let _ = std::fs::remove_file(path);
    }
}

impl ShellRuntime {
    /// Returns the excluded paths that the changes of these numbers touched, as far as `view` may see them.
    pub(crate) fn paths_left_alone(&self, view: &WorkspaceView, numbers: &[u64]) -> Option<PathsLeftAlone> {
        if self.exclusions.is_empty() {
            return None;
        }
        let mut left = PathsLeftAlone::default();
        let (mut places, mut deleted) = (BTreeSet::new(), BTreeSet::new());
        for note in numbers.iter().filter_map(|number| self.read_excluded_note(*number)) {
            places.extend(view.visible_token_paths(&note.places));
            deleted.extend(view.visible_token_paths(&note.deleted));
            left.more += note.more;
            left.more_deleted += note.more_deleted;
        }
        left = left.with_paths(places);
        left.more_deleted += deleted.len().saturating_sub(PathsLeftAlone::SHOWN_PATHS) as u64;
        left.deleted = deleted.into_iter().take(PathsLeftAlone::SHOWN_PATHS).collect();
        (!left.is_empty()).then_some(left)
    }
}

impl WorkspaceView {
    fn visible_token_paths(&self, tokens: &[String]) -> Vec<String> {
        let paths: Vec<_> = tokens
            .iter()
            .filter_map(|token| EntryPath::from_token(token).ok())
            .collect();
        self.visible_paths(paths.iter()).collect()
    }

    fn visible_paths<'p>(&self, paths: impl Iterator<Item = &'p EntryPath>) -> impl Iterator<Item = String> {
        let seen = paths.filter(|path| self.is_recorded_path_visible(path));
        seen.map(|path| self.relative_entry_path(path).display_path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_plan_are_named_with_those_of_the_notes_and_each_once() {
        let left = |paths: &[&str]| {
            let paths = paths.iter().map(|path| (*path).to_owned());
            PathsLeftAlone::default().with_paths(paths.collect())
        };
        assert_eq!(left(&["b", "a"]).join(left(&["b", "c"])), left(&["a", "b", "c"]));
        let names: Vec<_> = (10..40).map(|number| number.to_string()).collect();
        let (first, last) = names.split_at(15);
        let joined = left(&last.iter().map(String::as_str).collect::<Vec<_>>())
            .join(left(&first.iter().map(String::as_str).collect::<Vec<_>>()));
        assert_eq!((joined.paths.as_slice(), joined.more), (&names[..20], 10));
    }
}
