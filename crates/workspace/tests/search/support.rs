//! The same files in memory and on disk, and short ways to search them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use futures::executor::block_on;
use garret_core::{
    AccessLimits, Batch, Clock, CountedIds, FixedClock, FsPolicy, MemoryStorage, Mutation, OpenContext, Storage,
    SystemClock, Timestamp, WsPath,
};
use garret_storage::{Durability, LocalOptions, LocalStorage};
use garret_workspace::{GlobRequest, GlobResult, GrepRequest, GrepResult, Workspace};
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
    let clock: Arc<dyn Clock> = Arc::new(FixedClock::starting_at(Timestamp::UNIX_EPOCH));
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
    pub(crate) fn workspaces(&self) -> [Workspace; 3] {
        self.with_policy(&FsPolicy::default())
    }

    /// The files in memory, on disk, and as if those in memory were far away.
    pub(crate) fn with_policy(&self, policy: &FsPolicy) -> [Workspace; 3] {
        let reaches = [false, false, true].map(|is_far| AccessLimits {
            is_remote: is_far,
            ..AccessLimits::default()
        });
        let storages = [&self.memory, &self.local, &self.memory];
        let mut pairs = storages.into_iter().zip(reaches);
        std::array::from_fn(|_| {
            let (storage, reach) = pairs.next().unwrap();
            let builder = Workspace::builder(Arc::clone(storage)).policy(policy.clone());
            builder.access_limits(reach).open().unwrap()
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

    /// What all answer to a search by name; fails where they differ.
    pub(crate) fn glob(&self, request: &GlobRequest) -> GlobResult {
        let [memory, local, far] = self
            .workspaces()
            .map(|workspace| block_on(workspace.glob(request.clone())).unwrap());
        assert_eq!(memory, local, "one meaning on every storage");
        assert_eq!(memory, far, "however far away");
        memory
    }

    pub(crate) fn paths(&self, pattern: &str) -> Vec<String> {
        self.glob(&globbing(pattern)).paths
    }

    /// What all answer to a search by content; fails where they differ.
    pub(crate) fn grep(&self, request: &GrepRequest) -> GrepResult {
        let [memory, local, far] = self
            .workspaces()
            .map(|workspace| block_on(workspace.grep(request.clone())).unwrap());
        assert_eq!(memory, local, "one meaning on every storage");
        assert_eq!(memory, far, "however far away");
        memory
    }

    /// The lines that all find, as `path:line_number:line`.
    pub(crate) fn lines(&self, request: &GrepRequest) -> Vec<String> {
        lines(&self.grep(request))
    }
}

pub(crate) fn lines(found: &GrepResult) -> Vec<String> {
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
pub(crate) fn skipped(found: &GrepResult) -> BTreeMap<&str, &str> {
    let pairs = found.skipped.iter();
    pairs.map(|skipped| (skipped.path.as_str(), skipped.reason)).collect()
}
