//! Reading a file of any size piece by piece: what is held at once is one piece.

use std::ops::{ControlFlow, Range};

use bytes::Bytes;
use garret_core::memory::check_limit;
use garret_core::{Access, Precondition, ReadOptions, ReadResult, Result, Version};

use crate::Workspace;
use crate::admit::{Names, Target};

/// Bytes of one piece: enough for a storage to fetch several of its own parts at once.
const PIECE: u64 = 4 << 20;

/// A file that was read piece by piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streamed {
    /// How many bytes were handed over.
    pub bytes: u64,
    /// The size of the whole file.
    pub size: u64,
    /// The version that all the pieces belong to.
    pub version: Version,
}

impl Workspace {
    /// Reads `range` of a file in order and hands each piece to `each`, until that says to break off. All pieces are of one version: a
    /// file that changes meanwhile is a `conflict`, after the pieces that were handed over already.
    pub async fn read_stream(
        &self,
        path: &str,
        range: Range<u64>,
        each: impl FnMut(Bytes) -> ControlFlow<()>,
    ) -> Result<Streamed> {
        let work = async {
            let target = self.admit(path, Names::Content, &[Access::Read]).await?;
            self.stream(&target, range, each).await
        };
        self.operate("read_file", &[path], |streamed: &Streamed| streamed.bytes, work)
            .await
    }

    async fn stream(
        &self,
        target: &Target,
        range: Range<u64>,
        mut each: impl FnMut(Bytes) -> ControlFlow<()>,
    ) -> Result<Streamed> {
        let mut at = range.start;
        let mut precondition = Precondition::Any;
        loop {
            let wanted = at..range.end.min(at.saturating_add(PIECE));
            let read = self.piece(target, wanted, precondition).await?;
            if at == range.start {
                let all = range.end.min(read.size).saturating_sub(at);
                check_limit(&target.shown, all, self.read_limit())?;
            }
            let ReadResult {
                bytes, size, version, ..
            } = read;
            at += bytes.len() as u64;
            let is_last = bytes.is_empty() || at >= size.min(range.end);
            if each(bytes).is_break() || is_last {
                return Ok(Streamed {
                    bytes: at - range.start,
                    size,
                    version,
                });
            }
            // The version of the last piece, since a storage may know a cheaper one of the same state by now.
            precondition = Precondition::Version(version);
        }
    }

    async fn piece(&self, target: &Target, range: Range<u64>, precondition: Precondition) -> Result<ReadResult> {
        let options = ReadOptions {
            range: Some(range),
            follow: target.follow,
            precondition,
            ..ReadOptions::default()
        };
        self.storage().read(&target.real, options).await
    }
}
