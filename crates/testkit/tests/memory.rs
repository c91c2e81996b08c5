//! The memory storage keeps the contract.

use std::sync::Arc;

use garret_core::{MemoryStorage, SystemClock};
use garret_testkit::Fixture;

async fn memory() -> Fixture {
    Fixture::new(Arc::new(MemoryStorage::new(Arc::new(SystemClock::default()))))
}

garret_testkit::conformance_tests!(memory);
