//! Content that is read as it is stored, and files that are read piece by piece.

use std::io::Read;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::executor::block_on;
use garret_core::{AccessLimits, Content, ContentSource, ErrorKind, FsPolicy, Result};
use garret_testkit::{Call, Hook, Hooked};
use garret_workspace::{Workspace, WriteOptions};
use tokio::sync::Barrier;

use crate::workspace::support::{builder_on, get, put, storage, with_events, with_policy, workspace};

/// So many times the letter `x`.
#[derive(Debug)]
struct Letters(u64);

impl ContentSource for Letters {
    fn size(&self) -> u64 {
        self.0
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        Ok(Box::new(std::io::repeat(b'x').take(self.0)))
    }
}

async fn write(workspace: &Workspace, size: u64) -> Result<u64> {
    let content = Content::from_source(Letters(size));
    let written = workspace.write("f", content, WriteOptions::default()).await;
    written.map(|written| written.size)
}

async fn pieces(workspace: &Workspace, range: std::ops::Range<u64>) -> Result<Vec<Bytes>> {
    let mut pieces = Vec::new();
    let each = |piece| {
        pieces.push(piece);
        ControlFlow::Continue(())
    };
    workspace.read_stream("f", range, each).await?;
    Ok(pieces)
}

#[tokio::test]
async fn a_stream_gives_the_whole_file_in_pieces() {
    let (workspace, events) = with_events(FsPolicy::default());
    let size = 10 * 1024 * 1024 + 5;
    assert_eq!(write(&workspace, size).await.unwrap(), size);
    let all = pieces(&workspace, 0..u64::MAX).await.unwrap();
    assert!(all.len() > 2, "{} pieces", all.len());
    assert_eq!(all.iter().map(Bytes::len).sum::<usize>() as u64, size);
    let events = events.events();
    let moved: Vec<_> = events
        .iter()
        .map(|event| (event.operation.as_ref(), event.bytes))
        .collect();
    assert_eq!(
        moved,
        [("write_file", size), ("read_file", size)],
        "one operation is one event"
    );
}

#[tokio::test]
async fn a_stream_of_a_range_gives_that_range() {
    let workspace = workspace();
    put(&workspace, "f", "0123456789").await;
    for (range, expected) in [(0..0, ""), (3..5, "34"), (8..20, "89"), (10..20, ""), (50..60, "")] {
        let joined = pieces(&workspace, range.clone()).await.unwrap().concat();
        assert_eq!(joined, expected.as_bytes(), "{range:?}");
    }
}

#[tokio::test]
async fn a_stream_ends_where_its_reader_breaks_off() {
    let workspace = workspace();
    write(&workspace, 20 * 1024 * 1024).await.unwrap();
    let mut count = 0;
    let each = |_| {
        count += 1;
        ControlFlow::Break(())
    };
    let streamed = workspace.read_stream("f", 0..u64::MAX, each).await.unwrap();
    assert_eq!(count, 1);
    assert!(streamed.bytes < streamed.size);
}

#[tokio::test]
async fn a_file_that_changes_under_a_stream_is_a_conflict() {
    let workspace = workspace();
    write(&workspace, 20 * 1024 * 1024).await.unwrap();
    let mut count = 0;
    let each = |_| {
        count += 1;
        block_on(put(&workspace, "f", "changed"));
        ControlFlow::Continue(())
    };
    let error = workspace.read_stream("f", 0..u64::MAX, each).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(count, 1, "nothing of another version is handed over");
    assert_eq!(get(&workspace, "f").await, "changed");
}

/// Answers four pieces at once, never fewer: whoever asks for fewer waits for ever.
#[derive(Debug)]
struct FourAtOnce {
    barrier: Barrier,
    asked: AtomicUsize,
    under_way: AtomicUsize,
}

#[async_trait]
impl Hook for FourAtOnce {
    async fn before(&self, call: Call<'_>) {
        // The first piece is asked for alone: it tells how many there are.
        if matches!(call, Call::Read(_)) && self.asked.fetch_add(1, Ordering::SeqCst) > 0 {
            assert!(self.under_way.fetch_add(1, Ordering::SeqCst) < 4, "a fifth at once");
            self.barrier.wait().await;
        }
    }

    async fn after(&self, call: Call<'_>) {
        if matches!(call, Call::Read(_)) && self.asked.load(Ordering::SeqCst) > 1 {
            self.under_way.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[tokio::test]
async fn pieces_of_a_file_far_away_are_asked_for_together_and_come_in_order() {
    let four = FourAtOnce {
        barrier: Barrier::new(4),
        asked: AtomicUsize::new(0),
        under_way: AtomicUsize::new(0),
    };
    let hooked = Arc::new(Hooked::new(storage(), four));
    let reach = AccessLimits {
        is_remote: true,
        ..AccessLimits::default()
    };
    let workspace = builder_on(hooked.clone()).access_limits(reach).open().unwrap();
    let content: Vec<u8> = (0..9_u8).flat_map(|piece| vec![piece; 4 << 20]).collect();
    let write = workspace.write("f", content.clone(), WriteOptions::default());
    write.await.unwrap();
    let read = pieces(&workspace, 0..u64::MAX);
    let read = tokio::time::timeout(Duration::from_secs(60), read).await;
    let read = read.expect("four are asked for at once").unwrap();
    assert_eq!(read.len(), 9);
    assert!(read.concat() == content, "in the order of the file");
    assert_eq!(hooked.hook().asked.load(Ordering::SeqCst), 9);
}

#[tokio::test]
async fn limits_hold_for_streams() {
    let storage = storage();
    write(&with_policy(&storage, FsPolicy::default()), 3 * 1024 * 1024)
        .await
        .unwrap();
    let limited = with_policy(
        &storage,
        FsPolicy {
            max_read_mb: Some(2.0),
            max_file_size_mb: Some(2.0),
            max_total_mb: Some(4.0),
            ..FsPolicy::default()
        },
    );
    let error = pieces(&limited, 0..u64::MAX).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert_eq!(pieces(&limited, 0..1_000_000).await.unwrap().concat().len(), 1_000_000);
    let too_large = write(&limited, 2 * 1024 * 1024 + 1).await.unwrap_err();
    assert_eq!(too_large.kind(), ErrorKind::TooLarge);
    let content = || Content::from_source(Letters(1024 * 1024 + 1));
    let full = limited
        .write("g", content(), WriteOptions::default())
        .await
        .unwrap_err();
    assert_eq!(full.kind(), ErrorKind::QuotaExceeded);
}
