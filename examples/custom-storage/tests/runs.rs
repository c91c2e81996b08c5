//! The example runs and shows what it says.

#![allow(clippy::disallowed_methods, reason = "the test runs the example")]

use std::process::Command;

#[test]
fn the_example_runs() {
    let output = Command::new(env!("CARGO_BIN_EXE_custom-storage")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("hello, world\n"), "{text}");
    assert!(
        text.ends_with("on metered: 13 bytes written\nsomething was read: true\n"),
        "{text}"
    );
}
