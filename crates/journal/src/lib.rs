//! The journal of files that live outside the depot: a layer over any storage that records each change, so that it can
//! be shown and undone.
//!
//! The files stay in their storage, in plain form. The depot holds their journal and the content that the journal has
//! recorded: a tree of the recorded entries, and for each file the storage's own version at that time, so that an
//! unchanged file is not read again.
//!
//! A change takes these steps, all of them under a lock that the kernel frees when its owner dies. First the entries at
//! the paths are compared with the index of recorded entries, and changes by other programs are recorded as changes of
//! their own. Then an intent is written to a log, the storage is changed, and the log gets a record that closes the
//! intent. Because the lock is held throughout, an open intent that the next lock holder finds belongs to a process
//! that is gone. Recovery then rolls it forward, or back if content that it needs is lost. The log enters the depot's
//! database later and in bulk, always before a request for the history is answered; a transaction for each change would
//! cost more than the write itself.
//!
//! On a remote storage each comparison is a request. A change that can be made on the condition that a file has its
//! recorded version needs no request before it, and its result is taken from the storage's answer. A comparison of all
//! files is a list, which includes versions.
//!
//! The log, the lock and the recorded entries are in the depot. This crate reaches them only through
//! [`garret_depot::outside_files`]; it knows neither the depot's database nor how content is stored.
//!
//! The work is divided by the state that it touches. `observed_files` reads the storage, and `capture` content from it.
//! `journal_records` holds the log, the open intent and the index of recorded entries (`index`). `compare` compares the
//! storage with these records and records the differences; `scan` does so for all files. `write_session` adds the lock,
//! for the three kinds of work that change the storage: `apply` (batches; `resolved_batch` holds their paths,
//! `conditional_write` makes a change without a comparison), `history_operations` (undo, redo, restore and put) and
//! `recovery` (changes that a crash interrupted). `materialize`, `raw_names` and `owner_bits` change the files for them,
//! and `observed` collects the state that a change left. `excluded_paths` keeps the history away from excluded paths, and
//! `outside_changes` finds changes by other programs since a time.

mod apply;
mod branch_checkout;
mod capture;
mod compare;
mod conditional_write;
mod consistent_read;
mod excluded_paths;
mod history_contract;
mod history_operations;
mod index;
mod journal_records;
mod journaled;
mod materialize;
mod observed;
mod observed_files;
mod outside_changes;
mod owner_bits;
mod past_view;
mod raw_names;
mod recovery;
mod resolved_batch;
mod scan;
mod spool;
mod write_session;

pub use journaled::Journaled;
