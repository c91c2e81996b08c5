//! Content of the depot for whoever reads it without driving futures: a part at a time, verified.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::executor::block_on;
use garret_core::{ContentSource, Result};

use crate::content::Address;
use crate::depot::Shared;
use crate::error::damaged;

/// How much is read at a time.
const PART_BYTES: u64 = 4 * 1024 * 1024;

/// Some content of the depot. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) shared: Arc<Shared>,
    pub(crate) address: Address,
    pub(crate) size: u64,
}

impl Stored {
    /// The bytes of `range`.
    pub(crate) async fn range(&self, range: Range<u64>) -> Result<Bytes> {
        let shared = &self.shared;
        let row = shared.database.read(|session| session.content(self.address))?;
        let row = row.ok_or_else(|| damaged("the content is missing from the home"))?;
        let content = &shared.content;
        content
            .read(&shared.database, self.address, row, self.size, range)
            .await
    }

    /// A reader that begins at the start.
    pub(crate) fn reader(&self) -> StoredReader {
        StoredReader {
            stored: self.clone(),
            at: 0,
            part: Bytes::new(),
        }
    }
}

impl ContentSource for Stored {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.reader()))
    }
}

/// Content of the depot on its way to a reader.
#[derive(Debug)]
pub(crate) struct StoredReader {
    stored: Stored,
    at: u64,
    part: Bytes,
}

impl Read for StoredReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.part.is_empty() && self.at < self.stored.size {
            let end = (self.at + PART_BYTES).min(self.stored.size);
            // On a thread of its own: the caller's may be one that drives futures.
            let read = std::thread::scope(|scope| {
                let reading = scope.spawn(|| block_on(self.stored.range(self.at..end)));
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
