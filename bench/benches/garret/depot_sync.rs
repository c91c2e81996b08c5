//! What a group of durable writes is worth, by how long a sync takes: on this machine's disk, and where each takes longer.

use std::process::Command;

/// How much longer each sync takes, in microseconds.
const LONGER: [u32; 4] = [0, 250, 1_000, 4_000];

/// A table of it.
pub(crate) fn section() -> String {
    let rows = LONGER.map(|longer| {
        let [sync, alone, together, plain_alone, plain_together] = measured(longer);
        let (ratio, plain_ratio) = (alone / together, plain_alone / plain_together);
        let disk = match longer {
            0 => "this disk".to_owned(),
            longer => format!("this disk, each sync {longer} µs longer"),
        };
        let plain = format!("{plain_alone:.0} µs | {plain_together:.0} µs | {plain_ratio:.1}");
        format!("| {disk} | {sync:.0} µs | {alone:.0} µs | {together:.0} µs | {ratio:.1} | {plain} |\n")
    });
    format!(
        "## Durable writes of many tasks, by the disk\n\n\
         Files of 4 KiB on filestore, with full durability: a loop that writes one after the other, and 64 tasks that write at once. Beside it, by hand: plain INSERTs of the rows that such a file has, a transaction for each file and one for 64, in one thread. Where a sync is to take longer, `strace` holds each of them up.\n\n\
         | where | a sync takes | a write in the loop | a write of 64 tasks | ratio | rows in a transaction for each | in one for 64 | ratio |\n|---|---|---|---|---|---|---|---|\n{}\n",
        rows.concat()
    )
}

/// How long a sync, a write in the loop, a write of the tasks, and the same by plain INSERTs took, in microseconds.
fn measured(longer: u32) -> [f64; 5] {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = env!("CARGO_BIN_EXE_group-commit");
    let mut command = match longer {
        0 => Command::new(program),
        longer => {
            let inject = format!("inject=fsync,fdatasync:delay_exit={longer}");
            let mut strace = Command::new("strace");
            strace.args(["-f", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=fsync,fdatasync"]);
            strace.args(["-e", &inject, program]);
            strace
        }
    };
    let output = command.arg(directory.path()).output();
    let output = output.expect("strace is installed by scripts/setup-tests");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the writes fail: {told}");
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut numbers = printed.split_whitespace().map(|number| number.parse::<f64>());
    [(); 5].map(|()| numbers.next().and_then(Result::ok).expect("it prints five numbers"))
}
