//! The part of a bench that a read filter shows.
//!
//! A bench that nobody changes is listed once, and a layer of whiteouts hides the paths that the filter hides
//! ([`hidden_paths`]). A bench that others may change at any time has no list that stays right: its visible entries are
//! copied ([`copy_visible`]), and commands see the copy. An entry that is added to the bench later is not in the copy,
//! under whatever name.
//!
//! Hard links to the user's own files would cost less than copies, and are not used. A link sets the time of change of
//! its file, by which Garret and other programs recognize an unchanged file. And it would show later writes to a file
//! that was moved to a hidden name.
//!
//! Every entry is opened by its whole path below the bench, through no link: the path that the filter judged is the
//! path that leads to it.

#![cfg(target_os = "linux")]

mod bench_baseline;
mod filter_listing;
mod hidden_record;
mod visible_copy;

pub(crate) use bench_baseline::BenchBaseline;
pub(crate) use filter_listing::hidden_paths;
pub(crate) use hidden_record::{HiddenRecord, keep_hidden};
pub(crate) use visible_copy::{CopyTarget, FileStore, copy_visible};
