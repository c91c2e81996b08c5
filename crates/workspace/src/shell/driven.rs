//! Programs that Garret drives itself: the interpreters behind code. They run as commands do, in the foreground on a layer of their own or
//! on the live one; but their command lines are Garret's, and who drives them tells their output from what they report.

use std::time::Duration;

use garret_core::{Enforced, Limits, Origin, Process, Program, Result, Secrets, Stdin};

use super::live::{Taking, Told};
use super::processes::LiveProcess;
use super::run::{Prepared, seconds, wall};
use super::workshop::{Workshop, is_isolated};
use super::{Changed, CommandLine, OutputSink, RunRequest, RunResult, label};
use crate::Workspace;

/// A program to drive.
pub(crate) struct Driven {
    /// The operation that it is part of.
    pub(crate) operation: &'static str,
    /// What runs.
    pub(crate) request: RunRequest,
    /// What the policy and the approver look at; none where nobody needs to.
    pub(crate) judged: Option<Program>,
    /// How the journal names it: the first line of this, without secrets.
    pub(crate) label: String,
}

/// What whoever listens to a driven program needs to know.
pub(crate) struct Hearing {
    /// What must be taken out of whatever is shown.
    pub(crate) secrets: Secrets,
    /// How many bytes of output are kept.
    pub(crate) most: u64,
}

/// A driven program that lives on.
#[derive(Debug)]
pub(crate) struct DrivenProcess {
    live: LiveProcess,
    secrets: Secrets,
    most: u64,
}

/// Where a driven program lives.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub(crate) isolated: bool,
    pub(crate) enforced: Vec<Enforced>,
    pub(crate) leftovers: Vec<String>,
}

impl Workspace {
    /// Runs a driven program in the foreground. The listener gets every byte as it was written, secrets included: it is the one who
    /// knows what is output. Nothing of the output in the result is fit to be shown.
    pub(crate) async fn run_driven<S: OutputSink>(
        &self,
        driven: Driven,
        listener: impl FnOnce(Hearing) -> S,
    ) -> Result<(RunResult, S)> {
        let shop = self.workshop()?;
        let mut prepared = self.prepare_driven(shop, &driven)?;
        self.approve_driven(&driven, &prepared).await?;
        let mut listener = listener(Hearing {
            secrets: std::mem::take(&mut prepared.secrets),
            most: prepared.command.limits.output,
        });
        let result = self.run_prepared(shop, prepared, &mut listener).await?;
        Ok((result, listener))
    }

    /// Starts a driven program that lives on, on the live layer; it reads what it is written.
    pub(crate) async fn start_driven(&self, driven: Driven) -> Result<DrivenProcess> {
        let shop = self.workshop()?;
        let room = shop.take_room()?;
        let mut prepared = self.prepare_driven(shop, &driven)?;
        prepared.check_background()?;
        self.approve_driven(&driven, &prepared).await?;
        prepared.command.stdin = Stdin::Piped;
        let (secrets, most) = (prepared.secrets.clone(), prepared.command.limits.output);
        let limits = Limits {
            // Time is given to each call.
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

    /// Checks and approves what a driven program that already lives is to do, of which `text` is all; gives how long it may take.
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

    /// Takes over what everything on the live layer did so far, as a change by `origin`, for whoever waits for that.
    pub(crate) async fn checkpoint(&self, origin: Origin) -> Result<Changed> {
        let shop = self.workshop()?;
        let taking = Taking {
            origin: Some(origin),
            told: Told::Caller,
        };
        let settled = shop.settle(taking).await?;
        Ok(settled.map_or_else(Changed::default, |settled| settled.changed(self, shop)))
    }

    /// Where a change by a driven program comes from.
    pub(crate) fn driven_origin(&self, operation: &'static str, label: &str, ended: &str, took: Duration) -> Origin {
        let (short, took) = (label::printed(&label::short(label)), seconds(took));
        self.origin(operation, format!("{operation} `{short}`: {ended} after {took}"))
    }
}

/// How a journal names code: its first line, without secrets.
pub(crate) fn driven_label(text: &str, secrets: &Secrets) -> String {
    // In this order: half a secret would not be known for one.
    label::head(&secrets.mask(text))
}

/// Only a text for a shell is a command line of the caller's; an interpreter is there because its language is.
fn check_judged(shop: &Workshop, judged: &Program) -> Result<()> {
    match judged {
        Program::Shell(_) => shop.rules.check(&CommandLine::of(judged)),
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

    /// How many bytes of output are kept.
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

    /// Ends it with its whole tree, and takes over what was done as a change by `origin`; whoever called in `view` is told what that was.
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

    /// The same where nobody waits for it.
    pub(crate) async fn end_untold(self, origin: Origin) {
        self.live.end_untold(Some(origin)).await;
    }
}

pub(crate) use super::request::NoSink;
pub(crate) use super::run::{ended, lowered, millis};
