//! Random batches on the local storage and on the reference: same outcomes, same trees.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::Arc;

use crate::common::{Room, at};
use futures::executor::block_on;
use garret_core::{
    Batch, EntryKind, Follow, ListOptions, MemoryStorage, Mutation, Precondition, ReadOptions, Storage, SystemClock,
    WsPath,
};

/// A small generator of numbers, so that a failure names its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn coin(&mut self) -> bool {
        self.roll(2) == 0
    }

    fn path(&mut self) -> WsPath {
        let names = ["a", "b", "a-b", "link", "c.txt"];
        let depth = self.roll(4);
        let parts: Vec<_> = (0..depth.max(self.roll(2)))
            .map(|_| names[self.roll(names.len())])
            .collect();
        at(&parts.join("/"))
    }

    fn mutation(&mut self) -> Mutation {
        let content = "x".repeat(self.roll(9));
        let precondition = if self.roll(4) == 0 {
            Precondition::Absent
        } else {
            Precondition::Any
        };
        match self.roll(10) {
            0 | 1 => Mutation::Write {
                path: self.path(),
                content: content.into(),
                precondition,
                mode: self.coin().then_some(0o600),
                parents: self.coin(),
            },
            2 => Mutation::Append {
                path: self.path(),
                content: content.into(),
                precondition,
                create: self.coin(),
            },
            3 => Mutation::Remove {
                path: self.path(),
                recursive: self.coin(),
                precondition: Precondition::Any,
            },
            4 | 5 => Mutation::Rename {
                from: self.path(),
                to: self.path(),
                overwrite: self.coin(),
                parents: self.coin(),
            },
            6 => Mutation::Copy {
                from: self.path(),
                to: self.path(),
                overwrite: self.coin(),
                parents: self.coin(),
            },
            7 => Mutation::MakeDir {
                path: self.path(),
                parents: self.coin(),
            },
            8 => Mutation::Symlink {
                path: self.path(),
                target: self.target(),
            },
            _ => Mutation::SetMode {
                path: self.path(),
                mode: [0o700, 0o755, 0o4751][self.roll(3)],
            },
        }
    }

    fn target(&mut self) -> String {
        let targets = [
            "a",
            "../a",
            "b/../a",
            "../../..",
            "/etc",
            "link",
            "./b//a",
            ".",
            "missing/../a",
        ];
        targets[self.roll(targets.len())].to_owned()
    }
}

/// What can be seen of a tree: path, kind, size, mode, target and content.
fn seen(storage: &dyn Storage) -> Vec<String> {
    let deep = ListOptions {
        is_deep: true,
        limit: 100_000,
        ..ListOptions::default()
    };
    let entries = block_on(storage.list(&WsPath::root(), deep)).unwrap().entries;
    entries
        .iter()
        .map(|entry| {
            let path = entry.path.as_path().unwrap();
            let stat = block_on(storage.stat(path, Default::default())).unwrap();
            let follow = Follow::Never;
            let content = (entry.kind == EntryKind::File).then(|| {
                block_on(storage.read(
                    path,
                    ReadOptions {
                        follow,
                        ..Default::default()
                    },
                ))
                .unwrap()
                .bytes
            });
            format!(
                "{path} {:?} {} {:?} {:?} {content:?}",
                entry.kind, entry.size, stat.mode, stat.target
            )
        })
        .collect()
}

#[test]
fn random_batches_do_what_the_reference_does() {
    for seed in 0..120 {
        let mut dice = Dice(seed);
        let room = Room::new();
        let memory = MemoryStorage::new(Arc::new(SystemClock::default()));
        for _ in 0..40 {
            let mutations: Vec<_> = (0..1 + dice.roll(6)).map(|_| dice.mutation()).collect();
            let follow = if dice.roll(4) == 0 {
                Follow::Never
            } else {
                Follow::Inside
            };
            let batch = Batch {
                mutations,
                follow,
                ..Batch::default()
            };
            let outcome = |storage: &dyn Storage| {
                let applied = block_on(storage.apply(batch.clone()));
                applied
                    .map(|all| all.iter().map(|one| (one.size, one.created)).collect::<Vec<_>>())
                    .map_err(|error| error.kind())
            };
            let (expected, found) = (outcome(&memory), outcome(&room.storage));
            assert_eq!(found, expected, "seed {seed}: {batch:?}");
            assert_eq!(seen(&room.storage), seen(&memory), "seed {seed}: {batch:?}");
            let path = dice.path();
            let resolve = |storage: &dyn Storage| block_on(storage.resolve(&path)).map_err(|error| error.kind());
            assert_eq!(resolve(&room.storage), resolve(&memory), "seed {seed}: {path}");
            let read = |storage: &dyn Storage| {
                block_on(storage.read(&path, ReadOptions::default()))
                    .map(|read| read.bytes)
                    .map_err(|error| error.kind())
            };
            assert_eq!(read(&room.storage), read(&memory), "seed {seed}: {path}");
        }
    }
}
