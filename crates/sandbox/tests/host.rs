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

mod pausing {
    use garret_core::{Command, Ended, Limits, Network, Program, SandboxRequest, Signal, Stdin, WsPath};

    use super::*;

    /// A process that waits in the kernel until its child executes a program is still as soon as the child is.
    #[tokio::test]
    async fn a_process_that_waits_for_a_child_in_the_kernel_is_still() {
        let (bench, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let request = SandboxRequest {
            bench: bench.path().to_owned(),
            scratch: scratch.path().to_owned(),
            read_filter: None,
            read_only: Vec::new(),
            network: Network::Full,
            limits: Limits::default(),
            system: Vec::new(),
            require: Vec::new(),
        };
        let open = host(scratch.path()).open(request).await.unwrap();
        let layer = open.lay().await.unwrap();
        let text = "import ctypes, platform, time\n\
                    number = {'x86_64': 56, 'aarch64': 220}[platform.machine()]\n\
                    if ctypes.CDLL(None).syscall(number, 0x4000 | 17, 0, 0, 0, 0) == 0:\n  print('begun', flush=True)\n  time.sleep(1000)";
        let command = Command {
            program: Program::Arguments(["/usr/bin/python3", "-c", text].map(str::to_owned).into()),
            cwd: WsPath::root(),
            env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
            stdin: Stdin::Closed,
            limits: Limits::default(),
        };
        let mut process = layer.start(command).await.unwrap();
        assert_eq!(&process.output().await.unwrap().bytes[..], b"begun\n");
        for _ in 0..3 {
            assert_eq!(layer.pause().await.unwrap(), 0);
            layer.resume().await.unwrap();
        }
        process.signal(Signal::Kill).await.unwrap();
        assert_eq!(process.wait().await.unwrap().ended, Ended::Signalled(9));
        layer.remove().await.unwrap();
    }
}
