//! The manifest of a checkout: the stat of each entry as it was written. It shows which entries were damaged since, and
//! which need not be written again.
//!
//! It is one file that is appended to. It is read only when the whole checkout is surveyed, so that following the
//! journal costs only the changed entries. The state says how many bytes of it are valid.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use garret_core::Result;
use rustix::fs::{AtFlags, Mode, OFlags, ftruncate, openat, unlinkat};
use rustix::io::{Errno, pread, pwrite};

use super::state::CheckoutState;
use crate::effects::entry_status::EntryStatus;
use crate::effects::path_error::ErrnoAtPath;

const NUMBERS: usize = 8;
const PIECE_BYTES: usize = 256 * 1024;
/// The file is compacted when it is larger than this, and twice as large as after the last compaction.
const LARGE_BYTES: u64 = 4 * 1024 * 1024;

/// An entry as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ManifestRecord {
    pub(super) seen: EntryStatus,
    /// A number for the version of its content; 0 if that is not known.
    pub(super) version: u64,
}

/// The written entries, by path.
pub(super) type ManifestRecords = BTreeMap<Vec<u8>, ManifestRecord>;

/// The changed entries; `None` for a removed one.
pub(super) type ManifestChanges = BTreeMap<Vec<u8>, Option<ManifestRecord>>;

/// Returns all valid records; `None` if the file is damaged.
pub(super) fn load_manifest(home: &OwnedFd, state: &CheckoutState) -> Result<Option<ManifestRecords>> {
    let file = match openat(
        home,
        manifest_name(state),
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        Err(Errno::NOENT) if state.manifest_bytes == 0 => return Ok(Some(ManifestRecords::new())),
        Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
        file => file.at_path(b"")?,
    };
    let mut bytes = vec![0; usize::try_from(state.manifest_bytes).unwrap_or(usize::MAX)];
    let mut length = 0;
    while length < bytes.len() {
        let end = (length + PIECE_BYTES).min(bytes.len());
        match pread(&file, &mut bytes[length..end], length as u64).at_path(b"")? {
            0 => return Ok(None),
            count => length += count,
        }
    }
    Ok(decode_records(&bytes))
}

/// Appends the changes. They are valid once the state is saved.
pub(super) fn append_changes(home: &OwnedFd, state: &mut CheckoutState, changes: &ManifestChanges) -> Result<()> {
    let mut bytes = Vec::new();
    changes
        .iter()
        .for_each(|(path, record)| encode_record(path, *record, &mut bytes));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(home, manifest_name(state), flags, Mode::RUSR | Mode::WUSR).at_path(b"")?;
    // Bytes after the valid ones come from a process that died before it saved the state.
    ftruncate(&file, state.manifest_bytes).at_path(b"")?;
    let mut written = 0;
    while written < bytes.len() {
        written += pwrite(&file, &bytes[written..], state.manifest_bytes + written as u64).at_path(b"")?;
    }
    state.manifest_bytes += bytes.len() as u64;
    Ok(())
}

/// Starts a new file with these records.
pub(super) fn replace_manifest(home: &OwnedFd, state: &mut CheckoutState, records: &ManifestRecords) -> Result<()> {
    let old = manifest_name(state);
    state.generation += 1;
    state.manifest_bytes = 0;
    let all = records.iter().map(|(path, record)| (path.clone(), Some(*record)));
    append_changes(home, state, &all.collect())?;
    state.manifest_live_bytes = state.manifest_bytes;
    // A file that cannot be removed does no harm: the state names the new one.
    let _ = unlinkat(home, old, AtFlags::empty());
    Ok(())
}

/// Returns whether so much was appended that most records are likely to be outdated.
pub(super) fn is_long(state: &CheckoutState) -> bool {
    state.manifest_bytes > LARGE_BYTES && state.manifest_bytes > 2 * state.manifest_live_bytes
}

fn manifest_name(state: &CheckoutState) -> String {
    format!("manifest-{}", state.generation)
}

fn encode_record(path: &[u8], record: Option<ManifestRecord>, into: &mut Vec<u8>) {
    let length = u32::try_from(path.len()).expect("a path is short");
    into.extend(length.to_le_bytes());
    into.extend(path);
    into.push(u8::from(record.is_some()));
    let Some(ManifestRecord { seen, version }) = record else {
        return;
    };
    let numbers: [u64; NUMBERS] = [
        seen.inode,
        seen.size,
        u64::from(seen.mode),
        seen.modified.0 as u64,
        u64::from(seen.modified.1),
        seen.changed.0 as u64,
        u64::from(seen.changed.1),
        version,
    ];
    numbers.iter().for_each(|number| into.extend(number.to_le_bytes()));
}

fn decode_records(bytes: &[u8]) -> Option<ManifestRecords> {
    let (mut records, mut rest) = (ManifestRecords::new(), bytes);
    while !rest.is_empty() {
        let (length, after) = rest.split_first_chunk()?;
        let length = u32::from_le_bytes(*length) as usize;
        let path = after.get(..length).filter(|path| !path.is_empty())?;
        let (is_there, after) = after[length..].split_first()?;
        rest = match is_there {
            0 => {
                records.remove(path);
                after
            }
            1 => {
                records.insert(path.to_vec(), decode_record(after)?);
                &after[NUMBERS * 8..]
            }
            _ => return None,
        };
    }
    Some(records)
}

fn decode_record(bytes: &[u8]) -> Option<ManifestRecord> {
    let mut numbers = [0; NUMBERS];
    for (number, chunk) in numbers.iter_mut().zip(bytes.get(..NUMBERS * 8)?.chunks_exact(8)) {
        *number = u64::from_le_bytes(chunk.try_into().ok()?);
    }
    let [inode, size, mode, modified, modified_ns, changed, changed_ns, version] = numbers;
    let seen = EntryStatus {
        inode,
        size,
        mode: u32::try_from(mode).ok()?,
        modified: (modified as i64, u32::try_from(modified_ns).ok()?),
        changed: (changed as i64, u32::try_from(changed_ns).ok()?),
    };
    Some(ManifestRecord { seen, version })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(inode: u64) -> ManifestRecord {
        let seen = EntryStatus {
            inode,
            size: 5,
            mode: 0o100_644,
            modified: (-3, 4),
            changed: (7, 999_999_999),
        };
        ManifestRecord { seen, version: 9 }
    }

    #[test]
    fn records_are_read_as_they_were_written_the_last_one_counting() {
        let mut bytes = Vec::new();
        for (path, record) in [
            (&b"a"[..], Some(record(1))),
            (b"b\n\xff", Some(record(2))),
            (b"a", None),
            (b"b\n\xff", Some(record(3))),
        ] {
            encode_record(path, record, &mut bytes);
        }
        let records = decode_records(&bytes).unwrap();
        assert_eq!(records, ManifestRecords::from([(b"b\n\xff".to_vec(), record(3))]));
    }

    #[test]
    fn a_file_is_written_anew_when_half_of_it_is_past_however_little_changed_now() {
        let home = tempfile::tempdir().unwrap();
        let tree = rustix::fs::open(home.path(), OFlags::PATH, Mode::empty()).unwrap();
        let mut state = CheckoutState::new(&tree, 0).unwrap();
        for (bytes, live, is_so) in [
            (LARGE_BYTES, 0, false),
            (LARGE_BYTES + 1, 0, true),
            (LARGE_BYTES * 2, LARGE_BYTES, false),
            (LARGE_BYTES * 2 + 1, LARGE_BYTES, true),
        ] {
            (state.manifest_bytes, state.manifest_live_bytes) = (bytes, live);
            assert_eq!(is_long(&state), is_so, "{bytes} of {live}");
        }
    }

    #[test]
    fn a_torn_file_is_known_wherever_it_ends() {
        let mut bytes = Vec::new();
        encode_record(b"path", Some(record(1)), &mut bytes);
        for end in 1..bytes.len() {
            assert_eq!(decode_records(&bytes[..end]), None, "{end}");
        }
        assert_eq!(decode_records(&[0; 64]), None);
    }
}
