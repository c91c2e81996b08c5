//! Directories opened by handle whose readers wait while a change of several paths is under way.
//!
//! A walk is many reads, and each of them sees the old state or the new. What a change makes new in one place it shows in no other as
//! old afterwards: whoever has seen a part of it waits for the rest.

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
