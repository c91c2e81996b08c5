//! The results of server probes, remembered for a day.
//!
//! A probe takes some twenty requests, half of them writes. Its result depends on the server alone, so it is remembered
//! for each endpoint and bucket: in this process, and in a directory of the home that other processes read too. A
//! record that is damaged, too old or from another version counts as absent. It holds neither credentials nor names.

#![allow(
    clippy::disallowed_methods,
    reason = "this file owns a private directory of the home, in which no path of a workspace occurs"
)]

use std::collections::{BTreeSet, HashMap};
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use garret_core::Timestamp;
use serde::{Deserialize, Serialize};

use super::options::WriterMode;
use super::probe::Abilities;

const SCHEMA: u32 = 2;
/// The time for which a record is believed.
const BELIEVED: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_RECORD_BYTES: u64 = 4096;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Remembers the results of probes. Cheap to clone; clones share their memory.
#[derive(Debug, Clone, Default)]
pub struct ProbeMemory {
    directory: Option<PathBuf>,
    records: Arc<Mutex<HashMap<ProbeKey, ProbeRecord>>>,
}

/// The key of a record: an endpoint, a bucket, and the number of writers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ProbeKey(String);

/// The result and the time of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProbeRecord {
    schema: u32,
    probed_at: Timestamp,
    /// The names that the server gave itself; another name is another server.
    pub(super) servers: BTreeSet<String>,
    pub(super) abilities: Abilities,
}

impl ProbeKey {
    pub(super) fn new(place: &str, writers: WriterMode) -> Self {
        let text = format!("{place}\0{writers:?}");
        Self(blake3::hash(text.as_bytes()).to_hex()[..32].to_owned())
    }
}

impl ProbeRecord {
    pub(super) fn new(abilities: Abilities, servers: BTreeSet<String>, probed_at: Timestamp) -> Self {
        Self {
            schema: SCHEMA,
            probed_at,
            servers,
            abilities,
        }
    }

    fn is_believed(&self, now: Timestamp) -> bool {
        let age = now.duration_since(self.probed_at);
        self.schema == SCHEMA && !age.is_negative() && age.unsigned_abs() < BELIEVED
    }
}

impl ProbeMemory {
    /// Returns a memory in `directory`, which is made with the first record, for this user alone.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: Some(directory.into()),
            records: Arc::default(),
        }
    }

    /// Returns the record of a server, unless it is older than a day.
    pub(super) fn find(&self, key: &ProbeKey, now: Timestamp) -> Option<ProbeRecord> {
        let known = self.lock_records().get(key).cloned();
        let record = known.or_else(|| read_record(&self.record_path(key)?))?;
        record.is_believed(now).then_some(record)
    }

    /// Remembers a record. If it cannot be written to disk, only this process remembers it.
    pub(super) fn keep(&self, key: &ProbeKey, record: ProbeRecord) {
        if let (Some(directory), Some(path)) = (&self.directory, self.record_path(key)) {
            let _ = write_record(directory, &path, &record);
        }
        self.lock_records().insert(key.clone(), record);
    }

    /// Forgets a record, because an answer of the server contradicts it.
    pub(super) fn forget(&self, key: &ProbeKey) {
        self.lock_records().remove(key);
        if let Some(path) = self.record_path(key) {
            // A record that cannot be removed is contradicted again at its next use.
            let _ = std::fs::remove_file(path);
        }
    }

    fn record_path(&self, key: &ProbeKey) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join(format!("{}.json", key.0)))
    }

    fn lock_records(&self) -> MutexGuard<'_, HashMap<ProbeKey, ProbeRecord>> {
        self.records.lock().expect("no holder panics")
    }
}

fn read_record(path: &Path) -> Option<ProbeRecord> {
    let file = File::open(path).ok()?;
    serde_json::from_reader(io::Read::take(file, MAX_RECORD_BYTES)).ok()
}

/// Writes a record so that readers see the whole record or the one before.
fn write_record(directory: &Path, path: &Path, record: &ProbeRecord) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let new = directory.join(format!(".new-{}-{number}", std::process::id()));
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file
        .write_all(&serde_json::to_vec(record)?)
        .and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn record() -> ProbeRecord {
        let abilities = Abilities {
            conditional_delete: true,
            ..Abilities::default()
        };
        let servers = BTreeSet::from(["SeaweedFS".to_owned()]);
        ProbeRecord::new(abilities, servers, at("2026-11-16T05:00:00Z"))
    }

    #[test]
    fn a_record_is_found_by_other_processes_for_a_day() {
        let directory = tempfile::tempdir().unwrap();
        let key = ProbeKey::new("http://127.0.0.1:1/b", WriterMode::Many);
        ProbeMemory::in_directory(directory.path().join("probes")).keep(&key, record());
        let other = ProbeMemory::in_directory(directory.path().join("probes"));
        assert_eq!(other.find(&key, at("2026-11-17T04:59:59Z")), Some(record()));
        assert_eq!(other.find(&key, at("2026-11-17T05:00:00Z")), None, "a day later");
        assert_eq!(other.find(&key, at("2026-11-16T04:00:00Z")), None, "from the future");
        for elsewhere in [
            ProbeKey::new("http://127.0.0.1:2/b", WriterMode::Many),
            ProbeKey::new("http://127.0.0.1:1/c", WriterMode::Many),
            ProbeKey::new("http://127.0.0.1:1/b", WriterMode::Single),
        ] {
            assert_eq!(other.find(&elsewhere, at("2026-11-16T05:00:01Z")), None);
        }
        other.forget(&key);
        let third = ProbeMemory::in_directory(directory.path().join("probes"));
        assert_eq!(third.find(&key, at("2026-11-16T05:00:01Z")), None);
    }

    #[test]
    fn a_damaged_record_is_as_if_there_were_none() {
        let directory = tempfile::tempdir().unwrap();
        let key = ProbeKey::new("place", WriterMode::Many);
        let now = at("2026-11-16T05:00:01Z");
        let whole = serde_json::to_string(&record()).unwrap();
        let other_schema = whole.replace("\"schema\":2", "\"schema\":1");
        for damage in ["", "{", "[]", &whole[..whole.len() / 2], &other_schema] {
            let memory = ProbeMemory::in_directory(directory.path());
            std::fs::write(memory.record_path(&key).unwrap(), damage).unwrap();
            assert_eq!(memory.find(&key, now), None, "{damage}");
            memory.keep(&key, record());
            assert_eq!(
                ProbeMemory::in_directory(directory.path()).find(&key, now),
                Some(record())
            );
        }
    }

    #[test]
    fn a_memory_without_a_directory_lasts_as_long_as_the_process() {
        let memory = ProbeMemory::default();
        let key = ProbeKey::new("place", WriterMode::Many);
        memory.keep(&key, record());
        assert_eq!(memory.clone().find(&key, at("2026-11-16T05:00:01Z")), Some(record()));
    }
}
