//! The interface for `garret-journal`, which records the history of files that live outside the depot.
//!
//! The home holds a log and a lock file for each place of such files ([`JournalFiles`]). The log belongs to the depot,
//! although the journal writes it: garbage collection spares the content that a log refers to, a check finds damaged
//! logs, and deleting a workspace first moves its log into the history. [`OutsideWorkspace`] is the rest: the recorded
//! entries, the content, and the ways to record a change. How the files themselves are read and changed is not known
//! here.

mod codec;
mod damaged_logs;
mod ingest;
mod lock_file;
pub mod log;
mod log_references;
mod logs;
mod outside_workspace;
mod record;
mod recorded_point;

pub(crate) use ingest::IngestedPut;
pub(crate) use log_references::addresses_in_logs;

pub use crate::change::summary_of;
pub use crate::error::{home_not_usable, is_disk_failure};
pub use crate::history::changed_by_others;
pub use crate::home_permissions::make_file;
pub use crate::workspace_places::Site;
pub use ingest::{CompletedRecord, MismatchedPaths, SortedRecords, sort_records};
pub use lock_file::{JournalFiles, JournalLockFile, JournalReadLock, JournalWriteLock, ReadStability};
pub use outside_workspace::{OutsideWorkspace, RecordedEntries};
pub use record::{
    CapturedEntry, ChangeAuthorship, ChangeIntent, FoundChange, FoundEntry, IntentWork, KnownEntry, LogRecord,
    LoggedStep, ObservedEntry, RecordContent,
};
pub use recorded_point::RecordedPoint;
