//! An index of the entries on a live layer. It serves two ends.
//!
//! An entry that Garret placed on the layer must not be taken for an effect of the processes, however young it is. And
//! if the files lie directly under the layer, its entries hide them: changes that others make there are found by
//! comparing the files with their state when both sides were last known to be the same. Files that the layer has no
//! entry for show through it by themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use garret_core::time::is_young_file;
use garret_core::{
    Content, Effect, EntryKind, EntryPath, Exclusions, Follow, ListAllOptions, PlacedEntry, Result, Stat, StatOptions,
    Timestamp, WsPath, list_all,
};

use crate::file_access::{FileAccess, FileSource};
use crate::path_images::is_absence;
use crate::shell::background::file_effects::{effect_at, path_with_ancestors};
use crate::shell::effects::commit_without_history::skip_unreadable;

const PIECE: usize = 128 * 1024;

/// The entries on a live layer, by path.
#[derive(Debug, Default)]
pub(in crate::shell) struct LayerIndex {
    entries: BTreeMap<EntryPath, LayerIndexEntry>,
}

/// One path of the index.
#[derive(Debug, Default)]
struct LayerIndexEntry {
    /// The entry on the layer; `None` for a directory above such an entry, until it is compared for the first time.
    print: Option<LayerEntryPrint>,
    /// The `stat` of the files at this path when they were the same as the layer.
    below: Option<Stat>,
    /// The entries in the directory when it was listed last.
    names: Option<BTreeSet<EntryPath>>,
    /// Whether it is a directory of the layer, which may hide files below it.
    is_own: bool,
}

/// The fingerprint of an entry: two entries with the same one are taken for the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LayerEntryPrint {
    Nothing,
    File { mode: u32, size: u64, hash: u64 },
    Directory { mode: u32 },
    Symlink { hash: u64 },
}

/// The present state of the files at one path.
#[derive(Debug)]
struct LayerIndexObservation {
    stat: Option<Stat>,
    placed: PlacedEntry,
    print: LayerEntryPrint,
    /// The entries in it, if it is a directory that the layer has, too.
    names: Option<BTreeSet<EntryPath>>,
}

impl LayerEntryPrint {
    /// Returns the fingerprint of an entry; `None` for an image, whose content only a history has.
    fn from_placed(placed: &PlacedEntry) -> Result<Option<Self>> {
        const BITS: u32 = 0o777;
        Ok(Some(match placed {
            PlacedEntry::Image(_) => return Ok(None),
            PlacedEntry::Nothing => Self::Nothing,
            PlacedEntry::File { content, mode } => Self::File {
                mode: mode & BITS,
                size: content.len(),
                hash: hash_content(content)?,
            },
            PlacedEntry::Directory { mode } => Self::Directory { mode: mode & BITS },
            PlacedEntry::Symlink { target } => {
                let mut hasher = DefaultHasher::new();
                target.hash(&mut hasher);
                Self::Symlink { hash: hasher.finish() }
            }
        }))
    }

    fn is_directory(self) -> bool {
        matches!(self, Self::Directory { .. })
    }
}

fn hash_content(content: &Content) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    let mut reader = content.open()?;
    let mut piece = Vec::with_capacity(PIECE);
    while reader.append_to(&mut piece, PIECE)? > 0 {
        hasher.write(&piece);
        piece.clear();
    }
    Ok(hasher.finish())
}

impl LayerIndex {
    /// Returns the effects that the index does not have yet.
    pub(in crate::shell) fn filter_new_effects(&self, effects: Vec<Effect>) -> Result<Vec<Effect>> {
        let mut fresh = Vec::with_capacity(effects.len());
        for effect in effects {
            if !self.has_effect(&effect)? {
                fresh.push(effect);
            }
        }
        Ok(fresh)
    }

    fn has_effect(&self, effect: &Effect) -> Result<bool> {
        let Some(print) = self.entries.get(&effect.path).and_then(|entry| entry.print) else {
            return Ok(false);
        };
        match &effect.placed {
            // The file is a hard link, and one of its names may be new even if its content is not.
            PlacedEntry::File { content, .. } if content.other_name().is_some() => Ok(false),
            // Files of different size differ without a look at their bytes.
            PlacedEntry::File { content, .. } if !matches!(print, LayerEntryPrint::File { size, .. } if size == content.len()) => {
                Ok(false)
            }
            placed => Ok(LayerEntryPrint::from_placed(placed)? == Some(print)),
        }
    }

    /// Adds entries that are on the layer now.
    pub(in crate::shell) fn add_effects(&mut self, effects: &[Effect]) -> Result<()> {
        for effect in effects {
            for above in path_with_ancestors(&effect.path) {
                self.entries.entry(above).or_default();
            }
            let Some(print) = LayerEntryPrint::from_placed(&effect.placed)? else {
                continue;
            };
            let entry = self.entries.entry(effect.path.clone()).or_default();
            *entry = LayerIndexEntry {
                print: Some(print),
                below: None,
                // A directory that stays one still holds the same entries.
                names: entry.names.take().filter(|_| print.is_directory()),
                is_own: print.is_directory(),
            };
        }
        Ok(())
    }

    /// Records the entries of each directory among `places`: those of `places` that lie in it, and no others.
    fn record_children(&mut self, places: &[Effect]) {
        let directories = places
            .iter()
            .filter(|place| matches!(place.placed, PlacedEntry::Directory { .. }));
        for directory in directories {
            let is_child = |place: &&Effect| parent_path(&place.path) == directory.path.as_bytes();
            let names = places.iter().filter(is_child).map(|place| place.path.clone()).collect();
            self.entries.entry(directory.path.clone()).or_default().names = Some(names);
        }
    }

    /// Finds the changes that others made to files that the layer hides. Returns them as effects to be placed on the
    /// layer. Paths that cannot be read are left as they are.
    pub(in crate::shell) async fn find_outside_changes(
        &mut self,
        files: &FileAccess,
        excluded: &Exclusions,
    ) -> Result<Vec<Effect>> {
        let now = files.context.clock.now();
        let (mut strays, mut trees) = (Vec::new(), Vec::new());
        let known: BTreeSet<EntryPath> = self.entries.keys().cloned().collect();
        for (path, entry) in &mut self.entries {
            let Some(seen) = skip_unreadable(entry.observe_files(path, files, excluded).await)?.flatten() else {
                continue;
            };
            trees.extend(entry.new_names(&seen).filter(|name| !known.contains(name)));
            let is_same = entry.matches_print(seen.print);
            if !is_same && seen.print.is_directory() {
                trees.push(path.clone());
            } else if !is_same {
                strays.push(effect_at(path, seen.placed.clone()));
            }
            entry.update_entry(seen, is_same, now);
        }
        strays.extend(self.read_whole_trees(&trees, files, excluded).await?);
        Ok(strays)
    }

    /// Returns the entries of the files at the paths `trees` and below them, as effects to be placed on the layer.
    async fn read_whole_trees(
        &mut self,
        trees: &[EntryPath],
        files: &FileAccess,
        excluded: &Exclusions,
    ) -> Result<Vec<Effect>> {
        let mut below = files.source.read_trees_as_effects(trees).await?;
        below.retain(|effect| {
            let is_directory = matches!(effect.placed, PlacedEntry::Directory { .. });
            !excluded.covers_path(&effect.path, is_directory)
        });
        let is_below = |place: &&Effect| trees.iter().any(|top| is_at_or_below(&place.path, top));
        let covered: Vec<_> = below.iter().filter(is_below).cloned().collect();
        self.record_children(&covered);
        Ok(below)
    }
}

impl LayerIndexEntry {
    /// Reads the state of the files at this path; `None` if it is unchanged, or if the path is excluded from history.
    async fn observe_files(
        &self,
        path: &EntryPath,
        files: &FileAccess,
        excluded: &Exclusions,
    ) -> Result<Option<LayerIndexObservation>> {
        let Some(valid) = path.as_path() else { return Ok(None) };
        let stat = files.source.stat_file_below(valid).await?;
        let is_directory = stat.as_ref().is_some_and(|stat| stat.kind == EntryKind::Directory);
        if self.is_unchanged(stat.as_ref()) || excluded.covers_path(path, is_directory || self.may_be_directory()) {
            return Ok(None);
        }
        let names = if is_directory && self.is_own {
            Some(files.source.list_names_below(valid).await?)
        } else {
            None
        };
        let placed = files.source.read_placed_at(valid).await?;
        let print = LayerEntryPrint::from_placed(&placed)?;
        Ok(print.map(|print| LayerIndexObservation {
            stat,
            placed,
            print,
            names,
        }))
    }

    /// Whether the `stat` alone shows that the files are unchanged at this path.
    fn is_unchanged(&self, stat: Option<&Stat>) -> bool {
        match stat {
            None => self.print == Some(LayerEntryPrint::Nothing),
            stat => self.below.as_ref() == stat,
        }
    }

    fn may_be_directory(&self) -> bool {
        self.print.is_none_or(LayerEntryPrint::is_directory)
    }

    /// Whether the layer has the same entry. Of a directory above the entries of the layer, only the kind is known.
    fn matches_print(&self, print: LayerEntryPrint) -> bool {
        self.print.map_or(print.is_directory(), |own| own == print)
    }

    /// Returns the entries that came into the directory since it was listed last.
    fn new_names(&self, seen: &LayerIndexObservation) -> impl Iterator<Item = EntryPath> {
        let names = self.names.as_ref().zip(seen.names.as_ref());
        let new: Vec<_> = names.map_or_else(Vec::new, |(old, now)| now.difference(old).cloned().collect());
        new.into_iter()
    }

    /// Updates the index with the state that was read.
    fn update_entry(&mut self, seen: LayerIndexObservation, is_same: bool, now: Timestamp) {
        if seen.names.is_some() {
            self.names = seen.names;
        }
        if is_same {
            self.print = Some(seen.print);
            // A young `stat` is not stored: the file could change again within the same tick, and that change would not
            // be found.
            self.below = seen.stat.filter(|stat| !is_recently_modified(stat, now));
        }
    }
}

impl FileSource {
    async fn stat_file_below(&self, path: &WsPath) -> Result<Option<Stat>> {
        let options = StatOptions {
            follow: Follow::Never,
            with_version: false,
        };
        match self.storage.stat(path, options).await {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if is_absence(error.kind()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn list_names_below(&self, path: &WsPath) -> Result<BTreeSet<EntryPath>> {
        let options = ListAllOptions {
            is_deep: false,
            follow: Follow::Never,
            limit: None,
        };
        match list_all(&*self.storage, path, &options).await {
            Ok(listed) => Ok(listed.entries.into_iter().map(|entry| entry.path).collect()),
            Err(error) if is_absence(error.kind()) => Ok(BTreeSet::new()),
            Err(error) => Err(error),
        }
    }
}

fn parent_path(path: &EntryPath) -> &[u8] {
    let bytes = path.as_bytes();
    let slash = bytes.iter().rposition(|byte| *byte == b'/');
    &bytes[..slash.unwrap_or(0)]
}

fn is_at_or_below(path: &EntryPath, top: &EntryPath) -> bool {
    let rest = path.as_bytes().strip_prefix(top.as_bytes());
    matches!(rest, Some([] | [b'/', ..]))
}

fn is_recently_modified(stat: &Stat, now: Timestamp) -> bool {
    let Some(modified) = stat.modified else { return true };
    is_young_file(
        &[(modified.as_second(), modified.subsec_nanosecond().unsigned_abs())],
        now,
    )
}

#[cfg(test)]
mod tests;
