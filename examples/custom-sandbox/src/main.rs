//! Runs a command in a sandbox of one's own, and shows what it did.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::collections::BTreeMap;

use custom_sandbox::Offline;
use garret_core::{Command, Limits, Network, Program, Result, Sandbox, SandboxRequest, Stdin, WsPath};
use garret_sandbox::host::{HostOptions, HostSandbox};

#[tokio::main]
async fn main() -> Result<()> {
    let (bench, scratch) = (temporary(), temporary());
    // Said twice, because the example may be run by root; its commands would be root then.
    let host = HostSandbox::new(HostOptions {
        as_root: true,
        ..HostOptions::default()
    });
    let sandbox = Offline::new(host);
    for told in sandbox.probe().await.iter().filter(|told| told.is_enforced) {
        println!("{} is enforced by {}", told.guard.as_str(), told.by);
    }
    let request = SandboxRequest {
        bench: bench.path().to_owned(),
        scratch: scratch.path().to_owned(),
        hidden: Vec::new(),
        read_only: Vec::new(),
        network: Network::None,
        limits: Limits::default(),
        require: Vec::new(),
    };
    let open = sandbox.open(request).await?;
    let layer = open.lay().await?;
    let mut process = layer
        .start(command("echo hello > greeting; cat greeting; wc -l < /proc/net/route"))
        .await?;
    while let Some(chunk) = process.output().await {
        print!("{}", String::from_utf8_lossy(&chunk.bytes));
    }
    println!("exit code {}", process.wait().await?.ended.code());
    layer.lift().await?;
    for effect in layer.effects(None).await?.effects {
        println!("changed: {}", effect.path.shown());
    }
    layer.remove().await?;
    open.close().await
}

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory can be made")
}

fn command(text: &str) -> Command {
    Command {
        program: Program::Shell(text.to_owned()),
        cwd: WsPath::root(),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        stdin: Stdin::Closed,
        limits: Limits::default(),
    }
}
