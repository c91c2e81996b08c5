//! The local storage keeps the contract, bare and through a wrapper, and does what the model and the published cases say.

use std::sync::Arc;

use garret_core::{OpenContext, RandomIds, SystemClock};
use garret_storage::{Durability, LocalOptions, LocalStorage};
use garret_testkit::{Fixture, Forwarding, model};

/// A local storage without syncs: what is tested is what is seen, not what survives a power cut.
async fn local() -> Fixture {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let root = directory.path().to_str().expect("its name is UTF-8").to_owned();
    let options = LocalOptions {
        durability: Durability::Relaxed,
        ..LocalOptions::new(&root)
    };
    let context = OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
    };
    let storage = LocalStorage::open(&options, &context).expect("the directory is there");
    Fixture::new(Arc::new(storage)).hiding(root).holding(directory)
}

garret_testkit::conformance_tests!(local);

mod cases {
    use super::local;

    garret_testkit::case_tests!(local);
}

mod forwarded {
    use super::*;

    async fn forwarded() -> Fixture {
        local().await.wrapped(|inner| Arc::new(Forwarding::new(inner)))
    }

    garret_testkit::conformance_tests!(forwarded);
}

#[test]
fn local_does_what_the_model_does() {
    model::run(local, 60, 30, false);
}

#[test]
fn local_does_what_the_model_does_with_links() {
    model::run(local, 60, 30, true);
}
