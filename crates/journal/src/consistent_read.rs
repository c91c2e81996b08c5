//! Directories opened by handle, whose readers wait while a change of several paths is in progress.
//!
//! A walk is many reads, and each of them sees the state before or after a change. A walk that has seen the new state
//! at one path does not see the old state at another afterwards: it waits for the rest of the change.

use std::sync::Arc;

use garret_core::{DirectoryEntry, DirectoryHandle, EntryAlteration, OpenFile, Result, Stat};
use garret_depot::outside_files::JournalLockFile;

/// A directory of a journaled storage.
pub(crate) struct SteadyDirectory {
    inner: Box<dyn DirectoryHandle>,
    gate: Arc<JournalLockFile>,
}

impl SteadyDirectory {
    pub(crate) fn new(inner: Box<dyn DirectoryHandle>, gate: Arc<JournalLockFile>) -> Self {
        Self { inner, gate }
    }
}

#[deny(clippy::missing_trait_methods)]
impl DirectoryHandle for SteadyDirectory {
    fn list_entries(&self) -> Result<Vec<DirectoryEntry>> {
        self.gate.block_while_changing();
        self.inner.list_entries()
    }

    fn open_directory(&self, name: &[u8]) -> Result<Box<dyn DirectoryHandle>> {
        self.gate.block_while_changing();
        let inner = self.inner.open_directory(name)?;
        Ok(Box::new(Self::new(inner, self.gate.clone())))
    }

    fn open_file(&self, name: &[u8]) -> Result<OpenFile> {
        self.gate.block_while_changing();
        self.inner.open_file(name)
    }

    fn stat_entry(&self, name: &[u8]) -> Result<Stat> {
        self.gate.block_while_changing();
        self.inner.stat_entry(name)
    }

    fn alter_entry(&self, name: &[u8], alteration: EntryAlteration<'_>) -> Result<()> {
        self.inner.alter_entry(name, alteration)
    }
}
