//! The process that is recorded. Every line it says is a promise: from then on, the named thing survives a loss of power.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use garret_core::{Actor, Batch, ErrorKind, Mutation, OpenContext, Origin, RandomIds, Storage, SystemClock};
use garret_depot::{
    Depot, DepotOptions, DepotWorkspace, Durability, NewWorkspace, Point, ReversalOutcome, UndoSelection,
};
use garret_testkit::mutations::{append_or_create, rename_into, set_mode, write};

/// What the recorded process asks of its depot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Every change is durable.
    Full,
    /// None is.
    Relaxed,
    /// Durable and relaxed changes in the same workspaces, with the same content.
    Mixed,
    /// None is, and the process promises them all the same.
    Pretended,
}

impl Profile {
    /// Those that keep their promises.
    pub(crate) const HONEST: [Self; 3] = [Self::Full, Self::Relaxed, Self::Mixed];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Relaxed => "relaxed",
            Self::Mixed => "mixed",
            Self::Pretended => "pretended",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Pretended]
            .into_iter()
            .chain(Self::HONEST)
            .find(|profile| profile.name() == name)
    }

    fn durability(self, turn: u32) -> Durability {
        match self {
            Self::Full => Durability::Full,
            Self::Mixed if turn % 2 == 1 => Durability::Full,
            _ => Durability::Relaxed,
        }
    }
}

/// Little is kept inline, so that blobs are many and small.
pub(crate) fn options(profile: Profile) -> DepotOptions {
    DepotOptions {
        inline_bytes: 1024,
        durability: match profile {
            Profile::Relaxed | Profile::Pretended => Durability::Relaxed,
            Profile::Full | Profile::Mixed => Durability::Full,
        },
        ..DepotOptions::default()
    }
}

pub(crate) async fn open(home: &Path, profile: Profile) -> garret_core::Result<Depot> {
    let context = OpenContext {
        clock: Arc::new(SystemClock::default()),
        ids: Arc::new(RandomIds),
        history: garret_core::HistoryMode::Durable,
    };
    Depot::open(home, options(profile), context).await
}

/// How much the process does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) tasks: u32,
    pub(crate) turns: u32,
}

/// Works until everything is done, then closes the depot.
pub(crate) async fn run(home: &Path, profile: Profile, size: Size) {
    let depot = open(home, profile).await.expect("the home can be made");
    let shared = created(&depot, "shared", profile).await;
    let tasks: Vec<_> = (0..size.tasks)
        .map(|task| {
            let (depot, shared) = (depot.clone(), shared.clone());
            tokio::spawn(async move {
                let own = created(&depot, &format!("own-{task}"), profile).await;
                let worker = Worker {
                    task,
                    profile,
                    depot,
                    shared,
                    own,
                };
                for turn in 0..size.turns {
                    worker.turn(turn).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("the disk is fine");
    }
}

/// One write to the standard output, which is a promise.
fn promise(line: &str) {
    let mut output = std::io::stdout().lock();
    let said = output
        .write_all(format!("{line}\n").as_bytes())
        .and_then(|()| output.flush());
    said.expect("somebody listens");
}

async fn created(depot: &Depot, name: &str, profile: Profile) -> DepotWorkspace {
    let room = depot.create(NewWorkspace::named(name)).await.expect("the name is free");
    if profile != Profile::Relaxed {
        promise(&format!("workspace {}", room.id()));
    }
    room
}

struct Worker {
    task: u32,
    profile: Profile,
    depot: Depot,
    shared: DepotWorkspace,
    own: DepotWorkspace,
}

impl Worker {
    async fn turn(&self, turn: u32) {
        let durability = self.profile.durability(turn);
        let own = self.own.clone().with_durability(durability);
        let shared = self.shared.clone().with_durability(durability);
        let content = content(self.task, turn);
        self.apply(
            &own,
            vec![write("left", content.clone()), write("right", content.clone())],
        )
        .await;
        self.apply(
            &shared,
            vec![append_or_create("log", format!("{} {turn}\n", self.task))],
        )
        .await;
        // The same content as another task has at about the same time.
        self.apply(&shared, vec![write(&format!("{}/same", self.task), large(turn % 3))])
            .await;
        let (old, new) = (format!("at-{turn}"), format!("at-{}", turn + 1));
        self.apply(
            &own,
            vec![write(&format!("{old}/{turn}"), content), set_mode(&old, 0o700)],
        )
        .await;
        self.apply(&own, vec![rename_into(&old, &format!("{new}/below"))]).await;
        match turn % 3 {
            0 => self.undo(&own).await,
            1 => self.branch(&own, turn).await,
            _ => self.collect(turn).await,
        }
    }

    /// Applies a batch, and promises the change that came of it.
    async fn apply(&self, room: &DepotWorkspace, mutations: Vec<Mutation>) {
        let call = format!("{:?}", mutations.first().map(|one| (self.task, one.path(), one)));
        let call = blake3::hash(call.as_bytes()).to_hex().to_string();
        let origin = Origin {
            actor: Actor {
                tool_call: Some(call.clone()),
                ..Actor::default()
            },
            ..Origin::default()
        };
        let batch = Batch {
            mutations,
            origin,
            ..Batch::default()
        };
        // A collection without grace may take a blob that is about to be named; the depot says so.
        while let Err(error) = room.apply(batch.clone()).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
        let newest = room.changes(None, 64).await.expect("the journal can be read");
        let own = newest
            .iter()
            .find(|change| change.actor.tool_call.as_deref() == Some(&call));
        self.promise_change(room, own.expect("it was applied just now").number);
    }

    fn promises(&self, room: &DepotWorkspace) -> bool {
        room.durability() == Durability::Full || self.profile == Profile::Pretended
    }

    fn promise_change(&self, room: &DepotWorkspace, number: u64) {
        if self.promises(room) {
            promise(&format!("change {} {number}", room.id()));
        }
    }

    async fn undo(&self, room: &DepotWorkspace) {
        let undone = room
            .undo(UndoSelection::Last(2), Origin::default())
            .await
            .expect("there is something to undo");
        let ReversalOutcome::Done(change) = undone else {
            panic!("nobody else works here")
        };
        self.promise_change(room, change.number);
        let redone = room.redo(Origin::default()).await.expect("there is something to redo");
        let ReversalOutcome::Done(change) = redone else {
            panic!("nobody else works here")
        };
        self.promise_change(room, change.number);
    }

    async fn branch(&self, room: &DepotWorkspace, turn: u32) {
        let label = format!("turn-{turn}");
        room.snapshot(&label, Point::Now).await.expect("the label is free");
        if self.promises(room) {
            promise(&format!("snapshot {} {label}", room.id()));
        }
        let name = NewWorkspace::named(&format!("try-{}-{turn}", self.task));
        let branch = room.branch(name, &Point::Now).await.expect("the name is free");
        // A branch is made with the durability of the depot.
        if self.profile != Profile::Relaxed {
            promise(&format!("workspace {}", branch.id()));
        }
        let branch = branch.with_durability(room.durability());
        self.apply(&branch, vec![write("left", "only here")]).await;
        self.apply(&branch, vec![append_or_create("log", large(7))]).await;
    }

    /// Makes a workspace that is deleted at once, and collects what is left of such.
    async fn collect(&self, turn: u32) {
        let name = format!("scratch-{}-{turn}", self.task);
        let scratch = self
            .depot
            .create(NewWorkspace::named(&name))
            .await
            .expect("the name is free");
        self.apply(
            &scratch,
            vec![write("f", large(turn % 3)), write("g", content(self.task, turn + 100))],
        )
        .await;
        self.depot.delete(&name).await.expect("it is there");
        self.depot.collect(Duration::ZERO).await.expect("the disk is fine");
    }
}

/// Small in two turns of three.
fn content(task: u32, turn: u32) -> Bytes {
    match turn % 3 {
        2 => large(10 + task * 1_000 + turn),
        _ => format!("{task} {turn}").into(),
    }
}

/// Content above the threshold, which cannot be packed.
fn large(seed: u32) -> Bytes {
    let mut bytes = vec![0; 6_000 + (seed as usize * 37) % 3_000];
    blake3::Hasher::new()
        .update(&seed.to_le_bytes())
        .finalize_xof()
        .fill(&mut bytes);
    bytes.into()
}
