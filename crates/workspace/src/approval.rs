//! Operations that somebody must agree to first.

use std::collections::HashSet;
use std::fmt;
use std::sync::MutexGuard;

use async_trait::async_trait;
use garret_core::{Actor, Error, ErrorKind, Result, WsPath};

use crate::Workspace;

/// What an [`Approver`] is asked.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// The workspace's name.
    pub workspace: String,
    /// The operation, by the canonical name of its tool.
    pub operation: &'static str,
    /// Every path concerned, from the root of the workspace and in its normal form: `tmp/../a` in the scope `s` is `s/a`. Links in them
    /// are not followed.
    pub paths: Vec<String>,
    /// The command or the code where one is concerned: all of it, without secrets. What somebody wrote who may be hostile: whoever
    /// shows it escapes what does not print.
    pub command: Option<String>,
    /// The directory in which that runs, from the root of the workspace; empty for the root itself.
    pub cwd: Option<String>,
    /// What is unusual about it, a line each: variables that it is given, what it reads, that it reaches the network.
    pub notes: Vec<String>,
    /// What the command did to the files, a line each, where that is what is asked about.
    pub effects: Vec<String>,
    /// Who wants it.
    pub actor: Actor,
}

/// What somebody is asked about.
#[derive(Debug, Clone)]
pub(crate) struct Question<'a> {
    pub(crate) operation: &'static str,
    pub(crate) paths: &'a [&'a str],
    pub(crate) command: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) effects: Vec<String>,
}

impl<'a> Question<'a> {
    pub(crate) fn of(operation: &'static str, paths: &'a [&'a str]) -> Self {
        Self {
            operation,
            paths,
            command: None,
            cwd: None,
            notes: Vec::new(),
            effects: Vec::new(),
        }
    }
}

/// What an [`Approver`] answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// This once.
    Allow,
    /// This operation from now on, in this view (the workspace, or the scope that asked) while the workspace is open.
    AllowForSession,
    /// No, for this reason; the model is told.
    Deny {
        /// The reason.
        reason: String,
    },
}

/// Answers for the tools that the policy lists under `require_approval`.
#[async_trait]
pub trait Approver: Send + Sync + fmt::Debug {
    /// Answers one request. The operation waits for it.
    async fn ask(&self, request: ApprovalRequest) -> Approval;
}

impl Workspace {
    /// Asks where a policy says so; a refusal is `denied` with the reason.
    pub(crate) async fn approve(&self, operation: &'static str, paths: &[&str]) -> Result<()> {
        match self.approval_rule(operation) {
            Some(rule) => self.ask(Question::of(operation, paths), &rule).await,
            None => Ok(()),
        }
    }

    /// The rule by which an operation needs approval, where one says so.
    pub(crate) fn approval_rule(&self, operation: &str) -> Option<String> {
        let mut layers = self.view.layers.iter();
        let is_listed = layers.any(|layer| layer.rules.needs_approval(operation));
        is_listed.then(|| format!("require_approval = {operation}"))
    }

    /// Asks because of `rule`, unless consent to it was given for the session.
    pub(crate) async fn ask(&self, question: Question<'_>, rule: &str) -> Result<()> {
        let operation = question.operation;
        // What a command did is looked at each time: consent to one says nothing of the next.
        let may_last = question.effects.is_empty();
        if may_last && self.approved().contains(&self.consent(rule)) {
            return Ok(());
        }
        let first = question.paths.first().map(|path| self.own_name(path));
        let refused = |why: &str| refused(operation, first.as_deref(), rule, why);
        let Some(approver) = &self.shared.approver else {
            return Err(refused("and no approver is configured")
                .hint("attach an approver, or remove the operation from `require_approval`"));
        };
        let paths = question.paths.iter().map(|path| self.path_to_approve(path));
        let request = ApprovalRequest {
            workspace: self.name().to_owned(),
            operation,
            paths: paths.collect::<Result<_>>()?,
            command: question.command,
            cwd: question.cwd,
            notes: question.notes,
            effects: question.effects,
            actor: self.actor().clone(),
        };
        match approver.ask(request).await {
            Approval::Allow => Ok(()),
            Approval::AllowForSession => {
                if may_last {
                    self.approved().insert(self.consent(rule));
                }
                Ok(())
            }
            Approval::Deny { reason } => {
                Err(refused(&format!("and it was refused: {reason}")).hint("use another way, or ask for approval"))
            }
        }
    }

    /// What consent for the session is given to: what a rule speaks of in this view, not in the ones beside it.
    fn consent(&self, rule: &str) -> (WsPath, String) {
        (self.view.base.clone(), rule.to_owned())
    }

    fn approved(&self) -> MutexGuard<'_, HashSet<(WsPath, String)>> {
        self.shared.approved.lock().expect("no holder panics")
    }

    /// What a caller wrote is hostile: an approver that looks at how a path begins must see where it leads.
    fn path_to_approve(&self, path: &str) -> Result<String> {
        Ok(self.parse(path)?.below(&self.view.base)?.to_string())
    }
}

fn refused(operation: &str, path: Option<&str>, rule: &str, why: &str) -> Error {
    let message = format!("`{operation}` needs approval (`{rule}`), {why}");
    let error = Error::new(ErrorKind::Denied, message).rule(rule);
    match path {
        Some(path) => error.at_text(path),
        None => error,
    }
}
