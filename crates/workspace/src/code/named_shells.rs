//! Named shells: each is a Bash that keeps its directory, variables and functions from one command to the next.
//!
//! A named shell is a context behind another operation. It is made by the first command that names it, its commands are
//! judged line by line as those of `run`, and their results have the shape of those of `run`. A workspace needs no
//! capability for code to have named shells.

use garret_core::path::quote;
use garret_core::{CommandProgram, EffectsMode, Error, ErrorKind, ExitCause, Language, ResourceLimit, Result, Secrets};
use tokio::sync::oneshot;

use super::context_operations::ContextPurpose;
use super::context_worker::{CodePieceReport, ContextAnswer, ContextCall};
use super::contexts::CodeContext;
use super::rules::{CodeAccess, CodeRules};
use super::{ContextRequest, driver};
use crate::shell::command_access::CommandAccess;
use crate::shell::interpreter::{duration_millis, full_command};
use crate::{CommandChanges, ProcessStatus, RunRequest, RunResult, unenforced_guards};

/// The operation whose commands a named shell runs.
const OPERATION: &str = "run";
/// The exit code of a command whose shell gave none.
const NO_CODE: i32 = 255;
/// The most characters of a name.
const LONGEST_NAME: usize = 64;
/// The beginning of the id of a shell among the processes.
const ID_PREFIX: &str = "shell:";

/// Returns the id of a shell among the processes.
pub(super) fn process_id(name: &str) -> String {
    format!("{ID_PREFIX}{name}")
}

/// Returns the name in the id of a process, if that is the id of a shell.
pub(crate) fn shell_of_process(id: &str) -> Option<&str> {
    id.strip_prefix(ID_PREFIX)
}

impl CommandAccess {
    /// Runs a command in the shell `name`, which is made if there is none.
    pub(crate) async fn run_in_shell(&self, name: &str, request: RunRequest) -> Result<RunResult> {
        check_name(name)?;
        check_request(&request)?;
        let line = full_command(&request.program, &Secrets::default());
        let judged = CommandProgram::Shell(line.clone());
        let (entry, is_new) = self.find_or_make_shell(name, &judged).await?;
        let text = entry.secrets.mask_text(&line);
        let timeout = self.admit_code(OPERATION, &judged, text, request.timeout).await?;
        let rules = CodeRules::for_named_shells();
        let code = CodeAccess {
            rules: &rules,
            commands: self.clone(),
        };
        let mut piece = code.build_code_piece(Language::Bash, &line, timeout)?;
        piece.most = request.max_output;
        let (reply, answer) = oneshot::channel();
        let call = ContextCall {
            operation: OPERATION,
            piece,
            label: line,
            commands: self.clone(),
            reply,
        };
        let ended = || just_ended_error(name);
        let network_mark = self.shell.network.mark();
        entry.inbox.send(call).map_err(|_| ended())?;
        let answered = answer.await.map_err(|_| ended())??;
        let network = self
            .shell
            .network
            .take_record(network_mark, &self.files, &entry.secrets);
        let result = build_result(&entry, answered);
        Ok(RunResult {
            network,
            shell_is_new: is_new,
            lowered_timeout_ms: self.find_lowered_time(request.timeout).map(duration_millis),
            reached: self.find_reached_limit_of_code(result.limit, result.failure_output(), timeout),
            ..result
        })
    }

    /// Ends the shell `name` and all processes that it started.
    pub(crate) async fn end_shell(&self, name: &str) -> Result<ProcessStatus> {
        let found = self.shell.contexts.find_shell(&self.files.view, name);
        let entry = found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("there is no shell {}", quote(name)))
                .hint("`processes` lists the shells")
        })?;
        entry.end_and_wait("it was killed").await;
        Ok(entry.shell_status(name))
    }

    async fn find_or_make_shell(
        &self,
        name: &str,
        judged: &CommandProgram,
    ) -> Result<(std::sync::Arc<CodeContext>, bool)> {
        let contexts = &self.shell.contexts;
        // Held, so that two commands at once do not make two shells of one name.
        let _making = contexts.making_shell.lock().await;
        if let Some(entry) = contexts.find_shell(&self.files.view, name) {
            return Ok((entry, false));
        }
        // Before a shell is made for it, a command must be allowed.
        self.check_program(judged)?;
        let rules = CodeRules::for_named_shells();
        let code = CodeAccess {
            rules: &rules,
            commands: self.clone(),
        };
        let request = ContextRequest::new(Language::Bash);
        let entry = code.make_context(&request, ContextPurpose::Shell(name)).await?;
        Ok((entry, true))
    }
}

impl CodeContext {
    /// Returns the state of the shell `name`, as that of a process.
    pub(super) fn shell_status(&self, name: &str) -> ProcessStatus {
        let status = self.status();
        ProcessStatus {
            id: process_id(name),
            command: driver::interpreter_name(Language::Bash).to_owned(),
            at: status.at,
            running: status.running,
            exit_code: None,
            ended: status.ended,
            duration_ms: None,
            isolated: status.isolated,
            not_enforced: status.not_enforced,
            ports: Vec::new(),
        }
    }
}

fn check_name(name: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(is_plain) {
        return Ok(());
    }
    Err(
        Error::invalid(format!("{} cannot be the name of a shell", quote(name))).hint(format!(
            "use letters, digits, `_`, `-` and `.`, at most {LONGEST_NAME} in all"
        )),
    )
}

/// Refuses what a command in a named shell cannot have.
fn check_request(request: &RunRequest) -> Result<()> {
    let has_input = request.stdin.is_some() || request.stdin_stream.is_some() || request.terminal.is_some();
    let refused = [
        (!request.cwd.is_empty(), "a directory", "use `cd` in the command"),
        (!request.env.is_empty(), "variables", "use `export` in the command"),
        (
            has_input,
            "standard input",
            "write the input to a file, or use a here-document",
        ),
    ];
    for (is_given, what, hint) in refused {
        if is_given {
            let message = format!("a command in a named shell cannot be given {what}");
            return Err(Error::invalid(message).hint(format!("{hint}, or run the command without `shell`")));
        }
    }
    match request.effects {
        None | Some(EffectsMode::Commit) => Ok(()),
        Some(EffectsMode::Discard | EffectsMode::Ask) => Err(Error::new(
            ErrorKind::Unsupported,
            "the changes of a command in a named shell can be neither discarded nor approved afterwards",
        )
        .hint("run the command without `shell`")),
    }
}

fn just_ended_error(name: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the shell {} ended before the command began", quote(name)),
    )
    .hint("run the command again, in a new shell of this name")
}

fn build_result(entry: &CodeContext, answered: ContextAnswer) -> RunResult {
    let ContextAnswer { heard, took, changed } = answered;
    let CodePieceReport { outcome, output, death } = heard;
    let conditions = entry.surroundings.clone();
    let exit = death.as_ref().and_then(|death| death.exit.as_ref());
    let timed_out = death.as_ref().is_some_and(|death| death.timed_out);
    let changed: CommandChanges = changed.mask_secrets(&entry.secrets);
    RunResult {
        exit_code: exit
            .map(|exit| exit.ended.exit_code())
            .or(outcome.exit_code)
            .unwrap_or(NO_CODE),
        signal: match exit.map(|exit| exit.ended) {
            Some(ExitCause::Signalled(number)) => Some(number),
            _ => None,
        },
        output: output.both.to_text(),
        truncated: output.is_truncated(),
        left_out_bytes: output.stdout.left_out + output.stderr.left_out,
        stdout: output.stdout.into(),
        stderr: output.stderr.into(),
        duration_ms: duration_millis(took),
        timed_out,
        limit: exit
            .and_then(|exit| exit.limit)
            .or(timed_out.then_some(ResourceLimit::Wall)),
        reached: None,
        lowered_timeout_ms: None,
        waited: None,
        usage: None,
        network: None,
        isolated: conditions.isolated,
        not_enforced: unenforced_guards(&conditions.guards),
        guards: conditions.guards,
        changed,
        leftovers: conditions.leftovers,
        corrupt: Vec::new(),
        shell_is_new: false,
        shell_ended: death.map(|death| death.how),
        details: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_plain_word() {
        for name in ["dev", "a.b-c_1"] {
            check_name(name).unwrap();
        }
        for name in ["", "a b", "a/b", "größe", &"x".repeat(65)] {
            assert_eq!(check_name(name).unwrap_err().kind(), ErrorKind::Invalid, "{name}");
        }
    }

    #[test]
    fn the_id_of_a_shell_has_its_name() {
        assert_eq!(shell_of_process(&process_id("dev")), Some("dev"));
        assert_eq!(shell_of_process("p1"), None);
    }
}
