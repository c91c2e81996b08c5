//! Reading a file of any size piece by piece. One piece is held in memory at a time, or a few if files are remote.

use std::ops::{ControlFlow, Range};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesOrdered;
use garret_core::memory::check_read_limit;
use garret_core::{Access, Precondition, ReadOptions, ReadResult, Result, Version};

use crate::Workspace;
use crate::admission::{AdmittedPath, PathSubject};
use crate::file_access::FileAccess;

/// Bytes of one piece: enough for a storage to fetch several of its own parts at once.
const PIECE: u64 = 4 << 20;
/// How many pieces of a remote file are requested at once.
const FAR_AT_ONCE: usize = 4;

/// A file that was read piece by piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamResult {
    /// How many bytes were passed to the caller.
    pub bytes: u64,
    /// The size of the whole file.
    pub size: u64,
    /// The version that all the pieces belong to.
    pub version: Version,
}

impl Workspace {
    /// Reads `range` of a file in order and passes each piece to `each`, until `each` returns `Break`. All pieces are
    /// of one version: if the file changes in between, it is a `conflict`, after the pieces that were passed already.
    pub async fn read_stream(
        &self,
        path: &str,
        range: Range<u64>,
        each: impl FnMut(Bytes) -> ControlFlow<()>,
    ) -> Result<StreamResult> {
        let files = self.files.remembering_hard_links();
        let work = async {
            let target = files.admit(path, PathSubject::Content, &[Access::Read]).await?;
            files.stream_file(&target, range, each).await
        };
        self.run_operation("read_file", &[path], |streamed: &StreamResult| streamed.bytes, work)
            .await
    }
}

impl FileAccess {
    async fn stream_file(
        &self,
        target: &AdmittedPath,
        range: Range<u64>,
        mut each: impl FnMut(Bytes) -> ControlFlow<()>,
    ) -> Result<StreamResult> {
        let first = self
            .read_piece(target, range.start, range.end, Precondition::Any)
            .await?;
        let end = range.end.min(first.size);
        // The limit is on the whole range: pieces alone would let any amount pass below it.
        check_read_limit(&target.shown, end.saturating_sub(range.start), self.read_limit())?;
        let mut streamed = StreamResult {
            bytes: 0,
            size: first.size,
            version: first.version,
        };
        let at_once = if self.source.access_limits.is_remote {
            FAR_AT_ONCE
        } else {
            1
        };
        let mut asked = range.start.saturating_add(PIECE);
        let mut ahead = FuturesOrdered::new();
        let mut piece = first.bytes;
        loop {
            streamed.bytes += piece.len() as u64;
            if each(piece).is_break() {
                return Ok(streamed);
            }
            while asked < end && ahead.len() < at_once {
                // The version of the last piece: a storage may by now return another token for the same state that is
                // cheaper to check.
                let precondition = Precondition::Version(streamed.version.clone());
                ahead.push_back(self.read_piece(target, asked, end, precondition));
                asked += PIECE;
            }
            let Some(read) = ahead.next().await else {
                return Ok(streamed);
            };
            let read = read?;
            streamed.version = read.version;
            piece = read.bytes;
        }
    }

    /// Reads the piece that begins at `start`; the last piece ends at `end`.
    async fn read_piece(
        &self,
        target: &AdmittedPath,
        start: u64,
        end: u64,
        precondition: Precondition,
    ) -> Result<ReadResult> {
        let options = ReadOptions {
            range: Some(start..end.min(start.saturating_add(PIECE))),
            follow: target.follow,
            precondition,
            ..ReadOptions::default()
        };
        self.read_admitted(target, options).await
    }
}
