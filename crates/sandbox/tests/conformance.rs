//! The sandbox `namespace` keeps the contract of sandboxes.

use std::path::Path;
use std::sync::Arc;

use garret_core::Sandbox;
use garret_sandbox::namespace::{NamespaceOptions, NamespaceSandbox, SupervisorProgram};

fn namespace(_private: &Path) -> Arc<dyn Sandbox> {
    let supervisor = SupervisorProgram {
        path: env!("CARGO_BIN_EXE_garret-supervisor").into(),
        arguments: Vec::new(),
    };
    Arc::new(NamespaceSandbox::new(NamespaceOptions {
        supervisor: Some(supervisor),
        ..NamespaceOptions::default()
    }))
}

garret_testkit::sandbox_tests!(namespace);

/// A shell that starts Garret in the background ignores SIGINT for it; commands in a sandbox can be interrupted all the
/// same. The tests run once more in a process that ignores what such a shell ignores, and SIGHUP, as `nohup` does.
#[test]
#[allow(clippy::disallowed_methods, reason = "the tests themselves are started again")]
fn a_command_inherits_no_ignored_signal() {
    let tests = std::env::current_exe().expect("the tests have a path");
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", "trap '' INT QUIT HUP; exec \"$0\" a_command_can_be_asked_to_end"]);
    let again = shell.arg(tests).output().expect("a shell starts");
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success() && said.contains("2 passed"), "{said}");
}
