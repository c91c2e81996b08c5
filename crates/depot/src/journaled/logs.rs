//! The logs of a home as a whole: whoever counts, sweeps or checks has them enter the journal first.

use garret_core::{Durability, Result};

use super::gate::{Exclusive, Files, Gate};
use super::ingest::{ingest, sorted};
use super::log::{self, Log};
use super::record::Record;
use crate::depot::Depot;
use crate::places::Site;
use crate::workspace::DepotWorkspace;

/// An owner that no handle is.
const NOBODY: u64 = 0;

impl Depot {
    /// Brings into the journal what the logs of all places hold; what is under way, or was left open by a crash, stays for whoever
    /// opens the place. Call it before garbage is collected: content that only a log refers to is not seen otherwise.
    pub async fn ingest_logs(&self) -> Result<()> {
        let Some(home) = &self.shared.home else {
            return Ok(());
        };
        for (number, kind, place) in self.shared.database.read(|session| session.journals())? {
            let site = Site {
                kind,
                place: Some(place),
            };
            let Some(files) = Files::of(home, &site).filter(log::is_there) else {
                continue;
            };
            let row = self.shared.database.read(|session| session.workspace(number))?;
            if let Some(row) = row.filter(|row| row.deleted.is_none()) {
                let gate = Gate::new(Some(files.clone()));
                enter_journal(&self.handle(&row), &files, &gate.enter().await?).await?;
            }
        }
        Ok(())
    }

    /// Does `work` on the workspace while nobody else changes its files, with everything in its journal that was done to them so far:
    /// the log is that of the place, and whoever has the place next would take what is in it for its own.
    pub(crate) async fn with_log_in_journal<T>(
        &self,
        workspace: &DepotWorkspace,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let found = self.shared.database.read(|session| session.place(workspace.number))?;
        let files = self.shared.home.as_ref().zip(found).and_then(|(home, (kind, place))| {
            let place = Some(place);
            Files::of(home, &Site { kind, place })
        });
        let Some(files) = files.filter(log::is_there) else {
            return work.await;
        };
        let gate = Gate::new(Some(files.clone()));
        let lock = gate.enter().await?;
        enter_journal(workspace, &files, &lock).await?;
        if workspace.durability == Durability::Full {
            log::sync(&files)?;
        }
        work.await
    }
}

/// Brings what the log of a place holds into the journal of the workspace that has it.
async fn enter_journal(room: &DepotWorkspace, files: &Files, lock: &Exclusive<'_>) -> Result<()> {
    // Whoever wrote last is to read the log again: what it remembers of its length will be wrong. It then remembers nothing of what does
    // not fit, either.
    lock.claim(NOBODY)?;
    ingest(room, sorted(log::put_aside(files)?).ready).await?;
    log::forget(files)?;
    let (mut log, records) = Log::open(files)?;
    let left = sorted(records);
    ingest(room, left.ready).await?;
    match left.open {
        None => log.clear(),
        // It stays for whoever opens the place. What is in the journal must not, since the next workspace there has a journal of its own.
        Some(open) => log.keep_only(files, &Record::Intent(open)),
    }
}
