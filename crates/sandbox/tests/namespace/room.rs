//! A bench, a sandbox on it, and what tests ask of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use garret_core::{
    Chunk, CommandExit, CommandProgram, CommandStdin, Effects, Guard, Layer, Limits, OpenSandbox, OutputStream,
    Process, Sandbox, SandboxCommand, SandboxRequest, WsPath, base_environment,
};
use garret_sandbox::namespace::{LayerMode, NamespaceOptions, NamespaceSandbox, PauseMode, SupervisorProgram};
use tempfile::TempDir;

pub(crate) struct Room {
    pub(crate) directory: TempDir,
    pub(crate) open: Arc<dyn OpenSandbox>,
}

pub(crate) fn sandbox() -> NamespaceSandbox {
    sandbox_with(LayerMode::Best)
}

pub(crate) fn sandbox_with(layers: LayerMode) -> NamespaceSandbox {
    NamespaceSandbox::new(NamespaceOptions { layers, ..options() })
}

/// Pauses in one way. Processes have a minute to stand still: on a busy machine a second is too short even for those that would.
pub(crate) fn sandbox_that_pauses(pauses: PauseMode) -> NamespaceSandbox {
    NamespaceSandbox::new(NamespaceOptions {
        pauses,
        still_within: std::time::Duration::from_secs(60),
        ..options()
    })
}

/// Pauses in one way, and ends processes that do not stand still after the usual time.
pub(crate) fn sandbox_with_usual_time(pauses: PauseMode) -> NamespaceSandbox {
    NamespaceSandbox::new(NamespaceOptions { pauses, ..options() })
}

/// Traces processes to pause them, and ends those that do not stand still after ten seconds.
pub(crate) fn sandbox_that_traces() -> NamespaceSandbox {
    NamespaceSandbox::new(NamespaceOptions {
        pauses: PauseMode::Traced,
        still_within: std::time::Duration::from_secs(10),
        ..options()
    })
}

fn options() -> NamespaceOptions {
    NamespaceOptions {
        supervisor: Some(SupervisorProgram {
            path: std::env::var_os("GARRET_TEST_SUPERVISOR")
                .map_or_else(|| env!("CARGO_BIN_EXE_garret-supervisor").into(), PathBuf::from),
            arguments: Vec::new(),
        }),
        ..NamespaceOptions::default()
    }
}

pub(crate) fn directory() -> TempDir {
    furnished(tempfile::tempdir().unwrap())
}

/// One on the file system of `place`.
pub(crate) fn directory_in(place: &str) -> TempDir {
    furnished(tempfile::tempdir_in(place).unwrap())
}

fn furnished(directory: TempDir) -> TempDir {
    for name in ["bench", "scratch"] {
        std::fs::create_dir(directory.path().join(name)).unwrap();
    }
    directory
}

pub(crate) fn request(directory: &TempDir) -> SandboxRequest {
    let path = directory.path();
    SandboxRequest {
        require: Guard::DEFAULT.to_vec(),
        ..SandboxRequest::on_bench(path.join("bench"), path.join("scratch"))
    }
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) exit: CommandExit,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Outcome {
    pub(crate) fn code(&self) -> i32 {
        self.exit.ended.exit_code()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

impl Room {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut SandboxRequest)) -> Self {
        Self::on(directory(), change).await
    }

    pub(crate) async fn on(directory: TempDir, change: impl FnOnce(&mut SandboxRequest)) -> Self {
        let mut request = request(&directory);
        change(&mut request);
        let open = sandbox().open(request).await.unwrap();
        Self { directory, open }
    }

    pub(crate) fn bench(&self) -> PathBuf {
        self.directory.path().join("bench")
    }

    /// Runs a text on a layer of its own, and reads what it did.
    pub(crate) async fn run(&self, text: &str) -> (Outcome, Effects) {
        self.run_command(shell(text)).await
    }

    pub(crate) async fn run_command(&self, command: SandboxCommand) -> (Outcome, Effects) {
        let layer = self.open.create_layer().await.unwrap();
        let outcome = run_on(&*layer, command).await;
        layer.lift().await.unwrap();
        let effects = layer.read_effects(None).await.unwrap();
        layer.remove().await.unwrap();
        (outcome, effects)
    }

    pub(crate) async fn text(&self, text: &str) -> String {
        self.run(text).await.0.text()
    }
}

pub(crate) async fn run_on(layer: &dyn Layer, command: SandboxCommand) -> Outcome {
    let mut process = layer.start_process(command).await.unwrap();
    finish(&mut *process).await
}

pub(crate) async fn finish(process: &mut dyn Process) -> Outcome {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while let Some(Chunk { stream, bytes }) = process.next_output().await {
        match stream {
            OutputStream::Stdout => stdout.extend_from_slice(&bytes),
            OutputStream::Stderr => stderr.extend_from_slice(&bytes),
        }
    }
    let exit = process.wait().await.unwrap();
    Outcome { exit, stdout, stderr }
}

pub(crate) fn shell(text: &str) -> SandboxCommand {
    command(CommandProgram::Shell(marked(text)))
}

pub(crate) fn arguments(arguments: &[&str]) -> SandboxCommand {
    command(CommandProgram::Arguments(
        arguments.iter().map(|one| (*one).to_owned()).collect(),
    ))
}

fn command(program: CommandProgram) -> SandboxCommand {
    SandboxCommand {
        program,
        cwd: WsPath::root(),
        env: base_environment("/home/agent", &[]),
        stdin: CommandStdin::Closed,
        limits: Limits::default(),
        has_empty_home: false,
        terminal: None,
    }
}

pub(crate) fn limited(text: &str, change: impl FnOnce(&mut Limits)) -> SandboxCommand {
    let mut command = shell(text);
    change(&mut command.limits);
    command
}

pub(crate) fn reading(text: &str, stdin: impl Into<Bytes>) -> SandboxCommand {
    SandboxCommand {
        stdin: CommandStdin::Bytes(stdin.into()),
        ..shell(text)
    }
}

pub(crate) fn paths(effects: &Effects) -> Vec<String> {
    effects
        .effects
        .iter()
        .map(|effect| effect.path.display_path().to_string())
        .collect()
}

pub(crate) fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// A text for the shell that runs a text of Python.
pub(crate) fn python(text: &str) -> String {
    format!("/usr/bin/python3 - <<'end-of-python'\n{text}\nend-of-python\n")
}

/// Runs the test `name` as a process of its own, on `directory`; it asks [`request_apart`] what to open.
pub(crate) fn run_apart(name: &str, directory: &TempDir, environment: &[(&str, &str)]) -> Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .envs(environment.iter().copied())
        .env("GARRET_TEST_APART", directory.path())
        .env("GARRET_TEST_MARK", mark())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// What a test opens that is run as a process of its own; `None` where it is run with all others.
pub(crate) fn request_apart() -> Option<SandboxRequest> {
    let path = PathBuf::from(std::env::var_os("GARRET_TEST_APART")?);
    Some(SandboxRequest {
        bench: path.join("bench"),
        scratch: path.join("scratch"),
        ..request(&directory())
    })
}

/// A number that no other run of these tests uses at the same time.
pub(crate) fn mark() -> String {
    std::env::var("GARRET_TEST_MARK").unwrap_or_else(|_| std::process::id().to_string())
}

/// The text with every `@8765@` made a number of this run.
fn marked(text: &str) -> String {
    let mut parts = text.split('@');
    let first = parts.next().unwrap_or_default().to_owned();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts
        .fold((first, false), |(mut whole, was_number), part| {
            match (was_number, is_number(part)) {
                (false, true) => whole.push_str(&format!("{part}.{}", mark())),
                (true, _) => whole.push_str(part),
                (false, false) => whole.push_str(&format!("@{part}")),
            }
            let is_open = !was_number && is_number(part);
            (whole, is_open)
        })
        .0
}

/// The command lines of processes on the host that hold this mark.
pub(crate) fn processes_named(mark: &str) -> Vec<String> {
    let mark = &marked(mark);
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let texts = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    texts
        .filter(|text| text.starts_with("sleep ") && text.contains(mark))
        .collect()
}

/// Waits until nothing is left of any layer.
pub(crate) async fn is_tidy(directory: &TempDir) {
    let layers = directory.path().join("scratch/layers");
    for _ in 0..200 {
        if std::fs::read_dir(&layers).unwrap().count() == 0 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("something is left of a layer");
}
