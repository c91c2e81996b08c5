//! A storage under test, with what must live as long as it.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use garret_core::Storage;

use crate::Probe;

/// An empty storage to test, and what keeps it alive.
pub struct Fixture {
    storage: Arc<dyn Storage>,
    hidden: Option<Arc<str>>,
    is_far: bool,
    guard: Option<Box<dyn Any + Send>>,
}

impl Fixture {
    /// A storage that needs nothing else.
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self {
            storage,
            hidden: None,
            is_far: false,
            guard: None,
        }
    }

    /// Keeps `guard` (a temporary directory, a server) until the test is over.
    #[must_use]
    pub fn holding(mut self, guard: impl Any + Send) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }

    /// Names a text, such as the host's path of the root, that no error may show.
    #[must_use]
    pub fn hiding(mut self, text: impl Into<String>) -> Self {
        self.hidden = Some(text.into().into());
        self
    }

    /// Says that every file costs a request to a server: where a behaviour takes thousands of files, a quarter will do.
    #[must_use]
    pub fn far(mut self) -> Self {
        self.is_far = true;
        self
    }

    /// Puts a wrapper around the storage.
    #[must_use]
    pub fn wrapped(mut self, wrap: impl FnOnce(Arc<dyn Storage>) -> Arc<dyn Storage>) -> Self {
        self.storage = wrap(self.storage);
        self
    }

    /// The storage.
    pub fn storage(&self) -> Arc<dyn Storage> {
        self.storage.clone()
    }

    /// The storage with the comforts of a test.
    pub fn probe(&self) -> Probe {
        let probe = Probe::new(self.storage.clone(), self.hidden.clone());
        if self.is_far { probe.far() } else { probe }
    }
}

impl fmt::Debug for Fixture {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Fixture")
            .field("storage", &self.storage)
            .field("is_guarded", &self.guard.is_some())
            .finish_non_exhaustive()
    }
}

/// Runs `work` to its end on a runtime with several threads, as a program that embeds a storage would.
pub fn block_on<F: Future>(work: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a test machine can start threads");
    runtime.block_on(work)
}
