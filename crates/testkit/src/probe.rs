//! A storage with the comforts of a test: paths as text, a panic with the reason where something fails that should not.

use std::sync::Arc;

use garret_core::{
    Batch, Content, EntryKind, EntryPath, Error, ErrorKind, Follow, ListOptions, ListPage, Mutation, MutationOutcome,
    Precondition, ReadOptions, ReadResult, Result, Stat, StatOptions, Storage, StorageInfo, Version, WsPath,
};

use crate::mutations::{self, path};
use crate::{Node, Tree};

/// A storage under test.
#[derive(Debug, Clone)]
pub struct Probe {
    storage: Arc<dyn Storage>,
    hidden: Option<Arc<str>>,
    is_far: bool,
}

impl Probe {
    /// Probes `storage`; `hidden` is what no error may show.
    pub fn new(storage: Arc<dyn Storage>, hidden: Option<Arc<str>>) -> Self {
        let is_far = false;
        Self {
            storage,
            hidden,
            is_far,
        }
    }

    /// The same for a storage of which every file costs a request.
    #[must_use]
    pub fn far(mut self) -> Self {
        self.is_far = true;
        self
    }

    /// How many files stand for `count` here: all of them, or a quarter where each costs a request.
    pub fn many(&self, count: usize) -> usize {
        if self.is_far { count / 4 } else { count }
    }

    /// The storage itself.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// What the storage is.
    pub fn info(&self) -> StorageInfo {
        self.storage.info()
    }

    /// Applies one mutation.
    pub async fn try_apply(&self, mutation: Mutation) -> Result<MutationOutcome> {
        let mut applied = self.storage.apply(Batch::from(mutation)).await?;
        assert_eq!(applied.len(), 1, "one mutation leaves one result");
        Ok(applied.remove(0))
    }

    /// Applies one mutation that must succeed.
    pub async fn apply(&self, mutation: Mutation) -> MutationOutcome {
        let shown = format!("{mutation:?}");
        self.try_apply(mutation)
            .await
            .unwrap_or_else(|error| panic!("{shown} fails: {error:?}"))
    }

    /// Applies mutations together.
    pub async fn try_batch(&self, mutations: Vec<Mutation>) -> Result<Vec<MutationOutcome>> {
        let follow = Follow::Inside;
        self.storage
            .apply(Batch {
                mutations,
                follow,
                ..Batch::default()
            })
            .await
    }

    /// Applies mutations together, which must succeed.
    pub async fn batch(&self, mutations: Vec<Mutation>) -> Vec<MutationOutcome> {
        let count = mutations.len();
        let applied = self
            .try_batch(mutations)
            .await
            .unwrap_or_else(|error| panic!("the batch fails: {error:?}"));
        assert_eq!(applied.len(), count, "a batch leaves one result for each mutation");
        applied
    }

    /// Applies a mutation that must fail with `kind`, name a path, give a hint, and change nothing.
    pub async fn refuses(&self, kind: ErrorKind, mutation: Mutation) -> Error {
        self.refuses_batch(kind, vec![mutation]).await
    }

    /// Applies mutations that must fail with `kind` and change nothing, the ones that would have worked included.
    pub async fn refuses_batch(&self, kind: ErrorKind, mutations: Vec<Mutation>) -> Error {
        let follow = Follow::Inside;
        self.refuses_following(follow, kind, mutations).await
    }

    /// The same with a choice of how links are treated.
    pub async fn refuses_following(&self, follow: Follow, kind: ErrorKind, mutations: Vec<Mutation>) -> Error {
        let before = self.tree().await;
        let shown = format!("{mutations:?}");
        let outcome = self
            .storage
            .apply(Batch {
                mutations,
                follow,
                ..Batch::default()
            })
            .await;
        let error = self.expect_error(kind, &shown, outcome);
        assert_eq!(self.tree().await, before, "{shown} failed and still changed something");
        error
    }

    /// Takes the error out of `outcome`, which must have `kind` and be fit for a user to read.
    pub fn expect_error<T: std::fmt::Debug>(&self, kind: ErrorKind, what: &str, outcome: Result<T>) -> Error {
        match outcome {
            Ok(done) => panic!("{what} must be {kind}, but gives {done:?}"),
            Err(error) => {
                assert_eq!(error.kind(), kind, "{what}: {error:?}");
                self.check_error(&error);
                error
            }
        }
    }

    /// Checks what every error promises: a workspace path, a message, a hint, and nothing of the host.
    pub fn check_error(&self, error: &Error) {
        let named = error
            .path()
            .unwrap_or_else(|| panic!("the error names no path: {error:?}"));
        let normal = WsPath::parse(named).unwrap_or_else(|_| panic!("{named:?} is no workspace path: {error:?}"));
        assert_eq!(normal.as_str(), named, "the error names a normal path: {error:?}");
        assert!(!error.message().is_empty(), "the error has a message: {error:?}");
        assert!(!error.hint_text().is_empty(), "the error has a hint: {error:?}");
        let shown = format!("{error:?} {}", error.to_json());
        if let Some(hidden) = &self.hidden {
            assert!(!shown.contains(&**hidden), "the error shows the host: {shown}");
        }
    }

    /// Writes a file with the directories above; gives its version.
    pub async fn write(&self, at: &str, content: impl Into<Content>) -> Version {
        let applied = self.apply(mutations::write(at, content)).await;
        applied.version.expect("a write gives the new version")
    }

    /// Makes a directory with those above.
    pub async fn make_dirs(&self, at: &str) {
        self.apply(mutations::make_dirs(at)).await;
    }

    /// Reads a whole file.
    pub async fn try_read(&self, at: &str) -> Result<ReadResult> {
        self.storage.read(&path(at), ReadOptions::default()).await
    }

    /// Reads a whole file that must be there.
    pub async fn read(&self, at: &str) -> ReadResult {
        self.try_read(at)
            .await
            .unwrap_or_else(|error| panic!("{at} cannot be read: {error:?}"))
    }

    /// The content of a file as text.
    pub async fn text(&self, at: &str) -> String {
        let bytes = self.read(at).await.bytes;
        String::from_utf8(bytes.to_vec()).unwrap_or_else(|_| panic!("{at} is text"))
    }

    /// Describes an entry, with its version.
    pub async fn try_stat(&self, at: &str) -> Result<Stat> {
        let options = StatOptions {
            with_version: true,
            ..StatOptions::default()
        };
        self.storage.stat(&path(at), options).await
    }

    /// Describes an entry that must be there.
    pub async fn stat(&self, at: &str) -> Stat {
        self.try_stat(at)
            .await
            .unwrap_or_else(|error| panic!("{at} cannot be described: {error:?}"))
    }

    /// What is at a path; `None` for nothing.
    pub async fn kind(&self, at: &str) -> Option<EntryKind> {
        match self.try_stat(at).await {
            Ok(stat) => Some(stat.kind),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => None,
            Err(error) => panic!("{at} cannot be described: {error:?}"),
        }
    }

    /// Whether something is at a path.
    pub async fn exists(&self, at: &str) -> bool {
        self.kind(at).await.is_some()
    }

    /// The precondition that holds for a file as it is now.
    pub async fn unchanged(&self, at: &str) -> Precondition {
        Precondition::Version(self.read(at).await.version)
    }

    /// One page of a list.
    pub async fn page(&self, at: &str, options: ListOptions) -> ListPage {
        self.storage
            .list(&path(at), options)
            .await
            .unwrap_or_else(|error| panic!("{at:?} cannot be listed: {error:?}"))
    }

    /// The paths of the entries in a directory.
    pub async fn names(&self, at: &str) -> Vec<String> {
        self.paths(at, false, 1_000).await
    }

    /// The paths of everything below a directory.
    pub async fn names_deep(&self, at: &str) -> Vec<String> {
        self.paths(at, true, 1_000).await
    }

    /// The paths of a list that is taken in pages of `limit`.
    pub async fn paths(&self, at: &str, is_deep: bool, limit: usize) -> Vec<String> {
        let mut paths = Vec::new();
        let mut after: Option<EntryPath> = None;
        loop {
            let options = ListOptions {
                is_deep,
                after: after.take(),
                limit,
                ..ListOptions::default()
            };
            let page = self.page(at, options).await;
            assert!(
                page.entries.len() <= limit,
                "a page of {limit} has {}",
                page.entries.len()
            );
            after = page.entries.last().map(|entry| entry.path.clone());
            paths.extend(page.entries.iter().map(|entry| entry.path.display_path()));
            if !page.has_more {
                return paths;
            }
            assert!(after.is_some(), "a page that has more has entries");
        }
    }

    /// Everything in the storage.
    pub async fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        for at in self.names_deep("").await {
            let node = self.node(&at).await;
            let before = tree.insert(at.clone(), node);
            assert!(before.is_none(), "{at} is listed twice");
        }
        tree
    }

    async fn node(&self, at: &str) -> Node {
        let Stat { kind, mode, target, .. } = self.stat(at).await;
        match kind {
            EntryKind::File => Node::File {
                content: self.read(at).await.bytes,
                mode,
            },
            EntryKind::Directory => Node::Directory { mode },
            EntryKind::Symlink => Node::Symlink {
                target: target.expect("a link has a target"),
            },
            EntryKind::Other => Node::Other,
        }
    }
}
