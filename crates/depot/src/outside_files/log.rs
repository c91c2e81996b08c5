//! The intent log of one site: an append-only file of records, each with its length and a checksum.
//!
//! A record that a crash cut off does not match its checksum, and it and all records after it count as never written:
//! the storage is changed only after the whole intent is in the log. A log that has grown is set aside under another
//! name and enters the journal in the background, while a new one is written. A record with a wrong checksum that no
//! crash cut off was damaged later: a copy of such a log is kept (see `damaged_logs`) when the rest of it has entered
//! the journal.

#![allow(
    clippy::disallowed_methods,
    reason = "this file owns the log of a place, in the depot's home"
)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;
use garret_core::Result;

use super::codec::RecordSink;
use super::damaged_logs;
use super::lock_file::JournalFiles;
use super::record::LogRecord;
use crate::{error, home_permissions};
use garret_core::Durability;

pub(super) const HEAD_BYTES: usize = 4 + CHECK_BYTES;
const CHECK_BYTES: usize = 16;

/// The log that is being written.
#[derive(Debug)]
pub struct IntentLog {
    file: File,
    end: u64,
    room: Vec<u8>,
}

impl IntentLog {
    /// Opens the log of a site, and returns the records in it. The caller holds the lock.
    pub fn open(files: &JournalFiles) -> Result<(Self, Vec<LogRecord>)> {
        let opened = home_permissions::make_file(&files.log);
        let mut file = opened.map_err(error::home_not_usable)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(error::home_not_usable)?;
        let bytes = Bytes::from(bytes);
        let (records, end) = parse_log(&bytes)?;
        if damaged_logs::is_damaged(&bytes, end) {
            damaged_logs::keep_copy(&files.log).map_err(error::home_not_usable)?;
            file.set_len(end as u64).map_err(error::home_not_usable)?;
        }
        let end = end as u64;
        let log = Self {
            file,
            end,
            room: Vec::new(),
        };
        Ok((log, records))
    }

    /// Returns the number of bytes in the log.
    pub fn size(&self) -> u64 {
        self.end
    }

    /// Adds `records` in one write; under full durability they are on the disk when this returns.
    pub fn append(&mut self, records: &[&LogRecord], durability: Durability) -> Result<()> {
        let mut sink = RecordSink(std::mem::take(&mut self.room));
        sink.0.clear();
        records.iter().for_each(|record| append_framed(&mut sink, record));
        let written = self.file.write_all_at(&sink.0, self.end);
        let synced = written.and_then(|()| match durability {
            Durability::Full => self.file.sync_data(),
            Durability::Relaxed => Ok(()),
        });
        if let Err(failure) = synced {
            // A partial record would be taken for the end of the log. If it cannot be cut off, its checksum shows that
            // it is not whole.
            let _ = self.file.set_len(self.end);
            return Err(error::home_not_usable(&failure));
        }
        self.end += sink.0.len() as u64;
        self.room = sink.0;
        Ok(())
    }

    /// Cuts the log back to `size` bytes. This needs no space on the disk.
    pub fn cut_back(&mut self, size: u64) -> Result<()> {
        self.file.set_len(size).map_err(error::home_not_usable)?;
        self.end = size;
        Ok(())
    }

    /// Empties the log. The caller has moved all of it into the journal.
    pub fn clear(&mut self) -> Result<()> {
        if self.end > 0 {
            self.file.set_len(0).map_err(error::home_not_usable)?;
            self.end = 0;
        }
        Ok(())
    }

    /// Replaces the log by `record` alone. The caller has moved the rest into the journal. A crash leaves the old log
    /// or the new one.
    pub(super) fn replace_with(&mut self, files: &JournalFiles, record: &LogRecord) -> Result<()> {
        let mut sink = RecordSink(Vec::new());
        append_framed(&mut sink, record);
        let new = files.log.with_extension("new");
        let written = home_permissions::make_file(&new).and_then(|mut file| {
            file.set_len(0)?;
            // Synced before the rename, so that no power loss leaves an empty file under the final name.
            file.write_all(&sink.0)?;
            file.sync_data()
        });
        let replaced = written.and_then(|()| std::fs::rename(&new, &files.log));
        replaced.map_err(error::home_not_usable)?;
        (*self, _) = Self::open(files)?;
        Ok(())
    }

    /// Sets the log aside and starts a new one; returns `false` if a log set aside before still exists.
    pub fn set_aside(&mut self, files: &JournalFiles) -> Result<bool> {
        if is_set_aside(files) {
            return Ok(false);
        }
        std::fs::rename(&files.log, &files.old).map_err(error::home_not_usable)?;
        let (log, _) = Self::open(files)?;
        *self = log;
        Ok(true)
    }
}

/// Returns the records of the log that was set aside; none if there is no such log.
pub fn read_set_aside(files: &JournalFiles) -> Result<Vec<LogRecord>> {
    records_in(&files.old)
}

/// Removes the log that was set aside. It has entered the journal, and the caller holds the lock.
pub fn remove_set_aside(files: &JournalFiles) -> Result<()> {
    let forgotten = if has_damage(&files.old)? {
        damaged_logs::keep_copy(&files.old).and_then(|()| std::fs::remove_file(&files.old))
    } else {
        std::fs::remove_file(&files.old)
    };
    match forgotten {
        Err(failure) if failure.kind() != io::ErrorKind::NotFound => Err(error::home_not_usable(&failure)),
        _ => Ok(()),
    }
}

/// Syncs the logs as they are to the disk, so that one that was emptied or removed does not come back after a power
/// loss.
pub(super) fn sync_logs(files: &JournalFiles) -> Result<()> {
    let synced = File::open(&files.log).and_then(|log| log.sync_all());
    let synced = synced.and_then(|()| File::open(&files.folder)?.sync_all());
    synced.map_err(error::home_not_usable)
}

/// Returns whether a log is damaged, and not merely cut off.
pub(super) fn has_damage(path: &Path) -> Result<bool> {
    let bytes = read_log_file(path)?;
    Ok(damaged_logs::is_damaged(&bytes, parse_log(&bytes)?.1))
}

/// Returns whether a log was set aside.
pub fn is_set_aside(files: &JournalFiles) -> bool {
    files.old.exists()
}

/// Returns whether a log of this site has any bytes.
pub fn has_records(files: &JournalFiles) -> bool {
    let has_bytes = |path: &Path| std::fs::metadata(path).is_ok_and(|found| found.len() > 0);
    has_bytes(&files.log) || has_bytes(&files.old)
}

/// Returns the records of a log without the lock; none if the log is gone by now.
pub(super) fn records_in(path: &Path) -> Result<Vec<LogRecord>> {
    Ok(parse_log(&read_log_file(path)?)?.0)
}

/// Returns the bytes of a log; none if there is no such log.
fn read_log_file(path: &Path) -> Result<Bytes> {
    match std::fs::read(path) {
        Err(failure) if failure.kind() == io::ErrorKind::NotFound => Ok(Bytes::new()),
        read => read.map(Bytes::from).map_err(error::home_not_usable),
    }
}

fn append_framed(sink: &mut RecordSink, record: &LogRecord) {
    let start = sink.0.len();
    sink.0.extend_from_slice(&[0; HEAD_BYTES]);
    record.encode(sink);
    let payload = &sink.0[start + HEAD_BYTES..];
    let length = u32::try_from(payload.len()).expect("a record is far below 4 GiB");
    let check = payload_checksum(payload);
    sink.0[start..start + 4].copy_from_slice(&length.to_le_bytes());
    sink.0[start + 4..start + HEAD_BYTES].copy_from_slice(&check);
}

fn payload_checksum(payload: &[u8]) -> [u8; CHECK_BYTES] {
    let hash = blake3::hash(payload);
    hash.as_bytes()[..CHECK_BYTES].try_into().expect("a hash is longer")
}

/// Parses the records up to the first that is not whole. Returns them with the offset of their end.
fn parse_log(bytes: &Bytes) -> Result<(Vec<LogRecord>, usize)> {
    let mut records = Vec::new();
    let mut at = 0;
    while let Some(payload) = whole_record_at(bytes, at) {
        let end = at + HEAD_BYTES + payload.len();
        records.push(LogRecord::decode(payload)?);
        at = end;
    }
    Ok((records, at))
}

pub(super) fn whole_record_at(bytes: &Bytes, at: usize) -> Option<Bytes> {
    let head = bytes.get(at..at + HEAD_BYTES)?;
    let length = u32::from_le_bytes(head[..4].try_into().ok()?) as usize;
    let start = at + HEAD_BYTES;
    let payload = bytes.get(start..start.checked_add(length)?)?;
    // A crash can leave a hole of zeros in the file; a record is never empty, so a length of zero is not a record.
    let holds = length > 0 && payload_checksum(payload) == head[4..HEAD_BYTES];
    holds.then(|| bytes.slice(start..start + length))
}
