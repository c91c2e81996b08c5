//! Small trees of files, for the tests of diffs and merges.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use garret_core::memory::MemoryStorage;
use garret_core::{
    Batch, ContentAddress, EntryKind, Mutation, PathChange, PathImage, Storage, SystemClock, Version, WsPath,
};

use super::render::fnv_hash;

/// A file, link or directory that a test puts at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TestEntry {
    File(Vec<u8>, u32),
    Link(String),
    Directory,
}

pub(crate) type TestFiles = BTreeMap<String, TestEntry>;

pub(crate) fn file(text: &str) -> TestEntry {
    TestEntry::File(text.as_bytes().to_vec(), 0o644)
}

pub(crate) fn files<const N: usize>(all: [(&str, TestEntry); N]) -> TestFiles {
    all.into_iter().map(|(path, thing)| (path.to_owned(), thing)).collect()
}

pub(crate) fn path(text: &str) -> WsPath {
    WsPath::parse(text).unwrap()
}

pub(crate) fn image(thing: &TestEntry) -> PathImage {
    let (kind, mode, content, target) = match thing {
        TestEntry::File(content, mode) => (EntryKind::File, *mode, Some(content), None),
        TestEntry::Link(target) => (EntryKind::Symlink, 0o777, None, Some(target.clone())),
        TestEntry::Directory => (EntryKind::Directory, 0o755, None, None),
    };
    let address = content.map(|content| {
        let mut address = [0; 32];
        address[..8].copy_from_slice(&fnv_hash(content).to_be_bytes());
        ContentAddress(address)
    });
    PathImage {
        kind,
        mode,
        size: content.map_or(0, Vec::len) as u64,
        version: address.map(|address| Version::new(format!("{:?}", &address.0[..8]))),
        target,
        content: address,
    }
}

pub(crate) async fn storage(files: &TestFiles) -> Arc<MemoryStorage> {
    let storage = Arc::new(MemoryStorage::new(Arc::new(SystemClock::default())));
    for (name, thing) in files {
        let path = path(name);
        let mutations = match thing {
            TestEntry::File(content, mode) => vec![
                Mutation::write(path.clone(), content.clone()),
                Mutation::SetMode { path, mode: *mode },
            ],
            TestEntry::Link(target) => vec![Mutation::Symlink {
                path,
                target: target.clone(),
            }],
            TestEntry::Directory => vec![Mutation::MakeDir { path, parents: true }],
        };
        let batch = Batch {
            mutations,
            ..Batch::default()
        };
        storage.apply(batch).await.unwrap();
    }
    storage
}

pub(crate) fn changes(before: &TestFiles, after: &TestFiles) -> Vec<PathChange> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let change = |name: &String| PathChange {
        path: path(name).into(),
        before: before.get(name).map(image),
        after: after.get(name).map(image),
    };
    let all = names.into_iter().map(change);
    all.filter(|change| change.before != change.after).collect()
}
