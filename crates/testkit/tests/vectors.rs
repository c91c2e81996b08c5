//! The published cases.

use std::sync::Arc;

use garret_core::{MemoryStorage, SystemClock};
use garret_testkit::fixture::block_on;
use garret_testkit::{Fixture, vectors};

#[test]
fn every_path_case_holds() {
    let paths = vectors::paths();
    assert!(
        paths.escape.len() >= 12 && paths.inside.len() >= 15 && paths.refuse.len() >= 3,
        "the cases are all there"
    );
    paths.check();
}

#[test]
fn every_spelling_that_stays_inside_names_its_file() {
    block_on(async {
        for (spelling, path) in vectors::paths().inside.iter().filter(|(_, path)| !path.is_empty()) {
            let probe = Fixture::new(Arc::new(MemoryStorage::new(Arc::new(SystemClock::default())))).probe();
            probe.write(spelling, "here").await;
            assert_eq!(probe.text(path).await, "here");
            assert!(probe.names_deep("").await.contains(path), "{spelling}");
        }
    });
}
