//! Interpreters that Garret drives to run code. They run as commands do, in the foreground on a layer of their own or
//! on the live layer; but Garret writes their command lines, and their caller separates the output of the code from the
//! reports of the driver.

use std::time::Duration;

use garret_core::{Enforced, Limits, Origin, Process, Program, Result, Secrets, Stdin};

use super::live::{Taking, Told};
use super::processes::LiveProcess;
use super::run::{Prepared, seconds, wall};
use super::workshop::{Workshop, is_isolated};
use super::{Changed, CommandLine, OutputSink, RunRequest, RunResult, label};
use crate::Workspace;

/// An interpreter to run, with the code that the policy judges.
pub(crate) struct Driven {
    /// The operation that it is part of.
    pub(crate) operation: &'static str,
    /// The command that starts the interpreter.
    pub(crate) request: RunRequest,
    /// The program that the policy and the approver judge; `None` if no code of the caller runs.
    pub(crate) judged: Option<Program>,
    /// The code. The journal shows its first line, without secrets.
    pub(crate) label: String,
}

/// The settings for a listener to the output of an interpreter.
pub(crate) struct Hearing {
    /// The secrets that must be masked in all output that is shown.
    pub(crate) secrets: Secrets,
    /// The most bytes of output that are stored.
    pub(crate) most: u64,
}

/// An interpreter that runs in the background.
#[derive(Debug)]
pub(crate) struct DrivenProcess {
    live: LiveProcess,
    secrets: Secrets,
    most: u64,
}

/// The sandbox of an interpreter: the isolation that it gives, and the leftovers that it was opened with.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub(crate) isolated: bool,
    pub(crate) enforced: Vec<Enforced>,
    pub(crate) leftovers: Vec<String>,
}

impl Workspace {
    /// Runs an interpreter in the foreground. The listener gets every byte as it was written, with secrets, and must
    /// mask them itself. The output in the result is not masked, and must not be shown.
    pub(crate) async fn run_driven<S: OutputSink>(
        &self,
        driven: Driven,
        listener: impl FnOnce(Hearing) -> S,
    ) -> Result<(RunResult, S)> {
        let shop = self.workshop()?;
        let mut prepared = self.prepare_driven(shop, &driven)?;
        self.approve_driven(&driven, &prepared).await?;
        let mut listener = listener(Hearing {
            // Taken out of the command, so that its output reaches the listener unmasked. Only the listener can tell
            // output of the code from reports of the driver, and it masks the output itself.
            secrets: std::mem::take(&mut prepared.secrets),
            most: prepared.command.limits.output,
        });
        let result = self.run_prepared(shop, prepared, &mut listener).await?;
        Ok((result, listener))
    }

    /// Starts an interpreter in the background, on the live layer, with a pipe as its standard input.
    pub(crate) async fn start_driven(&self, driven: Driven) -> Result<DrivenProcess> {
        let shop = self.workshop()?;
        let room = shop.take_room()?;
        let mut prepared = self.prepare_driven(shop, &driven)?;
        prepared.check_background()?;
        self.approve_driven(&driven, &prepared).await?;
        prepared.command.stdin = Stdin::Piped;
        let (secrets, most) = (prepared.secrets.clone(), prepared.command.limits.output);
        let limits = Limits {
            // Each call to the interpreter has its own time limit.
            wall: None,
            ..prepared.command.limits.clone()
        };
        let live = self.spawn_on_live_layer(prepared, limits, room).await?;
        Ok(DrivenProcess { live, secrets, most })
    }

    fn prepare_driven(&self, shop: &Workshop, driven: &Driven) -> Result<Prepared> {
        if let Some(judged) = &driven.judged {
            check_judged(shop, judged)?;
        }
        let prepared = self.prepare_unchecked(shop, driven.operation, driven.request.clone())?;
        let label = driven_label(&driven.label, &prepared.secrets);
        Ok(Prepared { label, ..prepared })
    }

    /// Checks and approves a piece of code for an interpreter that runs already. `text` is all of the code, for the
    /// approver. Returns the time limit of the piece.
    pub(crate) async fn admit_driven(
        &self,
        operation: &'static str,
        judged: &Program,
        text: String,
        timeout: Option<Duration>,
    ) -> Result<Option<Duration>> {
        let shop = self.workshop()?;
        check_judged(shop, judged)?;
        let timeout = wall(shop.rules.limits().wall, timeout);
        self.approve_piece(operation, judged, text).await?;
        shop.catch_up().await?;
        Ok(timeout)
    }

    /// Commits the effects of all processes on the live layer so far as a change by `origin`, and returns the result
    /// for the caller.
    pub(crate) async fn checkpoint(&self, origin: Origin) -> Result<Changed> {
        let shop = self.workshop()?;
        let taking = Taking {
            origin: Some(origin),
            told: Told::Caller,
        };
        let settled = shop.settle(taking).await?;
        Ok(settled.map_or_else(Changed::default, |settled| settled.changed(self, shop)))
    }

    /// Returns the origin of a change by code.
    pub(crate) fn driven_origin(&self, operation: &'static str, label: &str, ended: &str, took: Duration) -> Origin {
        let (short, took) = (label::printed(&label::short(label)), seconds(took));
        self.origin(operation, format!("{operation} `{short}`: {ended} after {took}"))
    }
}

/// Returns the label of code in the journal: its first line, without secrets.
pub(crate) fn driven_label(text: &str, secrets: &Secrets) -> String {
    // Masked before it is cut: a secret that is cut in half would no longer be recognised.
    label::head(&secrets.mask(text))
}

/// Checks a program against the rules for commands, if the caller wrote it.
fn check_judged(shop: &Workshop, judged: &Program) -> Result<()> {
    match judged {
        Program::Shell(_) => shop.rules.check(&CommandLine::of(judged)),
        // The caller named a language, not this command line; the policy on languages has allowed it already.
        Program::Arguments(_) => Ok(()),
    }
}

impl DrivenProcess {
    pub(crate) fn process(&mut self) -> &mut dyn Process {
        &mut *self.live.process
    }

    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Returns the most bytes of output that are stored.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    pub(crate) fn surroundings(&self) -> Surroundings {
        let laid = self.live.laid();
        let enforced = laid.sandbox.enforced().to_vec();
        Surroundings {
            isolated: is_isolated(&enforced),
            enforced,
            leftovers: laid.leftovers.clone(),
        }
    }

    /// Ends the interpreter and all processes that it started, and commits their effects as a change by `origin`.
    /// Returns the result as `view` may see it.
    pub(crate) async fn end(self, origin: Origin, view: &Workspace) -> Result<Changed> {
        let taking = Taking {
            origin: Some(origin),
            told: Told::Caller,
        };
        match self.live.end(taking).await? {
            Some(settled) => Ok(settled.changed(view, view.workshop()?)),
            None => Ok(Changed::default()),
        }
    }

    /// Ends the interpreter and all processes that it started, and commits their effects as a change by `origin`. For a
    /// caller that does not wait for the result: effects that cannot be kept are noted for the next listing of the
    /// processes.
    pub(crate) async fn end_untold(self, origin: Origin) {
        self.live.end_untold(Some(origin)).await;
    }
}

pub(crate) use super::request::NoSink;
pub(crate) use super::run::{ended, lowered, millis};
