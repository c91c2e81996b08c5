//! All logs of a home. Counting, garbage collection and checks move them into the journal first.

use garret_core::{Durability, Result};

use super::gate::{Exclusive, Files, Gate};
use super::ingest::{ingest, sorted};
use super::log::{self, Log};
use super::record::Record;
use crate::depot::Depot;
use crate::places::Site;
use crate::workspace::DepotWorkspace;

/// An owner number that no handle has.
const NOBODY: u64 = 0;

impl Depot {
    /// Moves the records in the logs of all sites into the journal. A change in progress, or one that a crash left
    /// open, stays for the next opener of the site. Call it before garbage collection: content that only a log refers
    /// to is not seen otherwise.
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

    /// Runs `work` on the workspace while nobody else changes its files, after its log has entered its journal. The log
    /// belongs to the site, so the next workspace at this site would take the records in it for its own.
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
            // A power loss must not bring the emptied log back for the next workspace at this site.
            log::sync(&files)?;
        }
        work.await
    }
}

/// Moves the log of a site into the journal of its workspace.
async fn enter_journal(room: &DepotWorkspace, files: &Files, lock: &Exclusive<'_>) -> Result<()> {
    // The last writer must read the log again, because its idea of the log's length becomes wrong. It then also drops
    // its index, and with it the entries that do not match the journal.
    lock.claim(NOBODY)?;
    ingest(room, sorted(log::put_aside(files)?).ready).await?;
    log::forget(files)?;
    let (mut log, records) = Log::open(files)?;
    let left = sorted(records);
    ingest(room, left.ready).await?;
    match left.open {
        None => log.clear(),
        // The open intent stays for the next opener of the site. The other records must go, because the next workspace
        // there has a journal of its own.
        Some(open) => log.keep_only(files, &Record::Intent(open)),
    }
}
