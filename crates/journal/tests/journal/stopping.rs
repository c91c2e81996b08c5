//! A change that comes to a stop in its middle, as that of a process that is killed does: some mutations are done, the rest never.

use std::sync::Arc;

use async_trait::async_trait;
use garret_core::Batch;
use garret_testkit::{Call, Hook};
use tokio::sync::Notify;

/// Stops each change after `steps` of its mutations.
#[derive(Debug)]
pub(crate) struct Stopping {
    pub(crate) steps: usize,
    /// Told when a change has come so far.
    pub(crate) stopped: Arc<Notify>,
}

#[async_trait]
impl Hook for Stopping {
    fn batch(&self, mut batch: Batch) -> Batch {
        batch.mutations.truncate(self.steps);
        batch
    }

    async fn after(&self, call: Call<'_>) {
        if matches!(call, Call::Apply) {
            self.stopped.notify_one();
            std::future::pending().await
        }
    }
}
