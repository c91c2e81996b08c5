//! Small trees of files, for the tests of diffs and merges.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use garret_core::memory::MemoryStorage;
use garret_core::{
    Batch, ContentAddress, EntryKind, Image, Mutation, PathChange, Storage, SystemClock, Version, WsPath,
};

use super::render::fnv;

/// A file, link or directory that a test puts at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Thing {
    File(Vec<u8>, u32),
    Link(String),
    Directory,
}

pub(crate) type Files = BTreeMap<String, Thing>;

pub(crate) fn file(text: &str) -> Thing {
    Thing::File(text.as_bytes().to_vec(), 0o644)
}

pub(crate) fn files<const N: usize>(all: [(&str, Thing); N]) -> Files {
    all.into_iter().map(|(path, thing)| (path.to_owned(), thing)).collect()
}

pub(crate) fn path(text: &str) -> WsPath {
    WsPath::parse(text).unwrap()
}

pub(crate) fn image(thing: &Thing) -> Image {
    let (kind, mode, content, target) = match thing {
        Thing::File(content, mode) => (EntryKind::File, *mode, Some(content), None),
        Thing::Link(target) => (EntryKind::Symlink, 0o777, None, Some(target.clone())),
        Thing::Directory => (EntryKind::Directory, 0o755, None, None),
    };
    let address = content.map(|content| {
        let mut address = [0; 32];
        address[..8].copy_from_slice(&fnv(content).to_be_bytes());
        ContentAddress(address)
    });
    Image {
        kind,
        mode,
        size: content.map_or(0, Vec::len) as u64,
        version: address.map(|address| Version::new(format!("{:?}", &address.0[..8]))),
        target,
        content: address,
    }
}

pub(crate) async fn storage(files: &Files) -> Arc<MemoryStorage> {
    let storage = Arc::new(MemoryStorage::new(Arc::new(SystemClock::default())));
    for (name, thing) in files {
        let path = path(name);
        let mutations = match thing {
            Thing::File(content, mode) => vec![
                Mutation::write(path.clone(), content.clone()),
                Mutation::SetMode { path, mode: *mode },
            ],
            Thing::Link(target) => vec![Mutation::Symlink {
                path,
                target: target.clone(),
            }],
            Thing::Directory => vec![Mutation::MakeDir { path, parents: true }],
        };
        let batch = Batch {
            mutations,
            ..Batch::default()
        };
        storage.apply(batch).await.unwrap();
    }
    storage
}

pub(crate) fn changes(before: &Files, after: &Files) -> Vec<PathChange> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let change = |name: &String| PathChange {
        path: path(name).into(),
        before: before.get(name).map(image),
        after: after.get(name).map(image),
    };
    let all = names.into_iter().map(change);
    all.filter(|change| change.before != change.after).collect()
}
