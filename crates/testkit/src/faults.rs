//! A storage that fails on purpose, as an ordinary implementation.
//!
//! Which call fails, how, and whether the inner storage did its work before the failure is data ([`Fault`]), or drawn from a seed, so
//! that a failing run can be run again. A fault *after* the inner call is the interesting one: the change happened and the caller was
//! told that it did not.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use garret_core::{
    Batch, DirectoryHandle, Error, ErrorKind, ListOptions, ListPage, MutationOutcome, ReadOptions, ReadResult, Result,
    Stat, StatOptions, Storage, StorageInfo, WsPath,
};

use crate::fuzz::Random;

/// Whether the inner storage did its work before the failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// It was never asked.
    Before,
    /// It did the work, and the answer was lost.
    After,
}

/// The call that a fault is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// [`Storage::resolve`].
    Resolve,
    /// [`Storage::stat`].
    Stat,
    /// [`Storage::read`].
    Read,
    /// [`Storage::list`].
    List,
    /// [`Storage::apply`].
    Apply,
    /// [`Storage::open_directory`].
    OpenDirectory,
}

/// One failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Which kind of call fails; `None` for any.
    pub call: Option<Call>,
    /// How many such calls pass first.
    pub after_calls: u64,
    /// The kind of the error.
    pub kind: ErrorKind,
    /// Whether the inner call happened.
    pub moment: Moment,
}

/// A storage that fails as planned and otherwise hands every call to another.
#[derive(Debug)]
pub struct FaultStorage {
    inner: Arc<dyn Storage>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    plan: Vec<Fault>,
    drawn: Option<Drawn>,
    struck: u64,
}

/// Faults drawn from a seed.
#[derive(Debug)]
struct Drawn {
    random: Random,
    one_in: u64,
    kinds: Vec<ErrorKind>,
}

impl FaultStorage {
    /// Fails as `plan` says; each fault strikes once.
    pub fn planned(inner: Arc<dyn Storage>, plan: Vec<Fault>) -> Self {
        Self::with(inner, plan, None)
    }

    /// Fails about one call in `one_in`, before or after the inner call, with one of `kinds`, the same way for the same seed.
    pub fn seeded(inner: Arc<dyn Storage>, seed: u64, one_in: u64, kinds: Vec<ErrorKind>) -> Self {
        assert!(
            one_in > 0 && !kinds.is_empty(),
            "a seeded fault needs a rate and a kind"
        );
        let random = Random::new(seed);
        let drawn = Drawn { random, one_in, kinds };
        Self::with(inner, Vec::new(), Some(drawn))
    }

    fn with(inner: Arc<dyn Storage>, plan: Vec<Fault>, drawn: Option<Drawn>) -> Self {
        let struck = 0;
        let state = Mutex::new(State { plan, drawn, struck });
        Self { inner, state }
    }

    /// Plans one more fault; calls are counted from now on.
    pub fn add(&self, fault: Fault) {
        self.state.lock().expect("no holder panics").plan.push(fault);
    }

    /// How many faults have struck.
    pub fn struck(&self) -> u64 {
        self.state.lock().expect("no holder panics").struck
    }

    fn strike(&self, call: Call) -> Option<(ErrorKind, Moment)> {
        let mut state = self.state.lock().expect("no holder panics");
        let strike = state
            .planned(call)
            .or_else(|| state.drawn.as_mut().and_then(Drawn::draw));
        state.struck += u64::from(strike.is_some());
        strike
    }

    async fn faulted<T>(&self, call: Call, path: &WsPath, work: impl Future<Output = Result<T>>) -> Result<T> {
        match self.strike(call) {
            None => work.await,
            Some((kind, Moment::Before)) => Err(failure(kind, path)),
            Some((kind, Moment::After)) => work.await.and_then(|_| Err(failure(kind, path))),
        }
    }
}

impl State {
    fn planned(&mut self, call: Call) -> Option<(ErrorKind, Moment)> {
        let matching = |fault: &Fault| fault.call.is_none_or(|wanted| wanted == call);
        let due = self
            .plan
            .iter()
            .position(|fault| matching(fault) && fault.after_calls == 0);
        self.plan
            .iter_mut()
            .filter(|fault| matching(fault))
            .for_each(|fault| fault.after_calls = fault.after_calls.saturating_sub(1));
        let fault = self.plan.remove(due?);
        Some((fault.kind, fault.moment))
    }
}

impl Drawn {
    fn draw(&mut self) -> Option<(ErrorKind, Moment)> {
        if self.random.below(self.one_in) != 0 {
            return None;
        }
        let kind = self.kinds[self.random.below(self.kinds.len() as u64) as usize];
        let moment = if self.random.below(2) == 0 {
            Moment::Before
        } else {
            Moment::After
        };
        Some((kind, moment))
    }
}

fn failure(kind: ErrorKind, path: &WsPath) -> Error {
    Error::new(kind, format!("a planned failure at {}", path.to_quoted())).at_path(path)
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Storage for FaultStorage {
    fn info(&self) -> StorageInfo {
        self.inner.info()
    }

    async fn resolve(&self, path: &WsPath) -> Result<WsPath> {
        self.faulted(Call::Resolve, path, self.inner.resolve(path)).await
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        self.faulted(Call::Stat, path, self.inner.stat(path, options)).await
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        self.faulted(Call::Read, path, self.inner.read(path, options)).await
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        self.faulted(Call::List, path, self.inner.list(path, options)).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<MutationOutcome>> {
        let path = batch
            .mutations
            .first()
            .map_or_else(WsPath::root, |mutation| mutation.path().clone());
        self.faulted(Call::Apply, &path, self.inner.apply(batch)).await
    }

    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn DirectoryHandle>>> {
        match self.strike(Call::OpenDirectory) {
            None => self.inner.open_directory(path),
            Some((kind, _)) => Err(failure(kind, path)),
        }
    }
}
