//! The example runs and shows what it says.

#![allow(clippy::disallowed_methods, reason = "the test runs the example")]

use std::process::Command;

#[test]
fn the_example_runs() {
    let output = Command::new(env!("CARGO_BIN_EXE_embed")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(
        text.starts_with("offers 23 tools\nwrite_file: created `plan.md`"),
        "{text}"
    );
    assert!(
        text.contains("read_file: denied: `config/.env` may not be read"),
        "{text}"
    );
    assert!(text.contains("only temporary files may be removed"), "{text}");
    assert!(text.ends_with("5 operations in the log\n"), "{text}");
}
