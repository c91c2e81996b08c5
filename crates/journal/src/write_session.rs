//! A write session: one writer, which holds the lock on the files.

use garret_core::Result;
use garret_depot::outside_files::JournalWriteLock;

use crate::Journaled;
use crate::compare::StorageComparer;
use crate::journal_records::JournalRecords;
use crate::observed_files::ObservedFiles;

/// The right to change the files, until dropped.
pub(crate) struct WriteSession<'j> {
    pub(crate) files: ObservedFiles<'j>,
    pub(crate) comparer: StorageComparer<'j>,
    pub(crate) lock: JournalWriteLock<'j>,
}

impl Journaled {
    /// Waits for the lock and starts a write session. It starts with all changes by other handles known and with no
    /// intent open.
    pub(crate) async fn begin_write_session(&self) -> Result<WriteSession<'_>> {
        let state = self.state.lock().await;
        let lock = self.gate.lock_exclusively().await?;
        let room = self.ensure_workspace().await?;
        let files = ObservedFiles { journaled: self, room };
        let comparer = StorageComparer::new(files, JournalRecords::new(files, state));
        let mut session = WriteSession { files, comparer, lock };
        let is_as_left = session.lock.claim_ownership(self.owner)?;
        if !is_as_left || !session.comparer.records.is_ready() {
            session.catch_up().await?;
        } else if session.comparer.records.has_mismatches() {
            session.comparer.synchronize_journal().await?;
        }
        Ok(session)
    }
}

impl WriteSession<'_> {
    /// Reads the log, moves its records into the journal, and recovers an open intent.
    async fn catch_up(&mut self) -> Result<()> {
        if let Some(intent) = self.comparer.records.reload_log().await? {
            self.recover_intent(intent).await?;
            self.comparer.records.forget_open_intent();
        }
        // Recovery may have recorded changes by other programs.
        self.comparer.synchronize_journal().await?;
        self.lock.end_change()
    }
}
