//! Prepares the lower directory of a layer before it is mounted: the bench, the bench without hidden paths, a part of
//! it, or a copy.

#![cfg(target_os = "linux")]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use garret_core::{EffectsMark, ReadFilter, Result};
use garret_handles::{open_child, run_blocking};
use rustix::fs::{CWD, Mode};

use super::namespace_layer::{LayerForm, give_to_user, give_tree_to_user};
use super::open_namespace::{OpenNamespaceShared, make_directory};
use crate::copied_layer::copy_bench;
use crate::effects;
use crate::scratch::{open_directory, unusable_directories_error};
use crate::supervisor::protocol::LayerLower;
use crate::visible_bench::{BenchBaseline, CopyTarget, FileStore, HiddenRecord, copy_visible, hidden_paths};

/// The prepared lower directory of a layer.
#[derive(Debug)]
pub(super) struct PreparedLower {
    pub(super) form: LayerLower,
    pub(super) below: BenchBaseline,
    /// The state of the copy when it was made, if the layer is a copy.
    pub(super) copied: Option<EffectsMark>,
}

impl PreparedLower {
    /// Prepares the lower directory for the layer in the directory `name`. With `stands`, nobody changes the bench
    /// before the layer is unmounted.
    pub(super) async fn prepare_lower(
        sandbox: &Arc<OpenNamespaceShared>,
        name: &str,
        stands: Option<&str>,
    ) -> Result<Self> {
        let (sandbox, name, is_steady) = (Arc::clone(sandbox), name.to_owned(), stands.is_some());
        let filter = sandbox.request.read_filter.clone();
        match (sandbox.form, filter) {
            (LayerForm::Overlay, None) => Ok(Self {
                form: LayerLower::Bench,
                below: BenchBaseline::Bench,
                copied: None,
            }),
            (LayerForm::Overlay, Some(filter)) if is_steady => {
                run_blocking(move || Self::record_hidden(&sandbox, &name, &*filter)).await
            }
            (LayerForm::Overlay, Some(filter)) => {
                run_blocking(move || Self::copy_visible_lower(&sandbox, &name, &*filter)).await
            }
            (LayerForm::Copy, filter) => {
                run_blocking(move || Self::copy_bench(&sandbox, &name, filter.as_deref())).await
            }
        }
    }

    /// Records the paths of the bench that are hidden.
    fn record_hidden(sandbox: &OpenNamespaceShared, name: &str, filter: &dyn ReadFilter) -> Result<Self> {
        let hidden = HiddenRecord(hidden_paths(sandbox.bench.as_fd(), filter)?);
        let layer = directory_below(&sandbox.layers, name)?;
        hidden.write(&layer).map_err(|_| unusable_directories_error())?;
        Ok(Self {
            form: LayerLower::BenchWithoutHidden,
            below: BenchBaseline::Bench,
            copied: None,
        })
    }

    /// Copies the visible entries into a lower directory, which nobody writes to.
    fn copy_visible_lower(sandbox: &OpenNamespaceShared, name: &str, filter: &dyn ReadFilter) -> Result<Self> {
        let layer = directory_below(&sandbox.layers, name)?;
        rustix::fs::mkdirat(&layer, "lower", Mode::RWXU).map_err(|_| unusable_directories_error())?;
        let lower = directory_below(&layer, "lower")?;
        let store = sandbox.request.scratch.join("copies");
        make_directory(&store)?;
        let user = &sandbox.plan.user;
        let target = CopyTarget {
            directory: lower.as_fd(),
            owner: user.bench_owner.map(|owner| (owner, (user.uid, user.gid))),
            store: Some(FileStore::new(open_directory(CWD, &store)?)),
        };
        let copied = copy_visible(sandbox.bench.as_fd(), filter, target)?;
        Ok(Self {
            form: LayerLower::OwnLower,
            below: BenchBaseline::Visible(copied.visible),
            copied: None,
        })
    }

    /// Copies the bench, or its visible entries, into the upper directory: the copy is the layer itself.
    fn copy_bench(sandbox: &OpenNamespaceShared, name: &str, filter: Option<&dyn ReadFilter>) -> Result<Self> {
        let layer = directory_below(&sandbox.layers, name)?;
        let upper = directory_below(&layer, "upper")?;
        let below = copy_bench(sandbox.bench.as_fd(), &upper, &layer, filter)?;
        let user = &sandbox.plan.user;
        if user.is_dedicated {
            give_to_user(user, &upper)
                .and_then(|()| give_tree_to_user(user, &upper))
                .map_err(|_| unusable_directories_error())?;
        }
        // Files written a moment ago count as young, and would be taken for changed. After this wait they do not.
        std::thread::sleep(std::time::Duration::from_millis(60));
        Ok(Self {
            form: LayerLower::Copy,
            below,
            copied: Some(effects::mark_tree(upper.as_fd())?),
        })
    }
}

fn directory_below(above: &OwnedFd, name: &str) -> Result<OwnedFd> {
    open_child(above, name).map_err(|_| unusable_directories_error())
}
