//! What a read filter shows of a bench.
//!
//! A bench that nobody changes is listed once, and a layer of whiteouts hides what the filter hides ([`hidden_paths`]). A bench that others
//! may change at any time has no list that stays right: what the filter shows of it is copied ([`copy_visible`]), and commands see the copy.
//! Nothing that comes to the bench later is in it, under whatever name.
//!
//! Links to the user's own files would cost less than copies, and are not used. They change the time of change of every file, by which Garret
//! and other programs know a file again. And they show what is written to a file after somebody has moved it to a hidden name.
//!
//! Every entry is opened by its whole path below the bench, through no link: the path that the filter judged is the path that leads to it.

#![cfg(target_os = "linux")]

mod below;
mod copies;
mod listing;
mod record;

pub(crate) use below::Below;
pub(crate) use copies::{CopyTarget, FileStore, copy_visible};
pub(crate) use listing::hidden_paths;
pub(crate) use record::{HiddenRecord, keep_hidden};
