//! A workspace in a depot keeps the contract of a storage, in memory and on disk, and does what the model does.

use crate::depot::support::{disk_fixture, memory_fixture};
use garret_testkit::model;

mod in_memory {
    use super::memory_fixture;

    garret_testkit::conformance_tests!(memory_fixture);
}

mod on_disk {
    use super::disk_fixture;

    garret_testkit::conformance_tests!(disk_fixture);
}

#[test]
fn memory_does_what_the_model_does() {
    model::run(memory_fixture, 100, 40, false);
}

#[test]
fn memory_does_what_the_model_does_with_links() {
    model::run(memory_fixture, 100, 40, true);
}

#[test]
fn disk_does_what_the_model_does() {
    model::run(disk_fixture, 30, 30, false);
}

#[test]
fn disk_does_what_the_model_does_with_links() {
    model::run(disk_fixture, 30, 30, true);
}
