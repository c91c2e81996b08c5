//! The same files in memory and on disk, and short ways to search them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use futures::executor::block_on;
use garret_core::{
    Batch, Clock, CountedIds, FixedClock, FsPolicy, MemoryStorage, Mutation, OpenContext, Storage, SystemClock,
    Timestamp, WsPath,
};
use garret_storage::{Durability, LocalOptions, LocalStorage};
use garret_workspace::{GlobFound, GlobRequest, GrepFound, GrepRequest, Workspace};
use tempfile::TempDir;

/// One tree of files on every storage.
pub(crate) struct Rooms {
    pub(crate) dir: TempDir,
    pub(crate) memory: Arc<dyn Storage>,
    pub(crate) local: Arc<dyn Storage>,
}

pub(crate) fn rooms(files: &[(&str, &str)]) -> Rooms {
    rooms_of_bytes(files.iter().map(|(path, content)| (*path, content.as_bytes())))
}

pub(crate) fn rooms_of_bytes<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Rooms {
    let dir = tempfile::tempdir().unwrap();
    let clock: Arc<dyn Clock> = Arc::new(FixedClock::at(Timestamp::UNIX_EPOCH));
    let memory: Arc<dyn Storage> = Arc::new(MemoryStorage::new(clock));
    for (path, content) in files {
        let target = dir.path().join(path);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, content).unwrap();
        let mutation = Mutation::write(WsPath::parse(path).unwrap(), content.to_vec());
        block_on(memory.apply(Batch::from(mutation))).unwrap();
    }
    let local = Arc::new(open_local(dir.path()));
    Rooms { dir, memory, local }
}

fn open_local(dir: &Path) -> LocalStorage {
    let context = OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(CountedIds::default()),
        history: garret_core::HistoryMode::Durable,
    };
    let options = LocalOptions {
        dir: dir.to_str().unwrap().to_owned(),
        durability: Durability::Relaxed,
    };
    LocalStorage::open(&options, &context).unwrap()
}

impl Rooms {
    pub(crate) fn workspaces(&self) -> [Workspace; 2] {
        self.with_policy(&FsPolicy::default())
    }

    pub(crate) fn with_policy(&self, policy: &FsPolicy) -> [Workspace; 2] {
        [&self.memory, &self.local].map(|storage| {
            let builder = Workspace::builder(Arc::clone(storage)).policy(policy.clone());
            builder.open().unwrap()
        })
    }

    /// Makes the same link on both.
    pub(crate) fn link(&self, path: &str, target: &str) {
        let mutation = Mutation::Symlink {
            path: WsPath::parse(path).unwrap(),
            target: target.to_owned(),
        };
        for storage in [&self.memory, &self.local] {
            block_on(storage.apply(Batch::from(mutation.clone()))).unwrap();
        }
    }

    /// What both answer to a search by name; fails where they differ.
    pub(crate) fn glob(&self, request: &GlobRequest) -> GlobFound {
        let [memory, local] = self
            .workspaces()
            .map(|workspace| block_on(workspace.glob(request.clone())).unwrap());
        assert_eq!(memory, local, "one meaning on every storage");
        memory
    }

    pub(crate) fn paths(&self, pattern: &str) -> Vec<String> {
        self.glob(&globbing(pattern)).paths
    }

    /// What both answer to a search by content; fails where they differ.
    pub(crate) fn grep(&self, request: &GrepRequest) -> GrepFound {
        let [memory, local] = self
            .workspaces()
            .map(|workspace| block_on(workspace.grep(request.clone())).unwrap());
        assert_eq!(memory, local, "one meaning on every storage");
        memory
    }

    /// The lines that both find, as `path:line_number:line`.
    pub(crate) fn lines(&self, request: &GrepRequest) -> Vec<String> {
        lines(&self.grep(request))
    }
}

pub(crate) fn lines(found: &GrepFound) -> Vec<String> {
    let line = found.matches.iter();
    line.map(|found| format!("{}:{}:{}", found.path, found.line_number, found.line))
        .collect()
}

pub(crate) fn globbing(pattern: &str) -> GlobRequest {
    GlobRequest {
        pattern: pattern.to_owned(),
        ..GlobRequest::default()
    }
}

pub(crate) fn grepping(pattern: &str) -> GrepRequest {
    GrepRequest {
        pattern: pattern.to_owned(),
        ..GrepRequest::default()
    }
}

/// What was skipped and why, by path.
pub(crate) fn skipped(found: &GrepFound) -> BTreeMap<&str, &str> {
    let pairs = found.skipped.iter();
    pairs.map(|skipped| (skipped.path.as_str(), skipped.reason)).collect()
}
