//! A layer over a bench, on Garret's side of the connection.

#![cfg(target_os = "linux")]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use garret_core::{
    Command, Content, Effect, Effects, EntryPath, Error, ErrorKind, Layer, Limits, Mark, Placed, Process, Program,
    Result, Stdin,
};
use rustix::fs::{Mode, OFlags};

use super::below::Grounded;
use super::connection::{Done, Expected, Reply, ended};
use super::open::{Kept, OpenShared, unusable};
use super::plain;
use super::plan::User;
use super::process::Started;
use crate::effects;
use crate::filtered::{Below, HiddenRecord, keep_hidden};
use crate::supervisor::protocol::{Ask, DATA, Exec, Failure, Ground, Item, Lift, Spawn, SpawnLimits};

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The form in which a layer stores writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Apart from the bench, in the upper directory of an overlay.
    Overlay,
    /// In a copy of the bench.
    Copy,
}

/// A layer of the sandbox `namespace`.
#[derive(Debug)]
pub(super) struct LaidLayer {
    name: String,
    sandbox: Arc<OpenShared>,
    state: Mutex<State>,
    /// The reply to the request to unmount the layer after its last process, if that was made.
    lifting: Mutex<Option<Reply>>,
    /// The state of the copy when it was made, if the layer is a copy.
    copied: Option<Mark>,
    /// The state of the bench at the last search for changes of others, if the layer does not lie over the bench
    /// itself.
    below: Mutex<Below>,
    /// The state of the bench over which the layer may be used again, if nothing is written to it.
    stands: Option<String>,
    /// The lock of the sandbox that made the layer, held as long as the layer may be read.
    _lock: Arc<OwnedFd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Live,
    Paused,
    /// No process runs on it and nothing was written to it: it stays mounted for the next command.
    Staying,
    Lifted,
    Removed,
}

impl LaidLayer {
    pub(super) async fn lay(sandbox: &Arc<OpenShared>, name: String, stands: Option<&str>) -> Result<Self> {
        make_directories(&sandbox.layers, &sandbox.bench, &sandbox.plan.user, &name).map_err(|_| unusable())?;
        let grounded = Grounded::make(sandbox, &name, stands).await.inspect_err(|_| {
            // A layer that cannot be removed now is found empty when the next sandbox opens.
            let _ = sandbox.discard(&name);
        })?;
        let (layer, ground) = (name.clone(), grounded.ground);
        // Without waiting for an answer: if the mount fails, every later request on the layer fails with the reason.
        sandbox.connection.send(&Ask::Lay { layer, ground })?;
        Ok(Self {
            copied: grounded.copied,
            below: Mutex::new(grounded.below),
            stands: stands.filter(|_| ground != Ground::Copy).map(str::to_owned),
            ..Self::new(sandbox, name, sandbox.lock(), State::Live)
        })
    }

    /// Uses a kept layer for another command.
    pub(super) fn again(sandbox: &Arc<OpenShared>, kept: Kept) -> Self {
        Self {
            stands: Some(kept.stands),
            ..Self::new(sandbox, kept.layer, sandbox.lock(), State::Live)
        }
    }

    /// Opens a layer that another sandbox left behind.
    pub(super) fn left(sandbox: &Arc<OpenShared>, name: String, lock: Arc<OwnedFd>) -> Self {
        Self::new(sandbox, name, lock, State::Lifted)
    }

    fn new(sandbox: &Arc<OpenShared>, name: String, lock: Arc<OwnedFd>, state: State) -> Self {
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the layer is unmounted, because the sandbox has ended.
    pub(super) fn mark_lifted(&self) {
        let mut state = self.state();
        if matches!(*state, State::Live | State::Paused | State::Staying) {
            *state = State::Lifted;
        }
    }

    fn check_live(&self) -> Result<()> {
        match *self.state() {
            State::Live | State::Paused => Ok(()),
            State::Staying | State::Lifted | State::Removed => {
                Err(Error::invalid("the sandbox layer of this command was closed already")
                    .hint("run the command again"))
            }
        }
    }

    /// Returns whether nothing was written to the layer; always `false` for a copy.
    pub(super) fn is_empty(&self) -> bool {
        self.sandbox.form == Form::Overlay && self.upper().is_ok_and(|upper| is_empty(&upper))
    }

    /// Returns the state of the layer after the end of its last process, if the supervisor has reported it.
    fn state_after_last(&self) -> Option<State> {
        let mut lifting = self.lifting.lock().unwrap_or_else(PoisonError::into_inner);
        match lifting.take()?.try_recv() {
            Ok(Ok(Done::Whole)) => Some(State::Lifted),
            Ok(Ok(Done::Stays)) => Some(State::Staying),
            _ => None,
        }
    }

    async fn request(&self, make: impl FnOnce(u64, String) -> Ask) -> Result<std::result::Result<(), Failure>> {
        let name = self.name.clone();
        let (_, reply) = self.sandbox.connection.ask(|request| make(request, name))?;
        settled(reply).await
    }

    async fn place_one(&self, effect: &Effect) -> Result<()> {
        let Some((item, content)) = item_of(effect) else {
            return Err(Error::new(
                ErrorKind::Internal,
                "a sandbox layer cannot read content from history",
            ));
        };
        let (layer, path) = (self.name.clone(), effect.path.as_bytes().to_vec());
        let (request, reply) = self.sandbox.connection.ask(|request| Ask::Place {
            request,
            layer,
            path,
            item,
        })?;
        if let Some(content) = content {
            self.send_content(request, &content)?;
        }
        settled(reply).await?.map_err(|failure| not_placed(effect, &failure))
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
    async fn begin(&self, command: Command, lift: Option<Lift>) -> Result<Box<dyn Process>> {
        self.check_live()?;
        let connection = &self.sandbox.connection;
        let process = connection.number();
        let spawn = Box::new(spawn_of(
            &command,
            &self.sandbox.plan.shell,
            &self.sandbox.request.limits,
        ));
        let expected = Expected {
            input: given(&command.stdin),
            wall: spawn.limits.wall_ms.map(std::time::Duration::from_millis),
        };
        let has_given = expected.input.is_some();
        // Before the request is sent: output that arrives for an unknown process is dropped.
        let source = connection.expect(process, expected);
        let layer = self.name.clone();
        let (_, reply) = connection.ask(|request| Ask::Start {
            request,
            process,
            layer,
            spawn,
            lift,
        })?;
        if has_given {
            connection.feed(process)?;
        }
        // Made before the wait: if this future is dropped meanwhile, the process is dropped with it and ended.
        let mut started = Started::new(process, Arc::clone(connection), source, &command.stdin);
        if let Err(failure) = settled(reply).await? {
            connection.forget(process);
            return Err(not_started(&command, &failure));
        }
        if let Stdin::Stream(stream) = command.stdin {
            started.feed(stream);
        }
        Ok(Box::new(started))
    }

    /// Opens the directory that holds the writes.
    fn upper(&self) -> Result<OwnedFd> {
        let own = self.directory();
        own.and_then(|own| rustix::fs::openat(&own, "upper", DIRECTORY, Mode::empty()))
            .map_err(|_| unusable())
    }

    /// Opens the directory of the layer itself.
    fn directory(&self) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat(&self.sandbox.layers, self.name.as_str(), DIRECTORY, Mode::empty())
    }
}

#[async_trait]
impl Layer for LaidLayer {
    fn id(&self) -> &str {
        &self.name
    }

    async fn start(&self, command: Command) -> Result<Box<dyn Process>> {
        self.begin(command, None).await
    }

    async fn start_last(&self, command: Command) -> Result<Box<dyn Process>> {
        let (request, reply) = self.sandbox.connection.announce()?;
        *self.lifting.lock().unwrap_or_else(PoisonError::into_inner) = Some(reply);
        let may_stay = self.stands.is_some();
        self.begin(command, Some(Lift { request, may_stay })).await
    }

    async fn place(&self, effects: Vec<Effect>) -> Result<()> {
        self.check_live()?;
        for effect in &effects {
            self.place_one(effect).await?;
        }
        Ok(())
    }

    async fn look_below(&self) -> Result<Vec<EntryPath>> {
        self.check_live()?;
        let before = self.below.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if matches!(before, Below::Bench) {
            let refreshed = self.request(|request, layer| Ask::Refresh { request, layer }).await?;
            return refreshed.map(|()| Vec::new()).map_err(|failure| defect(&failure));
        }
        let (upper, bench) = (self.upper()?, self.sandbox.bench.try_clone().map_err(|_| unusable())?);
        let filter = self.sandbox.request.read_filter.clone();
        let changes = move || before.changes(bench.as_fd(), upper.as_fd(), filter.as_deref());
        let (paths, now) = apart(changes).await?;
        *self.below.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(paths)
    }

    async fn pause(&self) -> Result<u64> {
        self.check_live()?;
        let layer = self.name.clone();
        let (_, reply) = self.sandbox.connection.ask(|request| Ask::Pause { request, layer })?;
        let done = reply.await.map_err(|_| ended())?.map_err(|failure| defect(&failure))?;
        *self.state() = State::Paused;
        match done {
            Done::Paused { ended } => Ok(ended),
            Done::Whole | Done::Stays => Ok(0),
        }
    }

    async fn resume(&self) -> Result<()> {
        self.check_live()?;
        *self.state() = State::Live;
        self.request(|request, layer| Ask::Resume { request, layer })
            .await?
            .map_err(|failure| defect(&failure))
    }

    async fn effects(&self, since: Option<&Mark>) -> Result<Effects> {
        match *self.state() {
            State::Staying => return Ok(Effects::default()),
            State::Paused | State::Lifted => {}
            State::Live | State::Removed => {
                return Err(Error::invalid(
                    "the effects of a command can be read only while it is paused or after it has ended",
                ));
            }
        }
        let upper = self.upper()?;
        let bench = self.sandbox.bench.try_clone().map_err(|_| unusable())?;
        let limits = self.sandbox.request.limits.effects();
        if self.sandbox.form == Form::Copy {
            let since = since.cloned().or_else(|| self.copied.clone());
            let hidden = self.directory().and_then(|layer| HiddenRecord::read(layer.as_fd()));
            let hidden = hidden.map_err(|_| unusable())?;
            return apart(move || {
                let mut effects = effects::of_copy(upper.as_fd(), bench.as_fd(), since.as_ref(), limits)?;
                keep_hidden(&mut effects.effects, &hidden);
                Ok(effects)
            })
            .await;
        }
        // With nothing to read, a thread of its own would cost more than the reading.
        if is_empty(&upper) && since.is_none() {
            return effects::of_upper(upper.as_fd(), bench.as_fd(), None, limits);
        }
        let since = since.cloned();
        apart(move || effects::of_upper(upper.as_fd(), bench.as_fd(), since.as_ref(), limits)).await
    }

    async fn lift(&self) -> Result<()> {
        if !matches!(*self.state(), State::Live | State::Paused) {
            return Ok(());
        }
        if let Some(state) = self.state_after_last() {
            *self.state() = state;
            return Ok(());
        }
        match self.request(|request, layer| Ask::Lift { request, layer }).await {
            Ok(lifted) => lifted.map_err(|failure| defect(&failure))?,
            // The sandbox has ended, and its mounts with it; `close` waits until its processes are gone.
            Err(_) => self.sandbox.connection.close().await,
        }
        *self.state() = State::Lifted;
        Ok(())
    }

    async fn remove(&self) -> Result<()> {
        self.lift().await?;
        let state = *self.state();
        match (state, &self.stands) {
            (State::Removed, _) => {}
            (State::Staying, Some(stands)) => {
                *self.state() = State::Removed;
                self.sandbox.keep(&self.name, stands).await;
            }
            _ => {
                self.sandbox.discard(&self.name)?;
                *self.state() = State::Removed;
            }
        }
        Ok(())
    }
}

fn is_empty(directory: &OwnedFd) -> bool {
    let Ok(entries) = rustix::fs::Dir::read_from(directory) else {
        return false;
    };
    entries
        .flatten()
        .all(|entry| matches!(entry.file_name().to_bytes(), b"." | b".."))
}

/// Runs blocking work on a thread that may block, or here if there is no runtime.
pub(super) async fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    if tokio::runtime::Handle::try_current().is_err() {
        return work();
    }
    let lost = |_| Error::new(ErrorKind::Internal, "a thread of the sandbox layer failed");
    tokio::task::spawn_blocking(work).await.map_err(lost)?
}

async fn settled(reply: Reply) -> Result<std::result::Result<(), Failure>> {
    let done = reply.await.map_err(|_| ended())?;
    Ok(done.map(|_| ()))
}

/// Makes the directories of a layer, for the user of the commands. The upper directory has the mode of the bench.
pub(super) fn make_directories(layers: &OwnedFd, bench: &OwnedFd, user: &User, name: &str) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::mkdirat(layers, name, Mode::RWXU)?;
    let own = rustix::fs::openat(layers, name, flags, Mode::empty())?;
    give(user, &own)?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(bench)?.st_mode & 0o777);
    for (directory, mode) in [("upper", mode), ("work", Mode::RWXU)] {
        rustix::fs::mkdirat(&own, directory, Mode::RWXU)?;
        let made = rustix::fs::openat(&own, directory, flags, Mode::empty())?;
        rustix::fs::fchmod(&made, mode)?;
        give(user, &made)?;
    }
    Ok(())
}

pub(super) fn give(user: &User, directory: &OwnedFd) -> rustix::io::Result<()> {
    if !user.is_dedicated {
        return Ok(());
    }
    let (uid, gid) = (rustix::fs::Uid::from_raw(user.uid), rustix::fs::Gid::from_raw(user.gid));
    rustix::fs::fchown(directory, Some(uid), Some(gid))
}

/// Gives the user of the commands every entry below a directory that Garret itself made.
pub(super) fn give_all(user: &User, directory: &OwnedFd) -> rustix::io::Result<()> {
    let (uid, gid) = (rustix::fs::Uid::from_raw(user.uid), rustix::fs::Gid::from_raw(user.gid));
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if entry.file_type() == rustix::fs::FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            give_all(user, &rustix::fs::openat(directory, name, flags, Mode::empty())?)?;
        }
        rustix::fs::chownat(
            directory,
            name,
            Some(uid),
            Some(gid),
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        )?;
    }
    Ok(())
}

fn given(stdin: &Stdin) -> Option<Bytes> {
    match stdin {
        Stdin::Bytes(bytes) => Some(bytes.clone()),
        Stdin::Closed | Stdin::Piped | Stdin::Stream(_) => None,
    }
}

fn spawn_of(command: &Command, shell: &str, most: &Limits) -> Spawn {
    Spawn {
        program: program_of(command, shell),
        cwd: command.cwd.as_str().to_owned(),
        env: command.env.clone(),
        has_input: !matches!(command.stdin, Stdin::Closed),
        limits: limits_of(&command.limits, most),
    }
}

fn program_of(command: &Command, shell: &str) -> Exec {
    let text = match &command.program {
        Program::Arguments(arguments) => return Exec::Arguments(arguments.clone()),
        Program::Shell(text) => text,
    };
    let in_shell = vec![shell.to_owned(), "-c".to_owned(), text.clone()];
    match plain::words(shell, text, &command.env) {
        Some(words) => Exec::Plain { words, shell: in_shell },
        None => Exec::Arguments(in_shell),
    }
}

/// Returns the limits of a command, none of them above that of the sandbox.
pub(super) fn limits_of(own: &Limits, most: &Limits) -> SpawnLimits {
    let millis =
        |time: Option<std::time::Duration>| time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    SpawnLimits {
        wall_ms: lower(millis(own.wall), millis(most.wall)),
        cpu_ms: lower(millis(own.cpu), millis(most.cpu)),
        memory: lower(own.memory, most.memory),
        processes: lower(own.processes, most.processes),
        file_size: lower(own.file_size, most.file_size),
        written: lower(own.written, most.written),
        open_files: lower(own.open_files, most.open_files),
    }
}

fn lower(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

fn item_of(effect: &Effect) -> Option<(Item, Option<Content>)> {
    Some(match &effect.placed {
        Placed::Nothing => (Item::Nothing, None),
        Placed::Directory { mode } => (Item::Directory { mode: *mode }, None),
        Placed::Symlink { target } => (Item::Symlink { target: target.clone() }, None),
        Placed::File { content, mode } => {
            let modified = effect
                .modified
                .map(|time| (time.as_second(), i64::from(time.subsec_nanosecond())));
            let item = Item::File {
                mode: *mode,
                size: content.len(),
                modified,
            };
            (item, Some(content.clone()))
        }
        Placed::Image(_) => return None,
    })
}

fn not_laid(failure: &Failure) -> Error {
    let message = format!(
        "the files of the workspace cannot be mounted for the command: {} failed",
        failure.step
    );
    Error::new(ErrorKind::Unsupported, message)
        .hint("use a kernel of 5.11 or newer, and keep the scratch directory on ext4, xfs, btrfs or tmpfs")
}

fn not_placed(effect: &Effect, failure: &Failure) -> Error {
    let kind = match failure.errno {
        libc::ENOENT => ErrorKind::NotFound,
        libc::ENOTDIR | libc::ELOOP => ErrorKind::NotADirectory,
        libc::ENOSPC | libc::EDQUOT => ErrorKind::QuotaExceeded,
        _ => ErrorKind::Unavailable,
    };
    let shown = effect.path.shown();
    Error::new(kind, format!("{shown} cannot be updated for the running commands")).at_text(shown)
}

fn not_started(command: &Command, failure: &Failure) -> Error {
    let name = match &command.program {
        Program::Arguments(arguments) => arguments.first().map_or("", String::as_str),
        Program::Shell(_) => "the shell",
    };
    match (failure.step.as_str(), failure.errno) {
        ("entering the directory", libc::EXDEV) => Error::path_escape(&command.cwd)
            .hint("a symbolic link in this path leads outside: choose a directory inside the workspace"),
        ("entering the directory", libc::EAGAIN) => Error::new(
            ErrorKind::Unavailable,
            "the directory to run in cannot be looked up while paths are renamed",
        )
        .at(&command.cwd)
        .hint("run it again"),
        ("entering the directory", _) => {
            Error::new(ErrorKind::NotFound, "the directory to run in does not exist").at(&command.cwd)
        }
        ("mounting a layer" | "hiding paths", _) => not_laid(failure),
        ("executing", libc::ENOENT | libc::ENOTDIR) => Error::new(
            ErrorKind::NotFound,
            format!("program `{name}` not found in the sandbox"),
        )
        .hint("name a program of /usr or of the workspace; a toolchain elsewhere is listed under `system_directories`"),
        ("executing", libc::EACCES) => Error::new(ErrorKind::Denied, format!("`{name}` is not executable"))
            .hint("set its executable bit, or run it with its interpreter"),
        ("executing", libc::E2BIG) => Error::new(ErrorKind::TooLarge, "the arguments and the environment are too long")
            .hint("pass long input through standard input or a file"),
        ("reading the arguments", _) => {
            Error::invalid("an argument or a variable has a NUL byte, or no program is given")
        }
        _ => defect(failure),
    }
}

fn defect(failure: &Failure) -> Error {
    let reason = std::io::Error::from_raw_os_error(failure.errno).to_string();
    let reason = reason.split(" (os error").next().unwrap_or_default().to_lowercase();
    Error::new(
        ErrorKind::Unavailable,
        format!("the sandbox failed while {}: {reason}", failure.step),
    )
}
