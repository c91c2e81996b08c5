//! All logs of a home. Counting, garbage collection and checks move them into the journal first.

use garret_core::{Durability, Result};

use super::OutsideWorkspace;
use super::ingest::sort_records;
use super::lock_file::{JournalFiles, JournalLockFile, JournalWriteLock};
use super::log::{self, IntentLog};
use super::record::LogRecord;
use crate::depot::Depot;
use crate::metadata::WorkspaceRow;
use crate::workspace::DepotWorkspace;
use crate::workspace_places::Site;

/// An owner number that no handle has.
const NOBODY: u64 = 0;

impl Depot {
    /// Moves the records in the logs of all sites into the journal. A change in progress, or one that a crash left
    /// open, stays for the next opener of the site. Call it before garbage collection: content that only a log refers
    /// to is not seen otherwise.
    pub async fn ingest_logs(&self) -> Result<()> {
        for (files, row) in self.journals_with_files()? {
            if row.deleted.is_none() && log::has_records(&files) {
                let gate = JournalLockFile::new(Some(files.clone()));
                ingest_site_log(&self.workspace_handle(&row), &files, &gate.lock_exclusively().await?).await?;
            }
        }
        Ok(())
    }

    /// Returns the files of the logs of all sites, with the workspace of each.
    pub(super) fn journals_with_files(&self) -> Result<Vec<(JournalFiles, WorkspaceRow)>> {
        let Some(home) = &self.shared.home else {
            return Ok(Vec::new());
        };
        self.shared.database.read(|session| {
            let mut found = Vec::new();
            for (number, kind, place) in session.outside_files().placed_journals()? {
                let place = Some(place);
                let files = JournalFiles::for_site(home, &Site { kind, place });
                found.extend(files.zip(session.workspaces().workspace(number)?));
            }
            Ok(found)
        })
    }

    /// Runs `work` on the workspace while nobody else changes its files, after its log has entered its journal. The log
    /// belongs to the site, so the next workspace at this site would take the records in it for its own.
    pub(crate) async fn with_log_in_journal<T>(
        &self,
        workspace: &DepotWorkspace,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let found = self
            .shared
            .database
            .read(|session| session.outside_files().place_of_files(workspace.number))?;
        let files = self.shared.home.as_ref().zip(found).and_then(|(home, (kind, place))| {
            let place = Some(place);
            JournalFiles::for_site(home, &Site { kind, place })
        });
        let Some(files) = files.filter(log::has_records) else {
            return work.await;
        };
        let gate = JournalLockFile::new(Some(files.clone()));
        let lock = gate.lock_exclusively().await?;
        ingest_site_log(workspace, &files, &lock).await?;
        if workspace.durability == Durability::Full {
            // A power loss must not bring the emptied log back for the next workspace at this site.
            log::sync_logs(&files)?;
        }
        work.await
    }
}

/// Moves the log of a site into the journal of its workspace.
async fn ingest_site_log(room: &DepotWorkspace, files: &JournalFiles, lock: &JournalWriteLock<'_>) -> Result<()> {
    // The last writer must read the log again, because its idea of the log's length becomes wrong. It then also drops
    // its index, and with it the entries that do not match the journal.
    lock.claim_ownership(NOBODY)?;
    let room = OutsideWorkspace::from(room.clone());
    room.ingest_records(sort_records(log::read_set_aside(files)?).ready)
        .await?;
    log::remove_set_aside(files)?;
    let (mut log, records) = IntentLog::open(files)?;
    let left = sort_records(records);
    room.ingest_records(left.ready).await?;
    match left.open {
        None => log.clear(),
        // The open intent stays for the next opener of the site. The other records must go, because the next workspace
        // there has a journal of its own.
        Some(open) => log.replace_with(files, &LogRecord::Intent(open)),
    }
}
