//! Approval: operations that a person or a program must agree to before they run.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::MutexGuard;

use async_trait::async_trait;
use garret_core::{Actor, Error, ErrorKind, Result, WsPath};

use crate::file_access::FileAccess;
use crate::view::WorkspaceView;

/// The question that an [`Approver`] answers.
#[derive(Debug, Clone)]
pub struct ApprovalRequest {
    /// The workspace's name.
    pub workspace: String,
    /// The operation, by the canonical name of its tool.
    pub operation: Cow<'static, str>,
    /// Every path that the operation names, from the root of the workspace and in its normal form: `tmp/../a` in the
    /// scope `s` is `s/a`. Links in them are not followed.
    pub paths: Vec<String>,
    /// The whole command or code to run, without secrets; `None` for other operations. Its author may be hostile: a
    /// program that displays it must escape characters that do not print.
    pub command: Option<String>,
    /// The directory in which the command runs, from the root of the workspace; empty for the root itself.
    pub cwd: Option<String>,
    /// Unusual properties of the command, a line each: variables that it is given, files that it reads, access to the
    /// network.
    pub notes: Vec<String>,
    /// The effects of the command on the files, a line each; empty unless the approval is about these effects.
    pub effects: Vec<String>,
    /// The actor that asks for the operation.
    pub actor: Actor,
}

/// An operation that needs approval, with the details that an [`ApprovalRequest`] shows.
#[derive(Debug, Clone)]
pub(crate) struct ApprovalQuestion<'a> {
    pub(crate) operation: Cow<'static, str>,
    pub(crate) paths: &'a [&'a str],
    pub(crate) command: Option<String>,
    pub(crate) cwd: Option<String>,
    pub(crate) notes: Vec<String>,
    pub(crate) effects: Vec<String>,
}

impl<'a> ApprovalQuestion<'a> {
    pub(crate) fn new(operation: impl Into<Cow<'static, str>>, paths: &'a [&'a str]) -> Self {
        Self {
            operation: operation.into(),
            paths,
            command: None,
            cwd: None,
            notes: Vec::new(),
            effects: Vec::new(),
        }
    }
}

/// The answer of an [`Approver`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// The operation is allowed this once.
    Allow,
    /// The operation is allowed from now on, in this view (the workspace, or the scope that asked) while the workspace
    /// is open.
    AllowForSession,
    /// The operation is refused; the model is told the reason.
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

impl FileAccess {
    /// Asks for approval if a policy requires it for `operation`; a refusal is `denied` with the reason.
    pub(crate) async fn check_approval(&self, operation: &'static str, paths: &[&str]) -> Result<()> {
        match self.view.approval_rule(operation) {
            Some(rule) => self.ask_approval(ApprovalQuestion::new(operation, paths), &rule).await,
            None => Ok(()),
        }
    }

    /// Asks for approval because of `rule`, unless consent to that rule was given for the session.
    pub(crate) async fn ask_approval(&self, question: ApprovalQuestion<'_>, rule: &str) -> Result<()> {
        let operation = question.operation.clone();
        // Effects of a command are approved each time: consent to those of one command says nothing of the next.
        let may_last = question.effects.is_empty();
        if may_last && self.lock_consents().contains(&self.consent_key(rule)) {
            return Ok(());
        }
        let first = question.paths.first().map(|path| self.without_host_root(path));
        let refused = |why: &str| approval_error(&operation, first.as_deref(), rule, why);
        let Some(approver) = &self.context.approver else {
            return Err(refused("and no approver is configured")
                .hint("attach an approver, or remove the operation from `require_approval`"));
        };
        let paths = question.paths.iter().map(|path| self.path_to_approve(path));
        let request = ApprovalRequest {
            workspace: self.context.name.clone(),
            operation: operation.clone(),
            paths: paths.collect::<Result<_>>()?,
            command: question.command,
            cwd: question.cwd,
            notes: question.notes,
            effects: question.effects,
            actor: (*self.actor).clone(),
        };
        match approver.ask(request).await {
            Approval::Allow => Ok(()),
            Approval::AllowForSession => {
                if may_last {
                    self.lock_consents().insert(self.consent_key(rule));
                }
                Ok(())
            }
            Approval::Deny { reason } => {
                Err(refused(&format!("and it was refused: {reason}")).hint("use another way, or ask for approval"))
            }
        }
    }

    /// Returns the key under which consent for the session is kept.
    fn consent_key(&self, rule: &str) -> (WsPath, String) {
        // The view is a part of the key: consent given in one scope must not hold in the scopes beside it.
        (self.view.base.clone(), rule.to_owned())
    }

    fn lock_consents(&self) -> MutexGuard<'_, HashSet<(WsPath, String)>> {
        self.context.consents.lock().expect("no holder panics")
    }

    /// Returns `path` in its normal form, from the root of the workspace.
    fn path_to_approve(&self, path: &str) -> Result<String> {
        // The caller may be hostile: an approver that compares how a path begins must not be deceived by `..` in it.
        Ok(self.parse_path(path)?.rebase_below(&self.view.base)?.to_string())
    }
}

impl WorkspaceView {
    /// Returns the rule by which `operation` needs approval; `None` if no policy requires it.
    pub(crate) fn approval_rule(&self, operation: &str) -> Option<String> {
        let mut layers = self.layers.iter();
        let is_listed = layers.any(|layer| layer.rules.needs_approval(operation));
        is_listed.then(|| format!("require_approval = {operation}"))
    }
}

fn approval_error(operation: &str, path: Option<&str>, rule: &str, why: &str) -> Error {
    let message = format!("`{operation}` needs approval (`{rule}`), {why}");
    let error = Error::new(ErrorKind::Denied, message).with_rule(rule);
    match path {
        Some(path) => error.at_path_text(path),
        None => error,
    }
}
