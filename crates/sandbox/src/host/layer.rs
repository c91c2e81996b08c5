//! A copy of the bench on which commands work.

#![cfg(target_os = "linux")]

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use garret_core::{
    Command, Effect, EffectLimits, Effects, EntryPath, Error, ErrorKind, Layer, Mark, Process, ReadFilter, Result,
};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::open::{Room, apart, make_directory, open_directory, unusable};
use super::process::{HostProcess, Starting};
use super::tree::{Tree, pause_all};
use super::{place, process};
use crate::effects::beneath;
use crate::filtered::{Below, CopyTarget, HiddenRecord, copy_visible, keep_hidden};
use crate::namespace::remove::remove_tree;

/// The name of the copy in the directory of its layer.
const COPY: &str = "workspace";

/// A layer of the sandbox `host`: a directory with a lock, and the copy in it.
#[derive(Debug)]
pub(super) struct HostLayer {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    room: Arc<Room>,
    id: String,
    /// The directory of the layer, locked as long as a process holds the layer.
    directory: OwnedFd,
    /// The state of the copy before any command ran; not known for a layer that was left behind.
    begun: Option<Mark>,
    /// The state of the bench at the last search for changes of others.
    below: Mutex<Below>,
    state: Mutex<State>,
}

/// The state of the copy and of the bench when a layer is made.
#[derive(Debug, Default)]
struct Stand {
    begun: Option<Mark>,
    below: Below,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    trees: Vec<Weak<Tree>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    Paused,
    Lifted,
    Removed,
}

impl HostLayer {
    /// Makes a layer: a new copy of the bench.
    pub(super) fn lay(room: &Arc<Room>, id: String) -> Result<Self> {
        make_directory(&room.layers, &id)?;
        let directory = open_directory(&room.layers, id.as_str())?;
        rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).map_err(|_| unusable())?;
        make_directory(&directory, COPY)?;
        let copy = open_directory(&directory, COPY)?;
        let stand = match &room.request.read_filter {
            Some(filter) => copy_what_shows(room, &directory, &copy, &**filter)?,
            // The bench is read before it is copied: a change that others make in between is then found again, and none
            // is missed.
            None => Stand {
                below: Below::Everything(crate::effects::stand(room.bench.as_fd())?),
                begun: Some(crate::effects::copy_tree(room.bench.as_fd(), copy.as_fd())?.mark),
            },
        };
        Ok(Self::new(room, id, directory, stand, Stage::Running))
    }

    /// Opens a layer that was left behind, and that the caller has locked.
    pub(super) fn left(room: &Arc<Room>, id: String, directory: OwnedFd) -> Self {
        Self::new(room, id, directory, Stand::default(), Stage::Lifted)
    }

    fn new(room: &Arc<Room>, id: String, directory: OwnedFd, stand: Stand, stage: Stage) -> Self {
        let state = State {
            stage,
            trees: Vec::new(),
        };
        let inner = Inner {
            room: room.clone(),
            id,
            directory,
            begun: stand.begun,
            below: Mutex::new(stand.below),
            state: Mutex::new(state),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns whether its copy exists.
    pub(super) fn is_there(&self) -> bool {
        self.inner.copy().is_ok()
    }

    async fn apart<T: Send + 'static>(&self, work: impl FnOnce(&Inner) -> Result<T> + Send + 'static) -> Result<T> {
        let inner = self.inner.clone();
        apart(move || work(&inner)).await
    }
}

/// Copies the entries of the bench that the filter shows, and records the hidden paths in the layer's directory.
fn copy_what_shows(room: &Room, directory: &OwnedFd, copy: &OwnedFd, filter: &dyn ReadFilter) -> Result<Stand> {
    let target = CopyTarget {
        directory: copy.as_fd(),
        owner: None,
        store: None,
    };
    let copied = copy_visible(room.bench.as_fd(), filter, target)?;
    HiddenRecord(copied.hidden).write(directory).map_err(|_| unusable())?;
    Ok(Stand {
        below: Below::Visible(copied.visible),
        begun: Some(crate::effects::of_copy(copy.as_fd(), room.bench.as_fd(), None, EffectLimits::default())?.mark),
    })
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn copy(&self) -> Result<OwnedFd> {
        open_directory(&self.directory, COPY)
    }

    fn trees(&self) -> Vec<Arc<Tree>> {
        self.state().trees.iter().filter_map(Weak::upgrade).collect()
    }

    fn check_laid(&self) -> Result<()> {
        match self.state().stage {
            Stage::Running | Stage::Paused => Ok(()),
            Stage::Lifted | Stage::Removed => Err(Error::new(
                ErrorKind::Unavailable,
                "the sandbox layer of this command was closed already",
            )
            .hint("run the command again")),
        }
    }

    /// Returns the directory in which a command begins, by its path on the host. A symbolic link is followed only if it
    /// leads to a place in the workspace.
    fn directory_of(&self, command: &Command) -> Result<PathBuf> {
        let path = command.cwd.as_str().as_bytes();
        let opened = beneath::open_through_links(&self.copy()?, path, OFlags::PATH | OFlags::DIRECTORY);
        let directory = opened.map_err(|errno| match errno {
            Errno::XDEV => Error::path_escape(&command.cwd)
                .hint("a symbolic link in this path leads outside: choose a directory inside the workspace"),
            Errno::AGAIN => Error::new(
                ErrorKind::Unavailable,
                "the directory cannot be looked up while paths are renamed",
            )
            .at(&command.cwd)
            .hint("run it again"),
            _ => Error::not_found(&command.cwd).hint("make the directory first, or choose another"),
        })?;
        let by_handle = rustix::fs::readlink(beneath::by_handle(&directory), Vec::new());
        let real = by_handle.map_err(|_| unusable())?.into_bytes();
        Ok(PathBuf::from(OsString::from_vec(real)))
    }

    fn read(&self, since: Option<&Mark>) -> Result<Effects> {
        let bench = self.room.bench.as_fd();
        let limits = self.room.request.limits.effects();
        let since_begun = since.or(self.begun.as_ref());
        let mut effects = crate::effects::of_copy(self.copy()?.as_fd(), bench, since_begun, limits)?;
        let hidden = HiddenRecord::read(self.directory.as_fd()).map_err(|_| unusable())?;
        keep_hidden(&mut effects.effects, &hidden);
        if since.is_none() {
            // Files that were copied a moment before the mark cannot be told from changed ones by their times; their
            // content can.
            effects
                .effects
                .retain(|effect| !crate::effects::is_as_on(bench, effect));
        }
        Ok(effects)
    }

    /// Returns the paths that others changed on the bench and at which the copy differs.
    fn look_below(&self) -> Result<Vec<EntryPath>> {
        let mut below = self.below.lock().unwrap_or_else(PoisonError::into_inner);
        let bench = self.room.bench.as_fd();
        let (paths, now) = below.changes(bench, self.copy()?.as_fd(), self.room.request.read_filter.as_deref())?;
        *below = now;
        Ok(paths)
    }

    /// Ends every process of the layer, and waits for their end.
    fn lift(&self) {
        {
            let mut state = self.state();
            if state.stage != Stage::Removed {
                state.stage = Stage::Lifted;
            }
        }
        let trees = self.trees();
        // All are told first, so that they end at the same time.
        trees.iter().for_each(|tree| tree.end());
        trees.iter().for_each(|tree| tree.wait_until_gone());
    }

    fn remove(&self) -> Result<()> {
        self.lift();
        self.state().stage = Stage::Removed;
        remove_tree(self.room.layers.as_fd(), self.id.as_bytes()).map_err(|_| unusable())
    }

    fn set_stage(&self, from: Stage, to: Stage) -> Result<()> {
        self.check_laid()?;
        let mut state = self.state();
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

    async fn start(&self, command: Command) -> Result<Box<dyn Process>> {
        let started = self
            .apart(move |inner| {
                inner.check_laid()?;
                let starting = Starting {
                    directory: inner.directory_of(&command)?,
                    most: inner.room.request.limits.clone(),
                    command,
                };
                process::spawn(starting, &inner.directory)
            })
            .await?;
        let (process, tree) = HostProcess::follow(started);
        {
            let mut state = self.inner.state();
            state.trees.retain(|tree| tree.strong_count() > 0);
            state.trees.push(Arc::downgrade(&tree));
        }
        // The layer may have been lifted meanwhile, before this tree was in the list; then only this code ends it.
        self.inner.check_laid().inspect_err(|_| tree.end())?;
        Ok(Box::new(process))
    }

    async fn place(&self, effects: Vec<Effect>) -> Result<()> {
        self.apart(move |inner| {
            inner.check_laid()?;
            place::place(inner.copy()?.as_fd(), &effects)
        })
        .await
    }

    async fn look_below(&self) -> Result<Vec<EntryPath>> {
        self.apart(Inner::look_below).await
    }

    async fn pause(&self) -> Result<u64> {
        self.apart(|inner| {
            inner.set_stage(Stage::Running, Stage::Paused)?;
            Ok(pause_all(inner.trees(), inner.room.still_within))
        })
        .await
    }

    async fn resume(&self) -> Result<()> {
        self.apart(|inner| {
            inner.set_stage(Stage::Paused, Stage::Running)?;
            inner.trees().iter().for_each(|tree| tree.resume());
            Ok(())
        })
        .await
    }

    async fn effects(&self, since: Option<&Mark>) -> Result<Effects> {
        if self.inner.state().stage == Stage::Running {
            return Err(Error::invalid(
                "the effects of a command can be read only while it is paused or after it has ended",
            )
            .hint("pause or end the command first"));
        }
        let since = since.cloned();
        self.apart(move |inner| inner.read(since.as_ref())).await
    }

    async fn lift(&self) -> Result<()> {
        self.apart(|inner| {
            inner.lift();
            Ok(())
        })
        .await
    }

    async fn remove(&self) -> Result<()> {
        self.apart(Inner::remove).await
    }
}
