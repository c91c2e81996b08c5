//! A local storage in a directory of its own, with short ways to use it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tests are the other program that changes files behind the storage"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::executor::block_on;
use garret_core::{
    Batch, ErrorKind, Follow, ListOptions, Mutation, MutationOutcome, OpenContext, Precondition, RandomIds,
    ReadOptions, ReadResult, Result, Stat, StatOptions, Storage, SystemClock, Version, WsPath,
};
use garret_storage::{Durability, LocalOptions, LocalStorage};

pub struct Room {
    pub storage: LocalStorage,
    root: PathBuf,
    _keep: Option<tempfile::TempDir>,
}

impl Room {
    pub fn new() -> Self {
        Self::with(Durability::Relaxed)
    }

    pub fn with(durability: Durability) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        std::fs::create_dir(&root).unwrap();
        Self {
            storage: open(&root, durability).unwrap(),
            root,
            _keep: Some(directory),
        }
    }

    /// A second storage on the directory of another process's room.
    pub fn at(root: &Path) -> Self {
        Self {
            storage: open(root, Durability::Relaxed).unwrap(),
            root: root.to_owned(),
            _keep: None,
        }
    }

    /// The same directory, for the other program.
    pub fn host(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// A directory beside the root.
    pub fn outside(&self, path: &str) -> PathBuf {
        self.root.parent().unwrap().join(path)
    }

    pub fn apply(&self, mutation: Mutation) -> Result<MutationOutcome> {
        block_on(self.storage.apply(mutation.into())).map(|mut applied| applied.remove(0))
    }

    pub fn batch(&self, mutations: Vec<Mutation>) -> Result<Vec<MutationOutcome>> {
        block_on(self.storage.apply(Batch {
            mutations,
            follow: Follow::Inside,
            ..Batch::default()
        }))
    }

    pub fn write(&self, path: &str, content: &str) -> Result<MutationOutcome> {
        self.apply(Mutation::write(at(path), content.to_owned()))
    }

    pub fn write_if(&self, path: &str, content: &str, precondition: Precondition) -> Result<MutationOutcome> {
        self.apply(Mutation::Write {
            path: at(path),
            content: content.to_owned().into(),
            precondition,
            mode: None,
            parents: true,
        })
    }

    pub fn append(&self, path: &str, content: &str) -> Result<MutationOutcome> {
        self.apply(append(path, content))
    }

    pub fn read(&self, path: &str) -> Result<ReadResult> {
        block_on(self.storage.read(&at(path), ReadOptions::default()))
    }

    pub fn text(&self, path: &str) -> String {
        String::from_utf8(self.read(path).unwrap().bytes.to_vec()).unwrap()
    }

    pub fn version(&self, path: &str) -> Version {
        self.read(path).unwrap().version
    }

    pub fn stat(&self, path: &str) -> Result<Stat> {
        block_on(self.storage.stat(&at(path), StatOptions::default()))
    }

    pub fn deep(&self) -> Vec<String> {
        self.list("", true)
    }

    pub fn list(&self, path: &str, is_deep: bool) -> Vec<String> {
        let options = ListOptions {
            is_deep,
            ..ListOptions::default()
        };
        let page = block_on(self.storage.list(&at(path), options)).unwrap();
        page.entries.iter().map(|entry| entry.path.display_path()).collect()
    }

    /// Names in the directory as the host sees them, temporary ones included.
    pub fn host_names(&self, path: &str) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(self.host(path))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

pub fn open(root: &Path, durability: Durability) -> Result<LocalStorage> {
    let options = LocalOptions {
        dir: root.to_str().unwrap().to_owned(),
        durability,
    };
    LocalStorage::open(&options, &context())
}

pub fn context() -> OpenContext {
    OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
        history: garret_core::HistoryMode::Durable,
    }
}

pub fn at(path: &str) -> WsPath {
    WsPath::parse(path).unwrap()
}

pub fn append(path: &str, content: &str) -> Mutation {
    Mutation::Append {
        path: at(path),
        content: content.to_owned().into(),
        precondition: Precondition::Any,
        create: true,
    }
}

pub fn remove(path: &str, recursive: bool) -> Mutation {
    Mutation::Remove {
        path: at(path),
        recursive,
        precondition: Precondition::Any,
    }
}

pub fn rename(from: &str, to: &str, overwrite: bool) -> Mutation {
    Mutation::Rename {
        from: at(from),
        to: at(to),
        overwrite,
        parents: true,
    }
}

pub fn copy(from: &str, to: &str, overwrite: bool) -> Mutation {
    Mutation::Copy {
        from: at(from),
        to: at(to),
        overwrite,
        parents: true,
    }
}

pub fn make_dir(path: &str) -> Mutation {
    Mutation::MakeDir {
        path: at(path),
        parents: true,
    }
}

pub fn set_mode(path: &str, mode: u32) -> Mutation {
    Mutation::SetMode { path: at(path), mode }
}

pub fn kind<T: std::fmt::Debug>(outcome: Result<T>) -> ErrorKind {
    outcome.unwrap_err().kind()
}
