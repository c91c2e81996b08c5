//! Work that waits for a disk, a lock or a processor, kept off the threads that run futures.

use garret_core::{Error, ErrorKind, Result};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Runs `work` on a thread of the runtime that may block; in place if there is no runtime, because no other task waits
/// there. Fails with `unavailable` if the runtime ends before the work does. A panic of `work` goes on in the caller.
pub async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let Ok(runtime) = Handle::try_current() else {
        return work();
    };
    match runtime.spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            // A panic is a defect of the program: it must not look like an error of a disk.
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::new(ErrorKind::Unavailable, "the program is about to end")),
        },
    }
}

/// Runs `work` on a new thread, with or without a runtime: for work that may wait as long as another program likes, and
/// would take a thread of the runtime from all others meanwhile. `purpose` completes "the system gives no thread to …".
/// A panic of `work` goes on in the caller.
pub async fn run_on_own_thread<T: Send + 'static>(
    purpose: &str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, done) = oneshot::channel();
    let started = std::thread::Builder::new()
        .name("garret-waits".into())
        .spawn(move || drop(sender.send(work())));
    let thread = started.map_err(|_| {
        Error::new(
            ErrorKind::Unavailable,
            format!("the system gives no thread to {purpose}"),
        )
        .hint("end other programs, or raise the limit on processes and threads")
    })?;
    match done.await {
        Ok(done) => done,
        // The work did not return, so it panicked.
        Err(_) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("a thread that ends without a panic has sent its result"),
        },
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    #[test]
    fn without_a_runtime_the_work_is_done_in_place() {
        let here = std::thread::current().id();
        assert_eq!(
            block_on(run_blocking(|| Ok(std::thread::current().id()))).unwrap(),
            here
        );
    }

    #[tokio::test]
    async fn with_a_runtime_the_work_is_done_on_another_thread() {
        let here = std::thread::current().id();
        assert_ne!(run_blocking(|| Ok(std::thread::current().id())).await.unwrap(), here);
    }

    #[tokio::test]
    #[should_panic(expected = "a defect")]
    async fn a_panic_of_the_work_goes_on_in_the_caller() {
        let _ = run_blocking(|| -> Result<()> { panic!("a defect") }).await;
    }

    #[test]
    fn work_on_its_own_thread_needs_no_runtime() {
        let here = std::thread::current().id();
        let other = block_on(run_on_own_thread("test", || Ok(std::thread::current().id())));
        assert_ne!(other.unwrap(), here);
    }

    #[test]
    #[should_panic(expected = "a defect")]
    fn a_panic_on_its_own_thread_goes_on_in_the_caller() {
        let _ = block_on(run_on_own_thread("test", || -> Result<()> { panic!("a defect") }));
    }

    #[test]
    fn a_runtime_that_has_ended_is_unavailable() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let handle = runtime.handle().clone();
        drop(runtime);
        let _entered = handle.enter();
        let failure = block_on(run_blocking(|| Ok(()))).unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::Unavailable);
    }
}
