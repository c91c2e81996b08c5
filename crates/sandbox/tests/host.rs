//! The sandbox `host` keeps the contract of sandboxes, and says what it does not enforce.

use std::path::Path;
use std::sync::Arc;

use garret_core::Sandbox;
use garret_sandbox::host::{HostOptions, HostSandbox};

fn host(_private: &Path) -> Arc<dyn Sandbox> {
    Arc::new(HostSandbox::new(HostOptions {
        as_root: true,
        ..HostOptions::default()
    }))
}

garret_testkit::sandbox_tests!(host);

mod refusing {
    use garret_core::{ErrorKind, Limits, Network, SandboxRequest};

    use super::*;

    /// As a user it opens; as root it must be said twice.
    #[tokio::test]
    async fn root_must_be_said_twice() {
        let directory = tempfile::tempdir().unwrap();
        let request = SandboxRequest {
            bench: directory.path().to_owned(),
            scratch: directory.path().to_owned(),
            read_filter: None,
            read_only: Vec::new(),
            network: Network::Full,
            limits: Limits::default(),
            system: Vec::new(),
            require: Vec::new(),
        };
        let opened = HostSandbox::default().open(request).await;
        match rustix::process::geteuid().is_root() {
            true => {
                let error = opened.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Denied);
                assert!(error.hint_text().contains("host_as_root = true"), "{error}");
            }
            false => drop(opened.unwrap()),
        }
    }
}
