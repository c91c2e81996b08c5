//! A workspace with commands on each storage, and looks at all that is in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use garret::{
    Approver, Capabilities, EntryKind, Garret, Home, ListRequest, MemoryEvents, RunRequest, RunResult, StorageConfig,
    Toolbox, Workspace, WorkspaceConfig,
};
use tempfile::TempDir;

/// The storages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Memory,
    Filestore,
    Local,
}

pub(crate) const ALL: [On; 3] = [On::Memory, On::Filestore, On::Local];

/// An open workspace, and where it lives.
pub(crate) struct Room {
    pub(crate) on: On,
    pub(crate) garret: Garret,
    pub(crate) home: TempDir,
    /// Where the files live on `local`; gone with the room.
    _directory: TempDir,
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
        On::Memory => "memory:".to_owned(),
        On::Filestore => "filestore:box".to_owned(),
        On::Local => format!("local:{}", directory.path().display()),
    };
    let mut config = WorkspaceConfig::on(StorageConfig::Url(storage));
    config.capabilities = Capabilities::named(["fs", "snapshot", "shell"]).unwrap();
    change(&mut config);
    let toolbox = garret.open_config("box", &config).await.unwrap();
    Room {
        on,
        garret,
        home,
        _directory: directory,
        config,
        toolbox,
        events,
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
        log.changes.iter().filter(|change| change.kind == "change").count()
    }

    /// Everything in it: kind, mode, and content or target.
    pub(crate) async fn tree(&self) -> BTreeMap<String, String> {
        let request = ListRequest {
            depth: usize::MAX,
            limit: 100_000,
            cursor: None,
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

/// Runs a test on each storage.
pub(crate) fn each<F: Future<Output = ()>>(test: impl Fn(On) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    for on in ALL {
        runtime.block_on(test(on));
    }
}
