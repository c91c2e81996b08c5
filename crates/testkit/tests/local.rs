//! The local storage keeps the contract, bare and through a wrapper, and does what the model and the published cases say.

use std::sync::Arc;

use garret_core::{ErrorKind, OpenContext, RandomIds, SystemClock};
use garret_storage::{Durability, LocalOptions, LocalStorage};
use garret_testkit::fixture::block_on;
use garret_testkit::{Fixture, Forwarding, model};
use garret_workspace::{ListRequest, ScopeOptions, Workspace};

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

/// The storage below has the paths; only the cursor tries to climb.
#[test]
fn a_cursor_does_not_leave_a_scope() {
    block_on(async {
        let fixture = local().await;
        fixture.probe().write("users/alice/a.txt", "hers").await;
        fixture.probe().write("users/bob/secret.txt", "his").await;
        let workspace = Workspace::builder(fixture.storage())
            .open()
            .expect("the default policy is sound");
        let alice = workspace
            .scope("users/alice", ScopeOptions::default())
            .expect("a scope inside");
        for cursor in [
            "..",
            "../bob",
            "../bob/a",
            "%2E%2E/bob/a",
            "./../bob/a",
            "/../bob/a",
            "a/../../bob/a",
        ] {
            let request = ListRequest {
                depth: 3,
                cursor: Some(cursor.to_owned()),
                ..ListRequest::default()
            };
            let error = alice
                .list("", request)
                .await
                .expect_err("a cursor that climbs is no cursor");
            assert_eq!(error.kind(), ErrorKind::Invalid, "{cursor}: {error:?}");
        }
    });
}
