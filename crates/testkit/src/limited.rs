//! A test that runs again in a process with little memory: what it passes there, it does in bounded memory.

#![allow(
    clippy::disallowed_methods,
    reason = "a limit on memory is a limit on a process, so there must be one"
)]

use std::io::Read;
use std::process::Command;

use garret_core::{Batch, Content, ContentSource, Mutation, Precondition, ReadOptions, Result, Storage};

use crate::mutations::path;

const MARK: &str = "GARRET_TEST_LIMITED";
const MEBIBYTE: u64 = 1024 * 1024;
const PIECE: u64 = 4 * MEBIBYTE;

/// Runs the test `name` (its full path, as the test harness prints it) again with at most so many MiB of address space. True in the
/// process that is limited, which should do the work; false in the one that waited for it. Panics where the limited one fails.
pub fn is_limited(name: &str, mebibytes: u64) -> bool {
    is_limited_with(name, mebibytes, &[])
}

/// The same, with more in the environment of the limited process; each value is asked for only in the one that waits.
pub fn is_limited_with(name: &str, mebibytes: u64, environment: &[(&str, &dyn Fn() -> String)]) -> bool {
    if std::env::var_os(MARK).is_some() {
        let mut room: Vec<u8> = Vec::new();
        let is_real = room.try_reserve_exact((mebibytes * MEBIBYTE) as usize).is_err();
        assert!(is_real, "the limit is not there, so nothing would be shown");
        return true;
    }
    let program = std::env::current_exe().expect("a test is a program");
    let status = Command::new("sh")
        .args([
            "-c",
            "ulimit -v \"$1\" && exec \"$0\" --exact \"$2\" --nocapture --test-threads=1",
        ])
        .arg(program)
        .args([(mebibytes * 1024).to_string().as_str(), name])
        .env(MARK, "1")
        .envs(environment.iter().map(|(name, value)| (name, value())))
        // Each arena would reserve address space that nobody uses.
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .expect("a shell can be run");
    let told = String::from_utf8_lossy(&status.stdout);
    assert!(
        told.contains("1 passed"),
        "{name} failed under {mebibytes} MiB: {told}{}",
        String::from_utf8_lossy(&status.stderr)
    );
    false
}

/// A source of any size that looks random, and takes no memory.
#[derive(Debug, Clone, Copy)]
pub struct Noise(pub u64);

impl ContentSource for Noise {
    fn size(&self) -> u64 {
        self.0
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let noise = blake3::Hasher::new().update(b"noise").finalize_xof();
        Ok(Box::new(noise.take(self.0)))
    }
}

/// Writes `size` bytes of noise from a source, reads them back range by range, each on the condition of the version before, and compares.
pub async fn write_and_read(storage: &dyn Storage, size: u64) {
    let at = path("large");
    let write = Mutation::write(at.clone(), Content::from_source(Noise(size)));
    let applied = storage.apply(Batch::from(write)).await.expect("it is written");
    assert_eq!(applied[0].size, size);
    let mut noise = Noise(size).open().expect("noise can be had");
    let mut precondition = Precondition::Any;
    let mut expected = Vec::new();
    for start in (0..size).step_by(PIECE as usize) {
        let options = ReadOptions {
            range: Some(start..start + PIECE),
            precondition,
            ..ReadOptions::default()
        };
        let read = storage.read(&at, options).await.expect("it is read");
        expected.clear();
        (&mut noise)
            .take(PIECE)
            .read_to_end(&mut expected)
            .expect("noise does not fail");
        assert!(read.bytes == expected, "the bytes from {start} on came back changed");
        precondition = Precondition::Version(read.version);
    }
}
