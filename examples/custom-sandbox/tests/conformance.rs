//! The sandbox of the example keeps the contract.

use std::path::Path;
use std::sync::Arc;

use custom_sandbox::Offline;
use garret_core::Sandbox;
use garret_sandbox::host::{HostOptions, HostSandbox};

fn offline(_private: &Path) -> Arc<dyn Sandbox> {
    let options = HostOptions {
        as_root: true,
        ..HostOptions::default()
    };
    Arc::new(Offline::new(HostSandbox::new(options)))
}

garret_testkit::sandbox_tests!(offline);
