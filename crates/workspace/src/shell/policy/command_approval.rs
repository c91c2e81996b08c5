//! Approval of commands and of effects by a person.

use garret_core::path::quote;
use garret_core::{CommandProgram, CommandStdin, EffectsMode, NetworkChoice, PathChange, Result, Secrets};

use crate::CommandChanges;
use crate::approval::ApprovalQuestion;
use crate::shell::CommandLine;
use crate::shell::command_access::CommandAccess;
use crate::shell::effects::commit_effects::EffectsCommit;
use crate::shell::foreground::command_label;
use crate::shell::foreground::run::PreparedCommand;
use crate::shell::interpreter::InterpreterProgram;
use crate::shell::runtime::ShellRuntime;

/// The most characters of a variable, or of standard input, that an approver is shown.
const SHOWN: usize = 1_000;

impl CommandAccess {
    /// Asks for approval of a command if the policy of the shell, or that of the view, demands it.
    pub(in crate::shell) async fn approve_command(&self, prepared: &PreparedCommand) -> Result<()> {
        let program = &prepared.command.program;
        let question = || ApprovalQuestion {
            command: Some(command_label::full_command(program, &prepared.hidden)),
            notes: approval_notes(&self.shell, prepared, program, Some(&prepared.command.stdin)),
            ..command_question(prepared)
        };
        self.approve_program(prepared.operation, program, question).await
    }

    /// Asks for approval of the code that an interpreter runs, if a policy demands it. All of the code is shown.
    pub(in crate::shell) async fn approve_interpreter(
        &self,
        driven: &InterpreterProgram,
        prepared: &PreparedCommand,
    ) -> Result<()> {
        let Some(judged) = &driven.judged else { return Ok(()) };
        let question = || ApprovalQuestion {
            command: Some(prepared.hidden.mask_text(&driven.label)),
            // Its standard input is the code, which `command` shows already.
            notes: approval_notes(&self.shell, prepared, judged, None),
            ..command_question(prepared)
        };
        self.approve_program(prepared.operation, judged, question).await
    }

    /// Asks for approval of a piece of code for an interpreter that runs already; `text` is all of the code.
    pub(in crate::shell) async fn approve_code_piece(
        &self,
        operation: &'static str,
        judged: &CommandProgram,
        text: String,
    ) -> Result<()> {
        let question = || ApprovalQuestion {
            notes: sandbox_notes(&self.shell),
            command: Some(text),
            ..ApprovalQuestion::new(operation, &[])
        };
        self.approve_program(operation, judged, question).await
    }

    async fn approve_program<'a>(
        &self,
        operation: &'static str,
        program: &CommandProgram,
        question: impl FnOnce() -> ApprovalQuestion<'a>,
    ) -> Result<()> {
        let rule = self.shell.rules.asks(&CommandLine::from_program(program));
        match rule.or_else(|| self.files.view.approval_rule(operation)) {
            Some(rule) => self.files.ask_approval(question(), &rule).await,
            None => Ok(()),
        }
    }
}

impl EffectsCommit<'_> {
    /// Asks for approval of the effects of a command.
    pub(in crate::shell) async fn approve_effects(&self, paths: &[PathChange]) -> Result<()> {
        let shown = self.files.view.visible_path_changes(paths.to_vec());
        let lines = shown.iter().take(CommandChanges::SHOWN_PATHS).map(|one| {
            let sign = match (&one.before, &one.after) {
                (None, _) => '+',
                (Some(_), Some(_)) => '~',
                (Some(_), None) => '-',
            };
            format!(
                "{sign} {}",
                garret_core::path::escape_unprintable(&one.path.display_path())
            )
        });
        let mut effects: Vec<String> = lines.collect();
        if shown.len() > effects.len() {
            effects.push(format!("and {} more", shown.len() - effects.len()));
        }
        let question = ApprovalQuestion {
            command: self.origin.command.clone(),
            effects,
            ..ApprovalQuestion::new(self.origin.operation.clone(), &[])
        };
        self.files.ask_approval(question, "effects = ask").await
    }
}

fn command_question(prepared: &PreparedCommand) -> ApprovalQuestion<'static> {
    ApprovalQuestion {
        cwd: Some(prepared.command.cwd.to_string()),
        ..ApprovalQuestion::new(prepared.operation, &[])
    }
}

/// Returns notes for the approver on everything about a command that differs from the defaults.
fn approval_notes(
    shell: &ShellRuntime,
    prepared: &PreparedCommand,
    program: &CommandProgram,
    reads: Option<&CommandStdin>,
) -> Vec<String> {
    let secrets = &prepared.hidden;
    let mut notes = sandbox_notes(shell);
    if prepared.operation == "start" || prepared.operation == "create_code_context" {
        notes.push("keeps running in the background".to_owned());
    }
    if CommandLine::from_program(program).is_partial {
        notes.push("runs a command that is known only at run time".to_owned());
    }
    if prepared.effects == EffectsMode::Discard {
        notes.push("discards its changes to the files".to_owned());
    }
    notes.extend(prepared.given.iter().map(|(name, value)| {
        let value = quote(&command_label::truncate_text(&secrets.mask_text(value), SHOWN));
        format!("is given the variable {} with the value {value}", quote(name))
    }));
    notes.extend(reads.and_then(|stdin| stdin_note(stdin, secrets)));
    notes
}

/// Returns notes for the approver on the sandbox, which are the same for every command of this workspace.
fn sandbox_notes(shell: &ShellRuntime) -> Vec<String> {
    let mut notes = Vec::new();
    if shell.is_on_host() {
        notes.push("runs without isolation, with all rights of the user that runs Garret".to_owned());
    }
    match &shell.rules.policy().network {
        NetworkChoice::None => {}
        NetworkChoice::Full => notes.push("reaches the network of this machine".to_owned()),
        NetworkChoice::Named(named) => notes.push(format!("reaches {}", named.describe())),
    }
    notes
}

fn stdin_note(stdin: &CommandStdin, secrets: &Secrets) -> Option<String> {
    let bytes = match stdin {
        CommandStdin::Bytes(bytes) => bytes,
        CommandStdin::Stream(_) => return Some("reads standard input, whose content is not known yet".to_owned()),
        CommandStdin::Closed | CommandStdin::Piped => return None,
    };
    let text = secrets.mask_text(&String::from_utf8_lossy(bytes));
    let shown = quote(&command_label::truncate_text(&text, SHOWN));
    Some(format!("reads {} bytes from standard input: {shown}", bytes.len()))
}
