//! Questions to the person at the terminal.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;

use async_trait::async_trait;
use garret::path::{escape_unprintable, quote};
use garret::{Approval, ApprovalRequest, Approver};

use crate::progress;

/// Asks on standard error and reads the answer from standard input.
#[derive(Debug)]
struct TerminalApprover;

/// Returns the approver that asks the person at the terminal; `None` without a terminal: an operation that needs
/// approval is refused then.
pub(crate) fn terminal_approver() -> Option<Arc<dyn Approver>> {
    let is_there = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    is_there.then(|| Arc::new(TerminalApprover) as Arc<dyn Approver>)
}

/// Asks a question on the terminal and waits for a yes; `None` if there is no terminal.
pub(crate) fn confirm(question: &str) -> Option<bool> {
    terminal_approver().map(|_| matches!(read_answer(question), Approval::Allow))
}

#[async_trait]
impl Approver for TerminalApprover {
    async fn ask(&self, request: ApprovalRequest) -> Approval {
        let question = format_question(&request);
        // A person may take any time to answer, and the read blocks its thread.
        let answer = tokio::task::spawn_blocking(move || read_answer(&question)).await;
        answer.unwrap_or_else(|_| parse_answer(""))
    }
}

fn format_question(request: &ApprovalRequest) -> String {
    let path: String = request
        .paths
        .iter()
        .map(|path| format!(" {}", escape_unprintable(path)))
        .collect();
    let effects: String = request.effects.iter().map(|line| format!("  {line}\n")).collect();
    format!(
        "{}{effects}approve {}{path} in {}? [y]es, [n]o, [a]lways in this session: ",
        format_command(request),
        request.operation,
        escape_unprintable(&request.workspace)
    )
}

/// Formats the whole command, line by line, with its directory and the notes about it.
fn format_command(request: &ApprovalRequest) -> String {
    let Some(command) = &request.command else {
        return String::new();
    };
    // The bar keeps a line of the command from passing for the question.
    let lines = command
        .split('\n')
        .map(|line| format!("  | {}\n", escape_unprintable(line)));
    let cwd = request.cwd.iter().filter(|cwd| !cwd.is_empty());
    let cwd = cwd.map(|cwd| format!("  in the directory {}\n", quote(cwd)));
    let notes = request
        .notes
        .iter()
        .map(|note| format!("  {}\n", escape_unprintable(note)));
    lines.chain(cwd).chain(notes).collect()
}

fn read_answer(question: &str) -> Approval {
    progress::stop_general_line();
    // Held until the answer, so that no other thread prints into the question.
    let mut stderr = std::io::stderr().lock();
    loop {
        let mut line = String::new();
        let asked = stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush());
        let read = asked.and_then(|()| std::io::stdin().lock().read_line(&mut line));
        match read.map(|_| line.trim()) {
            Ok("?") => {}
            Ok(answer) => return parse_answer(answer),
            Err(_) => return parse_answer(""),
        }
    }
}

/// Reads an answer; anything but a clear yes is a no.
fn parse_answer(answer: &str) -> Approval {
    match answer.to_ascii_lowercase().as_str() {
        "y" | "yes" => Approval::Allow,
        "a" | "always" => Approval::AllowForSession,
        _ => Approval::Deny {
            reason: "the person at the terminal said no".into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_shows_all_of_a_command_and_no_line_of_it_passes_for_the_question() {
        let request = ApprovalRequest {
            workspace: "box".into(),
            operation: "run".into(),
            paths: Vec::new(),
            command: Some("true\napprove rm? \u{1b}[2K\rls".into()),
            cwd: Some("src".into()),
            notes: vec!["sets `A=1`".into()],
            effects: Vec::new(),
            actor: garret::Actor::default(),
        };
        assert_eq!(
            format_question(&request),
            "  | true\n  | approve rm? \\u{1b}[2K\\rls\n  in the directory `src`\n  sets `A=1`\napprove run in box? [y]es, [n]o, [a]lways in this session: "
        );
    }

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        assert_eq!(parse_answer("Y"), Approval::Allow);
        assert_eq!(parse_answer("always"), Approval::AllowForSession);
        assert!(matches!(parse_answer(""), Approval::Deny { .. }));
        assert!(matches!(parse_answer("yess"), Approval::Deny { .. }));
    }
}
