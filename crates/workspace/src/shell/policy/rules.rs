//! What a policy says to a command line: data in, decision out.
//!
//! These rules read text, and text can be written in ways that no reader foresees. They keep honest callers from mistakes and ask for
//! approval; they are no boundary. That is the sandbox, and every refusal here says so.

mod dangerous;

use garret_core::path::quote;
use garret_core::{Error, ErrorKind, Limits, Result, ShellPolicy};

use crate::shell::policy::parse::{CommandLine, SimpleCommand, Word};

const ADVICE: &str =
    "this rule only reads the command line and is advice; the sandbox decides what a command can reach";

/// What a shell does itself, without a program and without reaching for files: no allowed command needs to name it.
const BUILTINS: &[&str] = &[
    ":", "[", "[[", "break", "cd", "continue", "declare", "echo", "exit", "export", "false", "getopts", "let", "local",
    "popd", "printf", "pushd", "pwd", "read", "readonly", "return", "set", "shift", "shopt", "test", "times", "true",
    "type", "typeset", "ulimit", "umask", "unset", "wait",
];

/// Programs that run what comes after them; what they run is judged by itself, so that they need no place among the allowed ones either.
const TRANSPARENT: &[&str] = &["builtin", "command", "exec", "eval", "time", "trap"];

/// Where the system keeps its programs.
const PROGRAM_DIRECTORIES: &[&str] = &[
    "/bin",
    "/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
];

/// A [`ShellPolicy`] checked and made ready for deciding.
#[derive(Debug, Clone)]
pub struct ShellRules {
    policy: ShellPolicy,
    limits: Limits,
    allowed: Vec<Rule>,
    denied: Vec<Rule>,
    asking: Vec<Rule>,
}

impl ShellRules {
    /// Checks the policy; a wrong number, command or name is an `invalid` error that names its key.
    pub fn new(policy: ShellPolicy) -> Result<Self> {
        for (key, names) in [("env_allow", &policy.env_allow), ("secrets", &policy.secrets)] {
            names.iter().try_for_each(|name| check_variable(key, name))?;
        }
        Ok(Self {
            limits: policy.limits.to_limits()?,
            allowed: rules("allowed_commands", &policy.allowed_commands)?,
            denied: rules("denied_commands", &policy.denied_commands)?,
            asking: rules("require_approval", &policy.require_approval)?,
            policy,
        })
    }

    /// The policy as written.
    pub fn policy(&self) -> &ShellPolicy {
        &self.policy
    }

    /// How much a command may use.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Decides on a command line; a refusal is a `denied` error that names the rule.
    pub fn check(&self, line: &CommandLine) -> Result<()> {
        let has_lists = !self.allowed.is_empty() || !self.denied.is_empty();
        line.commands
            .iter()
            .try_for_each(|command| self.check_denied(command))?;
        if self.policy.prevent_dangerous {
            dangerous::check(line).map_err(|mistake| refused_mistake(&mistake))?;
        }
        if has_lists && !line.is_whole {
            return Err(unreadable());
        }
        match self.allowed.is_empty() {
            true => Ok(()),
            false => line
                .commands
                .iter()
                .try_for_each(|command| self.check_allowed(line, command)),
        }
    }

    /// The rule by which the command line asks the approver first, where one does.
    pub fn asks(&self, line: &CommandLine) -> Option<String> {
        let asks = |rule: &&Rule| rule.is_for_all() || line.commands.iter().any(|command| rule.is_in(command));
        let found = self.asking.iter().find(asks);
        found.map(Rule::shown)
    }

    fn check_denied(&self, command: &SimpleCommand) -> Result<()> {
        match self.denied.iter().find(|rule| rule.is_for_all() || rule.is_in(command)) {
            None => Ok(()),
            Some(rule) => {
                let what = match rule.is_for_all() {
                    true => &command.program().text,
                    false => &rule.text,
                };
                Err(refusal(what, &rule.shown(), "choose another command"))
            }
        }
    }

    fn check_allowed(&self, line: &CommandLine, command: &SimpleCommand) -> Result<()> {
        let program = command.program();
        if program.text.is_empty() && program.is_literal() {
            return Ok(());
        }
        if self
            .allowed
            .iter()
            .any(|rule| rule.is_for_all() || rule.covers(command))
            || is_of_the_shell(line, command)
        {
            return Ok(());
        }
        let names = self
            .allowed
            .iter()
            .map(|rule| quote(&rule.text))
            .collect::<Vec<_>>()
            .join(", ");
        let hint = match program.is_literal() {
            true => format!("allowed commands: {names}"),
            false => format!("write the program name literally; allowed commands: {names}"),
        };
        Err(refusal(&program.text, "allowed_commands", &hint))
    }
}

/// Whether the shell itself does it: a builtin, or a function of the same text.
fn is_of_the_shell(line: &CommandLine, command: &SimpleCommand) -> bool {
    let name = command.program().text.as_str();
    let runs_more = TRANSPARENT.contains(&name);
    let is_own = command.run_by.is_none() && line.functions.contains(name);
    command.program().is_literal() && (runs_more || BUILTINS.contains(&name) || is_own)
}

fn refusal(what: &str, rule: &str, hint: &str) -> Error {
    let message = format!("{} may not be run: the policy says {}", quote(what), quote(rule));
    Error::new(ErrorKind::Denied, message)
        .with_rule(rule)
        .hint(format!("{hint}; {ADVICE}"))
}

fn refused_mistake(mistake: &dangerous::Mistake) -> Error {
    let message = format!("Refused: this would {}: {}", mistake.would, quote(&mistake.shown));
    Error::new(ErrorKind::Denied, message)
        .with_rule("prevent_dangerous = true")
        .hint(format!("name the exact path in the workspace; {ADVICE}"))
}

fn unreadable() -> Error {
    Error::new(
        ErrorKind::Denied,
        "this command line cannot be parsed completely, so the policy cannot check it",
    )
    .with_rule("allowed_commands, denied_commands")
    .hint(format!(
        "write the command literally, without text for another shell that is known only at run time; {ADVICE}"
    ))
}

fn check_variable(key: &str, name: &str) -> Result<()> {
    let is_name = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    match !name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit()) && name.bytes().all(is_name) {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "`{key}` names {}, which is not a valid variable name",
            quote(name)
        ))
        .hint("a variable name has letters, digits and `_`")),
    }
}

/// A program, and perhaps arguments, of a list in the configuration.
#[derive(Debug, Clone)]
struct Rule {
    key: &'static str,
    text: String,
    words: Vec<String>,
}

fn rules(key: &'static str, texts: &[String]) -> Result<Vec<Rule>> {
    let rule = |text: &String| {
        let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        match words.is_empty() {
            true => Err(Error::invalid(format!("`{key}` has an empty command")).hint("name a program, such as `git`")),
            false => Ok(Rule {
                key,
                text: text.clone(),
                words,
            }),
        }
    };
    texts.iter().map(rule).collect()
}

impl Rule {
    fn is_for_all(&self) -> bool {
        self.text == "*"
    }

    /// Whether it surely is the command: what it says stands first, word for word.
    fn covers(&self, command: &SimpleCommand) -> bool {
        let arguments = command.arguments();
        let is_next = |(wanted, word): (&String, &Word)| word.is_literal() && word.text == *wanted;
        command.program().is_literal()
            && is_program(&self.words[0], &command.program().text)
            && arguments.len() >= self.words.len() - 1
            && self.words[1..].iter().zip(arguments).all(is_next)
    }

    /// Whether it may be in the command: the program by any path, and what it says of arguments anywhere behind it.
    fn is_in(&self, command: &SimpleCommand) -> bool {
        let program = &self.words[0];
        let is_program = *program == command.program().text || program == command.name();
        let wanted = &self.words[1..];
        let is_option = |text: &str| text.starts_with('-') && !wanted.iter().any(|word| word == text);
        let arguments = command.arguments().iter().map(|word| word.text.as_str());
        let arguments: Vec<_> = arguments.filter(|text| !is_option(text)).collect();
        let is_there = |found: &[&str]| found.iter().zip(wanted).all(|(found, wanted)| found == wanted);
        is_program && (wanted.is_empty() || arguments.windows(wanted.len()).any(is_there))
    }

    fn shown(&self) -> String {
        format!("{} = {}", self.key, self.text)
    }
}

/// Whether `text` names the program `name` of the system, and not a file of the same name elsewhere.
fn is_program(name: &str, text: &str) -> bool {
    let directory = text.strip_suffix(name).and_then(|rest| rest.strip_suffix('/'));
    text == name || directory.is_some_and(|directory| PROGRAM_DIRECTORIES.contains(&directory))
}

#[cfg(test)]
mod tests;
