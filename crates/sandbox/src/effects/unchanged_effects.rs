//! Finds effects on a copy that would change nothing on the bench.
//!
//! A file that was copied a moment ago cannot be told from one that was written in the same tick of the clock, so a
//! comparison of times reports it as an effect; its content decides.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;

use garret_core::path::split_path;
use garret_core::{Content, Effect, PlacedEntry};
use garret_handles::{GENTLY, open_beneath};
use rustix::fs::{FileType, OFlags, fstat, readlinkat};

const PIECE: usize = 128 * 1024;
const BITS: u32 = 0o777;

/// Returns whether the effect would change nothing on the bench; `false` if that cannot be told.
pub(crate) fn equals_bench(bench: BorrowedFd<'_>, effect: &Effect) -> bool {
    let path = effect.path.as_bytes();
    match &effect.placed {
        PlacedEntry::Nothing | PlacedEntry::Image(_) => false,
        PlacedEntry::Directory { mode } => has_bits(bench, path, FileType::Directory, *mode),
        PlacedEntry::Symlink { target } => points_to(bench, path, target),
        // A file with several names is reported with all of them, so that they can be names of one file again.
        PlacedEntry::File { content, .. } if content.other_name().is_some() => false,
        PlacedEntry::File { content, mode } => {
            has_bits(bench, path, FileType::RegularFile, *mode) && has_content(bench, path, content)
        }
    }
}

fn has_bits(bench: BorrowedFd<'_>, path: &[u8], kind: FileType, mode: u32) -> bool {
    let held = open_beneath(bench, path, OFlags::PATH | OFlags::NOFOLLOW);
    held.and_then(fstat)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == kind && stat.st_mode & BITS == mode & BITS)
}

fn points_to(bench: BorrowedFd<'_>, path: &[u8], target: &str) -> bool {
    let (above, name) = split_path(path);
    let directory = open_beneath(bench, above, OFlags::PATH | OFlags::DIRECTORY);
    let found = directory.and_then(|directory| readlinkat(directory, name, Vec::new()));
    found.is_ok_and(|found| found.as_bytes() == target.as_bytes())
}

#[allow(clippy::unnecessary_cast, reason = "the field has other types on other machines")]
fn has_content(bench: BorrowedFd<'_>, path: &[u8], content: &Content) -> bool {
    let Ok(file) = open_beneath(bench, path, OFlags::RDONLY | GENTLY) else {
        return false;
    };
    let has_size = fstat(&file).is_ok_and(|stat| stat.st_size as u64 == content.len());
    has_size && has_same_content(File::from(file), content).unwrap_or(false)
}

fn has_same_content(mut file: File, content: &Content) -> garret_core::Result<bool> {
    let mut reader = content.open()?;
    let (mut one, mut other) = (Vec::new(), vec![0; PIECE]);
    while reader.append_to(&mut one, PIECE)? > 0 {
        let part = &mut other[..one.len()];
        if file.read_exact(part).is_err() || part != one.as_slice() {
            return Ok(false);
        }
        one.clear();
    }
    Ok(true)
}
