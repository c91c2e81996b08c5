//! Runs of removals, as a command or an undo makes them: what is inside a directory before the directory.

use std::sync::Arc;

use garret_core::{Batch, ErrorKind, Follow, Mutation, MutationOutcome, Precondition, Result, Storage, Version};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{path, remove, write};
use garret_testkit::s3::{Proxy, Server};

use crate::place::Place;

async fn apply(storage: &Arc<dyn Storage>, mutations: Vec<Mutation>) -> Result<Vec<MutationOutcome>> {
    let batch = Batch {
        mutations,
        follow: Follow::Never,
        ..Batch::default()
    };
    storage.apply(batch).await
}

fn all(paths: &[&str]) -> Vec<Mutation> {
    paths.iter().map(|path| remove(path)).collect()
}

#[test]
fn a_run_of_removals_takes_everything_or_nothing() {
    for server in [Server::shared_seaweed(), Server::shared_moto()] {
        let place = Place::on(server);
        let keys = || {
            let keys = server.boto().keys(&place.key(""));
            keys.iter()
                .map(|key| key[place.prefix.len() + 1..].to_owned())
                .collect::<Vec<_>>()
        };
        block_on(async {
            let storage = place.try_open().await.unwrap();
            let files = ["d/a", "d/b", "d/deep/c", "e/x", "e/y", "f"];
            let written = files.iter().map(|path| write(path, "x")).collect();
            apply(&storage, written).await.unwrap();
            let kind = |outcome: Result<_>| outcome.unwrap_err().kind();
            let too_few = apply(&storage, all(&["d/deep/c", "d/deep", "d/b", "d"])).await;
            assert_eq!(kind(too_few), ErrorKind::NotEmpty);
            let not_there = apply(&storage, all(&["d/a", "d/b", "d/nothing"])).await;
            assert_eq!(kind(not_there), ErrorKind::NotFound);
            let other = Mutation::Remove {
                path: path("f"),
                recursive: false,
                precondition: Precondition::Version(Version::new("another")),
            };
            let changed = apply(&storage, vec![remove("d/a"), other]).await;
            assert_eq!(kind(changed), ErrorKind::Conflict);
            let late = [
                all(&["d/a", "d/b"]),
                vec![remove("e/x"), write("f/below", "a file is above")],
            ]
            .concat();
            assert!(apply(&storage, late).await.is_err());
            assert_eq!(keys(), files, "{:?}: nothing is gone", server.brand());
            apply(
                &storage,
                all(&["f", "e/y", "e/x", "d/deep/c", "d/deep", "d/b", "d/a", "d"]),
            )
            .await
            .unwrap();
            assert_eq!(
                keys(),
                ["e/"],
                "{:?}: the directory that stays has its marker",
                server.brand()
            );
        });
    }
}

#[test]
fn a_run_of_removals_asks_for_directories_once() {
    const FILES: usize = 40;
    let server = Server::shared_seaweed();
    let proxy = Proxy::before(server);
    let place = Place::on(server).through(&proxy);
    block_on(async {
        let storage = place.try_open().await.unwrap();
        let files: Vec<_> = (0..FILES).map(|number| format!("d/{number}")).collect();
        let written = files.iter().map(|path| write(path, "x")).collect();
        apply(&storage, written).await.unwrap();
        proxy.forget();
        let run = files.iter().map(|path| remove(path)).chain([remove("d")]);
        apply(&storage, run.collect()).await.unwrap();
        let asked = proxy.operations();
        let count = |operation| asked.iter().filter(|one| **one == operation).count();
        assert_eq!(
            (count("HEAD"), count("GET"), count("DELETE")),
            (FILES, FILES, FILES),
            "{asked:?}"
        );
        assert_eq!(count("LIST"), 1, "{asked:?}");
        assert_eq!(asked.len(), 3 * FILES + 1, "{asked:?}");
    });
}
