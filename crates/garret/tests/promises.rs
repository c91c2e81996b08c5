//! The promises of SEMANTICS.md, each with a test of its number, on every storage it speaks of.
//!
//! These tests go through the tools, as a model does. Finer ones stand beside the code they test.

#![allow(clippy::unwrap_used, reason = "a test ends where it is surprised")]
#![allow(
    clippy::disallowed_methods,
    reason = "a test prepares and inspects the directory behind Garret's back"
)]

mod answers;
mod boundaries;
mod crashes;
mod files;
mod history;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use garret::{
    Approval, ApprovalRequest, Approver, DeclaredCapability, DiffRequest, ErrorKind, EventOutcome, FsPolicy, Garret,
    GrepRequest, Home, ListRequest, LogRequest, MemoryEvents, MergeOptions, Point, RestoreRequest, ScopeOptions,
    SnapshotOptions, StorageConfig, Toolbox, UndoRequest, Workspace, WorkspaceConfig,
};
use serde_json::{Value, json};

/// A workspace under test, on one storage.
struct Room {
    kind: &'static str,
    toolbox: Toolbox,
    events: Arc<MemoryEvents>,
    directory: Option<tempfile::TempDir>,
    home: tempfile::TempDir,
}

impl Room {
    async fn open(kind: &'static str, policy: FsPolicy) -> Self {
        let directory = (kind == "local").then(|| tempfile::tempdir().unwrap());
        let url = match (&directory, kind) {
            (Some(directory), _) => format!("local:{}", directory.path().display()),
            (None, "filestore") => "filestore:room".to_owned(),
            (None, _) => "memory:".to_owned(),
        };
        let home = tempfile::tempdir().unwrap();
        let events = Arc::new(MemoryEvents::default());
        let mut config = WorkspaceConfig::with_storage(StorageConfig::Url(url));
        config.capabilities.fs = DeclaredCapability::Options(policy);
        let toolbox = Garret::new()
            .home(Home::new(home.path()))
            .events(events.clone())
            .open_config("room", &config)
            .await
            .unwrap();
        Self {
            kind,
            toolbox,
            events,
            directory,
            home,
        }
    }

    /// What a program that opens the same home finds there.
    async fn reopened(&self) -> Toolbox {
        let reference = self.toolbox.workspace().reference().unwrap();
        let garret = Garret::new().home(Home::new(self.home.path()));
        garret.resolve(&reference).await.unwrap()
    }

    /// A branch, as another program finds it in the home; of files that end with this one, as this one does.
    async fn branch(&self, name: &str) -> Toolbox {
        let garret = Garret::new().home(Home::new(self.home.path()));
        match self.kind {
            "memory" => garret.open_branch(self.workspace(), name).await.unwrap(),
            _ => garret.open_named(name).await.unwrap(),
        }
    }

    fn workspace(&self) -> &Workspace {
        self.toolbox.workspace()
    }

    async fn mode(&self, path: &str) -> Option<String> {
        self.workspace().stat(path).await.unwrap().mode
    }

    async fn exists(&self, path: &str) -> bool {
        self.call("exists", json!({"path": path})).await["exists"] == true
    }

    /// Calls a tool that must succeed; its data comes back.
    async fn call(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.toolbox.call(tool, arguments.clone()).await;
        assert!(answer.ok, "{tool} {arguments} on {}: {}", self.kind, answer.text);
        answer.data.unwrap()
    }

    /// Calls a tool that must fail; the kind of its error comes back.
    async fn refused(&self, tool: &str, arguments: Value) -> String {
        let answer = self.toolbox.call(tool, arguments.clone()).await;
        assert!(!answer.ok, "{tool} {arguments} on {} should fail", self.kind);
        answer.error.unwrap().kind().to_string()
    }

    async fn write(&self, path: &str, content: &str) -> Value {
        self.call("write_file", json!({"path": path, "content": content})).await
    }

    async fn read(&self, path: &str) -> String {
        self.call("read_file", json!({"path": path})).await["content"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    async fn bytes(&self, path: &str) -> Vec<u8> {
        self.toolbox.workspace().read_bytes(path).await.unwrap().bytes.to_vec()
    }

    /// Puts a link where tools cannot: behind the workspace.
    async fn link(&self, path: &str, target: &str) {
        if let Some(directory) = &self.directory {
            std::os::unix::fs::symlink(target, directory.path().join(path)).unwrap();
        }
    }

    fn host_path(&self) -> Option<PathBuf> {
        self.directory.as_ref().map(|directory| directory.path().to_owned())
    }
}

async fn rooms(policy: FsPolicy) -> [Room; 3] {
    [
        Room::open("memory", policy.clone()).await,
        Room::open("local", policy.clone()).await,
        Room::open("filestore", policy).await,
    ]
}

async fn open_rooms() -> [Room; 3] {
    rooms(FsPolicy::default()).await
}

fn denying(patterns: &[&str]) -> FsPolicy {
    FsPolicy {
        deny_read: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
        ..FsPolicy::default()
    }
}
