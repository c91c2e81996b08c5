//! The rules on code: the languages that may run, and the contexts.

use std::time::Duration;

use garret_core::{CodePolicy, Error, ErrorKind, Language, Result};

use crate::Workspace;
use crate::shell::command_access::CommandAccess;

/// A [`CodePolicy`], checked.
#[derive(Debug, Clone)]
pub(crate) struct CodeRules {
    pub(crate) policy: CodePolicy,
    /// The time after which an unused context ends.
    pub(crate) idle: Duration,
}

impl CodeRules {
    pub(crate) fn new(policy: CodePolicy) -> Result<Self> {
        if policy.languages.is_empty() {
            return Err(Error::invalid("`languages` is empty")
                .hint("name one or more of `python`, `javascript`, `bash`, or remove the capability `code`"));
        }
        let idle = policy.idle_timeout()?;
        Ok(Self { policy, idle })
    }

    /// Returns the rules of named shells, which end with the workspace or when `kill` ends them.
    pub(super) fn for_named_shells() -> Self {
        Self {
            policy: CodePolicy::default(),
            idle: Duration::MAX,
        }
    }

    /// Refuses a language that the policy does not name.
    pub(super) fn require_language(&self, language: Language) -> Result<()> {
        if self.policy.languages.contains(&language) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Denied,
            format!("this workspace does not run {} code", language.as_str()),
        )
        .with_rule(format!("languages = {}", self.language_names()))
        .hint(format!("use one of these languages: {}", self.language_names())))
    }

    /// Refuses contexts if the policy does not offer them: `unsupported`.
    pub(super) fn require_contexts(&self) -> Result<()> {
        if self.policy.is_stateful {
            return Ok(());
        }
        Err(
            Error::new(ErrorKind::Unsupported, "this workspace does not offer code contexts")
                .with_rule("is_stateful = false")
                .hint("run each piece by itself with `run_code`, or set `is_stateful = true` for `code`"),
        )
    }

    fn language_names(&self) -> String {
        let names: Vec<_> = self.policy.languages.iter().map(|one| one.as_str()).collect();
        names.join(", ")
    }
}

/// The code that one view and one actor may run.
#[derive(Debug)]
pub(super) struct CodeAccess<'a> {
    pub(super) rules: &'a CodeRules,
    pub(super) commands: CommandAccess,
}

impl Workspace {
    /// Returns the policy on code; `None` if this workspace does not run code.
    pub fn code_policy(&self) -> Option<&CodePolicy> {
        self.shared.code.as_ref().map(|rules| &rules.policy)
    }

    /// Returns the access to code; `unsupported` if this workspace does not run code.
    pub(super) fn code(&self) -> Result<CodeAccess<'_>> {
        let rules = self.shared.code.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "this workspace does not run code")
                .hint("declare the capability `code` for it")
        })?;
        let commands = self.commands()?;
        Ok(CodeAccess { rules, commands })
    }
}
