//! The one function through which every mutation of a workspace goes.

use garret_core::{Applied, Batch, Follow, Mutation, Result, StatOptions};

use crate::Workspace;

impl Workspace {
    /// Applies the mutations as one atomic change. Their paths are admitted already; here sizes and quota are checked, and the storage
    /// is asked once.
    pub(crate) async fn commit(&self, mutations: Vec<Mutation>, follow: Follow) -> Result<Vec<Applied>> {
        let batch = Batch {
            mutations,
            follow,
            ..Batch::default()
        };
        for mutation in &batch.mutations {
            self.check_size(mutation).await?;
        }
        let now = self.shared.clock.elapsed();
        let mut turns = Vec::new();
        for layer in &self.view.layers {
            if let Some(quota) = &layer.quota {
                turns.push(quota.take_turn(self.storage(), &layer.base, &batch, now).await?);
            }
        }
        let applied = self.storage().apply(batch).await?;
        turns.into_iter().for_each(crate::quota::Turn::done);
        Ok(applied)
    }

    /// Checks the size that a file would have.
    async fn check_size(&self, mutation: &Mutation) -> Result<()> {
        if self
            .view
            .layers
            .iter()
            .all(|layer| layer.rules.policy().max_file_size_mb.is_none())
        {
            return Ok(());
        }
        let size = match mutation {
            Mutation::Write { content, .. } => content.len(),
            Mutation::Append { path, content, .. } => self.size_of(path).await + content.len() as u64,
            Mutation::Copy { from, .. } => self.size_of(from).await,
            _ => return Ok(()),
        };
        let path = self.shown(mutation.path());
        self.view
            .layers
            .iter()
            .try_for_each(|layer| layer.rules.check_file_size(&path, size))
    }

    async fn size_of(&self, path: &garret_core::WsPath) -> u64 {
        // Where nothing is there, the storage says so better than this check could.
        let Ok(real) = self.storage().resolve(path).await else {
            return 0;
        };
        self.storage()
            .stat(&real, StatOptions::default())
            .await
            .map_or(0, |stat| stat.size)
    }
}
