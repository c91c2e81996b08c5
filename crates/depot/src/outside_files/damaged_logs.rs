//! Finds and keeps damaged logs. A record that a crash cut off is not damage: it is the end of the log, and nothing was
//! promised for it. A complete record with a wrong checksum, or one that is followed by other records, was written
//! whole and damaged later; the changes after it are lost to the history. The files themselves are not lost: the
//! journal records the missing changes as changes by other programs.
//!
//! A damaged log is kept beside the others, so that a check can report it, until a repair removes it.

#![allow(
    clippy::disallowed_methods,
    reason = "this file keeps damaged logs in the depot's home"
)]

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use garret_core::Result;

use super::lock_file::{JournalFiles, JournalLockFile};
use super::log::{HEAD_BYTES, has_damage, whole_record_at};
use crate::depot::Depot;
use crate::error;
use crate::maintenance::CheckProblem;

const KEPT: &str = "damaged";
/// Number of bytes after a damaged record that are searched for another record.
const SEARCHED: usize = 1024 * 1024;
/// Number of zero bytes at the end of a record that show a crash. A crash leaves zeros, or a whole sector of them, in
/// place of bytes that never reached the disk.
const ZEROS: usize = 64;
const SECTOR: usize = 512;

const WHAT: &str = "a log of its changes is damaged: changes after the damage are missing from its history";

/// Returns whether the bytes after the last whole record, which ends at `end`, are damaged rather than cut off.
pub(super) fn is_damaged(bytes: &Bytes, end: usize) -> bool {
    let rest = &bytes[end..];
    if rest.len() < HEAD_BYTES || is_zero(rest) {
        return false;
    }
    let length = u32::from_le_bytes(rest[..4].try_into().expect("it has four bytes")) as usize;
    match rest[HEAD_BYTES..].get(..length) {
        Some(payload) => !has_hole(payload),
        // The length itself may be damaged; then a valid record follows somewhere.
        None => (end + 1..bytes.len().min(end + SEARCHED))
            .any(|at| has_known_tag(bytes, at) && whole_record_at(bytes, at).is_some()),
    }
}

/// Returns whether the record at `at` would begin with a known tag. This is cheaper than its checksum.
fn has_known_tag(bytes: &Bytes, at: usize) -> bool {
    bytes.get(at + HEAD_BYTES).is_some_and(|tag| (1..=4).contains(tag))
}

fn has_hole(payload: &[u8]) -> bool {
    let ends_in_zeros = payload.len() >= ZEROS && is_zero(&payload[payload.len() - ZEROS..]);
    is_zero(payload) || ends_in_zeros || payload.chunks_exact(SECTOR / 2).any(is_zero)
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Copies `log` to a free name for damaged logs.
pub(super) fn keep_copy(log: &Path) -> io::Result<()> {
    let free = (0_u32..)
        .map(|number| kept_log_path(log, number))
        .find(|path| !path.exists());
    std::fs::copy(log, free.expect("there are more numbers than files")).map(|_| ())
}

fn kept_log_path(log: &Path, number: u32) -> PathBuf {
    log.with_added_extension(format!("{number}.{KEPT}"))
}

/// Returns the damaged logs that were kept, of all sites.
fn find_kept_logs(home: &Path) -> io::Result<Vec<PathBuf>> {
    let folder = home.join("journals");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder)? {
        let path = file?.path();
        if path.extension().is_some_and(|ending| ending == KEPT) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn belongs_to(path: &Path, files: &JournalFiles) -> bool {
    let stem = files.log.file_stem().expect("a log has a name");
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(stem.as_encoded_bytes()))
}

impl Depot {
    /// Returns the damaged logs, including those that were kept.
    pub(crate) async fn damaged_logs(&self) -> Result<Vec<CheckProblem>> {
        let Some(home) = &self.shared.home else {
            return Ok(Vec::new());
        };
        let mut kept = find_kept_logs(home).map_err(error::home_not_usable)?;
        let mut problems = Vec::new();
        for (files, row) in self.journals_with_files()? {
            let of_it = kept.extract_if(.., |path| belongs_to(path, &files)).count();
            if of_it > 0 || are_live_logs_damaged(&files).await? {
                problems.push(CheckProblem::of_workspace(&row, WHAT));
            }
        }
        let stray = kept
            .iter()
            .map(|_| CheckProblem::of_depot("there is a damaged log of a workspace that no longer exists"));
        problems.extend(stray);
        Ok(problems)
    }

    /// Moves the undamaged records of all logs into the journal, and removes the damaged logs that were kept.
    pub(crate) async fn remove_damaged_logs(&self) -> Result<Vec<CheckProblem>> {
        let Some(home) = &self.shared.home else {
            return Ok(Vec::new());
        };
        if self.damaged_logs().await?.is_empty() {
            return Ok(Vec::new());
        }
        self.ingest_logs().await?;
        let removed = find_kept_logs(home).and_then(|kept| {
            kept.iter().try_for_each(std::fs::remove_file)?;
            Ok(kept.len())
        });
        let count = removed.map_err(error::home_not_usable)?;
        Ok(vec![CheckProblem::of_depot(format!(
            "removed {count} damaged logs; their undamaged records are in the history"
        ))])
    }
}

/// Returns whether the logs in use are damaged.
async fn are_live_logs_damaged(files: &JournalFiles) -> Result<bool> {
    if !files.lock.exists() {
        return Ok(false);
    }
    // Without the lock a writer may be in the middle of a record, which would look like damage.
    let _held = JournalLockFile::new(Some(files.clone())).wait_for_writer().await?;
    Ok(has_damage(&files.log)? || has_damage(&files.old)?)
}
