//! Gives a workspace a sandbox of one's own, runs a command in it, and takes back what it did.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;

use custom_sandbox::Offline;
use garret::sandboxes::host::{HostOptions, HostSandbox};
use garret::{Garret, Result, RunRequest, WorkspaceConfig};
use serde_json::json;

/// The workspace asks for the sandbox by its kind, and for what it must enforce.
const CONFIG: &str = r#"
storage = "memory:"
[capabilities]
fs = true
shell = { sandbox = "offline", require = ["network"] }
"#;

#[tokio::main]
async fn main() -> Result<()> {
    // Said twice, because the example may be run by root; its commands would be root then.
    let host = HostSandbox::new(HostOptions {
        as_root: true,
        ..HostOptions::default()
    });
    let garret = Garret::new().sandbox(Arc::new(Offline::new(host)));
    let toolbox = garret.open_config("box", &WorkspaceConfig::from_toml(CONFIG)?).await?;
    toolbox
        .call("write_file", json!({"path": "name", "content": "world"}))
        .await;

    let text = "echo hello, $(cat name) > greeting; cat greeting; wc -l < /proc/net/route";
    let ran = toolbox.workspace().run(RunRequest::shell(text)).await?;
    print!("{}", ran.output);
    println!("exit code {}, isolated: {}", ran.exit_code, ran.isolated);
    for told in ran.guards.iter().filter(|told| told.is_enforced) {
        println!("{} is enforced by {}", told.guard.as_str(), told.by);
    }
    let undone = toolbox.call("undo", json!({})).await;
    println!("undone: {}", undone.text.lines().next().unwrap_or_default());
    println!("{}", toolbox.call("ls", json!({})).await.text);
    Ok(())
}
