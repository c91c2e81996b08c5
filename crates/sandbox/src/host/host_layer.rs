//! A copy of the bench on which commands work.

#![cfg(target_os = "linux")]

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use garret_core::{Effect, Effects, EffectsMark, EntryPath, Error, ErrorKind, Layer, Process, Result, SandboxCommand};
use garret_handles::{remove_tree, run_blocking};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::host_process::{HostCommand, HostProcess};
use super::open_host::{HostDirectories, make_directory};
use super::process_tree::{ProcessTree, pause_all};
use super::{host_process, place_effects};
use crate::copied_layer::{copy_bench, read_copied_effects};
use crate::effects;
use crate::scratch::{open_directory, unusable_directories_error};
use crate::supervisor::protocol::SpawnLimits;
use crate::visible_bench::BenchBaseline;

/// The name of the copy in the directory of its layer.
const COPY: &str = "workspace";

/// A layer of the sandbox `host`: a directory with a lock, and the copy in it.
#[derive(Debug)]
pub(super) struct HostLayer {
    inner: Arc<HostLayerInner>,
}

#[derive(Debug)]
struct HostLayerInner {
    room: Arc<HostDirectories>,
    id: String,
    /// The directory of the layer, locked as long as a process holds the layer.
    directory: OwnedFd,
    /// The state of the copy before any command ran; not known for a layer that was left behind.
    begun: Option<EffectsMark>,
    /// The state of the bench at the last search for changes of others.
    below: Mutex<BenchBaseline>,
    state: Mutex<HostLayerState>,
}

#[derive(Debug)]
struct HostLayerState {
    stage: HostLayerStage,
    trees: Vec<Weak<ProcessTree>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostLayerStage {
    Running,
    Paused,
    Lifted,
    Removed,
}

impl HostLayer {
    /// Makes a layer: a new copy of the bench.
    pub(super) fn lay(room: &Arc<HostDirectories>, id: String) -> Result<Self> {
        make_directory(&room.layers, &id)?;
        let directory = open_directory(&room.layers, id.as_str())?;
        rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| unusable_directories_error())?;
        make_directory(&directory, COPY)?;
        let copy = open_directory(&directory, COPY)?;
        let below = copy_bench(
            room.bench.as_fd(),
            &copy,
            &directory,
            room.request.read_filter.as_deref(),
        )?;
        let begun = Some(effects::mark_tree(copy.as_fd())?);
        Ok(Self::new(room, id, directory, begun, below, HostLayerStage::Running))
    }

    /// Opens a layer that was left behind, and that the caller has locked.
    pub(super) fn open_leftover(room: &Arc<HostDirectories>, id: String, directory: OwnedFd) -> Self {
        Self::new(
            room,
            id,
            directory,
            None,
            BenchBaseline::default(),
            HostLayerStage::Lifted,
        )
    }

    fn new(
        room: &Arc<HostDirectories>,
        id: String,
        directory: OwnedFd,
        begun: Option<EffectsMark>,
        below: BenchBaseline,
        stage: HostLayerStage,
    ) -> Self {
        let state = HostLayerState {
            stage,
            trees: Vec::new(),
        };
        let inner = HostLayerInner {
            room: room.clone(),
            id,
            directory,
            begun,
            below: Mutex::new(below),
            state: Mutex::new(state),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns whether its copy exists.
    pub(super) fn has_copy(&self) -> bool {
        self.inner.open_copy().is_ok()
    }

    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&HostLayerInner) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = self.inner.clone();
        run_blocking(move || work(&inner)).await
    }
}

impl HostLayerInner {
    fn lock_state(&self) -> MutexGuard<'_, HostLayerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_copy(&self) -> Result<OwnedFd> {
        open_directory(&self.directory, COPY)
    }

    fn living_trees(&self) -> Vec<Arc<ProcessTree>> {
        self.lock_state().trees.iter().filter_map(Weak::upgrade).collect()
    }

    fn check_laid(&self) -> Result<()> {
        match self.lock_state().stage {
            HostLayerStage::Running | HostLayerStage::Paused => Ok(()),
            HostLayerStage::Lifted | HostLayerStage::Removed => Err(Error::new(
                ErrorKind::Unavailable,
                "the sandbox layer of this command was closed already",
            )
            .hint("run the command again")),
        }
    }

    /// Returns the directory in which a command begins, by its path on the host. A symbolic link is followed only if it
    /// leads to a place in the workspace.
    fn directory_of(&self, command: &SandboxCommand) -> Result<PathBuf> {
        let path = command.cwd.as_str().as_bytes();
        let opened = garret_handles::open_through_links(&self.open_copy()?, path, OFlags::PATH | OFlags::DIRECTORY);
        let directory = opened.map_err(|errno| match errno {
            Errno::XDEV => Error::path_escape(&command.cwd)
                .hint("a symbolic link in this path leads outside: choose a directory inside the workspace"),
            Errno::AGAIN => Error::new(
                ErrorKind::Unavailable,
                "the directory cannot be looked up while paths are renamed",
            )
            .at_path(&command.cwd)
            .hint("run it again"),
            _ => Error::not_found(&command.cwd).hint("make the directory first, or choose another"),
        })?;
        let by_handle = rustix::fs::readlink(garret_handles::path_of_handle(&directory), Vec::new());
        let real = by_handle.map_err(|_| unusable_directories_error())?.into_bytes();
        Ok(PathBuf::from(OsString::from_vec(real)))
    }

    fn read_effects(&self, since: Option<&EffectsMark>) -> Result<Effects> {
        let bench = self.room.bench.as_fd();
        let limits = self.room.request.limits.effect_limits();
        let since_begun = since.or(self.begun.as_ref());
        let (copy, layer) = (self.open_copy()?, self.directory.as_fd());
        let mut effects = read_copied_effects(copy.as_fd(), bench, layer, since_begun, limits)?;
        if since.is_none() {
            // Files that were copied a moment before the mark cannot be told from changed ones by their times; their
            // content can.
            effects.effects.retain(|effect| !effects::equals_bench(bench, effect));
        }
        Ok(effects)
    }

    /// Returns the paths that others changed on the bench and at which the copy differs.
    fn look_below(&self) -> Result<Vec<EntryPath>> {
        let mut below = self.below.lock().unwrap_or_else(PoisonError::into_inner);
        let bench = self.room.bench.as_fd();
        let (paths, now) = below.find_changes(
            bench,
            self.open_copy()?.as_fd(),
            self.room.request.read_filter.as_deref(),
        )?;
        *below = now;
        Ok(paths)
    }

    /// Ends every process of the layer, and waits for their end.
    fn end_processes(&self) {
        {
            let mut state = self.lock_state();
            if state.stage != HostLayerStage::Removed {
                state.stage = HostLayerStage::Lifted;
            }
        }
        let trees = self.living_trees();
        // All are told first, so that they end at the same time.
        trees.iter().for_each(|tree| tree.end_processes());
        trees.iter().for_each(|tree| tree.wait_until_gone());
    }

    fn remove_files(&self) -> Result<()> {
        self.end_processes();
        self.lock_state().stage = HostLayerStage::Removed;
        remove_tree(&self.room.layers, self.id.as_bytes()).map_err(|_| unusable_directories_error())
    }

    fn set_stage(&self, from: HostLayerStage, to: HostLayerStage) -> Result<()> {
        self.check_laid()?;
        let mut state = self.lock_state();
        if state.stage == from {
            state.stage = to;
        }
        Ok(())
    }
}

#[async_trait]
impl Layer for HostLayer {
    fn id(&self) -> &str {
        &self.inner.id
    }

    async fn start_process(&self, command: SandboxCommand) -> Result<Box<dyn Process>> {
        let started = self
            .run_blocking(move |inner| {
                inner.check_laid()?;
                let starting = HostCommand {
                    directory: inner.directory_of(&command)?,
                    limits: SpawnLimits::of_command(&command.limits, &inner.room.request.limits),
                    command,
                };
                host_process::spawn_command(starting, &inner.directory)
            })
            .await?;
        let (process, tree) = HostProcess::follow_started(started);
        {
            let mut state = self.inner.lock_state();
            state.trees.retain(|tree| tree.strong_count() > 0);
            state.trees.push(Arc::downgrade(&tree));
        }
        // The layer may have been lifted meanwhile, before this tree was in the list; then only this code ends it.
        self.inner.check_laid().inspect_err(|_| tree.end_processes())?;
        Ok(Box::new(process))
    }

    async fn place_entries(&self, effects: Vec<Effect>) -> Result<()> {
        self.run_blocking(move |inner| {
            inner.check_laid()?;
            place_effects::place_effects(inner.open_copy()?.as_fd(), &effects)
        })
        .await
    }

    async fn refresh_bench(&self) -> Result<Vec<EntryPath>> {
        self.run_blocking(HostLayerInner::look_below).await
    }

    async fn pause(&self) -> Result<u64> {
        self.run_blocking(|inner| {
            inner.set_stage(HostLayerStage::Running, HostLayerStage::Paused)?;
            Ok(pause_all(inner.living_trees(), inner.room.still_within))
        })
        .await
    }

    async fn resume(&self) -> Result<()> {
        self.run_blocking(|inner| {
            inner.set_stage(HostLayerStage::Paused, HostLayerStage::Running)?;
            inner.living_trees().iter().for_each(|tree| tree.resume_processes());
            Ok(())
        })
        .await
    }

    async fn read_effects(&self, since: Option<&EffectsMark>) -> Result<Effects> {
        if self.inner.lock_state().stage == HostLayerStage::Running {
            return Err(Error::invalid(
                "the effects of a command can be read only while it is paused or after it has ended",
            )
            .hint("pause or end the command first"));
        }
        let since = since.cloned();
        self.run_blocking(move |inner| inner.read_effects(since.as_ref())).await
    }

    async fn lift(&self) -> Result<()> {
        self.run_blocking(|inner| {
            inner.end_processes();
            Ok(())
        })
        .await
    }

    async fn remove(&self) -> Result<()> {
        self.run_blocking(HostLayerInner::remove_files).await
    }
}
