//! A blocking reader of the depot's content, for callers outside async code. It reads and verifies a few megabytes at a
//! time.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::executor::block_on;
use garret_core::{ContentSource, Result};

use crate::content::PieceAddress;
use crate::depot::DepotShared;
use crate::error::damaged_content;

/// The number of bytes read at a time.
const PART_BYTES: u64 = 4 * 1024 * 1024;

/// A handle on one content of the depot. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct StoredContent {
    pub(crate) shared: Arc<DepotShared>,
    pub(crate) address: PieceAddress,
    pub(crate) size: u64,
}

impl StoredContent {
    /// Returns the bytes of `range`.
    pub(crate) async fn read_range(&self, range: Range<u64>) -> Result<Bytes> {
        let shared = &self.shared;
        let row = shared
            .database
            .read(|session| session.contents().content(self.address))?;
        let row = row.ok_or_else(|| damaged_content("the content is missing from the home"))?;
        let content = &shared.content;
        content
            .read_range(&shared.database, self.address, row, self.size, range)
            .await
    }

    /// Returns a blocking reader that begins at the start of the content.
    pub(crate) fn reader(&self) -> StoredContentReader {
        StoredContentReader {
            stored: self.clone(),
            at: 0,
            part: Bytes::new(),
        }
    }
}

impl ContentSource for StoredContent {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.reader()))
    }
}

/// A blocking reader of one content of the depot.
#[derive(Debug)]
pub(crate) struct StoredContentReader {
    stored: StoredContent,
    at: u64,
    part: Bytes,
}

impl Read for StoredContentReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.part.is_empty() && self.at < self.stored.size {
            let end = (self.at + PART_BYTES).min(self.stored.size);
            // On a thread of its own: the caller's thread may already run an executor, and executors cannot be nested.
            let read = std::thread::scope(|scope| {
                let reading = scope.spawn(|| block_on(self.stored.read_range(self.at..end)));
                reading.join()
            });
            self.part = read.map_err(|_| io::ErrorKind::Other)?.map_err(io::Error::other)?;
            self.at = end;
        }
        let count = buffer.len().min(self.part.len());
        buffer[..count].copy_from_slice(&self.part.split_to(count));
        Ok(count)
    }
}
