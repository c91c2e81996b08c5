//! The logs of a home as a whole: whoever counts, sweeps or checks has them enter the journal first.

use garret_core::Result;

use super::gate::{Files, Gate};
use super::ingest::{ingest, sorted};
use super::log::{self, Log};
use crate::depot::Depot;
use crate::places::Site;

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
            let Some(row) = row.filter(|row| row.deleted.is_none()) else {
                continue;
            };
            let room = self.handle(&row);
            let gate = Gate::new(Some(files.clone()));
            let lock = gate.enter().await?;
            // Whoever wrote last is to read the log again: what it remembers of its length will be wrong. It then remembers nothing of
            // what does not fit, either.
            lock.claim(NOBODY)?;
            ingest(&room, sorted(log::put_aside(&files)?).ready).await?;
            log::forget(&files)?;
            let (mut log, records) = Log::open(&files)?;
            let left = sorted(records);
            ingest(&room, left.ready).await?;
            if left.open.is_none() {
                log.clear()?;
            }
        }
        Ok(())
    }
}
