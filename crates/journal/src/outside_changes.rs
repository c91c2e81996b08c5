//! Finds the changes that other programs made since a time. The journal cannot tell: it knows the entries only as of
//! its last comparison. The storage dates its entries by a clock that no program sets, and these dates show whether an
//! entry is unchanged.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use garret_core::{
    EntryKind, EntryPath, Follow, PathExpectation, PlacedEntry, PutBatch, Result, Stat, StatOptions, Timestamp,
};

use garret_core::time::COARSE_GRAIN;
use garret_depot::outside_files::changed_by_others;

use crate::compare::StorageComparer;
use crate::observed_files::ObservedFiles;
use crate::owner_bits::OWNER_BITS;
use crate::raw_names::split_raw_path;

/// A past state of the files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChangeMoment {
    /// The newest change at that time.
    pub(crate) change: u64,
    /// The time, by the clock that dates the entries.
    pub(crate) at: Timestamp,
}

/// Tells which paths other programs touched. It examines each directory once.
struct OutsideTouches<'j> {
    files: ObservedFiles<'j>,
    /// Whether other programs exchanged the directory or one above it.
    exchanged: HashMap<Vec<u8>, bool>,
    /// Whether entries were added to or removed from the directory, or the nearest existing one above it.
    young: HashMap<Vec<u8>, bool>,
}

/// Returns the paths that other programs touched.
pub(crate) async fn find_touched_paths(
    comparer: &mut StorageComparer<'_>,
    paths: &[EntryPath],
    since: ChangeMoment,
) -> Result<BTreeSet<EntryPath>> {
    comparer.synchronize_journal().await?;
    let entries: Vec<_> = paths.iter().map(|path| (path.clone(), false)).collect();
    comparer.compare_entries(&entries).await?;
    comparer.synchronize_journal().await?;
    let (mut touched, mut touches) = (BTreeSet::new(), OutsideTouches::new(comparer.files));
    for path in paths {
        let stat = stat_without_version(comparer.files, path.as_bytes()).await?;
        if touches.is_touched(path, stat, since).await? {
            touched.insert(path.clone());
        }
    }
    Ok(touched)
}

/// Refuses puts whose paths other programs changed after the puts were planned. Earlier changes of other programs
/// are part of the plan, even if the journal has not recorded them. The caller has just compared the paths with the
/// storage.
pub(crate) async fn check_untouched(files: ObservedFiles<'_>, puts: &PutBatch) -> Result<()> {
    let mut touches = OutsideTouches::new(files);
    for put in &puts.puts {
        let PathExpectation::UnchangedSince { change, at } = put.expected else {
            continue;
        };
        let stat = stat_without_version(files, put.path.as_bytes()).await?;
        let since = ChangeMoment { change, at };
        if !is_already_placed(&put.placed, stat.as_ref()) && touches.is_touched(&put.path, stat, since).await? {
            return Err(changed_by_others(put));
        }
    }
    Ok(())
}

impl<'j> OutsideTouches<'j> {
    fn new(files: ObservedFiles<'j>) -> Self {
        Self {
            files,
            exchanged: HashMap::new(),
            young: HashMap::new(),
        }
    }

    /// Returns whether other programs touched a path, or exchanged a directory above it. For a path that is gone,
    /// returns whether other programs removed it.
    async fn is_touched(&mut self, path: &EntryPath, stat: Option<Stat>, since: ChangeMoment) -> Result<bool> {
        let (path, above) = (path.as_bytes(), split_raw_path(path.as_bytes()).0);
        let room = self.files.room;
        let is_touched = match &stat {
            Some(stat) => {
                is_touched_itself(stat, since.at)
                    && !room.was_changed_by_garret(path, since.at)?
                    && !room.is_as_recorded(path, since.change)?
            }
            None => {
                self.has_recent_entries(above, since.at).await? && room.was_changed_by_others(path, since.change)?
            }
        };
        Ok(is_touched || self.is_directory_replaced(above, since.at).await?)
    }

    /// Returns whether other programs replaced a directory or one above it, or changed its mode.
    async fn is_directory_replaced(&mut self, directory: &[u8], at: Timestamp) -> Result<bool> {
        let (mut unknown, mut place, mut is_exchanged) = (Vec::new(), directory, false);
        while !place.is_empty() && !is_exchanged {
            if let Some(known) = self.exchanged.get(place) {
                is_exchanged = *known;
                break;
            }
            let stat = stat_without_version(self.files, place).await?;
            is_exchanged = stat.is_some_and(|stat| is_touched_itself(&stat, at))
                && !self.files.room.was_changed_by_garret(place, at)?;
            unknown.push(place);
            place = split_raw_path(place).0;
        }
        let examined = unknown.into_iter().map(|place| (place.to_vec(), is_exchanged));
        self.exchanged.extend(examined);
        Ok(is_exchanged)
    }

    /// Returns whether entries were added or removed since then in a directory, or in the nearest existing one above
    /// it.
    async fn has_recent_entries(&mut self, directory: &[u8], at: Timestamp) -> Result<bool> {
        let (mut missing, mut place) = (Vec::new(), directory);
        let is_place_young = loop {
            if let Some(known) = self.young.get(place) {
                break *known;
            }
            missing.push(place);
            match stat_without_version(self.files, place).await? {
                Some(stat) => break is_recent(&stat, at),
                None if place.is_empty() => break true,
                None => place = split_raw_path(place).0,
            }
        };
        let examined = missing.into_iter().map(|place| (place.to_vec(), is_place_young));
        self.young.extend(examined);
        Ok(is_place_young)
    }
}

/// Returns the stat of a path without a version, because computing the version would read a recently changed file.
async fn stat_without_version(files: ObservedFiles<'_>, path: &[u8]) -> Result<Option<Stat>> {
    let path = EntryPath::from_bytes(path.to_vec());
    let options = StatOptions {
        follow: Follow::Never,
        with_version: false,
    };
    if let Some(valid) = path.as_path()
        && let Ok(stat) = files.journaled.files.stat(valid, options).await
    {
        return Ok((stat.kind != EntryKind::Other).then_some(stat));
    }
    // This call interprets the error.
    files.stat_entry(&path).await
}

/// Returns whether the storage dates an entry at this time or later.
fn is_recent(stat: &Stat, at: Timestamp) -> bool {
    stat.changed.or(stat.modified).is_some_and(|changed| {
        let is_coarse = changed.subsec_nanosecond() == 0;
        let grain = if is_coarse { COARSE_GRAIN } else { Duration::ZERO };
        changed.checked_add(grain).map_or(true, |changed| changed >= at)
    })
}

/// Returns whether an entry itself was changed at this time or later.
fn is_touched_itself(stat: &Stat, at: Timestamp) -> bool {
    // Garret grants the owner's permissions for a moment when it opens a directory without them, which updates the
    // directory's time.
    let is_lent = || stat.mode.is_some_and(|mode| mode & OWNER_BITS != OWNER_BITS);
    // Adding or removing an entry also dates its directory; both times of the directory are then equal.
    let is_by_entries = stat.kind == EntryKind::Directory && (stat.changed == stat.modified || is_lent());
    is_recent(stat, at) && !is_by_entries
}

/// Returns whether a put leaves a path unchanged, as far as its stat tells.
fn is_already_placed(placed: &PlacedEntry, stat: Option<&Stat>) -> bool {
    match (placed, stat) {
        (PlacedEntry::Nothing, None) => true,
        (PlacedEntry::Directory { mode }, Some(stat)) => {
            stat.kind == EntryKind::Directory && stat.mode.is_none_or(|there| there == *mode)
        }
        (PlacedEntry::Symlink { target }, Some(stat)) => stat.target.as_ref() == Some(target),
        _ => false,
    }
}
