//! A write session: holds the lock, the log and the index of recorded entries for one writer.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use futures::executor::block_on;
use futures::lock::MutexGuard;
use garret_core::{Durability, EntryPath, Result, WsPath};
use garret_depot::outside_files::log::{self, IntentLog};
use garret_depot::outside_files::{
    ChangeIntent, CompletedRecord, FoundChange, JournalFiles, JournalWriteLock, KnownEntry, LogRecord, MismatchedPaths,
    ObservedEntry, OutsideWorkspace, SortedRecords, sort_records,
};

use crate::Journaled;
use crate::index::JournalIndex;
use crate::raw_names::parent_directories;

/// A log of this size enters the journal in the background.
const FULL_BYTES: u64 = 16 * 1024 * 1024;
/// A log of this size makes its writer wait until it has entered the journal.
const OVERFULL_BYTES: u64 = 64 * 1024 * 1024;
/// The most paths that the index keeps.
const REMEMBERED: usize = 100_000;
/// Number of times that mismatched paths are compared before they are left to the next write session.
const LOOKS: usize = 3;

/// The state that all writers of one handle share.
#[derive(Debug, Default)]
pub(crate) struct WriterState {
    log: Option<IntentLog>,
    pub(crate) knowledge: JournalIndex,
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
    pub(crate) misfits: Arc<Mutex<MismatchedPaths>>,
    /// The mode that the system gives to a new file.
    pub(crate) file_mode: Option<u32>,
}

/// The files and their journal in the depot, without the log and without the index of recorded entries.
#[derive(Clone, Copy)]
pub(crate) struct ObservedFiles<'j> {
    pub(crate) journaled: &'j Journaled,
    pub(crate) room: &'j OutsideWorkspace,
}

/// The right to change the files, until dropped.
pub(crate) struct WriteSession<'j> {
    pub(crate) files: ObservedFiles<'j>,
    pub(crate) state: MutexGuard<'j, WriterState>,
    pub(crate) lock: JournalWriteLock<'j>,
    /// The paths that were recorded for the first time in this session.
    pub(crate) new: Vec<Vec<u8>>,
    /// The paths that other programs changed, as far as this session found out.
    pub(crate) outside: Vec<Vec<u8>>,
    /// The files to be put that have several names (hard links), each with the path that identifies the file.
    pub(crate) names: BTreeMap<WsPath, WsPath>,
}

impl Journaled {
    /// Waits for the lock and starts a write session. It starts with all changes by other handles known and with no
    /// intent open.
    pub(crate) async fn begin_write_session(&self) -> Result<WriteSession<'_>> {
        let state = self.state.lock().await;
        let lock = self.gate.lock_exclusively().await?;
        let room = self.ensure_workspace().await?;
        let mut turn = WriteSession {
            files: ObservedFiles { journaled: self, room },
            state,
            lock,
            new: Vec::new(),
            outside: Vec::new(),
            names: BTreeMap::new(),
        };
        let is_as_left = turn.lock.claim_ownership(self.owner)?;
        if !is_as_left || turn.state.open.is_some() || !turn.state.is_ready {
            turn.reload_log().await?;
        } else if turn.has_mismatches() {
            turn.synchronize_journal().await?;
        }
        Ok(turn)
    }
}

impl WriteSession<'_> {
    /// Reads the log, moves its records into the journal, and recovers an open intent.
    async fn reload_log(&mut self) -> Result<()> {
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
        self.state.knowledge.clear();
        self.state.is_ready = true;
        if let Some(intent) = open.filter(|intent| intent.id > ingested) {
            // Until recovery has succeeded, the next write session must come here again.
            self.state.open = Some(intent.clone());
            self.recover_intent(intent).await?;
            self.state.open = None;
        }
        // Recovery may have recorded changes by other programs.
        self.synchronize_journal().await?;
        self.lock.end_change()
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

    fn clear_log(&mut self) -> Result<()> {
        self.state.log.as_mut().map_or(Ok(()), IntentLog::clear)
    }

    /// Moves the records into the journal, and notes the mismatched paths.
    pub(crate) async fn ingest_completed(&self, ready: Vec<CompletedRecord>) -> Result<()> {
        let misfits = self.files.room.ingest_records(ready).await?;
        self.add_mismatches(misfits);
        Ok(())
    }

    /// Notes that the journal differs from the storage at these paths.
    pub(crate) fn add_mismatches(&self, paths: MismatchedPaths) {
        self.state.misfits.lock().expect("no holder panics").extend(paths);
    }

    pub(crate) fn has_mismatches(&self) -> bool {
        !self.state.misfits.lock().expect("no holder panics").is_empty()
    }

    /// Moves the whole log into the journal, and compares the mismatched paths, so that changes by other programs are
    /// recorded too.
    pub(crate) async fn synchronize_journal(&mut self) -> Result<()> {
        self.drain_log().await?;
        for _ in 0..LOOKS {
            if !self.has_mismatches() {
                break;
            }
            let misfits = std::mem::take(&mut *self.state.misfits.lock().expect("no holder panics"));
            // The log is in the journal, so the index can be dropped, and the comparison starts from the journal.
            self.state.knowledge.clear();
            if self.compare_with_parents(&misfits).await.is_err() {
                // Other programs are still at work there. The index now equals the journal, so nothing is lost by
                // comparing later.
                self.add_mismatches(misfits);
                break;
            }
            self.drain_log().await?;
        }
        if self.state.knowledge.len() > REMEMBERED {
            self.state.knowledge.clear();
        }
        Ok(())
    }

    async fn drain_log(&mut self) -> Result<()> {
        let Some(files) = self.files.journaled.gate.files() else {
            return Ok(());
        };
        if log::has_records(files) {
            let (_, records) = IntentLog::open(files)?;
            self.ingest_both_logs(files, records).await?;
            self.clear_log()?;
        }
        Ok(())
    }

    /// Compares the paths and every directory above them with the index.
    pub(crate) async fn compare_with_parents(&mut self, paths: &[Vec<u8>]) -> Result<()> {
        let all = paths
            .iter()
            .flat_map(|path| parent_directories(path).chain([path.as_slice()]));
        let all: BTreeSet<_> = all.collect();
        let entries = all
            .into_iter()
            .map(|path| (EntryPath::from_bytes(path.to_vec()), false));
        self.compare_entries(&entries.collect::<Vec<_>>()).await
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
            self.state.knowledge.set(&entry.path, known);
        }
        match self.state.log.as_mut() {
            Some(log) => log.append(&[&LogRecord::Found(found)], self.files.journaled.durability),
            None => self.ingest_completed(vec![CompletedRecord::Found(found)]).await,
        }
    }

    /// Logs the intent. From here on a crash is recovered.
    pub(crate) fn open_intent(&mut self, intent: ChangeIntent) -> Result<()> {
        let record = LogRecord::Intent(intent);
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
        Ok(())
    }

    /// Closes the open intent with the observed entries at its paths.
    pub(crate) async fn close_intent(&mut self, seen: Vec<ObservedEntry>) -> Result<()> {
        let Some(intent) = self.state.open.take() else {
            return Ok(());
        };
        self.state.knowledge.set_observed(&seen);
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
            ingest_in_background(self.files.room.clone(), files.clone(), self.state.misfits.clone());
            return Ok(());
        }
        if size > OVERFULL_BYTES {
            return self.synchronize_journal().await;
        }
        Ok(())
    }

    /// Returns the recorded entry at a path.
    pub(crate) fn recorded_entry(&mut self, path: &[u8]) -> Result<Option<KnownEntry>> {
        self.state.knowledge.entry_at(self.files.room, path)
    }
}

/// Moves the log that was set aside into the journal, on a separate thread. If that fails, the next write session does
/// it.
fn ingest_in_background(room: OutsideWorkspace, files: JournalFiles, misfits: Arc<Mutex<MismatchedPaths>>) {
    let work = move || {
        let ingested =
            log::read_set_aside(&files).and_then(|records| block_on(room.ingest_records(sort_records(records).ready)));
        if let Ok(found) = ingested {
            misfits.lock().expect("no holder panics").extend(found);
        }
    };
    let _ = std::thread::Builder::new().name("garret-journal".into()).spawn(work);
}
