//! A sandbox in which nothing runs: a test sets the effects of its processes, and the moment of its death.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use garret_core::{
    Bench, BenchState, Chunk, CommandExit, DerivedFiles, Effect, Effects, EffectsMark, EntryPath, Error, ErrorKind,
    Guard, GuardStatus, Layer, LayerOutcome, NoHostView, OpenSandbox, PlacedEntry, Process, Result, Sandbox,
    SandboxCommand, SandboxRequest, ShellPolicy, Signal,
};

use crate::shell::ShellParts;
use crate::shell::effects::layer_note::LayerNotePlace;

/// Makes an effect from a number.
pub(crate) type NumberedEffect = fn(usize) -> Effect;

/// A machine with one bench and one layer.
#[derive(Debug)]
pub(crate) struct FakeMachine {
    directory: tempfile::TempDir,
    enforced: Vec<GuardStatus>,
    /// The effects of the processes.
    done: Mutex<Vec<Effect>>,
    /// The effects that were placed on the layer.
    placed: Mutex<Vec<Effect>>,
    is_dead: AtomicBool,
    /// The number of commands that the next pause ends.
    unstill: AtomicU64,
    /// The number of the change that the bench is at.
    head: AtomicU64,
    /// Whether the layer belongs to nobody, as after the end of its Garret.
    is_abandoned: AtomicBool,
    /// The effect that a process has once more before every look at its effects, made from a number.
    repeated: Mutex<Option<NumberedEffect>>,
}

/// Implements every trait of a sandbox.
#[derive(Debug, Clone)]
struct FakeSandbox(Arc<FakeMachine>);

impl FakeMachine {
    pub(crate) fn new() -> Arc<Self> {
        let layers = GuardStatus {
            guard: Guard::Layers,
            is_enforced: true,
            by: "a test".to_owned(),
            remedy: None,
        };
        Arc::new(Self {
            directory: tempfile::tempdir().unwrap(),
            enforced: vec![layers],
            done: Mutex::default(),
            placed: Mutex::default(),
            is_dead: AtomicBool::new(false),
            unstill: AtomicU64::new(0),
            head: AtomicU64::new(0),
            is_abandoned: AtomicBool::new(false),
            repeated: Mutex::default(),
        })
    }

    /// Returns the parts that a workspace needs to run commands here.
    pub(crate) fn parts(self: &Arc<Self>) -> ShellParts {
        let actor = FakeSandbox(self.clone());
        ShellParts {
            sandbox: Arc::new(actor.clone()),
            bench: Arc::new(actor),
            is_direct: false,
            policy: ShellPolicy {
                require: Some(Vec::new()),
                ..ShellPolicy::default()
            },
            derived: DerivedFiles::default(),
            environment: Default::default(),
            host: Arc::new(NoHostView),
            network_log: None,
        }
    }

    /// Adds a file to the effects of the processes.
    pub(crate) fn write(&self, path: &str, content: &str) {
        self.done.lock().unwrap().push(file(path, content));
    }

    /// Adds the removal of a file to the effects of the processes.
    pub(crate) fn delete(&self, path: &str) {
        let removal = Effect {
            placed: PlacedEntry::Nothing,
            ..file(path, "")
        };
        self.done.lock().unwrap().push(removal);
    }

    /// Starts a process that has one more effect before every look at the effects.
    pub(crate) fn repeat(&self, effect: NumberedEffect) {
        *self.repeated.lock().unwrap() = Some(effect);
    }

    /// Makes the next pause end this number of commands.
    pub(crate) fn end_at_pause(&self, commands: u64) {
        self.unstill.store(commands, Ordering::SeqCst);
    }

    /// Ends the sandbox with all its processes.
    pub(crate) fn die(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
    }

    /// Brings the bench to the change `head`.
    pub(crate) fn set_head(&self, head: u64) {
        self.head.store(head, Ordering::SeqCst);
    }

    /// Makes the layer one that belongs to nobody, as it is after a crash.
    pub(crate) fn abandon_layer(&self) {
        self.is_abandoned.store(true, Ordering::SeqCst);
    }

    /// Removes the note on the layer.
    pub(crate) async fn remove_note(self: &Arc<Self>) {
        let state = FakeSandbox(self.clone()).bring_up_to_date().await.unwrap();
        LayerNotePlace::new(&state, "layer").remove_note();
    }

    /// Returns the paths that were placed on the layer.
    pub(crate) fn placed(&self) -> Vec<String> {
        let placed = self.placed.lock().unwrap();
        placed.iter().map(|effect| effect.path.display_path()).collect()
    }

    fn check_alive(&self) -> Result<()> {
        if self.is_dead.load(Ordering::SeqCst) {
            Err(Error::new(ErrorKind::Unavailable, "the sandbox has ended"))
        } else {
            Ok(())
        }
    }
}

/// Returns the effect that writes a file.
pub(crate) fn file(path: &str, content: &str) -> Effect {
    Effect {
        path: EntryPath::from_bytes(path.as_bytes().to_vec()),
        placed: PlacedEntry::File {
            content: content.as_bytes().to_vec().into(),
            mode: 0o644,
        },
        modified: None,
        is_lost_below: false,
    }
}

#[async_trait]
impl Bench for FakeSandbox {
    async fn bring_up_to_date(&self) -> Result<BenchState> {
        Ok(BenchState {
            root: self.0.directory.path().join("root"),
            scratch: self.scratch_directory(),
            head: self.0.head.load(Ordering::SeqCst),
            generation: None,
            corrupt: Vec::new(),
        })
    }

    fn scratch_directory(&self) -> PathBuf {
        self.0.directory.path().join("scratch")
    }

    async fn take_effects(&self, _taken: LayerOutcome<'_>) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl Sandbox for FakeSandbox {
    fn kind(&self) -> &'static str {
        "stage"
    }

    async fn probe(&self) -> Vec<GuardStatus> {
        self.0.enforced.clone()
    }

    async fn open(&self, _request: SandboxRequest) -> Result<Arc<dyn OpenSandbox>> {
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl OpenSandbox for FakeSandbox {
    fn guard_statuses(&self) -> &[GuardStatus] {
        &self.0.enforced
    }

    async fn create_layer(&self) -> Result<Arc<dyn Layer>> {
        Ok(Arc::new(self.clone()))
    }

    async fn leftover_layers(&self) -> Result<Vec<Arc<dyn Layer>>> {
        let is_abandoned = self.0.is_abandoned.load(Ordering::SeqCst);
        let layer = is_abandoned.then(|| Arc::new(self.clone()) as Arc<dyn Layer>);
        Ok(layer.into_iter().collect())
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl Layer for FakeSandbox {
    fn id(&self) -> &str {
        "layer"
    }

    async fn start_process(&self, _command: SandboxCommand) -> Result<Box<dyn Process>> {
        self.0.check_alive()?;
        Ok(Box::new(self.clone()))
    }

    async fn place_entries(&self, effects: Vec<Effect>) -> Result<()> {
        self.0.check_alive()?;
        self.0.placed.lock().unwrap().extend(effects);
        Ok(())
    }

    async fn pause(&self) -> Result<u64> {
        self.0.check_alive()?;
        Ok(self.0.unstill.swap(0, Ordering::SeqCst))
    }

    async fn resume(&self) -> Result<()> {
        self.0.check_alive()
    }

    async fn read_effects(&self, since: Option<&EffectsMark>) -> Result<Effects> {
        let mut done = self.0.done.lock().unwrap();
        if let Some(effect) = *self.0.repeated.lock().unwrap() {
            let number = done.len();
            done.push(effect(number));
        }
        let read = since.and_then(|mark| mark.0.get(b"read")).copied().unwrap_or(0);
        Ok(Effects {
            effects: done.iter().skip(read as usize).cloned().collect(),
            mark: EffectsMark([(b"read".to_vec(), done.len() as u64)].into_iter().collect()),
            ..Effects::default()
        })
    }

    async fn lift(&self) -> Result<()> {
        Ok(())
    }

    async fn remove(&self) -> Result<()> {
        self.0.is_abandoned.store(false, Ordering::SeqCst);
        Ok(())
    }
}

/// A process without output that ends when it is dropped.
#[async_trait]
impl Process for FakeSandbox {
    async fn next_output(&mut self) -> Option<Chunk> {
        std::future::pending().await
    }

    async fn wait(&mut self) -> Result<CommandExit> {
        std::future::pending().await
    }

    async fn write_stdin(&mut self, _bytes: Bytes) -> Result<()> {
        Ok(())
    }

    async fn close_stdin(&mut self) -> Result<()> {
        Ok(())
    }

    async fn send_signal(&mut self, _signal: Signal) -> Result<()> {
        Ok(())
    }
}
