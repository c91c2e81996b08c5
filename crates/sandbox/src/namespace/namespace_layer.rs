//! A layer over a bench, on Garret's side of the connection.

#![cfg(target_os = "linux")]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use garret_core::{
    CommandProgram, CommandStdin, Content, Effect, Effects, EffectsMark, EntryPath, Error, ErrorKind, Layer, Limits,
    PlacedEntry, Process, Result, SandboxCommand,
};
use garret_handles::{list_names, list_names_up_to, open_child, run_blocking, stat_entry};
use rustix::fs::{AtFlags, FileType, Mode, chownat};

use super::connection::{ExpectedProcess, RequestReply, sandbox_ended_error};
use super::namespace_process::NamespaceProcess;
use super::open_namespace::{KeptLayer, OpenNamespaceShared};
use super::plain_command_line;
use super::plan::CommandUser;
use super::prepared_lower::PreparedLower;
use crate::copied_layer::read_copied_effects;
use crate::effects;
use crate::file_times::to_timespec;
use crate::scratch::unusable_directories_error;
use crate::supervisor::protocol::{
    DATA, ExecTarget, FINDING_INTERPRETER, LayerItem, LayerLower, LiftRequest, RequestOutcome, SpawnLimits,
    SpawnRequest, StepFailure, SupervisorRequest,
};
use crate::visible_bench::BenchBaseline;

/// The form in which a layer stores writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LayerForm {
    /// Apart from the bench, in the upper directory of an overlay.
    Overlay,
    /// In a copy of the bench.
    Copy,
}

/// A layer of the sandbox `namespace`.
#[derive(Debug)]
pub(super) struct NamespaceLayer {
    name: String,
    sandbox: Arc<OpenNamespaceShared>,
    state: Mutex<NamespaceLayerState>,
    /// The reply to the request to unmount the layer after its last process, if that was made.
    lifting: Mutex<Option<RequestReply>>,
    /// The state of the copy when it was made, if the layer is a copy.
    copied: Option<EffectsMark>,
    /// The state of the bench at the last search for changes of others, if the layer does not lie over the bench
    /// itself.
    below: Mutex<BenchBaseline>,
    /// The state of the bench over which the layer may be used again, if nothing is written to it.
    stands: Option<String>,
    /// The lock of the sandbox that made the layer, held as long as the layer may be read.
    _lock: Arc<OwnedFd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamespaceLayerState {
    Live,
    Paused,
    /// No process runs on it and nothing was written to it: it stays mounted for the next command.
    Kept,
    Lifted,
    Removed,
}

impl NamespaceLayer {
    pub(super) async fn lay(sandbox: &Arc<OpenNamespaceShared>, name: String, stands: Option<&str>) -> Result<Self> {
        make_directories(&sandbox.layers, &sandbox.bench, &sandbox.plan.user, &name)
            .map_err(|_| unusable_directories_error())?;
        let prepared = PreparedLower::prepare_lower(sandbox, &name, stands)
            .await
            .inspect_err(|_| {
                // A layer that cannot be removed now is found empty when the next sandbox opens.
                let _ = sandbox.discard_layer(&name);
            })?;
        let (layer, lower) = (name.clone(), prepared.form);
        // Without waiting for an answer: if the mount fails, every later request on the layer fails with the reason.
        sandbox
            .connection
            .send_message(&SupervisorRequest::Lay { layer, lower })?;
        Ok(Self {
            copied: prepared.copied,
            below: Mutex::new(prepared.below),
            stands: stands.filter(|_| lower != LayerLower::Copy).map(str::to_owned),
            ..Self::new(sandbox, name, sandbox.sandbox_lock(), NamespaceLayerState::Live)
        })
    }

    /// Uses a kept layer for another command.
    pub(super) fn reuse_kept(sandbox: &Arc<OpenNamespaceShared>, kept: KeptLayer) -> Self {
        Self {
            stands: Some(kept.stands),
            ..Self::new(sandbox, kept.layer, sandbox.sandbox_lock(), NamespaceLayerState::Live)
        }
    }

    /// Opens a layer that another sandbox left behind.
    pub(super) fn open_leftover(sandbox: &Arc<OpenNamespaceShared>, name: String, lock: Arc<OwnedFd>) -> Self {
        Self::new(sandbox, name, lock, NamespaceLayerState::Lifted)
    }

    fn new(sandbox: &Arc<OpenNamespaceShared>, name: String, lock: Arc<OwnedFd>, state: NamespaceLayerState) -> Self {
        Self {
            name,
            sandbox: Arc::clone(sandbox),
            state: Mutex::new(state),
            lifting: Mutex::default(),
            copied: None,
            below: Mutex::default(),
            stands: None,
            _lock: lock,
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, NamespaceLayerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the layer is unmounted, because the sandbox has ended.
    pub(super) fn mark_lifted(&self) {
        let mut state = self.lock_state();
        if matches!(
            *state,
            NamespaceLayerState::Live | NamespaceLayerState::Paused | NamespaceLayerState::Kept
        ) {
            *state = NamespaceLayerState::Lifted;
        }
    }

    fn check_live(&self) -> Result<()> {
        match *self.lock_state() {
            NamespaceLayerState::Live | NamespaceLayerState::Paused => Ok(()),
            NamespaceLayerState::Kept | NamespaceLayerState::Lifted | NamespaceLayerState::Removed => {
                Err(Error::invalid("the sandbox layer of this command was closed already")
                    .hint("run the command again"))
            }
        }
    }

    /// Returns whether nothing was written to the layer; always `false` for a copy.
    pub(super) fn is_empty(&self) -> bool {
        self.sandbox.form == LayerForm::Overlay && self.open_upper().is_ok_and(|upper| is_directory_empty(&upper))
    }

    /// Returns the state of the layer after the end of its last process, if the supervisor has reported it.
    fn state_after_last(&self) -> Option<NamespaceLayerState> {
        let mut lifting = self.lifting.lock().unwrap_or_else(PoisonError::into_inner);
        match lifting.take()?.try_recv() {
            Ok(Ok(RequestOutcome::Complete)) => Some(NamespaceLayerState::Lifted),
            Ok(Ok(RequestOutcome::Kept)) => Some(NamespaceLayerState::Kept),
            _ => None,
        }
    }

    async fn send_layer_request(
        &self,
        make: impl FnOnce(u64, String) -> SupervisorRequest,
    ) -> Result<std::result::Result<RequestOutcome, StepFailure>> {
        let name = self.name.clone();
        let (_, reply) = self.sandbox.connection.send_request(|request| make(request, name))?;
        reply.await.map_err(|_| sandbox_ended_error())
    }

    async fn place_one(&self, effect: &Effect) -> Result<()> {
        let Some((item, content)) = item_of(effect) else {
            return Err(Error::new(
                ErrorKind::Internal,
                "a sandbox layer cannot read content from history",
            ));
        };
        let (layer, path) = (self.name.clone(), effect.path.as_bytes().to_vec());
        let (request, reply) = self
            .sandbox
            .connection
            .send_request(|request| SupervisorRequest::Place {
                request,
                layer,
                path,
                item,
            })?;
        if let Some(content) = content {
            self.send_content(request, &content)?;
        }
        let placed = reply.await.map_err(|_| sandbox_ended_error())?;
        placed.map(drop).map_err(|failure| not_placed_error(effect, &failure))
    }

    fn send_content(&self, request: u64, content: &Content) -> Result<()> {
        let mut reader = content.open()?;
        let mut buffer = Vec::with_capacity(DATA);
        while reader.append_to(&mut buffer, DATA)? > 0 {
            self.sandbox.connection.send_bytes(request, 3, &buffer)?;
            buffer.clear();
        }
        Ok(())
    }

    /// Starts a process, with an optional request to unmount the layer after it.
    async fn start_process(&self, command: SandboxCommand, lift: Option<LiftRequest>) -> Result<Box<dyn Process>> {
        self.check_live()?;
        let connection = &self.sandbox.connection;
        let process = connection.new_number();
        let spawn = Box::new(spawn_of(
            &command,
            &self.sandbox.plan.shell,
            &self.sandbox.request.limits,
        ));
        let expected = ExpectedProcess {
            input: given_input(&command.stdin),
            wall: spawn.limits.wall_ms.map(std::time::Duration::from_millis),
        };
        let has_given = expected.input.is_some();
        // Before the request is sent: output that arrives for an unknown process is dropped.
        let source = connection.register_process(process, expected);
        let layer = self.name.clone();
        let (_, reply) = connection.send_request(|request| SupervisorRequest::Start {
            request,
            process,
            layer,
            spawn,
            lift,
        })?;
        // A terminal is there only when the program runs.
        if has_given && command.terminal.is_none() {
            connection.feed_input(process)?;
        }
        // Made before the wait: if this future is dropped meanwhile, the process is dropped with it and ended.
        let mut started = NamespaceProcess::new(process, Arc::clone(connection), source, &command);
        if let Err(failure) = reply.await.map_err(|_| sandbox_ended_error())? {
            connection.forget_process(process);
            return Err(not_started_error(&command, &failure));
        }
        match command.stdin {
            CommandStdin::Stream(stream) => started.feed_stream(stream),
            CommandStdin::Bytes(_) if command.terminal.is_some() => connection.feed_input(process)?,
            CommandStdin::Closed if command.terminal.is_some() => started.close_stdin().await?,
            CommandStdin::Closed | CommandStdin::Bytes(_) | CommandStdin::Piped => {}
        }
        Ok(Box::new(started))
    }

    /// Opens the directory that holds the writes.
    fn open_upper(&self) -> Result<OwnedFd> {
        let own = self.open_directory();
        own.and_then(|own| open_child(&own, "upper"))
            .map_err(|_| unusable_directories_error())
    }

    /// Opens the directory of the layer itself.
    fn open_directory(&self) -> rustix::io::Result<OwnedFd> {
        open_child(&self.sandbox.layers, self.name.as_str())
    }
}

#[async_trait]
impl Layer for NamespaceLayer {
    fn id(&self) -> &str {
        &self.name
    }

    async fn start_process(&self, command: SandboxCommand) -> Result<Box<dyn Process>> {
        self.start_process(command, None).await
    }

    async fn start_last_process(&self, command: SandboxCommand) -> Result<Box<dyn Process>> {
        let (request, reply) = self.sandbox.connection.register_request()?;
        *self.lifting.lock().unwrap_or_else(PoisonError::into_inner) = Some(reply);
        let may_stay = self.stands.is_some();
        self.start_process(command, Some(LiftRequest { request, may_stay }))
            .await
    }

    async fn place_entries(&self, effects: Vec<Effect>) -> Result<()> {
        self.check_live()?;
        for effect in &effects {
            self.place_one(effect).await?;
        }
        Ok(())
    }

    async fn refresh_bench(&self) -> Result<Vec<EntryPath>> {
        self.check_live()?;
        let before = self.below.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if matches!(before, BenchBaseline::Bench) {
            let refreshed = self
                .send_layer_request(|request, layer| SupervisorRequest::Refresh { request, layer })
                .await?;
            return refreshed
                .map(|_| Vec::new())
                .map_err(|failure| supervisor_failure_error(&failure));
        }
        let (upper, bench) = (
            self.open_upper()?,
            self.sandbox
                .bench
                .try_clone()
                .map_err(|_| unusable_directories_error())?,
        );
        let filter = self.sandbox.request.read_filter.clone();
        let changes = move || before.find_changes(bench.as_fd(), upper.as_fd(), filter.as_deref());
        let (paths, now) = run_blocking(changes).await?;
        *self.below.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(paths)
    }

    async fn pause(&self) -> Result<u64> {
        self.check_live()?;
        let outcome = self
            .send_layer_request(|request, layer| SupervisorRequest::Pause { request, layer })
            .await?
            .map_err(|failure| supervisor_failure_error(&failure))?;
        *self.lock_state() = NamespaceLayerState::Paused;
        match outcome {
            RequestOutcome::Paused { ended } => Ok(ended),
            RequestOutcome::Complete | RequestOutcome::Kept => Ok(0),
        }
    }

    async fn resume(&self) -> Result<()> {
        self.check_live()?;
        *self.lock_state() = NamespaceLayerState::Live;
        self.send_layer_request(|request, layer| SupervisorRequest::Resume { request, layer })
            .await?
            .map(drop)
            .map_err(|failure| supervisor_failure_error(&failure))
    }

    async fn read_effects(&self, since: Option<&EffectsMark>) -> Result<Effects> {
        match *self.lock_state() {
            NamespaceLayerState::Kept => return Ok(Effects::default()),
            NamespaceLayerState::Paused | NamespaceLayerState::Lifted => {}
            NamespaceLayerState::Live | NamespaceLayerState::Removed => {
                return Err(Error::invalid(
                    "the effects of a command can be read only while it is paused or after it has ended",
                ));
            }
        }
        let upper = self.open_upper()?;
        let bench = self
            .sandbox
            .bench
            .try_clone()
            .map_err(|_| unusable_directories_error())?;
        let limits = self.sandbox.request.limits.effect_limits();
        if self.sandbox.form == LayerForm::Copy {
            let since = since.cloned().or_else(|| self.copied.clone());
            let layer = self.open_directory().map_err(|_| unusable_directories_error())?;
            return run_blocking(move || {
                read_copied_effects(upper.as_fd(), bench.as_fd(), layer.as_fd(), since.as_ref(), limits)
            })
            .await;
        }
        // With nothing to read, a thread of its own would cost more than the reading.
        if is_directory_empty(&upper) && since.is_none() {
            return effects::read_upper_effects(upper.as_fd(), bench.as_fd(), None, limits);
        }
        let since = since.cloned();
        run_blocking(move || effects::read_upper_effects(upper.as_fd(), bench.as_fd(), since.as_ref(), limits)).await
    }

    async fn lift(&self) -> Result<()> {
        if !matches!(
            *self.lock_state(),
            NamespaceLayerState::Live | NamespaceLayerState::Paused
        ) {
            return Ok(());
        }
        if let Some(state) = self.state_after_last() {
            *self.lock_state() = state;
            return Ok(());
        }
        match self
            .send_layer_request(|request, layer| SupervisorRequest::Lift { request, layer })
            .await
        {
            Ok(lifted) => drop(lifted.map_err(|failure| supervisor_failure_error(&failure))?),
            // The sandbox has ended, and its mounts with it; `close` waits until its processes are gone.
            Err(_) => self.sandbox.connection.close().await,
        }
        *self.lock_state() = NamespaceLayerState::Lifted;
        Ok(())
    }

    async fn remove(&self) -> Result<()> {
        self.lift().await?;
        let state = *self.lock_state();
        match (state, &self.stands) {
            (NamespaceLayerState::Removed, _) => {}
            (NamespaceLayerState::Kept, Some(stands)) => {
                *self.lock_state() = NamespaceLayerState::Removed;
                self.sandbox.keep_layer(&self.name, stands).await;
            }
            _ => {
                self.sandbox.discard_layer(&self.name)?;
                *self.lock_state() = NamespaceLayerState::Removed;
            }
        }
        Ok(())
    }
}

fn is_directory_empty(directory: &OwnedFd) -> bool {
    matches!(list_names_up_to(directory, Some(0)), Ok(Some(_)))
}

/// Makes the directories of a layer, for the user of the commands. The upper directory has the mode of the bench.
pub(super) fn make_directories(
    layers: &OwnedFd,
    bench: &OwnedFd,
    user: &CommandUser,
    name: &str,
) -> rustix::io::Result<()> {
    rustix::fs::mkdirat(layers, name, Mode::RWXU)?;
    let own = open_child(layers, name)?;
    give_to_user(user, &own)?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(bench)?.st_mode & 0o777);
    for (directory, mode) in [("upper", mode), ("work", Mode::RWXU)] {
        rustix::fs::mkdirat(&own, directory, Mode::RWXU)?;
        let made = open_child(&own, directory)?;
        rustix::fs::fchmod(&made, mode)?;
        give_to_user(user, &made)?;
    }
    Ok(())
}

pub(super) fn give_to_user(user: &CommandUser, directory: &OwnedFd) -> rustix::io::Result<()> {
    if !user.is_dedicated {
        return Ok(());
    }
    let (uid, gid) = (rustix::fs::Uid::from_raw(user.uid), rustix::fs::Gid::from_raw(user.gid));
    rustix::fs::fchown(directory, Some(uid), Some(gid))
}

/// Gives the user of the commands every entry below a directory that Garret itself made.
pub(super) fn give_tree_to_user(user: &CommandUser, directory: &OwnedFd) -> rustix::io::Result<()> {
    let (uid, gid) = (rustix::fs::Uid::from_raw(user.uid), rustix::fs::Gid::from_raw(user.gid));
    for name in list_names(directory)? {
        if stat_entry(directory, &name)?
            .is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
        {
            give_tree_to_user(user, &open_child(directory, &name[..])?)?;
        }
        chownat(directory, &name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

fn given_input(stdin: &CommandStdin) -> Option<Bytes> {
    match stdin {
        CommandStdin::Bytes(bytes) => Some(bytes.clone()),
        CommandStdin::Closed | CommandStdin::Piped | CommandStdin::Stream(_) => None,
    }
}

fn spawn_of(command: &SandboxCommand, shell: &str, most: &Limits) -> SpawnRequest {
    SpawnRequest {
        program: program_of(command, shell),
        cwd: command.cwd.as_str().to_owned(),
        env: command.env.clone(),
        has_input: !matches!(command.stdin, CommandStdin::Closed),
        has_empty_home: command.has_empty_home,
        terminal: command.terminal,
        limits: SpawnLimits::of_command(&command.limits, most),
    }
}

fn program_of(command: &SandboxCommand, shell: &str) -> ExecTarget {
    let text = match &command.program {
        CommandProgram::Arguments(arguments) => return ExecTarget::Arguments(arguments.clone()),
        CommandProgram::Shell(text) => text,
    };
    let in_shell = vec![shell.to_owned(), "-c".to_owned(), text.clone()];
    match plain_command_line::split_plain_words(shell, text, &command.env) {
        Some(words) => ExecTarget::Plain { words, shell: in_shell },
        None => ExecTarget::Arguments(in_shell),
    }
}

fn item_of(effect: &Effect) -> Option<(LayerItem, Option<Content>)> {
    Some(match &effect.placed {
        PlacedEntry::Nothing => (LayerItem::Nothing, None),
        PlacedEntry::Directory { mode } => (LayerItem::Directory { mode: *mode }, None),
        PlacedEntry::Symlink { target } => (LayerItem::Symlink { target: target.clone() }, None),
        PlacedEntry::File { content, mode } => {
            let modified = effect.modified.map(to_timespec);
            let item = LayerItem::File {
                mode: *mode,
                size: content.len(),
                modified: modified.map(|time| (time.tv_sec, time.tv_nsec)),
            };
            (item, Some(content.clone()))
        }
        PlacedEntry::Image(_) => return None,
    })
}

fn not_mounted_error(failure: &StepFailure) -> Error {
    let message = format!(
        "the files of the workspace cannot be mounted for the command: {} failed",
        failure.step
    );
    Error::new(ErrorKind::Unsupported, message)
        .hint("use a kernel of 5.11 or newer, and keep the scratch directory on ext4, xfs, btrfs or tmpfs")
}

fn not_placed_error(effect: &Effect, failure: &StepFailure) -> Error {
    let kind = match failure.errno {
        libc::ENOENT => ErrorKind::NotFound,
        libc::ENOTDIR | libc::ELOOP => ErrorKind::NotADirectory,
        libc::ENOSPC | libc::EDQUOT => ErrorKind::QuotaExceeded,
        _ => ErrorKind::Unavailable,
    };
    let shown = effect.path.display_path();
    Error::new(kind, format!("{shown} cannot be updated for the running commands")).at_path_text(shown)
}

fn not_started_error(command: &SandboxCommand, failure: &StepFailure) -> Error {
    let name = match &command.program {
        CommandProgram::Arguments(arguments) => arguments.first().map_or("", String::as_str),
        CommandProgram::Shell(_) => "the shell",
    };
    match (failure.step.as_str(), failure.errno) {
        ("entering the directory", libc::EXDEV) => Error::path_escape(&command.cwd)
            .hint("a symbolic link in this path leads outside: choose a directory inside the workspace"),
        ("entering the directory", libc::EAGAIN) => Error::new(
            ErrorKind::Unavailable,
            "the directory to run in cannot be looked up while paths are renamed",
        )
        .at_path(&command.cwd)
        .hint("run it again"),
        ("entering the directory", _) => {
            Error::new(ErrorKind::NotFound, "the directory to run in does not exist").at_path(&command.cwd)
        }
        ("mounting a layer" | "hiding paths", _) => not_mounted_error(failure),
        ("executing", libc::ENOENT | libc::ENOTDIR) => Error::new(
            ErrorKind::NotFound,
            format!("program `{name}` not found in the sandbox"),
        )
        .hint("name a program of /usr or of the workspace; `garret doctor` lists the programs that commands find, and `mounts` or `toolchains` of the shell capability show more"),
        (FINDING_INTERPRETER, _) => Error::new(
            ErrorKind::NotFound,
            format!("`{name}` names an interpreter that is not in the sandbox"),
        )
        .hint("a virtual environment works only where it was made: use `python -m`, or make it again in the workspace"),
        ("executing", libc::EACCES) => Error::new(ErrorKind::Denied, format!("`{name}` is not executable"))
            .hint("set its executable bit, or run it with its interpreter"),
        ("executing", libc::E2BIG) => Error::new(ErrorKind::TooLarge, "the arguments and the environment are too long")
            .hint("pass long input through standard input or a file"),
        ("reading the arguments", _) => {
            Error::invalid("an argument or a variable has a NUL byte, or no program is given")
        }
        ("making a terminal", _) => Error::new(
            ErrorKind::Unsupported,
            format!("this machine has no terminals for commands: {}", failure.reason()),
        )
        .hint("run the command without a terminal; terminals need a kernel with `devpts`"),
        _ => supervisor_failure_error(failure),
    }
}

fn supervisor_failure_error(failure: &StepFailure) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the sandbox failed while {}: {}", failure.step, failure.reason()),
    )
}
