//! Labels of commands for the journal and for people: bounded in length, and without secrets.

use garret_core::path::escape_unprintable;
use garret_core::{CommandProgram, Secrets};

/// The most characters of a command in the journal.
const LONGEST: usize = 1_000;
/// The most characters of a command in a summary.
const SHORT: usize = 60;
/// The most characters of the first line of code in a label.
const HEAD: usize = 200;

/// Returns the label of a command for the journal.
pub(in crate::shell) fn journal_label(program: &CommandProgram, secrets: &Secrets) -> String {
    truncate_text(&full_command(program, secrets), LONGEST)
}

/// Returns the whole command as text, without secrets.
pub(crate) fn full_command(program: &CommandProgram, secrets: &Secrets) -> String {
    let text = match program {
        CommandProgram::Shell(text) => text.clone(),
        CommandProgram::Arguments(arguments) => arguments
            .iter()
            .map(|one| quote_argument(one))
            .collect::<Vec<_>>()
            .join(" "),
    };
    secrets.mask_text(&text)
}

/// Returns the beginning of a label, for a summary.
pub(in crate::shell) fn short_label(label: &str) -> String {
    truncate_text(label.lines().next().unwrap_or_default(), SHORT)
}

/// Returns the first line of a text that is not blank.
pub(in crate::shell) fn first_line(text: &str) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty());
    truncate_text(first.unwrap_or_default().trim_end(), HEAD)
}

/// Joins the labels of several commands into one, each once.
pub(in crate::shell) fn join_labels(labels: &[String]) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for label in labels {
        if !seen.contains(&label.as_str()) {
            seen.push(label);
        }
    }
    truncate_text(&seen.join("; "), LONGEST)
}

pub(in crate::shell) fn truncate_text(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Quotes an argument for a shell.
fn quote_argument(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

/// Escapes control characters in a label, so that it stays on one line of a message.
pub(crate) fn printable_label(label: &str) -> String {
    escape_unprintable(label).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_bounded_and_holds_no_secret() {
        let secrets = Secrets::new([("T", "hunter2")]);
        let label = journal_label(
            &CommandProgram::Shell(format!("echo hunter2 {}", "x".repeat(5_000))),
            &secrets,
        );
        assert!(label.starts_with("echo [T] xxx"));
        assert_eq!(label.chars().count(), LONGEST + 1);
    }

    #[test]
    fn arguments_are_told_apart() {
        let program = CommandProgram::Arguments(vec!["echo".into(), "a b".into(), "it's".into(), "c".into()]);
        assert_eq!(journal_label(&program, &Secrets::default()), r"echo 'a b' 'it'\''s' c");
    }

    #[test]
    fn a_command_is_named_once() {
        let labels = ["a", "b", "a"].map(str::to_owned);
        assert_eq!(join_labels(&labels), "a; b");
    }
}
