//! A command as journals and people see it: on one line, bounded, without secrets.

use garret_core::path::printable;
use garret_core::{Program, Secrets};

/// The most characters of a command that a journal keeps.
const LONGEST: usize = 1_000;
/// The most characters of a command in a summary.
const SHORT: usize = 60;
/// The most characters of the first line of code.
const HEAD: usize = 200;

/// The command for the journal.
pub(super) fn of(program: &Program, secrets: &Secrets) -> String {
    bounded(&whole(program, secrets), LONGEST)
}

/// All of the command.
pub(super) fn whole(program: &Program, secrets: &Secrets) -> String {
    let text = match program {
        Program::Shell(text) => text.clone(),
        Program::Arguments(arguments) => arguments.iter().map(|one| quoted(one)).collect::<Vec<_>>().join(" "),
    };
    secrets.mask(&text)
}

/// The command in a few words.
pub(super) fn short(label: &str) -> String {
    bounded(label.lines().next().unwrap_or_default(), SHORT)
}

/// The first line of a text that has one.
pub(super) fn head(text: &str) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty());
    bounded(first.unwrap_or_default().trim_end(), HEAD)
}

/// Several commands as one.
pub(super) fn joined(labels: &[String]) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for label in labels {
        if !seen.contains(&label.as_str()) {
            seen.push(label);
        }
    }
    bounded(&seen.join("; "), LONGEST)
}

pub(super) fn bounded(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// An argument as a shell would take it.
fn quoted(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    match !argument.is_empty() && argument.chars().all(is_plain) {
        true => argument.to_owned(),
        false => format!("'{}'", argument.replace('\'', r"'\''")),
    }
}

/// A command on one line, for texts.
pub(super) fn printed(label: &str) -> String {
    printable(label).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_bounded_and_holds_no_secret() {
        let secrets = Secrets::new([("T", "hunter2")]);
        let label = of(&Program::Shell(format!("echo hunter2 {}", "x".repeat(5_000))), &secrets);
        assert!(label.starts_with("echo [T] xxx"));
        assert_eq!(label.chars().count(), LONGEST + 1);
    }

    #[test]
    fn arguments_are_told_apart() {
        let program = Program::Arguments(vec!["echo".into(), "a b".into(), "it's".into(), "c".into()]);
        assert_eq!(of(&program, &Secrets::default()), r"echo 'a b' 'it'\''s' c");
    }

    #[test]
    fn a_command_is_named_once() {
        let labels = ["a", "b", "a"].map(str::to_owned);
        assert_eq!(joined(&labels), "a; b");
    }
}
