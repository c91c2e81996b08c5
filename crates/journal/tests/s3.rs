//! A journal over objects: what it costs in requests, and that it undoes what another tool sees.

use std::sync::Arc;

use garret_core::{
    History, OpenContext, Origin, RandomIds, ReversalOutcome, Storage, StorageFactory, SystemClock, UndoSelection,
};
use garret_depot::{Depot, DepotOptions, Durability, LazyDepot};
use garret_journal::Journaled;
use garret_storage::s3::S3Factory;
use garret_testkit::fixture::block_on;
use garret_testkit::mutations::{remove, rename, write};
use garret_testkit::s3::{Proxy, Server};
use garret_testkit::{Fixture, Probe, model};
use garret_workspace::{AppendOptions, Edit, EditOptions, Workspace, WriteOptions};
use serde_json::json;

fn context() -> OpenContext {
    OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
        history: garret_core::HistoryMode::Durable,
    }
}

/// A journal in memory over a prefix on a server.
async fn journaled(endpoint: &str, prefix: &str) -> Arc<Journaled> {
    let keys = Server::shared_seaweed().keys();
    let options = json!({
        "bucket": Server::BUCKET,
        "prefix": prefix,
        "endpoint": endpoint,
        "force_path_style": true,
        "access_key_id": keys.access_key_id,
        "secret_access_key": keys.secret_access_key,
    });
    let options = options.as_object().expect("options are an object").clone();
    let mut opened = S3Factory.open(options, &context()).await.expect("it can be opened");
    // As the composition root says it.
    opened.access_limits.is_remote = true;
    let depot = Depot::in_memory(DepotOptions::default(), context()).expect("memory needs nothing");
    let depot = Arc::new(LazyDepot::from_opened(depot));
    Journaled::open(opened, depot, Durability::Relaxed)
        .await
        .expect("the journal can be opened")
}

async fn fixture() -> Fixture {
    let server = Server::shared_seaweed();
    Fixture::new(journaled(&server.endpoint(), &server.prefix()).await)
}

#[test]
fn a_journal_over_objects_does_what_the_model_does() {
    model::run(fixture, 5, 8, true);
}

#[test]
fn history_takes_no_request_of_its_own() {
    let server = Server::shared_seaweed();
    let proxy = Proxy::before(server);
    block_on(async {
        let room = journaled(&proxy.endpoint(), &server.prefix()).await;
        let workspace = Workspace::builder(room.clone())
            .history(Some(room.clone()))
            .open()
            .expect("the default policy is sound");
        let write = async |at: &str, text: &str| {
            let written = workspace.write(at, text.to_owned(), WriteOptions::default()).await;
            written.expect("it is written");
        };
        write("notes/first.txt", "x").await;
        proxy.forget();
        let counted = || {
            let operations = proxy.operations();
            proxy.forget();
            operations
        };
        write("notes/new.txt", "one").await;
        assert_eq!(counted(), ["PUT"], "create");
        workspace.stat("notes/new.txt").await.expect("it is there");
        assert_eq!(counted(), ["HEAD"], "stat");
        write("notes/new.txt", "two").await;
        let overwrite = counted();
        assert!(overwrite.len() <= 2, "overwrite: {overwrite:?}");
        let edit = Edit {
            old_text: "two".into(),
            new_text: "three".into(),
            ..Edit::default()
        };
        let edited = workspace.edit("notes/new.txt", &[edit], EditOptions::default()).await;
        edited.expect("it is edited");
        let edit = counted();
        assert!(edit.len() <= 2, "edit: {edit:?}");
        let appended = workspace.append("notes/new.txt", "!", AppendOptions::default()).await;
        appended.expect("it is appended to");
        let append = counted();
        assert!(append.len() <= 2, "append: {append:?}");
    });
}

#[test]
fn undo_brings_back_the_objects() {
    let server = Server::shared_seaweed();
    let prefix = server.prefix();
    let seen = || {
        let mut boto = server.boto();
        let keys = boto.keys(&format!("{prefix}/"));
        // A directory may have become one of its own, which is a marker.
        let files = keys.iter().filter(|key| !key.ends_with('/'));
        let seen = files.map(|key| (key.clone(), boto.get(key).body));
        seen.collect::<Vec<_>>()
    };
    block_on(async {
        let room = journaled(&server.endpoint(), &prefix).await;
        let storage: Arc<dyn Storage> = room.clone();
        let probe = Probe::new(storage, None);
        probe.batch(vec![write("d/a", "one"), write("d/b", "two")]).await;
        let before = seen();
        assert_eq!(before.len(), 2);
        probe.apply(rename("d", "moved")).await;
        probe.batch(vec![write("moved/a", "changed"), remove("moved/b")]).await;
        assert_ne!(seen(), before);
        let reversed = room.undo(UndoSelection::Last(2), Origin::default()).await;
        let reversed = reversed.expect("it can be undone");
        assert!(matches!(reversed, ReversalOutcome::Done(_)), "{reversed:?}");
        assert_eq!(seen(), before);
    });
}
