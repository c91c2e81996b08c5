//! A program that gives a model a workspace: policy, approval, events and one turn of a conversation.
//!
//! The model is played by a list of calls; in a real program they come from the model's answers, and `toolbox.export` gives the tool
//! definitions for the request.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;

use garret::{
    Approval, ApprovalRequest, Approver, DeclaredCapability, ExportFormat, FsPolicy, Garret, MemoryEvents, Result,
    async_trait,
};
use serde_json::{Value, json};

/// Lets the model remove what is below `tmp`, and nothing else.
#[derive(Debug)]
struct OnlyTemporary;

#[async_trait]
impl Approver for OnlyTemporary {
    async fn ask(&self, request: ApprovalRequest) -> Approval {
        if request.paths.iter().all(|path| path.starts_with("tmp/")) {
            return Approval::Allow;
        }
        Approval::Deny {
            reason: "only temporary files may be removed".into(),
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let events = Arc::new(MemoryEvents::default());
    let mut config = Garret::config_of_dir(directory.path())?;
    config.capabilities.fs = DeclaredCapability::Options(FsPolicy {
        deny_read: vec!["**/.env".into()],
        require_approval: vec!["rm".into()],
        ..FsPolicy::default()
    });
    let garret = Garret::new().events(events.clone()).approver(Arc::new(OnlyTemporary));
    let toolbox = garret.open_config("assistant", &config).await?;

    let offered = toolbox.export(ExportFormat::Anthropic);
    println!("offers {} tools", offered.as_array().map_or(0, Vec::len));
    for (tool, arguments) in turn() {
        let answer = toolbox.call(tool, arguments).await;
        println!("{tool}: {}", answer.text.lines().next().unwrap_or_default());
    }
    println!("{} operations in the log", events.events().len());
    Ok(())
}

/// What the model calls.
fn turn() -> Vec<(&'static str, Value)> {
    vec![
        (
            "write_file",
            json!({"path": "plan.md", "content": "1. look\n2. think\n"}),
        ),
        (
            "edit_file",
            json!({"path": "plan.md", "old_text": "2. think", "new_text": "2. think twice"}),
        ),
        ("grep", json!({"pattern": "think"})),
        ("read_file", json!({"path": "config/.env"})),
        ("rm", json!({"path": "plan.md"})),
    ]
}
