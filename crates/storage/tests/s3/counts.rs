//! How many requests an operation takes.

use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{path, write};
use garret_testkit::s3::{Proxy, Server};
use garret_workspace::{AppendOptions, Edit, EditOptions, Workspace, WriteOptions};

use crate::place::Place;

#[test]
fn the_usual_operations_take_one_request_or_two() {
    let server = Server::shared_seaweed();
    let proxy = Proxy::before(server);
    block_on(async {
        let storage = Place::on(server).through(&proxy).try_open().await.unwrap();
        let workspace = Workspace::builder(storage).open().unwrap();
        let write = async |at: &str, text: &str| {
            let written = workspace.write(at, text.to_owned(), WriteOptions::default()).await;
            written.unwrap();
        };
        write("notes/first.txt", "x").await;
        let counted = || {
            let operations = proxy.operations();
            proxy.forget();
            operations
        };
        counted();
        write("notes/new.txt", "one").await;
        assert_eq!(counted(), ["PUT"], "create");
        workspace.stat("notes/new.txt").await.unwrap();
        assert_eq!(counted(), ["HEAD"], "stat");
        workspace.read_bytes("notes/new.txt").await.unwrap();
        assert_eq!(counted(), ["GET"], "read");
        write("notes/new.txt", "two").await;
        let overwrite = counted();
        assert!(overwrite.len() <= 2, "overwrite: {overwrite:?}");
        let edit = Edit {
            old_text: "two".into(),
            new_text: "three".into(),
            ..Edit::default()
        };
        workspace
            .edit("notes/new.txt", &[edit], EditOptions::default())
            .await
            .unwrap();
        assert_eq!(counted(), ["GET", "PUT"], "edit");
        workspace
            .append("notes/new.txt", "!", AppendOptions::default())
            .await
            .unwrap();
        let append = counted();
        assert!(append.len() <= 3, "append: {append:?}");
    });
}

/// A handle that knows nothing yet.
#[test]
fn a_stat_of_a_file_is_one_request_for_a_new_handle_too() {
    let server = Server::shared_seaweed();
    let proxy = Proxy::before(server);
    block_on(async {
        let place = Place::on(server).through(&proxy);
        place.open().await.write("a/b/c.txt", "x").await;
        let probe = place.open().await;
        proxy.forget();
        probe.stat("a/b/c.txt").await;
        assert_eq!(proxy.operations(), ["HEAD"]);
    });
}

#[test]
fn a_batch_asks_little() {
    let server = Server::shared_seaweed();
    let proxy = Proxy::before(server);
    block_on(async {
        let place = Place::on(server).through(&proxy);
        let probe = place.open().await;
        proxy.forget();
        probe
            .batch((0..20).map(|index| write(&format!("d/{index}"), "x")).collect())
            .await;
        assert_eq!(probe.names("d").await.len(), 20);
        let operations = proxy.operations();
        let puts = operations.iter().filter(|operation| **operation == "PUT").count();
        assert_eq!(puts, 20, "{operations:?}");
        let lists = operations.iter().filter(|operation| **operation == "LIST").count();
        assert!(lists <= 4, "{operations:?}");
        assert!(probe.storage().stat(&path("d/7"), Default::default()).await.is_ok());
    });
}
