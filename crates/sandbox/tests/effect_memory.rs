//! What it takes to read the effects of a command that left as much as it could. Alone in its program: the peak of memory is that of a
//! process.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::print_stdout, reason = "the peak is worth knowing")]
#![allow(clippy::disallowed_methods, reason = "a layer is made by the file system itself")]

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use garret_core::{ErrorKind, Limits};
use garret_sandbox::effects;

const MEBIBYTE: u64 = 1024 * 1024;

/// The most memory that this process ever had, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

/// A directory whose path has some 3,700 bytes.
fn deep(upper: &Path) -> PathBuf {
    let mut place = upper.to_owned();
    for _ in 0..15 {
        place.push("n".repeat(246));
    }
    fs::create_dir_all(&place).unwrap();
    place
}

fn read(upper: &Path, lower: &Path) -> garret_core::Result<garret_core::Effects> {
    let (upper, lower) = (File::open(upper).unwrap(), File::open(lower).unwrap());
    effects::read_upper_effects(upper.as_fd(), lower.as_fd(), None, Limits::default().effect_limits())
}

#[test]
fn reading_what_a_command_left_takes_little_memory_whatever_it_left() {
    let directory = tempfile::tempdir().unwrap();
    let (upper, lower) = (directory.path().join("upper"), directory.path().join("lower"));
    fs::create_dir(&lower).unwrap();
    fs::create_dir(&upper).unwrap();
    let place = deep(&upper);
    // As many as the limit on the bytes of names lets pass.
    for number in 0..8_000 {
        File::create(place.join(format!("{number}"))).unwrap();
    }
    let before = peak();
    let effects = read(&upper, &lower).unwrap();
    assert_eq!(effects.effects.len(), 8_015);
    let kept = peak();
    println!(
        "{} MiB before, {} MiB for 8,000 files that pass",
        before / MEBIBYTE,
        kept / MEBIBYTE
    );
    assert!(kept - before < 100 * MEBIBYTE, "{} MiB", (kept - before) / MEBIBYTE);
    drop(effects);
    for number in 8_000..60_000 {
        File::create(place.join(format!("{number}"))).unwrap();
    }
    let refusal = read(&upper, &lower).unwrap_err();
    assert_eq!(
        (refusal.kind(), refusal.refused_by()),
        (ErrorKind::TooLarge, Some("limits.changed_files"))
    );
    println!("{} MiB for 60,000 files", peak() / MEBIBYTE);
    assert!(peak() - before < 100 * MEBIBYTE, "{} MiB", (peak() - before) / MEBIBYTE);
}
