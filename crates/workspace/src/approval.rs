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
    /// Who wants it.
    pub actor: Actor,
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
        let asks = self
            .view
            .layers
            .iter()
            .any(|layer| layer.rules.needs_approval(operation));
        if !asks || self.approved().contains(&self.consent(operation)) {
            return Ok(());
        }
        let refused = |why: &str| refused(operation, paths.first().copied(), why);
        let Some(approver) = &self.shared.approver else {
            return Err(refused("and nobody is here to give it")
                .hint("attach an approver, or take the tool off `require_approval`"));
        };
        let request = ApprovalRequest {
            workspace: self.name().to_owned(),
            operation,
            paths: paths
                .iter()
                .map(|path| self.path_to_approve(path))
                .collect::<Result<_>>()?,
            actor: self.actor().clone(),
        };
        match approver.ask(request).await {
            Approval::Allow => Ok(()),
            Approval::AllowForSession => {
                self.approved().insert(self.consent(operation));
                Ok(())
            }
            Approval::Deny { reason } => {
                Err(refused(&format!("and it was refused: {reason}")).hint("do it another way, or ask for it"))
            }
        }
    }

    /// What consent for the session is given to: an operation in this view, not in the ones beside it.
    fn consent(&self, operation: &'static str) -> (WsPath, &'static str) {
        (self.view.base.clone(), operation)
    }

    fn approved(&self) -> MutexGuard<'_, HashSet<(WsPath, &'static str)>> {
        self.shared.approved.lock().expect("no holder panics")
    }

    /// What a caller wrote is hostile: an approver that looks at how a path begins must see where it leads.
    fn path_to_approve(&self, path: &str) -> Result<String> {
        Ok(self.parse(path)?.below(&self.view.base)?.to_string())
    }
}

fn refused(operation: &str, path: Option<&str>, why: &str) -> Error {
    let error = Error::new(ErrorKind::Denied, format!("`{operation}` needs approval, {why}"))
        .rule(format!("require_approval = {operation}"));
    match path {
        Some(path) => error.at_text(path),
        None => error,
    }
}
