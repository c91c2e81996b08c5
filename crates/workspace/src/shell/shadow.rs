//! An index of the entries on a live layer. It serves two ends.
//!
//! An entry that Garret placed on the layer must not be taken for an effect of the processes, however young it is. And
//! if the files lie directly under the layer, its entries hide them: changes that others make there are found by
//! comparing the files with their state when both sides were last known to be the same. Files that the layer has no
//! entry for show through it by themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use garret_core::{
    Content, Effect, EntryKind, EntryPath, Exclusions, Follow, ListAll, Placed, Result, Stat, StatOptions, Timestamp,
    WsPath, list_all,
};

use super::batch::{is_absence, unless_closed};
use super::filed::ancestry;
use crate::Workspace;

/// A file that was changed within this time may be changed once more and still have the same `stat`.
const YOUNG: Duration = Duration::from_millis(50);
/// The time within which that may happen on a file system with timestamps in whole seconds.
const COARSE: Duration = Duration::from_millis(2_500);
const PIECE: usize = 128 * 1024;

/// The entries on a live layer, by path.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    entries: BTreeMap<EntryPath, Entry>,
}

/// One path of the index.
#[derive(Debug, Default)]
struct Entry {
    /// The entry on the layer; `None` for a directory above such an entry, until it is compared for the first time.
    print: Option<Print>,
    /// The `stat` of the files at this path when they were the same as the layer.
    below: Option<Stat>,
    /// The entries in the directory when it was listed last.
    names: Option<BTreeSet<EntryPath>>,
    /// Whether it is a directory of the layer, which may hide files below it.
    is_own: bool,
}

/// The fingerprint of an entry: two entries with the same one are taken for the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Print {
    Nothing,
    File { mode: u32, size: u64, hash: u64 },
    Directory { mode: u32 },
    Symlink { hash: u64 },
}

/// The present state of the files at one path.
#[derive(Debug)]
struct Seen {
    stat: Option<Stat>,
    placed: Placed,
    print: Print,
    /// The entries in it, if it is a directory that the layer has, too.
    names: Option<BTreeSet<EntryPath>>,
}

impl Print {
    /// Returns the fingerprint of an entry; `None` for an image, whose content only a history has.
    fn of(placed: &Placed) -> Result<Option<Self>> {
        const BITS: u32 = 0o777;
        Ok(Some(match placed {
            Placed::Image(_) => return Ok(None),
            Placed::Nothing => Self::Nothing,
            Placed::File { content, mode } => Self::File {
                mode: mode & BITS,
                size: content.len(),
                hash: hash_of(content)?,
            },
            Placed::Directory { mode } => Self::Directory { mode: mode & BITS },
            Placed::Symlink { target } => {
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

fn hash_of(content: &Content) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    let mut reader = content.open()?;
    let mut piece = Vec::with_capacity(PIECE);
    while reader.append_to(&mut piece, PIECE)? > 0 {
        hasher.write(&piece);
        piece.clear();
    }
    Ok(hasher.finish())
}

impl Shadow {
    /// Returns the effects that the index does not have yet.
    pub(super) fn fresh(&self, effects: Vec<Effect>) -> Result<Vec<Effect>> {
        let mut fresh = Vec::with_capacity(effects.len());
        for effect in effects {
            if !self.has(&effect)? {
                fresh.push(effect);
            }
        }
        Ok(fresh)
    }

    fn has(&self, effect: &Effect) -> Result<bool> {
        let Some(print) = self.entries.get(&effect.path).and_then(|entry| entry.print) else {
            return Ok(false);
        };
        match &effect.placed {
            // The file is a hard link, and one of its names may be new even if its content is not.
            Placed::File { content, .. } if content.other_name().is_some() => Ok(false),
            // Files of different size differ without a look at their bytes.
            Placed::File { content, .. } if !matches!(print, Print::File { size, .. } if size == content.len()) => {
                Ok(false)
            }
            placed => Ok(Print::of(placed)? == Some(print)),
        }
    }

    /// Adds entries that are on the layer now.
    pub(super) fn remember(&mut self, effects: &[Effect]) -> Result<()> {
        for effect in effects {
            for above in ancestry(&effect.path) {
                self.entries.entry(above).or_default();
            }
            let Some(print) = Print::of(&effect.placed)? else {
                continue;
            };
            let entry = self.entries.entry(effect.path.clone()).or_default();
            *entry = Entry {
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
    fn cover(&mut self, places: &[Effect]) {
        let directories = places
            .iter()
            .filter(|place| matches!(place.placed, Placed::Directory { .. }));
        for directory in directories {
            let is_child = |place: &&Effect| parent(&place.path) == directory.path.as_bytes();
            let names = places.iter().filter(is_child).map(|place| place.path.clone()).collect();
            self.entries.entry(directory.path.clone()).or_default().names = Some(names);
        }
    }

    /// Finds the changes that others made to files that the layer hides. Returns them as effects to be placed on the
    /// layer. Paths that cannot be read are left as they are.
    pub(super) async fn strays(&mut self, view: &Workspace, excluded: &Exclusions) -> Result<Vec<Effect>> {
        let now = view.shared.clock.now();
        let (mut strays, mut trees) = (Vec::new(), Vec::new());
        let known: BTreeSet<EntryPath> = self.entries.keys().cloned().collect();
        for (path, entry) in &mut self.entries {
            let Some(seen) = unless_closed(entry.look(path, view, excluded).await)?.flatten() else {
                continue;
            };
            trees.extend(entry.new_names(&seen).filter(|name| !known.contains(name)));
            let is_same = entry.is_as(seen.print);
            if !is_same && seen.print.is_directory() {
                trees.push(path.clone());
            } else if !is_same {
                strays.push(effect(path, seen.placed.clone()));
            }
            entry.learn(seen, is_same, now);
        }
        strays.extend(self.whole(&trees, view, excluded).await?);
        Ok(strays)
    }

    /// Returns the entries of the files at the paths `trees` and below them, as effects to be placed on the layer.
    async fn whole(&mut self, trees: &[EntryPath], view: &Workspace, excluded: &Exclusions) -> Result<Vec<Effect>> {
        let mut below = view.below_in_files(trees).await?;
        below.retain(|effect| {
            let is_directory = matches!(effect.placed, Placed::Directory { .. });
            !excluded.covers(&effect.path, is_directory)
        });
        let is_below = |place: &&Effect| trees.iter().any(|top| is_at_or_below(&place.path, top));
        let covered: Vec<_> = below.iter().filter(is_below).cloned().collect();
        self.cover(&covered);
        Ok(below)
    }
}

impl Entry {
    /// Reads the state of the files at this path; `None` if it is unchanged, or if the path is excluded from history.
    async fn look(&self, path: &EntryPath, view: &Workspace, excluded: &Exclusions) -> Result<Option<Seen>> {
        let Some(valid) = path.as_path() else { return Ok(None) };
        let stat = view.stat_below(valid).await?;
        let is_directory = stat.as_ref().is_some_and(|stat| stat.kind == EntryKind::Directory);
        if self.is_settled(stat.as_ref()) || excluded.covers(path, is_directory || self.may_be_directory()) {
            return Ok(None);
        }
        let names = if is_directory && self.is_own {
            Some(view.names_below(valid).await?)
        } else {
            None
        };
        let placed = view.placed_at(valid).await?;
        let print = Print::of(&placed)?;
        Ok(print.map(|print| Seen {
            stat,
            placed,
            print,
            names,
        }))
    }

    /// Whether the `stat` alone shows that the files are unchanged at this path.
    fn is_settled(&self, stat: Option<&Stat>) -> bool {
        match stat {
            None => self.print == Some(Print::Nothing),
            stat => self.below.as_ref() == stat,
        }
    }

    fn may_be_directory(&self) -> bool {
        self.print.is_none_or(Print::is_directory)
    }

    /// Whether the layer has the same entry. Of a directory above the entries of the layer, only the kind is known.
    fn is_as(&self, print: Print) -> bool {
        self.print.map_or(print.is_directory(), |own| own == print)
    }

    /// Returns the entries that came into the directory since it was listed last.
    fn new_names(&self, seen: &Seen) -> impl Iterator<Item = EntryPath> {
        let names = self.names.as_ref().zip(seen.names.as_ref());
        let new: Vec<_> = names.map_or_else(Vec::new, |(old, now)| now.difference(old).cloned().collect());
        new.into_iter()
    }

    /// Updates the index with the state that was read.
    fn learn(&mut self, seen: Seen, is_same: bool, now: Timestamp) {
        if seen.names.is_some() {
            self.names = seen.names;
        }
        if is_same {
            self.print = Some(seen.print);
            // A young `stat` is not stored: the file could change again within the same tick, and that change would not
            // be found.
            self.below = seen.stat.filter(|stat| !is_young(stat, now));
        }
    }
}

fn effect(path: &EntryPath, placed: Placed) -> Effect {
    Effect {
        path: path.clone(),
        placed,
        modified: None,
        is_lost_below: false,
    }
}

impl Workspace {
    async fn stat_below(&self, path: &WsPath) -> Result<Option<Stat>> {
        let options = StatOptions {
            follow: Follow::Never,
            with_version: false,
        };
        match self.storage().stat(path, options).await {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if is_absence(error.kind()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn names_below(&self, path: &WsPath) -> Result<BTreeSet<EntryPath>> {
        let options = ListAll {
            is_deep: false,
            follow: Follow::Never,
            limit: None,
        };
        match list_all(self.storage(), path, &options).await {
            Ok(listed) => Ok(listed.entries.into_iter().map(|entry| entry.path).collect()),
            Err(error) if is_absence(error.kind()) => Ok(BTreeSet::new()),
            Err(error) => Err(error),
        }
    }
}

fn parent(path: &EntryPath) -> &[u8] {
    let bytes = path.as_bytes();
    let slash = bytes.iter().rposition(|byte| *byte == b'/');
    &bytes[..slash.unwrap_or(0)]
}

fn is_at_or_below(path: &EntryPath, top: &EntryPath) -> bool {
    let rest = path.as_bytes().strip_prefix(top.as_bytes());
    matches!(rest, Some([] | [b'/', ..]))
}

fn is_young(stat: &Stat, now: Timestamp) -> bool {
    let Some(modified) = stat.modified else { return true };
    // A time without a fraction is most likely from a file system that stores whole seconds.
    let grain = match modified.subsec_nanosecond() {
        0 => COARSE,
        _ => YOUNG,
    };
    now.as_nanosecond() - modified.as_nanosecond() < grain.as_nanos() as i128
}

#[cfg(test)]
mod tests;
