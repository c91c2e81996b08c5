//! Applying a batch: in order, and all or nothing as long as this process and the server live.
//!
//! Each mutation takes effect at once and is recorded for reverting. Consecutive writes that are independent of each
//! other are sent concurrently, and so are removals. Within this handle, two batches that touch the same paths wait for
//! each other, and a batch that moves or removes directories waits for all others; between handles and processes,
//! conditional writes decide.

use std::collections::BTreeSet;
use std::sync::Mutex;

use futures::FutureExt;
use garret_core::{Applied, Batch, Follow, Mutation, Result, WsPath};

use super::Shared;
use super::at_once::try_all;
use super::locate::{Last, Way};
use super::remove_all::removals;
use super::undo::Undo;

/// A batch that is being applied.
pub(super) struct Work<'a> {
    pub(super) shared: &'a Shared,
    pub(super) follow: Follow,
    /// Whether objects are saved before they are replaced or removed, because a later mutation may fail.
    pub(super) saves: bool,
    pub(super) undo: Mutex<Vec<Undo>>,
}

pub(super) async fn apply(shared: &Shared, batch: Batch) -> Result<Vec<Applied>> {
    let _turn = shared.turns.wait(&batch.mutations, shared.options.writers).await;
    let work = Work {
        shared,
        follow: batch.follow,
        saves: batch.mutations.len() > 1,
        undo: Mutex::default(),
    };
    match work.run(&batch.mutations).await {
        Ok(applied) => {
            work.tidy().await;
            Ok(applied)
        }
        Err(error) => Err(work.take_back(error).await),
    }
}

impl Work<'_> {
    async fn run(&self, mutations: &[Mutation]) -> Result<Vec<Applied>> {
        let mut applied = Vec::with_capacity(mutations.len());
        let mut rest = mutations;
        while !rest.is_empty() {
            let removals = removals(rest, self.follow);
            if !removals.is_empty() {
                applied.extend(self.remove_all(&removals).await?);
                rest = &rest[removals.len()..];
                continue;
            }
            let (group, after) = rest.split_at(independent(rest));
            let steps = group.iter().map(|mutation| self.step(mutation).boxed());
            applied.extend(try_all(steps.collect()).await?);
            rest = after;
        }
        Ok(applied)
    }

    pub(super) fn way(&self, last: Last) -> Way {
        Way {
            last,
            follow: self.follow,
        }
    }

    pub(super) fn note(&self, undo: Undo) {
        self.undo.lock().expect("no holder panics").push(undo);
    }

    async fn step(&self, mutation: &Mutation) -> Result<Applied> {
        match mutation {
            Mutation::Write {
                path,
                content,
                precondition,
                mode,
                parents,
            } => self.write(path, content, precondition, *mode, *parents).await,
            Mutation::Append {
                path,
                content,
                precondition,
                create,
            } => self.append(path, content, precondition, *create).await,
            Mutation::Remove {
                path,
                recursive,
                precondition,
            } => self.remove(path, *recursive, precondition).await,
            Mutation::Rename {
                from,
                to,
                overwrite,
                parents,
            } => self.rename(from, to, *overwrite, *parents).await,
            Mutation::Copy {
                from,
                to,
                overwrite,
                parents,
            } => self.copy(from, to, *overwrite, *parents).await,
            Mutation::MakeDir { path, parents } => self.make_dir(path, *parents).await,
            Mutation::Symlink { path, target } => self.make_link(path, target).await,
            Mutation::SetMode { path, mode } => self.set_mode(path, *mode).await,
        }
    }
}

/// Returns the number of mutations at the front that can be sent concurrently: writes of files of which none is at,
/// above or below another.
fn independent(mutations: &[Mutation]) -> usize {
    // Links could make two names one file. Then one of the writes loses its condition and is repeated after the other,
    // so the result is still right.
    let mut files: BTreeSet<&WsPath> = BTreeSet::new();
    let mut above: BTreeSet<WsPath> = BTreeSet::new();
    let mut count = 0;
    for mutation in mutations {
        let Mutation::Write { path, .. } = mutation else { break };
        let directories: Vec<_> = path.ancestry().filter(|above| above != path).collect();
        let clashes = above.contains(path) || directories.iter().any(|directory| files.contains(directory));
        if clashes || !files.insert(path) {
            break;
        }
        above.extend(directories);
        count += 1;
    }
    count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(text: &str) -> Mutation {
        Mutation::write(WsPath::parse(text).unwrap(), "x")
    }

    #[test]
    fn writes_that_have_nothing_to_do_with_each_other_go_together() {
        assert_eq!(independent(&[write("a/x"), write("a/y"), write("b")]), 3);
        assert_eq!(independent(&[write("a"), write("a")]), 1);
        assert_eq!(independent(&[write("a"), write("a/b")]), 1);
        assert_eq!(independent(&[write("a/b"), write("c"), write("a")]), 2);
        let remove = Mutation::Remove {
            path: WsPath::parse("a").unwrap(),
            recursive: false,
            precondition: garret_core::Precondition::Any,
        };
        assert_eq!(independent(&[write("x"), remove.clone(), write("y")]), 1);
        assert_eq!(independent(&[remove, write("y")]), 1);
    }
}
