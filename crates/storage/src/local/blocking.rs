//! Work that waits for a disk or a lock, kept off the threads that drive futures.

use garret_core::{Error, ErrorKind, Result};
use tokio::runtime::Handle;

/// Up to this many bytes, the page cache is quicker than handing the work to another thread.
pub(super) const MAX_INLINE_BYTES: u64 = 256 * 1024;

/// Runs `work` on a thread that may wait; in place where no runtime offers one.
pub(super) async fn run<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let Ok(runtime) = Handle::try_current() else {
        return work();
    };
    let done = runtime.spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(interrupted(error.is_cancelled())))
}

fn interrupted(is_cancelled: bool) -> Error {
    match is_cancelled {
        true => Error::new(ErrorKind::Unavailable, "the program is shutting down"),
        false => Error::new(ErrorKind::Internal, "a thread of the local storage failed"),
    }
}
