//! The sandbox `host`, opened on a bench.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use garret_core::time::Ids;
use garret_core::{Error, ErrorKind, GuardStatus, Layer, OpenSandbox, Result, SandboxRequest, base_environment};
use garret_handles::{list_names, run_blocking};
use rustix::fs::{FlockOperation, Mode};

use super::HostOptions;
use super::host_layer::HostLayer;
use crate::scratch::{open_directory, unusable_directories_error};

/// The directory of the layers, below the scratch directory.
const LAYERS: &str = "host";

/// The directories and the request that all layers of a sandbox share.
#[derive(Debug)]
pub(super) struct HostDirectories {
    pub(super) layers: OwnedFd,
    pub(super) bench: OwnedFd,
    pub(super) request: SandboxRequest,
    pub(super) still_within: Duration,
}

/// The sandbox `host`, opened on a bench.
#[derive(Debug)]
pub(super) struct OpenHost {
    room: Arc<HostDirectories>,
    ids: Arc<dyn Ids>,
    enforced: Vec<GuardStatus>,
    living: Mutex<Vec<Weak<HostLayer>>>,
    is_closed: AtomicBool,
}

impl OpenHost {
    pub(super) fn new(request: SandboxRequest, enforced: Vec<GuardStatus>, options: &HostOptions) -> Result<Self> {
        let bench = open_directory(rustix::fs::CWD, &request.bench)?;
        let scratch = open_directory(rustix::fs::CWD, &request.scratch)?;
        make_directory(&scratch, LAYERS)?;
        if let Some(home) = &request.home {
            make_private_directory(home)?;
        }
        let room = HostDirectories {
            layers: open_directory(&scratch, LAYERS)?,
            bench,
            request,
            still_within: options.still_within,
        };
        Ok(Self {
            room: Arc::new(room),
            ids: options.ids.clone(),
            enforced,
            living: Mutex::default(),
            is_closed: AtomicBool::new(false),
        })
    }
}

#[async_trait]
impl OpenSandbox for OpenHost {
    fn guard_statuses(&self) -> &[GuardStatus] {
        &self.enforced
    }

    fn environment(&self) -> BTreeMap<String, String> {
        let request = &self.room.request;
        let home = request.home.as_deref().and_then(Path::to_str).unwrap_or("/tmp");
        let search = request.environment.get("PATH").map(String::as_str);
        let mut environment = base_environment(home, search.as_slice());
        let more = request.environment.iter().filter(|(name, _)| *name != "PATH");
        environment.extend(more.map(|(name, value)| (name.clone(), value.clone())));
        environment
    }

    async fn create_layer(&self) -> Result<Arc<dyn Layer>> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Unavailable, "the sandbox is closed").hint("open it again"));
        }
        let (room, id) = (self.room.clone(), self.ids.next_id());
        let layer = run_blocking(move || HostLayer::lay(&room, id)).await?;
        let layer = Arc::new(layer);
        let mut living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
        living.retain(|layer| layer.strong_count() > 0);
        living.push(Arc::downgrade(&layer));
        Ok(layer)
    }

    async fn leftover_layers(&self) -> Result<Vec<Arc<dyn Layer>>> {
        let room = self.room.clone();
        let found = run_blocking(move || find_leftovers(&room)).await?;
        Ok(found
            .into_iter()
            .map(|layer| Arc::new(layer) as Arc<dyn Layer>)
            .collect())
    }

    async fn close(&self) -> Result<()> {
        self.is_closed.store(true, Ordering::Release);
        let living: Vec<_> = {
            let living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
            living.iter().filter_map(Weak::upgrade).collect()
        };
        for layer in living {
            layer.lift().await?;
        }
        Ok(())
    }
}

/// Returns the layers that no process holds.
fn find_leftovers(room: &Arc<HostDirectories>) -> Result<Vec<HostLayer>> {
    let mut names = list_names(&room.layers).map_err(|_| unusable_directories_error())?;
    names.sort();
    let names = names.into_iter().filter_map(|name| String::from_utf8(name).ok());
    let free = names.filter_map(|name| {
        let directory = open_directory(&room.layers, name.as_str()).ok()?;
        rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).ok()?;
        // A layer that was removed between the listing and the lock is no leftover.
        let layer = HostLayer::open_leftover(room, name, directory);
        layer.has_copy().then_some(layer)
    });
    Ok(free.collect())
}

fn make_private_directory(path: &Path) -> Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    let made = std::os::unix::fs::DirBuilderExt::mode(builder.recursive(true), 0o700).create(path);
    made.map_err(|_| unusable_directories_error())
}

pub(super) fn make_directory(at: impl AsFd, name: &str) -> Result<()> {
    match rustix::fs::mkdirat(at, name, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(_) => Err(unusable_directories_error()),
    }
}
