//! Approval of commands and of effects by a person.

use garret_core::path::quote;
use garret_core::{EffectsMode, Network, Origin, PathChange, Program, Result, Secrets, Stdin};

use super::driven::Driven;
use super::result::Changed;
use super::run::Prepared;
use super::workshop::Workshop;
use super::{CommandLine, label};
use crate::Workspace;
use crate::approval::Question;

/// The most characters of a variable, or of standard input, that an approver is shown.
const SHOWN: usize = 1_000;

impl Workspace {
    /// Asks for approval of a command if the policy of the shell, or that of the view, demands it.
    pub(super) async fn approve_command(&self, prepared: &Prepared) -> Result<()> {
        let program = &prepared.command.program;
        let question = |shop: &Workshop| Question {
            command: Some(label::whole(program, &prepared.hidden)),
            notes: notes(shop, prepared, program, Some(&prepared.command.stdin)),
            ..self.question_of(prepared)
        };
        self.approve_program(prepared.operation, program, question).await
    }

    /// Asks for approval of the code that an interpreter runs, if a policy demands it. All of the code is shown.
    pub(super) async fn approve_driven(&self, driven: &Driven, prepared: &Prepared) -> Result<()> {
        let Some(judged) = &driven.judged else { return Ok(()) };
        let question = |shop: &Workshop| Question {
            command: Some(prepared.hidden.mask(&driven.label)),
            // Its standard input is the code, which `command` shows already.
            notes: notes(shop, prepared, judged, None),
            ..self.question_of(prepared)
        };
        self.approve_program(prepared.operation, judged, question).await
    }

    /// Asks for approval of a piece of code for an interpreter that runs already; `text` is all of the code.
    pub(super) async fn approve_piece(&self, operation: &'static str, judged: &Program, text: String) -> Result<()> {
        let question = |shop: &Workshop| Question {
            notes: surroundings(shop),
            command: Some(text),
            ..Question::of(operation, &[])
        };
        self.approve_program(operation, judged, question).await
    }

    fn question_of(&self, prepared: &Prepared) -> Question<'static> {
        Question {
            cwd: Some(prepared.command.cwd.to_string()),
            ..Question::of(prepared.operation, &[])
        }
    }

    async fn approve_program<'a>(
        &self,
        operation: &'static str,
        program: &Program,
        question: impl FnOnce(&Workshop) -> Question<'a>,
    ) -> Result<()> {
        let shop = self.workshop()?;
        let rule = shop.rules.asks(&CommandLine::of(program));
        match rule.or_else(|| self.approval_rule(operation)) {
            Some(rule) => self.ask(question(shop), &rule).await,
            None => Ok(()),
        }
    }

    /// Asks for approval of the effects of a command.
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
            ..Question::of(origin.operation.clone(), &[])
        };
        self.ask(question, "effects = ask").await
    }
}

/// Returns notes for the approver on everything about a command that differs from the defaults.
fn notes(shop: &Workshop, prepared: &Prepared, program: &Program, reads: Option<&Stdin>) -> Vec<String> {
    let secrets = &prepared.hidden;
    let mut notes = surroundings(shop);
    if prepared.operation == "start" || prepared.operation == "create_code_context" {
        notes.push("keeps running in the background".to_owned());
    }
    if !CommandLine::of(program).is_whole {
        notes.push("runs a command that is known only at run time".to_owned());
    }
    if prepared.effects == EffectsMode::Discard {
        notes.push("discards its changes to the files".to_owned());
    }
    notes.extend(prepared.given.iter().map(|(name, value)| {
        let value = quote(&label::bounded(&secrets.mask(value), SHOWN));
        format!("is given the variable {} with the value {value}", quote(name))
    }));
    notes.extend(reads.and_then(|stdin| read_note(stdin, secrets)));
    notes
}

/// Returns notes for the approver on the sandbox, which are the same for every command of this workspace.
fn surroundings(shop: &Workshop) -> Vec<String> {
    let mut notes = Vec::new();
    if shop.is_on_host() {
        notes.push("runs without isolation, with all rights of the user that runs Garret".to_owned());
    }
    if shop.rules.policy().network == Network::Full {
        notes.push("reaches the network of this machine".to_owned());
    }
    notes
}

fn read_note(stdin: &Stdin, secrets: &Secrets) -> Option<String> {
    let bytes = match stdin {
        Stdin::Bytes(bytes) => bytes,
        Stdin::Stream(_) => return Some("reads standard input, whose content is not known yet".to_owned()),
        Stdin::Closed | Stdin::Piped => return None,
    };
    let text = secrets.mask(&String::from_utf8_lossy(bytes));
    let shown = quote(&label::bounded(&text, SHOWN));
    Some(format!("reads {} bytes from standard input: {shown}", bytes.len()))
}
