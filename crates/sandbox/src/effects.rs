//! What was done on a layer, read as hostile input.
//!
//! Whoever ran on a layer decided what lies in it: links where directories were, fifos that would hold a reader up, devices, attributes
//! that pretend to be those of the kernel, paths deeper than any handle table. So everything here goes by handles from one directory
//! that Garret made (`beneath`), looks before it opens, opens nothing but plain files and directories, follows nothing, and believes no
//! attribute that says more than a command could have done with `rm` and `mv` (`attributes`). What a workspace does not take is left out
//! and named. Content is not read here: an effect holds a way to the very file that was seen, which refuses when it is another by then.
//!
//! - [`of_upper`] reads the upper layer of an overlay, at the cost of what is in it;
//! - [`of_copy`] compares a whole copy with the bench, where there is no overlay; [`copy_tree`] makes such a copy.

#![cfg(target_os = "linux")]

mod attributes;
pub(crate) mod beneath;
mod budget;
mod copied;
pub(crate) mod copy;
pub(crate) mod error;
mod extents;
mod found;
pub(crate) mod seen;
mod source;
mod unchanged;
mod upper;

use std::os::fd::BorrowedFd;

use garret_core::{EffectLimits, Effects, EntryPath, Mark, Result};

/// What the upper layer of an overlay says was done to `lower`, or what of it came after `since`.
///
/// Only while nothing moves in either: the overlay is unmounted, or its processes are paused. Never reads content, and lists only those
/// directories of `lower` that were removed or replaced. A directory that was copied up without a change of its bits is left out; a file is
/// named even where it equals the one below. Effects over a limit are `too_large`, and the error names the limit; the limit on time holds
/// for the content, too, which is read later.
pub fn of_upper(
    upper: BorrowedFd<'_>,
    lower: BorrowedFd<'_>,
    since: Option<&Mark>,
    limits: EffectLimits,
) -> Result<Effects> {
    upper::read(upper, lower, since, limits)
}

/// What was done to `copy`, a whole copy of `bench`, or what of it came after `since`.
///
/// Without a mark, files of the same size, bits and time of modification are taken to be the same. The mark of [`copy_tree`] goes by more
/// than that, and a command cannot set it. Effects over a limit are `too_large`, as in [`of_upper`].
pub fn of_copy(
    copy: BorrowedFd<'_>,
    bench: BorrowedFd<'_>,
    since: Option<&Mark>,
    limits: EffectLimits,
) -> Result<Effects> {
    copied::compare(copy, bench, since, limits)
}

pub(crate) use unchanged::is_as_on;

/// What a bench is like, for [`since`].
pub(crate) fn stand(bench: BorrowedFd<'_>) -> Result<Mark> {
    Ok(of_copy(bench, bench, None, EffectLimits::default())?.mark)
}

/// The paths of a bench at which others did something since the mark and `copy` has something else, and what the bench is like now.
pub(crate) fn since(mark: &Mark, bench: BorrowedFd<'_>, copy: BorrowedFd<'_>) -> Result<(Vec<EntryPath>, Mark)> {
    let found = of_copy(bench, bench, Some(mark), EffectLimits::default())?;
    let differs = found.effects.into_iter().filter(|effect| !is_as_on(copy, effect));
    Ok((differs.map(|effect| effect.path).collect(), found.mark))
}

/// A copy that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// What the copy was like when it was finished: [`of_copy`] since then misses nothing, whatever times a command sets.
    pub mark: Mark,
    /// How many devices, fifos and sockets were left out.
    pub left_out: u64,
}

/// Copies everything in `from` into `to`, an empty directory, with modes, times of modification, links and holes, sharing blocks where
/// the file system can. Devices, fifos, sockets and the set-user-id bits of files are left out.
pub fn copy_tree(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<Copied> {
    copy::copy(from, to)
}
