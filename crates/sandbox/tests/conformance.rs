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
