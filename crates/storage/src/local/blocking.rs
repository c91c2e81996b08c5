//! Work that waits for a disk or a lock, kept off the threads that run futures.

use garret_core::{Error, ErrorKind, Result};
use tokio::runtime::Handle;

/// The size up to which the page cache is quicker than handing the work to another thread.
pub(super) const MAX_INLINE_BYTES: u64 = 256 * 1024;

/// Runs `work` on a thread that may block; in place if there is no runtime to offer one.
pub(super) async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let Ok(runtime) = Handle::try_current() else {
        return work();
    };
    let done = runtime.spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(interrupted_error(error.is_cancelled())))
}

fn interrupted_error(is_cancelled: bool) -> Error {
    if is_cancelled {
        Error::new(ErrorKind::Unavailable, "the program is shutting down")
    } else {
        Error::new(ErrorKind::Internal, "a thread of the local storage failed")
    }
}
