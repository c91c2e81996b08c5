//! A layer that is a copy of the bench: for the sandbox `host`, and where no overlay can be mounted.

#![cfg(target_os = "linux")]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use garret_core::{EffectLimits, Effects, EffectsMark, ReadFilter, Result};

use crate::effects;
use crate::scratch::unusable_directories_error;
use crate::visible_bench::{BenchBaseline, CopyTarget, HiddenRecord, copy_visible, keep_hidden};

/// Copies the bench into `copy`, an empty directory; with a filter, only the entries that it shows. Records the hidden
/// paths in `layer`, the directory of the layer.
pub(crate) fn copy_bench(
    bench: BorrowedFd<'_>,
    copy: &OwnedFd,
    layer: &OwnedFd,
    filter: Option<&dyn ReadFilter>,
) -> Result<BenchBaseline> {
    let Some(filter) = filter else {
        // The bench is read before it is copied: a change that others make in between is then found again, and none is
        // missed.
        let below = effects::mark_tree(bench)?;
        effects::copy_tree(bench, copy.as_fd())?;
        return Ok(BenchBaseline::Everything(below));
    };
    let target = CopyTarget {
        directory: copy.as_fd(),
        owner: None,
        store: None,
    };
    let copied = copy_visible(bench, filter, target)?;
    HiddenRecord(copied.hidden)
        .write(layer)
        .map_err(|_| unusable_directories_error())?;
    Ok(BenchBaseline::Visible(copied.visible))
}

/// Reads the effects on a copy that [`copy_bench`] made; with `since`, only those after that mark.
pub(crate) fn read_copied_effects(
    copy: BorrowedFd<'_>,
    bench: BorrowedFd<'_>,
    layer: BorrowedFd<'_>,
    since: Option<&EffectsMark>,
    limits: EffectLimits,
) -> Result<Effects> {
    let hidden = HiddenRecord::read(layer).map_err(|_| unusable_directories_error())?;
    let mut effects = effects::read_copy_effects(copy, bench, since, limits)?;
    keep_hidden(&mut effects.effects, &hidden);
    Ok(effects)
}
