//! The example runs and shows what it says.

#![allow(clippy::disallowed_methods, reason = "the test runs the example")]

use std::process::Command;

#[test]
fn the_example_runs() {
    let output = Command::new(env!("CARGO_BIN_EXE_custom-sandbox")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(
        text.ends_with("hello\n0\nexit code 0\nchanged: greeting\n"),
        "a network without routes: {text}"
    );
}
