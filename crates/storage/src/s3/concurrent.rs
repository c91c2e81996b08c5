//! Several requests at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};

/// The number of requests of one operation that run at once.
const AT_ONCE: usize = 16;

/// Runs the steps, several at once; returns their results in order. After a failure no further step is begun.
pub(super) fn run_concurrently<'a, T, E>(steps: Vec<BoxFuture<'a, Result<T, E>>>) -> BoxFuture<'a, Result<Vec<T>, E>>
where
    T: Send + 'a,
    E: Send + 'a,
{
    let has_failed = Arc::new(AtomicBool::new(false));
    let mut guarded: Vec<BoxFuture<'a, Option<Result<T, E>>>> = Vec::with_capacity(steps.len());
    for step in steps {
        guarded.push(run_unless_failed(step, has_failed.clone()).boxed());
    }
    // Steps that were begun are waited for, not dropped, so that their effects are known and can be reverted.
    let outcomes = futures::stream::iter(guarded).buffered(AT_ONCE).collect::<Vec<_>>();
    outcomes
        .map(|outcomes| outcomes.into_iter().flatten().collect())
        .boxed()
}

async fn run_unless_failed<T, E>(
    step: BoxFuture<'_, Result<T, E>>,
    has_failed: Arc<AtomicBool>,
) -> Option<Result<T, E>> {
    if has_failed.load(Ordering::Relaxed) {
        return None;
    }
    let outcome = step.await;
    has_failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
    Some(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn outcomes_come_in_order() {
        let steps = (0..100).map(|number| async move { Ok::<_, ()>(number) }.boxed());
        assert_eq!(run_concurrently(steps.collect()).await, Ok((0..100).collect()));
    }

    #[tokio::test]
    async fn after_a_failure_what_was_begun_is_ended_and_nothing_is_begun() {
        let ended = AtomicBool::new(false);
        let begun = AtomicBool::new(false);
        let mut steps = vec![
            async {
                tokio::task::yield_now().await;
                Err(7)
            }
            .boxed(),
            async {
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
                ended.store(true, Ordering::Relaxed);
                Ok(())
            }
            .boxed(),
        ];
        steps.extend((0..AT_ONCE).map(|_| async { Ok(()) }.boxed()));
        steps.push(
            async {
                begun.store(true, Ordering::Relaxed);
                Ok(())
            }
            .boxed(),
        );
        assert_eq!(run_concurrently(steps).await, Err(7));
        assert!(ended.load(Ordering::Relaxed) && !begun.load(Ordering::Relaxed));
    }
}
