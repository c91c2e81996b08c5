//! Single calls that fail with EIO, as on a disk that is dying: every so many of one kind, for a while.

use std::path::Path;

use crate::work::{After, Place, Work, block_on};
use crate::{say, scratch, start};

/// The calls that reach the disk, and when they fail: from, until, every.
const CALLS: [(&str, &str); 8] = [
    // SQLite writes and reads.
    ("pwrite64", "40..400+7"),
    ("pread64", "60..600+11"),
    // Blobs are written and put in their place; both are synced.
    ("write", "3..80+3"),
    ("fsync", "4..60+3"),
    ("rename", "2..30+2"),
    ("openat", "120..400+9"),
    ("ftruncate", "1..20+1"),
    ("unlink", "1..20+1"),
];

pub(crate) fn run() {
    for (call, when) in CALLS {
        let directory = scratch();
        let home = directory.path().join("home");
        drop(block_on(Work::begin(&home, Place::Filestore)));
        let home = home.to_str().expect("its path is UTF-8");
        let log = directory.path().join("log");
        let inject = format!("inject={call}:error=EIO:when={when}");
        let trace = format!("trace={call}");
        let log_name = log.to_str().expect("its path is UTF-8");
        start(
            &[
                "strace",
                "-f",
                "-qq",
                "--seccomp-bpf",
                "-e",
                "signal=none",
                "-e",
                &trace,
                "-e",
                &inject,
                "-o",
                log_name,
            ],
            &["failing", home, call],
        );
        let struck = std::fs::read_to_string(&log)
            .expect("strace wrote its log")
            .matches("(INJECTED)")
            .count();
        say(&format!("{call} failing: {struck} times, nothing lost, work went on"));
    }
}

pub(crate) fn inside(home: &Path, call: &str) {
    block_on(async {
        let mut work = Work::resume(home, Place::Filestore).await;
        let (mut well, mut met) = (0, 0);
        for _ in 0..400 {
            work.change(After::ChangedOrNot).await;
            well = if work.errors() == met { well + 1 } else { 0 };
            met = work.errors();
            if met > 0 && well > 40 {
                break;
            }
        }
        // Not every one of these is needed for a change.
        assert!(
            met > 0 || matches!(call, "ftruncate" | "unlink"),
            "nothing met a failing {call}"
        );
        work.recovers(home).await;
    });
}
