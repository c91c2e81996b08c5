//! Locks between the batches of one handle.
//!
//! They are not needed for correctness if the server honours conditions, except for cases that no condition covers (a
//! directory and the keys below it); but a hundred appends that take turns cost a hundred writes, and a hundred that
//! race cost thousands.

use std::collections::BTreeSet;

use garret_core::{Mutation, WsPath};
use tokio::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::options::WriterMode;

const STRIPES: usize = 64;

/// The locks of a handle.
#[derive(Debug)]
pub(super) struct HandleLocks {
    tree: RwLock<()>,
    stripes: Vec<Mutex<()>>,
}

/// The locks of one batch, released when dropped.
#[expect(dead_code, reason = "held, not looked at")]
pub(super) enum HandleLockGuard<'a> {
    Exclusive(RwLockWriteGuard<'a, ()>),
    Shared(RwLockReadGuard<'a, ()>, Vec<MutexGuard<'a, ()>>),
}

impl Default for HandleLocks {
    fn default() -> Self {
        Self {
            tree: RwLock::default(),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
        }
    }
}

impl HandleLocks {
    /// Waits until no other batch of this handle touches the paths of `mutations`.
    pub(super) async fn lock_paths(&self, mutations: &[Mutation], writers: WriterMode) -> HandleLockGuard<'_> {
        let is_wide = |mutation: &Mutation| {
            matches!(
                mutation,
                Mutation::Rename { .. } | Mutation::Remove { .. } | Mutation::MakeDir { .. }
            )
        };
        if writers == WriterMode::Single || mutations.iter().any(is_wide) {
            return HandleLockGuard::Exclusive(self.tree.write().await);
        }
        let tree = self.tree.read().await;
        let wanted: BTreeSet<_> = mutations.iter().flat_map(touched_paths).map(stripe_of).collect();
        let mut held = Vec::with_capacity(wanted.len());
        // Always in the same order, so that no two batches wait for each other.
        for stripe in wanted {
            held.push(self.stripes[stripe].lock().await);
        }
        HandleLockGuard::Shared(tree, held)
    }
}

fn touched_paths(mutation: &Mutation) -> Vec<&WsPath> {
    match mutation {
        Mutation::Copy { from, to, .. } | Mutation::Rename { from, to, .. } => vec![from, to],
        other => vec![other.path()],
    }
}

fn stripe_of(path: &WsPath) -> usize {
    let hash = blake3::hash(path.as_str().as_bytes());
    usize::from(hash.as_bytes()[0]) % STRIPES
}
