//! The table, and the page that keeps it.

use std::process::Command;
use std::time::Duration;

use crate::measure::Line;

/// The measurements as a Markdown table.
pub(crate) fn table(lines: &[Line]) -> String {
    let head = "| what | beside | its time | Garret | ratio | aim |\n|---|---|---|---|---|---|\n";
    let rows = lines.iter().map(|line| {
        let ratio = line.floor.as_secs_f64() / line.garret.as_secs_f64();
        let (floor, garret) = (line.floor / line.operations, line.garret / line.operations);
        format!(
            "| {} | {} | {} | {} | {ratio:.2} | {} |\n",
            line.what,
            line.floor_name,
            shown(floor),
            shown(garret),
            line.aim
        )
    });
    head.to_owned() + &rows.collect::<String>()
}

fn shown(time: Duration) -> String {
    match time.as_nanos() {
        0..10_000 => format!("{:.2} µs", time.as_secs_f64() * 1e6),
        10_000..10_000_000 => format!("{:.0} µs", time.as_secs_f64() * 1e6),
        _ => format!("{:.0} ms", time.as_secs_f64() * 1e3),
    }
}

/// The page around the table.
pub(crate) fn page(table: &str, sections: &str) -> String {
    format!(
        "# Benchmarks\n\nWritten by `make bench`. Each line is the same work done both ways in one run, in turns; the times are medians for one \
         operation, and the ratio is the speed of Garret divided by the speed of the other program (1.00 is as fast, more is faster). Everything goes through the \
         whole workspace stack: event, approval, policy, storage.\n\n{table}\n{sections}Machine: {}.\n",
        machine()
    )
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let told = |program: &str, argument: &str| {
        let output = Command::new(program).arg(argument).output();
        output.map_or_else(
            |_| "unknown".into(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        )
    };
    let rg = told("rg", "--version");
    let rg = rg.lines().next().unwrap_or_default().to_owned();
    format!(
        "{cores} cores, Linux {}, {}, {rg}, {}",
        told("uname", "-r"),
        told("rustc", "--version"),
        told("git", "--version")
    )
}
