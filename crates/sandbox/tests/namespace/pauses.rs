//! Pausing the processes of a layer, whatever they do against it: by the freezer of either version, where Garret may write one, and by
//! tracing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use garret_core::{ExitCause, Guard, Layer, OpenSandbox, Process, ResourceLimit, Sandbox, SandboxCommand, Signal};
use garret_sandbox::namespace::{NamespaceOptions, NamespaceSandbox, PauseMode};
use tempfile::TempDir;

use crate::room::{
    directory, finish, limited, paths, processes_named, python, request, request_apart, run_apart, run_on,
    sandbox_that_pauses, sandbox_that_traces, sandbox_with_usual_time, shell,
};

/// Without rights, each of them is by tracing.
const WAYS: [PauseMode; 3] = [PauseMode::Best, PauseMode::FrozenByVersionOne, PauseMode::Traced];

/// A layer with processes on it.
struct Stage {
    directory: TempDir,
    // Kept: the layer ends with it.
    _open: Arc<dyn OpenSandbox>,
    layer: Arc<dyn Layer>,
    way: PauseMode,
    // Kept: one stage at a time, in this process and in that of the unprivileged user. Storms of several would keep each other from standing still.
    _turn: std::fs::File,
}

impl Stage {
    async fn new(way: PauseMode) -> Self {
        Self::on(way, sandbox_that_pauses(way)).await
    }

    async fn on(way: PauseMode, sandbox: NamespaceSandbox) -> Self {
        let turn = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        turn.lock().unwrap();
        let directory = directory();
        let open = sandbox.open(request(&directory)).await.unwrap();
        let layer = open.create_layer().await.unwrap();
        Self {
            directory,
            _open: open,
            layer,
            way,
            _turn: turn,
        }
    }

    fn upper(&self) -> PathBuf {
        let layers = self.directory.path().join("scratch/layers");
        layers.join(self.layer.id()).join("upper")
    }

    /// What lies on the layer: names, with the size and the content of each.
    fn seen(&self) -> Vec<(String, Vec<u8>)> {
        let entries = std::fs::read_dir(self.upper()).unwrap().flatten();
        let read = |path: PathBuf| std::fs::read(path).unwrap_or_default();
        let mut seen: Vec<_> = entries
            .map(|entry| (entry.file_name().into_string().unwrap(), read(entry.path())))
            .collect();
        seen.sort();
        seen
    }

    fn has(&self, name: &str) -> bool {
        std::fs::read(self.upper().join(name)).is_ok_and(|bytes| !bytes.is_empty())
    }

    async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        for _ in 0..6000 {
            if is_so() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{:?}: never {what}", self.way);
    }

    async fn start(&self, text: &str) -> Box<dyn Process> {
        self.layer.start_process(shell(text)).await.unwrap()
    }

    /// Pauses several times, and looks each time that nothing moves while it is paused, and that something does afterwards.
    async fn check_pauses(&self) {
        for _ in 0..4 {
            assert_eq!(
                self.layer.pause().await.unwrap(),
                0,
                "{:?}: a command was ended",
                self.way
            );
            let before = self.seen();
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(self.seen() == before, "{:?}: something moves", self.way);
            self.layer.resume().await.unwrap();
            self.until("it goes on", || self.seen() != before).await;
        }
    }

    /// Ends a process that was neither ended by a pause nor by itself.
    async fn end(self, mut process: Box<dyn Process>) {
        process.send_signal(Signal::Kill).await.unwrap();
        let exit = process.wait().await.unwrap();
        assert_eq!(
            (exit.limit, exit.ended),
            (None, ExitCause::Signalled(9)),
            "{:?}",
            self.way
        );
        self.layer.remove().await.unwrap();
    }
}

/// Runs a text in which `begun` is written once it is under way, and something else again and again.
async fn check_text(text: &str) {
    for way in WAYS {
        let stage = Stage::new(way).await;
        let process = stage.start(text).await;
        stage.until("it began", || stage.has("begun")).await;
        stage.check_pauses().await;
        stage.end(process).await;
    }
}

const WRITER: &str = "while :; do echo x >> moving; done";

/// A Python text in which `clone` makes a child that the caller waits for in the kernel.
fn vfork(flags: &str, child: &str) -> String {
    let text = python(&format!(
        "import ctypes, os, platform, time\nlibc = ctypes.CDLL(None)\n\
         number = {{'x86_64': 56, 'aarch64': 220}}[platform.machine()]\n\
         if libc.syscall(number, {flags} | 17, 0, 0, 0, 0) == 0:\n  open('begun', 'w').write('x')\n  {child}"
    ));
    format!("({WRITER}) & {text}")
}

#[tokio::test]
async fn a_process_that_waits_for_a_child_in_the_kernel_is_still() {
    // CLONE_VFORK; with CLONE_VM, as `vfork` has it; and a child in a session of its own that goes on writing.
    check_text(&vfork("0x4000", "time.sleep(1000)")).await;
    check_text(&vfork("0x4000 | 0x100", "time.sleep(1000)")).await;
    check_text(&vfork(
        "0x4000",
        "os.setsid()\n  while True: open('child', 'a').write('x')",
    ))
    .await;
}

#[tokio::test]
async fn a_process_that_waited_for_a_child_in_the_kernel_goes_on_after_it() {
    let text = python(
        "import ctypes, os, platform, time\nlibc = ctypes.CDLL(None)\n\
         number = {'x86_64': 56, 'aarch64': 220}[platform.machine()]\n\
         if libc.syscall(number, 0x4000 | 17, 0, 0, 0, 0) == 0:\n  open('begun', 'w').write('x')\n  \
         while not os.path.exists('go'): time.sleep(0.01)\n  os._exit(0)\nprint('after', os.wait()[1])",
    );
    for way in WAYS {
        let stage = Stage::new(way).await;
        let mut process = stage.start(&text).await;
        stage.until("it began", || stage.has("begun")).await;
        for _ in 0..3 {
            stage.layer.pause().await.unwrap();
            stage.layer.resume().await.unwrap();
        }
        run_on(&*stage.layer, shell("touch go")).await;
        let outcome = finish(&mut *process).await;
        assert_eq!((outcome.text().as_str(), outcome.code()), ("after 0\n", 0), "{way:?}");
        stage.layer.remove().await.unwrap();
    }
}

#[tokio::test]
async fn no_storm_of_continue_signals_undoes_a_pause() {
    let begun = "echo x > begun";
    // To everybody, to the own group, and by a process in a session of its own to each that it sees.
    check_text(&format!("({WRITER}) & {begun}; while :; do kill -CONT -1; done")).await;
    check_text(&format!(
        "({WRITER}) & {begun}; trap '' CONT; while :; do kill -CONT 0; done"
    ))
    .await;
    let each = "for p in /proc/[0-9]*; do kill -CONT ${p#/proc/}; done 2> /dev/null";
    check_text(&format!("setsid sh -c 'while :; do {each}; done' & {begun}; {WRITER}")).await;
}

#[tokio::test]
async fn processes_that_fork_all_the_time_are_paused() {
    let fork = "import os, signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nopen('begun', 'w').write('x')\n";
    let write = "open('moving', 'a').write('x')";
    // Many short children, a chain in which each hands over to its child, and one of threads.
    check_text(&python(&format!(
        "{fork}while True:\n  if os.fork() == 0:\n    {write}\n    os._exit(0)"
    )))
    .await;
    check_text(&python(&format!(
        "{fork}if os.fork() == 0:\n  while True:\n    {write}\n    if os.fork() != 0: os._exit(0)\nsignal.pause()"
    )))
    .await;
    check_text(&python(&format!(
        "{fork}import threading\nwhile True:\n  t = threading.Thread(target=lambda: {write})\n  t.start()\n  t.join()"
    )))
    .await;
}

#[tokio::test]
async fn threads_sessions_and_groups_of_their_own_are_paused() {
    check_text(&python(
        "import threading\nopen('begun', 'w').write('x')\ndef run(n):\n  while True: open(f'moving{n}', 'a').write('x')\n\
         for n in range(6): threading.Thread(target=run, args=(n,)).start()",
    ))
    .await;
    check_text(&format!("(setsid sh -c '{WRITER}' &); echo x > begun; sleep 1000")).await;
    check_text(&format!("set -m; ({WRITER}) & ({WRITER}) & echo x > begun; sleep 1000")).await;
}

#[tokio::test]
async fn a_process_that_lets_nobody_look_into_it_is_paused() {
    check_text(&python(
        "import ctypes\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nopen('begun', 'w').write('x')\n\
         while True: open('moving', 'a').write('x')",
    ))
    .await;
}

#[tokio::test]
async fn a_process_that_was_stopped_before_a_pause_is_stopped_after_it() {
    let text = "(kill -STOP $BASHPID; echo went) & child=$!; \
                until grep -q '^State:.T' /proc/$child/status; do :; done; echo x > begun; \
                while [ ! -e go ]; do sleep 0.02; done; \
                grep -q '^State:.T' /proc/$child/status && echo stopped; kill -CONT $child; wait";
    for way in WAYS {
        let stage = Stage::new(way).await;
        let mut process = stage.start(text).await;
        stage.until("it began", || stage.has("begun")).await;
        for _ in 0..4 {
            stage.layer.pause().await.unwrap();
            stage.layer.resume().await.unwrap();
        }
        run_on(&*stage.layer, shell("touch go")).await;
        assert_eq!(finish(&mut *process).await.text(), "stopped\nwent\n", "{way:?}");
        stage.layer.remove().await.unwrap();
    }
}

#[tokio::test]
async fn no_signal_is_lost_by_a_pause() {
    let text = python(
        "import os, signal\ntaken = 0\ndef take(*_):\n  global taken\n  taken += 1\n\
         number = signal.SIGRTMIN + 3\nsignal.signal(number, take)\nparent = os.getpid()\nopen('begun', 'w').write('x')\n\
         sent = 0\nwhile not os.path.exists('go'):\n  os.kill(parent, number)\n  sent += 1\nprint(sent > 0 and sent - taken)",
    );
    for way in WAYS {
        let stage = Stage::new(way).await;
        let mut process = stage.start(&text).await;
        stage.until("it began", || stage.has("begun")).await;
        for _ in 0..20 {
            stage.layer.pause().await.unwrap();
            stage.layer.resume().await.unwrap();
        }
        run_on(&*stage.layer, shell("touch go")).await;
        assert_eq!(finish(&mut *process).await.text(), "0\n", "{way:?}");
        stage.layer.remove().await.unwrap();
    }
}

#[tokio::test]
async fn a_command_that_is_started_during_a_pause_begins_after_it() {
    for way in WAYS {
        let stage = Stage::new(way).await;
        stage.layer.pause().await.unwrap();
        let layer = stage.layer.clone();
        let started = tokio::spawn(async move {
            let command = crate::room::reading("cat > made", "given");
            run_on(&*layer, command).await
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(stage.seen(), [], "{way:?}");
        stage.layer.resume().await.unwrap();
        assert_eq!(started.await.unwrap().code(), 0);
        assert_eq!(stage.seen(), [("made".to_owned(), b"given".to_vec())], "{way:?}");
        stage.layer.remove().await.unwrap();
    }
}

#[tokio::test]
async fn what_is_paused_can_be_ended() {
    for way in WAYS {
        let stage = Stage::new(way).await;
        let text = format!("({WRITER}) & echo x > begun; sleep @8770@1");
        let mut one = stage.start(&text).await;
        let mut other = stage.start(&text).await;
        stage.until("it began", || stage.has("begun")).await;
        stage.layer.pause().await.unwrap();
        one.send_signal(Signal::Kill).await.unwrap();
        assert_eq!(one.wait().await.unwrap().ended, ExitCause::Signalled(9), "{way:?}");
        stage.layer.lift().await.unwrap();
        assert_eq!(other.wait().await.unwrap().ended, ExitCause::Signalled(9), "{way:?}");
        assert_eq!(processes_named("@8770@"), Vec::<String>::new(), "{way:?}");
        stage.layer.remove().await.unwrap();
    }
}

#[tokio::test]
async fn what_pauses_processes_is_told() {
    let by = async |way| {
        let directory = directory();
        let open = sandbox_that_pauses(way).open(request(&directory)).await.unwrap();
        let guard = open.guard_statuses().iter().find(|one| one.guard == Guard::Processes);
        guard.unwrap().by.clone()
    };
    assert_eq!(by(PauseMode::Traced).await, "user and pid namespaces; paused by ptrace");
    let best = by(PauseMode::Best).await;
    let is_root = rustix::process::geteuid().as_raw() == 0;
    assert!(!is_root || best.contains("freezer of cgroup"), "{best}");
}

/// A process that no tracer can stop while another traces it: it never enters the kernel.
fn unstoppable() -> SandboxCommand {
    shell(&python(
        "import ctypes, os, time\nlibc = ctypes.CDLL(None)\nopen('written', 'w').write('x')\nchild = os.fork()\n\
         if child == 0:\n  while True: pass\n\
         seize = 0x4206\nassert libc.ptrace(seize, child, 0, 0) == 0\nopen('begun', 'w').write('x')\ntime.sleep(1000)",
    ))
}

#[tokio::test]
async fn a_tree_that_does_not_stand_still_is_ended_and_says_so_and_what_it_wrote_stays() {
    let stage = Stage::on(PauseMode::Traced, sandbox_that_traces()).await;
    let mut other = stage.start(&format!("echo x > other; {WRITER}")).await;
    let mut process = stage.layer.start_process(unstoppable()).await.unwrap();
    stage
        .until("both began", || stage.has("begun") && stage.has("moving"))
        .await;
    assert_eq!(stage.layer.pause().await.unwrap(), 1);
    let effects = stage.layer.read_effects(None).await.unwrap();
    assert_eq!(paths(&effects), ["begun", "moving", "other", "written"]);
    let exit = process.wait().await.unwrap();
    assert_eq!(
        (exit.limit, exit.ended),
        (Some(ResourceLimit::Pause), ExitCause::Signalled(9))
    );
    stage.layer.resume().await.unwrap();
    // The other tree stood still, lives on, and can be paused again.
    stage.check_pauses().await;
    other.send_signal(Signal::Kill).await.unwrap();
    assert_eq!(other.wait().await.unwrap().limit, None);
    stage.layer.remove().await.unwrap();
}

#[tokio::test]
async fn a_tree_that_does_not_stand_still_has_the_usual_second_before_it_is_ended() {
    let options = NamespaceOptions::default();
    assert_eq!(options.still_within, Duration::from_secs(1));
    let stage = Stage::on(PauseMode::Traced, sandbox_with_usual_time(PauseMode::Traced)).await;
    let mut process = stage.layer.start_process(unstoppable()).await.unwrap();
    stage.until("it began", || stage.has("begun")).await;
    let begun = Instant::now();
    assert_eq!(stage.layer.pause().await.unwrap(), 1);
    // Not sooner. How much later depends on the load of the machine, and is no condition.
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
    let exit = process.wait().await.unwrap();
    assert_eq!(
        (exit.limit, exit.ended),
        (Some(ResourceLimit::Pause), ExitCause::Signalled(9))
    );
    stage.layer.resume().await.unwrap();
}

#[tokio::test]
async fn a_fork_bomb_stands_still_or_is_ended_and_says_so() {
    let stage = Stage::on(PauseMode::Traced, sandbox_that_traces()).await;
    let text = python(
        "import os\nopen('begun', 'w').write('x')\n\
         while True:\n  try: os.fork()\n  except OSError: open('full', 'w').write('x')",
    );
    let mut process = stage
        .layer
        .start_process(limited(&text, |limits| limits.processes = Some(200)))
        .await
        .unwrap();
    stage.until("it is full", || stage.has("full")).await;
    let ended = stage.layer.pause().await.unwrap();
    let before = stage.seen();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(stage.seen(), before);
    stage.layer.resume().await.unwrap();
    if ended == 0 {
        process.send_signal(Signal::Kill).await.unwrap();
    }
    let exit = process.wait().await.unwrap();
    assert_eq!(exit.ended, ExitCause::Signalled(9));
    assert_eq!(exit.limit, (ended == 1).then_some(ResourceLimit::Pause));
    stage.layer.remove().await.unwrap();
}

/// Is run by the test below as a process of its own, which is then killed; does nothing when it is run with all others.
#[tokio::test]
async fn is_killed_while_its_layer_is_paused() {
    let Some(request) = request_apart() else {
        return;
    };
    let way = WAYS[std::env::var("GARRET_TEST_WAY").unwrap().parse::<usize>().unwrap()];
    let open = sandbox_that_pauses(way).open(request).await.unwrap();
    let layer = open.create_layer().await.unwrap();
    let _process = layer
        .start_process(shell("echo x > begun; sleep @8771@1"))
        .await
        .unwrap();
    while processes_named("@8771@").is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    layer.pause().await.unwrap();
    std::fs::write(open_mark(), "").unwrap();
    tokio::time::sleep(Duration::from_secs(1000)).await;
}

fn open_mark() -> PathBuf {
    PathBuf::from(std::env::var_os("GARRET_TEST_APART").unwrap()).join("paused")
}

#[tokio::test]
async fn what_is_paused_ends_with_garret() {
    for (number, way) in WAYS.iter().enumerate() {
        let directory = directory();
        let name = "pauses::is_killed_while_its_layer_is_paused";
        let mut garret = run_apart(name, &directory, &[("GARRET_TEST_WAY", &number.to_string())]);
        let mark = directory.path().join("paused");
        while !mark.exists() {
            assert!(garret.try_wait().unwrap().is_none(), "{:?}", way);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(processes_named("@8771@").len(), 1, "{:?}", way);
        garret.kill().unwrap();
        garret.wait().unwrap();
        for _ in 0..6000 {
            if processes_named("@8771@").is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(processes_named("@8771@"), Vec::<String>::new(), "{:?}", way);
    }
}
