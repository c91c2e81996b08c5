//! Prepares the lower directory of a layer before it is mounted: the bench, the bench without hidden paths, a part of
//! it, or a copy.

#![cfg(target_os = "linux")]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use garret_core::{EffectLimits, Mark, ReadFilter, Result};
use rustix::fs::{Mode, OFlags};

use super::layer::{Form, apart, give, give_all};
use super::open::{OpenShared, make_directory, open_directory, unusable};
use crate::effects;
use crate::filtered::{Below, CopyTarget, FileStore, HiddenRecord, copy_visible, hidden_paths};
use crate::supervisor::protocol::Ground;

/// The prepared lower directory of a layer.
#[derive(Debug)]
pub(super) struct Grounded {
    pub(super) ground: Ground,
    pub(super) below: Below,
    /// The state of the copy when it was made, if the layer is a copy.
    pub(super) copied: Option<Mark>,
}

impl Grounded {
    /// Prepares the lower directory for the layer in the directory `name`. With `stands`, nobody changes the bench
    /// before the layer is unmounted.
    pub(super) async fn make(sandbox: &Arc<OpenShared>, name: &str, stands: Option<&str>) -> Result<Self> {
        let (sandbox, name, is_steady) = (Arc::clone(sandbox), name.to_owned(), stands.is_some());
        let filter = sandbox.request.read_filter.clone();
        match (sandbox.form, filter) {
            (Form::Overlay, None) => Ok(Self {
                ground: Ground::Bench,
                below: Below::Bench,
                copied: None,
            }),
            (Form::Overlay, Some(filter)) if is_steady => {
                apart(move || Self::without_hidden(&sandbox, &name, &*filter)).await
            }
            (Form::Overlay, Some(filter)) => apart(move || Self::own_lower(&sandbox, &name, &*filter)).await,
            (Form::Copy, filter) => apart(move || Self::copy(&sandbox, &name, filter.as_deref())).await,
        }
    }

    /// Records the paths of the bench that are hidden.
    fn without_hidden(sandbox: &OpenShared, name: &str, filter: &dyn ReadFilter) -> Result<Self> {
        let hidden = HiddenRecord(hidden_paths(sandbox.bench.as_fd(), filter)?);
        let layer = directory_below(&sandbox.layers, name)?;
        hidden.write(&layer).map_err(|_| unusable())?;
        Ok(Self {
            ground: Ground::BenchWithoutHidden,
            below: Below::Bench,
            copied: None,
        })
    }

    /// Copies the visible entries into a lower directory, which nobody writes to.
    fn own_lower(sandbox: &OpenShared, name: &str, filter: &dyn ReadFilter) -> Result<Self> {
        let layer = directory_below(&sandbox.layers, name)?;
        rustix::fs::mkdirat(&layer, "lower", Mode::RWXU).map_err(|_| unusable())?;
        let lower = directory_below(&layer, "lower")?;
        let store = sandbox.request.scratch.join("copies");
        make_directory(&store)?;
        let user = &sandbox.plan.user;
        let target = CopyTarget {
            directory: lower.as_fd(),
            owner: user.bench_owner.map(|owner| (owner, (user.uid, user.gid))),
            store: Some(FileStore::new(open_directory(&store)?)),
        };
        let copied = copy_visible(sandbox.bench.as_fd(), filter, target)?;
        Ok(Self {
            ground: Ground::OwnLower,
            below: Below::Visible(copied.visible),
            copied: None,
        })
    }

    /// Copies the bench, or its visible entries, into the upper directory: the copy is the layer itself.
    fn copy(sandbox: &OpenShared, name: &str, filter: Option<&dyn ReadFilter>) -> Result<Self> {
        let layer = directory_below(&sandbox.layers, name)?;
        let upper = directory_below(&layer, "upper")?;
        let bench = sandbox.bench.as_fd();
        let below = match filter {
            Some(filter) => {
                let target = CopyTarget {
                    directory: upper.as_fd(),
                    owner: None,
                    store: None,
                };
                let copied = copy_visible(bench, filter, target)?;
                HiddenRecord(copied.hidden).write(&layer).map_err(|_| unusable())?;
                Below::Visible(copied.visible)
            }
            None => {
                let below = effects::stand(bench)?;
                effects::copy_tree(bench, upper.as_fd())?;
                Below::Everything(below)
            }
        };
        let user = &sandbox.plan.user;
        if user.is_dedicated {
            give(user, &upper)
                .and_then(|()| give_all(user, &upper))
                .map_err(|_| unusable())?;
        }
        // Files written a moment ago count as young, and would be taken for changed. After this wait they do not.
        std::thread::sleep(std::time::Duration::from_millis(60));
        Ok(Self {
            ground: Ground::Copy,
            below,
            copied: Some(effects::of_copy(upper.as_fd(), bench, None, EffectLimits::default())?.mark),
        })
    }
}

fn directory_below(above: &OwnedFd, name: &str) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(above, name, flags, Mode::empty()).map_err(|_| unusable())
}
