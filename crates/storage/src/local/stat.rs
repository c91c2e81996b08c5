//! Describing entries.

use std::os::fd::OwnedFd;

use garret_core::{EntryKind, FileIdentity, HardLinkedFile, Result, Stat, StatOptions, Version, WsPath};
use rustix::fs::{AtFlags, FileType, OFlags, Statx, StatxFlags, makedev, readlinkat, statx};

use super::MAX_INLINE_BYTES;
use super::beneath::{LocalFinalLink, LocalLinkRules};
use super::directory_entries::{entry_kind, timestamp_of};
use super::error::AccessError;
use super::version::{ContentHash, StatFingerprint};
use super::{LocalContext, LocalContextHandle};

/// Returns the description of an entry.
pub(super) async fn describe_path(shared: &LocalContextHandle, path: &WsPath, options: StatOptions) -> Result<Stat> {
    let found = describe_blocking(
        shared,
        path,
        StatOptions {
            with_version: false,
            ..options
        },
    )?;
    if !options.with_version || found.kind != EntryKind::File {
        return Ok(found);
    }
    // Only the hash for the version of a large file takes long enough for another thread.
    if found.size <= MAX_INLINE_BYTES {
        return describe_blocking(shared, path, options);
    }
    let (shared, path) = (shared.clone(), path.clone());
    garret_handles::run_blocking(move || describe_blocking(&shared, &path, options)).await
}

fn describe_blocking(shared: &LocalContext, path: &WsPath, options: StatOptions) -> Result<Stat> {
    let way = LocalLinkRules {
        last: LocalFinalLink::Kept,
        follow: options.follow,
    };
    shared.root.with_real_path(path, way, |real| {
        let mut stat = describe_entry(shared, real)?;
        if options.with_version && stat.kind == EntryKind::File {
            stat.version = Some(file_version(shared, real)?);
        }
        Ok(stat)
    })
}

fn describe_entry(shared: &LocalContext, path: &WsPath) -> Result<Stat, AccessError> {
    // With `O_PATH`, so that a fifo or a device is described without being opened.
    let entry = shared
        .root
        .open_path(path.as_str().as_bytes(), OFlags::PATH | OFlags::NOFOLLOW)?;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let found = statx(&entry, c"", AtFlags::EMPTY_PATH, wanted)?;
    let kind = entry_kind(FileType::from_raw_mode(found.stx_mode.into()));
    let has_content = matches!(kind, EntryKind::File | EntryKind::Symlink);
    Ok(Stat {
        kind,
        size: if has_content { found.stx_size } else { 0 },
        mode: (kind != EntryKind::Symlink).then_some(u32::from(found.stx_mode) & 0o7777),
        created: creation_time(&found),
        modified: timestamp_of(found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
        changed: timestamp_of(found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
        version: None,
        target: match kind {
            EntryKind::Symlink => Some(link_target(&entry)?),
            _ => None,
        },
        hard_linked: (kind == EntryKind::File && found.stx_nlink > 1).then(|| HardLinkedFile {
            identity: FileIdentity {
                device: makedev(found.stx_dev_major, found.stx_dev_minor),
                number: found.stx_ino,
            },
            names: found.stx_nlink.into(),
        }),
    })
}

/// Returns the creation time of the entry, if the file system keeps it.
fn creation_time(found: &Statx) -> Option<garret_core::Timestamp> {
    let is_kept = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    is_kept
        .then(|| timestamp_of(found.stx_btime.tv_sec, found.stx_btime.tv_nsec))
        .flatten()
}

fn link_target(link: &OwnedFd) -> Result<String, AccessError> {
    let target = readlinkat(link, c"", Vec::new())?;
    Ok(target.to_string_lossy().into_owned())
}

fn file_version(shared: &LocalContext, path: &WsPath) -> Result<Version, AccessError> {
    let (file, stat) = shared.root.open_file(path)?;
    let snapshot = StatFingerprint::from_stat(&stat);
    Ok(snapshot.version_at(shared.clock.now(), || ContentHash::of_file(&file))?)
}
