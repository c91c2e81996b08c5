//! What a person sees of work that takes a while: one line on standard error, only on a terminal, gone when the work is done.

#![allow(
    clippy::disallowed_methods,
    reason = "the line moves with the wall clock, and nothing depends on it"
)]

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use garret::depot::Progress as Reached;

use crate::render;

/// How often the line is drawn.
const PAUSE: Duration = Duration::from_millis(100);
const WIDTH: usize = 24;

/// A line that shows that work goes on; it is cleared when this is dropped.
pub(crate) struct Progress {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    label: String,
    done: AtomicU64,
    total: AtomicU64,
    is_over: AtomicBool,
}

impl Progress {
    /// Shows that something is done whose amount nobody knows.
    pub(crate) fn spinner(label: &str) -> Self {
        let shared = Arc::new(Shared {
            label: label.to_owned(),
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        });
        let drawn = shared.clone();
        let thread = std::io::stderr()
            .is_terminal()
            .then(|| std::thread::spawn(move || draw_until_over(&drawn)));
        Self { shared, thread }
    }

    /// Shows how many bytes of something are done, as soon as [`Progress::set`] says so.
    pub(crate) fn bar(label: &str) -> Self {
        Self::spinner(label)
    }

    /// Says how far the work has come.
    pub(crate) fn set(&self, reached: Reached) {
        self.shared.done.store(reached.bytes, Ordering::Relaxed);
        self.shared.total.store(reached.total.unwrap_or(0), Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn draw_until_over(shared: &Shared) {
    let mut turn = 0;
    while !shared.is_over.load(Ordering::Acquire) {
        // What ends at once shows nothing.
        std::thread::park_timeout(PAUSE);
        put(&format!("\r\x1b[2K{}", shared.line(turn)));
        turn += 1;
    }
    put("\r\x1b[2K");
}

fn put(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // A line that cannot be drawn is no reason to stop.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

impl Shared {
    fn line(&self, turn: usize) -> String {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        line(&self.label, done, total, turn)
    }
}

/// A bar where the total is known, else a wheel and what was done so far.
fn line(label: &str, done: u64, total: u64, turn: usize) -> String {
    let wheel = ['|', '/', '-', '\\'][turn % 4];
    match (done, total) {
        (0, 0) => format!("{wheel} {label}"),
        (done, 0) => format!("{wheel} {label}: {}", render::size(done)),
        (done, total) => {
            let filled = usize::try_from(done.min(total).saturating_mul(WIDTH as u64) / total).unwrap_or(WIDTH);
            let bar = format!("{}{}", "#".repeat(filled), ".".repeat(WIDTH - filled));
            format!("[{bar}] {label}: {} of {}", render::size(done), render::size(total))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_as_much_as_is_known() {
        assert_eq!(line("x", 0, 0, 0), "| x");
        assert_eq!(line("x", 7, 0, 1), "/ x: 7 B");
        assert_eq!(line("x", 1, 2, 0), "[############............] x: 1 B of 2 B");
        assert_eq!(line("x", 9, 2, 0), "[########################] x: 9 B of 2 B");
    }
}
