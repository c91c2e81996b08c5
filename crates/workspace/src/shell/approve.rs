//! Commands and effects that somebody must agree to first.

use garret_core::{Origin, PathChange, Program, Result};

use super::CommandLine;
use super::result::Changed;
use crate::Workspace;
use crate::approval::Question;

impl Workspace {
    /// Asks for a command where the policy of the shell, or that of the view, says so.
    pub(super) async fn approve_command(&self, program: &Program, operation: &'static str, label: &str) -> Result<()> {
        let rule = self.workshop()?.rules.asks(&CommandLine::of(program));
        let question = Question {
            command: Some(label.to_owned()),
            ..Question::of(operation, &[])
        };
        match rule {
            Some(rule) => self.ask(question, &rule).await,
            None => self.approve_question(question).await,
        }
    }

    /// Asks whether what a command did is to be kept.
    pub(super) async fn approve_effects(&self, origin: &Origin, paths: &[PathChange]) -> Result<()> {
        let shown = self.seen_paths(paths.to_vec());
        let lines = shown.iter().take(Changed::SHOWN_PATHS).map(|one| {
            let sign = match (&one.before, &one.after) {
                (None, _) => '+',
                (Some(_), Some(_)) => '~',
                (Some(_), None) => '-',
            };
            format!("{sign} {}", garret_core::path::printable(&one.path.shown()))
        });
        let mut effects: Vec<String> = lines.collect();
        if shown.len() > effects.len() {
            effects.push(format!("and {} more", shown.len() - effects.len()));
        }
        let question = Question {
            command: origin.command.clone(),
            effects,
            ..Question::of(origin.operation, &[])
        };
        self.ask(question, "effects = ask").await
    }
}
