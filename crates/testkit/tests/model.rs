//! Random operation sequences: storages do what the plain model does.

use std::sync::Arc;

use garret_core::{MemoryStorage, SystemClock};
use garret_testkit::{Fixture, model};

async fn memory() -> Fixture {
    Fixture::new(Arc::new(MemoryStorage::new(Arc::new(SystemClock::default()))))
}

#[test]
fn memory_does_what_the_model_does() {
    model::run(memory, 300, 40, false);
}

#[test]
fn memory_does_what_the_model_does_with_links() {
    model::run(memory, 300, 40, true);
}
