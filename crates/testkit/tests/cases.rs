//! The published file operations on the memory storage, and that none is forgotten.

use std::collections::BTreeSet;
use std::sync::Arc;

use garret_core::{MemoryStorage, SystemClock};
use garret_testkit::{Fixture, cases, vectors};

async fn memory() -> Fixture {
    Fixture::new(Arc::new(MemoryStorage::new(Arc::new(SystemClock::default()))))
}

garret_testkit::case_tests!(memory);

#[test]
fn every_published_case_has_a_function() {
    let published: BTreeSet<_> = vectors::file_operations()
        .cases
        .into_iter()
        .map(|case| case.case)
        .collect();
    let written: BTreeSet<_> = cases::texts().into_iter().map(str::to_owned).collect();
    assert_eq!(written, published);
}
