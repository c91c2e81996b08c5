//! Reads the changes that commands made on a layer, as hostile input.
//!
//! The commands on a layer decided its content: links in the place of directories, fifos that would block a reader,
//! devices, attributes that pretend to be those of the kernel, paths deeper than any handle table. So everything here
//! goes by handles from one directory that Garret made (`garret_handles`), stats before it opens, opens nothing but plain
//! files and directories, follows no link, and believes no attribute that says more than a command could have done with
//! `rm` and `mv` (`overlay_attributes`). Entries that a workspace does not take are left out and named. Content is not
//! read here: an effect refers to the very file that was seen, and reading it fails if it is another by then.
//!
//! - [`read_upper_effects`] reads the upper directory of an overlay, at a cost that grows with its content;
//! - [`read_copy_effects`] compares a whole copy with the bench, if there is no overlay; [`copy_tree`] makes such a copy.

#![cfg(target_os = "linux")]

pub(crate) mod copy_comparison;
mod effect_collector;
pub(crate) mod entry_status;
mod extent_reader;
mod layer_file;
mod overlay_attributes;
pub(crate) mod path_error;
mod reading_deadline;
pub(crate) mod tree_copy;
mod unchanged_effects;
mod upper_reading;

use std::os::fd::BorrowedFd;

use garret_core::{EffectLimits, EffectsMark, EntryPath, Result};

pub use copy_comparison::read_copy_effects;
pub use tree_copy::copy_tree;
pub(crate) use unchanged_effects::equals_bench;
pub use upper_reading::read_upper_effects;

/// Returns a mark of the present state of a bench or of a copy: what is read since this mark misses no change, whatever
/// times a command sets.
pub fn mark_tree(top: BorrowedFd<'_>) -> Result<EffectsMark> {
    Ok(read_copy_effects(top, top, None, EffectLimits::default())?.mark)
}

/// Returns the paths that others changed on a bench since the mark and at which `copy` differs, and a mark of the
/// bench's present state.
pub(crate) fn find_changes_since(
    mark: &EffectsMark,
    bench: BorrowedFd<'_>,
    copy: BorrowedFd<'_>,
) -> Result<(Vec<EntryPath>, EffectsMark)> {
    let found = read_copy_effects(bench, bench, Some(mark), EffectLimits::default())?;
    let differs = found.effects.into_iter().filter(|effect| !equals_bench(copy, effect));
    Ok((differs.map(|effect| effect.path).collect(), found.mark))
}
