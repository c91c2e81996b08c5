//! Work that waits for a disk, a lock or a processor, kept off the threads that run futures.

use garret_core::{Error, ErrorKind, Result};
use tokio::runtime::Handle;

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
    fn a_runtime_that_has_ended_is_unavailable() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let handle = runtime.handle().clone();
        drop(runtime);
        let _entered = handle.enter();
        let failure = block_on(run_blocking(|| Ok(()))).unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::Unavailable);
    }
}
