//! Files larger than memory: written as they are read, and read range by range.

use std::io::Read;

use garret_core::{Content, ContentSource, EntryPath, Origin, PathExpectation, PathPut, PlacedEntry, PutBatch, Result};
use garret_testkit::limited::{is_limited, write_and_read};

use crate::depot::support::{on_disk, workspace};

const MEBIBYTE: u64 = 1024 * 1024;

#[test]
fn a_file_larger_than_memory_is_written_and_read() {
    if is_limited("depot::large::a_file_larger_than_memory_is_written_and_read", 256) {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime starts").block_on(async {
            let home = tempfile::tempdir().expect("a temporary directory can be made");
            let depot = on_disk(home.path()).await;
            write_and_read(&workspace(&depot, "box").await, 320 * MEBIBYTE).await;
        });
    }
}

/// A small file that is made when it is read, and that is like no other.
#[derive(Debug)]
struct SmallFile(u64);

impl ContentSource for SmallFile {
    fn size(&self) -> u64 {
        60 * 1024
    }

    fn open(&self) -> Result<Box<dyn Read + Send>> {
        let mut state = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        };
        let bytes: Vec<u8> = (0..self.size() / 8).flat_map(|_| next()).collect();
        Ok(Box::new(std::io::Cursor::new(bytes)))
    }
}

#[test]
fn more_small_files_than_memory_holds_become_one_change() {
    if is_limited(
        "depot::large::more_small_files_than_memory_holds_become_one_change",
        256,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime starts").block_on(async {
            let home = tempfile::tempdir().expect("a temporary directory can be made");
            let room = workspace(&on_disk(home.path()).await, "box").await;
            let put = |number: u64| PathPut {
                path: EntryPath::from_bytes(format!("{number}").into_bytes()),
                expected: PathExpectation::Is(None),
                placed: PlacedEntry::File {
                    content: Content::from_source(SmallFile(number)),
                    mode: 0o644,
                },
            };
            let puts = PutBatch {
                puts: (0..6_000).map(put).collect(),
                ..PutBatch::default()
            };
            let change = room.put(puts, Origin::default()).await.expect("nothing clashes");
            assert_eq!(change.expect("it is a change").number, 1);
        });
    }
}
