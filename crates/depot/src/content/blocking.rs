//! Work on blocking threads. Compressing, decompressing and verifying the parts of a large file takes long enough to
//! use several cores, and must not delay the other tasks of the runtime.

use std::sync::Arc;

use futures::future::join_all;
use garret_core::Result;
use garret_handles::run_blocking;

/// The number of items for which another thread pays off.
const WORTH_A_THREAD: usize = 3;
const MOST_THREADS: usize = 4;

/// Applies `work` to each of `items` on blocking threads, on several if there are many. Returns the results in the
/// order of the items, or the first failure.
pub(super) async fn run_in_parallel<T, R>(
    items: Vec<T>,
    work: impl Fn(T) -> Result<R> + Send + Sync + 'static,
) -> Result<Vec<R>>
where
    T: Send + 'static,
    R: Send + 'static,
{
    let work = Arc::new(work);
    let runs = split_into_runs(items).into_iter().map(|run| {
        let work = Arc::clone(&work);
        run_blocking(move || run.into_iter().map(|item| work(item)).collect::<Result<Vec<R>>>())
    });
    let mut done = Vec::new();
    for run in join_all(runs).await {
        done.extend(run?);
    }
    Ok(done)
}

/// Divides `items` into runs of nearly equal length, one for each thread.
fn split_into_runs<T>(items: Vec<T>) -> Vec<Vec<T>> {
    let threads = items.len().div_ceil(WORTH_A_THREAD).clamp(1, MOST_THREADS);
    let length = items.len().div_ceil(threads);
    let mut items = items.into_iter();
    (0..threads).map(|_| items.by_ref().take(length).collect()).collect()
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use garret_core::{Error, ErrorKind};

    use super::*;

    #[tokio::test]
    async fn what_is_done_side_by_side_comes_in_order() {
        for count in [0, 1, 3, 4, 11, 100] {
            let done = run_in_parallel((0..count).collect(), |number| Ok(number * 2)).await;
            assert_eq!(done.unwrap(), (0..count).map(|number| number * 2).collect::<Vec<_>>());
        }
    }

    #[tokio::test]
    async fn the_first_failure_is_told() {
        let fails = |number: i32| match number % 10 {
            7 => Err(Error::invalid(number.to_string())),
            _ => Ok(number),
        };
        let failure = run_in_parallel((0..40).collect(), fails).await.unwrap_err();
        assert_eq!(failure.message(), "7");
    }

    #[test]
    fn a_runtime_that_has_ended_is_a_failure_and_nothing_is_left_out() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let handle = runtime.handle().clone();
        drop(runtime);
        let _entered = handle.enter();
        let failure = block_on(run_in_parallel(vec![(); 20], |()| Ok(()))).unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn without_tasks_it_is_done_where_it_is_asked_for() {
        let here = std::thread::current().id();
        let threads = block_on(run_in_parallel(vec![(); 20], |()| Ok(std::thread::current().id())));
        assert!(threads.unwrap().iter().all(|thread| *thread == here));
    }
}
