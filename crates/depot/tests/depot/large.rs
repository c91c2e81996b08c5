//! Files larger than memory: written as they are read, and read range by range.

use garret_testkit::limited::{is_limited, write_and_read};

use crate::support::{on_disk, workspace};

const MEBIBYTE: u64 = 1024 * 1024;

#[test]
fn a_file_larger_than_memory_is_written_and_read() {
    if is_limited("large::a_file_larger_than_memory_is_written_and_read", 192) {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime starts").block_on(async {
            let home = tempfile::tempdir().expect("a temporary directory can be made");
            let depot = on_disk(home.path()).await;
            write_and_read(&workspace(&depot, "box").await, 320 * MEBIBYTE).await;
        });
    }
}
