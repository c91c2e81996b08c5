//! Writes and reads one large file through the whole workspace stack, and tells the time and the most memory that it took.
//!
//! `large-file STORAGE BYTES DIRECTORY`, where the storage is `filestore` or `local`. The benchmarks run it under a limit on memory.

#![allow(clippy::print_stdout, reason = "what it finds out is what it prints")]
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark looks at the clock, its arguments and its own memory"
)]

use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use garret::{Content, ContentSource, Garret, Home, Result, Workspace, WriteOptions};

/// Bytes that look random, as many as wanted, without memory for them.
#[derive(Debug, Clone, Copy)]
struct Noise(u64);

impl ContentSource for Noise {
    fn size(&self) -> u64 {
        self.0
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let noise = blake3::Hasher::new().update(b"large").finalize_xof();
        Ok(Box::new(noise.take(self.0)))
    }
}

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, storage, bytes, directory] = arguments.as_slice() else {
        panic!("use: large-file STORAGE BYTES DIRECTORY");
    };
    let bytes = bytes.parse().expect("the size is a number");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
    runtime
        .expect("a runtime starts")
        .block_on(run(storage, bytes, Path::new(directory)));
}

async fn run(storage: &str, bytes: u64, directory: &Path) {
    let garret = Garret::new().home(Home::new(directory.join("home")));
    let url = match storage {
        "filestore" => "filestore:large".to_owned(),
        _ => {
            let files = directory.join("files");
            std::fs::create_dir_all(&files).expect("it is made");
            format!("local:{}", files.display())
        }
    };
    let opened = garret.open_url(&url).await.expect("the workspace opens");
    let workspace = opened.workspace();
    let start = Instant::now();
    let content = Content::from_source(Noise(bytes));
    let written = workspace.write("large", content, WriteOptions::default()).await;
    assert_eq!(written.expect("it is written").size, bytes);
    let (wrote, start) = (start.elapsed(), Instant::now());
    compare(workspace, bytes).await;
    let read = start.elapsed();
    let rate = |time: std::time::Duration| bytes as f64 / 1e6 / time.as_secs_f64();
    println!(
        "{} MiB on {storage}: written at {:.0} MB/s, read and compared at {:.0} MB/s, {} MiB of memory at most",
        bytes >> 20,
        rate(wrote),
        rate(read),
        peak() >> 10
    );
}

/// Reads everything back beside the noise it came from.
async fn compare(workspace: &Workspace, bytes: u64) {
    let mut noise = Noise(bytes).open().expect("noise can be had");
    let mut expected = Vec::new();
    let mut is_same = true;
    let each = |piece: bytes::Bytes| {
        expected.resize(piece.len(), 0);
        noise.read_exact(&mut expected).expect("noise does not fail");
        is_same &= piece == expected;
        ControlFlow::Continue(())
    };
    let streamed = workspace.read_stream("large", 0..u64::MAX, each).await;
    assert_eq!(streamed.expect("it is read").bytes, bytes);
    assert!(is_same, "what was read is not what was written");
}

/// The most memory that was in use, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.and_then(|number| number.parse().ok()).expect("Linux tells")
}
