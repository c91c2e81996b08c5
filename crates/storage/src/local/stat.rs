//! Describing entries.

use std::os::fd::OwnedFd;

use garret_core::{EntryKind, FileIdentity, HardLinkedFile, Result, Stat, StatOptions, Version, WsPath};
use rustix::fs::{AtFlags, FileType, OFlags, Statx, StatxFlags, makedev, readlinkat, statx};

use super::beneath::{Last, Way};
use super::blocking::{self, MAX_INLINE_BYTES};
use super::error::Cause;
use super::names::{kind_of, time};
use super::version::{ContentHash, Snapshot};
use super::{Shared, SharedHandle};

/// Returns the description of an entry.
pub(super) async fn stat(shared: &SharedHandle, path: &WsPath, options: StatOptions) -> Result<Stat> {
    let found = look(
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
        return look(shared, path, options);
    }
    let (shared, path) = (shared.clone(), path.clone());
    blocking::run(move || look(&shared, &path, options)).await
}

fn look(shared: &Shared, path: &WsPath, options: StatOptions) -> Result<Stat> {
    let way = Way {
        last: Last::Kept,
        follow: options.follow,
    };
    shared.root.reach(path, way, |real| {
        let mut stat = describe(shared, real)?;
        if options.with_version && stat.kind == EntryKind::File {
            stat.version = Some(version(shared, real)?);
        }
        Ok(stat)
    })
}

fn describe(shared: &Shared, path: &WsPath) -> Result<Stat, Cause> {
    // With `O_PATH`, so that a fifo or a device is described without being opened.
    let entry = shared
        .root
        .open(path.as_str().as_bytes(), OFlags::PATH | OFlags::NOFOLLOW)?;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let found = statx(&entry, c"", AtFlags::EMPTY_PATH, wanted)?;
    let kind = kind_of(FileType::from_raw_mode(found.stx_mode.into()));
    let has_content = matches!(kind, EntryKind::File | EntryKind::Symlink);
    Ok(Stat {
        kind,
        size: if has_content { found.stx_size } else { 0 },
        mode: (kind != EntryKind::Symlink).then_some(u32::from(found.stx_mode) & 0o7777),
        created: created(&found),
        modified: time(found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
        changed: time(found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
        version: None,
        target: match kind {
            EntryKind::Symlink => Some(target(&entry)?),
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
fn created(found: &Statx) -> Option<garret_core::Timestamp> {
    let is_kept = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    is_kept
        .then(|| time(found.stx_btime.tv_sec, found.stx_btime.tv_nsec))
        .flatten()
}

fn target(link: &OwnedFd) -> Result<String, Cause> {
    let target = readlinkat(link, c"", Vec::new())?;
    Ok(target.to_string_lossy().into_owned())
}

fn version(shared: &Shared, path: &WsPath) -> Result<Version, Cause> {
    let (file, stat) = shared.root.open_file(path)?;
    let snapshot = Snapshot::of(&stat);
    Ok(snapshot.version(shared.clock.now(), || ContentHash::of_file(&file))?)
}
