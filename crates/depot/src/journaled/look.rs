//! Comparing what is in the storage with what the journal knows, and recording what differs.
//!
//! A file is known to be the same by the storage's own version of it; only where that differs is it read. What differs was done by
//! other programs, or was there before the journal began.

use std::collections::HashSet;
use std::io::Read;
use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use garret_core::{
    ChangeActor, ChangeKind, Content, ContentSource, EntryKind, EntryPath, Error, ErrorKind, Follow, Precondition,
    ReadOptions, Result, Stat, StatOptions, Storage, Version, WsPath,
};

use super::raw::{Way, split};
use super::record::{Authorship, Found, FoundEntry, Held, Known, Seen, Thing};
use super::turn::Turn;
use super::walk::is_plainly_same;

/// How often a file that changes while it is read is read again.
pub(super) const TRIES: usize = 5;
/// A file up to this size is read at once.
pub(super) const WHOLE_BYTES: u64 = 8 * 1024 * 1024;

/// A place to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Concern {
    pub(super) path: WsPath,
    /// Whether everything below it counts too.
    pub(super) is_deep: bool,
}

impl Turn<'_> {
    /// Looks at the places, and at the directories above them, and records what differs from what is known.
    pub(super) async fn look_at(&mut self, concerns: &[Concern]) -> Result<()> {
        let found = self.differing(concerns).await?;
        self.record(found, false).await
    }

    /// The same for entries of which no path can spell some. With each comes whether everything below it counts too.
    pub(super) async fn look_at_entries(&mut self, entries: &[(EntryPath, bool)]) -> Result<()> {
        let (mut concerns, mut raw) = (Vec::new(), Vec::new());
        for (path, is_deep) in entries {
            match path.as_path() {
                Some(path) => concerns.push(Concern {
                    path: path.clone(),
                    is_deep: *is_deep,
                }),
                None => raw.push((path, *is_deep)),
            }
        }
        let mut found = self.differing(&concerns).await?;
        let mut met = HashSet::new();
        for (path, is_deep) in raw {
            for place in self.raw_places(path, &mut met)? {
                match place.as_path() {
                    Some(path) => {
                        let stat = self.stat(path).await?;
                        self.look(path, stat, &mut found).await?;
                    }
                    None => self.look_raw(&place, &mut found).await?,
                }
            }
            if is_deep {
                self.look_below(path, &mut found).await?;
            }
        }
        self.record(found, false).await
    }

    /// What differs at the places, and at the directories above them, from what is known.
    async fn differing(&mut self, concerns: &[Concern]) -> Result<Vec<FoundEntry>> {
        let places = self.places(concerns)?;
        let paths: Vec<_> = places.iter().map(|place| place.path.clone()).collect();
        let looks = paths.into_iter().map(|path| self.stat_at(path));
        let looks = stream::iter(looks).buffered(self.journaled.at_once());
        let stats: Vec<Option<Stat>> = looks.try_collect().await?;
        let mut found = Vec::new();
        for (place, stat) in places.iter().zip(stats) {
            self.look(&place.path, stat, &mut found).await?;
            if place.is_deep {
                self.look_below(&place.path.clone().into(), &mut found).await?;
            }
        }
        Ok(found)
    }

    /// The places to look at, each after the directories above it that are not known. Above one that is known, or was met before, all are;
    /// so a deep tree costs its entries, and not the way to each.
    fn places(&mut self, concerns: &[Concern]) -> Result<Vec<Concern>> {
        let (mut met, mut places) = (HashSet::new(), Vec::new());
        for concern in concerns {
            let first = places.len();
            let mut above = concern.path.parent();
            while let Some(path) = above.filter(|above| !above.is_root() && !met.contains(above)) {
                if self.is_known_directory(path.as_str().as_bytes())? {
                    break;
                }
                above = path.parent();
                met.insert(path.clone());
                let is_deep = false;
                places.push(Concern { path, is_deep });
            }
            places[first..].reverse();
            met.insert(concern.path.clone());
            places.push(concern.clone());
        }
        Ok(places)
    }

    /// The same for one entry that no path can spell.
    fn raw_places(&mut self, path: &EntryPath, met: &mut HashSet<Vec<u8>>) -> Result<Vec<EntryPath>> {
        let mut places = vec![path.clone()];
        met.insert(path.as_bytes().to_vec());
        let mut directory = split(path.as_bytes()).0;
        while !directory.is_empty() && met.insert(directory.to_vec()) && !self.is_known_directory(directory)? {
            places.push(EntryPath::from_bytes(directory.to_vec()));
            directory = split(directory).0;
        }
        places.reverse();
        Ok(places)
    }

    async fn stat_at(&self, path: WsPath) -> Result<Option<Stat>> {
        match path.is_root() {
            true => Ok(None),
            false => self.stat(&path).await,
        }
    }

    fn is_known_directory(&mut self, path: &[u8]) -> Result<bool> {
        let known = self.known(path)?;
        Ok(known.is_some_and(|known| known.kind == EntryKind::Directory))
    }

    /// Records what was found: what was known or would have been as done by others, the rest as met for the first time.
    pub(super) async fn record(&mut self, mut found: Vec<FoundEntry>, is_whole: bool) -> Result<()> {
        found.sort_by(|one, other| one.path.cmp(&other.path));
        found.dedup_by(|one, other| one.path == other.path);
        let count = found.len();
        let found = self.fitting(found)?;
        let is_whole = is_whole && found.len() == count;
        let shared = self.room.shared();
        let number = self.room.number;
        let mut met = Vec::new();
        shared.database.read(|session| {
            let is_all_known = session.journal(number)?.is_some_and(|row| row.whole.is_some());
            for entry in &found {
                let was_met = is_all_known || entry.thing.is_none() || session.was_met(number, &entry.path)?;
                met.push(was_met);
            }
            Ok(())
        })?;
        // What is remembered may be newer than the depot: its log is not there yet.
        let mut outside = Vec::new();
        let mut new = Vec::new();
        for (entry, was_met) in found.into_iter().zip(met) {
            let is_remembered = self.known(&entry.path)?.is_some();
            if was_met || is_remembered {
                &mut outside
            } else {
                &mut new
            }
            .push(entry);
        }
        let has_new = !new.is_empty();
        self.new.extend(new.iter().map(|entry: &FoundEntry| entry.path.clone()));
        if has_new || (is_whole && outside.is_empty()) {
            self.note(ChangeKind::Capture, new, is_whole && outside.is_empty())
                .await?;
        }
        self.outside.extend(outside.iter().map(|entry| entry.path.clone()));
        if !outside.is_empty() {
            self.note(ChangeKind::Outside, outside, is_whole).await?;
        }
        Ok(())
    }

    /// Leaves out what was met in a directory that was none when that was looked at: others were at work between the two looks, and the
    /// next one finds it.
    fn fitting(&mut self, found: Vec<FoundEntry>) -> Result<Vec<FoundEntry>> {
        let mut fits = Vec::with_capacity(found.len());
        for entry in &found {
            let above = &entry.path[..entry.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)];
            let is_in_directory = match found.binary_search_by(|one| one.path.as_slice().cmp(above)) {
                Ok(at) => fits[at] && found[at].is_directory(),
                Err(_) => self
                    .known(above)?
                    .is_some_and(|known| known.kind == EntryKind::Directory),
            };
            fits.push(entry.thing.is_none() || is_in_directory);
        }
        let kept = found.into_iter().zip(fits).filter(|(_, fits)| *fits);
        Ok(kept.map(|(entry, _)| entry).collect())
    }

    async fn note(&mut self, kind: ChangeKind, entries: Vec<FoundEntry>, is_whole: bool) -> Result<()> {
        let door = match kind {
            ChangeKind::Outside => "outside",
            _ => "garret",
        };
        let by = Authorship {
            change: self.journaled.ids.next(),
            at: self.now(),
            operation: String::new(),
            summary: summary_of_found(kind, &entries),
            actor: ChangeActor {
                door: door.to_owned(),
                ..ChangeActor::default()
            },
        };
        let id = self.next_id();
        self.note_found(Found {
            id,
            by,
            kind,
            entries,
            is_whole,
        })
        .await
    }

    /// Compares what is at one path with what is known; adds what differs.
    async fn look(&mut self, path: &WsPath, stat: Option<Stat>, found: &mut Vec<FoundEntry>) -> Result<()> {
        if path.is_root() {
            return Ok(());
        }
        let known = self.known(path.as_str().as_bytes())?;
        if self.is_same(path, known.as_ref(), stat.as_ref()).await? {
            return Ok(());
        }
        let thing = self.capture(path, stat).await?;
        if known.is_none() && thing.is_none() {
            return Ok(());
        }
        let is_new_directory = |thing: &Thing| known.is_none() && thing.known.kind == EntryKind::Directory;
        if thing.as_ref().is_some_and(is_new_directory) && self.is_only_excluded(path).await? {
            return Ok(());
        }
        let is_directory = |known: &Known| known.kind == EntryKind::Directory;
        let was_directory = known.as_ref().is_some_and(is_directory);
        if was_directory && !thing.as_ref().is_some_and(|thing| is_directory(&thing.known)) {
            self.lose_below(path.as_str().as_bytes(), found)?;
        }
        found.push(FoundEntry {
            path: path.as_str().as_bytes().to_vec(),
            thing,
        });
        Ok(())
    }

    /// What was in a directory that is none any more is gone with it. Where others bring it back, it is met anew, and what was known
    /// of it is not taken for what the journal has.
    pub(super) fn lose_below(&self, directory: &[u8], found: &mut Vec<FoundEntry>) -> Result<()> {
        let below = self.state.knowledge.below(self.room, directory)?;
        found.extend(below.into_iter().map(|(path, _)| FoundEntry { path, thing: None }));
        Ok(())
    }

    /// Looks at everything below a directory, names that no path can spell included, and for what is known there and gone.
    async fn look_below(&mut self, directory: &EntryPath, found: &mut Vec<FoundEntry>) -> Result<()> {
        let walked = self.walked(directory).await?;
        for (path, stat) in &walked {
            let entry = EntryPath::from_bytes(path.clone());
            if entry == *directory {
                continue;
            }
            if let Some(path) = entry.as_path() {
                let stat = match self.journaled.reach.is_far {
                    true => Some(stat.clone()),
                    false => self.stat(path).await?,
                };
                self.look(path, stat, found).await?;
                continue;
            }
            let known = self.known(path)?;
            if !known.is_some_and(|known| is_plainly_same(&known, stat)) {
                let path = path.clone();
                let thing = self.capture_raw(&entry, stat).await?;
                found.push(FoundEntry { path, thing });
            }
        }
        let exclusions = self.journaled.exclusions.clone();
        for (path, known) in self.state.knowledge.below(self.room, directory.as_bytes())? {
            let is_excluded = exclusions.covers_bytes(&path, known.kind == EntryKind::Directory);
            if !is_excluded && walked.binary_search_by(|(walked, _)| walked.cmp(&path)).is_err() {
                found.push(FoundEntry { path, thing: None });
            }
        }
        Ok(())
    }

    /// Describes what is at `path`; `None` for nothing, and for what no journal can hold. A file that may not be read has no version.
    pub(super) async fn stat(&self, path: &WsPath) -> Result<Option<Stat>> {
        let stat = match described(&*self.journaled.files, path).await {
            Err(error) if error.kind() == ErrorKind::Denied => self.stat_lending(path, error).await,
            stat => stat,
        };
        match stat {
            Ok(stat) if stat.kind == EntryKind::Other => Ok(None),
            Ok(stat) => Ok(Some(stat)),
            Err(error) if is_nothing(error.kind()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn is_same(&self, path: &WsPath, known: Option<&Known>, stat: Option<&Stat>) -> Result<bool> {
        let (Some(known), Some(stat)) = (known, stat) else {
            return Ok(known.is_none() && stat.is_none());
        };
        let now = known_of(stat);
        if (known.kind, &known.target) != (now.kind, &now.target) {
            return Ok(false);
        }
        // A list of files that are far away tells no modes.
        let has_mode = stat.mode.is_some() || !self.journaled.reach.is_far;
        if known.kind != EntryKind::Symlink && has_mode && known.mode != now.mode {
            return Ok(false);
        }
        if known.kind != EntryKind::File || (known.token.is_some() && known.token == now.token) {
            return Ok(true);
        }
        match (&known.token, &now.token) {
            // One that may not be read, and could not be when the journal met it: its size is all that can be told.
            (None, None) => Ok(known.size == now.size),
            (Some(token), Some(_)) if known.size == now.size => self.holds(path, token).await,
            _ => Ok(false),
        }
    }

    /// Whether the storage says that `token` still holds.
    pub(super) async fn holds(&self, path: &WsPath, token: &str) -> Result<bool> {
        let options = ReadOptions {
            range: Some(0..0),
            follow: Follow::Never,
            precondition: Precondition::Version(Version::new(token)),
            ..ReadOptions::default()
        };
        match self.journaled.files.read(path, options).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::Conflict || is_nothing(error.kind()) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What is at `path`, with its content.
    pub(super) async fn capture(&self, path: &WsPath, stat: Option<Stat>) -> Result<Option<Thing>> {
        let Some(stat) = stat else { return Ok(None) };
        let mut known = known_of(&stat);
        if known.kind != EntryKind::File {
            return Ok(Some(Thing { known, content: None }));
        }
        if known.size > WHOLE_BYTES
            && let Some(thing) = self.capture_large(path).await?
        {
            return Ok(Some(thing));
        }
        if known.size > WHOLE_BYTES
            && let Some(thing) = self.capture_in_pieces(path, &known).await?
        {
            return Ok(Some(thing));
        }
        for _ in 0..TRIES {
            let options = ReadOptions {
                follow: Follow::Never,
                ..ReadOptions::default()
            };
            match self.journaled.files.read(path, options).await {
                Ok(read) => {
                    known.size = read.size;
                    known.mode = read.mode.unwrap_or(known.mode);
                    known.token = Some(read.version.as_str().to_owned());
                    let content = Some(self.keep(read.bytes.into()).await?);
                    return Ok(Some(Thing { known, content }));
                }
                Err(error) if is_nothing(error.kind()) => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Unavailable => {}
                Err(error) => return Err(error),
            }
        }
        Err(unsteady(path))
    }

    /// Captures a large file as it is read; `None` where the storage gives no handles. What is not the same file from the first byte
    /// to the last is read again.
    async fn capture_large(&self, path: &WsPath) -> Result<Option<Thing>> {
        for _ in 0..TRIES {
            let Some(before) = self.stat(path).await?.filter(|stat| stat.kind == EntryKind::File) else {
                return Ok(None);
            };
            if !self.has_handles()? {
                return Ok(None);
            }
            let known = known_of(&before);
            let content = self.by_handle(&path.clone().into(), before.size);
            let Ok(held) = self.keep(content).await else {
                continue;
            };
            if let Some(token) = &known.token
                && self.holds(path, token).await?
            {
                return Ok(Some(Thing {
                    known,
                    content: Some(held),
                }));
            }
        }
        Err(unsteady(path))
    }

    fn has_handles(&self) -> Result<bool> {
        Ok(self.journaled.files.open_directory(&WsPath::root())?.is_some())
    }

    /// The content of a file of `size` bytes in a storage with handles, read when it is needed.
    pub(super) fn by_handle(&self, path: &EntryPath, size: u64) -> Content {
        Content::from_source(HandleSource {
            files: self.journaled.files.clone(),
            path: path.clone(),
            size,
        })
    }

    /// The content of a file of about `size` bytes: that of a large one stays where it is, or passes through a file of the home.
    pub(super) async fn content_at(&self, path: &EntryPath, size: u64) -> Result<Content> {
        let Some(valid) = path.as_path() else {
            return Ok(self.by_handle(path, size));
        };
        if size > WHOLE_BYTES && self.has_handles()? {
            return Ok(self.by_handle(path, size));
        }
        match self.journaled.gate.files().filter(|_| size > WHOLE_BYTES) {
            Some(files) => Ok(self.spooled(valid, &files.folder).await?.0),
            None => {
                let options = ReadOptions {
                    follow: Follow::Never,
                    ..ReadOptions::default()
                };
                let read = self.journaled.files.read(valid, options).await?;
                Ok(read.bytes.into())
            }
        }
    }

    /// Holds content for a record: small content in it, larger content in the depot.
    pub(super) async fn keep(&self, content: Content) -> Result<Held> {
        if content.len() <= self.room.shared().options.inline_bytes as u64 {
            return content.to_bytes().map(Held::Inline);
        }
        self.stock(content).await
    }

    /// Puts content into the depot.
    pub(super) async fn stock(&self, content: Content) -> Result<Held> {
        let shared = self.room.shared().clone();
        let durability = self.journaled.durability;
        let prepared = shared.content.prepare(&shared.database, &content, durability).await?;
        let (address, size) = (prepared.address, prepared.size);
        let writer = shared.clone();
        writer
            .writer
            .write(durability, move |session| shared.content.record(session, &prepared))
            .await?;
        Ok(Held::Stored { address, size })
    }

    /// What is now at paths that were changed.
    pub(super) async fn seen(&self, paths: impl IntoIterator<Item = WsPath>) -> Result<Vec<Seen>> {
        let paths = paths.into_iter().filter(|path| !path.is_root());
        let looks = paths.map(|path| self.seen_at(path));
        stream::iter(looks)
            .buffered(self.journaled.at_once())
            .try_collect()
            .await
    }

    async fn seen_at(&self, path: WsPath) -> Result<Seen> {
        let stat = self.stat(&path).await?;
        Ok(Seen {
            path: path.as_str().as_bytes().to_vec(),
            known: stat.as_ref().map(known_of),
        })
    }

    /// The same for entries of which no path can spell some.
    pub(super) async fn seen_entries(&self, paths: Vec<EntryPath>) -> Result<Vec<Seen>> {
        let (raw, valid): (Vec<_>, Vec<_>) = paths.into_iter().partition(EntryPath::is_escaped);
        let valid: Vec<WsPath> = valid.iter().filter_map(|path| path.as_path().cloned()).collect();
        let mut seen = self.seen(valid).await?;
        let mut way = self.way();
        for path in raw {
            let stat = way.stat(path.as_bytes())?;
            seen.push(Seen {
                path: path.as_bytes().to_vec(),
                known: stat.as_ref().map(known_of),
            });
        }
        Ok(seen)
    }
}

/// Describes what is at `path`. A file that may not be read has no version.
pub(super) async fn described(files: &dyn Storage, path: &WsPath) -> Result<Stat> {
    let options = |with_version| StatOptions {
        follow: Follow::Never,
        with_version,
    };
    match files.stat(path, options(true)).await {
        Err(error) if error.kind() == ErrorKind::Denied => files.stat(path, options(false)).await,
        stat => stat,
    }
}

pub(super) fn unsteady(path: &WsPath) -> Error {
    Error::new(ErrorKind::Unavailable, "a file keeps changing while it is read").at(path)
}

/// A file of a storage with handles, read as often as it is asked for.
#[derive(Debug)]
struct HandleSource {
    files: Arc<dyn Storage>,
    path: EntryPath,
    size: u64,
}

impl ContentSource for HandleSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let (above, name) = split(self.path.as_bytes());
        let Some(path) = self.path.as_path() else {
            let mut way = Way::new(&*self.files);
            return Ok(way.directory(above)?.open_file(name)?.content);
        };
        let above = path.parent().unwrap_or_else(WsPath::root);
        let directory = self.files.open_directory(&above)?.ok_or_else(|| unsteady(path))?;
        Ok(directory.open_file(name)?.content)
    }
}

impl FoundEntry {
    fn is_directory(&self) -> bool {
        let thing = self.thing.as_ref();
        thing.is_some_and(|thing| thing.known.kind == EntryKind::Directory)
    }
}

/// What a stat tells, as the journal keeps it.
pub(super) fn known_of(stat: &Stat) -> Known {
    let usual = match stat.kind {
        EntryKind::Directory => 0o755,
        EntryKind::Symlink => 0o777,
        _ => 0o644,
    };
    Known {
        kind: stat.kind,
        mode: stat.mode.unwrap_or(usual),
        size: if stat.kind == EntryKind::Directory {
            0
        } else {
            stat.size
        },
        target: stat.target.clone(),
        token: stat.version.as_ref().map(|version| version.as_str().to_owned()),
    }
}

/// The words for what a look found.
fn summary_of_found(kind: ChangeKind, entries: &[FoundEntry]) -> String {
    let count = |number: usize, one: &str, more: &str| match number {
        1 => format!("1 {one}"),
        number => format!("{number} {more}"),
    };
    if kind == ChangeKind::Outside {
        return format!("{} changed by other programs", count(entries.len(), "path", "paths"));
    }
    match entries.iter().filter(|entry| !entry.is_directory()).count() {
        0 => format!(
            "Recorded {}",
            count(entries.len(), "existing directory", "existing directories")
        ),
        files => format!("Recorded {}", count(files, "existing file", "existing files")),
    }
}

/// Whether an error says that nothing is there that a journal could hold.
pub(super) fn is_nothing(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::PathEscape
            | ErrorKind::IsADirectory
            | ErrorKind::Unsupported
    )
}
