//! A file larger than memory on the local storage.

use std::sync::Arc;

use garret_core::{OpenContext, RandomIds, SystemClock};
use garret_storage::{LocalOptions, LocalStorage};
use garret_testkit::limited::{is_limited, write_and_read};

const MEBIBYTE: u64 = 1024 * 1024;

#[test]
fn a_file_larger_than_memory_is_written_and_read() {
    if is_limited("large::a_file_larger_than_memory_is_written_and_read", 128) {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let options = LocalOptions::new(directory.path().to_str().expect("its name is UTF-8"));
        let context = OpenContext {
            clock: Arc::new(SystemClock::default()),
            ids: Arc::new(RandomIds),
            history: garret_core::HistoryMode::Durable,
        };
        let storage = LocalStorage::open(&options, &context).expect("the directory is there");
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let work = write_and_read(&storage, 512 * MEBIBYTE);
        runtime.expect("a runtime starts").block_on(work);
    }
}
