//! Writes that are cut short and then fail: no file may grow beyond a limit, which comes and goes.

use std::path::Path;
use std::process::Command;

use crate::work::{After, Place, Work, block_on};
use crate::{say, scratch, start};

/// The signal that the kernel sends with the error is ignored by those whose parent ignored it.
pub(crate) const IGNORING: [&str; 3] = ["sh", "-c", "trap '' XFSZ; exec \"$0\" \"$@\""];

pub(crate) fn run() {
    for role in ["limited", "limited-local"] {
        let directory = scratch();
        start(
            &IGNORING,
            &[role, directory.path().to_str().expect("its path is UTF-8")],
        );
    }
}

pub(crate) fn inside(directory: &Path, place: Place) {
    block_on(async {
        let home = directory.join("home");
        let mut work = Work::begin(&home, place).await;
        let mut met = 0;
        // Within a blob; within the log of the database, at several places of a page.
        for limit in [70_000, 20_000, 33_333, 4_097] {
            let log = std::fs::metadata(home.join("depot.db-wal")).map_or(0, |log| log.len());
            for limit in [limit, log + limit / 3] {
                set_limit(&limit.to_string());
                let mut failed = 0;
                for _ in 0..10 {
                    failed += usize::from(work.change(After::ChangedOrNot).await.is_some());
                }
                set_limit("unlimited");
                met += failed;
            }
            assert!(work.change(After::Unchanged).await.is_none(), "the limit is gone");
        }
        assert!(met > 10, "only {met} changes met the limit");
        work.recovers(&home).await;
        say(&format!(
            "short writes, {place:?}: {met} changes refused, nothing lost, work went on each time"
        ));
    });
}

/// Sets the limit of this very process, which stays free to take it back.
pub(crate) fn set_limit(bytes: &str) {
    let process = std::process::id().to_string();
    let limit = format!("--fsize={bytes}:unlimited");
    let set = Command::new("prlimit").args(["--pid", &process, &limit]).status();
    assert!(
        set.expect("prlimit is there").success(),
        "a process may lower its own limit"
    );
}
