//! The disk is full or fails; errors are clean, nothing is corrupted, and work goes on when it is well again, in the same process.
//!
//! The faults are the kernel's own: a small tmpfs in a mount namespace of the test ([`full`]), a limit on the size of files, which gives
//! short writes and then errors ([`limited`]; [`beside`] another process that has none), and single calls that `strace` makes fail ([`failing`]). A program of its own instead of a
//! list of tests, since it starts itself under each of them.

#![allow(
    clippy::disallowed_methods,
    reason = "it starts itself under a failing disk, looks at that disk, and says how it went"
)]

mod beside;
mod failing;
mod full;
mod limited;
mod work;

use std::io::Write;
use std::process::Command;

use work::Place;

const INSIDE: &str = "inside";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [INSIDE, "full", directory] => return full::inside(directory.as_ref(), Place::Filestore),
        [INSIDE, "full-local", directory] => return full::inside(directory.as_ref(), Place::Local),
        [INSIDE, "full-collect", directory] => return full::collect(directory.as_ref()),
        [INSIDE, "limited", directory] => return limited::inside(directory.as_ref(), Place::Filestore),
        [INSIDE, "limited-local", directory] => return limited::inside(directory.as_ref(), Place::Local),
        [INSIDE, "beside", directory] => return beside::inside(directory.as_ref()),
        [INSIDE, "beside-other", home] => return beside::other(home.as_ref()),
        [INSIDE, "failing", directory, call] => return failing::inside(directory.as_ref(), call),
        _ => {}
    }
    full::run();
    limited::run();
    beside::run();
    failing::run();
}

fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("somebody listens");
}

/// Starts this program again as the last words of `before`, in the role `role`; it must end well.
fn start(before: &[&str], role: &[&str]) {
    let program = std::env::current_exe().expect("this program has a file");
    let program = program.to_str().expect("its path is UTF-8");
    let words: Vec<&str> = before
        .iter()
        .copied()
        .chain([program, INSIDE])
        .chain(role.iter().copied())
        .collect();
    let status = Command::new(words[0]).args(&words[1..]).status();
    let status = status.unwrap_or_else(|error| panic!("{} cannot be started: {error}", words[0]));
    assert!(status.success(), "{role:?} fails: {status}");
}

/// In memory where there is such a place: the faults are the same there, and the syncs between them cost nothing.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a temporary directory can be made")
}
