//! Garret beside a floor: each line is one piece of work done both ways in the same run, in turns, and the ratio of the medians.
//!
//! In turns, because this kind of measurement is about a ratio: whatever the machine does meanwhile, it does to both. `make bench` runs
//! it and writes the table to `docs/benchmarks.md`; with the names of groups (`files`, `depot`, …) it only prints those.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its table, and what it could not measure"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "the floor is the raw file system and the raw clock"
)]

mod depot;
mod depot_large;
mod depot_scale;
mod depot_sync;
mod files;
mod filestore;
mod journal;
mod mcp;
mod mcp_bytes;
mod measure;
mod peers;
mod real_work;
mod report;
mod s3;
mod search;
mod shell;
mod snapshot;

use std::path::Path;

/// Some of the lines.
type Group = fn(&tokio::runtime::Runtime) -> Vec<measure::Line>;

/// A part of the page after the table.
type Section = fn(&tokio::runtime::Runtime) -> String;

fn main() {
    // Cargo also runs benchmarks as tests; there is nothing to test here.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let groups: [(&str, Group); 9] = [
        ("files", |runtime| runtime.block_on(files::lines())),
        ("depot", |runtime| runtime.block_on(depot::lines())),
        ("journal", |runtime| runtime.block_on(journal::lines())),
        ("snapshot", |runtime| runtime.block_on(snapshot::lines())),
        ("shell", |runtime| runtime.block_on(shell::lines())),
        ("search", search::lines),
        ("filestore", |runtime| runtime.block_on(filestore::lines())),
        ("work", |_| real_work::lines()),
        ("mcp", |_| mcp::lines()),
    ];
    let wanted: Vec<_> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    let chosen = groups.iter().filter(|(name, _)| is_wanted(name));
    let lines: Vec<_> = chosen.flat_map(|(_, run)| run(&runtime)).collect();
    let table = report::table(&lines);
    println!("{table}");
    let sections: [(&str, Section); 7] = [
        ("bytes", |_| mcp_bytes::section()),
        ("shell", |runtime| runtime.block_on(shell::section())),
        ("sync", |_| depot_sync::section()),
        ("peers", |runtime| runtime.block_on(peers::section())),
        ("scale", |runtime| runtime.block_on(depot_scale::section())),
        ("large", |_| depot_large::section()),
        ("s3", |runtime| runtime.block_on(s3::section())),
    ];
    let chosen = sections.iter().filter(|(name, _)| is_wanted(name));
    let printed = |text: String| {
        println!("{text}");
        text
    };
    let sections: String = chosen.map(|(_, run)| printed(run(&runtime))).collect();
    if !wanted.is_empty() || measure::is_quick() {
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks.md");
    std::fs::write(page, report::page(&table, &sections)).expect("docs can be written");
}
