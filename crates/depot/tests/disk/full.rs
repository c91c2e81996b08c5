//! No space left, on a small tmpfs that only this process sees.

use std::path::Path;
use std::process::Command;

use garret_core::{Batch, ErrorKind, Storage};
use garret_depot::{Depot, NewWorkspace, Point};
use garret_testkit::mutations::write;

use crate::work::{After, Place, Work, block_on, noise, open};
use crate::{say, scratch, start};

/// Enough for the workspace and some changes.
const SIZE: &str = "size=6m";

pub(crate) fn run() {
    let directory = scratch();
    let directory = directory.path().to_str().expect("its path is UTF-8");
    match namespace() {
        Some(before) => {
            start(before, &["full", directory]);
            start(before, &["full-local", directory]);
            start(before, &["full-collect", directory]);
        }
        None => {
            assert!(
                std::env::var("CI").is_err(),
                "a full disk needs a mount namespace, which CI has"
            );
            say("a full disk: NOT TRIED: this user may not make a mount namespace; run as root");
        }
    }
}

/// The command that gives its program a mount namespace: root's own, or a user's where the kernel lets users have one.
fn namespace() -> Option<&'static [&'static str]> {
    let ways: [&[&str]; 2] = [
        &["unshare", "--mount", "--propagation", "private"],
        &[
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "--propagation",
            "private",
        ],
    ];
    let works = |way: &&&[&str]| {
        let tried = Command::new(way[0]).args(&way[1..]).arg("true").output();
        tried.is_ok_and(|output| output.status.success())
    };
    ways.iter().find(works).copied()
}

fn mount_small_disk(directory: &Path) {
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", SIZE, "none"])
        .arg(directory)
        .status();
    assert!(
        mounted.expect("mount is there").success(),
        "a tmpfs can be mounted in an own namespace"
    );
}

/// A collection that meets the full disk, sooner or later, tells all that it removed before and after it made room.
pub(crate) fn collect(directory: &Path) {
    mount_small_disk(directory);
    block_on(async {
        let home = directory.join("home");
        let depot = open(&home).await.expect("there is room");
        for round in 0..24 {
            for _ in 0..WORKSPACES {
                delete_one(&depot).await;
            }
            // What fills the disk is itself a file that a collection removes.
            fill(&home.join("blobs/00/unfinished"), round * 20_000);
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            let collected = depot.collect(std::time::Duration::ZERO).await;
            let collected = collected.expect("it makes room");
            assert_eq!(
                (collected.workspaces, collected.leftovers),
                (WORKSPACES, 1),
                "round {round}"
            );
            assert_eq!(depot.workspaces().await.expect("it can be read").len(), 0);
        }
        say("a collection on a full disk tells all that it removed");
    });
}

const WORKSPACES: u64 = 4;

async fn delete_one(depot: &Depot) {
    let room = depot.create(NewWorkspace::unnamed()).await.expect("there is room");
    let mutations = (0..200).map(|index| write(&format!("file-{index}"), format!("{index}").repeat(20)));
    let batch = Batch {
        mutations: mutations.collect(),
        ..Batch::default()
    };
    room.apply(batch).await.expect("there is room");
    depot.delete(room.id()).await.expect("there is room");
}

pub(crate) fn inside(directory: &Path, place: Place) {
    mount_small_disk(directory);
    block_on(async {
        let home = directory.join("home");
        let mut work = Work::begin(&home, place).await;
        let mut met = 0;
        for round in 0..4 {
            let ballast = directory.join("ballast");
            let left = fill(&ballast, round * 40_000);
            let mut failed = 0;
            for _ in 0..30 {
                if let Some(error) = work.change(After::Unchanged).await {
                    let words = ["is full", "no space left"];
                    assert!(words.iter().any(|word| error.message().contains(word)), "{error:?}");
                    assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{error:?}");
                    failed += 1;
                }
            }
            assert!(failed > 0, "with {left} bytes left the disk gets full");
            met += failed;
            if round == 0 && place == Place::Filestore {
                everything_else_says_so(&work, &directory.join("another")).await;
            }
            std::fs::remove_file(&ballast).expect("it was made here");
            // Space is back: the next change, by the same handle, is fine.
            assert!(work.change(After::Unchanged).await.is_none());
        }
        work.recovers(&home).await;
        say(&format!(
            "a full disk, {place:?}: {met} changes refused, nothing lost, work went on each time space came back"
        ));
    });
}

/// Fills the disk but for `spare` bytes; gives those.
fn fill(ballast: &Path, spare: usize) -> usize {
    let mut filled = 0;
    let chunk = noise(1, 4_096);
    let mut file = std::fs::File::create(ballast).expect("a name costs nothing");
    while std::io::Write::write_all(&mut file, &chunk).is_ok() {
        filled += chunk.len();
    }
    file.set_len(filled.saturating_sub(spare) as u64)
        .expect("it can be made shorter");
    spare
}

/// What is not a change of files is refused as cleanly: workspaces, snapshots, branches, another home.
async fn everything_else_says_so(work: &Work, another: &Path) {
    let large = || NewWorkspace {
        config: serde_json::json!({ "text": "x".repeat(100_000) }),
        ..NewWorkspace::unnamed()
    };
    let created = work.depot.create(large()).await;
    work.check_error(&created.expect_err("there is no room for it"));
    let room = work.depot.workspace("box").await.expect("a full disk can be read");
    let branched = room.branch(large(), &Point::Now).await;
    work.check_error(&branched.expect_err("there is no room for it"));
    // What the collection needs to write down has no room, and it is what makes room.
    let collected = work.depot.collect(garret_depot::CollectOptions::default()).await;
    collected.expect("a full disk can be swept");
    let error = open(another).await.expect_err("there is no room for another home");
    assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{error:?}");
    work.check_error(&error);
    assert_eq!(work.depot.check().await.expect("a full disk can be read"), []);
}
