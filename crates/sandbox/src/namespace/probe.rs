//! Finds the guards that this machine can enforce, by running a real process.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use garret_core::{Guard, GuardStatus, OutputStream, Result, SandboxRequest};
use garret_handles::remove_tree;
use rustix::fs::{CWD, Mode};

use super::connection::ExpectedProcess;
use super::guards;
use super::open_namespace::OpenNamespace;
use super::{NamespaceOptions, SupervisorProgram};
use crate::scratch::{open_directory, unusable_directories_error};
use crate::supervisor::protocol::{ExecTarget, SpawnLimits, SpawnRequest, SupervisorRequest};

/// The results of earlier probes, by supervisor; they stay true as long as this process runs.
static FOUND: Mutex<Vec<(Option<SupervisorProgram>, Vec<GuardStatus>)>> = Mutex::new(Vec::new());

/// Returns the guards, and whether this machine can enforce each.
pub(super) async fn probe_guards(options: &NamespaceOptions) -> Vec<GuardStatus> {
    let known = |found: &[(Option<SupervisorProgram>, Vec<GuardStatus>)]| {
        found
            .iter()
            .find(|(program, _)| *program == options.supervisor)
            .map(|(_, enforced)| enforced.clone())
    };
    if let Some(enforced) = known(&FOUND.lock().unwrap_or_else(PoisonError::into_inner)) {
        return enforced;
    }
    let enforced = probe_machine(options).await;
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    found.push((options.supervisor.clone(), enforced.clone()));
    enforced
}

async fn probe_machine(options: &NamespaceOptions) -> Vec<GuardStatus> {
    let tried = match ProbeTrial::new(options) {
        Ok(trial) => trial.run_probe(options).await,
        Err(error) => Err(error),
    };
    tried.unwrap_or_else(|error| {
        let missing = |guard| GuardStatus {
            guard,
            is_enforced: false,
            by: error.message().to_owned(),
            remedy: Some(error.hint_text().to_owned()),
        };
        Guard::ALL.map(missing).into()
    })
}

/// A temporary empty bench, removed when it is dropped.
struct ProbeTrial {
    parent: OwnedFd,
    name: String,
}

impl ProbeTrial {
    fn new(options: &NamespaceOptions) -> Result<Self> {
        let parent = open_directory(CWD, "/tmp")?;
        let name = format!("garret-probe-{}", options.ids.next_id());
        let trial = Self { parent, name };
        for path in [
            trial.name.clone(),
            format!("{}/bench", trial.name),
            format!("{}/scratch", trial.name),
        ] {
            rustix::fs::mkdirat(&trial.parent, path, Mode::RWXU).map_err(|_| unusable_directories_error())?;
        }
        Ok(trial)
    }

    fn make_request(&self) -> SandboxRequest {
        let path = Path::new("/tmp").join(&self.name);
        SandboxRequest::on_bench(path.join("bench"), path.join("scratch"))
    }

    async fn run_probe(&self, options: &NamespaceOptions) -> Result<Vec<GuardStatus>> {
        let (shared, opened) = OpenNamespace::open_unchecked(options, self.make_request()).await?;
        let plan = shared.plan.clone();
        let seen = run_probe_process(OpenNamespace::without_guards(shared)).await?;
        Ok(guards::enforced_guards(&plan, &opened)
            .into_iter()
            .map(|one| confirm_guard(one, &seen))
            .collect())
    }
}

impl Drop for ProbeTrial {
    fn drop(&mut self) {
        let _ = remove_tree(&self.parent, self.name.as_bytes());
    }
}

/// Runs a process that tries forbidden operations; returns which guards held.
async fn run_probe_process(open: OpenNamespace) -> Result<BTreeMap<String, bool>> {
    use garret_core::OpenSandbox;
    let layer = open.create_layer().await?;
    let connection = &open.shared.connection;
    let process = connection.new_number();
    let mut source = connection.register_process(process, ExpectedProcess::default());
    let spawn = Box::new(SpawnRequest {
        program: ExecTarget::Probe,
        cwd: String::new(),
        env: BTreeMap::new(),
        has_input: false,
        has_empty_home: false,
        terminal: None,
        limits: SpawnLimits {
            wall_ms: Some(10_000),
            ..SpawnLimits::default()
        },
    });
    let name = layer.id().to_owned();
    connection.send_message(&SupervisorRequest::Start {
        request: connection.new_number(),
        process,
        layer: name,
        spawn,
        lift: None,
    })?;
    let mut text = Vec::new();
    while let Some(chunk) = source.output.recv().await {
        if chunk.stream == OutputStream::Stdout {
            text.extend_from_slice(&chunk.bytes);
        }
    }
    layer.remove().await?;
    open.close().await?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    Ok(lines.map(|(name, holds)| (name.to_owned(), holds == "true")).collect())
}

/// Compares a planned guard with the result of the process; a guard that the process cannot try stays as planned.
fn confirm_guard(planned: GuardStatus, seen: &BTreeMap<String, bool>) -> GuardStatus {
    let is_tried = matches!(
        planned.guard,
        Guard::Files | Guard::Processes | Guard::Network | Guard::SystemCalls | Guard::Layers
    );
    if !is_tried || !planned.is_enforced || seen.get(planned.guard.as_str()) == Some(&true) {
        return planned;
    }
    GuardStatus {
        is_enforced: false,
        by: format!("{}, but a test process bypassed it", planned.by),
        remedy: Some("report this machine and its kernel version: this is a defect".to_owned()),
        ..planned
    }
}
