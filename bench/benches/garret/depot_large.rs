//! A file of 5 GiB, written and read under a limit of 256 MiB of memory.

use std::process::Command;

const BYTES: u64 = 5 << 30;
/// Of what a process may write to: address space that an allocator only sets aside does not count.
const LIMIT_KIB: u64 = 256 << 10;

/// What each storage needed.
pub(crate) fn section() -> String {
    let lines = ["filestore", "local"].map(|storage| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let run = format!("ulimit -d {LIMIT_KIB} && exec \"$0\" {storage} {BYTES} \"$1\"");
        let output = Command::new("sh")
            .args(["-c", &run, env!("CARGO_BIN_EXE_large-file")])
            .arg(directory.path())
            .output()
            .expect("a shell can be run");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{storage} fails under the limit: {told}");
        format!("- {}", String::from_utf8_lossy(&output.stdout))
    });
    format!(
        "## A file larger than memory\n\nIn a process that may have {} MiB of memory for data, with full durability:\n\n{}\n",
        LIMIT_KIB >> 10,
        lines.concat()
    )
}
