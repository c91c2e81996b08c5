//! Where `scripts/setup-tests` put the servers.

#![allow(
    clippy::disallowed_methods,
    reason = "it looks whether a program of the test set-up is there"
)]

use std::path::{Path, PathBuf};

const FOLDER: &str = "tests/s3";

fn repository() -> &'static Path {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    crates
        .and_then(Path::parent)
        .expect("this crate lies in the repository")
}

/// A program of the packages that the tests bring.
pub(super) fn installed(name: &str) -> PathBuf {
    let program = repository().join(FOLDER).join(".venv/bin").join(name);
    assert!(
        program.exists(),
        "{FOLDER}/.venv/bin/{name} is missing: run scripts/setup-tests, which brings the S3 servers"
    );
    program
}

/// A script beside them.
pub(super) fn script(name: &str) -> PathBuf {
    repository().join(FOLDER).join(name)
}
