//! What a policy says to a command line: data in, decision out.
//!
//! These rules read text, and text can be written in ways that no reader foresees. They keep honest callers from mistakes and ask for
//! approval; they are no boundary. That is the sandbox, and every refusal here says so.

mod dangerous;

use garret_core::path::quote;
use garret_core::{CallTimeLimits, Error, ErrorKind, Limits, Result, SandboxMount, ShellPolicy};

use super::parse::{CommandLine, CommandWord, SimpleCommand};

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

/// A [`ShellPolicy`] checked and made ready for deciding.
#[derive(Debug, Clone)]
pub struct ShellRules {
    policy: ShellPolicy,
    limits: Limits,
    call_times: CallTimeLimits,
    allowed: Vec<CommandRule>,
    denied: Vec<CommandRule>,
    asking: Vec<CommandRule>,
}

impl ShellRules {
    /// Checks the policy; a wrong number, command or name is an `invalid` error that names its key.
    pub fn new(policy: ShellPolicy) -> Result<Self> {
        for (key, names) in [("env_allow", &policy.env_allow), ("secrets", &policy.secrets)] {
            names.iter().try_for_each(|name| check_variable(key, name))?;
        }
        // The sources are looked at when a command needs them.
        let mut placed = policy.mounts.iter().filter(|mount| mount.target.is_some());
        placed.try_for_each(SandboxMount::check_target)?;
        Ok(Self {
            limits: policy.limits.to_limits()?,
            call_times: policy.limits.to_call_times()?,
            allowed: parse_rules("allowed_commands", &policy.allowed_commands)?,
            denied: parse_rules("denied_commands", &policy.denied_commands)?,
            asking: parse_rules("require_approval", &policy.require_approval)?,
            policy,
        })
    }

    /// Returns the policy as written.
    pub fn policy(&self) -> &ShellPolicy {
        &self.policy
    }

    /// Returns how much a command may use.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the time limits of calls.
    pub fn call_times(&self) -> CallTimeLimits {
        self.call_times
    }

    /// Decides on a command line; a refusal is a `denied` error that names the rule.
    pub fn check(&self, line: &CommandLine) -> Result<()> {
        self.check_denied(line)?;
        if self.policy.prevent_dangerous {
            dangerous::check_line(line)?;
        }
        if self.has_lists() && line.is_partial {
            let message = "this command line cannot be parsed completely, so the policy cannot check it";
            let hint = "write the command literally, without text for another shell that is known only at run time";
            return Err(refuse(message, "allowed_commands, denied_commands", hint));
        }
        line.commands
            .iter()
            .try_for_each(|command| self.check_allowed(line, command))
    }

    fn check_denied(&self, line: &CommandLine) -> Result<()> {
        for command in &line.commands {
            if let Some(rule) = self.denied.iter().find(|rule| rule.may_match(command)) {
                let shown = if rule.is_for_all() {
                    &command.program().text
                } else {
                    &rule.text
                };
                return Err(refuse_command(shown, &rule.display_text(), "choose another command"));
            }
        }
        Ok(())
    }

    /// Decides on opening a shell, whose command lines cannot be checked: it must itself be a program that may be run.
    pub(crate) fn check_opened_shell(&self, line: &CommandLine) -> Result<()> {
        self.check_denied(line)?;
        line.commands
            .iter()
            .try_for_each(|command| self.check_allowed(line, command))
    }

    /// Whether programs are allowed or denied by lists.
    pub(crate) fn has_lists(&self) -> bool {
        !self.allowed.is_empty() || !self.denied.is_empty()
    }

    /// Returns the rule by which the command line asks the approver first.
    pub fn asks(&self, line: &CommandLine) -> Option<String> {
        let asks =
            |rule: &&CommandRule| rule.is_for_all() || line.commands.iter().any(|command| rule.may_match(command));
        self.asking.iter().find(asks).map(CommandRule::display_text)
    }

    fn check_allowed(&self, line: &CommandLine, command: &SimpleCommand) -> Result<()> {
        let is_listed = self.allowed.is_empty() || self.allowed.iter().any(|rule| rule.matches(command));
        if is_listed || is_shell_builtin(line, command) {
            return Ok(());
        }
        let names: Vec<_> = self.allowed.iter().map(|rule| quote(&rule.text)).collect();
        let advice = if command.program().is_literal() {
            ""
        } else {
            "write the program name literally; "
        };
        let hint = format!("{advice}allowed commands: {}", names.join(", "));
        Err(refuse_command(&command.program().text, "allowed_commands", &hint))
    }
}

/// Whether the shell itself does it: nothing, a builtin, or a function of the same text.
fn is_shell_builtin(line: &CommandLine, command: &SimpleCommand) -> bool {
    let name = command.program().text.as_str();
    let is_function = !command.is_indirect && line.functions.contains_key(name);
    let is_builtin = name.is_empty() || BUILTINS.contains(&name) || TRANSPARENT.contains(&name);
    command.program().is_literal() && (is_builtin || is_function)
}

fn refuse(message: impl Into<String>, rule: &str, hint: &str) -> Error {
    let error = Error::new(ErrorKind::Denied, message).with_rule(rule);
    error.hint(format!("{hint}; {ADVICE}"))
}

fn refuse_command(shown: &str, rule: &str, hint: &str) -> Error {
    let message = format!("{} may not be run: the policy says {}", quote(shown), quote(rule));
    refuse(message, rule, hint)
}

fn check_variable(key: &str, name: &str) -> Result<()> {
    let is_name_byte = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
    let begins_well = !name.is_empty() && !name.starts_with(|first: char| first.is_ascii_digit());
    if begins_well && name.bytes().all(is_name_byte) {
        return Ok(());
    }
    let message = format!("`{key}` names {}, which is not a valid variable name", quote(name));
    Err(Error::invalid(message).hint("a variable name has letters, digits and `_`"))
}

/// A program, and perhaps arguments, of a list in the configuration.
#[derive(Debug, Clone)]
struct CommandRule {
    key: &'static str,
    text: String,
    words: Vec<String>,
}

fn parse_rules(key: &'static str, texts: &[String]) -> Result<Vec<CommandRule>> {
    if texts.iter().any(|text| text.trim().is_empty()) {
        return Err(Error::invalid(format!("`{key}` has an empty command")).hint("name a program, such as `git`"));
    }
    let rule = |text: &String| CommandRule {
        key,
        text: text.clone(),
        words: text.split_whitespace().map(str::to_owned).collect(),
    };
    Ok(texts.iter().map(rule).collect())
}

impl CommandRule {
    fn is_for_all(&self) -> bool {
        self.text == "*"
    }

    /// Whether the command surely is the one of the rule: the words of the rule stand first in it.
    fn matches(&self, command: &SimpleCommand) -> bool {
        let is_next = |(wanted, word): (&String, &CommandWord)| word.is_literal() && word.text == *wanted;
        let (program, arguments) = (command.program(), command.arguments());
        let is_program = program.is_literal() && is_program(&self.words[0], &program.text);
        let has_arguments = arguments.len() >= self.words.len() - 1;
        self.is_for_all() || is_program && has_arguments && self.words[1..].iter().zip(arguments).all(is_next)
    }

    /// Whether the command may be the one of the rule: the program by any path, and the arguments of the rule anywhere behind it.
    fn may_match(&self, command: &SimpleCommand) -> bool {
        let (program, wanted) = (&self.words[0], &self.words[1..]);
        let is_program = *program == command.program().text || program == command.name();
        let is_option = |text: &&String| text.starts_with('-') && !wanted.contains(text);
        let arguments = command.arguments().iter().map(|word| &word.text);
        let arguments: Vec<_> = arguments.filter(|text| !is_option(text)).collect();
        let has_arguments = |found: &[&String]| found.iter().copied().eq(wanted);
        let is_found = wanted.is_empty() || arguments.windows(wanted.len()).any(has_arguments);
        self.is_for_all() || is_program && is_found
    }

    fn display_text(&self) -> String {
        format!("{} = {}", self.key, self.text)
    }
}

/// Whether `text` names the program `name` of the system, and not a file of that name elsewhere.
fn is_program(name: &str, text: &str) -> bool {
    let directory = text.strip_suffix(name).and_then(|rest| rest.strip_suffix("bin/"));
    let root = directory.map(|directory| directory.strip_suffix('s').unwrap_or(directory));
    text == name || matches!(root, Some("/" | "/usr/" | "/usr/local/"))
}

#[cfg(test)]
mod tests;
