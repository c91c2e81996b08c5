//! A journaled storage keeps the contract of a storage and does what the model does.

use garret_testkit::model;

use crate::journal::support::{far_fixture, local_fixture, local_session_fixture, memory_fixture};

mod over_local {
    use super::local_fixture;

    garret_testkit::conformance_tests!(local_fixture);
}

mod over_memory {
    use super::memory_fixture;

    garret_testkit::conformance_tests!(memory_fixture);
}

mod over_far_away {
    use super::far_fixture;

    garret_testkit::conformance_tests!(far_fixture);
}

#[test]
fn what_is_far_away_does_what_the_model_does_with_links() {
    model::run(far_fixture, 60, 40, true);
}

#[test]
fn local_does_what_the_model_does() {
    model::run(local_fixture, 30, 30, false);
}

#[test]
fn local_does_what_the_model_does_with_links() {
    model::run(local_fixture, 30, 30, true);
}

#[test]
fn local_for_a_session_does_what_the_model_does_with_links() {
    model::run(local_session_fixture, 30, 30, true);
}

#[test]
fn memory_does_what_the_model_does_with_links() {
    model::run(memory_fixture, 60, 40, true);
}
