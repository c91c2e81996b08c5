//! Keys that are no path, and keys beside the prefix: never hit by accident.

use garret_core::ErrorKind;
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{append_or_create, make_dirs, remove_tree, rename_over, write};
use garret_testkit::s3::Server;

use crate::place::Place;

/// Those that the server takes.
fn put_odd(server: &Server, place: &Place, keys: &[&str]) -> Vec<String> {
    let mut boto = server.boto();
    let taken = keys.iter().map(|key| place.key(key));
    taken
        .filter(|key| boto.try_put(key, key.as_bytes(), &[]).is_ok())
        .collect()
}

#[test]
fn keys_that_are_no_path_are_left_alone() {
    let server = Server::shared_moto();
    let place = Place::on(server);
    let odd = put_odd(
        server,
        &place,
        &["a//b", "../x", "a/./b", "/lead", "a/../c", "./d", "..", "."],
    );
    assert!(odd.len() >= 6, "{odd:?}");
    block_on(async {
        let probe = place.open().await;
        for absent in ["a/b", "x", "c", "lead", "d"] {
            let error = probe.try_read(absent).await.expect_err("nothing is at this path");
            assert!(
                matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory),
                "{absent}: {error:?}"
            );
        }
        for at in ["a/b", "x", "c", "lead", "d", "a/e/f"] {
            probe.write(at, at).await;
            assert_eq!(probe.text(at).await, at);
        }
        for at in probe.names("").await {
            let _ = probe.try_apply(remove_tree(&at)).await;
        }
        for key in &odd {
            assert_eq!(server.boto().get(key).body, key.as_bytes(), "{key} is as it was");
        }
    });
}

#[test]
fn a_key_that_is_a_file_and_a_prefix_loses_neither() {
    for server in [Server::shared_seaweed(), Server::shared_moto()] {
        let place = Place::on(server);
        put_odd(server, &place, &["both", "both/below", "other"]);
        block_on(async {
            let probe = place.open().await;
            let names = probe.names("").await;
            assert!(names.contains(&"other".to_owned()), "{names:?}");
            let unique: std::collections::BTreeSet<_> = names.iter().collect();
            assert_eq!(unique.len(), names.len(), "nothing is listed twice: {names:?}");
            let _ = probe.try_apply(write("both/below", "changed")).await;
            let _ = probe.try_apply(rename_over("both", "elsewhere")).await;
        });
        let mut boto = server.boto();
        let kept: Vec<_> = boto.keys(&place.key("")).iter().map(|key| boto.get(key).body).collect();
        let has = |text: &str| kept.contains(&place.key(text).into_bytes());
        assert!(has("both"), "the file is there, under whatever name");
        assert!(
            has("both/below") || kept.contains(&b"changed".to_vec()),
            "so is what lies below"
        );
    }
}

/// Nothing that is done inside reaches what merely begins the same, or the prefix itself.
#[test]
fn nothing_outside_the_prefix_is_touched() {
    for server in [Server::shared_seaweed(), Server::shared_moto()] {
        let place = Place::on(server);
        let outside = [format!("{}-sibling/f", place.prefix), format!("{}0", place.prefix)];
        for key in &outside {
            server.boto().put(key, b"theirs", &[]);
        }
        block_on(async {
            let probe = place.open().await;
            probe.write("a/f", "x").await;
            for at in ["", ".", "/", "a/.."] {
                probe.refuses(ErrorKind::IsADirectory, write(at, "y")).await;
                probe.refuses(ErrorKind::IsADirectory, append_or_create(at, "y")).await;
                let removed = probe.try_apply(remove_tree(at)).await;
                assert!(removed.is_err(), "{at:?} is the root");
            }
            let _ = probe.try_apply(make_dirs("")).await;
            assert_eq!(probe.names_deep("").await, ["a", "a/f"]);
            probe.apply(remove_tree("a")).await;
        });
        let mut boto = server.boto();
        assert_eq!(boto.keys(&place.prefix), outside);
    }
}

/// The reserved directory is neither listed nor written.
#[test]
fn what_is_reserved_is_refused() {
    let server = Server::shared_seaweed();
    let place = Place::on(server);
    server.boto().put(&place.key(".garret/notes"), b"x", &[]);
    block_on(async {
        let probe = place.open().await;
        probe.write("f", "x").await;
        assert_eq!(probe.names_deep("").await, ["f"]);
        let error = probe
            .try_apply(write(".garret/x", "y"))
            .await
            .expect_err("it is reserved");
        assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
        let error = probe.try_read(".garret/notes").await.expect_err("it is reserved");
        assert!(
            matches!(error.kind(), ErrorKind::Denied | ErrorKind::NotFound),
            "{error:?}"
        );
        let renamed = probe.try_apply(rename_over("f", ".garret/f")).await;
        assert_eq!(renamed.expect_err("it is reserved").kind(), ErrorKind::Denied);
    });
}
