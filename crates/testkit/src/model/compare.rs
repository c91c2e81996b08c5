//! Runs one sequence on a storage and on the model, and compares after each batch.

use std::collections::BTreeMap;
use std::future::Future;

use bytes::Bytes;
use garret_core::{Batch, ErrorKind, Follow, ListOptions, Mutation, Precondition, ReadOptions, Version};
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::steps::{Sequence, Step, Wanted, sequences};
use super::world::{Left, Refusal, World};
use crate::fixture::block_on;
use crate::mutations::path;
use crate::{Fixture, Node, Probe, Tree};

/// Draws `cases` sequences of up to `length` batches and compares each on a fresh storage; panics with the smallest that differs.
pub fn run<Made: Future<Output = Fixture>>(make: impl Fn() -> Made, cases: u32, length: usize, with_links: bool) {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2_000,
        // A storage behind a network is slow to run again; a long example is better than none.
        max_shrink_time: 120_000,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&sequences(length, with_links), |sequence| {
        block_on(async {
            let fixture = make().await;
            compare(&fixture.probe(), &sequence).await.map_err(TestCaseError::fail)
        })
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// Runs `sequence` on both; says where they differ.
pub async fn compare(probe: &Probe, sequence: &Sequence) -> Result<(), String> {
    let mut world = World::default();
    let mut versions = Versions::default();
    for (number, (steps, follow)) in sequence.iter().enumerate() {
        let steps = without_versions(without_unsupported(probe, steps));
        versions.note(probe, &steps).await;
        let mutations = steps.iter().map(|step| versions.mutation(&world, step)).collect();
        let real = applied(
            probe,
            Batch {
                mutations,
                follow: *follow,
                ..Batch::default()
            },
        )
        .await;
        let modelled = world.apply(&steps, *follow);
        let told = |what: &str, real: String, model: String| {
            format!("batch {number} ({follow:?}, {steps:?}): {what} is {real}, the model has {model}")
        };
        if !same_outcome(&real, &modelled) {
            return Err(told("the outcome", format!("{real:?}"), format!("{modelled:?}")));
        }
        let (real, model) = (probe.tree().await, world.tree());
        if !same_tree(&real, model) {
            return Err(told("the tree", format!("{real:?}"), format!("{model:?}")));
        }
        compare_looks(probe, &world, &steps, *follow).await?;
    }
    Ok(())
}

async fn applied(probe: &Probe, batch: Batch) -> Result<Vec<Left>, ErrorKind> {
    match probe.storage().apply(batch).await {
        Ok(applied) => Ok(applied
            .iter()
            .map(|one| Left {
                size: one.size,
                created: one.created,
            })
            .collect()),
        Err(error) => {
            probe.check_error(&error);
            Err(error.kind())
        }
    }
}

fn same_outcome(real: &Result<Vec<Left>, ErrorKind>, model: &Result<Vec<Left>, Refusal>) -> bool {
    match (real, model) {
        (Ok(real), Ok(model)) => real == model,
        (Err(kind), Err(Refusal(kinds))) => kinds.contains(kind),
        _ => false,
    }
}

fn without_unsupported(probe: &Probe, steps: &[Step]) -> Vec<Step> {
    let info = probe.info();
    let is_supported = |step: &&Step| match step {
        Step::Symlink { .. } => info.has_symlinks,
        Step::SetMode { .. } => info.has_modes,
        _ => true,
    };
    steps.iter().filter(is_supported).cloned().collect()
}

/// In a batch of several steps no version can be known beforehand, so their conditions on one are dropped.
fn without_versions(mut steps: Vec<Step>) -> Vec<Step> {
    if steps.len() > 1 {
        let conditions = steps.iter_mut().filter_map(|step| condition_mut(step));
        conditions
            .filter(|wanted| **wanted == Wanted::Current)
            .for_each(|wanted| *wanted = Wanted::Any);
    }
    steps
}

fn condition_mut(step: &mut Step) -> Option<&mut Wanted> {
    match step {
        Step::Write { wanted, .. } | Step::Append { wanted, .. } | Step::Remove { wanted, .. } => Some(wanted),
        _ => None,
    }
}

/// Compares what reads, lists and real paths say of the paths that the steps name.
async fn compare_looks(probe: &Probe, world: &World, steps: &[Step], follow: Follow) -> Result<(), String> {
    for at in steps.iter().flat_map(paths) {
        let at_path = path(at);
        let read = ReadOptions {
            follow,
            ..ReadOptions::default()
        };
        let read = probe.storage().read(&at_path, read).await.map(|read| read.bytes);
        same(at, "read", read.map_err(|error| error.kind()), world.read(at, follow))?;
        let list = ListOptions {
            follow,
            ..ListOptions::default()
        };
        let list = probe.storage().list(&at_path, list).await;
        let list = list.map(|page| page.entries.iter().map(|entry| entry.path.display_path()).collect());
        same(at, "list", list.map_err(|error| error.kind()), world.list(at, follow))?;
        let real = probe.storage().resolve(&at_path).await.map(|real| real.to_string());
        same(at, "resolve", real.map_err(|error| error.kind()), world.resolve(at))?;
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(at: &str, what: &str, real: T, model: T) -> Result<(), String> {
    if real == model {
        return Ok(());
    }
    Err(format!("{what} of {at:?} is {real:?}, the model has {model:?}"))
}

fn paths(step: &Step) -> Vec<&str> {
    match step {
        Step::Write { path, .. }
        | Step::Append { path, .. }
        | Step::Remove { path, .. }
        | Step::MakeDir { path, .. }
        | Step::Symlink { path, .. }
        | Step::SetMode { path, .. } => vec![path],
        Step::Rename { from, to, .. } | Step::Copy { from, to, .. } => vec![from, to],
    }
}

/// Whether the trees are the same; a mode that nobody set may be any.
fn same_tree(real: &Tree, model: &Tree) -> bool {
    real.len() == model.len()
        && real
            .iter()
            .zip(model)
            .all(|(real, model)| real.0 == model.0 && same_node(real.1, model.1))
}

fn same_node(real: &Node, model: &Node) -> bool {
    let same_mode = |real: Option<u32>, model: Option<u32>| real.is_none() || model.is_none() || real == model;
    match (real, model) {
        (
            Node::File { content, mode },
            Node::File {
                content: wanted,
                mode: wanted_mode,
            },
        ) => content == wanted && same_mode(*mode, *wanted_mode),
        (Node::Directory { mode }, Node::Directory { mode: wanted_mode }) => same_mode(*mode, *wanted_mode),
        (real, model) => real == model,
    }
}

/// The versions that a storage has given, by path, with the content that each stood for.
#[derive(Debug, Default)]
struct Versions {
    seen: BTreeMap<String, Vec<(Bytes, Version)>>,
}

impl Versions {
    /// Notes the version of every file that a step names.
    async fn note(&mut self, probe: &Probe, steps: &[Step]) {
        for at in steps.iter().flat_map(paths) {
            if let Ok(read) = probe.try_read(at).await {
                let seen = self.seen.entry(at.to_owned()).or_default();
                seen.push((read.bytes, read.version));
            }
        }
    }

    fn precondition(&self, world: &World, at: &str, wanted: Wanted) -> Precondition {
        let now = world.content(at);
        let seen = self.seen.get(at).map(Vec::as_slice).unwrap_or_default();
        let found = match wanted {
            Wanted::Any => return Precondition::Any,
            Wanted::Absent => return Precondition::Absent,
            Wanted::Current => seen.last().filter(|_| now.is_some()),
            Wanted::Stale => seen.iter().rev().find(|(content, _)| Some(content) != now.as_ref()),
        };
        let never = || Version::new("never");
        Precondition::Version(found.map_or_else(never, |(_, version)| version.clone()))
    }

    fn mutation(&self, world: &World, step: &Step) -> Mutation {
        let condition = |at: &str, wanted: Wanted| self.precondition(world, at, wanted);
        match step.clone() {
            Step::Write {
                path: at,
                content,
                mode,
                parents,
                wanted,
            } => Mutation::Write {
                path: path(&at),
                content: content.into(),
                precondition: condition(&at, wanted),
                mode,
                parents,
            },
            Step::Append {
                path: at,
                content,
                create,
                wanted,
            } => Mutation::Append {
                path: path(&at),
                content,
                precondition: condition(&at, wanted),
                create,
            },
            Step::Remove {
                path: at,
                recursive,
                wanted,
            } => Mutation::Remove {
                path: path(&at),
                recursive,
                precondition: condition(&at, wanted),
            },
            Step::Rename {
                from,
                to,
                overwrite,
                parents,
            } => Mutation::Rename {
                from: path(&from),
                to: path(&to),
                overwrite,
                parents,
            },
            Step::Copy {
                from,
                to,
                overwrite,
                parents,
            } => Mutation::Copy {
                from: path(&from),
                to: path(&to),
                overwrite,
                parents,
            },
            Step::MakeDir { path: at, parents } => Mutation::MakeDir {
                path: path(&at),
                parents,
            },
            Step::Symlink { path: at, target } => Mutation::Symlink {
                path: path(&at),
                target,
            },
            Step::SetMode { path: at, mode } => Mutation::SetMode { path: path(&at), mode },
        }
    }
}
