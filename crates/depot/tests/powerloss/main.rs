//! Power is lost, at many moments and in many ways; whatever was promised is there, and no half change is.
//!
//! A process is recorded while it works ([`workload`], [`strace`]); its calls are replayed on a model of a disk ([`disk`], which says what
//! may be lost) up to a cut; what would be left is written out, opened and looked over ([`verdict`]). A program of its own instead of a list
//! of tests, since it starts itself as the process to record.
//!
//! `cargo test -p garret-depot --test powerloss -- 1000` tries a thousand cuts for each profile, each with several fates of what was not
//! synced; a profile's name as a further argument tries that one only. It then shows that it would notice: disks that pass over some of the syncs must be found out.

#![allow(
    clippy::disallowed_methods,
    reason = "it records a process of its own, writes what a disk would hold, and says how it went"
)]

mod disk;
mod strace;
mod verdict;
mod workload;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use garret_testkit::fixture::block_on;
use garret_testkit::fuzz::Random;

use disk::{Disk, Fate, Share, Syncs};
use strace::Record;
use verdict::{Promises, Reference};
use workload::{Profile, Size};

const CHILD: &str = "work-and-be-recorded";
const DEFAULT_CUTS: usize = 25;
/// Above this many cuts, more is recorded.
const MANY: usize = 200;

/// Of few cuts, each gets this many fates in turn.
const FEW_FATES: usize = 2;

/// What may become of data and names that are not synced: nothing of it is there, all of it, one without the other, and draws.
const FATES: [Fate; 7] = [
    Fate {
        data: Share::Nothing,
        names: Share::Nothing,
    },
    Fate {
        data: Share::Nothing,
        names: Share::Everything,
    },
    Fate {
        data: Share::Everything,
        names: Share::Nothing,
    },
    Fate {
        data: Share::Everything,
        names: Share::Everything,
    },
    Fate {
        data: Share::Percent(50),
        names: Share::Percent(50),
    },
    Fate {
        data: Share::Percent(90),
        names: Share::Percent(90),
    },
    Fate {
        data: Share::Percent(10),
        names: Share::Everything,
    },
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, home, profile, tasks, turns] = arguments.as_slice()
        && role == CHILD
    {
        let number = |text: &str| text.parse().expect("the parent writes numbers");
        let profile = Profile::named(profile).expect("the parent names a profile");
        let size = Size {
            tasks: number(tasks),
            turns: number(turns),
        };
        return block_on(workload::run(home.as_ref(), profile, size));
    }
    let cuts = arguments
        .iter()
        .find_map(|one| one.parse().ok())
        .unwrap_or(DEFAULT_CUTS);
    let named = arguments.iter().find_map(|one| Profile::named(one));
    for profile in Profile::HONEST
        .into_iter()
        .filter(|one| named.is_none_or(|named| named == *one))
    {
        let recorded = Recorded::of(profile, cuts);
        recorded.survives(cuts);
        if profile == Profile::Full {
            for ignored in ["", "depot.db-wal", "/blobs/", "/home"] {
                recorded.finds_out(cuts, ignored);
            }
        }
    }
    if named.is_none() {
        Recorded::of(Profile::Pretended, cuts).finds_out(cuts, "nothing");
    }
}

fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("somebody listens");
}

/// A process that has worked to its end, what it asked of the kernel, and what it left.
struct Recorded {
    profile: Profile,
    root: String,
    record: Record,
    reference: Reference,
    scratch: tempfile::TempDir,
}

impl Recorded {
    fn of(profile: Profile, cuts: usize) -> Self {
        let scratch = scratch();
        let root = scratch.path().join("disk");
        std::fs::create_dir(&root).expect("the scratch directory can be written");
        let (root, home) = (utf8(&root), root.join("home"));
        let program = std::env::current_exe().expect("this program has a file");
        let turns = if cuts > MANY { "9" } else { "3" };
        let command = [&utf8(&program), CHILD, &utf8(&home), profile.name(), "3", turns];
        let record = strace::record(&command, &scratch.path().join("log"));
        let recorded = Self {
            profile,
            reference: block_on(Reference::of(&copied(&home, &scratch), profile)),
            root,
            record,
            scratch,
        };
        recorded.is_the_real_thing(&home);
        recorded
    }

    /// With everything kept, the model of the disk holds what the real one does; else the record would have missed something.
    fn is_the_real_thing(&self, home: &Path) {
        let mut disk = Disk::before(&self.record, &self.root, Syncs::Heeded);
        for _ in &self.record.moments {
            disk.advance();
        }
        let to = self.scratch.path().join("whole");
        disk.survive(FATES[3], &mut Random::new(0), &to);
        let (real, modelled) = (files(home), files(&to.join("home")));
        let names = |files: &[(PathBuf, Vec<u8>)]| files.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
        assert_eq!(names(&real), names(&modelled), "the record misses a name");
        assert!(real == modelled, "the record misses a write");
        assert!(real.len() > 5, "the process left only {} files", real.len());
    }

    fn survives(&self, cuts: usize) {
        let started = Instant::now();
        let outcome = self.replay(Plan {
            cuts,
            syncs: Syncs::Heeded,
            stops: false,
        });
        let shown = outcome.failures[..outcome.failures.len().min(5)].join("\n");
        assert!(
            outcome.failures.is_empty(),
            "{} cuts fail:\n{shown:.4000}",
            outcome.failures.len()
        );
        assert!(
            outcome.most_promised > 10 || self.profile == Profile::Relaxed,
            "the process promised something"
        );
        say(&format!(
            "power loss, {}: {} calls recorded, {} cuts, {} restarts; up to {} promises, all kept; {:.1} s",
            self.profile.name(),
            self.record.calls.len(),
            outcome.cuts,
            outcome.restarts,
            outcome.most_promised,
            started.elapsed().as_secs_f64()
        ));
    }

    /// A promise that was not kept would be noticed: with every one of these something must be found missing.
    fn finds_out(&self, cuts: usize, ignored: &'static str) {
        let plan = Plan {
            cuts: cuts.max(60),
            syncs: Syncs::IgnoredFor(ignored),
            stops: true,
        };
        let outcome = self.replay(plan);
        let what = format!("{}, without the syncs of paths with {ignored:?}", self.profile.name());
        assert!(!outcome.failures.is_empty(), "{what}: not found out");
        say(&format!("  {what}: found out after {} cuts", outcome.cuts));
    }

    fn replay(&self, plan: Plan) -> Outcome {
        let mut outcome = Outcome::default();
        let mut random = Random::new(plan.cuts as u64);
        let mut disk = Disk::before(&self.record, &self.root, plan.syncs);
        let mut promises = Promises::default();
        let step = (self.record.moments.len() / plan.cuts).max(1) as u64;
        let mut next = random.below(step);
        for moment in 0..self.record.moments.len() as u64 {
            if let Some(said) = disk.advance() {
                said.lines().for_each(|line| promises.note(line));
            }
            if moment < next {
                continue;
            }
            next = moment + 1 + random.below(step * 2);
            outcome.cuts += 1;
            outcome.most_promised = promises.count();
            for (number, fate) in plan.fates(outcome.cuts) {
                outcome.restarts += 1;
                if let Err(why) = self.cut(&disk, fate, &mut random, &promises) {
                    outcome.failures.push(format!(
                        "{} at moment {moment}, fate {number}: {why}",
                        self.profile.name()
                    ));
                }
            }
            if plan.stops && !outcome.failures.is_empty() {
                break;
            }
        }
        outcome
    }

    fn cut(&self, disk: &Disk<'_>, fate: Fate, random: &mut Random, promises: &Promises) -> Result<(), String> {
        let to = self.scratch.path().join("after");
        if to.exists() {
            std::fs::remove_dir_all(&to).expect("it was made here");
        }
        disk.survive(fate, random, &to);
        block_on(self.reference.judge(&to.join("home"), self.profile, promises))
    }
}

/// How a record is replayed.
struct Plan {
    cuts: usize,
    syncs: Syncs,
    /// Whether the first failure is enough.
    stops: bool,
}

impl Plan {
    /// What becomes of the unsynced at the cut with that number: everything that may, or with few cuts a part of it, in turn.
    fn fates(&self, cut: usize) -> impl Iterator<Item = (usize, Fate)> {
        let count = if self.stops || self.cuts > MANY {
            FATES.len()
        } else {
            FEW_FATES
        };
        (0..count)
            .map(move |index| (cut * FEW_FATES + index) % FATES.len())
            .map(|number| (number, FATES[number]))
    }
}

#[derive(Debug, Default)]
struct Outcome {
    cuts: usize,
    restarts: usize,
    most_promised: u64,
    failures: Vec<String>,
}

/// In memory where there is such a place: the syncs of the reopened depots would only wear a disk.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a temporary directory can be made")
}

fn copied(home: &Path, scratch: &tempfile::TempDir) -> PathBuf {
    let to = scratch.path().join("reference");
    for (path, bytes) in files(home) {
        let place = to.join(path);
        std::fs::create_dir_all(place.parent().expect("it is below the copy")).expect("the copy can be written");
        std::fs::write(place, bytes).expect("the copy can be written");
    }
    to
}

/// Every file below a directory, by its path from there, but for those that SQLite makes anew.
fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut files, mut todo) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(next) = todo.pop() {
        for entry in std::fs::read_dir(next).expect("it is there") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                todo.push(path);
            } else if !utf8(&path).ends_with("-shm") {
                let bytes = std::fs::read(&path).expect("it is there");
                files.push((path.strip_prefix(directory).expect("it is below").to_owned(), bytes));
            }
        }
    }
    files.sort();
    files
}

fn utf8(path: &Path) -> String {
    path.to_str().expect("the path of a test is UTF-8").to_owned()
}
