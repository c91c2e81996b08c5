//! Plain objects: what another tool puts there is a file, and what Garret writes is what another tool sees.

use garret_core::{ErrorKind, Precondition};
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{
    append, copy, link, make_dirs, remove, remove_tree, rename, set_mode, write, write_if, write_mode,
};
use garret_testkit::s3::Server;

use crate::place::Place;

#[test]
fn objects_of_others_are_files() {
    for server in [Server::shared_seaweed(), Server::shared_moto()] {
        let place = Place::on(server);
        block_on(async {
            let probe = place.open().await;
            assert_eq!(probe.names("").await, Vec::<String>::new());
            server
                .boto()
                .put(&place.key("theirs/deep/f.txt"), b"from boto3", &[("colour", "blue")]);
            server.boto().put(&place.key("empty"), b"", &[]);
            assert_eq!(
                probe.names_deep("").await,
                ["empty", "theirs", "theirs/deep", "theirs/deep/f.txt"]
            );
            assert_eq!(probe.text("theirs/deep/f.txt").await, "from boto3");
            assert_eq!(probe.stat("theirs/deep/f.txt").await.size, 10);
            assert_eq!(probe.text("empty").await, "");
            probe.apply(append("theirs/deep/f.txt", ", and more")).await;
            let seen = server.boto().get(&place.key("theirs/deep/f.txt"));
            assert_eq!(seen.body, b"from boto3, and more");
            assert_eq!(
                seen.metadata.get("colour").map(String::as_str),
                Some("blue"),
                "what others said is kept"
            );
        });
    }
}

#[test]
fn files_are_plain_objects_at_their_paths() {
    for server in [Server::shared_seaweed(), Server::shared_moto()] {
        let place = Place::on(server);
        let keys = || server.boto().keys(&place.key(""));
        let expected = |paths: &[&str]| -> Vec<String> { paths.iter().map(|path| place.key(path)).collect() };
        block_on(async {
            let probe = place.open().await;
            probe.write("notes/a b & c.txt", "text").await;
            probe.write("notes/日本.txt", vec![0, 255, 10]).await;
            assert_eq!(keys(), expected(&["notes/a b & c.txt", "notes/日本.txt"]));
            assert_eq!(server.boto().get(&place.key("notes/日本.txt")).body, [0, 255, 10]);
            probe.apply(rename("notes", "kept")).await;
            assert_eq!(keys(), expected(&["kept/a b & c.txt", "kept/日本.txt"]));
            assert_eq!(server.boto().get(&place.key("kept/a b & c.txt")).body, b"text");
            probe.apply(copy("kept/日本.txt", "copy")).await;
            probe.apply(remove("kept/日本.txt")).await;
            assert_eq!(keys(), expected(&["copy", "kept/a b & c.txt"]));
            probe.apply(make_dirs("nothing/here")).await;
            probe.apply(remove("copy")).await;
            probe.apply(remove_tree("kept")).await;
            assert!(
                keys().contains(&place.key("nothing/here/")),
                "an empty directory is a marker: {:?}",
                keys()
            );
            probe.apply(remove_tree("nothing")).await;
            assert_eq!(keys(), Vec::<String>::new());
        });
    }
}

#[test]
fn mode_and_created_time_go_with_a_file() {
    for server in [Server::shared_seaweed(), Server::shared_moto()] {
        block_on(async {
            let place = Place::on(server);
            let probe = place.open().await;
            probe.apply(write_mode("script", "one", 0o755)).await;
            let created = probe.stat("script").await.created;
            probe.write("script", "two").await;
            probe.apply(append("script", "!")).await;
            assert_eq!(probe.stat("script").await.mode, Some(0o755));
            assert_eq!(probe.stat("script").await.created, created);
            probe.apply(copy("script", "other")).await;
            assert_eq!(probe.stat("other").await.mode, Some(0o755));
            probe.apply(rename("script", "moved")).await;
            probe.apply(set_mode("other", 0o600)).await;
            let fresh = place.open().await;
            let modes = (fresh.stat("moved").await.mode, fresh.stat("other").await.mode);
            assert_eq!(modes, (Some(0o755), Some(0o600)), "another handle sees it");
            assert_eq!(fresh.text("other").await, "two!");
        });
    }
}

#[test]
fn links_are_seen_as_links_by_another_handle() {
    block_on(async {
        let place = Place::on(Server::shared_seaweed());
        let probe = place.open().await;
        probe
            .batch(vec![
                write("real.txt", "x"),
                link("d/link", "../real.txt"),
                write("d/empty", ""),
            ])
            .await;
        let other = place.open().await;
        assert_eq!(other.tree().await, probe.tree().await);
        assert_eq!(other.stat("d/link").await.target.as_deref(), Some("../real.txt"));
        assert_eq!(other.text("d/link").await, "x");
    });
}

#[test]
fn a_write_of_others_is_seen_and_is_a_conflict() {
    for server in [Server::shared_seaweed(), Server::shared_moto()] {
        block_on(async {
            let place = Place::on(server);
            let probe = place.open().await;
            let version = probe.write("f", "ours").await;
            server.boto().put(&place.key("f"), b"theirs", &[]);
            assert_eq!(probe.text("f").await, "theirs");
            let stale = write_if("f", "again ours", Precondition::Version(version));
            let error = probe.refuses(ErrorKind::Conflict, stale).await;
            let current = error.current_version().expect("a conflict has the version").clone();
            probe
                .apply(write_if("f", "agreed", Precondition::Version(current)))
                .await;
            assert_eq!(server.boto().get(&place.key("f")).body, b"agreed");
            server.boto().delete(&place.key("f"));
            assert!(!probe.exists("f").await);
        });
    }
}

/// What this handle remembers must not outlive what others do: a name it has just seen as a file is a directory now, and the reverse.
#[test]
fn kinds_that_others_change_are_believed() {
    let server = Server::shared_seaweed();
    let place = Place::on(server);
    block_on(async {
        let probe = place.open().await;
        probe.write("a/f", "x").await;
        probe.write("b", "x").await;
        server.boto().delete(&place.key("a/f"));
        server.boto().put(&place.key("a"), b"a file", &[]);
        server.boto().delete(&place.key("b"));
        server.boto().put(&place.key("b/f"), b"below", &[]);
        assert_eq!(probe.text("a").await, "a file");
        assert_eq!(probe.text("b/f").await, "below");
        assert_eq!(probe.names_deep("").await, ["a", "b", "b/f"]);
    });
}

/// A server that makes directories of its own for what is copied must not take those for the one that has a mode.
#[test]
fn a_moved_directory_keeps_its_mode_each_time() {
    block_on(async {
        let probe = Place::on(Server::shared_seaweed()).open().await;
        let files = (0..8).map(|number| write(&format!("d-0/{number}/f"), "x"));
        probe.batch(files.chain([set_mode("d-0", 0o700)]).collect()).await;
        for turn in 0..12 {
            let (from, to) = (format!("d-{turn}"), format!("d-{}", turn + 1));
            probe.apply(rename(&from, &to)).await;
            assert_eq!(probe.stat(&to).await.mode, Some(0o700), "{to}");
        }
    });
}
