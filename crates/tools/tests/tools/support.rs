//! A workspace in memory with its tools, and calls on it.

use std::sync::{Arc, OnceLock};

use futures::executor::block_on;
use garret_core::{CountedIds, FixedClock, FsPolicy, HistoryMode, MemoryStorage, OpenContext, ToolsConfig};
use garret_depot::{Depot, DepotOptions, DepotWorkspace, NewWorkspace};
use garret_tools::{Definition, ToolAnswer, Toolbox};
use garret_workspace::Workspace;
use serde_json::{Value, json};

use crate::conform;

static SCHEMAS: OnceLock<Vec<Definition>> = OnceLock::new();

/// A workspace named `box` whose clock stands still.
pub(crate) fn workspace(policy: FsPolicy) -> Workspace {
    let clock = still();
    let storage = Arc::new(MemoryStorage::new(clock.clone()));
    Workspace::builder(storage)
        .name("box")
        .policy(policy)
        .clock(clock)
        .open()
        .unwrap()
}

fn still() -> Arc<FixedClock> {
    Arc::new(FixedClock::starting_at("2026-01-02T03:04:05Z".parse().unwrap()))
}

/// An empty room of a depot in memory; its clock stands still and ids are counted.
pub(crate) fn room() -> DepotWorkspace {
    let context = OpenContext {
        clock: still(),
        ids: Arc::new(CountedIds::default()),
        history: HistoryMode::Durable,
    };
    let depot = Depot::in_memory(DepotOptions::default(), context).unwrap();
    block_on(depot.create(NewWorkspace::named("box"))).unwrap()
}

/// A workspace named `box` with a history.
pub(crate) fn with_history(policy: FsPolicy) -> Workspace {
    over_room(room(), policy)
}

/// A workspace named `box` on a room.
pub(crate) fn over_room(room: DepotWorkspace, policy: FsPolicy) -> Workspace {
    Workspace::builder(Arc::new(room.clone()))
        .history(Some(Arc::new(room)))
        .name("box")
        .policy(policy)
        .clock(still())
        .open()
        .unwrap()
}

/// The tools of an empty workspace with a history.
pub(crate) fn historic() -> Toolbox {
    Toolbox::new(with_history(FsPolicy::default()), ToolsConfig::default())
}

/// The tools of an empty workspace.
pub(crate) fn toolbox() -> Toolbox {
    Toolbox::new(workspace(FsPolicy::default()), ToolsConfig::default())
}

/// The tools of an empty workspace, with answers of at most so many lines and KiB.
pub(crate) fn bounded(max_lines: usize, max_kib: usize) -> Toolbox {
    let config = ToolsConfig {
        max_lines,
        max_kib,
        ..ToolsConfig::default()
    };
    Toolbox::new(workspace(FsPolicy::default()), config)
}

/// Calls a tool.
pub(crate) fn call(toolbox: &Toolbox, tool: &str, arguments: Value) -> ToolAnswer {
    block_on(toolbox.call(tool, arguments))
}

/// Calls a tool that must do what is asked; its data is held to its schema.
pub(crate) fn done(toolbox: &Toolbox, tool: &str, arguments: Value) -> (String, Value) {
    let answer = call(toolbox, tool, arguments);
    assert!(answer.ok, "{tool}: {}", answer.text);
    assert!(answer.error.is_none());
    let data = answer.data.expect("a success has data");
    let definitions = SCHEMAS.get_or_init(|| historic().definitions());
    let definition = definitions.iter().find(|definition| definition.name == tool);
    conform::check(&data, &definition.expect("it was called").output_schema, tool);
    (answer.text, data)
}

/// Calls a tool that must refuse, and gives the text.
pub(crate) fn refused(toolbox: &Toolbox, tool: &str, arguments: Value) -> String {
    let answer = call(toolbox, tool, arguments);
    assert!(!answer.ok, "{tool}: {}", answer.text);
    assert!(answer.data.is_none() && answer.error.is_some() && answer.images.is_empty());
    answer.text
}

/// Puts a text file into the workspace.
pub(crate) fn put(toolbox: &Toolbox, path: &str, content: &str) {
    done(toolbox, "write_file", json!({"path": path, "content": content}));
}
