//! Another program that exchanges a directory for a link, and for another directory, while changes are made in it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use garret_core::{Batch, ErrorKind, Follow, Mutation, Storage};
use garret_depot::{ChangeKind, ChangesOptions, History, SnapshotOptions, UndoSelection};
use garret_testkit::fuzz::Random;
use garret_testkit::mutations::{append_or_create, copy, link, make_dir, remove_tree, rename, set_mode, write};

use crate::journal::desk::{Desk, making};
use crate::journal::support::depot_at;

const STEPS: usize = 250;

/// Ends the attack with the test, also where that fails.
struct Attack<'a>(&'a AtomicBool);

impl Drop for Attack<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Exchanges what is at the two paths until it is told to stop.
fn exchange(one: &Path, other: &Path, is_over: &AtomicBool) {
    let aside = one.with_file_name("aside");
    while !is_over.load(Ordering::Relaxed) {
        for (from, to) in [(one, aside.as_path()), (other, one), (aside.as_path(), other)] {
            // One that was removed just then is exchanged the next time.
            let _ = std::fs::rename(from, to);
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    let _ = std::fs::rename(&aside, one);
}

/// No two contents have the same size: a file that is exchanged for another of the same size may escape.
fn batch(random: &mut Random, step: usize) -> Batch {
    let content = format!("{}\n", random.below(10)).repeat(10 + step);
    let name = |random: &mut Random| format!("swap/{}", random.choose(&["a", "b", "d/c", "d"]));
    let (path, to) = (name(random), name(random));
    let mutations: Vec<Mutation> = match random.below(10) {
        0 | 1 => vec![write(&path, content)],
        2 => vec![append_or_create(&path, content)],
        3 => vec![copy(&path, &to)],
        4 => vec![rename(&path, &to)],
        5 => vec![remove_tree(&path)],
        6 => vec![make_dir(&path), set_mode(&path, 0o700)],
        7 => vec![write(&path, content.clone()), write("still", content)],
        8 => vec![rename(&path, &to), write(&path, content)],
        _ => vec![link(&path, "../still")],
    };
    Batch {
        mutations,
        follow: *random.choose(&[Follow::Inside, Follow::Never]),
        ..Batch::default()
    }
}

async fn work(desk: &Desk, random: &mut Random) {
    for step in 0..STEPS {
        let refused = match random.below(12) {
            0 => desk.room.undo(UndoSelection::Last(1), making()).await.err(),
            1 => desk.room.changes(ChangesOptions::default()).await.err(),
            _ => desk.room.apply(batch(random, step)).await.err(),
        };
        if let Some(error) = refused {
            assert!(
                !matches!(error.kind(), ErrorKind::Internal | ErrorKind::Corrupt),
                "{error:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_exchanged_under_a_change_the_journal_comes_to_know_what_is_there() {
    for seed in 0..6 {
        let desk = Desk::over(&[
            ("swap/a", "1"),
            ("swap/d/c", "22"),
            ("away/a", "theirs"),
            ("still", "333"),
        ])
        .await;
        let (swap, other) = (desk.path("swap"), desk.path("other"));
        match seed % 2 {
            0 => std::os::unix::fs::symlink("away", &other).unwrap(),
            _ => std::fs::create_dir(&other).unwrap(),
        }
        let is_over = AtomicBool::new(false);
        let mut random = Random::new(seed);
        std::thread::scope(|scope| {
            scope.spawn(|| exchange(&swap, &other, &is_over));
            let _attack = Attack(&is_over);
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work(&desk, &mut random)));
        });
        desk.room.snapshot("after", SnapshotOptions::default()).await.unwrap();
        let (known, there) = desk.trees().await;
        assert_eq!(known, there, "with the seed {seed}");
        let kinds = desk.kinds().await;
        assert!(kinds.contains(&ChangeKind::Change), "with the seed {seed}: {kinds:?}");
        let depot = depot_at(desk.home.path()).get().await.unwrap();
        assert_eq!(depot.check().await.unwrap(), [], "with the seed {seed}");
    }
}
