//! What the caller is told where Garret, or what is plugged into it, is at fault.

use std::sync::Arc;

use garret_core::{Event, EventSink, FixedClock, MemoryStorage, ToolsConfig};
use garret_tools::Toolbox;
use garret_workspace::Workspace;
use serde_json::json;

use crate::support::{done, refused};

/// A sink with a fault that `stat` runs into.
#[derive(Debug)]
struct Faulty;

impl EventSink for Faulty {
    fn record_event(&self, event: &Event) {
        assert_ne!(event.operation, "stat", "the fault");
    }

    fn is_enabled(&self) -> bool {
        true
    }
}

#[test]
fn a_call_that_panics_is_answered_and_the_next_one_works() {
    let clock = Arc::new(FixedClock::starting_at("2026-01-02T03:04:05Z".parse().unwrap()));
    let storage = Arc::new(MemoryStorage::new(clock));
    let workspace = Workspace::builder(storage).events(Arc::new(Faulty)).open().unwrap();
    let toolbox = Toolbox::new(workspace, ToolsConfig::default());
    let text = refused(&toolbox, "stat", json!({"path": ""}));
    assert!(
        text.starts_with("internal: the tool failed because of a defect"),
        "{text}"
    );
    done(&toolbox, "write_file", json!({"path": "a", "content": "x"}));
}
