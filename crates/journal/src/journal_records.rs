//! What the journal has recorded: the log, the index of recorded entries, and the open intent.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use futures::executor::block_on;
use garret_core::{Durability, EntryKind, EntryPath, Result, WsPath};
use garret_depot::outside_files::log::{self, IntentLog};
use garret_depot::outside_files::{
    ChangeAuthorship, ChangeIntent, CompletedRecord, FoundChange, IntentWork, JournalFiles, KnownEntry, LogRecord,
    MismatchedPaths, ObservedEntry, OutsideWorkspace, SortedRecords, sort_records,
};
use tokio::sync::MutexGuard;

use crate::index::JournalIndex;
use crate::observed_files::ObservedFiles;

/// A log of this size enters the journal in the background.
const FULL_BYTES: u64 = 16 * 1024 * 1024;
/// A log of this size makes its writer wait until it has entered the journal.
const OVERFULL_BYTES: u64 = 64 * 1024 * 1024;
/// The most paths that the index keeps.
const REMEMBERED: usize = 100_000;

/// The state that all writers of one handle share.
#[derive(Debug, Default)]
pub(crate) struct WriterState {
    log: Option<IntentLog>,
    index: JournalIndex,
    /// The number of the next record.
    next: u64,
    /// Whether the log and the depot were read, so that the other fields are valid.
    is_ready: bool,
    /// An intent that is not closed yet. Without a log, this is the only copy of it.
    open: Option<ChangeIntent>,
    /// The byte range of the newest intent in the log.
    intent_at: Range<u64>,
    /// The number of the newest record in the log that was set aside.
    aside: u64,
    /// The paths at which the journal differs from the observed storage.
    mismatches: Arc<Mutex<MismatchedPaths>>,
    /// The mode that the system gives to a new file.
    file_mode: Option<u32>,
}

/// What the journal has recorded, for one write session.
pub(crate) struct JournalRecords<'j> {
    files: ObservedFiles<'j>,
    state: MutexGuard<'j, WriterState>,
}

impl<'j> JournalRecords<'j> {
    pub(crate) fn new(files: ObservedFiles<'j>, state: MutexGuard<'j, WriterState>) -> Self {
        Self { files, state }
    }

    /// Returns whether the state is that of the last session, with no intent open.
    pub(crate) fn is_ready(&self) -> bool {
        self.state.is_ready && self.state.open.is_none()
    }

    /// Reads the log and moves its records into the journal. Returns an intent that a crash left open; it stays open
    /// until [`Self::forget_open_intent`].
    pub(crate) async fn reload_log(&mut self) -> Result<Option<ChangeIntent>> {
        self.state.is_ready = false;
        let mut open = self.state.open.take();
        let mut last = 0;
        if let Some(files) = self.files.journaled.gate.files() {
            let (log, records) = IntentLog::open(files)?;
            self.state.log = Some(log);
            let left = self.ingest_both_logs(files, records).await?;
            (open, last) = (left.open, left.last);
            // No log is set aside now, and no record number reaches this value.
            self.state.aside = u64::MAX;
        }
        let ingested = self.files.room.last_ingested_record()?;
        self.state.next = self.state.next.max(last).max(ingested) + 1;
        self.state.index.clear();
        self.state.is_ready = true;
        self.state.open = open.filter(|intent| intent.id > ingested);
        Ok(self.state.open.clone())
    }

    /// Forgets the open intent after its recovery. If that fails, the next write session reads the log again.
    pub(crate) fn forget_open_intent(&mut self) {
        self.state.open = None;
    }

    async fn ingest_both_logs(&self, files: &JournalFiles, records: Vec<LogRecord>) -> Result<SortedRecords> {
        // The log set aside is the older one, so its records enter the journal first.
        let aside = sort_records(log::read_set_aside(files)?);
        self.ingest_completed(aside.ready).await?;
        log::remove_set_aside(files)?;
        let mut left = sort_records(records);
        self.ingest_completed(std::mem::take(&mut left.ready)).await?;
        left.last = left.last.max(aside.last);
        Ok(left)
    }

    /// Moves the records into the journal, and notes the mismatched paths.
    pub(crate) async fn ingest_completed(&self, ready: Vec<CompletedRecord>) -> Result<()> {
        let mismatches = self.files.room.ingest_records(ready).await?;
        self.add_mismatches(mismatches);
        Ok(())
    }

    /// Moves the whole log into the journal.
    pub(crate) async fn drain_log(&mut self) -> Result<()> {
        if let Some(files) = self
            .files
            .journaled
            .gate
            .files()
            .filter(|files| log::has_records(files))
        {
            let (_, records) = IntentLog::open(files)?;
            self.ingest_both_logs(files, records).await?;
            self.state.log.as_mut().map_or(Ok(()), IntentLog::clear)?;
        }
        if self.state.index.len() > REMEMBERED {
            self.state.index.clear();
        }
        Ok(())
    }

    /// Notes that the journal differs from the storage at these paths.
    pub(crate) fn add_mismatches(&self, paths: MismatchedPaths) {
        self.state.mismatches.lock().expect("no holder panics").extend(paths);
    }

    pub(crate) fn has_mismatches(&self) -> bool {
        !self.state.mismatches.lock().expect("no holder panics").is_empty()
    }

    pub(crate) fn take_mismatches(&mut self) -> MismatchedPaths {
        std::mem::take(&mut *self.state.mismatches.lock().expect("no holder panics"))
    }

    /// Returns the number of the next record.
    pub(crate) fn next_id(&mut self) -> u64 {
        let id = self.state.next;
        self.state.next += 1;
        id
    }

    /// Records entries that differ from the journal, in the log or, without a log, in the journal.
    pub(crate) async fn record_found_change(&mut self, found: FoundChange) -> Result<()> {
        for entry in &found.entries {
            let known = entry.thing.as_ref().map(|thing| thing.known.clone());
            self.state.index.set(&entry.path, known);
        }
        match self.state.log.as_mut() {
            Some(log) => log.append(&[&LogRecord::Found(found)], self.files.journaled.durability),
            None => self.ingest_completed(vec![CompletedRecord::Found(found)]).await,
        }
    }

    /// Logs an intent, and returns its number. From here on a crash is recovered.
    pub(crate) fn open_intent(&mut self, by: ChangeAuthorship, work: IntentWork) -> Result<u64> {
        let id = self.next_id();
        let record = LogRecord::Intent(ChangeIntent { id, by, work });
        let state = &mut *self.state;
        if let Some(log) = state.log.as_mut() {
            let start = log.size();
            log.append(&[&record], self.files.journaled.durability)?;
            state.intent_at = start..log.size();
        }
        let LogRecord::Intent(intent) = record else {
            unreachable!("it was made above")
        };
        self.state.open = Some(intent);
        Ok(id)
    }

    /// Closes the open intent with the observed entries at its paths.
    pub(crate) async fn close_intent(&mut self, seen: Vec<ObservedEntry>) -> Result<()> {
        let Some(intent) = self.state.open.take() else {
            return Ok(());
        };
        self.set_observed(&seen);
        let Some(log) = self.state.log.as_mut() else {
            return self.ingest_completed(vec![CompletedRecord::Made(intent, seen)]).await;
        };
        let record = LogRecord::Closed { id: intent.id, seen };
        // Never synced: after a power loss the intent is open, and recovery finds the storage in the state that the
        // change left.
        let written = log.append(&[&record], Durability::Relaxed);
        if written.is_err() {
            // The change is made; the next write session recovers the intent and finds it done.
            self.state.open = Some(intent);
        }
        self.ingest_large_log().await
    }

    /// Logs that the open intent was not carried out.
    pub(crate) fn abort_intent(&mut self) -> Result<()> {
        let Some(intent) = self.state.open.take() else {
            return Ok(());
        };
        let record = LogRecord::Aborted { id: intent.id };
        let state = &mut *self.state;
        let Some(log) = state.log.as_mut() else { return Ok(()) };
        match log.append(&[&record], Durability::Relaxed) {
            // On a full disk there is no space for the record, and readers would wait for a change that nobody makes.
            // Cutting the intent off needs no space.
            Err(_) if log.size() == state.intent_at.end => log.cut_back(state.intent_at.start),
            written => written,
        }
    }

    /// Moves a log that has grown into the journal in the background.
    async fn ingest_large_log(&mut self) -> Result<()> {
        let Some(files) = self.files.journaled.gate.files() else {
            return Ok(());
        };
        let size = self.state.log.as_ref().map_or(0, IntentLog::size);
        // An open intent and its closing record are matched within one log, so that log must not be set aside yet.
        if size < FULL_BYTES || self.state.open.is_some() {
            return Ok(());
        }
        // Only the lock holder removes it: the background thread cannot know whether another log was set aside since it
        // started.
        if log::is_set_aside(files) && self.files.room.last_ingested_record()? >= self.state.aside {
            log::remove_set_aside(files)?;
        }
        let aside = self.state.next - 1;
        let log = self.state.log.as_mut().expect("it has a size");
        if log.set_aside(files)? {
            self.state.aside = aside;
            ingest_in_background(self.files.room.clone(), files.clone(), self.state.mismatches.clone());
        } else if size > OVERFULL_BYTES {
            self.drain_log().await?;
        }
        Ok(())
    }
}

/// The index of recorded entries.
impl JournalRecords<'_> {
    /// Returns the recorded entry at a path, which may be a raw name.
    pub(crate) fn recorded_entry(&mut self, path: &[u8]) -> Result<Option<KnownEntry>> {
        self.state.index.entry_at(self.files.room, path)
    }

    /// Returns the recorded entry at a path.
    pub(crate) fn entry_at(&mut self, path: &WsPath) -> Result<Option<KnownEntry>> {
        self.recorded_entry(path.as_str().as_bytes())
    }

    /// Returns all recorded entries below a directory, sorted by path.
    pub(crate) fn entries_below(&self, directory: &[u8]) -> Result<Vec<(Vec<u8>, KnownEntry)>> {
        self.state.index.entries_below(self.files.room, directory)
    }

    pub(crate) fn is_known_directory(&mut self, path: &[u8]) -> Result<bool> {
        let known = self.recorded_entry(path)?;
        Ok(known.is_some_and(|known| known.kind == EntryKind::Directory))
    }

    /// Returns whether the recorded entry at a path is excluded.
    pub(crate) fn is_excluded(&mut self, path: &EntryPath) -> Result<bool> {
        let exclusions = &self.files.journaled.exclusions;
        Ok(!exclusions.is_empty() && exclusions.covers_path(path, self.is_known_directory(path.as_bytes())?))
    }

    /// Sets the recorded entries to the observed ones.
    pub(crate) fn set_observed(&mut self, seen: &[ObservedEntry]) {
        for one in seen {
            self.state.index.set(&one.path, one.known.clone());
        }
    }

    /// Records new versions of files whose content has not changed.
    pub(crate) async fn record_versions(&mut self, renewed: Vec<(Vec<u8>, String)>) -> Result<()> {
        if renewed.is_empty() {
            return Ok(());
        }
        for (path, token) in &renewed {
            if let Some(known) = self.recorded_entry(path)? {
                let token = Some(token.clone());
                self.state.index.set(path, Some(KnownEntry { token, ..known }));
            }
        }
        self.files.room.record_versions(renewed).await
    }

    /// Drops the index, so that the next lookups read the journal. The log must be in the journal.
    pub(crate) fn clear_index(&mut self) {
        self.state.index.clear();
    }

    /// Returns the mode that a new file gets, if it is known.
    pub(crate) fn new_file_mode(&self) -> Option<u32> {
        self.state
            .file_mode
            .or_else(|| self.files.journaled.files.info().file_mode)
    }

    /// Remembers the mode that the system gives to new files.
    pub(crate) fn set_file_mode(&mut self, mode: u32) {
        self.state.file_mode = Some(mode);
    }
}

/// Moves the log that was set aside into the journal, on a separate thread. If that fails, the next write session does
/// it.
fn ingest_in_background(room: OutsideWorkspace, files: JournalFiles, mismatches: Arc<Mutex<MismatchedPaths>>) {
    let work = move || {
        let ingested =
            log::read_set_aside(&files).and_then(|records| block_on(room.ingest_records(sort_records(records).ready)));
        if let Ok(found) = ingested {
            mismatches.lock().expect("no holder panics").extend(found);
        }
    };
    let _ = std::thread::Builder::new().name("garret-journal".into()).spawn(work);
}
