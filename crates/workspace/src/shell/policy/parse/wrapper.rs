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

/// Each program with the letters of its options that take a value, its long options that do, and the number of its operands before the
/// command.
const WRAPPERS: &[(&str, &str, &str, usize)] = &[
    ("builtin busybox command coproc nohup setsid toybox", "", "", 0),
    ("chroot", "", "groups userspec", 1),
    ("chrt", "TPD", "", 1),
    ("doas", "uCa", "", 0),
    ("env", "uC", "unset chdir", 0),
    ("exec", "a", "", 0),
    ("flock", "wE", "timeout conflict-exit-code", 1),
    ("ionice", "cnpPu", "class classdata", 0),
    ("nice", "n", "adjustment", 0),
    ("nsenter unshare", "tRSGw", "target root setuid setgid wd", 0),
    ("parallel", "jNnLIaP", "jobs max-args", 0),
    ("proot", "rbwq", "", 0),
    ("runuser", "ugGws", "user group", 0),
    ("setpriv", "", "reuid regid groups bounding-set", 0),
    ("stdbuf", "ioe", "input output error", 0),
    ("strace ltrace", "aeEnoOpPsSuUX", "output trace", 0),
    ("sudo", "CDghpRrTtUu", SUDO_OPTIONS, 0),
    ("taskset", "", "", 1),
    ("time", "fo", "format output", 0),
    ("timeout", "sk", "signal kill-after", 1),
    ("xargs", "adEILnPs", XARGS_OPTIONS, 0),
];
const SUDO_OPTIONS: &str = "user group host prompt chdir chroot role type other-user command-timeout";
const XARGS_OPTIONS: &str = "arg-file delimiter max-args max-procs max-chars max-lines";

/// Returns the commands that `command` runs besides itself.
pub(super) fn inner_commands(command: &SimpleCommand) -> Vec<InnerCommand> {
    let (name, words) = (command.name(), command.words.as_slice());
    let text_option = match name {
        "su" | "flock" | "runuser" => find_value(words, ["-c", "--command"]),
        "env" => find_value(words, ["-S", "--split-string"]),
        _ => None,
    };
    match (name, text_option) {
        (_, Some(text)) => vec![InnerCommand::Text(text.clone())],
        ("eval", _) => join_text(&words[1..]),
        ("trap", _) if words.len() > 2 => vec![InnerCommand::Text(words[1].clone())],
        ("watch", _) => join_text(&words[find_operand(words, "nq", "interval equexit")..]),
        ("find", _) => list_find_actions(words),
        ("command", _) if find_value(words, ["-v", "-V"]).is_some() => Vec::new(),
        (name, _) if SHELLS.contains(&name) => read_shell_source(words),
        (name, _) => unwrap_command(name, words),
    }
}

fn join_text(words: &[CommandWord]) -> Vec<InnerCommand> {
    let text = (!words.is_empty()).then(|| InnerCommand::Text(CommandWord::join(words)));
    text.into_iter().collect()
}

/// Returns the word behind one of two options.
fn find_value<'a>(words: &'a [CommandWord], options: [&str; 2]) -> Option<&'a CommandWord> {
    let place = words.iter().position(|word| options.contains(&word.text.as_str()))?;
    words.get(place + 1)
}

fn unwrap_command(name: &str, words: &[CommandWord]) -> Vec<InnerCommand> {
    let Some((_, letters, long, operands)) = WRAPPERS
        .iter()
        .find(|wrapper| wrapper.0.split(' ').any(|one| one == name))
    else {
        return Vec::new();
    };
    let begin = find_operand(words, letters, long);
    // A word that is known only at run time may be an option, so that nothing after it has a sure place.
    let is_sure = words.get(begin).is_some_and(CommandWord::is_literal);
    let begin = if is_sure { begin + operands } else { begin };
    match words.get(begin..) {
        None | Some([]) => Vec::new(),
        Some(words) => vec![InnerCommand::Words(words.to_vec())],
    }
}

/// Returns the index of the first word that is neither an option nor the value of one.
fn find_operand(words: &[CommandWord], letters: &str, long: &str) -> usize {
    let takes_variables = matches!(words[0].text.rsplit('/').next(), Some("env" | "sudo" | "doas"));
    let mut place = 1;
    while let Some(word) = words.get(place).filter(|word| word.is_literal()) {
        let text = word.text.as_str();
        let takes_value = match (text.strip_prefix("--"), text.strip_prefix('-')) {
            (Some(""), _) => return place + 1,
            (Some(name), _) => long.split(' ').any(|option| option == name),
            // An option before the last letter has the other letters as its value.
            (None, Some(group)) if !group.is_empty() => group
                .find(|letter| letters.contains(letter))
                .is_some_and(|at| at + 1 == group.len()),
            _ if takes_variables && assigned_name(text).is_some() => false,
            _ => return place,
        };
        place += 1 + usize::from(takes_value);
    }
    place.min(words.len())
}

fn list_find_actions(words: &[CommandWord]) -> Vec<InnerCommand> {
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
fn read_shell_source(words: &[CommandWord]) -> Vec<InnerCommand> {
    let operand = find_operand(words, "oO", "rcfile init-file");
    let has_option = |letter: char| {
        let mut options = words[1..operand].iter();
        options.any(|word| !word.text.starts_with("--") && word.text.contains(letter))
    };
    match words.get(operand) {
        None => vec![InnerCommand::Input],
        Some(text) if has_option('c') => vec![InnerCommand::Text(text.clone())],
        Some(word) if has_option('s') || word.text == "-" || word.text == "/dev/stdin" => vec![InnerCommand::Input],
        // `bash <(X)` runs the output of a command.
        Some(word) if word.kind == WordKind::Expanded && !word.outputs.is_empty() => {
            vec![InnerCommand::Text(word.clone())]
        }
        Some(_) => Vec::new(),
    }
}
