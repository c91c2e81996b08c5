//! A writer's turn: the lock, the log and what is known, in one hand.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use futures::lock::MutexGuard;
use garret_core::{Durability, EntryPath, Result, WsPath};

use super::Journaled;
use super::gate::{Exclusive, Files};
use super::ingest::{self, Misfits, Ready, Sorted, sorted};
use super::known::Knowledge;
use super::log::{self, Log};
use super::raw::above;
use super::record::{Found, Intent, Known, Record, Seen};
use crate::metadata::stored_time;
use crate::workspace::DepotWorkspace;

/// A log of this size enters the journal in the background.
const FULL_BYTES: u64 = 16 * 1024 * 1024;
/// A log of this size has its writer wait for that.
const OVERFULL_BYTES: u64 = 64 * 1024 * 1024;
/// Paths remembered at most.
const REMEMBERED: usize = 100_000;
/// How often what does not fit is looked at before the next turn has to.
const LOOKS: usize = 3;

/// What writers of one handle have in common.
#[derive(Debug, Default)]
pub(super) struct State {
    log: Option<Log>,
    pub(super) knowledge: Knowledge,
    /// The number of the next record.
    next: u64,
    /// Whether the log and the depot were read, and the rest here is right.
    is_ready: bool,
    /// An intent whose end is not written down yet. Where there is no log, it is all there is of it.
    open: Option<Intent>,
    /// Where the newest intent stands in the log.
    intent_at: Range<u64>,
    /// The newest record of the log that was put aside.
    aside: u64,
    /// Where the journal is not what the storage was seen to be.
    pub(super) misfits: Arc<Mutex<Misfits>>,
    /// The mode that the system gives a new file.
    pub(super) file_mode: Option<u32>,
}

/// The right to change the files, until dropped.
pub(super) struct Turn<'j> {
    pub(super) journaled: &'j Journaled,
    pub(super) room: &'j DepotWorkspace,
    pub(super) state: MutexGuard<'j, State>,
    pub(super) lock: Exclusive<'j>,
    /// The paths that were met for the first time in this turn.
    pub(super) new: Vec<Vec<u8>>,
    /// The paths that others changed, as far as this turn found out.
    pub(super) outside: Vec<Vec<u8>>,
    /// What is to be put and has other names, each with the path that tells which file it is.
    pub(super) names: BTreeMap<WsPath, WsPath>,
}

impl Journaled {
    /// Waits for its turn. Whatever others did since is known then, and nothing is open.
    pub(super) async fn turn(&self) -> Result<Turn<'_>> {
        let state = self.state.lock().await;
        let lock = self.gate.enter().await?;
        let room = self.room().await?;
        let mut turn = Turn {
            journaled: self,
            room,
            state,
            lock,
            new: Vec::new(),
            outside: Vec::new(),
            names: BTreeMap::new(),
        };
        let is_as_left = turn.lock.claim(self.owner)?;
        if !is_as_left || turn.state.open.is_some() || !turn.state.is_ready {
            turn.refresh().await?;
        } else if turn.has_misfits() {
            turn.drain().await?;
        }
        Ok(turn)
    }
}

impl Turn<'_> {
    /// Reads the log, brings what it holds into the journal, and settles what is open.
    async fn refresh(&mut self) -> Result<()> {
        self.state.is_ready = false;
        let mut open = self.state.open.take();
        let mut last = 0;
        if let Some(files) = self.journaled.gate.files() {
            let (log, records) = Log::open(files)?;
            self.state.log = Some(log);
            let left = self.ingest_all(files, records).await?;
            (open, last) = (left.open, left.last);
            self.state.aside = u64::MAX;
        }
        let ingested = ingest::ingested(self.room)?;
        self.state.next = self.state.next.max(last).max(ingested) + 1;
        self.state.knowledge.clear();
        self.state.is_ready = true;
        if let Some(intent) = open.filter(|intent| intent.id > ingested) {
            // Until it is settled, the next turn must come here again.
            self.state.open = Some(intent.clone());
            self.settle(intent).await?;
            self.state.open = None;
        }
        // Settling may have put down what others did.
        self.drain().await?;
        self.lock.end()
    }

    async fn ingest_all(&self, files: &Files, records: Vec<Record>) -> Result<Sorted> {
        let aside = sorted(log::put_aside(files)?);
        self.ingest(aside.ready).await?;
        log::forget(files)?;
        let mut left = sorted(records);
        self.ingest(std::mem::take(&mut left.ready)).await?;
        left.last = left.last.max(aside.last);
        Ok(left)
    }

    fn clear_log(&mut self) -> Result<()> {
        self.state.log.as_mut().map_or(Ok(()), Log::clear)
    }

    /// Puts what is ready into the journal, and takes note of what does not fit.
    pub(super) async fn ingest(&self, ready: Vec<Ready>) -> Result<()> {
        let misfits = ingest::ingest(self.room, ready).await?;
        self.doubt(misfits);
        Ok(())
    }

    /// Says that the journal is not what is at these paths.
    pub(super) fn doubt(&self, paths: Misfits) {
        self.state.misfits.lock().expect("no holder panics").extend(paths);
    }

    pub(super) fn has_misfits(&self) -> bool {
        !self.state.misfits.lock().expect("no holder panics").is_empty()
    }

    /// Brings everything that is in the log into the journal, and what others did in the middle of it.
    pub(super) async fn drain(&mut self) -> Result<()> {
        self.drain_log().await?;
        for _ in 0..LOOKS {
            if !self.has_misfits() {
                break;
            }
            let misfits = std::mem::take(&mut *self.state.misfits.lock().expect("no holder panics"));
            // The log is in the journal, so all of it can be forgotten, and the look begins with what the journal says.
            self.state.knowledge.clear();
            if self.look_again(&misfits).await.is_err() {
                // Others still work there. What is remembered now is what the journal says, so nothing is lost by looking later.
                self.doubt(misfits);
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
        let Some(files) = self.journaled.gate.files() else {
            return Ok(());
        };
        if log::is_there(files) {
            let (_, records) = Log::open(files)?;
            self.ingest_all(files, records).await?;
            self.clear_log()?;
        }
        Ok(())
    }

    /// Looks at paths and at every directory above them.
    pub(super) async fn look_again(&mut self, paths: &[Vec<u8>]) -> Result<()> {
        let all = paths.iter().flat_map(|path| above(path).chain([path.as_slice()]));
        let all: BTreeSet<_> = all.collect();
        let entries = all
            .into_iter()
            .map(|path| (EntryPath::from_bytes(path.to_vec()), false));
        self.look_at_entries(&entries.collect::<Vec<_>>()).await
    }

    /// The number of the next record.
    pub(super) fn next_id(&mut self) -> u64 {
        let id = self.state.next;
        self.state.next += 1;
        id
    }

    /// The time, as it is stored.
    pub(super) fn now(&self) -> i64 {
        stored_time(self.journaled.clock.now())
    }

    /// Puts what was found into the journal's hands.
    pub(super) async fn note_found(&mut self, found: Found) -> Result<()> {
        for entry in &found.entries {
            let known = entry.thing.as_ref().map(|thing| thing.known.clone());
            self.state.knowledge.set(&entry.path, known);
        }
        match self.state.log.as_mut() {
            Some(log) => log.append(&[&Record::Found(found)], self.journaled.durability),
            None => self.ingest(vec![Ready::Found(found)]).await,
        }
    }

    /// Says what is about to be done; from here on a crash is settled.
    pub(super) fn open_intent(&mut self, intent: Intent) -> Result<()> {
        let record = Record::Intent(intent);
        let state = &mut *self.state;
        if let Some(log) = state.log.as_mut() {
            let start = log.size();
            log.append(&[&record], self.journaled.durability)?;
            state.intent_at = start..log.size();
        }
        let Record::Intent(intent) = record else {
            unreachable!("it was made above")
        };
        self.state.open = Some(intent);
        Ok(())
    }

    /// Says that it was done, and what is there now.
    pub(super) async fn close(&mut self, seen: Vec<Seen>) -> Result<()> {
        let Some(intent) = self.state.open.take() else {
            return Ok(());
        };
        self.state.knowledge.take(&seen);
        let Some(log) = self.state.log.as_mut() else {
            return self.ingest(vec![Ready::Made(intent, seen)]).await;
        };
        let record = Record::Closed { id: intent.id, seen };
        // Never synced: whoever finds the intent open after a loss of power finds the storage as it left it.
        let written = log.append(&[&record], Durability::Relaxed);
        if written.is_err() {
            // The change is made; the next turn settles the intent and finds it done.
            self.state.open = Some(intent);
        }
        self.relieve().await
    }

    /// Says that nothing was done.
    pub(super) fn abort(&mut self) -> Result<()> {
        let Some(intent) = self.state.open.take() else {
            return Ok(());
        };
        let record = Record::Aborted { id: intent.id };
        let state = &mut *self.state;
        let Some(log) = state.log.as_mut() else { return Ok(()) };
        match log.append(&[&record], Durability::Relaxed) {
            // On a full disk there is no room for the word, and readers would wait for a change that nobody makes: the intent goes.
            Err(_) if log.size() == state.intent_at.end => log.cut_back(state.intent_at.start),
            written => written,
        }
    }

    /// Has a log that has grown enter the journal in the background.
    async fn relieve(&mut self) -> Result<()> {
        let Some(files) = self.journaled.gate.files() else {
            return Ok(());
        };
        let size = self.state.log.as_ref().map_or(0, Log::size);
        if size < FULL_BYTES || self.state.open.is_some() {
            return Ok(());
        }
        // Only whoever has the lock removes it: another could have been put aside since the background began.
        if log::is_aside(files) && ingest::ingested(self.room)? >= self.state.aside {
            log::forget(files)?;
        }
        let aside = self.state.next - 1;
        let log = self.state.log.as_mut().expect("it has a size");
        if log.turn_over(files)? {
            self.state.aside = aside;
            ingest_later(self.room.clone(), files.clone(), self.state.misfits.clone());
            return Ok(());
        }
        if size > OVERFULL_BYTES {
            return self.drain().await;
        }
        Ok(())
    }

    /// What is known at a path.
    pub(super) fn known(&mut self, path: &[u8]) -> Result<Option<Known>> {
        self.state.knowledge.at(self.room, path)
    }
}

/// Ingests the log that was put aside. Where that fails, whoever has the next turn does it.
fn ingest_later(room: DepotWorkspace, files: Files, misfits: Arc<Mutex<Misfits>>) {
    let work = move || {
        let ingested = log::put_aside(&files).and_then(|records| ingest::ingest_blocking(&room, sorted(records).ready));
        if let Ok(found) = ingested {
            misfits.lock().expect("no holder panics").extend(found);
        }
    };
    let _ = std::thread::Builder::new().name("garret-journal".into()).spawn(work);
}
