//! From a configuration to a workspace: what is opened, what is refused, what is injected.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use std::sync::Arc;

use futures::executor::block_on;
use garret::{
    CountedIds, ErrorKind, FixedClock, Garret, MemoryEvents, OpenContext, OpenedStorage, Result, StorageFactory,
    Timestamp, ToolNaming, WorkspaceConfig, WriteOptions, async_trait,
};
use serde_json::{Map, Value, json};

fn config(text: &str) -> WorkspaceConfig {
    WorkspaceConfig::from_toml(text).unwrap()
}

#[test]
fn a_url_opens_a_workspace_with_every_tool() {
    let toolbox = block_on(Garret::new().open_url("memory:")).unwrap();
    assert_eq!(toolbox.definitions().len(), 23);
    assert_eq!(toolbox.workspace().name(), "workspace");
}

#[test]
fn an_unknown_kind_is_refused_with_the_nearest() {
    let error = block_on(Garret::new().open_url("memry:")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.hint_text().starts_with("did you mean `memory`?"), "{error}");
}

#[test]
fn a_capability_that_is_not_built_is_refused() {
    let error = WorkspaceConfig::from_toml("storage = 'memory:'\n[capabilities]\ngit = true\n").unwrap_err();
    assert!(error.message().contains("git"), "{error}");
}

#[test]
fn without_the_capability_there_are_no_tools_and_the_workspace_itself_is_shut() {
    let toolbox =
        block_on(Garret::new().open_config("shut", &config("storage = 'memory:'\ncapabilities = { fs = false }")))
            .unwrap();
    assert!(toolbox.definitions().is_empty());
    let write = block_on(toolbox.workspace().write("a", "x", WriteOptions::default()));
    assert_eq!(write.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(
        block_on(toolbox.workspace().read_bytes("a")).unwrap_err().kind(),
        ErrorKind::Denied
    );
}

#[test]
fn naming_and_policy_come_from_the_configuration() {
    let config =
        config("storage = 'memory:'\ntools = { naming = 'prefixed' }\ncapabilities = { fs = { readOnly = true } }");
    assert_eq!(config.tools.naming, ToolNaming::Prefixed);
    let toolbox = block_on(Garret::new().open_config("box", &config)).unwrap();
    let answer = block_on(toolbox.call("workspace__box__write_file", json!({"path": "a", "content": "x"})));
    assert_eq!(answer.error.unwrap().refused_by(), Some("read_only = true"));
}

#[test]
fn clock_ids_and_events_are_injected() {
    let events = Arc::new(MemoryEvents::default());
    let garret = Garret::new()
        .clock(Arc::new(FixedClock::starting_at(Timestamp::UNIX_EPOCH)))
        .ids(Arc::new(CountedIds::default()))
        .events(events.clone());
    let toolbox = block_on(garret.open_url("memory:")).unwrap();
    block_on(toolbox.call("write_file", json!({"path": "a", "content": "x"})));
    let event = events.events().remove(0);
    assert_eq!(
        (event.id.as_str(), event.at, event.operation.as_ref(), event.bytes),
        ("id-3", Timestamp::UNIX_EPOCH, "write_file", 1)
    );
}

#[test]
fn a_wrong_policy_is_found_before_the_storage_is_opened() {
    #[derive(Debug)]
    struct Untouchable;

    #[async_trait]
    impl StorageFactory for Untouchable {
        fn kind(&self) -> &'static str {
            "untouchable"
        }

        fn parse_url(&self, _rest: &str) -> Result<Map<String, Value>> {
            Ok(Map::new())
        }

        async fn open(&self, _options: Map<String, Value>, _context: &OpenContext) -> Result<OpenedStorage> {
            panic!("it is opened")
        }
    }

    let config = config("storage = 'untouchable:'\ncapabilities = { fs = { deny_read = ['a[b'] } }");
    let error = block_on(Garret::new().register(Untouchable).open_config("box", &config)).unwrap_err();
    assert!(error.message().contains("deny_read"), "{error}");
}

#[test]
fn a_missing_directory_is_named_as_it_was_written() {
    let garret = Garret::new().relative_to("/somewhere/private");
    let error = block_on(garret.open_config("box", &config("storage = 'local:notes'"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        error.message().contains("`notes`") && !error.to_string().contains("private"),
        "{error}"
    );
}
