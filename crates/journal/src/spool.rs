//! Reads large files of a storage without handles piece by piece, through a temporary file in the home, so that
//! memory holds one piece at a time.

#![allow(
    clippy::disallowed_methods,
    reason = "this file owns the files of the home that large content passes through"
)]

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use garret_core::{
    Content, ContentSource, Error, ErrorKind, Follow, Precondition, ReadOptions, ReadResult, Result, WsPath,
};
use garret_depot::outside_files::{home_not_usable, make_file};

use crate::capture::WHOLE_BYTES;
use crate::observed_files::ObservedFiles;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A temporary file in the home, removed on drop.
#[derive(Debug)]
struct Spool {
    path: PathBuf,
}

impl Spool {
    fn create_in(folder: &Path) -> Result<(Self, File)> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("fetch-{}-{number}", std::process::id()));
        // A file of this name was left by an earlier process with the same id.
        let _ = std::fs::remove_file(&path);
        let file = make_file(&path).map_err(home_not_usable)?;
        Ok((Self { path }, file))
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The content of a spool.
#[derive(Debug)]
struct SpoolSource {
    spool: Spool,
    size: u64,
}

impl ContentSource for SpoolSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let file = File::open(&self.spool.path).map_err(home_not_usable)?;
        Ok(Box::new(file))
    }
}

/// Returns the content of a file in a spool, and the result of the first read.
pub(crate) async fn spool_content(
    files: &ObservedFiles<'_>,
    path: &WsPath,
    folder: &Path,
) -> Result<(Content, ReadResult)> {
    let (spool, mut file) = Spool::create_in(folder)?;
    let mut put = |bytes: &[u8]| file.write_all(bytes).map_err(home_not_usable);
    let first = read_piece(files, path, 0, Precondition::Any).await?;
    put(&first.bytes)?;
    let mut at = first.bytes.len() as u64;
    while at < first.size {
        // All pieces must come from one version, or the content would be a mixture.
        let same = Precondition::Version(first.version.clone());
        let piece = read_piece(files, path, at, same).await?;
        // Without this check a file that became shorter would keep the loop running.
        if piece.bytes.is_empty() {
            return Err(Error::new(ErrorKind::Unavailable, "a file is shorter than expected").at_path(path));
        }
        put(&piece.bytes)?;
        at += piece.bytes.len() as u64;
    }
    let size = first.size;
    Ok((Content::from_source(SpoolSource { spool, size }), first))
}

async fn read_piece(
    files: &ObservedFiles<'_>,
    path: &WsPath,
    at: u64,
    precondition: Precondition,
) -> Result<ReadResult> {
    let options = ReadOptions {
        range: Some(at..at + WHOLE_BYTES),
        follow: Follow::Never,
        precondition,
        ..ReadOptions::default()
    };
    files.journaled.files.read(path, options).await
}
