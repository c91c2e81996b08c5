//! What a layer lies over, made ready before it is laid: the bench, the bench without hidden paths, a part of it, or a copy.

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

/// What a layer lies over.
#[derive(Debug)]
pub(super) struct Grounded {
    pub(super) ground: Ground,
    pub(super) below: Below,
    /// Where a copy stood when it was made.
    pub(super) copied: Option<Mark>,
}

impl Grounded {
    /// Makes the ground for the layer in the directory `name`. With `stands`, nobody changes the bench before the layer is lifted.
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

    /// The bench, with the paths written down that are hidden.
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

    /// A copy of what is visible, which nobody writes to.
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

    /// A copy that is the layer itself.
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
        // What was touched a moment ago would be taken for changed: the copy stands where it is compared after that moment.
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
