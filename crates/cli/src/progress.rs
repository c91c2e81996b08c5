//! The progress line of long work: one line on standard error, drawn only on a terminal and cleared when the work is
//! done.

#![allow(
    clippy::disallowed_methods,
    reason = "the line moves with the wall clock, and nothing depends on it"
)]

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use garret::transfer::Progress;

use crate::render;

/// The time before the line is drawn, so that short work draws none.
const DELAY: Duration = Duration::from_secs(1);
/// The time between two drawings of the line.
const PAUSE: Duration = Duration::from_millis(100);
const WIDTH: usize = 24;

/// A line that shows that work goes on; it is cleared on drop.
pub(crate) struct ProgressLine {
    shared: Arc<ProgressLineState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct ProgressLineState {
    label: String,
    done: AtomicU64,
    total: AtomicU64,
    is_over: AtomicBool,
    /// Whether this line gives way to every other line and to output.
    is_general: bool,
}

/// The number of open lines that are not general.
static SPECIAL: AtomicU64 = AtomicU64::new(0);
/// Whether something else is on the screen now, so that no general line may be drawn.
static IS_STOPPED: AtomicBool = AtomicBool::new(false);

/// Ends the general line: output or a question follows. The line is off the screen when this returns.
pub(crate) fn stop_general_line() {
    // Under the lock, so that no thread draws the line again after it was cleared.
    let _turn = lock_drawing();
    if !IS_STOPPED.swap(true, Ordering::AcqRel) && IS_DRAWN.swap(false, Ordering::AcqRel) {
        put_text(CLEAR);
    }
}

impl ProgressLine {
    /// Shows that work goes on, and how many bytes of it are done as soon as that is known.
    pub(crate) fn start(label: &str) -> Self {
        SPECIAL.fetch_add(1, Ordering::AcqRel);
        Self::start_drawing(label, false)
    }

    /// Shows that a command goes on. This line gives way to output and to lines that tell more.
    pub(crate) fn general_line(label: &str) -> Self {
        Self::start_drawing(label, true)
    }

    fn start_drawing(label: &str, is_general: bool) -> Self {
        let shared = Arc::new(ProgressLineState {
            label: label.to_owned(),
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            is_general,
        });
        let drawn = shared.clone();
        let thread = std::io::stderr()
            .is_terminal()
            .then(|| std::thread::spawn(move || draw_until_over(&drawn)));
        Self { shared, thread }
    }

    /// Sets the number of bytes that the work has in all.
    pub(crate) fn set_total(&self, total: u64) {
        self.shared.total.store(total, Ordering::Relaxed);
    }

    /// Returns a counter of finished bytes, for the code that processes them.
    pub(crate) fn counter(&self) -> ProgressCounter {
        ProgressCounter(self.shared.clone())
    }

    /// Sets how many bytes are done, and how many there are in all if that is known.
    pub(crate) fn set_reached(&self, reached: Progress) {
        self.shared.done.store(reached.bytes, Ordering::Relaxed);
        self.shared.total.store(reached.total.unwrap_or(0), Ordering::Relaxed);
    }
}

/// Counts bytes that are done.
#[derive(Debug, Clone)]
pub(crate) struct ProgressCounter(Arc<ProgressLineState>);

impl ProgressCounter {
    pub(crate) fn add(&self, bytes: u64) {
        self.0.done.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if !self.shared.is_general {
            SPECIAL.fetch_sub(1, Ordering::AcqRel);
        }
        self.shared.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // Joined, so that the line is off the screen before anything else is printed.
            let _ = thread.join();
        }
    }
}

fn draw_until_over(shared: &ProgressLineState) {
    let mut turn = 0;
    // Parked and not asleep, so that the end of the work wakes this thread at once.
    std::thread::park_timeout(DELAY);
    while !shared.is_over.load(Ordering::Acquire) {
        shared.draw_line(turn);
        std::thread::park_timeout(PAUSE);
        turn += 1;
    }
    let _turn = lock_drawing();
    if IS_DRAWN.swap(false, Ordering::AcqRel) {
        put_text(CLEAR);
    }
}

/// Takes the line off the screen.
const CLEAR: &str = "\r\x1b[2K";
/// Whether a line is on the screen.
static IS_DRAWN: AtomicBool = AtomicBool::new(false);

/// Takes the lock under which a line is drawn or cleared.
fn lock_drawing() -> MutexGuard<'static, ()> {
    static DRAWING: Mutex<()> = Mutex::new(());
    DRAWING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn put_text(text: &str) {
    let mut stderr = std::io::stderr().lock();
    // A line that cannot be drawn is no reason to stop.
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

impl ProgressLineState {
    fn draw_line(&self, turn: usize) {
        let _turn = lock_drawing();
        // Checked under the lock, so that nothing is drawn after `stop_general_line` has returned.
        let gives_way = SPECIAL.load(Ordering::Acquire) > 0 || IS_STOPPED.load(Ordering::Acquire);
        if !(self.is_general && gives_way) {
            IS_DRAWN.store(true, Ordering::Release);
            put_text(&format!("{CLEAR}{}", self.format_line(turn)));
        }
    }

    fn format_line(&self, turn: usize) -> String {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        format_progress(&self.label, done, total, turn)
    }
}

/// Formats a bar if the total is known; otherwise a wheel and the number of bytes so far.
fn format_progress(label: &str, done: u64, total: u64, turn: usize) -> String {
    let wheel = ['|', '/', '-', '\\'][turn % 4];
    match (done, total) {
        (0, 0) => format!("{wheel} {label}"),
        (done, 0) => format!("{wheel} {label}: {}", render::format_size(done)),
        (done, total) => {
            let filled = usize::try_from(done.min(total).saturating_mul(WIDTH as u64) / total).unwrap_or(WIDTH);
            let bar = format!("{}{}", "#".repeat(filled), ".".repeat(WIDTH - filled));
            format!(
                "[{bar}] {label}: {} of {}",
                render::format_size(done),
                render::format_size(total)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_as_much_as_is_known() {
        assert_eq!(format_progress("x", 0, 0, 0), "| x");
        assert_eq!(format_progress("x", 7, 0, 1), "/ x: 7 B");
        assert_eq!(
            format_progress("x", 1, 2, 0),
            "[############............] x: 1 B of 2 B"
        );
        assert_eq!(
            format_progress("x", 9, 2, 0),
            "[########################] x: 9 B of 2 B"
        );
    }
}
