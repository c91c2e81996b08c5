//! Garret beside a floor: each line is one piece of work done both ways in the same run, in turns, and the ratio of the medians.
//!
//! In turns, because this kind of measurement is about a ratio: whatever the machine does meanwhile, it does to both. `make bench` runs
//! it and writes the table to `docs/benchmarks.md`.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(
    clippy::disallowed_methods,
    reason = "the floor is the raw file system and the raw clock"
)]

mod files;
mod mcp;
mod measure;
mod report;
mod search;

use std::path::Path;

fn main() {
    // Cargo also runs benchmarks as tests; there is nothing to test here.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let mut lines = runtime.block_on(files::lines());
    lines.extend(search::lines(&runtime));
    lines.extend(mcp::lines());
    let table = report::table(&lines);
    println!("{table}");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/benchmarks.md");
    std::fs::write(page, report::page(&table)).expect("docs can be written");
}
