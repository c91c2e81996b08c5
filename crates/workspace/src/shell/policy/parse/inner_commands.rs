//! Programs that run the command in their arguments, or in a text that they are given.

use super::reader::assigned_name;
use super::{CommandWord, SimpleCommand, WordKind};

/// A command that a program runs besides itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InnerCommand {
    /// These words.
    Words(Vec<CommandWord>),
    /// This text for a shell.
    Text(CommandWord),
    /// The text for a shell that is the input of the program.
    Input,
}

pub(in crate::shell) const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish"];

/// Programs that run their operands, each with the options that take a value as the next word, and the number of its
/// operands before the command.
const WRAPPERS: &[(&str, &str, usize)] = &[
    ("builtin busybox command coproc exec nohup setsid toybox", "-a", 0),
    ("env", "-u -C --unset --chdir", 0),
    ("nice", "-n --adjustment", 0),
    (
        "setpriv unshare",
        "-R -S -G -w --root --wd --setuid --setgid --reuid --regid --groups",
        0,
    ),
    ("strace", "-a -e -E -n -o -O -p -P -s -S -u -U -X", 0),
    ("sudo", "-C -D -g -h -p -R -r -T -t -U -u --user --group --chdir", 0),
    ("time", "-f -o --format --output", 0),
    ("timeout", "-s -k --signal --kill-after", 1),
    (
        "xargs",
        "-a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-procs",
        0,
    ),
];
/// The options of shells that take a value as the next word.
const SHELL_OPTIONS: &str = "-o -O --rcfile --init-file";

impl SimpleCommand {
    /// Returns the commands that it runs besides itself.
    pub(super) fn inner_commands(&self) -> Vec<InnerCommand> {
        let (name, words) = (self.name(), &self.words[..]);
        let value_of = |option: &str| {
            let place = words.iter().position(|word| word.text == option)?;
            words.get(place + 1).cloned().map(InnerCommand::Text)
        };
        match name {
            "eval" if words.len() > 1 => vec![InnerCommand::Text(CommandWord::join(&words[1..]))],
            "trap" if words.len() > 2 => vec![InnerCommand::Text(words[1].clone())],
            "command" if words.iter().any(|word| word.text == "-v" || word.text == "-V") => Vec::new(),
            "find" => find_actions(words),
            "su" if value_of("-c").is_some() => value_of("-c").into_iter().collect(),
            "env" if value_of("-S").is_some() => value_of("-S").into_iter().collect(),
            _ if SHELLS.contains(&name) => shell_source(words).into_iter().collect(),
            _ => {
                let wrapper = WRAPPERS
                    .iter()
                    .find(|wrapper| wrapper.0.split(' ').any(|one| one == name));
                let inner = wrapper.map_or(&[][..], |(_, options, operands)| inner_words(words, options, *operands));
                (!inner.is_empty())
                    .then(|| InnerCommand::Words(inner.to_vec()))
                    .into_iter()
                    .collect()
            }
        }
    }
}

fn inner_words<'a>(words: &'a [CommandWord], options: &str, operands: usize) -> &'a [CommandWord] {
    let begin = operand_index(words, options);
    // A word that is known only at run time may be an option, so that nothing after it has a sure place.
    let is_sure = words.get(begin).is_some_and(CommandWord::is_literal);
    words
        .get(begin + if is_sure { operands } else { 0 }..)
        .unwrap_or_default()
}

/// Returns the index of the first word that is no option, no value of one, and no assignment.
fn operand_index(words: &[CommandWord], options: &str) -> usize {
    let takes_value = |option: &str| options.split(' ').any(|one| one == option);
    let takes_variables = matches!(words[0].text.rsplit('/').next(), Some("env" | "sudo"));
    let mut place = 1;
    while let Some(word) = words.get(place).filter(|word| word.is_literal()) {
        let text = word.text.as_str();
        let letters = text.strip_prefix('-').filter(|letters| !letters.is_empty());
        let is_assignment = takes_variables && assigned_name(text).is_some();
        if text == "--" || letters.is_none() && !is_assignment {
            return place + usize::from(text == "--");
        }
        // An option before the last letter has the other letters as its value.
        let letter = letters
            .unwrap_or_default()
            .find(|letter| takes_value(&format!("-{letter}")));
        let is_last = !text.starts_with("--") && letter.is_some_and(|at| at + 2 == text.len());
        place += 1 + usize::from(is_last || takes_value(text));
    }
    place.min(words.len())
}

fn find_actions(words: &[CommandWord]) -> Vec<InnerCommand> {
    let is_action = |word: &CommandWord| ["-exec", "-execdir", "-ok", "-okdir"].contains(&word.text.as_str());
    let is_end = |word: &CommandWord| word.text == ";" || word.text == "+";
    let command = |rest: &[CommandWord]| rest.split(is_end).next().map(<[_]>::to_vec);
    let commands = words.split(is_action).skip(1).filter_map(command);
    commands
        .filter(|words| !words.is_empty())
        .map(InnerCommand::Words)
        .collect()
}

/// Returns the text that a shell runs: an argument or its input. A file is not looked into.
fn shell_source(words: &[CommandWord]) -> Option<InnerCommand> {
    let operand = operand_index(words, SHELL_OPTIONS);
    let has_option = |letter: char| {
        let mut options = words[1..operand].iter();
        options.any(|word| !word.text.starts_with("--") && word.text.contains(letter))
    };
    match words.get(operand) {
        None => Some(InnerCommand::Input),
        Some(text) if has_option('c') => Some(InnerCommand::Text(text.clone())),
        Some(word) if has_option('s') || word.text == "-" || word.text == "/dev/stdin" => Some(InnerCommand::Input),
        // `bash <(X)` runs the output of a command.
        Some(word) if word.kind == WordKind::Expanded && !word.outputs.is_empty() => {
            Some(InnerCommand::Text(word.clone()))
        }
        Some(_) => None,
    }
}
