//! Applying a batch: in order, and all or nothing as long as this process and the server live.
//!
//! Each mutation takes effect at once and is recorded for reverting. Consecutive writes that are independent of each
//! other are sent concurrently, and so are removals. Within this handle, two batches that touch the same paths wait for
//! each other, and a batch that moves or removes directories waits for all others; between handles and processes,
//! conditional writes decide.

use std::collections::BTreeSet;
use std::sync::Mutex;

use futures::FutureExt;
use garret_core::{Batch, Follow, Mutation, MutationOutcome, Result, WsPath};

use super::S3Context;
use super::concurrent::run_concurrently;
use super::locate::{S3FinalLink, S3LinkRules};
use super::remove_all::leading_removals;
use super::undo::S3UndoStep;

/// A batch that is being applied.
pub(super) struct S3BatchRun<'a> {
    pub(super) shared: &'a S3Context,
    pub(super) follow: Follow,
    /// Whether objects are saved before they are replaced or removed, because a later mutation may fail.
    pub(super) saves: bool,
    pub(super) undo: Mutex<Vec<S3UndoStep>>,
}

pub(super) async fn apply_batch(shared: &S3Context, batch: Batch) -> Result<Vec<MutationOutcome>> {
    let _turn = shared.turns.lock_paths(&batch.mutations, shared.options.writers).await;
    let work = S3BatchRun {
        shared,
        follow: batch.follow,
        saves: batch.mutations.len() > 1,
        undo: Mutex::default(),
    };
    match work.run_mutations(&batch.mutations).await {
        Ok(applied) => {
            work.remove_saved_copies().await;
            Ok(applied)
        }
        Err(error) => Err(work.revert_batch(error).await),
    }
}

impl S3BatchRun<'_> {
    async fn run_mutations(&self, mutations: &[Mutation]) -> Result<Vec<MutationOutcome>> {
        let mut applied = Vec::with_capacity(mutations.len());
        let mut rest = mutations;
        while !rest.is_empty() {
            let removals = leading_removals(rest, self.follow);
            if !removals.is_empty() {
                applied.extend(self.remove_all(&removals).await?);
                rest = &rest[removals.len()..];
                continue;
            }
            let (group, after) = rest.split_at(count_independent(rest));
            let steps = group.iter().map(|mutation| self.run_mutation(mutation).boxed());
            applied.extend(run_concurrently(steps.collect()).await?);
            rest = after;
        }
        Ok(applied)
    }

    pub(super) fn link_rules(&self, last: S3FinalLink) -> S3LinkRules {
        S3LinkRules {
            last,
            follow: self.follow,
        }
    }

    pub(super) fn record_undo(&self, undo: S3UndoStep) {
        self.undo.lock().expect("no holder panics").push(undo);
    }

    async fn run_mutation(&self, mutation: &Mutation) -> Result<MutationOutcome> {
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
fn count_independent(mutations: &[Mutation]) -> usize {
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
        assert_eq!(count_independent(&[write("a/x"), write("a/y"), write("b")]), 3);
        assert_eq!(count_independent(&[write("a"), write("a")]), 1);
        assert_eq!(count_independent(&[write("a"), write("a/b")]), 1);
        assert_eq!(count_independent(&[write("a/b"), write("c"), write("a")]), 2);
        let remove = Mutation::Remove {
            path: WsPath::parse("a").unwrap(),
            recursive: false,
            precondition: garret_core::Precondition::Any,
        };
        assert_eq!(count_independent(&[write("x"), remove.clone(), write("y")]), 1);
        assert_eq!(count_independent(&[remove, write("y")]), 1);
    }
}
