//! Finds the guards that this machine can enforce, by running a real process.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use garret_core::{Enforced, Guard, Limits, Network, Result, SandboxRequest, Stream};
use rustix::fs::{Mode, OFlags};

use super::connection::Expected;
use super::guards;
use super::open::{Open, unusable};
use super::remove::remove_tree;
use super::{Options, SupervisorProgram};
use crate::supervisor::protocol::{Ask, Exec, Spawn, SpawnLimits};

/// The results of earlier probes, by supervisor; they stay true as long as this process runs.
static FOUND: Mutex<Vec<(Option<SupervisorProgram>, Vec<Enforced>)>> = Mutex::new(Vec::new());

/// Returns the guards, and whether this machine can enforce each.
pub(super) async fn probe(options: &Options) -> Vec<Enforced> {
    let known = |found: &[(Option<SupervisorProgram>, Vec<Enforced>)]| {
        found
            .iter()
            .find(|(program, _)| *program == options.supervisor)
            .map(|(_, enforced)| enforced.clone())
    };
    if let Some(enforced) = known(&FOUND.lock().unwrap_or_else(PoisonError::into_inner)) {
        return enforced;
    }
    let enforced = try_out(options).await;
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    found.push((options.supervisor.clone(), enforced.clone()));
    enforced
}

async fn try_out(options: &Options) -> Vec<Enforced> {
    let tried = match Trial::new(options) {
        Ok(trial) => trial.run(options).await,
        Err(error) => Err(error),
    };
    tried.unwrap_or_else(|error| {
        let missing = |guard| Enforced {
            guard,
            is_enforced: false,
            by: error.message().to_owned(),
            remedy: Some(error.hint_text().to_owned()),
        };
        Guard::ALL.map(missing).into()
    })
}

/// A temporary empty bench, removed when it is dropped.
struct Trial {
    parent: OwnedFd,
    name: String,
}

impl Trial {
    fn new(options: &Options) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = rustix::fs::open("/tmp", flags, Mode::empty()).map_err(|_| unusable())?;
        let name = format!("garret-probe-{}", options.ids.next());
        let trial = Self { parent, name };
        for path in [
            trial.name.clone(),
            format!("{}/bench", trial.name),
            format!("{}/scratch", trial.name),
        ] {
            rustix::fs::mkdirat(&trial.parent, path, Mode::RWXU).map_err(|_| unusable())?;
        }
        Ok(trial)
    }

    fn request(&self) -> SandboxRequest {
        let path = Path::new("/tmp").join(&self.name);
        SandboxRequest {
            bench: path.join("bench"),
            scratch: path.join("scratch"),
            read_filter: None,
            read_only: Vec::new(),
            network: Network::None,
            limits: Limits::default(),
            system: Vec::new(),
            require: Vec::new(),
        }
    }

    async fn run(&self, options: &Options) -> Result<Vec<Enforced>> {
        let (shared, opened) = Open::begin(options, self.request()).await?;
        let plan = shared.plan.clone();
        let seen = look_around(Open::with(shared)).await?;
        Ok(guards::enforced(&plan, &opened)
            .into_iter()
            .map(|one| confirmed(one, &seen))
            .collect())
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let _ = remove_tree(self.parent.as_fd(), self.name.as_bytes());
    }
}

/// Runs a process that tries forbidden operations; returns which guards held.
async fn look_around(open: Open) -> Result<BTreeMap<String, bool>> {
    use garret_core::OpenSandbox;
    let layer = open.lay().await?;
    let connection = &open.shared.connection;
    let process = connection.number();
    let mut source = connection.expect(process, Expected::default());
    let spawn = Box::new(Spawn {
        program: Exec::Probe,
        cwd: String::new(),
        env: BTreeMap::new(),
        has_input: false,
        limits: SpawnLimits {
            wall_ms: Some(10_000),
            ..SpawnLimits::default()
        },
    });
    let name = layer.id().to_owned();
    connection.send(&Ask::Start {
        request: connection.number(),
        process,
        layer: name,
        spawn,
        lift: None,
    })?;
    let mut text = Vec::new();
    while let Some(chunk) = source.output.recv().await {
        if chunk.stream == Stream::Stdout {
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
fn confirmed(planned: Enforced, seen: &BTreeMap<String, bool>) -> Enforced {
    let is_tried = matches!(
        planned.guard,
        Guard::Files | Guard::Processes | Guard::Network | Guard::SystemCalls | Guard::Layers
    );
    if !is_tried || !planned.is_enforced || seen.get(planned.guard.as_str()) == Some(&true) {
        return planned;
    }
    Enforced {
        is_enforced: false,
        by: format!("{}, but a test process bypassed it", planned.by),
        remedy: Some("report this machine and its kernel version: this is a defect".to_owned()),
        ..planned
    }
}
