//! A workspace with commands on each storage, and looks at all that is in it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use garret::{
    Approver, Capabilities, EntryKind, Garret, Home, ListRequest, MemoryEvents, OutputRequest, RunRequest, RunResult,
    StorageConfig, Toolbox, Workspace, WorkspaceConfig,
};
use garret_testkit::s3::{Keys, Server};
use serde_json::json;
use tempfile::TempDir;

/// The storages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Memory,
    Filestore,
    Local,
    /// A prefix of its own in a bucket of SeaweedFS.
    S3,
}

pub(crate) const ALL: [On; 3] = [On::Memory, On::Filestore, On::Local];

/// An open workspace, and where it lives.
pub(crate) struct Room {
    pub(crate) on: On,
    pub(crate) garret: Garret,
    pub(crate) home: TempDir,
    /// Where the files live on `local`; gone with the room.
    pub(crate) directory: TempDir,
    pub(crate) config: WorkspaceConfig,
    pub(crate) toolbox: Toolbox,
    pub(crate) events: Arc<MemoryEvents>,
}

/// A workspace with files, snapshots and commands.
pub(crate) async fn room(on: On) -> Room {
    room_with(on, |_| {}).await
}

/// The same with a part of its configuration changed.
pub(crate) async fn room_with(on: On, change: impl FnOnce(&mut WorkspaceConfig)) -> Room {
    let (home, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let events = Arc::new(MemoryEvents::default());
    let garret = Garret::new().home(Home::new(home.path())).events(events.clone());
    room_of(on, garret, (home, directory), events, change).await
}

/// The same, with somebody who answers for what needs approval.
pub(crate) async fn room_asking(
    on: On,
    approver: Arc<dyn Approver>,
    change: impl FnOnce(&mut WorkspaceConfig),
) -> Room {
    let (home, directory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let events = Arc::new(MemoryEvents::default());
    let garret = Garret::new().home(Home::new(home.path())).events(events.clone());
    room_of(on, garret.approver(approver), (home, directory), events, change).await
}

async fn room_of(
    on: On,
    garret: Garret,
    (home, directory): (TempDir, TempDir),
    events: Arc<MemoryEvents>,
    change: impl FnOnce(&mut WorkspaceConfig),
) -> Room {
    let storage = match on {
        On::Memory => StorageConfig::Url("memory:".to_owned()),
        On::Filestore => StorageConfig::Url("filestore:box".to_owned()),
        On::Local => StorageConfig::Url(format!("local:{}", directory.path().display())),
        On::S3 => in_a_bucket(),
    };
    let mut config = WorkspaceConfig::with_storage(storage);
    config.capabilities = Capabilities::from_names(["fs", "snapshot", "shell"]).unwrap();
    change(&mut config);
    let toolbox = garret.open_config("box", &config).await.unwrap();
    Room {
        on,
        garret,
        home,
        directory,
        config,
        toolbox,
        events,
    }
}

/// Names the server of another process: an unprivileged user may not start the programs that root has installed for the tests.
pub(crate) const S3_ENDPOINT: &str = "GARRET_TEST_S3_ENDPOINT";

/// A prefix that nobody else has, on the server that [`S3_ENDPOINT`] names or on the server of this process.
fn in_a_bucket() -> StorageConfig {
    static NEXT_PREFIX: AtomicU64 = AtomicU64::new(0);
    let endpoint = std::env::var(S3_ENDPOINT).unwrap_or_else(|_| Server::shared_seaweed().endpoint());
    let number = NEXT_PREFIX.fetch_add(1, Ordering::Relaxed);
    let keys = Keys::admin();
    let options = json!({
        "bucket": Server::BUCKET, "prefix": format!("shell-{}-{number}", std::process::id()), "endpoint": endpoint,
        "force_path_style": true, "access_key_id": keys.access_key_id, "secret_access_key": keys.secret_access_key,
    });
    StorageConfig::Table {
        kind: "s3".into(),
        options: options.as_object().unwrap().clone(),
    }
}

impl Room {
    pub(crate) fn workspace(&self) -> &Workspace {
        self.toolbox.workspace()
    }

    /// Runs a text that must succeed.
    pub(crate) async fn sh(&self, text: &str) -> RunResult {
        let result = self.run(text).await;
        assert_eq!(result.exit_code, 0, "{:?}: {text}: {}", self.on, result.output);
        result
    }

    /// Runs a text, however it ends.
    pub(crate) async fn run(&self, text: &str) -> RunResult {
        let ran = self.workspace().run(RunRequest::shell(text)).await;
        ran.unwrap_or_else(|error| panic!("{:?}: {text}: {error}", self.on))
    }

    /// Starts a text in the background; gives its id.
    pub(crate) async fn start(&self, text: &str) -> String {
        let started = self.workspace().start(RunRequest::shell(text)).await;
        started
            .unwrap_or_else(|error| panic!("{:?}: {text}: {error}", self.on))
            .id
    }

    /// Waits until a process has written `wanted`; gives all that it wrote.
    pub(crate) async fn output_with(&self, id: &str, wanted: &str) -> String {
        let (mut text, mut cursor) = (String::new(), 0);
        for _ in 0..300 {
            let request = OutputRequest {
                id: id.to_owned(),
                cursor,
                wait: Duration::from_millis(100),
                max_bytes: 100_000,
                with_tail: false,
                with_details: false,
            };
            let output = self.workspace().output(request).await.unwrap();
            text.push_str(&output.output);
            cursor = output.cursor;
            if text.contains(wanted) {
                return text;
            }
            let may_say_more = output.process.running || output.has_more;
            assert!(may_say_more, "{:?}: {text}: {output:?}", self.on);
        }
        panic!("{:?}: {wanted:?} did not come: {text}", self.on);
    }

    pub(crate) async fn write(&self, path: &str, content: &str) {
        let content = content.to_owned().into_bytes();
        self.workspace().write(path, content, Default::default()).await.unwrap();
    }

    pub(crate) async fn read(&self, path: &str) -> String {
        let read = self.workspace().read_bytes(path).await;
        let read = read.unwrap_or_else(|error| panic!("{:?}: {path}: {error}", self.on));
        String::from_utf8(read.bytes.to_vec()).unwrap()
    }

    pub(crate) async fn undo(&self) {
        let undone = self.workspace().undo(garret::UndoRequest::Last(1)).await;
        undone.unwrap_or_else(|error| panic!("{:?}: {error}", self.on));
    }

    pub(crate) async fn redo(&self) {
        let redone = self.workspace().redo().await;
        redone.unwrap_or_else(|error| panic!("{:?}: {error}", self.on));
    }

    /// How many changes of somebody's work there are.
    pub(crate) async fn changes(&self) -> usize {
        let log = self.workspace().log(Default::default()).await.unwrap();
        log.changes
            .iter()
            .filter(|change| change.kind.as_str() == "change")
            .count()
    }

    /// Everything in it: kind, mode, and content or target.
    pub(crate) async fn tree(&self) -> BTreeMap<String, String> {
        let request = ListRequest {
            depth: usize::MAX,
            limit: 100_000,
            ..ListRequest::default()
        };
        let mut tree = BTreeMap::new();
        for entry in self.workspace().list("", request).await.unwrap().entries {
            let described = match entry.escaped {
                true => format!("{:?} {}", entry.r#type, entry.size),
                false => self.described(&entry.path).await,
            };
            tree.insert(entry.path, described);
        }
        tree
    }

    async fn described(&self, path: &str) -> String {
        let stat = self.workspace().stat(path).await.unwrap();
        match stat.r#type {
            EntryKind::File => {
                let read = self.workspace().read_bytes(path).await.unwrap();
                format!("file {:?} {:?}", stat.mode, read.bytes)
            }
            EntryKind::Symlink => format!("link {:?}", stat.target),
            kind => format!("{kind:?} {:?}", stat.mode),
        }
    }
}

/// Runs a test on each storage of this machine.
pub(crate) fn each<F: Future<Output = ()>>(test: impl Fn(On) -> F) {
    on_all(&ALL, test);
}

/// Runs a test in a bucket too: for what a storage far away does in its own manner. The others would only take longer there.
pub(crate) fn everywhere<F: Future<Output = ()>>(test: impl Fn(On) -> F) {
    on_all(&ALL, &test);
    on_s3(test);
}

/// Runs a test in a bucket.
pub(crate) fn on_s3<F: Future<Output = ()>>(test: impl Fn(On) -> F) {
    on_all(&[On::S3], test);
}

/// Runs a test on each of these storages.
pub(crate) fn on_all<F: Future<Output = ()>>(storages: &[On], test: impl Fn(On) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    for on in storages {
        runtime.block_on(test(*on));
    }
}
