//! Directories opened by handle, whose readers wait while a change of several paths is in progress.
//!
//! A walk is many reads, and each of them sees the state before or after a change. A walk that has seen the new state
//! at one path does not see the old state at another afterwards: it waits for the rest of the change.

use std::sync::Arc;

use garret_core::{Alteration, Directory, DirectoryEntry, OpenFile, Result, Stat};

use super::gate::Gate;

/// A directory of a journaled storage.
pub(super) struct SteadyDirectory {
    inner: Box<dyn Directory>,
    gate: Arc<Gate>,
}

impl SteadyDirectory {
    pub(super) fn new(inner: Box<dyn Directory>, gate: Arc<Gate>) -> Self {
        Self { inner, gate }
    }
}

#[deny(clippy::missing_trait_methods)]
impl Directory for SteadyDirectory {
    fn entries(&self) -> Result<Vec<DirectoryEntry>> {
        self.gate.pass();
        self.inner.entries()
    }

    fn open_directory(&self, name: &[u8]) -> Result<Box<dyn Directory>> {
        self.gate.pass();
        let inner = self.inner.open_directory(name)?;
        Ok(Box::new(Self::new(inner, self.gate.clone())))
    }

    fn open_file(&self, name: &[u8]) -> Result<OpenFile> {
        self.gate.pass();
        self.inner.open_file(name)
    }

    fn stat(&self, name: &[u8]) -> Result<Stat> {
        self.gate.pass();
        self.inner.stat(name)
    }

    fn alter(&self, name: &[u8], alteration: Alteration<'_>) -> Result<()> {
        self.inner.alter(name, alteration)
    }
}
