//! The local storage keeps the contract, bare and through a wrapper, and does what the model and the published cases say.

#![allow(
    clippy::disallowed_methods,
    reason = "one test looks at the directory behind the storage's back"
)]

use std::path::Path;
use std::sync::Arc;

use garret_core::{ErrorKind, OpenContext, RandomIds, SystemClock};
use garret_storage::{Durability, LocalOptions, LocalStorage};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{remove, remove_tree, rename, rename_over, write};
use garret_testkit::{Fixture, Forwarding, model};
use garret_workspace::{ListRequest, ScopeOptions, Workspace};

/// A local storage without syncs: what is tested is what is seen, not what survives a power cut.
fn opened(directory: &Path) -> Fixture {
    let root = directory.to_str().expect("its name is UTF-8");
    let options = LocalOptions {
        durability: Durability::Relaxed,
        ..LocalOptions::new(root)
    };
    let context = OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
        history: garret_core::HistoryMode::Durable,
    };
    let storage = LocalStorage::open(&options, &context).expect("the directory is there");
    Fixture::new(Arc::new(storage)).hiding(root)
}

async fn local() -> Fixture {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    opened(directory.path()).holding(directory)
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

/// Files that a batch keeps until it is through are gone when it is, whether it failed or not.
#[test]
fn a_batch_leaves_nothing_hidden_behind() {
    block_on(async {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let probe = opened(directory.path()).probe();
        let planted = ["d", "d/g", "d/sub", "d/sub/f", "e", "e/h", "top"].as_slice();
        for (failing, wanted) in [(None, ["g", "top"].as_slice()), (Some(remove("missing")), planted)] {
            let files = planted.iter().filter(|at| !["d", "d/sub", "e"].contains(at));
            probe.batch(files.map(|at| write(at, "x")).collect()).await;
            let mut mutations = vec![
                write("d/g", "changed"),
                rename("d/g", "g"),
                remove_tree("d/sub"),
                rename_over("e", "d"),
                remove("d/h"),
                remove("d"),
            ];
            mutations.extend(failing);
            let _ = probe.try_batch(mutations).await;
            assert_eq!(probe.names_deep("").await, wanted);
            let mut on_disk = names_on_disk(directory.path());
            on_disk.sort();
            assert_eq!(on_disk, wanted);
            for left in probe.names("").await {
                probe.apply(remove_tree(&left)).await;
            }
        }
        assert_eq!(names_on_disk(directory.path()), Vec::<String>::new());
    });
}

fn names_on_disk(root: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut ahead = vec![root.to_owned()];
    while let Some(directory) = ahead.pop() {
        for entry in std::fs::read_dir(&directory).expect("the directory is there") {
            let path = entry.expect("the entry is there").path();
            let below = path.strip_prefix(root).expect("it lies below the root");
            names.push(below.to_str().expect("its name is UTF-8").to_owned());
            if path.is_dir() {
                ahead.push(path);
            }
        }
    }
    names
}
