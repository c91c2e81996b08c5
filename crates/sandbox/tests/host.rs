//! The sandbox `host` keeps the contract of sandboxes, and says what it does not enforce.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests set up directories, look at them from outside, may fail, and say what they cannot test"
)]

use std::path::Path;
use std::sync::Arc;

use garret_core::{
    Chunk, CommandExit, CommandProgram, CommandStdin, Layer, Limits, Network, Process, Sandbox, SandboxCommand,
    SandboxRequest, WsPath,
};
use garret_sandbox::host::{HostOptions, HostSandbox};
use tempfile::TempDir;

fn host(_private: &Path) -> Arc<dyn Sandbox> {
    Arc::new(HostSandbox::new(options()))
}

fn options() -> HostOptions {
    HostOptions {
        as_root: true,
        ..HostOptions::default()
    }
}

garret_testkit::sandbox_tests!(host);

fn request(bench: &Path, scratch: &Path) -> SandboxRequest {
    SandboxRequest {
        network: Network::Full,
        ..SandboxRequest::on_bench(bench, scratch)
    }
}

/// A layer over an empty bench.
struct Room {
    // Kept: the files go with them.
    _bench: TempDir,
    scratch: TempDir,
    layer: Arc<dyn Layer>,
}

impl Room {
    async fn new(options: HostOptions) -> Self {
        let (bench, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let request = request(bench.path(), scratch.path());
        let open = HostSandbox::new(options).open(request).await.unwrap();
        Self {
            layer: open.create_layer().await.unwrap(),
            _bench: bench,
            scratch,
        }
    }

    async fn start(&self, arguments: &[&str]) -> Box<dyn Process> {
        let command = SandboxCommand {
            program: CommandProgram::Arguments(arguments.iter().map(|one| (*one).to_owned()).collect()),
            cwd: WsPath::root(),
            env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
            stdin: CommandStdin::Closed,
            limits: Limits::default(),
            has_empty_home: false,
            terminal: None,
        };
        self.layer.start_process(command).await.unwrap()
    }

    /// Runs a text of the shell to its end; gives what it wrote.
    async fn run(&self, text: &str) -> (String, CommandExit) {
        let mut process = self.start(&["/bin/sh", "-c", text]).await;
        let mut written = Vec::new();
        while let Some(Chunk { bytes, .. }) = process.next_output().await {
            written.extend_from_slice(&bytes);
        }
        let exit = process.wait().await.unwrap();
        (String::from_utf8(written).unwrap(), exit)
    }

    fn size_of(&self, name: &str) -> u64 {
        let path = self
            .scratch
            .path()
            .join("host")
            .join(self.layer.id())
            .join("workspace")
            .join(name);
        std::fs::metadata(path).map_or(0, |metadata| metadata.len())
    }
}

/// What every command has from its start.
mod beginning {
    use super::*;

    /// With a limit of 1 the kernel passes a core to nobody; with 0 it would, where the host has a program for that.
    #[tokio::test]
    async fn no_program_for_cores_is_started() {
        let own = rustix::process::getrlimit(rustix::process::Resource::Core).maximum;
        if own == Some(0) && !rustix::process::geteuid().is_root() {
            println!("not tested: the hard limit of core files is 0 here, and only root can raise it");
            return;
        }
        let room = Room::new(options()).await;
        let (limits, _) = room
            .run("grep '^Max core file size' /proc/self/limits | tr -s ' '")
            .await;
        assert_eq!(limits, "Max core file size 1 1 bytes \n");
    }

    /// Is run by the test below in a process with another umask; does nothing when it is run with all others.
    #[tokio::test]
    async fn is_run_with_umask_zero() {
        if std::env::var_os("GARRET_TEST_UMASK").is_none() {
            return;
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        assert!(status.contains("\nUmask:\t0000\n"), "{status}");
        let room = Room::new(options()).await;
        let (umask, _) = room.run("umask; touch made; stat -c %a made").await;
        assert_eq!(umask, "0022\n644\n");
    }

    #[test]
    fn commands_have_the_usual_umask_whatever_that_of_the_program_is() {
        let output = std::process::Command::new("/bin/sh")
            .args([
                "-c",
                "umask 0 && exec \"$0\" --exact host::beginning::is_run_with_umask_zero",
            ])
            .arg(std::env::current_exe().unwrap())
            .env("GARRET_TEST_UMASK", "0")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
}

mod refusing {
    use garret_core::ErrorKind;

    use super::*;

    /// As a user it opens; as root it must be said twice.
    #[tokio::test]
    async fn root_must_be_said_twice() {
        let directory = tempfile::tempdir().unwrap();
        let request = request(directory.path(), directory.path());
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
    use std::time::Duration;

    use garret_core::{ExitCause, ResourceLimit, Signal};

    use super::*;

    /// Processes have a minute to stand still: on a busy machine a second is too short even for those that would.
    fn patient() -> HostOptions {
        HostOptions {
            still_within: Duration::from_secs(60),
            ..options()
        }
    }

    const PYTHON: &str = "/usr/bin/python3";

    /// A process that waits in the kernel until its child executes a program is still as soon as the child is.
    #[tokio::test]
    async fn a_process_that_waits_for_a_child_in_the_kernel_is_still() {
        let room = Room::new(patient()).await;
        let text = "import ctypes, platform, time\n\
                    number = {'x86_64': 56, 'aarch64': 220}[platform.machine()]\n\
                    if ctypes.CDLL(None).syscall(number, 0x4000 | 17, 0, 0, 0, 0) == 0:\n  print('begun', flush=True)\n  time.sleep(1000)";
        let mut process = room.start(&[PYTHON, "-c", text]).await;
        assert_eq!(&process.next_output().await.unwrap().bytes[..], b"begun\n");
        for _ in 0..3 {
            assert_eq!(room.layer.pause().await.unwrap(), 0);
            room.layer.resume().await.unwrap();
        }
        end(&room, process).await;
    }

    async fn end(room: &Room, mut process: Box<dyn Process>) {
        process.send_signal(Signal::Kill).await.unwrap();
        let exit = process.wait().await.unwrap();
        assert_eq!((exit.limit, exit.ended), (None, ExitCause::Signalled(9)));
        room.layer.remove().await.unwrap();
    }

    /// Waits until a file of the layer grows beyond `size`.
    async fn until_larger(room: &Room, name: &str, size: u64) {
        for _ in 0..6000 {
            if room.size_of(name) > size {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never larger than {size}: {name}");
    }

    /// Pauses a program again and again that writes to `moving` all the time. Each pause either holds, or ends the program and says so.
    async fn check_pauses(arguments: &[&str]) {
        let room = Room::new(patient()).await;
        let mut process = room.start(arguments).await;
        for _ in 0..8 {
            until_larger(&room, "moving", room.size_of("moving")).await;
            let ended = room.layer.pause().await.unwrap();
            let before = room.size_of("moving");
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(room.size_of("moving"), before, "{arguments:?}: something moves");
            room.layer.resume().await.unwrap();
            if ended > 0 {
                let exit = process.wait().await.unwrap();
                assert_eq!((ended, exit.limit), (1, Some(ResourceLimit::Pause)), "{arguments:?}");
                return;
            }
        }
        end(&room, process).await;
    }

    /// Signals of a process in the tree undo a stop until that process is stopped itself.
    #[tokio::test]
    async fn no_pause_is_reported_that_a_storm_of_continue_signals_undoes() {
        let writer = "(trap '' CONT; while :; do echo x >> moving; done)";
        // To the own group, which is that of the command alone, and of several processes to each other.
        let group = format!("{writer} & while :; do kill -CONT 0; done");
        check_pauses(&["/bin/bash", "-c", &group]).await;
        let each = format!(
            "{writer} & writer=$!; for n in 1 2 3 4; do (while :; do kill -CONT $writer $$ $(cat pids); done) 2> /dev/null & \
             echo $! >> pids; done; while :; do kill -CONT $(cat pids); done 2> /dev/null"
        );
        check_pauses(&["/bin/bash", "-c", &each]).await;
    }

    #[tokio::test]
    async fn no_pause_is_reported_while_processes_hand_over_to_their_children() {
        let text = "import os, signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n\
                    if os.fork() == 0:\n  while True:\n    open('moving', 'a').write('x')\n    if os.fork() != 0: os._exit(0)\n\
                    signal.pause()";
        check_pauses(&[PYTHON, "-c", text]).await;
    }

    /// Such a process looks like one that has ended.
    #[tokio::test]
    async fn no_pause_is_reported_while_a_process_without_its_first_thread_runs() {
        let text = "import ctypes, platform, threading\ndef run():\n  while True: open('moving', 'a').write('x')\n\
                    threading.Thread(target=run).start()\n\
                    ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[platform.machine()], 0)";
        check_pauses(&[PYTHON, "-c", text]).await;
    }

    /// No time is enough for nobody: what moves at the first look is ended.
    #[tokio::test]
    async fn a_tree_that_is_not_still_in_time_is_ended_and_says_so() {
        let room = Room::new(HostOptions {
            still_within: Duration::ZERO,
            ..options()
        })
        .await;
        let text = "echo kept > kept; while :; do echo x >> moving; done";
        let mut process = room.start(&["/bin/bash", "-c", text]).await;
        until_larger(&room, "moving", 0).await;
        assert_eq!(room.layer.pause().await.unwrap(), 1);
        let exit = process.wait().await.unwrap();
        assert_eq!(
            (exit.limit, exit.ended),
            (Some(ResourceLimit::Pause), ExitCause::Signalled(9))
        );
        let effects = room.layer.read_effects(None).await.unwrap();
        assert_eq!(effects.effects.len(), 2, "what it wrote stays: {effects:?}");
        // With nothing left, there is nothing to wait for.
        assert_eq!(room.layer.pause().await.unwrap(), 0);
        room.layer.resume().await.unwrap();
        room.layer.remove().await.unwrap();
    }

    #[test]
    fn processes_usually_have_a_second_to_stand_still() {
        assert_eq!(HostOptions::default().still_within, Duration::from_secs(1));
    }
}
