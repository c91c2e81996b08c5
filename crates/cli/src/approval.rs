//! Asking the person at the terminal.

use std::io::{BufRead, IsTerminal, Write};
use std::sync::Arc;

use async_trait::async_trait;
use garret::path::{printable, quote};
use garret::{Approval, ApprovalRequest, Approver};

/// Asks on standard error and reads the answer from standard input.
#[derive(Debug)]
struct Terminal;

/// The person at the terminal, where there is one; otherwise nobody answers, and what needs approval is refused.
pub(crate) fn terminal() -> Option<Arc<dyn Approver>> {
    let is_there = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    is_there.then(|| Arc::new(Terminal) as Arc<dyn Approver>)
}

#[async_trait]
impl Approver for Terminal {
    async fn ask(&self, request: ApprovalRequest) -> Approval {
        let question = question(&request);
        let answer = tokio::task::spawn_blocking(move || read_answer(&question)).await;
        answer.unwrap_or_else(|_| understood(""))
    }
}

fn question(request: &ApprovalRequest) -> String {
    let path: String = request
        .paths
        .iter()
        .map(|path| format!(" {}", printable(path)))
        .collect();
    let command = request
        .command
        .as_deref()
        .map_or_else(String::new, |command| format!(" {}", quote(command)));
    let effects: String = request.effects.iter().map(|line| format!("  {line}\n")).collect();
    format!(
        "{effects}approve {}{command}{path} in {}? [y]es, [n]o, [a]lways: ",
        request.operation,
        printable(&request.workspace)
    )
}

fn read_answer(question: &str) -> Approval {
    let mut line = String::new();
    let mut stderr = std::io::stderr().lock();
    let asked = stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush());
    let read = asked.and_then(|()| std::io::stdin().lock().read_line(&mut line));
    understood(if read.is_ok() { line.trim() } else { "" })
}

/// What an answer means; anything but a clear yes is a no.
fn understood(answer: &str) -> Approval {
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
    fn only_a_clear_yes_is_a_yes() {
        assert_eq!(understood("Y"), Approval::Allow);
        assert_eq!(understood("always"), Approval::AllowForSession);
        assert!(matches!(understood(""), Approval::Deny { .. }));
        assert!(matches!(understood("yess"), Approval::Deny { .. }));
    }
}
